#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# A slow network changes when things happen and nothing else, and says what it carried.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"

plan 5
check "a dataset is built" small_corpus

# run NAME RANKS OPTION...
run() {
    name=$1
    shift
    small "$@" --train-iters 3 > "$work/$name.log" 2>&1 || { cat "$work/$name.log"; return 1; }
    sed -n 's/.*\(lm loss: [^|]*\).*\(grad norm: [^|]*\).*/\1\2/p' "$work/$name.log" > "$work/$name"
}

# sent KIND: its bytes in the last line.
sent() {
    sed -n "s/^bytes that rank 0 sent over the slow network:.* $1 \([0-9]*\).*/\1/p" "$work/slow.log"
}

same() { [ -s "$work/fast" ] && [ "$(wc -l < "$work/fast")" = 3 ] && cmp "$work/fast" "$work/slow"; }

both() {
    run fast "$@" && run slow "$@" --distributed-backend slow --slow-rate 0.5 --slow-latency 0.2 \
        --slow-jitter 0.1 && same
}

# The model has 58 thousand parameters: fp32 gradients in each of 3 iterations.
gradients() { [ "$(sent all-reduce)" -ge $((3 * 4 * 58000)) ]; }

# As many sums as steps, and the weights were gathered once more, before the first.  Rank 0 sent the
# activations of 4 micro-batches, 32 tokens of 32 numbers, in each iteration.
pieces() {
    [ "$(sent reduce-scatter)" -gt 0 ] && [ "$(sent all-gather)" -gt "$(sent reduce-scatter)" ] &&
        [ "$(sent send)" -ge $((3 * 4 * 32 * 32 * 4)) ]
}

check "replicas: the same losses" both 2
check "all gradients went over it" gradients
check "a pipeline with ZeRO-1: the same losses" both 4 --pipeline-model-parallel-size 2 \
    --use-distributed-optimizer --overlap-param-gather
check "gradients and weights went over it in pieces, and messages" pieces
