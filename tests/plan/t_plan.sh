#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# trireme plan: what it prints, what it exits with, and that it says what training itself would.
. "$srcdir/tests/tap.sh"
plan 46
TRIREME_MACHINES=$srcdir/machines
export TRIREME_MACHINES

# The run of 30B on 64 V100 of 16 GB, bigscience's experiments/gpt2-16gb-nodes.md, 2021.
of_30b="--num-layers 48 --hidden-size 7168 --num-attention-heads 32 --seq-length 1024
    --max-position-embeddings 1024 --vocab-size 50257 --tensor-model-parallel-size 4
    --pipeline-model-parallel-size 16 --micro-batch-size 1 --global-batch-size 4 --train-iters 1000
    --lr 0.00015 --fp16 --checkpoint-activations --no-overlap-grad-reduce"
# shellcheck disable=SC2086 # words
plan_30b() { timeout 60 "$trireme" plan $of_30b "$@"; }
on_v100() { plan_30b --machine jean-zay-v100-16g "$@"; }

on_v100 >"$work/text" 2>"$work/errors"
cp "$work/errors" "$work/errors.of-4"
says() { grep -qE -e "$1" "$work/text" || { cat "$work/text" "$work/errors"; return 1; }; }
check "it says what is planned" says '^29\.97 B parameters on 64 ranks: TP 4, PP 16, DP 1; global batch 4 = 4 micro-batches of 1'
check "all parameters, with and without padding" says \
    '^parameters: 29967078400; 29970167808 with the vocabulary padded from 50257 to 50688$'
check "and where" says '^machine jean-zay-v100-16g: .* \(2021-06\); 16 nodes$'
check "first, middle and last stage" says '^  parameters +560761600 +462588672 +553435904$'
check "it fits, and is tight for a caching allocator" says \
    '^verdict on 16160 MiB: fits; with a caching allocator: tight$'
check "the formula of the rate is named" says '^  TFLOP/s per GPU +1[01]\.[0-9] .*; sc21, 96 B s l h'
check "checkpoints, and the jobs that 1000 iterations take" says '^run: 1000 iterations, .* 1 job of 1200 min$'

# What would make it fit: 1.5B on 16 cards of 16 GB.
# shellcheck disable=SC2086 # words
plan_xl() { timeout 60 "$trireme" plan $of_xl --machine jean-zay-v100-16g "$@"; }
of_xl="--num-layers 48 --hidden-size 1600 --num-attention-heads 25 --seq-length 1024 --max-position-embeddings 1024
    --vocab-size 50257 --fp16 --world-size 16 --micro-batch-size 4 --global-batch-size 512"
would_fit() {
    plan_xl >"$work/xl" 2>&1
    [ $? -eq 69 ] && sed -n '/^what would make it fit 16160 MiB/,/^$/p' "$work/xl" | tee "$work/xl.changes" &&
        grep -q '^ .* --micro-batch-size 2 --zero-stage 1$' "$work/xl.changes"
}
check "what would make it fit, where it does not" would_fit
would_fit_json() {
    plan_xl --json 2>/dev/null | tee "$work/xl.json" | grep -A 20 '"would_fit": {' &&
        [ "$(grep -c '"price_seconds": ' "$work/xl.json")" -eq "$(grep -c '^ .* --' "$work/xl.changes")" ] &&
        plan_xl --zero-stage 3 --json | grep '"would_fit": null'
}
check "the same as JSON, and null where it fits" would_fit_json
# Without --global-batch-size a plan has a sample and more for each replica; shapes of fewer
# replicas compute as many.
# shellcheck disable=SC2086 # words
same_batch() {
    "$trireme" plan ${of_xl% --global-batch-size *} --machine jean-zay-v100-16g >"$work/default" 2>/dev/null
    plan_xl --global-batch-size 64 >"$work/given" 2>/dev/null
    grep -A 7 '^other shapes' "$work/default" >"$work/default.others" && grep -A 7 '^other shapes' "$work/given" |
        diff - "$work/default.others"
}
check "other shapes have the batch of the plan, however it was given" same_batch
asked() { plan_xl --zero-stage 3 --fit-mib 9000 | grep -A 2 '^what would make it fit 9000 MiB'; }
check "and where it fits, if somebody asks" asked
# shellcheck disable=SC2086 # words
fails "for which there has to be a machine" 64 "give it with --machine" "$trireme" plan $of_xl --fit-mib 9000
# shellcheck disable=SC2086 # words
fails "a number is no log" 64 "is asked for by --fit-mib 9000" "$trireme" plan $of_xl --fit 9000
fails "changes that do not exist" 69 "no change of these options makes it fit" plan_xl --world-size 1 \
    --micro-batch-size 1 --fit-mib 3000

