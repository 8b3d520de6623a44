#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2034,SC2154,SC1091,SC2086
# --async-save: what is saved while training goes on is what a save between iterations has, to the
# bit, in layouts in which ranks write rows together, hold shards, or have the optimizer elsewhere;
# a run that is killed while it is written goes on from a whole checkpoint, to the bit; the copy is
# in the memory plan.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
. "$srcdir/tests/train/broken.sh"

# name, ranks, options.
table='
tensor   4 --tensor-model-parallel-size 2 --use-distributed-optimizer --bf16
pipeline 2 --pipeline-model-parallel-size 2 --fp16 --initial-loss-scale 1024
offload  1 --offload-optimizer cpu
adam8    2 --optimizer 8bit-adam --use-distributed-optimizer --bf16
cocktail 2 --dp-mode cocktail_sgd --topk-ratio 0.5 --randomp-ratio 0.5
chunks   1 --chunk-memory 200K
'
table=${table}"files    1 --offload-optimizer $work --offload-tile 4096"
echo "$table" | grep . > "$work/table"
plan $((8 + 2 * $(wc -l < "$work/table") + ${TR_TEST_ALL:+8} + 0))

check "a dataset is built" small_corpus

train() {
    train_dir=$1 train_ranks=$2
    shift 2
    small "$train_ranks" --train-iters 6 --save "$train_dir" --save-interval 2 "$@"
}
# alike NAME RANKS OPTION...: all three checkpoints of both, and their losses.
alike() {
    name=$1 ranks=$2
    shift 2
    train "$work/$name" "$ranks" "$@" > "$work/$name.log" 2>&1 || { tail -n 5 "$work/$name.log"; return 1; }
    train "$work/$name.async" "$ranks" "$@" --async-save > "$work/$name.async.log" 2>&1 ||
        { tail -n 5 "$work/$name.async.log"; return 1; }
    for run in "$name" "$name.async"; do
        losses "$work/$run.log" 6 > "$work/$run.losses"
        for at in 2 4 6; do
            "$trireme" ckpt verify "$work/$run/iter_000000$at" > "$work/verified" || { cat "$work/verified"; return 1; }
            sums "$work/$run/iter_000000$at"
        done > "$work/$run.sums"
    done
    [ -s "$work/$name.sums" ] && [ "$(wc -l < "$work/$name.losses")" -eq 6 ] &&
        diff "$work/$name.sums" "$work/$name.async.sums" && diff "$work/$name.losses" "$work/$name.async.losses"
}
# Of the last one there is nothing to wait for but its end.
told() {
    [ "$(grep -c '^  it was written in [0-9.]* s, of which training waited [0-9.]* s$' "$work/$1.async.log")" -eq 3 ] &&
        [ "$(grep -c '^  successfully saved checkpoint at iteration ' "$work/$1.async.log")" -eq 3 ]
}
while read -r name ranks options; do
    check "$name: as saved between iterations" alike "$name" "$ranks" $options < /dev/null
    check "$name: the log says how long each took" told "$name" < /dev/null
done < "$work/table"

# breaks NAME KILLS OPTION...: half of the deaths come while a thread copies or writes.
KILL_WITHIN=0.2
broken() {
    broken_dir=$1
    shift
    small 2 --train-iters $((30 * kills_wanted)) --eval-interval 1000 --save "$broken_dir" --load "$broken_dir" \
        --save-interval 2 --keep-last 2 --tensor-model-parallel-size 2 "$@"
}
whole() { broken "$work/whole.$name" "$@" > "$work/whole.$name.log" 2>&1; }
died() { [ $finished = yes ] && [ "$kills" -ge $((kills_wanted / 2)) ]; }
breaks() {
    name=$1 kills_wanted=$2
    shift 2
    check "$name: a run that is never broken" whole "$@"
    kill_often "$kills_wanted" "killed.$name" broken "$work/killed.$name" "$@" --async-save
    echo "# $name: killed $kills times"
    check "$name: one that is killed again and again finishes" died
    check "$name: its losses and norms are those of the unbroken run" \
        same_losses "whole.$name" "killed.$name" $((30 * kills_wanted)) 10
    check "$name: its weights and moments are those of the unbroken run" same_weights "whole.$name" "killed.$name"
}
if [ -n "${TR_TEST_ALL:-}" ]; then
    breaks device 100
    breaks host 20 --offload-optimizer cpu --optimizer 8bit-adam
    breaks files 20 --offload-optimizer "$work" --offload-tile 4096
else
    breaks device 2
fi

# 4 layers of 12 x 32 x 32 and what is beside them, three times in 4 bytes, of one rank.
snapshot() {
    small 1 --train-iters 1 --save "$work/plan" --save-interval 1 --async-save --memory-plan > "$work/plan.log" 2>&1
    grep '^  snapshot' "$work/plan.log"
    mine=$(sed -n 's/^  snapshot  *\([0-9.]*\) MiB/\1/p' "$work/plan.log")
    all=$(sed -n 's/.* number of parameters on .*: \([0-9]*\)$/\1/p' "$work/plan.log")
    # Padding of the vocabulary is not saved.
    awk -v mine="$mine" -v n="$all" 'BEGIN { all = 12 * n / 1048576; exit !(mine > 0.9 * all && mine < all + 0.006) }'
}
check "its memory is planned" snapshot
# As much wherever states lie, before there is a device or the host's memory.
everywhere() {
    for options in '' '--optimizer 8bit-adam' '--offload-optimizer cpu' "--offload-optimizer $work"; do
        "$trireme" plan --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 \
            --max-position-embeddings 16 --vocab-size 100 --micro-batch-size 1 --global-batch-size 1 \
            --save "$work/plan" --save-interval 1 --async-save $options > "$work/plan.log" || return 1
        grep '^  snapshot' "$work/plan.log" || return 1
    done > "$work/snapshots"
    cat "$work/snapshots"
    [ "$(sort -u "$work/snapshots" | wc -l)" -eq 1 ] && [ "$(wc -l < "$work/snapshots")" -eq 4 ]
}
check "as much wherever states lie" everywhere
# Where all is saved at the end of the run there is none.
none() {
    small 1 --train-iters 1 --save "$work/none" --async-save --memory-plan > "$work/none.log" 2>&1 &&
        grep -q 'successfully saved' "$work/none.log" && ! grep snapshot "$work/none.log"
}
check "no copy without --save-interval" none
