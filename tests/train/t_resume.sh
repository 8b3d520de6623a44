#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# A run that stops and resumes is the run that never stopped: to the bit in the same layout, and to
# 1e-5 in any other.  A damaged newest checkpoint costs the iterations since the one before, and
# says so.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 13

check "a dataset is built" small_corpus
tp2pp2="--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2"

# 12 iterations at once, and 6 of them, saved.
# shellcheck disable=SC2086
check "12 iterations" small 4 $tp2pp2 --train-iters 12 --save "$work/whole" --save-interval 100
echo "$tap_out" > "$work/whole.log"
losses "$work/whole.log" 12 > "$work/whole.losses"
# shellcheck disable=SC2086
check "6 iterations by --exit-interval" small 4 $tp2pp2 --train-iters 12 --exit-interval 6 \
    --save "$work/half" --save-interval 3
echo "$tap_out" > "$work/half.log"

# resume NAME RANKS OPTION...: from a copy of the half-way checkpoint to the end.
resume() {
    cp -r "$work/half" "$work/$1"
    resume_name=$1 resume_ranks=$2
    shift 2
    small "$resume_ranks" "$@" --train-iters 12 --load "$work/$resume_name" \
        --save "$work/$resume_name" --save-interval 100 > "$work/$resume_name.log" 2>&1
    cat "$work/half.log" "$work/$resume_name.log" > "$work/$resume_name.all"
    losses "$work/$resume_name.all" 12 > "$work/$resume_name.losses"
    cat "$work/$resume_name.log"
}

same() {
    # shellcheck disable=SC2086
    resume same 4 $tp2pp2
    cmp "$work/whole.losses" "$work/same.losses" || return 1
    sums "$work/whole" > "$work/whole.sums"
    sums "$work/same" > "$work/same.sums"
    [ -s "$work/whole.sums" ] && cmp "$work/whole.sums" "$work/same.sums"
}
check "the same layout: equal to the bit" same

other() {
    resume "$@"
    close_losses "$work/whole.losses" "$work/$1.losses" 1e-5
}
check "one rank: equal to 1e-5" other one 1
check "TP 1, PP 2, DP 2: equal to 1e-5" other replicas 4 --pipeline-model-parallel-size 2
check "TP 4: equal to 1e-5" other tensor 4 --tensor-model-parallel-size 4
check "interleaved: equal to 1e-5" other chunks 2 --pipeline-model-parallel-size 2 \
    --num-virtual-stages-per-pipeline-rank 2
# The loss is on the first stage, and its last rank writes the log.
check "zb-v: equal to 1e-5" other vee 4 --tensor-model-parallel-size 2 \
    --pipeline-model-parallel-size 2 --pipeline-schedule zb-v

# Stages of other sizes, ranks in the other order: to the bit where only the order differs.
order() {
    resume order 4 --pipeline-model-parallel-size 2 --use-tp-pp-dp-mapping
    cmp "$work/replicas.losses" "$work/order.losses" || return 1
    sums "$work/replicas" > "$work/replicas.sums"
    sums "$work/order" > "$work/order.sums"
    [ -s "$work/replicas.sums" ] && cmp "$work/replicas.sums" "$work/order.sums"
}
check "replicas inside: the bits of the other order" order
check "stages of 1 and 3 layers: equal to 1e-5" other uneven 4 --pipeline-model-parallel-size 2 \
    --pipeline-model-parallel-layout 1,3 --use-tp-pp-dp-mapping

# Truncate the newest file to half its length: the run goes back to iteration 3 and arrives at the
# same end.
fallback() {
    cp -r "$work/half" "$work/damaged"
    file=$(find "$work/damaged/iter_0000006" -name '*.h5')
    truncate -s "$(($(stat -c %s "$file") / 2))" "$file"
    # shellcheck disable=SC2086
    small 4 $tp2pp2 --train-iters 12 --load "$work/damaged" > "$work/damaged.log" 2>&1
    cat "$work/damaged.log"
    losses "$work/damaged.log" 12 > "$work/damaged.losses"
    grep -q 'iter_0000006' "$work/damaged.log" || return 1
    [ "$(head -n 1 "$work/damaged.losses" | cut -d ' ' -f 1)" = 4 ] || return 1
    tail -n 9 "$work/whole.losses" | cmp - "$work/damaged.losses"
}
check "a damaged newest checkpoint: back to the one before" fallback

# The order that depends on the layout, and packed documents: in one layout, to the bit.
cyclic() {
    cyclic_args="--pipeline-model-parallel-size 2 --dataloader-type cyclic --eod-mask-loss
        --reset-position-ids --reset-attention-mask"
    # shellcheck disable=SC2086
    {
        small 4 $cyclic_args --train-iters 6 > "$work/cyclic.log" 2>&1
        small 4 $cyclic_args --train-iters 6 --exit-interval 3 --save "$work/cyclic" \
            > "$work/cyclic.all" 2>&1
        small 4 $cyclic_args --train-iters 6 --load "$work/cyclic" >> "$work/cyclic.all" 2>&1
    }
    cat "$work/cyclic.all"
    losses "$work/cyclic.log" 6 > "$work/cyclic.losses"
    [ "$(wc -l < "$work/cyclic.losses")" = 6 ] || return 1
    losses "$work/cyclic.all" 6 | cmp "$work/cyclic.losses" -
}
check "cyclic order and masks: equal to the bit" cyclic
