#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# `trireme report --timeline`: a trace by hand, whose picture is known, and one of a run.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 32

# Two ranks, two iterations of 100 ms; rank 1 waits 20 ms for its first message, which then takes 5.
cat >"$work/trace" <<'TRACE'
{"metadata": {"schema": 1, "ranks": 2, "first-iteration": 7, "last-iteration": 8}, "traceEvents": [
{"name": "process_name", "ph": "M", "pid": 0, "args": {"name": "rank 0 on <a&b>"}},
{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "rank 1 on c"}},
{"name": "forward-backward", "ph": "X", "pid": 0, "tid": 0, "ts": 1000, "dur": 90000, "args": {}},
{"name": "batch-generator", "ph": "X", "pid": 0, "tid": 2, "ts": 1000, "dur": 10, "args": {"micro-batch": 0}},
{"name": "F0", "ph": "X", "pid": 0, "tid": 2, "ts": 1000, "dur": 20000, "args": {"micro-batch": 0}},
{"name": "B0", "ph": "X", "pid": 0, "tid": 5, "ts": 61000, "dur": 30000, "args": {"micro-batch": 0}},
{"name": "optimizer", "ph": "X", "pid": 0, "tid": 8, "ts": 91000, "dur": 10000, "args": {}},
{"name": "forward-backward", "ph": "X", "pid": 1, "tid": 0, "ts": 1500, "dur": 80000, "args": {}},
{"name": "recv", "ph": "X", "pid": 1, "tid": 1, "ts": 1000, "dur": 25000, "args": {"micro-batch": 0, "wait": 20000}},
{"name": "F0", "ph": "X", "pid": 1, "tid": 2, "ts": 26000, "dur": 10000, "args": {"micro-batch": 0}},
{"name": "forward-backward", "ph": "X", "pid": 0, "tid": 0, "ts": 101000, "dur": 50000, "args": {}},
{"name": "F0", "ph": "X", "pid": 0, "tid": 2, "ts": 101000, "dur": 50000, "args": {"micro-batch": 0}},
{"name": "W0", "ph": "X", "pid": 1, "tid": 5, "ts": 141000, "dur": 10000, "args": {"micro-batch": 0}}
]}
TRACE

draw() { "$trireme" report --timeline "$@" -o "$work/svg"; }
# spans COLOUR: "FROM TO ROW; ..." of those in rows, in ms by the axis, from left to right; above
# the axis is the legend.
spans() {
    tr -d '<>' < "$work/svg" | tr '"=' '  ' | awk -v colour="$1" '
        $1 == "line" { x[++lines] = $3; top = $7 }
        /text-anchor  *middle/ && lines && !step && lines == 2 { sub(/.*middle/, ""); sub(/\/text.*/, ""); step = $1 }
        $1 == "rect" && $11 == colour && lines && $5 > top { n++; from[n] = $3; to[n] = $3 + $7; y[n] = $5 - top }
        END { for (i = 1; i <= n; i++) printf "%.1f %.1f %d; ", (from[i] - x[1]) / (x[2] - x[1]) * step,
            (to[i] - x[1]) / (x[2] - x[1]) * step, y[i] / 26.4 }'
}
rects() { [ "$(spans "$1" | tr -cd ';' | wc -c)" -eq "$2" ] || { spans "$1"; cat "$work/svg"; return 1; }; }
are() { [ "$(spans "$1")" = "$2" ] || { echo "$(spans "$1") / $2"; cat "$work/svg"; return 1; }; }
has() { grep -qF -e "$1" "$work/svg" || { cat "$work/svg"; return 1; }; }

check "the first iteration is drawn" draw "$work/trace"
check "two forward passes" are '#0072b2' "0.0 20.0 0; 25.0 35.0 1; "
check "one backward pass, 60 to 90 of 100 ms" are '#56b4e9' "60.0 90.0 0; "
check "20 ms of waiting" are '#d4d4d4' "0.0 20.0 1; "
check "then 5 of a message" are '#d55e00' "20.0 25.0 1; "
check "the optimizer" rects '#e69f00' 1
check "what it is called is text" has 'rank 0 on &lt;a&amp;b&gt;'
check "an axis" has '>100</text>'
check "another iteration" draw "$work/trace" --timeline-iteration 8
check "one pass of half the picture's ranks" rects '#0072b2' 1
check "gradients of weights, from 40 to 50 of 50 ms" are '#009e73' "40.0 50.0 1; "
check "with a name in the legend" has '>gradients of weights</text>'

