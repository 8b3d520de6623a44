#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# --trace: what the file says of iterations whose order is known, in any layout and on
# any machine: causes come before effects, and durations are those of the log.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
# shellcheck disable=SC2034 # of the file that was sourced
trireme=$PWD/trireme
srcdir=$(cd "$srcdir" && pwd)
command -v python3 >/dev/null 2>&1 || skip_all "python3 is not installed"
plan 12

check "a dataset is built" small_corpus

# read.py TRACE RANKS FIRST LAST MICROS CHUNKS [LOG]: exits 0 if all holds.
cat > "$work/read.py" <<'END'
import collections, json, re, sys

path, ranks, first, last, micros, chunks = sys.argv[1], *map(int, sys.argv[2:7])
trace = json.load(open(path))
meta, events = trace["metadata"], trace["traceEvents"]
assert (meta["schema"], meta["ranks"]) == (1, ranks), meta
assert (meta["first-iteration"], meta["last-iteration"]) == (first, last), meta
error = meta["clock-error-us"]
slack = 2 * error + 0.01
names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
who = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
place = {r: tuple(map(int, re.findall(r"(?:stage|tensor|replica) (\d+)", who[r]))) for r in who}
assert sorted(who) == list(range(ranks)), who
colours = {1: "startup", 2: "good", 3: "thread_state_iowait", 4: "startup", 5: "good",
           6: "thread_state_iowait", 7: "cq_build_passed", 8: "bad"}
titles = {1: "1. forward-recv", 2: "2. forward-compute", 3: "3. forward-send", 4: "4. backward-recv",
          5: "5. backward-compute", 6: "6. backward-send", 7: "7. optimizer-comm",
          8: "8. optimizer-comp"}
x = [e for e in events if e["ph"] == "X"]
assert min(e["ts"] for e in x) >= 0
for e in x:
    assert e["dur"] >= 0 and e["args"].get("wait", 0) <= e["dur"] + 0.01, e
    if e["tid"]:
        assert e["cname"] == colours[e["tid"]] and names[e["pid"], e["tid"]] == titles[e["tid"]], e

# Every computation once in each iteration, in order.
found = collections.defaultdict(list)
for e in sorted(x, key=lambda e: e["ts"]):
    if re.fullmatch(r"[FB]\d+", e["name"]):
        key = e["name"][0], e["args"]["micro-batch"], e["args"]["chunk"]
        assert int(e["name"][1:]) == key[1], e
        found[place[e["pid"]], key].append((e["ts"], e["ts"] + e["dur"]))
stages = 1 + max(p[0] for p in place.values())
assert len(found) == ranks * micros * chunks * 2, len(found)
assert all(len(v) == last - first + 1 for v in found.values())

# What a stage computes from begins after the other stage has computed it.
pairs = 0
for (at, (what, micro, chunk)), spans in found.items():
    step = stages * chunk + at[0]
    before = step - 1 if what == "F" else step + 1
    if not 0 <= before < stages * chunks:
        continue
    other = found[(before % stages,) + at[1:], (what, micro, before // stages)]
    for mine, theirs in zip(spans, other):
        assert theirs[1] <= mine[0] + slack, (at, what, micro, chunk, theirs, mine)
        pairs += 1
assert stages == 1 or pairs == ranks // stages * (stages * chunks - 1) * 2 * micros * (last - first + 1)

# A message ends after its sending began.
for send, recv, away in (3, 1, 1), (6, 4, -1):
    begun, ended = collections.defaultdict(list), collections.defaultdict(list)
    for e in sorted(x, key=lambda e: e["ts"]):
        if e["tid"] in (send, recv) and e["name"] in ("send", "recv") and chunks == 1:
            stage, tensor, replica = place[e["pid"]]
            if e["tid"] == send:
                begun[stage + away, tensor, replica, e["args"]["micro-batch"]].append(e["ts"])
            else:
                ended[stage, tensor, replica, e["args"]["micro-batch"]].append(e["ts"] + e["dur"])
    assert begun.keys() == ended.keys()
    for key in begun:
        for b, e in zip(begun[key], ended[key]):
            assert b <= e + slack, (key, b, e)

# The durations of the last rank are those of its log.
if len(sys.argv) > 7:
    sums, seen = collections.Counter(), set()
    for e in x:
        name = e["args"].get("timer", e["name"])
        name = {"F": "forward-compute", "B": "backward-compute"}.get(name[0], name)
        once = e["pid"], e["ts"], name
        if e["pid"] == ranks - 1 and once not in seen:
            seen.add(once)
            sums[name] += e["dur"]
    line = [l for l in open(sys.argv[7]) if l.startswith("time (ms) | forward-compute")][-1]
    log = dict(re.findall(r"([a-z-]+): ([0-9.]+)", line.split("|", 1)[1]))
    assert len(log) >= 6, log
    for name, ms in log.items():
        traced = sums[name] / 1000 / (last - first + 1)
        assert abs(traced - float(ms)) < 0.011, (name, ms, traced)
END

traced() {
    traced_ranks=$1
    shift
    small "$traced_ranks" --train-iters 4 --log-interval 2 --eval-iters 0 --trace "$work/trace.json" \
        --trace-step-start 2 --trace-step-end 4 "$@" > "$work/log" 2>&1
}
reads() { python3 "$work/read.py" "$work/trace.json" "$@"; }

check "a run of four stages" traced 4 --pipeline-model-parallel-size 4
check "its trace is in order, and as long as the log says" reads 4 3 4 8 1 "$work/log"
check "a run of two stages, tensors and replicas, over a slow network" traced 8 --pipeline-model-parallel-size 2 \
    --tensor-model-parallel-size 2 --distributed-backend slow --slow-rate 1 --slow-latency 1
check "its trace" reads 8 3 4 4 1 "$work/log"
check "a run with two chunks per stage" traced 2 --pipeline-model-parallel-size 2 \
    --num-layers-per-virtual-pipeline-stage 1
check "its trace" reads 2 3 4 8 2
check "one rank" traced 1 --no-split-wait
check "its trace" reads 1 3 4 8 1 "$work/log"

# A folder, a run that ends before, and numbers that nothing changes.
same() {
    mkdir -p "$work/traces" &&
        small 2 --pipeline-model-parallel-size 2 --train-iters 3 --trace "$work/traces" \
            --trace-step-start 1 --trace-step-end 9 > "$work/with" 2>&1 &&
        python3 "$work/read.py" "$work/traces/iterations-2-9.json" 2 2 3 8 1 &&
        small 2 --pipeline-model-parallel-size 2 --train-iters 3 --no-split-wait \
            > "$work/without" 2>&1 &&
        losses "$work/with" 3 > "$work/with.losses" &&
        losses "$work/without" 3 > "$work/without.losses" && [ -s "$work/with.losses" ] &&
        cmp "$work/with.losses" "$work/without.losses"
}
check "a trace in a folder, of what there was, and the same losses" same

fails "a folder that cannot be made" 74 "and --trace wants its trace there" small 2 --train-iters 1 \
    --trace /proc/trace.json
fails "a start that is no start" 64 "--trace-step-start 5 is not before --trace-step-end 5" small 1 \
    --train-iters 9 --trace "$work/never" --trace-step-start 5 --trace-step-end 5
