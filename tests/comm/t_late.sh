#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC1091,SC2154
# A rank that waits for one that is late leaves its core to others.  Seconds of the processor are
# counted, so other programs that run meanwhile change little, and none makes the test fail.
. "$srcdir/tests/tap.sh"

[ "$(nproc)" -ge 2 ] || skip_all "one core: tests/mpirun then has ranks sleep in sched_yield()"
plan 3

# waits TRANSPORT: at most a quarter of a core; without sched_yield() that sleeps, so as a
# benchmark.
waits() {
    share=$(TR_BENCHMARK=1 TR_TEST_RANKS=2 timeout -k 10 100 sh "$srcdir/tests/mpirun" --ranks 2 "$PWD/tests/comm/late" "$1") ||
        return 1
    echo "$share of a core"
    awk -v share="$share" 'BEGIN { exit !(share != "" && share + 0 < 0.25) }'
}

check "over mpi" waits mpi
check "over the slow transport" waits slow

# losses WAY...: of five iterations on two threads that share the larger GEMMs and wait that way.
losses() {
    env -u OMP_WAIT_POLICY "$@" OMP_NUM_THREADS=2 timeout -k 10 100 "$trireme" train --num-layers 2 --hidden-size 64 \
        --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --vocab-size 512 \
        --tokenizer-type NullTokenizer --mock-data --micro-batch-size 4 --global-batch-size 8 --train-iters 5 \
        --lr 1e-3 --eval-iters 0 --log-interval 1 | sed -n 's/.*\(lm loss: [^ ]* \).*\(grad norm: [^ ]* \).*/\1\2/p'
}
same() {
    briefly=$(losses)
    echo "$briefly"
    [ "$(echo "$briefly" | wc -l)" = 5 ] && [ "$briefly" = "$(losses OMP_WAIT_POLICY=active)" ] &&
        [ "$briefly" = "$(losses OMP_WAIT_POLICY=passive)" ]
}
check "losses are the same however threads wait" same
