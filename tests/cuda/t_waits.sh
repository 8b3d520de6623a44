#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# The test of the test: when the host leaves out one of the waits that tie transfers to what
# computes, one step of training over the fakes gives another loss or another norm.
program=$PWD/tests/cuda/trireme-fake
[ -x "$program" ] || { echo "1..0 # SKIP no headers of CUDA or no C++ compiler: see configure"; exit 0; }
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"

plan 10
check "a dataset is built" small_corpus

# step WAIT OPTION...: "loss norm" of a step on two ranks with that wait left out, 0: none.
step() {
    FAKE_CUDA_SKIP_WAIT=$1
    export FAKE_CUDA_SKIP_WAIT
    shift
    # shellcheck disable=SC2034 # of the file that was sourced
    trireme=$program
    small 2 --backend cuda --gpu-oversubscribe --timing events --train-iters 1 \
        --global-batch-size 2 --eval-iters 0 "$@" > "$work/log" 2>&1
    losses "$work/log" 1
}

# seen WAIT WHOLE OPTION...: what comes out is not what comes out with all waits, at one of ten
# attempts: the seed draws which stream runs, but when a message of the other rank is there, it does
# not say.
seen() {
    seen_wait=$1 seen_whole=$2
    shift 2
    for FAKE_CUDA_SEED in 1 2 3 4 5 6 7 8 9 10; do
        export FAKE_CUDA_SEED
        seen_got=$(step "$seen_wait" "$@")
        echo "with all waits: $seen_whole; without: $seen_got"
        [ "$seen_got" = "$seen_whole" ] || break
    done
    unset FAKE_CUDA_SEED
    [ "$seen_got" != "$seen_whole" ]
}

# waits NAME FIRST LAST OPTION...: each of the waits FIRST .. LAST; those before are of the first
# calls of NCCL, with which no number comes or goes.
waits() {
    waits_name=$1 wait=$2 waits_last=$3
    shift 3
    whole=$(step 0 "$@")
    check "$waits_name: a step with all waits" [ -n "$whole" ]
    while [ $wait -le "$waits_last" ]; do
        check "$waits_name: without wait $wait" seen $wait "$whole" "$@"
        wait=$((wait + 1))
    done
}

waits replicas 1 2
waits pipeline 5 9 --pipeline-model-parallel-size 2
