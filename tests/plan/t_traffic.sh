#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# The bytes that `trireme plan` says ranks send are those that a run counts (--log-traffic).
. "$srcdir/tests/tap.sh"
plan 13
TRIREME_MACHINES=$srcdir/machines
export TRIREME_MACHINES

model="--num-layers 16 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
    --vocab-size 128 --mock-data --micro-batch-size 1 --global-batch-size 8 --lr 1e-3 --train-iters 2 --eval-iters 0"

# both OPTION...: that run on 4 ranks, and its plan.
both() {
    # shellcheck disable=SC2086 # words
    ranks 4 "$trireme" train $model --log-interval 1 --log-traffic --backend cpu "$@" >"$work/log" 2>&1 &&
        "$trireme" plan $model "$@" --world-size 4 --machine jean-zay-v100-32g --json >"$work/plan" 2>&1
}
# counted NAME...: of all these kinds, in the last iteration.
counted() {
    for name; do
        grep '^traffic' "$work/log" | tail -n 1 | sed -n "s/.* $name (bytes): \([0-9]*\) .*/\1/p"
    done | awk '{ n += $1 } END { printf "%d", n }'
}
planned() {
    sed -n "/\"$1\": {/,/}/s/.*\"bytes\": \([0-9.e+]*\),*/\1/p" "$work/plan"
}
# near PLAN LEAST MOST NAME...: what was counted over what is planned is between these.
near() {
    what=$1 least=$2 most=$3
    shift 3
    echo "$what: planned $(planned "$what"), counted $(counted "$@")"
    awk -v a="$(counted "$@")" -v b="$(planned "$what")" -v l="$least" -v m="$most" \
        'BEGIN { exit !(a + 0 > 0 && b + 0 > 0 && a >= l * b && a <= m * b) }'
}
# Buckets are padded, each to a multiple of the replicas.
gradients() { near replicas_reduce 0.999 1.01 gradients-sum; }
weights() { near replicas_gather 0.999 1.01 weights-gather; }
messages() { near pipeline 1 1 pipeline-forward pipeline-backward && near embedding 1 1 embedding; }
in_nodes() { grep -A 1 '"bytes_in_nodes": [0-9.]*[1-9]' "$work/plan" | grep '"bytes_between_nodes": 0.0'; }

whole() { both --pipeline-model-parallel-size 2 && gradients && messages; }
check "all-reduced gradients, and messages between two stages" whole
check "four ranks are on one node" in_nodes
tensor() { both --pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 && messages; }
check "messages whose parts tensor ranks send" tensor
unscattered() { both --pipeline-model-parallel-size 2 --tensor-model-parallel-size 2 --no-scatter-gather-tensors-in-pipeline && messages; }
check "and those that each sends whole" unscattered
cast() { both --dp-wire bf16 --use-distributed-optimizer && gradients && weights; }
check "gradients that are sent in bf16" cast
served() { both --dp-mode central_ps --pipeline-model-parallel-size 2 && gradients; }
check "gradients that one server adds up" served
sharded() { both --dp-mode sharded_ps && gradients; }
check "and those of which each replica is the server of a part" sharded
compressed() {
    both --dp-mode sharded_ps_compressed --dp-bits 4 --train-warmup-steps 1 && near replicas_reduce 0.999 1.01 replicas-up replicas-down
}
check "and what servers send in 4 bits, padded to 2048 numbers for each replica" compressed
first() { both --zero-stage 1 && gradients && weights; }
check "ZeRO of stage 1" first
second() { both --zero-stage 2 --pipeline-model-parallel-size 2 && gradients && weights; }
check "ZeRO of stage 2, once for each micro-batch" second
# Layers that are still there when a pass turns round are not gathered again.
third() { both --zero-stage 3 && gradients && near replicas_gather 0.8 1.01 weights-gather; }
check "ZeRO of stage 3, forward and backward" third
# chosen KEY: of the size of chunks that is taken.
chosen() { sed -n "/\"chosen\": true/,/}/s/.*\"$1\": \([0-9.e+]*\),*/\1/p" "$work/plan"; }
# same KEY NAME RANKS: of so many ranks that move as much, to the byte.
same() {
    echo "$1: planned $(chosen "$1") on each of $3 ranks, counted $(counted "$2")"
    awk -v a="$(counted "$2")" -v b="$(chosen "$1")" -v n="$3" 'BEGIN { exit !(a > 0 && a == n * b) }'
}
# Slots of all layers but some, in chunks that layers share; and of all, so that some states stay
# with the device.
chunks() {
    for memory in 1M 1500K 8M; do
        echo "$memory"
        both --chunk-memory $memory "$@" && same fetched_bytes weights-fetch 4 && same written_bytes gradients-write 4 ||
            return 1
    done
}
check "chunks that come from the host and go there" chunks
nodes() {
    # shellcheck disable=SC2086 # words
    "$trireme" plan $model --world-size 8 --tensor-model-parallel-size 2 --machine jean-zay-v100-32g >"$work/text" || return 1
    grep -A 8 '^traffic of an iteration' "$work/text" | tee "$work/traffic"
    grep -q '^  tensor-parallel .* in nodes, ' "$work/traffic" && grep -q '^  replicas-reduce .* between nodes, ' "$work/traffic"
}
check "tensor ranks are in a node of four, replicas on two" nodes
