#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# A slow network changes when things happen and nothing else, and says what it carried.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"

plan 11
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

# Rates and latencies of each link: the same losses, and the same bytes as with one rate for all.
cat > "$work/links" << 'END'
group here  0-1
group there 2-3
rate    10 0.5    # Gbit/s
        0.5 10
latency 0 0.4
        0.5 0
END
cat > "$work/ranks" << 'END'
rate 1 2 2 1
END
linked() {
    cp "$work/slow.log" "$work/rate.log"
    run slow 4 --pipeline-model-parallel-size 2 --use-distributed-optimizer --overlap-param-gather \
        --distributed-backend slow --slow-links "$work/links" --slow-jitter 0.1 && same
}
bytes() { grep '^bytes that rank 0 sent over the slow network' "$1"; }
check "links between groups of ranks: the same losses" linked
check "that is said" grep -qxF '> links between 2 groups of ranks: 0.5 to 10 Gbit/s, latencies up to 0.5 ms' "$work/slow.log"
check "the same bytes" [ "$(bytes "$work/slow.log")" = "$(bytes "$work/rate.log")" ]
fails "links of as many ranks" 64 "has 2 ranks, and there are 4" small 4 --train-iters 1 --distributed-backend slow \
    --slow-links "$work/ranks"
fails "no such file" 74 "cannot open" small 2 --train-iters 1 --distributed-backend slow --slow-links "$work/none"
echo 'rate 1' > "$work/one"
fails "a rate for all besides" 64 "--slow-links has the rate and the latency of each link" small 1 --train-iters 1 \
    --distributed-backend slow --slow-links "$work/one" --slow-rate 1
