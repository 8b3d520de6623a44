#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# --profiling tidy_profiling against lists of events made by hand from what CocktailSGD's profiler
# writes: names of files, and every event of every rank but for its times.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
# shellcheck disable=SC2034 # of the file that was sourced
trireme=$PWD/trireme
srcdir=$(cd "$srcdir" && pwd)
command -v python3 >/dev/null 2>&1 || skip_all "python3 is not installed"
plan 14

check "a dataset is built" small_corpus

# What servers do, "track:name" each, and in how many iterations at the beginning they do not.
parts='' warm=0

# by_hand: "rank tid name cname args" of each event of a run of 2 replicas of 2 stages, 3 iterations
# of 4 micro-batches and replica, in any order.  In CocktailSGD a stage's parameters are one flat
# vector; $1 is what replicas do to it, $2 and $3 its elements on stages 0 and 1.  The tied
# embedding is summed over both stages, which CocktailSGD has not.
by_hand() {
    for rank in 0 1 2 3; do
        for iteration in 1 2 3; do
            echo "# iteration $iteration"
            for micro in 0 1 2 3; do
                args="{\"micro-batch\": $micro}"
                case $rank in
                0 | 1)
                    echo "$rank 2. forward-compute comp good $args"
                    echo "$rank 3. forward-send send thread_state_iowait $args"
                    echo "$rank 4. backward-recv recv startup $args"
                    echo "$rank 5. backward-compute comp good $args"
                    ;;
                *)
                    echo "$rank 1. forward-recv recv startup $args"
                    echo "$rank 2. forward-compute comp good $args"
                    echo "$rank 5. backward-compute comp good $args"
                    echo "$rank 6. backward-send send thread_state_iowait $args"
                    ;;
                esac
            done
            case $rank in 0 | 1) elements=$2 ;; *) elements=$3 ;; esac
            flat="cq_build_passed {\"para\": \"flattened_grad\", \"size\": $elements}"
            [ "$1" = - ] || echo "$rank 7. optimizer-comm $1 $flat"
            for part in $parts; do
                [ "$iteration" -le "$warm" ] || echo "$rank ${part%:*}. optimizer-comm $(echo "${part#*:}" | tr _ ' ') $flat"
            done
            echo "$rank 7. optimizer-comm opt_allreduce cq_build_passed" \
                "{\"para\": \"embedding.word_embeddings.weight\", \"size\": 12288}"
            echo "$rank 8. optimizer-comp opt_comp bad"
        done
    done | grep -v '^#' | sort
}

# events NAME...: the same of files, which say nothing else, and the times of each rank ascend from
# now on.
events() {
    python3 - "$@" <<'END' | sort
import json, sys, time
for rank, name in enumerate(sys.argv[1:]):
    began = {}
    for e in json.load(open(name)):
        args = e.pop("args", None)
        words = [str(e.pop("pid")), e["tid"], e.pop("name"), e.pop("cname")]
        assert e.pop("ph") == "X" and abs(e["ts"] / 1e6 - time.time()) < 3600 and e["dur"] >= 0.0, e
        assert words[0] == str(rank) and sorted(e) == ["dur", "tid", "ts"], e
        assert isinstance(e["ts"], float) and isinstance(e["dur"], float), e
        assert e["ts"] >= began.get(e["tid"], 0.0), (name, e)
        began[e["tid"]] = e["ts"]
        print(" ".join(words + ([json.dumps(args)] if args is not None else [])))
END
}

# tidy NAME OPTION...: a run of three iterations, its files in $work/trace_json.
tidy() (
    tidy_name=$1
    shift
    cd "$work" && rm -rf trace_json && small 4 --num-layers 2 --pipeline-model-parallel-size 2 --train-iters 3 \
        --profiling tidy_profiling --pipeline-schedule gpipe "$@" > "$work/$tidy_name.log" 2>&1
)

# same_as_by_hand MODE EVENT: the files are there and no others, and so are the events.
same_as_by_hand() (
    cd "$work/trace_json" || return 1
    for rank in 0 1 2 3; do
        echo "gpt3_gpipe_$1_b4_1_l32_m32_w4_p2_1_d2_${rank}_tidy_profiling_default.json"
    done > "$work/names"
    ls > "$work/found"
    diff "$work/names" "$work/found" || return 1
    # Each flat vector: two layers of h (12 h + 13) = 12704 parameters of h = 32, one on each stage;
    # both stages have the embedding, 384 x 32; the first has positions, 32 x 32, the last the norm,
    # 2 x 32.  Each section ends at a multiple of 64 x 2 elements.
    by_hand "$2" $((12800 + 1024 + 12288)) $((12800 + 12288)) > "$work/by_hand"
    # shellcheck disable=SC2046
    events $(cat "$work/names") > "$work/events" && diff "$work/by_hand" "$work/events"
)

all_reduced() { tidy allreduce && same_as_by_hand allreduce opt_allreduce; }
check "gradients that are all-reduced" all_reduced
cocktail() {
    tidy cocktail --dp-mode cocktail_sgd --train-warmup-steps 1 &&
        same_as_by_hand cocktail_sgd opt_shardedPS_sync
}
check "the round of CocktailSGD" cocktail
parts="9:gather_grads 10:distribute_grads"
served() { tidy served --dp-mode central_ps && same_as_by_hand central_ps opt_reduce; }
check "the sums of a parameter server" served
sharded_sums() {
    tidy sharded --dp-mode sharded_ps --ddp-bucket-size 5000 && same_as_by_hand sharded_ps opt_shardedPS_sync
}
check "those of sharded servers" sharded_sums
parts="$parts 11:worker_compress 12:server_compress" warm=1
compressed() {
    tidy compressed --dp-mode sharded_ps_compressed --train-warmup-steps 1 && same_as_by_hand sharded_ps_compressed -
}
check "servers that compress, after a warm-up" compressed
parts=''

