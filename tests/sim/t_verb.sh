#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# `trireme sim`: what it prints, writes and refuses.
. "$srcdir/tests/tap.sh"
plan 23
TRIREME_MACHINES=$srcdir/machines
export TRIREME_MACHINES

# sim OPTION...: 64 ranks in 4 stages and 2 replicas.
sim() {
    "$trireme" sim --machine selene-a100 --num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 1024 \
        --max-position-embeddings 1024 --vocab-size 50257 --fp16 --micro-batch-size 1 --global-batch-size 32 \
        --world-size 64 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 "$@"
}
# number KEY OPTION...: the first number of that key in the JSON.
number() {
    key=$1
    shift
    sim --json "$@" | sed -n "s/.*\"$key\": \(-*[0-9.e+-]*\),*/\1/p" | head -n 1
}
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 > 0 && a + 0 < b + 0) }'; }
# refused WORDS OPTION...
refused() {
    words=$1
    shift
    sim "$@" >"$work/out" 2>&1
    [ $? -eq 64 ] && [ "$(wc -l <"$work/out")" -eq 1 ] && grep -q -e "$words" "$work/out"
}

base=$(number p50)
text() { sim >"$work/text" && grep -q '4 of 8 groups' "$work/text" && grep -q '^bubble' "$work/text" && grep -q '^node ' "$work/text"; }
check "stages, causes and links" text
check "a straggler slows the iteration" less "$base" "$(number p50 --speeds 3:0.5)"
faster() { less "$(number p50 --what-if inter-node-gbs=10x)" "$base" && [ "$(number seconds_before --what-if inter-node-gbs=10x)" = "$base" ]; }
check "what a quicker network would do" faster
slower() { sim --sensitivities | awk '$1 == "gemm-efficiency" { exit !($2 + 0 > 2 && $4 + 0 < -2) } END { if (NR == 0) exit 1 }'; }
check "sensitivity to the speed of GEMMs" slower
drawn() { less "$(number p10 --jitter 10 --draws 8)" "$(number p90 --jitter 10 --draws 8)" && less "$base" "$(number p10 --jitter 10 --draws 8)"; }
check "quantiles of draws" drawn
repeats() { sim --jitter 5 --draws 3 >"$work/a" && sim --jitter 5 --draws 3 >"$work/b" && cmp "$work/a" "$work/b"; }
check "draws repeat" repeats
every() { [ "$(number p50 --every-rank)" = "$base" ]; }
check "every rank has the same iteration" every
failing() { less "$(number expected --save-seconds 60 --what-if node-mtbf-hours=10)" "$(number expected --save-seconds 60 --what-if node-mtbf-hours=1000)"; }
check "goodput with failures" failing
traced() {
    sim --sim-trace "$work/trace" --sim-trace-ranks 0,63 >/dev/null && python3 - "$work/trace" <<'EOF'
import json, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
for rank in (0, 63):
    spans = [e for e in events if e["pid"] == rank and e["ph"] == "X" and e["tid"] > 0]
    own = sorted((e["ts"], e["dur"]) for e in spans)
    passes = {e["name"] for e in spans if "micro-batch" in e["args"]}
    assert passes == {f"{way}{micro}" for way in "FB" for micro in range(16)}, passes
    assert all(a[0] + a[1] <= b[0] + 0.002 for a, b in zip(own, own[1:]))
EOF
}
spread() { sim --save-seconds 60 --what-if node-mtbf-hours=20 --queue-seconds 7200 "$@" | sed -n 's/.*P10 \([0-9.]*\), P50 .*/\1/p'; }
waits() { less "$(spread --queue-median-seconds 60)" "$(spread)"; }
check "waits in the queue that vary make months vary" waits
stepped() { less "$base" "$(number p50 --collectives ring)" && less "$(number p50 --collectives ring --what-if intra-node-us=0,inter-node-us=0)" "$base"; }
check "each step of a ring has a latency" stepped
chosen() {
    sim --collectives auto --use-distributed-optimizer | grep -q '^collectives  *ring over replicas, ring over tensor ranks$' &&
        sim --collectives auto --world-size 1024 --global-batch-size 256 --ddp-bucket-size 1000 | grep -q 'tree over replicas'
}
check "the algorithm that auto chooses for few bytes is a tree" chosen
# 2 replicas that take the times of a group of 2 that was measured here, and then a thousand times
# as long.
measured() {
    "$srcdir/tests/mpirun" --ranks 2 "$trireme" bench coll --max-bytes 64K --repetitions 1 --num-layers 2 --hidden-size 64 \
        --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --vocab-size 100 --micro-batch-size 1 \
        --global-batch-size 2 >"$work/table" 2>"$work/err" || return
    awk '/all-reduce/ { $6 *= 1000 } { print }' "$work/table" >"$work/slow"
    less "$(number p50 --collective-curve "$work/table")" "$(number p50 --collective-curve "$work/slow")"
}
check "times of bench coll" measured
check "a table that is none" refused 'bench coll' --collective-curve "$srcdir/NEWS"
check "a trace of two ranks, whose stretches do not overlap" traced
check "a key that there is not" refused 'inter-node-gbs' --what-if inter-node-gb=2x
check "a value out of range" refused 'from 0.001 to 1' --what-if gemm-efficiency=2
check "a rank that there is not" refused 'from 0 to 63' --speeds 64:0.9
check "oversubscription without switches" refused '--leaf-nodes' --leaf-oversubscription 2
check "a median above the mean" refused 'is above the mean of --queue-seconds' --queue-seconds 60 --queue-median-seconds 90
check "an algorithm that there is not" refused 'hierarchical' --collectives butterfly
check "algorithms where replicas exchange something else" refused '--collectives plan' --collectives tree --dp-mode adasum --untie-embeddings-and-output-weights
check "more draws than have numbers" refused '65536' --jitter 1 --draws 70000
check "a job that fails all the time" refused 'gets nowhere' --save-seconds 1 --what-if node-mtbf-hours=0.01
