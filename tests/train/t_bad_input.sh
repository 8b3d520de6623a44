#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Everything that a user can get wrong gives one sentence and the exit code of its kind: 64 usage,
# 65 data, 69 resources, 70 a loss that is not finite, 74 input and output.  All ranks stop
# together.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 39

check "a dataset is built" small_corpus
once=--train-iters=2

fails "an unknown option names the nearest" 64 "--num-layers" small 1 --num-layer 3 "$once"
fails "Adasum of three replicas" 64 "power of two" small 3 --dp-mode adasum --global-batch-size 6 "$once"
fails "Adasum of a tied embedding" 64 "--untie-embeddings" refused 4 --dp-mode adasum \
    --pipeline-model-parallel-size 2 "$once"
fails "Adasum of parts" 64 "--sequence-parallel" refused 4 --dp-mode adasum --tensor-model-parallel-size 2 \
    --sequence-parallel "$once"
fails "a parameter server and ZeRO" 64 "--zero-stage" refused 2 --dp-mode central_ps --zero-stage 2 "$once"
fails "a number that is none" 64 "--train-iters" refused 1 --train-iters many
fails "heads that do not divide" 64 "--num-attention-heads" \
    refused 3 --tensor-model-parallel-size 3 "$once"
fails "heads that are too wide" 64 "--num-attention-heads" \
    small 1 --hidden-size 1284 --num-attention-heads 4 "$once"
fails "rows that are too wide" 64 "--hidden-size" \
    small 1 --hidden-size 33024 --num-attention-heads 256 "$once"
fails "layers that do not add up" 64 "--pipeline-model-parallel-layout" \
    refused 3 --pipeline-model-parallel-size 3 --pipeline-model-parallel-layout 3,3,3 "$once"
fails "a batch that does not divide" 64 "--global-batch-size" refused 1 --micro-batch-size 3 "$once"
fails "a world that is not TP times PP times DP" 64 "--tensor-model-parallel-size" \
    small 3 --tensor-model-parallel-size 2 "$once"
fails "a sequence beyond the positions" 64 "--max-position-embeddings" \
    refused 1 --seq-length 64 "$once"
fails "interleaving with too few micro-batches" 64 "micro-batch" \
    refused 2 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 \
    --micro-batch-size 8 "$once"
fails "a family with its size" 64 "did you mean mistral?" refused 2 --model-family mistral-7b "$once"
fails "a mixture of experts by its name" 64 "mixture of experts" \
    refused 1 --model-family Mixtral-8x7B "$once"
fails "a model of images by its name" 64 "it reads images" refused 1 --model-family qwen2.5-vl "$once"
fails "groups that do not divide heads" 64 "the nearest that does is 2 or 4" \
    refused 2 --model-family llama3 --num-query-groups 3 "$once"
fails "an odd width that turns" 64 "or give --kv-channels 6 or 8" \
    refused 1 --model-family llama2 --kv-channels 7 "$once"
fails "a window with ALiBi" 64 "give --window-size 0" \
    refused 2 --model-family bloom --window-size 8 "$once"
fails "a stage without work" 64 "needs some work" \
    refused 3 --model-family llama2 --pipeline-model-parallel-size 3 \
    --pipeline-model-parallel-layout 2,0,2 "$once"
fails "an option that this version lacks" 64 "--num-experts" refused 1 --num-experts 4 "$once"
fails "an argument file that is not there" 74 "nowhere.args" small 2 "@$work/nowhere.args" "$once"

fails "data that is not there" 74 "nowhere" small 2 "$once" --data-path "$work/nowhere"
fails "a prefix with its suffix" 74 ".bin" small 1 "$once" \
    --data-path "$work/corpus_text_document.bin"

# copy NAME: a copy of the dataset to damage.
copy() {
    cp "$work/corpus_text_document.bin" "$work/$1.bin"
    cp "$work/corpus_text_document.idx" "$work/$1.idx"
}
copy short
truncate -s -1000 "$work/short.bin"
fails "a truncated .bin" 65 "short.bin" small 4 "$once" --data-path "$work/short"
copy cut
truncate -s 100 "$work/cut.idx"
fails "a truncated .idx" 65 "cut.idx" small 4 "$once" --data-path "$work/cut"
copy foreign
printf 'PNG and more bytes than a header needs ......' > "$work/foreign.idx"
fails "an .idx of something else" 65 "foreign.idx" small 1 "$once" --data-path "$work/foreign"
copy tntidx
printf 'TNTIDX\0\0 and more bytes than a header needs' > "$work/tntidx.idx"
fails "an .idx of the format before mmap" 65 "TNTIDX" small 1 "$once" --data-path "$work/tntidx"
fails "tokens beyond the vocabulary" 65 "corpus_text_document" \
    small 2 "$once" --vocab-size 100 --data-cache-path "$work/cache"

fails "a loss that is not finite" 70 "not finite at iteration 2, first in the output of layer 0 of 0 to 3 (" \
    small 2 --pipeline-model-parallel-size 2 --train-iters 60 --lr 1e30 --lr-warmup-fraction 0 \
    --clip-grad 1e30
fails "an overflow that no loss scale helps" 0 "iteration 1 are not finite, first in the gradient of encoder.final" \
    small 2 --tensor-model-parallel-size 2 --train-iters 2 --fp16 --loss-scale 1e30
fails "saving where one may not" 74 "checkpoint" \
    small 2 "$once" --save "$work/text.txt/below" --save-interval 1
mkdir -p "$work/empty/iter_0000007"
printf 7 > "$work/empty/latest_checkpointed_iteration.txt"
fails "loading where nothing can be used" 65 "iter_0000007" small 2 "$once" --load "$work/empty"
small 1 "$once" --save "$work/narrow" > "$work/narrow.log" 2>&1
fails "a checkpoint of another model" 65 "hidden" \
    small 2 "$once" --load "$work/narrow" --hidden-size 64
fails "more memory than the machine has" 69 "memory" \
    small 1 "$once" --num-layers 4000 --hidden-size 16384 --num-attention-heads 64
# The plan of the rank that has no room, once; what two ranks print may come in any order.
fails "more memory on one rank" 69 "memory plan of rank 1:" \
    small 2 --micro-batch-size 1 --global-batch-size 2 --num-layers 6000 --hidden-size 1024 \
    --pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 1 "$once"
# shellcheck disable=SC2154 # what fails() ran has printed tap_out
one_plan() {
    [ "$(echo "$tap_out" | grep -c 'memory plan of rank')" = 1 ] &&
        echo "$tap_out" | grep -q 'this rank needs .*(rank 1 on'
}
check "one plan, and the sentence" one_plan