# Half of the micro-batches are a first accumulation step, which ends in no update.
accumulated() (
    tidy accumulation --profiling-accumulation 2 --trace-step-start 1 --trace-step-end 3 &&
        cd "$work/trace_json" || return 1
    ls > "$work/found"
    for rank in 0 1 2 3; do
        echo "gpt3_gpipe_allreduce_b2_1_l32_m32_w4_p2_2_d2_${rank}_tidy_profiling_default.json"
    done > "$work/names"
    diff "$work/names" "$work/found" || return 1
    # Two iterations, micro-batches 0 and 1 of the second step.
    grep -v 'micro-batch": [23]' "$work/by_hand_allreduce" | uniq | sed p | sort > "$work/want"
    # shellcheck disable=SC2046
    events $(cat "$work/names") | sort > "$work/events" && diff "$work/want" "$work/events"
)
all_reduced > "$work/again" && cp "$work/by_hand" "$work/by_hand_allreduce"
check "the last of two accumulation steps, of a window of iterations" accumulated

# One replica, in half precision: the optimizer has a track of its own name.
alone() (
    cd "$work" && rm -rf trace_json && small 1 --train-iters 2 --global-batch-size 2 --fp16 \
        --initial-loss-scale 1024 --trace-postfix x7 --profiling tidy_profiling > "$work/alone.log" 2>&1 &&
        cd trace_json || return 1
    echo gpt3_1f1b_b2_1_l32_m32_w1_p1_1_d1_0_fp16_tidy_profiling_x7.json > "$work/names"
    ls > "$work/found"
    diff "$work/names" "$work/found" || return 1
    # Of each of two iterations.
    for micro in 0 1; do
        echo "0 2. forward-compute comp good {\"micro-batch\": $micro}"
        echo "0 5. backward-compute comp good {\"micro-batch\": $micro}"
    done | sed p > "$work/want"
    printf '0 7. optimizer-step opt bad\n0 7. optimizer-step opt bad\n' >> "$work/want"
    sort -o "$work/want" "$work/want"
    events ./*.json > "$work/events" && diff "$work/want" "$work/events"
)
check "one replica" alone

# Local SGD exchanges nothing; with sharded states gradients go one way and weights the other.
words() { cut -d ' ' -f 2-4 "$work/events" | sort | uniq -c | sed 's/^ *//'; }
local_sgd() (
    tidy local --dp-mode local && cd "$work/trace_json" && events gpt3_gpipe_local_*_0_*.json > "$work/events" || return 1
    words | grep -q '^3 7. optimizer-comm opt_allreduce$' && ! grep flattened "$work/events"
)
check "local SGD" local_sgd
sharded() (
    tidy sharded --use-distributed-optimizer && cd "$work/trace_json" &&
        events gpt3_gpipe_allreduce_*_0_*.json > "$work/events" || return 1
    [ "$(grep -c 'opt_shardedPS_sync.*flattened_grad' "$work/events")" = 3 ] &&
        [ "$(grep -c 'opt_shardedPS_sync.*flattened_para' "$work/events")" = 3 ]
)
check "sharded states" sharded

# PyTorch's form has the timers as ranges, each within another or behind it.
torch() (
    tidy torch --profiling pytorch_profiling && cd "$work/trace_json" || return 1
    ls > "$work/found"
    [ "$(grep -c "_pytorch_profiling_default.json$" "$work/found")" = 4 ] || return 1
    python3 - <<'END'
import collections, glob, json, time
for rank in range(4):
    trace = json.load(open(glob.glob("*_%d_pytorch_profiling_default.json" % rank)[0]))
    assert trace["schemaVersion"] == 1, trace
    assert abs(trace["baseTimeNanoseconds"] / 1e9 - time.time()) < 3600
    assert trace["distributedInfo"] == {"backend": "mpi", "rank": rank, "world_size": 4}, trace
    names, spans = collections.Counter(), []
    for i, e in enumerate(e for e in trace["traceEvents"] if e["ph"] == "X"):
        assert sorted(e) == ["args", "cat", "dur", "name", "ph", "pid", "tid", "ts"], e
        assert e["cat"] == "user_annotation" and e["pid"] == e["tid"] and e["args"]["Ev Idx"] == i, e
        names[e["name"]] += 1
        spans.append((e["ts"], -e["dur"]))
    # 3 iterations of 4 micro-batches; a stretch of forward-compute is the sum of losses.
    assert names["forward-backward"] == 3 and names["backward-compute"] == 12, names
    assert names["forward-compute"] == 15 and names["optimizer"] >= 3, names
    inside = []
    for begin, length in sorted(spans):
        while inside and inside[-1] <= begin + 0.002:
            inside.pop()
        assert not inside or begin - length <= inside[-1] + 0.002, (rank, begin)
        inside.append(begin - length)
END
)
check "the form of PyTorch's profiler" torch

fails "an accumulation that nothing counts" 64 "add that, or remove it" \
    small 1 --train-iters 1 --global-batch-size 4 --profiling-accumulation 2
fails "steps that differ" 64 "--profiling-accumulation 3 does not divide the 4 micro-batches" \
    small 1 --train-iters 1 --global-batch-size 4 --profiling tidy_profiling --profiling-accumulation 3
nowhere() (
    cd "$work" && rm -rf trace_json && : > trace_json &&
        small 1 --train-iters 1 --profiling tidy_profiling
)
fails "a folder that is a file" 74 "trace_json" nowhere
