#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# A language-model run as AC-SGD's: rows of WikiText detokenized and joined, blocks, epochs, the
# perplexity of whole batches of the test text after each one as transformers has it
# (tests/golden/make_lm.py), on several layouts.
. "$srcdir/tests/tap.sh"
trireme=$PWD/trireme
srcdir=$(cd "$srcdir" && pwd)
command -v python3 >/dev/null 2>&1 || skip_all "python3 is not installed"
plan 16

check "a model and rows" python3 "$srcdir/tests/golden/lm_model.py" "$work"
for part in train test; do
    check "$part: rows become one stream" "$trireme" data build "$work/$part.raw" --join-rows --detokenizer wikitext \
        --tokenizer-type bytes --output-prefix "$work/$part"
done
golden=$srcdir/tests/golden/lm.txt
check "as many tokens as elsewhere" sh -c "'$trireme' data show '$work/train_text_document' |
    grep -q \"\$(sed -n 's/^tokens \([0-9]*\) .*/\1/p' '$golden')\""
no_rest() { [ -z "$(ls "$work"/*.rows* 2> /dev/null)" ]; }
check "no file of rows is left" no_rest

# lm NAME RANKS OPTION...
lm() {
    lm_name=$1 lm_ranks=$2
    shift 2
    ranks "$lm_ranks" "$trireme" train --load "$work/model" --finetune --tokenizer-type bytes --seq-length 32 \
        --max-position-embeddings 32 --train-data-path "$work/train_text_document" \
        --valid-data-path "$work/test_text_document" --n-epochs 3 --epoch-order text --loss-within-samples \
        --drop-last-eval --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --min-lr 0 --lr-decay-style linear \
        --weight-decay 0.01 --clip-grad 1.0 --adam-eps 1e-8 --attention-dropout 0 --hidden-dropout 0 \
        --log-interval 1 --log-format megatron --log-run-time "$@" > "$work/$lm_name" 2>&1 || { tail -n 5 "$work/$lm_name"; return 1; }
}
# perplexities LOG: of the evaluations after epochs.
perplexities() { sed -n 's/^ validation loss at .* lm loss PPL: \([^ ]*\) .*/\1/p' "$1"; }
# as_transformers NAME: to a relative 1e-5; each number of the golden file once.
as_transformers() {
    sed 1d "$golden" > "$work/want"
    perplexities "$work/$1" | paste -d ' ' "$work/want" - | awk '
        { d = $1 / $2 - 1; if (d < 0) d = -d; if (NF != 2 || !(d < 1e-5)) { print; bad = 1 } }
        END { exit bad || NR != 3 }'
}
check "a run" lm one 1
check "has the perplexity of transformers after each epoch" as_transformers one
check "a pipeline of 2 stages" lm two 2 --pipeline-model-parallel-size 2
check "has it, too" as_transformers two
check "2 tensor ranks, another micro-batch" lm tensor 2 --tensor-model-parallel-size 2 --micro-batch-size 4
check "have it, too" as_transformers tensor

# After each epoch a line that AC-SGD's users know; the first iteration does not count.
lines() {
    [ "$(grep -cE '^Finished running  15  iterations, averaged \(exclude the first iter\) run time: [0-9.e-]+$' \
        "$work/one")" = 3 ]
}
check "and says how long iterations took" lines
# Eight stages cannot be had of two layers; the layout of that runner is a list.
uneven() {
    "$trireme" train --mock-data --vocab-size 50257 --seq-length 1024 --max-position-embeddings 1024 --num-layers 48 \
        --hidden-size 1600 --num-attention-heads 25 --micro-batch-size 1 --global-batch-size 32 --train-iters 1 --lr 5e-5 \
        --pipeline-model-parallel-size 8 --pipeline-model-parallel-layout 6,6,6,6,7,7,7,3 --dry-run \
        --world-size 8 > "$work/uneven" 2>&1 || { cat "$work/uneven"; return 1; }
    [ "$(sed -n 's/^ *layers \([0-9]*\)-\([0-9]*\).*/\1-\2/p' "$work/uneven" | sort -nu | tr '\n' ' ')" = \
        "0-5 6-11 12-17 18-23 24-30 31-37 38-44 45-47 " ]
}
check "stages of 6, 6, 6, 6, 7, 7, 7 and 3 layers" uneven

# An epoch that ends early: other samples each time, and a run of three times four iterations.
short() {
    lm short 1 --epoch-iters 4 --epoch-order shuffle || return 1
    [ "$(grep -c 'Finished running  4  iterations' "$work/short")" = 3 ] &&
        grep -q '^ iteration       12/      12 ' "$work/short"
}
check "epochs that end early" short
fails "rows with nothing to join them" 64 "give --join-rows" "$trireme" data build "$work/test.raw" \
    --detokenizer wikitext --tokenizer-type bytes --output-prefix "$work/bad"
printf '{"abstract": " \\u00a0one \\n"}\n{"abstract": "two\\n"}\n' > "$work/abstracts.jsonl"
abstracts() {
    "$trireme" data build "$work/abstracts.jsonl" --join-rows --detokenizer strip --json-keys abstract \
        --tokenizer-type bytes --output-prefix "$work/arxiv" || return 1
    [ "$("$trireme" data show "$work/arxiv_abstract_document" --document 0 --tokenizer-type bytes)" = "one

two" ]
}
check "abstracts" abstracts