fails "an iteration that is not there" 64 "has iterations 7 to 8, and not 9" draw "$work/trace" --timeline-iteration 9
head -c 700 "$work/trace" >"$work/cut"
fails "half a trace" 65 "is no trace: line" draw "$work/cut"
echo '{"traceEvents": [], "metadata": {"schema": 1, "ranks": 99999999}}' >"$work/huge"
fails "numbers that no trace has" 65 "is no trace of this program" draw "$work/huge"
# sed SCRIPT: the trace with other numbers.
odd() { sed "$1" "$work/trace" >"$work/odd" && timeout 60 "$trireme" report --timeline "$work/odd" -o "$work/svg"; }
fails "more ranks than events" 65 "is no trace of this program" odd 's/"ranks": 2/"ranks": 1000000/'
fails "the most iterations that can be counted" 65 "is no trace of this program" \
    odd 's/"first-iteration": 7, "last-iteration": 8/"first-iteration": 0, "last-iteration": 9223372036854775807/'
nothing='"first-iteration": 7, "last-iteration": 7'
fails "an iteration of next to no time" 65 "says nothing of iteration 7" \
    odd "s/\"first-iteration\": 7, \"last-iteration\": 8/$nothing/
        s/\"ts\": [0-9]*/\"ts\": 0/; s/\"dur\": [0-9]*/\"dur\": 5e-324/"
fails "times that no clock has" 65 "says nothing of iteration 7" \
    odd 's/"ts": [0-9]*/"ts": -1e308/; s/"dur": [0-9]*/"dur": 1.7e308/'
check "a span that has no end is not drawn" odd 's/"dur": 30000/"dur": 1e300/'
check "and the others are" rects '#56b4e9' 0
named() { odd 's/rank 1 on c/rank 1 on \\u001b[31m \\u009b/' && has 'rank 1 on ?[31m ??'; }
check "no name of a rank reaches a terminal as it is" named
fails "a file that is not there" 74 "cannot open" draw "$work/none"
fails "with a table" 64 "makes no tables" draw "$work/trace" --show runs

# A plan and a simulation of 4 stages with 4 micro-batches, above one another.
stages() {
    verb=$1
    shift
    TRIREME_MACHINES=$srcdir/machines "$trireme" "$verb" --machine selene-a100 --num-layers 24 \
        --hidden-size 2048 --num-attention-heads 16 --seq-length 1024 \
        --max-position-embeddings 1024 --vocab-size 50257 --fp16 --micro-batch-size 1 \
        --global-batch-size 4 --world-size 32 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 "$@"
}
made() {
    stages plan --json --plan-trace "$work/planned" >"$work/plan.json" &&
        stages sim --json --sim-trace "$work/simulated" >"$work/sim.json"
}
# ms FILE KEY: the number of that key among the seconds.
ms() {
    sed -n '/"[a-z_]*seconds": {/,$p' "$1" | sed -n "s/.*\"$2\": \(-*[0-9.e+-]*\),*/\1/p" |
        head -n 1 | awk '{ printf "%.4g", 1000 * $1 }'
}
check "a plan and a simulation" made
check "are drawn above one another" draw "$work/planned" "$work/simulated" --timeline-iteration 9
check "with the plan's time" has "Planned, $(ms "$work/plan.json" total) ms: 4 of 32 ranks"
check "and that of the simulation" has "Simulated, $(ms "$work/sim.json" p50) ms: 4 of 32 ranks"
check "each with 16 forward passes" rects '#0072b2' 32
check "and 16 backward passes" rects '#56b4e9' 32
# The parts of a plan follow one another: passes, sums of gradients, update, and the rest.
ends() { python3 - "$work/planned" "$work/plan.json" "$work/simulated" <<'PY'
import json, sys
spans = [e for e in json.load(open(sys.argv[1]))["traceEvents"] if e["ph"] == "X"]
t = json.load(open(sys.argv[2]))["seconds"]
passes = max(e["ts"] + e["dur"] for e in spans if e["name"][0] in "FB")
assert abs(passes - 1e6 * (t["total"] - t["reduction"] - t["optimizer"] - t["rest"])) < 1, passes
assert abs(max(e["ts"] + e["dur"] for e in spans) - 1e6 * (t["total"] - t["rest"])) < 1
for pid in {e["pid"] for e in spans}:
    own = sorted((e["ts"], e["dur"]) for e in spans if e["pid"] == pid and e["tid"] > 0)
    assert all(a[0] + a[1] <= b[0] + 0.002 for a, b in zip(own, own[1:])), pid
def passes_of(spans):
    return {(e["pid"], e["name"]): e["dur"] for e in spans if e["name"][0] in "FB"}
simulated = [e for e in json.load(open(sys.argv[3]))["traceEvents"] if e["ph"] == "X"]
ours, its = passes_of(spans), passes_of(simulated)
assert ours.keys() == its.keys() and all(abs(ours[k] / its[k] - 1) < 1e-3 for k in ours), its
PY
}
check "and spans add up to the time of the plan, with passes as simulated" ends

of_a_run() {
    small_corpus && small 2 --pipeline-model-parallel-size 2 --train-iters 4 --trace "$work/real" --trace-step-start 2 \
        --trace-step-end 3 && draw "$work/real" && grep -q 'Iteration 3 on 2 ranks' "$work/svg"
}
check "of a run" of_a_run
