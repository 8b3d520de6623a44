#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Training by epochs: as many iterations as the text has, an evaluation of all of it after each
# epoch, and what stops within an epoch resumes as the run that never stopped, or says why it
# cannot.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 28

check "a dataset is built" small_corpus

# 70 samples on 2 replicas, 4 of each in an iteration: 35 for each, 8 iterations in an epoch.
epochs() {
    epochs_ranks=$1
    shift
    small "$epochs_ranks" --n-epochs 3 --data-blocks 70 --seq-length 64 --max-position-embeddings 64 \
        --micro-batch-size 2 --eval-iters 100 "$@"
}
pp2="4 --pipeline-model-parallel-size 2"

# shellcheck disable=SC2086
check "three epochs" epochs $pp2 --save "$work/whole"
echo "$tap_out" > "$work/whole.log"
losses "$work/whole.log" 100 > "$work/whole.losses"
check "they have 24 iterations" [ "$(wc -l < "$work/whole.losses")" = 24 ]

# validations LOG: "where loss perplexity" of each.
validations() {
    sed -n 's/^ validation loss at \(.*\) | lm loss value: \([^ ]*\) | lm loss PPL: \([^ ]*\) .*/\1 \2 \3/p' "$1"
}
validations "$work/whole.log" > "$work/whole.valid"
evaluated() {
    cut -d ' ' -f 1-6 "$work/whole.valid" | sed 's/ [0-9.]*E.*//' > "$work/where"
    printf '%s\n' "iteration 8" "iteration 16" "the end of training for val" \
        "the end of training for test" | diff - "$work/where"
}
check "an evaluation after each epoch and at the end" evaluated
perplexity() {
    awk '{ d = $NF / exp($(NF - 1)) - 1; if (d < 0) d = -d; if (d > 1e-5) { print; bad = 1 } }
        END { exit bad || NR != 4 }' "$work/whole.valid"
}
check "the perplexity is that of the loss" perplexity
told() {
    # 2520 tokens of validation: 39 * 64 + 1, and 23 more.
    grep -qF ' > validation: 39 samples of 64 tokens, each once in an epoch; of 2520 tokens 23 at the end are left over' \
        "$work/whole.log" &&
        grep -qF '> 3 epochs of 8 iterations: of 70 samples each takes 64, in shares of 2 replicas' \
            "$work/whole.log"
}
check "the log says what there is" told

# Two epochs take other samples in another order, so the same model has other losses.
shows() {
    "$trireme" ckpt show "$work/whole" > "$work/show" || return 1
    grep -q '^data_blocks  *70$' "$work/show" && grep -q '^epoch_samples  *64$' "$work/show" &&
        grep -q '^epoch_replicas  *2$' "$work/show" && grep -q '^epoch_seed  *1234$' "$work/show"
}
check "the checkpoint has what the order follows from" shows

# shellcheck disable=SC2086
check "11 iterations" epochs $pp2 --exit-interval 11 --save "$work/half"
echo "$tap_out" > "$work/half.log"
resume() { resume_half epochs 100 "$@"; }
same() {
    # shellcheck disable=SC2086
    resume same $pp2
    cmp "$work/whole.losses" "$work/same.losses" || return 1
    validations "$work/same.all" | cmp "$work/whole.valid" - || return 1
    sums "$work/whole" > "$work/whole.sums"
    sums "$work/same" | cmp - "$work/whole.sums" && [ -s "$work/whole.sums" ]
}
check "resumed within an epoch: equal to the bit" same
other() {
    resume "$@"
    close_losses "$work/whole.losses" "$work/$1.losses" 1e-5
}
check "as many replicas, another layout: equal to 1e-5" other tensor 4 --tensor-model-parallel-size 2

# Killed outright, between checkpoints.
killed() {
    # shellcheck disable=SC2086
    epochs $pp2 --save "$work/killed" --save-interval 5 > "$work/killed.log" 2>&1 &
    killed_pid=$!
    saves "$work/killed" 600
    # It may have come to its end meanwhile.
    for pid in $(rank_pids $killed_pid); do kill -9 "$pid" 2> /dev/null; done
    wait $killed_pid
    # shellcheck disable=SC2086
    epochs $pp2 --load "$work/killed" --save "$work/killed" > "$work/killed.again" 2>&1
    sums "$work/killed" | cmp - "$work/whole.sums"
}
check "killed and started again: the same weights to the bit" killed

