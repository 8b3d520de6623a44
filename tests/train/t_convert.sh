#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# A checkpoint does not tell in which layout, precision or distribution of the optimizer it was
# saved.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 13

check "a dataset is built" small_corpus
half="$work/half"
check "6 of 12 iterations, saved" small 1 --train-iters 12 --exit-interval 6 --save "$half"
sums "$half" > "$work/half.sums"

# Loaded and saved again in another layout, precision and distribution: the same masters and
# moments, to the bit.
converts() {
    small "$@" --load "$half" --train-iters 6 --override-opt-param-scheduler \
        --save "$work/again" > "$work/again.log" 2>&1 || { cat "$work/again.log"; return 1; }
    sums "$work/again" | cmp - "$work/half.sums" && rm -r "$work/again"
}
tp2="--tensor-model-parallel-size 2" pp2="--pipeline-model-parallel-size 2"
sharded="--use-distributed-optimizer"
# shellcheck disable=SC2086
{
    check "saved again with TP 2: the same bits" converts 2 $tp2
    check "sharded over 2" converts 2 $sharded
    check "fp16, TP 2" converts 2 --fp16 $tp2
    check "bf16, PP 2, DP 2" converts 4 --bf16 $pp2
    check "fp16, sharded over 4" converts 4 --fp16 $sharded
    check "bf16, TP 2, sharded over 2" converts 4 --bf16 $tp2 $sharded --overlap-param-gather
}

# Tensors whose rows tensor ranks gather in several blocks, the last one smaller.
wide() {
    small 4 --num-layers 1 --hidden-size 520 --ffn-hidden-size 8192 $tp2 "$@" --train-iters 1 --eval-iters 0 \
        --save "$work/wide" >"$work/wide.log" 2>&1 || { cat "$work/wide.log"; return 1; }
    "$trireme" ckpt verify "$work/wide" && rm -r "$work/wide"
}
check "saved by replicas of TP 2, wide" wide
check "sharded, where a rank's part ends within a row" wide $sharded

# stops NAME RANKS OPTION...: 6 + 6 iterations are 12, to the bit, in this precision too.
stops() {
    stops_name=$1 stops_ranks=$2
    shift 2
    {
        small "$stops_ranks" "$@" --train-iters 12 --save "$work/$stops_name.whole" &&
            small "$stops_ranks" "$@" --train-iters 12 --exit-interval 6 \
                --save "$work/$stops_name.half" &&
            small "$stops_ranks" "$@" --train-iters 12 --load "$work/$stops_name.half" \
                --save "$work/$stops_name.half"
    } > "$work/$stops_name.log" 2>&1 || { cat "$work/$stops_name.log"; return 1; }
    sums "$work/$stops_name.whole" > "$work/$stops_name.sums"
    [ -s "$work/$stops_name.sums" ] &&
        sums "$work/$stops_name.half" | cmp - "$work/$stops_name.sums"
}
scaler() { "$trireme" ckpt show "$1" | grep -E '^(loss_scale|growth|hysteresis|adam)'; }
# From 2^24 the scale falls first, so steps are skipped before and after the stop.
scaled() {
    stops fp16 2 --fp16 $sharded --initial-loss-scale 16777216 || return 1
    scaler "$work/fp16.whole" > "$work/fp16.scaler"
    scaler "$work/fp16.half" | cmp - "$work/fp16.scaler" || return 1
    awk '$1 == "adam_steps" { exit !($2 > 0 && $2 < 6) }' "$work/fp16.scaler"
}
check "bf16, TP 2, stopped and resumed" stops bf16 2 --bf16 --tensor-model-parallel-size 2
check "fp16, sharded, while the loss scale falls" scaled
# A run without a loss scale says nothing about that of one with it.
fresh_scale() {
    small 1 --load "$half" --fp16 --train-iters 12 --exit-interval 7 --initial-loss-scale 1024 \
        > "$work/fresh.log" 2>&1 || { cat "$work/fresh.log"; return 1; }
    grep -q 'iteration *7/.* loss scale: 1024.0 ' "$work/fresh.log"
}
check "fp16 that resumes from fp32 has its own loss scale" fresh_scale
