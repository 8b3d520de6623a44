#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# What a host without a GPU makes of the options for GPUs: whether or not the program was built with
# CUDA.
. "$srcdir/tests/tap.sh"
if command -v nvidia-smi >/dev/null 2>&1 && nvidia-smi -L >/dev/null 2>&1; then
    skip_all "this host has a GPU"
fi
plan 8

train() {
    ranks 1 "$trireme" train --num-layers 1 --hidden-size 16 --num-attention-heads 2 --seq-length 8 \
        --max-position-embeddings 8 --tokenizer-type NullTokenizer --vocab-size 30 --mock-data \
        --micro-batch-size 1 --lr 0.001 --train-iters 1 --eval-iters 0 --log-interval 1 "$@"
}

on_cpu() {
    train "$@" >"$work/log" 2>&1 && grep -q '^> computing with cpu:' "$work/log" &&
        grep -q '^ iteration *1/' "$work/log"
}

# A resource is missing, which exit code 69 stands for: the GPU, or the CUDA to build with.
fails "a GPU that is not there is asked for" 69 "compute with --backend cpu" train --backend cuda
check "without a word the CPU computes" on_cpu
check "so it does with auto" on_cpu --backend auto
fails "TF32 and the CPU" 64 "--backend cpu has none: leave one of them out" train --backend cpu --tf32
fails "atomic additions and the CPU" 64 "leave one of them out" \
    train --backend cpu --no-deterministic-mode --bf16 --attention-dropout 0
fails "sharing GPUs and the CPU" 64 "leave one of them out" train --backend ref --gpu-oversubscribe

idle() {
    on_cpu --tf32 --gpu-oversubscribe && grep -q -e '--tf32 has no effect here' "$work/log" &&
        grep -q -e '--gpu-oversubscribe has no effect here' "$work/log"
}
check "with auto they are told to be idle" idle

# The program starts where NVIDIA's libraries are not.
not_linked() {
    ldd "$trireme" >"$work/linked" && ! grep -E 'libcuda\.|libcublas|libcudnn|libnccl' "$work/linked"
}
check "it is not linked with libraries of NVIDIA" not_linked
