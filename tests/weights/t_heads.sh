#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Models with a head of classes go out as transformers' ...ForSequenceClassification and come back,
# equal to the byte; a folder without that head is refused by an import, which leaves nothing.
. "${srcdir:?}/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 30
torch=$(cd "$srcdir/tests/weights/torch" && pwd)
cd "$work" || exit 1

# made FAMILY LABELS OPTION...: a checkpoint of a small classifier, of random weights.
made() {
    made_family=$1 made_labels=$2
    shift 2
    "$trireme" train --model-family "$made_family" --num-labels "$made_labels" --mock-data --micro-batch-size 1 --lr 0.01 \
        --train-iters 1 --eval-iters 0 --no-save-optim --num-layers 2 --hidden-size 32 --num-attention-heads 4 \
        --seq-length 16 --max-position-embeddings 16 --vocab-size 64 --tokenizer-type NullTokenizer \
        --save "$made_family" "$@"
}

# goes_round FAMILY ARCHITECTURE LABELS FORMAT: out, in, out again.
goes_round() {
    rm -rf out in again
    "$trireme" ckpt export --load "$1" --to out --format "$4" && "$trireme" ckpt import --from out --save in &&
        "$trireme" ckpt export --load in --to again --format "$4" || return 1
    cat out/config.json
    grep -q "\"$2\"" out/config.json && [ "$(grep -c '"LABEL_[0-9]*"' out/config.json)" -eq "$3" ] || return 1
    diff -r out again && "$trireme" ckpt show in | grep "weights from .*$2, F32"
}

for row in gpt2:GPT2 opt:OPT gptj:GPTJ gpt-neox:GPTNeoX bloom:Bloom llama3:Llama mistral:Mistral qwen3:Qwen3 gemma:Gemma; do
    family=${row%:*} name=${row#*:}ForSequenceClassification
    more=
    case $family in
    llama3 | mistral | qwen3) more='--num-query-groups 2' ;;
    esac
    # shellcheck disable=SC2086 # words
    check "a classifier of $family" made "$family" 3 $more
    check "is $name, and the same when it comes back" goes_round "$family" "$name" 3 hf
done
check "with a file for each layer, too" goes_round llama3 LlamaForSequenceClassification 3 layers
check "a DeBERTa" made deberta-v2 4 --position-buckets 8 --max-relative-positions 16
check "is DebertaV2ForSequenceClassification" goes_round deberta-v2 DebertaV2ForSequenceClassification 4 hf
fails "which has no file for each layer" 64 "leave out --format layers" \
    "$trireme" ckpt export --load deberta-v2 --to none --format layers

# The weights of a language model, whose config.json says that it is a classifier.
headless() {
    "$trireme" train --mock-data --micro-batch-size 1 --lr 0.01 --train-iters 1 --eval-iters 0 --no-save-optim \
        --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 --vocab-size 64 \
        --tokenizer-type NullTokenizer --save lm && "$trireme" ckpt export --load lm --to less &&
        sed 's/GPT2LMHeadModel/GPT2ForSequenceClassification/' less/config.json >c.json && mv c.json less/config.json
}
check "a folder without the head" headless
fails "is refused by an import" 65 "an import makes up none" "$trireme" ckpt import --from less --save left
check "which leaves nothing" test ! -e left

# A DeBERTa without its head, whole and divided as AC-SGD's convert_deberta_checkpoint.py does it:
# the same weights.
begins() {
    "$trireme" train --load "$torch/deberta-$1" --finetune --num-labels 2 --mock-data --seq-length 8 \
        --micro-batch-size 4 --lr 0.01 --train-iters 1 --eval-iters 0 --save "$1" && sums "$1" >"$1.sums"
}
check "a DeBERTa in one file" begins whole
check "a file for each of its modules" begins layers
check "has the same weights" cmp whole.sums layers.sums

# Gemma's activation has two names.
"$trireme" ckpt export --load gemma --to gem >/dev/null 2>&1
sed 's/"hidden_activation": *"[^"]*"/"hidden_activation": null/; s/"hidden_act": *"[^"]*"/"hidden_act": "gelu"/' gem/config.json >c.json
mv c.json gem/config.json
check "Gemma's first files are read" "$trireme" ckpt import --from gem --save gem.in
sed 's/"hidden_activation": *null/"hidden_activation": "relu"/' gem/config.json >c.json
mv c.json gem/config.json
fails "two activations that differ are not" 65 "must be the activation of \"hidden_act\"" \
    "$trireme" ckpt import --from gem --save gem.two
