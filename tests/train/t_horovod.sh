#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# What users of Horovod know: gradients in fp16 on their way, the size of what is fused, a learning
# rate times the replicas, and its variables.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 22

check "a dataset is built" small_corpus

# run NAME OPTION...: two replicas; losses in $work/NAME.losses.
run() {
    run_name=$1
    shift
    small 2 --train-iters 6 "$@" > "$work/$run_name.log" 2>&1 || { tail -n 20 "$work/$run_name.log"; return 1; }
    losses "$work/$run_name.log" 6 > "$work/$run_name.losses"
    [ "$(wc -l < "$work/$run_name.losses")" = 6 ]
}
sent() { sed -n 's/^traffic .*gradients-sum (bytes): \([0-9]*\) .*/\1/p' "$work/$1.log" | tail -n 1; }
check "all-reduce in fp32" run whole --log-traffic

half() {
    run half --fp16-allreduce --log-traffic && [ "$(sent half)" = $(($(sent whole) / 2)) ] &&
        close_losses "$work/whole.losses" "$work/half.losses" 1e-3
}
check "fp16 on the wire: half the bytes, and about the same losses" half
later() { run later --dp-wire fp16 --no-overlap-grad-reduce --ddp-bucket-size 3000 && cmp "$work/half.losses" "$work/later.losses"; }
check "in other buckets, after the backward pass: the same bits" later
sharded() {
    run sharded --dp-wire bf16 --use-distributed-optimizer --log-traffic && [ "$(sent sharded)" = $(($(sent whole) / 4)) ] &&
        close_losses "$work/whole.losses" "$work/sharded.losses" 1e-2 && ! cmp "$work/whole.losses" "$work/sharded.losses"
}
check "scattered in bf16: a quarter" sharded
# Gradients in fp32 of a loss times 2^40 are numbers, and in fp16 they are not.
overflow() {
    run overflow --fp16 --accumulate-allreduce-grads-in-fp32 --loss-scale 1099511627776 --dp-wire fp16
    grep -q 'gradients of iteration 1 are not finite in fp16, in which replicas sum them' "$work/overflow.log" &&
        grep -q '^ iteration .*number of skipped iterations:   1' "$work/overflow.log"
}
check "what overflows is said, and updates nothing" overflow

horovod() {
    run strategy --strategy horovod --lr .001 && run twice --lr .002 && cmp "$work/strategy.losses" "$work/twice.losses" &&
        cmp "$work/whole.losses" "$work/twice.losses" &&
        grep -q '^> --strategy horovod stands for --zero-stage 0 --lr-times-replicas' "$work/strategy.log"
}
check "--strategy horovod: the learning rate times two replicas" horovod
fused() { run fused --fusion-threshold-mb 0.01 && cmp "$work/whole.losses" "$work/fused.losses"; }
check "fused in small buffers: the same bits" fused

# dry OPTION...: what the environment makes of the options.
dry() { small 1 --dry-run --log-arguments --world-size 2 --train-iters 1 "$@" > "$work/dry.log" 2>&1; }
variables() {
    HOROVOD_FUSION_THRESHOLD=67108864 HOROVOD_CYCLE_TIME=3.5 HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=90 dry &&
        grep -q '^  fusion_threshold_mb \.* 64\.0$' "$work/dry.log" &&
        grep -q '^  distributed_timeout_minutes \.* 1\.5$' "$work/dry.log" &&
        grep -q 'HOROVOD_CYCLE_TIME has no effect: what is fused is planned' "$work/dry.log"
}
check "its variables are read" variables
option_wins() {
    HOROVOD_FUSION_THRESHOLD=67108864 dry --ddp-bucket-size 5000 &&
        grep -q '^  fusion_threshold_mb \.* None$' "$work/dry.log" &&
        HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=0 dry && grep -q '^  distributed_timeout_minutes \.* 10$' "$work/dry.log"
}
check "an option wins, and 0 is none" option_wins