# Within an epoch another order would take samples twice.
fails "other replicas are refused" 65 "epoch_replicas 2 and not 1 (ranks over" resume d1 1
fails "another seed is refused" 65 "epoch_seed 1234 and not 7 (--seed)" resume seed 2 --seed 7
fails "other data are refused" 65 "data_blocks 70 and not 69 (the data," resume data 2 --data-blocks 69
fails "and to go on without epochs" 65 "was trained with --n-epochs" \
    small 2 --train-iters 24 --seq-length 64 --max-position-embeddings 64 --load "$work/half"
finetune() {
    resume finetune 2 --seed 7 --finetune
    [ "$(losses "$work/finetune.log" 100 | wc -l)" = 24 ]
}
check "--finetune begins anew" finetune
pretrain() {
    small 2 --train-iters 2 --seq-length 64 --max-position-embeddings 64 --save "$work/pretrained"
}
check "a run by iterations" pretrain
fails "is no part of an epoch" 65 "was trained without --n-epochs" epochs 2 --load "$work/pretrained"
check "but gives its weights" epochs 2 --load "$work/pretrained" --finetune
# Between two epochs the order may change.
between() {
    epochs 2 --exit-interval 8 --save "$work/between" && epochs 2 --seed 7 --load "$work/between"
}
check "between epochs another seed may follow" between

# The loss of a text depends on nothing but the model.
reads() {
    small "$@" --n-epochs 3 --seq-length 64 --max-position-embeddings 64 --eval-iters 100 --skip-train \
        --no-load-optim --load "$work/whole" > "$work/read.log" 2>&1
    validations "$work/read.log" | awk '{ print $(NF - 1) }' > "$work/read.valid"
    tail -n 2 "$work/whole.valid" | awk '{ print $(NF - 1) }' | paste -d ' ' - "$work/read.valid" | awk '
        { d = $1 / $2 - 1; if (d < 0) d = -d; if (NF != 2 || d > 2e-6) { print; bad = 1 } }
        END { exit bad || NR != 2 }' || { cat "$work/read.log"; return 1; }
}
check "evaluated on one rank: the same loss" reads 1 --seed 7
check "in batches of 30: the same loss" reads 2 --global-batch-size 30 --micro-batch-size 5

# What is missing or wrong.
alone() {
    "$trireme" "$@" --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 \
        --max-position-embeddings 32 --tokenizer-type bytes --micro-batch-size 1 --lr 0.002 --n-epochs 2
}
fails "a plan that does not know the data" 64 "give a --data-path that can, or give --data-blocks N" \
    alone plan --data-path /none/such
counted() {
    alone plan --data-path "$work/corpus_text_document" --split 90,5,5 --global-batch-size 8 > "$work/plan" &&
        grep -q '^run: 354 iterations' "$work/plan" &&
        alone train --dry-run --log-arguments --data-blocks 100 > "$work/dry" && grep -q ' n_epochs \.* 2$' "$work/dry"
}
# 45363 tokens of training: 1417 samples of 32, twice 177 batches of 8.
check "a plan that does, and one with --data-blocks" counted
fails "data that are not there" 74 "/none/such" alone train --data-path /none/such
fails "two datasets" 64 "2 datasets with weights" alone train --data-path 0.5 a 0.5 b
fails "more samples than there are" 64 "--data-blocks 5000 are more samples" \
    alone train --data-path "$work/corpus_text_document" --data-blocks 5000
# Names of the papers' programs: --embedding-dim, --num-heads and --warmup-steps are ours.
names() {
    "$trireme" train --dry-run --log-arguments --num-layers 4 --embedding-dim 32 --num-heads 4 --seq-length 32 \
        --max-position-embeddings 32 --tokenizer-type bytes --micro-batch-size 1 --lr 0.002 --n-epochs 2 \
        --data-blocks 100 --warmup-steps 5 --scheduler linear --total-scheduler-steps 90 \
        --optimizer adamw > "$work/names" &&
        grep -q ' hidden_size \.* 32$' "$work/names" && grep -q ' lr_warmup_iters \.* 5$' "$work/names" &&
        grep -q ' lr_decay_iters \.* 90$' "$work/names" &&
        grep -q ' num_attention_heads \.* 4$' "$work/names" || return 1
    for name in batch-size total-steps gradient-accumulate-step checkpoint-steps; do
        "$trireme" train --"$name" 4 2> "$work/refused" && return 1
        grep -q "error: .*--$name.*use --\|error: .*--$name.*multiply --" "$work/refused" || return 1
    done
}
check "names of the papers' programs" names
