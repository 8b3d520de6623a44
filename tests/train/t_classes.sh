#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Sequence classification from GLUE's files: the same samples and metrics in any layout, after a
# stop and after a kill; padded batches with compressed messages; frozen parameters; weights without
# such a head.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 33

dir=$work/glue
mkdir -p "$dir/CoLA"
toy() { awk -v rows="$1" -v seed="$2" -v most=8 -f "$srcdir/tests/train/toy_cola.awk"; }
toy 512 1 > "$dir/CoLA/train.tsv"
toy 101 2 > "$dir/CoLA/dev.tsv"
# A token for each word.
awk -f "$srcdir/tests/train/toy_words.awk" "$dir/CoLA/train.tsv" > "$work/tokenizer.json"

# classes RANKS OPTION...
classes() {
    classes_ranks=$1
    shift
    ranks "$classes_ranks" "$trireme" train --num-layers 4 --hidden-size 32 --num-attention-heads 4 \
        --seq-length 12 --max-position-embeddings 12 --tokenizer-type HuggingFaceTokenizer \
        --tokenizer-model "$work/tokenizer.json" --task-name cola --task-dir "$dir" --micro-batch-size 4 \
        --global-batch-size 16 --n-epochs 3 --lr 0.003 --lr-decay-style linear --attention-dropout 0 \
        --hidden-dropout 0.1 --init-method-std 0.1 --log-interval 1 "$@"
}
told() { grep '^{"matthews_correlation": {"matthews_correlation": ' "$1"; }
number() { told "$1" | tail -1 | sed 's/.*"matthews_correlation": \([-0-9.e]*\)}.*/\1/'; }

check "a task is trained on" classes 1 --save "$work/one" --log-jsonl "$work/one.jsonl"
echo "$tap_out" > "$work/one.log"
losses "$work/one.log" 96 > "$work/one.losses"
sums "$work/one" > "$work/one.sums"
check "in 96 iterations of three epochs" [ "$(wc -l < "$work/one.losses")" = 96 ]
check "the log says the rows" grep -q '^ > validation: 101 rows of cola, of at most 12 tokens and one of 2 classes$' "$work/one.log"
check "metrics are told after each epoch" [ "$(told "$work/one.log" | wc -l)" = 3 ]
check "it learns: Matthews' correlation is 0.6 or more" awk -v m="$(number "$work/one.log")" 'BEGIN { exit !(m >= 0.6) }'
# 101 samples count, though the last batch has 5 of 16: k / 101 are no multiples of anything else.
all() { told "$1" | sed 's/.*"accuracy": \([0-9.]*\)}}/\1/' | awk -v n="$2" '{ x = $1 * n; if (x - int(x + .5) > 1e-5 || int(x + .5) - x > 1e-5) exit 1 }'; }
check "of all rows of the validation data" all "$work/one.log" 101
json() { [ "$(grep -c '"kind": *"validation".*"matthews_correlation": *[0-9].*"accuracy"\|"kind": *"validation".*"accuracy".*"matthews_correlation"' "$work/one.jsonl")" = 3 ]; }
check "the JSON lines have them" json

# Other layouts: the same samples; sums in another order.
layout() {
    layout_name=$1
    shift
    classes "$@" > "$work/$layout_name.log" 2>&1 || { cat "$work/$layout_name.log"; return 1; }
    losses "$work/$layout_name.log" 96 > "$work/$layout_name.losses"
    told "$work/$layout_name.log" > "$work/$layout_name.told"
    head -32 "$work/$layout_name.losses" > "$work/$layout_name.head"
}
head -32 "$work/one.losses" > "$work/one.head"
check "in two stages" layout pp 2 --pipeline-model-parallel-size 2
check "with the losses of one" close_losses "$work/one.head" "$work/pp.head" 1e-4
check "on two tensor ranks with sequence parallelism" layout tp 2 --tensor-model-parallel-size 2 --sequence-parallel
check "with the losses of one" close_losses "$work/one.head" "$work/tp.head" 1e-4
check "on two replicas" layout dp 2
check "whose evaluation has all rows" all "$work/dp.log" 101
check "without the last ones on request" layout drop 1 --drop-last-eval
check "96 of them" all "$work/drop.log" 96

# Stopped, killed.
half() { classes 1 --save "$work/half" --exit-interval 40 > "$work/half.log" 2>&1; }
check "a run ends in its second epoch" half
one() { classes 1 "$@"; }
check "and goes on" resume_half one 96 resumed
check "with the same losses, to the bit" cmp "$work/one.losses" "$work/resumed.losses"
sums "$work/resumed" > "$work/resumed.sums"
check "and the same weights" cmp "$work/one.sums" "$work/resumed.sums"