# The parts of an iteration are the whole.
adds_up() {
    awk '/^time of an iteration/ { on = 1; next }
         on && $1 == "total" { whole = $2; exit }
         on { sum += $2 }
         END { exit !(whole > 1000 && sum - whole < 0.5 && whole - sum < 0.5) }' "$work/text"
}
check "the parts of an iteration are the whole" adds_up

# Memory is that of --dry-run, which is that of training.
# shellcheck disable=SC2086 # words
same_memory() {
    "$trireme" train --dry-run $of_30b >"$work/dry" 2>&1 && plan_30b >"$work/plain" &&
        for part in weights gradients optimizer activations messages scratch; do
            a=$(awk -v p="$part" '/^memory plan/ { on = 1 } on && $1 == p { printf "%.1f", $2; exit }' \
                "$work/dry")
            b=$(awk -v p="$part" '$1 == p { print $2; exit }' "$work/plain")
            if [ -z "$a" ] || [ "$a" != "$b" ]; then
                echo "$part: '$a' against '$b'"
                return 1
            fi
        done
}
check "memory is that of train --dry-run" same_memory
# The rows of the first stage, to the total: "scratch 12.3"; not those that only another stage has.
rows() { awk -v from="$1" '$0 ~ from { on = 1; next } !on { next } /^  (layers|parameters)/ { next }
    { name = $1; at = 2; if ($2 !~ /^([0-9.]+|unknown)$/) { name = name " " $2; at = 3 }
      if ($at != "0.0") print name, $at ~ /^[0-9]/ ? sprintf("%.1f", $at) : $at } $1 == "total" { exit }' "$2"; }
same_rows() {
    rows '^memory plan of rank 0:' "$work/dry" >"$work/dry.rows" && rows '^memory of a rank' "$work/plain" >"$work/plan.rows" &&
        [ "$(tail -n 1 "$work/plan.rows" | cut -d ' ' -f 1)" = total ] && diff "$work/dry.rows" "$work/plan.rows"
}
check "all its rows, in the same order, and the total" same_rows
unknown() {
    [ "$(grep -c ' unknown$' "$work/plan.rows")" = 3 ] && grep -q '^what is unknown .* not in the total' "$work/plain" &&
        grep -q '^what is unknown .* not in the total' "$work/dry" &&
        ! grep -q unknown "$work/text" && grep -q '^  nccl  *[0-9]' "$work/text"
}
check "what only a machine tells is unknown without one, in both" unknown
# Ranks on CPUs have no context: their memory is the same on any machine.  Megatron-LM's is that on
# GPUs.
on_cpus() {
    on_v100 --backend cpu >"$work/cpus" && plan_30b --backend cpu >"$work/cpus.plain" || return 1
    for file in cpus cpus.plain; do
        rows '^memory of a rank' "$work/$file" >"$work/$file.rows"
    done
    cat "$work/cpus.rows"
    [ "$(tail -n 1 "$work/cpus.rows" | cut -d ' ' -f 1)" = total ] && diff "$work/cpus.plain.rows" "$work/cpus.rows" &&
        ! grep -E '^(kernel|context|nccl) ' "$work/cpus.rows" && under_megatron "$work/text" >"$work/on.gpus" &&
        under_megatron "$work/cpus" | diff "$work/on.gpus" - && [ "$(wc -l <"$work/on.gpus")" -eq 7 ]
}
under_megatron() { sed -n '/^the same under Megatron-LM/,/^verdict/{ /^  /p; }' "$1"; }
check "ranks on CPUs take none of it on a machine with GPUs" on_cpus
check "without a machine there is no verdict and no time" sh -c \
    "! grep -E 'verdict|time of|percent' '$work/plain'"

on_v100 --json >"$work/json" 2>&1
if command -v python3 >/dev/null 2>&1; then
    check "JSON has all stages, and the same numbers" python3 -c '
import json, sys
p = json.load(open(sys.argv[1]))
stages = p["stages"]
assert p["shape"]["parameters"] == 29967078400
assert p["shape"]["parameters_padded"] == p["shape"]["parameters"] + (50688 - 50257) * 7168
assert len(stages) == 16 and stages[0]["parameters"] == 560761600
assert p["verdict"] == "fits" and p["verdict_caching_allocator"] == "tight"
for s in stages:
    b = s["bytes"]
    assert b["kernel_scratch"] == 64 * 2**20 and b["context"] > 0 and b["nccl"] > 0
    assert abs(sum(v for k, v in b.items() if k != "total") - b["total"]) < 1
t = p["seconds"]
parts = [v for k, v in t.items()
         if k not in ("total", "p10", "p90", "tflops_per_gpu", "of_peak", "flops_formula")]
assert len(parts) == 7 and abs(sum(parts) - t["total"]) < 1e-9
assert 0.8 * t["total"] < t["p10"] < t["total"] < t["p90"] < 1.2 * t["total"]
def names(x):
    for k, v in x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else []:
        yield k
        yield from names(v)
assert not [k for k in names(p) if isinstance(k, str) and "-" in k]
assert p["machine"]["peak_fp32_tflops"] == 15.7 and "15.7," in open(sys.argv[1]).read()
assert p["run"]["checkpoint_files"] == 1
assert p["run"]["checkpoint_bytes"] > 12 * p["shape"]["parameters"]
assert p["machine"]["memory_mib"] == 16160
' "$work/json"
else
    skip "JSON has all stages, and the same numbers" "no python3"
fi

# 16 bytes for each parameter must lie somewhere; and the shape that was found fits when it is asked
# for.
if command -v python3 >/dev/null 2>&1; then
    fewest() {
        options=$(python3 -c '
import json, math, sys
p = json.load(open(sys.argv[1]))
o = p["fewest"]
assert o["ranks"] < 64 and o["ranks"] >= 16 * p["shape"]["parameters"] / (0.95 * 16160 * 2**20)
assert o["tensor_parallel"] * o["pipeline_parallel"] * o["data_parallel"] == o["ranks"]
assert not o["sequence_parallel"] and o["recompute"] and o["model_chunks"] == 1
print("--world-size", o["ranks"], "--tensor-model-parallel-size", o["tensor_parallel"],
      "--pipeline-model-parallel-size", o["pipeline_parallel"], "--micro-batch-size", o["micro_batch"],
      "--use-distributed-optimizer" if o["distributed_optimizer"] else "")
' "$work/json") || return 1
        # shellcheck disable=SC2086 # words
        on_v100 $options >"$work/few" && grep '^verdict on 16160 MiB: fits' "$work/few"
    }
    check "the fewest GPUs that hold the model hold it" fewest
    check "other shapes differ, fit, and say in what" python3 -c '
import json, sys
p = json.load(open(sys.argv[1]))
others, mine = p["others"], p["seconds"]["total"]
assert len(others) >= 5 and others[0]["seconds"] < mine
for o in others:
    assert o["bytes"] <= 0.95 * 16160 * 2**20
    assert o["reason"].replace("-", "_") in p["seconds"] and o["saves_seconds"] * (mine - o["seconds"]) > 0
same = [o for o in others if o["ranks"] == 64]
assert any(o["ranks"] == 128 for o in others) and any(o["sequence_parallel"] for o in same)
assert [o["seconds"] for o in same] == sorted(o["seconds"] for o in same)
' "$work/json"
    # GPT-2 XL on 8 stages: what is proposed with another split, ordered as it says, is what it
    # takes.
    xl="--num-layers 48 --hidden-size 1600 --num-attention-heads 25 --seq-length 1024 --vocab-size 50257
        --max-position-embeddings 1024 --global-batch-size 64 --fp16 --world-size 16"
    proposed() {
        # shellcheck disable=SC2086 # words
        "$trireme" plan --machine "$1" --json $xl --micro-batch-size 1 --pipeline-model-parallel-size 8 \
            >"$work/xl" || return 1
        options=$(python3 -c '
import json, sys
p = json.load(open(sys.argv[1]))
assert p["shape"]["stage_layers"] == "6*8" and p["shape"]["rank_order"] == "tp-dp-pp"
for i, o in enumerate(p["others"]):
    if "," in o["stage_layers"] and o["ranks"] == 16 or o["rank_order"] == "tp-pp-dp":
        print("%.6f" % o["seconds"], "--tensor-model-parallel-size", o["tensor_parallel"],
              "--pipeline-model-parallel-size", o["pipeline_parallel"], "--micro-batch-size",
              o["micro_batch"], "--pipeline-model-parallel-layout", o["stage_layers"],
              "--use-distributed-optimizer" if o["distributed_optimizer"] else "",
              "--checkpoint-activations" if o["recompute"] else "",
              "--use-tp-pp-dp-mapping" if o["rank_order"] == "tp-pp-dp" else "")
        break
' "$work/xl") || return 1
        [ -n "$options" ] || return 1
        # shellcheck disable=SC2086 # words
        "$trireme" plan --machine "$1" --json $xl ${options#* } >"$work/again" &&
            python3 -c '
import json, sys
t = json.load(open(sys.argv[1]))["seconds"]["total"]
assert abs(t / float(sys.argv[2]) - 1) < 1e-4, t
' "$work/again" "${options%% *}"
    }
    check "another split or order takes as long as is said" proposed jean-zay-v100-32g
else
    skip "another split or order takes as long as is said" "no python3"
    skip "the fewest GPUs that hold the model hold it" "no python3"
    skip "other shapes differ, fit, and say in what" "no python3"
fi

# The run: hours and jobs from the time of an iteration; between saves Young's sqrt(2 save mtbf),
# which Daly's higher order is near where a save is short; a batch that grows makes a run longer,
# for the same samples.
if command -v python3 >/dev/null 2>&1; then
    on_v100 --json --exit-duration-in-mins 10 >"$work/short"
    check "hours, jobs and the interval between saves" python3 -c '
import json, math, sys
p = json.load(open(sys.argv[1]))
t, r = p["seconds"]["total"], p["run"]
assert abs(r["hours"] * 3600 / (1000 * t) - 1) < 1e-9
assert abs(r["gpu_hours"] / (64 * r["hours"]) - 1) < 1e-9
assert r["jobs"] == math.ceil(r["hours"] * 6) == 3
assert r["tokens"] == 1000 * 4 * 1024
young = math.sqrt(2 * r["checkpoint_seconds"] * r["mtbf_hours"] * 3600)
assert abs(r["save_interval_seconds"] / young - 1) < 0.01
assert r["save_interval"] == int(r["save_interval_seconds"] / t)
' "$work/short"
    grow() {
        of_grown=$(echo "$of_30b" | sed 's/--train-iters 1000//; s/--global-batch-size 4/--global-batch-size 64/')
        # shellcheck disable=SC2086 # words
        timeout 60 "$trireme" plan $of_grown --train-samples 6400 --machine jean-zay-v100-16g --json "$@"
    }
    grow >"$work/whole" && grow --rampup-batch-size 16 16 3000 >"$work/grown"
    check "a batch that grows takes longer for as many samples" python3 -c '
import json, sys
a, b = (json.load(open(f))["run"] for f in sys.argv[1:])
assert a["ramp_hours"] == 0 and a["iterations"] == 100
assert 0 < b["ramp_hours"] < b["hours"] and b["tokens"] == a["tokens"]
assert b["iterations"] > 100 and a["hours"] < b["hours"] < 2 * a["hours"]
' "$work/whole" "$work/grown"
else
    skip "hours, jobs and the interval between saves" "no python3"
    skip "a batch that grows takes longer for as many samples" "no python3"
fi

# Neither the rate nor the length of a run changes what an iteration takes.
of_any=$(echo "$of_30b" | sed 's/--train-iters 1000//; s/--lr 0.00015//')
# shellcheck disable=SC2086 # words
any_length() {
    timeout 60 "$trireme" plan $of_any --machine jean-zay-v100-16g >"$work/any" &&
        [ "$(grep '^  total  ' "$work/any")" = "$(grep '^  total  ' "$work/text")" ] &&
        grep '^run: --train-iters' "$work/any"
}
check "a plan needs no rate and no length of the run" any_length

# What is large is planned all the same.
large() {
    layers=$1
    shift
    timeout 120 "$trireme" plan --num-layers "$layers" --hidden-size 64 --num-attention-heads 4 --seq-length 64 \
        --max-position-embeddings 64 --vocab-size 300 --micro-batch-size 1 --fp16 "$@"
}
layers() { large 100000 >"$work/layers" && grep '100000$' "$work/layers"; }
check "100000 layers" layers
# chunks STAGES: of 16 chunks each, with as many micro-batches.
chunks() {
    large $(($1 * 16)) --pipeline-model-parallel-size "$1" --global-batch-size "$1" \
        --num-layers-per-virtual-pipeline-stage 1 --machine selene-a100 >"$work/chunks" &&
        grep "PP $1, DP 1" "$work/chunks"
}
if [ -n "${TR_TEST_ALL:-}" ]; then
    check "8192 chunks" chunks 512
else
    check "2048 chunks" chunks 128
fi

fails "what is too large is refused before it takes long" 64 "1000000000 is more than the 1048576 layers" \
    large 1000000000
fails "so is too long a schedule" 64 "512 stages of 16 chunks with 4096 micro-batches" large 8192 \
    --pipeline-model-parallel-size 512 --num-layers-per-virtual-pipeline-stage 1 --global-batch-size 4096

fails "where nothing fits it says so" 69 "no other layout of 32 GPUs holds this model" \
    on_v100 --pipeline-model-parallel-size 8 --num-layers 384

# Two replicas of eight stages: too much without the distributed optimizer (ZeRO-1).
on_v100 --pipeline-model-parallel-size 8 --world-size 64 >"$work/text" \
    2>"$work/errors"
code=$?
advice=$(sed -n 's/.*of a GPU: \(--[^,]*\)\(, without recomputation,\)* would fit, with.*/\1/p' "$work/errors")
# shellcheck disable=SC2086 # words
advice_fits() {
    if [ "$code" -ne 69 ] || [ -z "$advice" ]; then
        cat "$work/text" "$work/errors"
        return 1
    fi
    if grep -q 'without recomputation' "$work/errors"; then
        of_30b=$(echo "$of_30b" | sed 's/--checkpoint-activations//')
    fi
    on_v100 --world-size 64 $advice >"$work/text" && says '^verdict on 16160 MiB: fits'
}
check "what does not fit exits with 69, and what it advises fits" advice_fits

# The largest of SC21's table 1 (Narayanan et al., 2021): a trillion parameters on 3072 GPUs.
largest() {
    timeout 60 "$trireme" plan --machine=selene-a100 --num-layers 128 --hidden-size 25600 \
        --num-attention-heads 160 --seq-length 2048 --max-position-embeddings 2048 --vocab-size 51200 \
        --tensor-model-parallel-size 8 --pipeline-model-parallel-size 64 --world-size 3072 \
        --micro-batch-size 1 --global-batch-size 3072 --train-samples 146484375 --lr 1e-4 --fp16 \
        --checkpoint-activations >"$work/text" && says '^1008\.[0-9]* B parameters on 3072 ranks' &&
        says '^run: 47683 iterations, 300\.000 B tokens'
}
check "a trillion parameters on 3072 GPUs" largest

# Where cuDNN's attention may come, its deterministic gradient keeps scores: 257 MiB; else 64.
kernel_scratch() { rows '^memory of a rank' "$work/scratch" | sed -n 's/^kernel scratch //p'; }
scratch_of() {
    want=$1 machine=$2
    shift 2
    plan_30b --machine "$machine" --attention-dropout 0 "$@" >"$work/scratch" || return 1
    [ "$(kernel_scratch)" = "$want" ] || { kernel_scratch; return 1; }
}
of_attention() {
    scratch_of 257.0 jean-zay-a100 && scratch_of 64.0 jean-zay-a100 --no-deterministic-mode &&
        scratch_of 64.0 jean-zay-a100 --attention-backend flash && scratch_of 64.0 jean-zay-v100-16g
}
check "scratch for cuDNN's attention" of_attention

# What leaves a node, and only that.
leaves() {
    on_v100 --tensor-model-parallel-size "$1" --pipeline-model-parallel-size 8 --world-size 64 \
        >"$work/text" 2>"$work/errors"
    grep -q "warning: --tensor-model-parallel-size $1 spans nodes of jean-zay-v100-16g with 4 GPUs" \
        "$work/errors"
}
check "tensor parallelism that leaves a node is warned of" leaves 8
check "that of a node is not" sh -c "! grep warning '$work/errors.of-4'"
# BigScience's BLOOM: 70 layers on 72 stages, where the embedding and the loss are one each.
bloom() {
    timeout 60 "$trireme" plan --machine jean-zay-a100 --num-layers 70 --hidden-size 14336 \
        --num-attention-heads 112 --seq-length 2048 --max-position-embeddings 2048 \
        --vocab-size 250680 --pipeline-model-parallel-size 72 --micro-batch-size 1 \
        --global-batch-size 2048 --train-iters 10 --lr 6e-5 --bf16 --checkpoint-activations \
        --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split \
        >"$work/text" 2>"$work/errors"
    says '^  layers +0 +1 +0$'
}
check "70 layers on 72 stages" bloom

# Llama 3 8B as Meta AI counts it; its output layer has words of its own, so nothing is summed over
# the stages.
llama() {
    timeout 60 "$trireme" plan --machine selene-a100 --model-family llama3 --num-layers 32 --hidden-size 4096 \
        --num-attention-heads 32 --seq-length 8192 --vocab-size 128256 --tensor-model-parallel-size 4 \
        --pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size 32 --train-iters 10 --lr 3e-4 \
        --bf16 --sequence-parallel --flops-formula core >"$work/text" 2>"$work/errors"
    says '^parameters: 8030261248; ' && says '^  reduction +0\.0  ' &&
        says '^  TFLOP/s per GPU .*; core, 6 B s \(l \(m \+ s a\) \+ V h\)'
}
check "a plan of Llama 3 8B" llama

fails "a machine that is not there" 64 "there is no machine 'jean-zay-v100'" \
    plan_30b --machine jean-zay-v100
fails "an option that is not there" 64 "hidden-sizes" plan_30b --hidden-sizes 4
fails "bf16 where GPUs have none" 64 "no bf16 GEMMs" \
    "$trireme" plan --machine jean-zay-v100-16g --num-layers 2 --hidden-size 64 \
    --num-attention-heads 4 --seq-length 64 --max-position-embeddings 64 --vocab-size 300 \
    --micro-batch-size 1 --train-iters 10 --lr 1e-4 --bf16
fails "options of a checkpoint are not taken" 64 "takes no options from a checkpoint" \
    plan_30b --load "$work" --use-checkpoint-args

# A checkpoint is as long as the plan says, or a little less.
small="--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
    --vocab-size 3000 --micro-batch-size 1 --train-iters 1 --lr 1e-4 --mock-data --backend cpu --threads 1
    --eval-iters 0 --save $work/saved"
# shellcheck disable=SC2086 # words
as_long() {
    ranks 1 timeout 300 "$trireme" train $small >"$work/log" 2>&1 || { cat "$work/log"; return 1; }
    "$trireme" plan $small --json >"$work/json" || return 1
    planned=$(sed -n 's/.*"checkpoint_bytes": \([0-9]*\).*/\1/p' "$work/json")
    there=$(wc -c <"$work/saved/iter_0000001/model_optim_rng.h5")
    echo "planned $planned, there are $there"
    [ "$there" -le "$planned" ] && [ $((planned - there)) -le $((planned / 100)) ]
}
check "a checkpoint is as long as planned" as_long

# What the pages show.
sed -n '/^title = Our/,/^```/p' "$srcdir/docs/machines.md" | sed '/^```/d' >"$work/ours.conf"
check "the profile in docs/machines.md can be used" plan_30b --machine "$work/ours.conf"
check "so can the command in docs/plan.md" timeout 60 "$trireme" plan --machine jean-zay-v100-16g \
    @"$srcdir/jobs/models/study-30b.args" --fp16 --vocab-size 50257
