#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# What the log of a run says of its GPUs: which kernels compute attention and why, what NCCL is,
# takes and chooses, and who needs how much memory.
. "$srcdir/tests/tap.sh"
trireme=$PWD/tests/cuda/trireme-fake
[ -x "$trireme" ] || skip_all "there are no headers of CUDA and NCCL, or no C++ compiler"
plan 19

# train HIDDEN OPTION...: two iterations of one rank, or of `ranks`, with heads of a quarter of
# that.
ranks=1
train() {
    hidden=$1
    shift
    ranks "$ranks" "$trireme" train --num-layers 2 --hidden-size "$hidden" --num-attention-heads 4 --seq-length 8 \
        --max-position-embeddings 8 --tokenizer-type NullTokenizer --vocab-size 30 --mock-data \
        --micro-batch-size 1 --lr 0.001 --train-iters 2 --eval-iters 0 --log-interval 1 --backend cuda \
        --gpu-oversubscribe "$@" > "$work/log" 2>&1
    code=$?
    [ $code -eq 0 ] || cat "$work/log"
    return $code
}
# says N TEXT: the log has N lines with it.
says() {
    [ "$(grep -c -e "$2" "$work/log")" = "$1" ] || { cat "$work/log"; return 1; }
}

without="since this program was built without cuDNN"
check "heads of 64 in bf16" train 256 --bf16
check "are for tensor cores, forward" \
    says 1 "^> attention, forward, heads of 64 in bf16: kernels of this program on tensor cores, $without"
check "and backward" says 1 "^> attention, backward, heads of 64 in bf16: kernels of this program on tensor"
check "which is not worth a warning" says 0 "warning: .*attention with heads"
check "heads of 24 in bf16" train 96 --bf16
check "are for the plain kernels" \
    says 1 "^> attention, backward, heads of 24 in bf16: the plain fp32 kernels of this program, $without"
check "which is a warning, once" \
    says 1 "warning: attention with heads of 24 in bf16 is computed by the plain fp32 kernels"
check "fp32 has no others" train 96 --attention-backend flash
reason() { says 1 "forward, heads of 24 in fp32: the plain fp32 .*, since --attention-backend flash" && says 0 "warning: "; }
check "and the reason is what was asked for" reason
check "cuDNN may add in any order" train 256 --bf16 --attention-dropout 0 --no-deterministic-mode
in_vain() {
    says 1 "backward, heads of 64 in bf16: kernels .*, deterministic though --no-deterministic-mode is given, $without" &&
        says 1 "though --no-deterministic-mode"
}
check "and the log says that it does not come to that" in_vain

# NCCL: its version and what it takes; what it chooses where it is asked to say so.
ranks=2
NCCL_DEBUG=INFO NCCL_DEBUG_FILE=$work/%h.%p
NCCL_ALGO=Ring
export NCCL_DEBUG NCCL_DEBUG_FILE NCCL_ALGO
known() {
    train 16 --log-jsonl "$work/numbers" --memory-plan && says 1 '^> NCCL 2\.[0-9]*\.[0-9]* (built with 2\.' &&
        says 1 ' [1-9] communicators of this rank take [1-9][0-9.]* MiB of its GPU; calls are blocking$' &&
        says 1 "^> NCCL's environment:.* NCCL_ALGO=Ring" && says 1 '^  nccl (taken before) *[1-9]' &&
        says 1 '^> NCCL says: 2 coll channels' && says 1 '^> NCCL says: AllReduce: 16 Bytes -> Algo TREE'
}
check "what NCCL is, takes and says" known
record() {
    sed -n 1p "$work/numbers" > "$work/first"
    for word in '"nccl": {"built_with": "2\.' '"calls": "blocking"' '"communicators": "' '"NCCL_ALGO": "Ring"' '"memory_mib": "' \
        '"says": \["2 coll channels' '"version": "2\.'; do
        grep -q -e "$word" "$work/first" || { echo "$word"; cat "$work/first"; return 1; }
    done
}
check "the record has it" record
unset NCCL_DEBUG
quiet() { train 16 && says 0 '^> NCCL says' && says 1 "^> NCCL's channels, algorithms, NVLS and SHARP are shown here with NCCL_DEBUG=INFO"; }
check "without its log, how to get it" quiet

# Room for the program and for the communicators, and not for what they take with their first calls:
# told before the first step, not in the middle of one.  128 MiB are kernel scratch and cuBLASLt's.
check "a larger model" train 256 --memory-plan
arena=$(sed -n 's/^  total *\([0-9]*\)\.[0-9]* MiB$/\1/p' "$work/log")
FAKE_CUDA_MIB=$((128 + arena + 10)) FAKE_NCCL_MIB=1
export FAKE_CUDA_MIB FAKE_NCCL_MIB
check "it fits" train 256
FAKE_NCCL_MIB=2
fails "NCCL takes too much of a GPU" 69 "GiB left (NCCL has taken 0.01)" train 256
FAKE_NCCL_MIB=9
fails "NCCL has no room for its first calls" 69 "no memory of the GPU is left for trees" train 256
FAKE_NCCL_MIB=20
fails "nor for a communicator" 69 'cannot connect the GPUs of group "dp"' train 256
