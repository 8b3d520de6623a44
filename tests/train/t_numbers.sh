#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# --tensorboard-dir and --log-jsonl: a reader of its own finds every checksum right and the numbers
# of the log, each once, under the names of Megatron-LM.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
command -v python3 >/dev/null 2>&1 || skip_all "python3 is not installed"
plan 9

check "a dataset is built" small_corpus

cat > "$work/numbers.py" <<'END'
import collections, glob, json, math, re, struct, sys, time


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


assert crc32c(b"123456789") == 0xE3069283


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(b, i):
    value = shift = 0
    while True:
        value |= (b[i] & 0x7F) << shift
        shift, i = shift + 7, i + 1
        if b[i - 1] < 0x80:
            return value, i


def fields(b):
    i = 0
    while i < len(b):
        key, i = varint(b, i)
        wire = key & 7
        if wire == 0:
            value, i = varint(b, i)
        elif wire == 2:
            n, i = varint(b, i)
            value, i = b[i:i + n], i + n
            assert len(value) == n
        else:
            n = {1: 8, 5: 4}[wire]
            value, i = struct.unpack("<d" if n == 8 else "<f", b[i:i + n])[0], i + n
        yield key >> 3, value


def events(folder):
    """tag -> {step: value}, of all files, the newest last"""
    found = collections.defaultdict(dict)
    files = sorted(glob.glob(folder + "/events.out.tfevents.*"))
    for name in files:
        b, i, first = open(name, "rb").read(), 0, True
        while i < len(b):
            (n,) = struct.unpack("<Q", b[i:i + 8])
            record = b[i + 12:i + 12 + n]
            assert struct.unpack("<I", b[i + 8:i + 12])[0] == masked(b[i:i + 8])
            assert struct.unpack("<I", b[i + 12 + n:i + 16 + n])[0] == masked(record)
            i += 16 + n
            event = dict(fields(record))
            assert abs(event[1] - time.time()) < 3600
            if first:
                assert event[3] == b"brain.Event:2" and 5 not in event
                first = False
                continue
            (value,) = [v for k, v in fields(event[5]) if k == 1]
            value = dict(fields(value))
            tag = value[1].decode()
            assert event[2] not in found[tag] or len(files) > 1, (tag, event[2])
            found[tag][event[2]] = value[2]
        assert i == len(b)
    return found, len(files)


def log(path):
    rows, validations = [], []
    for line in open(path):
        m = re.match(r" iteration +(\d+)/", line)
        if m:
            row = {k.strip(): v for k, v in re.findall(r"\| ([^:|]+): +([^ |]+) ", line)}
            row["iteration"] = int(m.group(1))
            rows.append(row)
        m = re.search(r"validation loss at .*lm loss value: (\S+)", line)
        if m:
            validations.append(float(m.group(1)))
    return rows, validations


def close(a, text):
    """as far as the text of the log goes"""
    digits = re.fullmatch(r"-?(\d*)\.?(\d*)(?:E([+-]\d+))?", text)
    unit = 10.0 ** (int(digits.group(3) or 0) - len(digits.group(2)))
    return abs(a - float(text)) <= 0.51 * unit + 2e-7 * abs(a)


what = sys.argv[1]
rows, validations = log(sys.argv[2])
assert len(rows) >= 4
if what == "events":
    found, files = events(sys.argv[3])
    assert files == 1
    names = {"lm loss": "lm loss", "learning-rate": "learning rate", "loss-scale": "loss scale",
             "grad-norm": "grad norm", "batch-size": "global batch size", "num-zeros": "num zeros",
             "params-norm": "params norm"}
    for tag, field in names.items():
        assert found[tag].keys() == {r["iteration"] for r in rows}, (tag, found[tag])
        for r in rows:
            assert close(found[tag][r["iteration"]], r[field]), (tag, r)
            assert close(found[tag + " vs samples"][int(r["consumed samples"])], r[field]), (tag, r)
    for r in rows:
        assert close(1000 * found["iteration-time"][r["iteration"]],
                     r["elapsed time per iteration (ms)"]), r
    assert validations and close(found["lm loss validation"][2], "%.6E" % validations[0])
    assert math.isclose(found["lm loss validation ppl"][2], math.exp(validations[0]), rel_tol=1e-4)
    assert found["mem-reserved-bytes"][1] > found["mem-allocated-bytes"][1] > 0
    assert found["forward-compute-time"][1] > 0 and "optimizer-time" in found
elif what == "groups":
    found, files = events(sys.argv[3])
    for tag, field in (("lm-loss-training/lm loss", "lm loss"), ("grad-norm/grad-norm", "grad norm")):
        assert len(found[tag]) == 2, found[tag]          # every second iteration
        for r in rows[1::2]:
            for end, step in (("", r["iteration"]), (" vs samples", int(r["consumed samples"])),
                              (" vs tokens", int(r["consumed tokens"]))):
                assert close(found[tag + end][step], r[field]), (tag, end, r)
    assert "lm-loss-validation/lm loss validation" in found
    for r in rows:
        tokens = found["throughput/tokens_per_sec"][r["iteration"]]
        assert close(tokens / 32, r["samples per second"]), (tokens, r)
        assert close(found["throughput/tflops"][r["iteration"]], r["TFLOPs"]), r
    assert found["mem-reserved-bytes"][2] > found["mem-allocated-bytes"][2] > 0
    assert not {"throughput", "tokens-per-second", "throughput/mfu"} & found.keys()
    assert not any("learning-rate" in tag or "loss-scale" in tag for tag in found), found.keys()