# 3 bits forward, 6 backward, cached by sample, in two stages; killed in the middle.
packed() {
    classes 2 --pipeline-model-parallel-size 2 --forward-compress-method delta --forward-bits 3 \
        --backward-compress-method fixpoint --backward-bits 6 --hidden-dropout 0 "$@"
}
check "messages of 3 and 6 bits" packed --save "$work/packed"
echo "$tap_out" > "$work/packed.log"
check "learn as well" awk -v m="$(number "$work/packed.log")" 'BEGIN { exit !(m >= 0.6) }'
# An iteration has 4 micro-batches of 4 x 12 x 32 numbers: of 3 and of 6 bits, and each 32 scales of
# 16.  Samples that the first epoch left out: none, since 32 iterations take all 512.
bytes() {
    [ "$(grep -c 'pipeline-forward (bytes): 24576 .*pipeline-backward (bytes): 24576 ' "$work/packed.log")" = 32 ] &&
        [ "$(grep -c 'pipeline-forward (bytes): 2560 .*pipeline-backward (bytes): 4864 ' "$work/packed.log")" = 64 ]
}
check "and have as many bytes as the formula says" bytes
killed() {
    packed --save "$work/killed" --save-interval 40 > "$work/killed.log" 2>&1 &
    killed_pid=$!
    saves "$work/killed" 600
    # It may have come to its end meanwhile.
    for pid in $(rank_pids $killed_pid); do kill -9 "$pid" 2> /dev/null; done
    wait $killed_pid
    packed --load "$work/killed" --save "$work/killed" > "$work/killed.again" 2>&1 || return 1
    sums "$work/packed" > "$work/packed.sums"
    sums "$work/killed" | cmp - "$work/packed.sums" && [ -s "$work/packed.sums" ]
}
check "killed and started again: the same weights to the bit" killed

# An encoder, which must not see padding: on one rank and in two stages that compress.
encoder() {
    encoder_ranks=$1
    shift
    classes "$encoder_ranks" --model-family deberta-v2 --position-buckets 8 --max-relative-positions 16 --hidden-dropout 0 \
        --ffn-hidden-size 64 "$@"
}
check "DeBERTa" encoder 1
echo "$tap_out" > "$work/encoder.log"
losses "$work/encoder.log" 32 > "$work/encoder.losses"
check "learns" awk -v m="$(number "$work/encoder.log")" 'BEGIN { exit !(m >= 0.6) }'
check "in two stages with messages of 3 and 6 bits" encoder 2 --pipeline-model-parallel-size 2 \
    --forward-compress-method delta --forward-bits 3 --backward-compress-method fixpoint --backward-bits 6
echo "$tap_out" > "$work/stages.log"
losses "$work/stages.log" 32 > "$work/stages.losses"
check "with the losses of one before they are compressed" close_losses "$work/encoder.losses" "$work/stages.losses" 1e-4
check "and learns" awk -v m="$(number "$work/stages.log")" 'BEGIN { exit !(m >= 0.6) }'

# What is frozen keeps its weights; the rest does not.
layer() { grep "encoder.layers.$2\." "$1.sums" | grep -v exp_avg; }
cold() {
    cold_name=$1 cold_end=$2
    classes 1 --freeze 'encoder.layers.0.*' 'embedding.*' --exit-interval "$cold_end" --save "$work/$cold_name" &&
        sums "$work/$cold_name" > "$work/$cold_name.sums"
}
frozen() {
    cold frozen 3 || return 1
    cold colder 9 || return 1
    layer "$work/frozen" 0 > "$work/frozen.layer"
    layer "$work/colder" 0 | cmp - "$work/frozen.layer" && [ -s "$work/frozen.layer" ] &&
        [ "$(layer "$work/colder" 1)" != "$(layer "$work/frozen" 1)" ]
}
check "--freeze leaves parameters as they are" frozen

fails "a name of no parameter is refused" 64 "--freeze bert.* is the name of no parameter" classes 1 --freeze 'bert.*'
fails "iterations are refused" 64 "has rows, which are trained in epochs: give --n-epochs" \
    "$trireme" train --num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8 --max-position-embeddings 8 \
    --tokenizer-type bytes --task-name qnli --lr 1e-3 --micro-batch-size 1 --train-iters 1
fails "and other data" 64 "samples of these data have none: give --task-name" \
    "$trireme" train --num-layers 1 --hidden-size 8 --num-attention-heads 1 --seq-length 8 --max-position-embeddings 8 \
    --tokenizer-type bytes --num-labels 2 --lr 1e-3 --data-path "$work/none" --micro-batch-size 1 --train-iters 1
fails "files must be there" 74 "there is no train.tsv and no train.jsonl in $work" \
    classes 1 --task-dir "$work"
