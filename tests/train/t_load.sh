#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# What of a checkpoint is loaded and saved, and whose learning rate counts.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 32

check "a dataset is built" small_corpus

check "12 iterations" small 1 --train-iters 12
echo "$tap_out" > "$work/whole.log"
losses "$work/whole.log" 12 > "$work/whole.losses"
check "6 of them, saved" small 1 --train-iters 12 --exit-interval 6 --save "$work/half" \
    --save-interval 3
half="$work/half"
sums "$half" > "$work/half.sums"

# rates LOG: "iteration rate" of each line.
rates() {
    sed -n 's/^ iteration *\([0-9]*\)\/.*learning rate: \([^ ]*\) .*/\1 \2/p' "$1"
}
rates "$work/whole.log" > "$work/whole.rates"

# from NAME OPTION...: train on from the half, log in NAME.log, losses in NAME.losses.
from() {
    from_name=$1
    shift
    small 1 --load "$half" "$@" > "$work/$from_name.log" 2>&1
    from_status=$?
    losses "$work/$from_name.log" 30 > "$work/$from_name.losses"
    rates "$work/$from_name.log" > "$work/$from_name.rates"
    [ $from_status -eq 0 ] || cat "$work/$from_name.log"
    return $from_status
}
first_is() { [ "$(head -n 1 "$work/$1.losses" | cut -d ' ' -f 1)" = "$2" ]; }

# The learning-rate schedule.
fails "another length: both values are named" 65 "lr_decay_samples 96.0 and not 160.0" \
    small 1 --load "$half" --train-iters 20
fails "and what to type" 65 "or --override-opt-param-scheduler to follow the command line" \
    small 1 --load "$half" --train-iters 20
fails "another style" 65 "lr_decay_style cosine and not linear (--lr-decay-style)" \
    small 1 --load "$half" --train-iters 12 --lr-decay-style linear
fails "another rate" 65 "max_lr 0.002 and not 0.001 (--lr)" \
    small 1 --load "$half" --train-iters 12 --lr 0.001
follows_file() {
    from stored --train-iters 20 --lr 0.1 --lr-decay-style linear \
        --use-checkpoint-lr-scheduler || return 1
    tail -n 6 "$work/whole.losses" > "$work/want"
    head -n 6 "$work/stored.losses" | cmp - "$work/want"
}
check "the checkpoint's counts if asked for: nothing changes" follows_file
same_course() {
    from longer --train-iters 20 --lr-decay-iters 12 || return 1
    head -n 6 "$work/longer.losses" | cmp - "$work/want"
}
check "a longer run with the decay of the shorter one" same_course
# The first executed step has rate 0, so line n shows the rate of n - 1 iterations.
follows_line() {
    from given --train-iters 20 --lr 0.004 --lr-decay-style constant \
        --override-lr-scheduler || return 1
    [ "$(sort -u -k 2 "$work/given.rates" | cut -d ' ' -f 2)" = 4.000E-03 ] && first_is given 7
}
check "the command line's counts if asked for" follows_line

# Weights only.
new_optimizer() {
    from new --train-iters 12 --no-load-optim --no-load-rng || return 1
    first_is new 7 || return 1
    [ "$(sed -n 7p "$work/whole.losses")" = "$(sed -n 1p "$work/new.losses")" ] || return 1
    cut -d ' ' -f 2 "$work/new.rates" > "$work/new.only"
    head -n 6 "$work/whole.rates" | cut -d ' ' -f 2 | cmp - "$work/new.only"
}
check "--no-load-optim: weights and place, and the rate of a new run" new_optimizer
anew() {
    from tuned --train-iters 4 --finetune --lr 0.001 || return 1
    first_is tuned 1 && [ "$(wc -l < "$work/tuned.losses")" -eq 4 ] &&
        grep -q "successfully loaded checkpoint from $half at iteration 0" "$work/tuned.log" &&
        awk 'NR == FNR { random = $2; nextfile } { exit !($2 < random - 0.2) }' \
            "$work/whole.losses" "$work/tuned.losses"
}
check "--finetune: trained weights, iteration 1, another learning-rate schedule" anew
weights_only() {
    from lean --train-iters 6 --override-opt-param-scheduler --save "$work/lean" --no-save-optim \
        --no-save-rng || return 1
    sums "$work/lean" > "$work/lean.sums"
    grep ' model/' "$work/half.sums" | cmp - "$work/lean.sums" &&
        "$trireme" ckpt show "$work/lean" | grep -q '^optimizer states  *no: weights only$' &&
        "$trireme" ckpt verify "$work/lean" | grep -q 'whole: .*; weights only'
}
check "--no-save-optim: the weights and nothing else" weights_only
fails "there is no resuming from it" 65 "give --no-load-optim to go on" \
    small 1 --load "$work/lean" --train-iters 12