elif what == "resumed":
    found, files = events(sys.argv[3])
    assert files == 2 and sorted(found["lm loss"]) == [1, 2, 3, 4], found["lm loss"]
    for r in rows:
        seconds = 8 * 32 / found["tokens-per-second"][r["iteration"]]
        assert close(1000 * seconds, r["elapsed time per iteration (ms)"]), (seconds, r)
        assert close(found["throughput"][r["iteration"]], r["throughput per GPU (TFLOP/s/GPU)"]), r
    assert "mfu" not in found
else:
    lines = [json.loads(l) for l in open(sys.argv[3])]
    assert all(l["schema"] == 1 for l in lines)
    steps = [l for l in lines if l["kind"] == "iteration"]
    assert [l["iteration"] for l in steps] == [r["iteration"] for r in rows], steps
    starts = [l for l in lines if l["kind"] == "start"]
    assert [s["iteration"] for s in starts] == [0, 2] and starts[0]["ranks"] == 2, starts
    assert [l["lm_loss"] for l in lines if l["kind"] == "validation"]
    for l, r in zip(steps, rows):
        for name, field in (("lm_loss", "lm loss"), ("learning_rate", "learning rate"),
                            ("grad_norm", "grad norm"), ("loss_scale", "loss scale"),
                            ("elapsed_ms", "elapsed time per iteration (ms)")):
            assert close(l[name], r[field]), (name, l, r)
        assert math.isclose(l["tokens_per_second"], 256e3 / l["elapsed_ms"], rel_tol=1e-6), l
        assert close(l["tflops_per_rank"], r["throughput per GPU (TFLOP/s/GPU)"]), (l, r)
        assert "mfu" not in l, "a CPU rank has no maker's peak"
        assert 0 < l["memory_allocated_bytes"] and 0 < l["memory_resident_bytes"]
        assert l["consumed_samples"] == int(r["consumed samples"])
        assert l["global_batch_size"] == 8 and l["skipped"] is False and l["seconds"] > 0
        assert l["timers_ms"]["forward-compute"] > 0
END

# Five, so that the last validation is not also one of every second iteration.
both() {
    small 2 --pipeline-model-parallel-size 2 --train-iters 5 --eval-interval 2 \
        --tensorboard-dir "$work/board" --log-timers-to-tensorboard --log-batch-size-to-tensorboard \
        --log-validation-ppl-to-tensorboard --log-memory-to-tensorboard --log-params-norm \
        --log-num-zeros-in-grad > "$work/log" 2>&1 &&
        python3 "$work/numbers.py" events "$work/log" "$work/board"
}
check "events have the numbers of the log" both

groups() {
    small 2 --log-format megatron-deepspeed --train-iters 4 --tensorboard-dir "$work/groups" \
        --tensorboard-log-interval 2 --no-log-learnig-rate-to-tensorboard --log-throughput \
        --log-memory-to-tensorboard --no-log-loss-scale-to-tensorboard > "$work/log2" 2>&1 &&
        python3 "$work/numbers.py" groups "$work/log2" "$work/groups"
}
check "groups of BigScience's fork, every second iteration" groups

# A run that stops and goes on, in another layout; its first job left half a line.
resumed() {
    small 2 --pipeline-model-parallel-size 2 --train-iters 4 --exit-interval 2 --eval-interval 2 \
        --log-throughput --save "$work/run" --log-jsonl "$work/lines" \
        --tensorboard-dir "$work/again" > "$work/log3" 2>&1 &&
        printf '{"schema": 1' >> "$work/lines" &&
        small 1 --train-iters 4 --log-throughput --save "$work/run" --load "$work/run" \
            --log-jsonl "$work/lines" --tensorboard-dir "$work/again" >> "$work/log3" 2>&1 &&
        [ "$(grep -cvx '{.*}' "$work/lines")" = 1 ] && grep -x '{.*}' "$work/lines" > "$work/whole" &&
        python3 "$work/numbers.py" lines "$work/log3" "$work/whole" &&
        python3 "$work/numbers.py" resumed "$work/log3" "$work/again"
}
check "lines of JSON and events go on after a restart" resumed

# What is not finite is null; what nothing clips has no norm.
nulls() {
    small 1 --train-iters 2 --clip-grad 0 --log-jsonl "$work/nulls" > "$work/log4" 2>&1 &&
        [ "$(grep -c '"grad_norm": null' "$work/nulls")" = 2 ]
}
check "what was not computed is null" nulls

without() {
    small 2 --pipeline-model-parallel-size 2 --train-iters 5 --eval-interval 2 > "$work/without" 2>&1 &&
        losses "$work/log" 5 > "$work/a" && losses "$work/without" 5 > "$work/b" && [ -s "$work/a" ] &&
        cmp "$work/a" "$work/b"
}
check "the same losses without them" without

mkdir "$work/folder"
fails "a file that is a folder" 74 "--log-jsonl wants its lines there" small 2 --train-iters 1 \
    --log-jsonl "$work/folder"
fails "a folder that is a file" 74 "$work/without" small 2 --train-iters 1 --tensorboard-dir "$work/without"

idle() {
    small 1 --train-iters 1 --log-timers-to-tensorboard > "$work/idle" 2>&1 &&
        grep -q 'without --tensorboard-dir' "$work/idle"
}
check "options that need the folder say so" idle
