#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# A rank of a training run that stops (as one does whose node swaps, or whose file system is gone):
# all end with the exit code that tells a job to start again, and one sentence says who was missing
# where.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 10
host=$(uname -n)

check "a dataset is built" small_corpus

# stop_one RANK PATTERN OPTION...: stop one of four ranks when the log has a line with PATTERN; the
# exit code is in $code.
stop_one() {
    rank=$1 pattern=$2
    shift 2
    lose_rank "$rank" "$pattern" STOP "$@"
}

# Which call that is depends on where it was.
told() {
    if [ $code = 75 ] &&
        [ "$(grep -c "after $limit seconds: rank $rank on $host did not enter the .*waited for it, and does not" \
            "$work/log")" = 1 ]; then return 0; fi
    echo "exit code $code"
    tail -n 20 "$work/log"
    return 1
}
gone() {
    for _ in $(seq 300); do
        kill -0 "$victim" 2> /dev/null || return 0
        sleep 0.1
    done
    return 1
}

stop_one 2 '^ iteration *3/' --tensor-model-parallel-size 2
check "a rank of a tensor-parallel group" told
check "no process of it is left" gone
stop_one 1 '^ iteration *3/' --pipeline-model-parallel-size 4
check "a stage of a pipeline" told
stop_one 0 '^ iteration *3/' --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
    --distributed-backend slow --slow-rate 100
check "rank 0, over the slow transport" told
# Its groups are there: what makes them cannot be watched (comm/comm.h).
stop_one 3 'building train' --use-distributed-optimizer --log-arguments
check "a rank that starts" told

slow_one() {
    small 2 --train-iters 20 --distributed-timeout-minutes 1h > "$work/log" 2>&1 || { cat "$work/log"; return 1; }
}
check "nothing is said of ranks that come" slow_one
fails "a time that is none" 64 "'90x' will not do: give minutes, or a number followed by s, m or h" \
    "$trireme" train --distributed-timeout-minutes 90x
fails "nor nothing" 64 "'0s' will not do" "$trireme" train --distributed-timeout-minutes 0s
listed() { grep -q "distributed_timeout_minutes \.* $1\$" "$work/log" || { grep timeout "$work/log"; return 1; }; }
check "the log has minutes" listed 60
