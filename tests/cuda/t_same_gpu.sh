#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Which ranks may have which GPUs, told when training starts, over fakes of CUDA and NCCL.
. "$srcdir/tests/tap.sh"
trireme=$PWD/tests/cuda/trireme-fake
[ -x "$trireme" ] || skip_all "there are no headers of CUDA and NCCL, or no C++ compiler"
plan 5

train() {
    ranks 2 "$trireme" train --num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 8 \
        --max-position-embeddings 8 --tokenizer-type NullTokenizer --vocab-size 30 --mock-data \
        --micro-batch-size 1 --lr 0.001 --train-iters 1 --eval-iters 0 --log-interval 1 \
        --backend cuda "$@"
}

fails "one GPU for two ranks" 69 "this node has 1 GPU for 2 ranks" train
CUDA_VISIBLE_DEVICES=3
export CUDA_VISIBLE_DEVICES
fails "each rank sees one, the same" 69 "ranks 0 and 1 on $(uname -n) were given the same GPU" train
check "they may share it" train --gpu-oversubscribe
unset CUDA_VISIBLE_DEVICES
FAKE_CUDA_DEVICES=2
export FAKE_CUDA_DEVICES
check "two GPUs for two ranks" train
FAKE_CUDA_GIB=0
export FAKE_CUDA_GIB
fails "no room on a GPU" 69 "cannot be used: cudaMalloc of scratch" train
