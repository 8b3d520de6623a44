#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# trireme bench as users type it: tables, JSON, words that it does not know.
. "$srcdir/tests/tap.sh"
plan 21

model="--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
    --vocab-size 100 --backend cpu --threads 1"

# bench RANKS WORD...: standard output in the file out, the rest in err.
bench() {
    ranks=$1
    shift
    # shellcheck disable=SC2086 # a list of words
    timeout 300 "$srcdir/tests/mpirun" --ranks "$ranks" "$trireme" bench "$@" $model >"$work/out" 2>"$work/err"
}

# lines PATTERN COUNT
lines() {
    if [ "$(grep -cE -e "$1" "$work/out")" -eq "$2" ]; then return 0; fi
    cat "$work/out" "$work/err"
    return 1
}

check "all parts on four ranks" bench 4 gemm coll io node --repetitions 2 --max-bytes 4K --min-bytes 4K \
    --file-mib 4 --folder "$work" --tensor-model-parallel-size 2
check "fifteen products" lines '^ +(qkv|projection|fc1|fc2|head) +(forward|dgrad|wgrad) +32 ' 15
check "five calls of one size, none wrong" lines '^ +4096 +1024 +fp32 .* 0 +[0-9.]+ +[0-9.]+  [a-z-]+$' 5
check "a file written and read" lines '^ +(write|read) +4 +4\.0 +16\.0 ' 2
check "one node, of which little can be said" lines '^# fewer than 4 nodes' 1
left() { [ -z "$(find "$work" -name 'trireme-bench*')" ]; }
check "no file is left" left

# Queries, keys and values of 4 + 2 * 2 heads of 16; gate and other of 256; embeddings of 32.
check "products of a gated MLP and of groups" bench 1 gemm --repetitions 1 --model-family llama2 \
    --group-query-attention --num-query-groups 2
gated() { lines '^ +(qkv +[a-z]+ +32 +64 +128|fc1 +[a-z]+ +32 +64 +512|fc2 +[a-z]+ +32 +256 +64) .* 0  0 ' 9; }
check "are as wide as they should be, and right" gated
projected() {
    bench 1 gemm --repetitions 1 --model-family opt-350m --word-embed-proj-dim 32 &&
        lines '^ *project-(in +[a-z]+ +32 +32 +64|out +[a-z]+ +32 +64 +32) .* 0  0 ' 6
}
check "and those around narrow embeddings" projected

check "what compresses, on two ranks" bench 2 codec --max-bytes 600K --repetitions 1 --datatype fp16
check "twelve codecs, none wrong" lines '^ +(fixpoint|delta|topk|select|cocktail) +[0-8] +fp16 .* 0$' 12
check "its ratios" lines '^ +(fixpoint +4 .* 4\.0|fixpoint +8 .* 2\.0|select +0 .* 10\.0) ' 3

# Two hops of 20 ms: the network is as slow as the options say.
json() {
    bench 2 coll --json --call all-reduce --min-bytes 1K --max-bytes 1K --repetitions 1 --distributed-backend slow \
        --slow-rate 0.001 --slow-latency 20 || { cat "$work/err"; return 1; }
    head -n 1 "$work/out" | grep -qx '{' || return 1
    for member in '"wrong": 0' '"ranks": 2' '"bytes": 1024' '"transport": "slow"'; do
        grep -q "^ *$member,\{0,1\}\$" "$work/out" || { echo "no $member"; cat "$work/out"; return 1; }
    done
    sed -n 's/^ *"us": \([0-9.]*\),*$/\1/p' "$work/out" | awk '$1 < 40000 { exit 1 } END { exit NR != 1 }'
}
check "JSON, over a slow network" json

# 8, 64, 512 and, though 8 times that is more, 1000.
sizes() {
    bench 2 coll --call broadcast --max-bytes 1000 --repetitions 1 || return 1
    lines '^ +(8|64|512|1000) .* broadcast$' 4 && lines ' broadcast$' 4
}
check "the last size is --max-bytes" sizes

fails "nothing to measure" 64 "needs the parts to measure" "$trireme" bench
fails "an unknown part" 64 "cannot 'colls', only gemm, coll, codec, io, node and machine" "$trireme" bench colls
fails "a size that is none" 64 "'12X' is no number of bytes" "$srcdir/tests/mpirun" --ranks 2 "$trireme" bench coll \
    --max-bytes 12X
fails "alone" 64 "nothing to communicate" "$trireme" bench coll
fails "an option of nobody" 64 "repetition" "$trireme" bench gemm --repetition 3

# Two ranks on one processor, whatever this machine has.
alone() {
    one=$(taskset -pc $$ | sed 's/.*: *\([0-9]*\).*/\1/')
    # shellcheck disable=SC2086 # a list of words
    taskset -c "$one" "$srcdir/tests/mpirun" --ranks 2 "$trireme" bench machine --write-machine "$work/crowd.conf" $model
}
fails "a machine whose ranks take turns" 69 "take turns on 1 processor, so no time of one is its own" alone
check "has no profile" test ! -e "$work/crowd.conf"
