#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Progress on the standard error: of what takes longer than five seconds, and of nothing else.
# shellcheck disable=SC2154
. "${srcdir:?}/tests/tap.sh"
plan 8

log=$(cd "$srcdir" && pwd)/tests/report/jean-zay-30b.log
cd "$work" || exit 1

# The command says nothing on the standard error.
silent() {
    "$@" >out 2>err && [ -s out ] && [ ! -s err ] && return 0
    cat err
    return 1
}

model="--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
    --vocab-size 300 --micro-batch-size 1 --lr 1e-4 --threads 1"

check "a plan shows no progress" silent "$trireme" plan --machine jean-zay-v100-16g --num-layers 48 --hidden-size 7168 \
    --num-attention-heads 56 --seq-length 2048 --max-position-embeddings 2048 --vocab-size 50257 --fp16 \
    --micro-batch-size 1 --train-iters 1 --lr 1e-4 --world-size 64 --tensor-model-parallel-size 4 \
    --pipeline-model-parallel-size 16 --checkpoint-activations
check "nor does a short log" silent "$trireme" report --show runs "$log"
cp out short

i=0
while [ $i -lt 200 ]; do
    printf '{"text": "document number %d of two hundred"}\n' $i
    i=$((i + 1))
done >text.jsonl
build() { "$trireme" data build text.jsonl --tokenizer-type bytes --append-eod --output-prefix text >out 2>err; }
check "a dataset" build
check "verifying it shows none" silent "$trireme" data verify text_text_document
# shellcheck disable=SC2086 # words
run() {
    silent "$trireme" train $model --train-iters 2 --global-batch-size 2 --data-path text_text_document \
        --tokenizer-type NullTokenizer --save saved --save-interval 2
}
check "nor does building index maps" run
check "nor a checkpoint" silent "$trireme" ckpt verify saved

# A log that arrives in two parts, the second after more than five seconds; it is read in pieces of
# 64 KiB.
twice() {
    cat "$log"
    sleep 6
    awk 'BEGIN { for (i = 0; i < 3000; i++) print "a line that says nothing of training, number", i }'
}
slow() {
    twice | "$trireme" report --show runs - >out 2>err || { cat err; return 1; }
    grep -Eq '^trireme: read [0-9.]+ [kM]?B, [0-9.]+ k?B/s$' err && [ "$(wc -l <err)" -eq 1 ] && return 0
    cat err
    return 1
}
check "what takes longer says how far it is" slow
same() { sed "s|$(basename "$log")|LOG|; s|standard input|LOG|; s|  *| |g; s|--*|-|g" "$1"; }
same short >a
same out >b
check "on the standard output it changes nothing" diff a b
