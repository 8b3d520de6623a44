#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A checkpoint that this program did not write: by the manual alone, with numpy and h5py.  A run
# that loads it has the loss that numpy computes.
# shellcheck source=tests/tap.sh
. "${srcdir:?}/tests/tap.sh"

python=$(python_with h5py numpy) || skip_all "no python3 with h5py and numpy"
plan 7

doc=$srcdir/docs/formats.md
# shellcheck disable=SC2016 # fences of the page
{
    sed -n '/^```python$/,/^```$/{ /^import sys$/d; /^import/p; /^def/,/^$/p; }' "$doc"
    sed -n '/^```python writing$/,/^```$/{ /^```/d; p; }' "$doc"
} >"$work/manual.py"
PYTHONPATH=$work
OMP_NUM_THREADS=1
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH OMP_NUM_THREADS PYTHONDONTWRITEBYTECODE
check "the program in the manual writes two" sh -c "'$python' '$srcdir/tests/ckpt/by_hand.py' '$work' >'$work/loss'"
check "a dataset of its tokens" "$trireme" data build "$work/text" --tokenizer-type bytes \
    --output-prefix "$work/text"

for folder in save weights; do
    check "$folder: it is whole" "$trireme" ckpt verify "$work/$folder"
done
check "show prints what it has" sh -c "'$trireme' ckpt show '$work/weights' | grep -q '^vocab_size  *257$'"

# train OPTION...: the loss of the first iteration, before its step.
train() {
    "$trireme" train --num-layers 2 --hidden-size 24 --num-attention-heads 3 --seq-length 16 \
        --max-position-embeddings 16 --tokenizer-type bytes --data-path "$work/text_text_document" --split 100,0,0 \
        --micro-batch-size 2 --global-batch-size 2 --lr 1e-4 --attention-dropout 0 --hidden-dropout 0 \
        --log-interval 1 --eval-iters 0 "$@" >"$work/log" 2>&1 || { cat "$work/log"; return 1; }
}
# same ITERATION: it is numpy's, to the seven digits that the log has.
same() {
    awk -v want="$(cat "$work/loss")" -v at="$1" '
        $1 == "iteration" && $2 + 0 == at && match($0, /lm loss: [0-9.E+-]+/) {
            got = substr($0, RSTART + 9, RLENGTH - 9)
            off = got / want - 1
        }
        END { print "numpy " want ", trireme " got ", off by " off; exit !(got && off * off < 1e-12) }' "$work/log"
}
resumes() { train --load "$work/save" --train-iters 8 && same 8; }
begins() { train --load "$work/weights" --finetune --train-iters 1 && same 1; }
check "--load goes on from it, with numpy's loss" resumes
check "--finetune begins with its weights, with numpy's loss" begins