check "but with a new optimizer" small 1 --load "$work/lean" --train-iters 12 --no-load-optim
check "or anew" small 1 --load "$work/lean" --train-iters 2 --finetune

# Which one.
step() {
    from step --train-iters 12 --ckpt-step 3 || return 1
    tail -n 9 "$work/whole.losses" | cmp - "$work/step.losses"
}
check "--ckpt-step: that iteration" step
fails "and no other, and which there are" 74 "the folder has 3 and 6" \
    small 1 --load "$half" --train-iters 12 --ckpt-step 4
own_folder() {
    from own --train-iters 12 --load "$half/iter_0000003/" || return 1
    tail -n 9 "$work/whole.losses" | cmp - "$work/own.losses"
}
check "the folder of one checkpoint stands for it" own_folder

# Where there is none.
fails "--load of a folder that is not there" 74 "there is no checkpoint in $work/none, which --load names" \
    small 1 --load "$work/none" --save "$work/other" --train-iters 12
check "nothing is made then" test ! -e "$work/other"
both() {
    small 1 --load "$work/chain" --save "$work/./chain/" --train-iters 1 > "$work/both.log" 2>&1
    both_code=$?
    cat "$work/both.log"
    [ $both_code = 0 ] && ! grep "no checkpoint found" "$work/both.log"
}
check "unless it is that of --save, and then without a warning" both
# nothing_in FOLDER TEXT: a warning on stderr, and Megatron's line in the log.
nothing_in() {
    small 1 --load "$1" --train-iters 1 > "$work/nothing.log" 2> "$work/nothing.err"
    nothing_code=$?
    cat "$work/nothing.log" "$work/nothing.err"
    [ $nothing_code = 0 ] && grep -q "no checkpoint found in $1, starting from random weights$2" \
        "$work/nothing.err" && grep -q "^WARNING: could not find the metadata file" "$work/nothing.log"
}
mkdir "$work/empty" "$work/nameless"
check "a folder without a checkpoint: a warning" nothing_in "$work/empty" '$'
ln -s "$half/iter_0000003" "$work/nameless/iter_0000003"
check "without a tracker: which there are" nothing_in "$work/nameless" ": there are those of iterations 3,"
fails "--exit-on-missing-checkpoint" 74 "there is no checkpoint in $work/none" \
    small 1 --load "$work/none" --train-iters 12 --exit-on-missing-checkpoint
fails "--finetune without --load" 64 "finetune without a place to load from" \
    refused 1 --train-iters 12 --finetune

# The model from the checkpoint.
# shellcheck disable=SC2120
bare() {
    ranks 1 "$trireme" train --use-checkpoint-args --load "$half" \
        --data-path "$work/corpus_text_document" --split 90,5,5 --micro-batch-size 1 \
        --global-batch-size 8 --lr 0.002 --lr-decay-style cosine --lr-warmup-fraction .1 \
        --eval-interval 1000 --eval-iters 1 --log-interval 1 --train-iters 12 "$@"
}
described() {
    # shellcheck disable=SC2119
    bare > "$work/bare.log" 2>&1 || { cat "$work/bare.log"; return 1; }
    losses "$work/bare.log" 12 | cmp - "$work/want"
}
check "--use-checkpoint-args: the model need not be described" described
linked() {
    ln -s "$half/iter_0000003" "$work/base"
    bare --load "$work/base" > "$work/linked.log" 2>&1 || { cat "$work/linked.log"; return 1; }
    losses "$work/linked.log" 12 > "$work/linked.losses"
    tail -n 9 "$work/whole.losses" | cmp - "$work/linked.losses"
}
check "a link to one checkpoint, too" linked
fails "what is given counts" 65 "num_layers 4 and not 3" bare --num-layers 3

# What computes is in the checkpoint, and another backend is reported.
other_kernels() {
    "$trireme" ckpt show "$half" | grep -q '^  "kernels": "vectors of [0-9]* floats' || return 1
    from ref --train-iters 12 --backend ref || return 1
    ! grep 'the checkpoint was computed with' "$work/step.log" &&
        grep -q 'computed with vectors of .* and this run computes with plain loops: it goes on' \
            "$work/ref.log"
}
check "other kernels than the checkpoint's are reported" other_kernels
fails "--cpu-gemm onednn without bf16" 64 "--cpu-gemm onednn is about GEMMs in bf16" \
    refused 1 --train-iters 1 --cpu-gemm onednn
fails "--cpu-gemm without the cpu backend" 64 "this run has --backend ref" \
    small 1 --train-iters 1 --cpu-gemm own --backend ref