# The timeline of 2 replicas of one layer, in buckets of 5000: events of each bucket as it goes, B
# and E in pairs.
timeline() {
    command -v python3 > /dev/null 2>&1 || { echo "python3 is not installed"; return 0; }
    timeline_name=$1
    shift
    run "$timeline_name" --ddp-bucket-size 5000 --timeline-filename "$work/$timeline_name.json" "$@" &&
        python3 - "$work/$timeline_name.json" > "$work/$timeline_name.events" << 'END'
import json, sys
names, open_now, seen, marks = {}, {}, {}, 0
for e in json.load(open(sys.argv[1])):
    pid = e["pid"]
    if e["ph"] == "M":
        names.update({pid: e["args"]["name"]} if "name" in e["args"] else {})
    elif e["ph"] == "i":
        assert e["name"] == "CYCLE_START" and e["s"] == "g", e
        marks += 1
    elif e["ph"] == "B":
        open_now.setdefault(pid, []).append((e["name"], e["ts"]))
        seen.setdefault(pid, []).append("/".join(n for n, _ in open_now[pid]))
    elif e["ph"] == "E":
        assert e["ts"] >= open_now[pid].pop()[1], e
    else:
        assert e["ph"] == "X" and e["name"] == "0" and e["dur"] == 0, e
assert all(not o for o in open_now.values()) and set(seen) == set(names) - {0}, names
assert "layernorm" in names[1], names
assert all(s == seen[1] for s in seen.values()), seen
each = len(seen[1]) // 6
print(marks // 6 == len(seen), " ".join(seen[1][:each]))
assert seen[1] == seen[1][:each] * 6, seen[1]
END
    cat "$work/$timeline_name.events"
}
plain_timeline() {
    timeline plain && [ "$(cat "$work/plain.events")" = "False NEGOTIATE_ALLREDUCE ALLREDUCE ALLREDUCE/QUEUE ALLREDUCE/MPI_ALLREDUCE" ] &&
        cmp "$work/whole.losses" "$work/plain.losses"
}
check "a timeline" plain_timeline
cast_timeline() {
    timeline cast --fp16-allreduce --timeline-mark-cycles && grep -q "^True NEGOTIATE_ALLREDUCE ALLREDUCE \
ALLREDUCE/MEMCPY_IN_FUSION_BUFFER ALLREDUCE/QUEUE ALLREDUCE/MPI_ALLREDUCE ALLREDUCE/MEMCPY_OUT_FUSION_BUFFER$" "$work/cast.events"
}
check "with casts, and a mark for each bucket" cast_timeline
scattered_timeline() {
    timeline scattered --zero-stage 1 --no-overlap-grad-reduce &&
        grep -q "NEGOTIATE_REDUCESCATTER REDUCESCATTER REDUCESCATTER/QUEUE REDUCESCATTER/MPI_REDUCESCATTER$" "$work/scattered.events"
}
check "of sharded optimizer states" scattered_timeline

# While it runs, until it has grown to 300 kB, and after SIGKILL it is an array.  A reader may come
# while two pages are written, and looks once more.
running() {
    command -v python3 > /dev/null 2>&1 || return 0
    (HOROVOD_TIMELINE=$work/running.json small 2 --ddp-bucket-size 5000 --train-iters 1000000 > "$work/running.log" 2>&1) &
    running_pid=$!
    python3 - "$work/running.json" << 'END'
import json, os, sys, time
path, end, last, looks = sys.argv[1], time.monotonic() + 120, 0, 0
def look():
    return len(json.load(open(path)))
while last < 4000 and time.monotonic() < end:
    if not os.path.exists(path) or os.path.getsize(path) == 0:
        time.sleep(0.01)
        continue
    try:
        n = look()
    except ValueError:
        time.sleep(0.01)
        n = look()
    assert n >= last, (n, last)
    last, looks = n, looks + 1
print(looks, "times,", last, "events")
assert last >= 4000 and looks > 5
END
    running_code=$?
    for running_rank in $(rank_pids $running_pid); do kill -9 "$running_rank"; done
    wait $running_pid
    [ $running_code = 0 ] && python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))))' "$work/running.json"
}
check "it is an array while the run goes on, and after SIGKILL" running

once="--train-iters=1"
fails "marks without a timeline" 64 "give --timeline-filename FILE" refused 2 --timeline-mark-cycles "$once"
fails "a folder that does not exist" 74 "cannot write $work/no/x.json" small 2 --timeline-filename "$work/no/x.json" "$once"
fails "two sizes" 64 "--fusion-threshold-mb is the size of a bucket in MiB" refused 2 --fusion-threshold-mb 64 \
    --ddp-bucket-size 5000 "$once"
fails "two types" 64 "--fp16-allreduce is --dp-wire fp16" refused 2 --fp16-allreduce --dp-wire bf16 "$once"
fails "servers" 64 "give --dp-mode allreduce or --zero-stage 1" refused 2 --dp-wire fp16 --dp-mode central_ps "$once"
fails "sharded gradients" 64 "with --zero-stage they are exchanged in another way" refused 2 --dp-wire fp16 --zero-stage 2 "$once"
fails "a size of nothing" 64 "fusion-threshold-mb" refused 2 --fusion-threshold-mb 0 "$once"
fails "too many buckets" 64 "--fusion-threshold-mb makes more than" refused 2 --fusion-threshold-mb 1e-9 --hidden-size 12800 "$once"
