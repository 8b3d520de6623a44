#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# --cuda-graph-impl local: passes that are captured once and replayed give the losses, norms and
# weights of those whose operations are started one by one, to the bit; what has no graphs is
# refused; what fails is told.  The fake runtime replays a launch with the arguments that it had
# when it was captured. GRAPHS_PROGRAM is another program to try, with GRAPHS_ONLY the layouts that
# it is tried with.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
program=${GRAPHS_PROGRAM:-$PWD/tests/cuda/trireme-fake}
[ -x "$program" ] || skip_all "no headers of CUDA or no C++ compiler: see configure"

# name, ranks, launches of graphs on all ranks at least, then options.  Of the 4 steps the first
# begins without graphs; evaluation has passes of its own.  Those behind "long" need --all.
table='
halves       1 22 --global-batch-size 4 --bf16 --recompute-granularity full --recompute-method block --recompute-num-layers 1
pipeline     2 30 --global-batch-size 6 --pipeline-model-parallel-size 2 --checkpoint-activations
sharded      2 15 --global-batch-size 6 --use-distributed-optimizer --overlap-param-gather --ddp-bucket-size 5000
long
accumulated  1 22 --global-batch-size 4
single       1 3  --global-batch-size 1
rotary       2 30 --global-batch-size 6 --pipeline-model-parallel-size 2 --model-family gpt-neox --reset-position-ids
scaled       1 22 --global-batch-size 4 --fp16 --initial-loss-scale 1024 --loss-scale-window 1
documents    1 22 --global-batch-size 4 --reset-attention-mask --reset-position-ids --eod-mask-loss
zero-bubble  2 30 --global-batch-size 6 --pipeline-model-parallel-size 2 --pipeline-schedule zb-h1
interleaved  2 30 --global-batch-size 6 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2
groups       1 22 --global-batch-size 4 --model-family qwen3 --num-query-groups 2 --kv-channels 12 --reset-attention-mask
after        1 22 --global-batch-size 4 --model-family opt-350m --word-embed-proj-dim 16 --checkpoint-activations
'
only=${GRAPHS_ONLY:-}
[ -n "$only${TR_TEST_ALL:-}" ] || table=$(echo "$table" | sed '/^long$/,$d')
[ -z "$only" ] || table=$(echo "$table" | awk -v only=" $only " 'index(only, " " $1 " ")')
echo "$table" | grep '^[^#]' | grep -v '^long$' > "$work/table"
others=8
[ -z "$only" ] || others=0
plan $((1 + $(wc -l < "$work/table") + others))
check "a dataset is built" small_corpus
# shellcheck disable=SC2034 # of the file that was sourced
trireme=$program

iterations=4
# train RANKS NAME OPTION...: $work/NAME.log, .losses, .sums
train() {
    train_ranks=$1 train_name=$2
    shift 2
    FAKE_CUDA_TELL=1 small "$train_ranks" --backend cuda --gpu-oversubscribe --train-iters $iterations --seed 5 \
        --attention-dropout 0.1 --hidden-dropout 0.1 --eval-interval 3 "$@" --save "$work/$train_name" \
        > "$work/$train_name.log" 2>&1 || return 1
    losses "$work/$train_name.log" $iterations > "$work/$train_name.losses"
    sums "$work/$train_name" > "$work/$train_name.sums"
    rm -rf "${work:?}/$train_name"
}
launched() {
    sed -n 's/.*fake CUDA: .* waits, \([0-9]*\) graphs launched/\1/p' "$work/$1.log" | awk '{ n += $1 } END { print n + 0 }'
}

# alike RANKS LAUNCHES OPTION...
alike() {
    alike_ranks=$1 alike_least=$2
    shift 2
    train "$alike_ranks" without "$@" || { tail -n 5 "$work/without.log"; return 1; }
    train "$alike_ranks" with --cuda-graph-impl local "$@" || { tail -n 5 "$work/with.log"; return 1; }
    echo "$(launched with) graphs launched"
    diff "$work/without.losses" "$work/with.losses" && diff "$work/without.sums" "$work/with.sums" || return 1
    [ "$(grep -c . < "$work/with.losses")" -eq $iterations ] && [ -s "$work/with.sums" ] &&
        [ "$(launched without)" -eq 0 ] && [ "$(launched with)" -ge "$alike_least" ] &&
        grep -q '^> CUDA graphs: [1-9][0-9]* captured, [1-9][0-9]* operations' "$work/with.log"
}
while read -r name ranks least options; do
    check "$name" alike "$ranks" "$least" $options < /dev/null
done < "$work/table"
[ -z "$only" ] || exit $tap_bad

# What cannot be is refused.
fails "tensor parallelism" 64 "leave out --cuda-graph-impl" \
    small 2 --backend cuda --gpu-oversubscribe --tensor-model-parallel-size 2 --train-iters 1 --cuda-graph-impl local
fails "the CPU" 64 "--backend cpu has none" small 1 --backend cpu --train-iters 1 --cuda-graph-impl local

# What fails on one rank ends all: it says so in one sentence, which another one repeats or is
# silent.
planted() {
    FAKE_CUDA_FAIL=$1 FAKE_CUDA_FAIL_RANK=1
    export FAKE_CUDA_FAIL FAKE_CUDA_FAIL_RANK
    small 2 --backend cuda --gpu-oversubscribe --train-iters 3 --global-batch-size 4 --cuda-graph-impl local > "$work/log" 2>&1
    planted_code=$?
    unset FAKE_CUDA_FAIL FAKE_CUDA_FAIL_RANK
    grep '^trireme\[1\]: error: ' "$work/log"
    grep '^trireme\[0\]: error: ' "$work/log" | grep -v 'this rank stops because of rank 1 on .* failed with'
    return $planted_code
}
one_sentence() {
    planted "$1" > "$work/said"
    one_code=$?
    if [ $one_code -ne "$2" ] || [ "$(grep -c . < "$work/said")" -ne 1 ] || ! grep -q -e "$3" "$work/said"; then
        echo "exit code $one_code"
        tail -n 20 "$work/log"
        return 1
    fi
}
check "a capture that does not begin" one_sentence cudaStreamBeginCapture:1:900 70 "cudaStreamBeginCapture failed with .*900"
check "one that is spoilt" one_sentence cudaStreamEndCapture:2:901 70 "cudaStreamEndCapture failed with .*901.* without --cuda-graph-impl"
check "no memory for a graph" one_sentence cudaGraphInstantiateWithFlags:2:2 69 \
    "cudaGraphInstantiateWithFlags failed with .*(2).* and the run needs less memory"
check "a graph that is not launched" one_sentence cudaGraphLaunch:3:719 70 "cudaGraphLaunch failed with .*719"

# A graph takes memory, which is measured.
measured() {
    FAKE_CUDA_GRAPH_KIB=512 small 1 --backend cuda --train-iters 2 --global-batch-size 2 --eval-iters 0 \
        --cuda-graph-impl local > "$work/log" 2>&1
    grep '^> CUDA graphs: ' "$work/log"
    grep -q '^> CUDA graphs: 3 captured, [0-9]* operations; since the first the GPU has 1.5 MiB of memory less' "$work/log"
}
check "what graphs take is in the log" measured
# Nothing of it without the option.
quiet() { small 1 --backend cuda --train-iters 1 > "$work/log" 2>&1 && ! grep -q 'CUDA graphs' "$work/log"; }
check "off by default" quiet
