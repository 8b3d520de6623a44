#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# Training over fakes of CUDA's runtime, cuBLASLt and NCCL, with emulated kernels: losses and norms of the
# CPU in every layout of equality.sh, which tests/gpu/run repeats on a GPU.  And leaving out one of the
# waits that tie transfers to what computes is noticed.
program=$PWD/tests/cuda/trireme-fake
if [ ! -x "$program" ]; then
    echo "1..0 # SKIP there are no headers of CUDA and NCCL, or no C++ compiler: see configure"
    exit 0
fi
CPU_TRIREME=$PWD/trireme CUDA_TRIREME=$program
MORE_TESTS=1
. "$srcdir/tests/cuda/equality.sh"

sharded() {
    train "$program" cuda fp32 2 --overlap-grad-reduce --overlap-param-gather \
        --use-distributed-optimizer --ddp-bucket-size 5000 > "$work/waits.log" 2>&1
}

# Of one iteration every third.  Many are only there for another order of the streams than the one that
# the fake draws; some must matter.
waits_matter() {
    FAKE_CUDA_TELL=1
    export FAKE_CUDA_TELL
    sharded || return 1
    unset FAKE_CUDA_TELL
    losses "$work/waits.log" $iterations > "$work/with-all-waits"
    waits=$(sed -n 's/^fake CUDA: \([0-9]*\) waits$/\1/p' "$work/waits.log" | head -n 1)
    [ "${waits:-0}" -gt $iterations ] || return 1
    wait_number=1
    while [ $wait_number -le $((waits / iterations)) ]; do
        FAKE_CUDA_SKIP_WAIT=$wait_number
        export FAKE_CUDA_SKIP_WAIT
        sharded
        unset FAKE_CUDA_SKIP_WAIT
        losses "$work/waits.log" $iterations > "$work/without-one"
        cmp -s "$work/with-all-waits" "$work/without-one" || return 0
        wait_number=$((wait_number + 3))
    done
    echo "none of them was noticed"
    return 1
}
check "a wait that is left out changes the losses" waits_matter
