#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Messages of few bits cost nothing where their error is fed back: on a toy CoLA, over three epochs,
# Matthews' correlation with 3 bits forward (delta) and 6 backward differs from that of fp32 by at
# most 2 standard errors of five seeds, and without the feedback (fixpoint, 3 bits forward) by more.
# Differences are those of runs with the same seed.  The embedding is frozen and eight channels
# wide, so that it cannot grow to what 3 bits by themselves leave of it; `ref` has the same bits on
# every machine.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
only_with_all
plan 3

dir=$work/glue
mkdir -p "$dir/CoLA"
toy() { awk -v rows="$1" -v seed="$2" -v most=8 -f "$srcdir/tests/train/toy_cola.awk"; }
toy 2048 1 > "$dir/CoLA/train.tsv"
toy 400 2 > "$dir/CoLA/dev.tsv"
awk -f "$srcdir/tests/train/toy_words.awk" "$dir/CoLA/train.tsv" > "$work/tokenizer.json"

# one SEED OPTION...: Matthews' correlation at the end.
one() {
    one_seed=$1
    shift
    ranks 3 "$trireme" train --backend ref --num-layers 4 --hidden-size 8 --num-attention-heads 4 \
        --seq-length 12 --max-position-embeddings 12 --tokenizer-type HuggingFaceTokenizer \
        --tokenizer-model "$work/tokenizer.json" --task-name cola --task-dir "$dir" \
        --pipeline-model-parallel-size 3 --pipeline-model-parallel-layout 'E|tt|ttL' --micro-batch-size 8 \
        --global-batch-size 16 --n-epochs 3 --lr 0.003 --lr-decay-style linear --attention-dropout 0 \
        --hidden-dropout 0 --init-method-std 0.3 --freeze 'embedding.*' --log-interval 32 --seed "$one_seed" "$@" > "$work/log" 2>&1
    sed -n 's/^{"matthews_correlation": {"matthews_correlation": \([-0-9.e]*\)}.*/\1/p' "$work/log" | tail -1
}
five() {
    for seed in 1 2 3 4 5; do one $seed "$@"; done
}
five > "$work/fp32"
few="--backward-compress-method fixpoint --backward-bits 6 --forward-bits 3"
# shellcheck disable=SC2086
{
    five $few --forward-compress-method delta > "$work/delta"
    five $few --forward-compress-method fixpoint > "$work/direct"
}

learns() { awk '{ sum += $1; n++ } END { print sum / n; exit !(n == 5 && sum / n >= 0.6) }' "$work/fp32"; }
check "fp32 reaches 0.6" learns
# The mean of the differences is within 2 of its standard errors.
same() {
    paste -d ' ' "$work/fp32" "$1" | awk '
        NF == 2 { d[n++] = $2 - $1; sum += $2 - $1 }
        END {
            if (n != 5)
                exit 2
            for (i = 0; i < n; i++)
                squares += (d[i] - sum / n) ^ 2
            error = sqrt(squares / (n - 1) / n)
            print "mean " sum / n ", standard error " error
            exit !(sum / n <= 2 * error && -sum / n <= 2 * error)
        }'
}
check "3 and 6 bits do as well" same "$work/delta"
worse() {
    same "$work/direct"
    [ $? = 1 ]
}
check "and without the error feedback they do not" worse
