#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# trireme plan --fit: logs of Megatron-LM and of trireme in, a profile out that --machine takes.
. "$srcdir/tests/tap.sh"
plan 19
TRIREME_MACHINES=$srcdir/machines
export TRIREME_MACHINES

# The machine that the logs are of: selene-a100 with slower GEMMs and a slower network.
sed -e 's/^gemm-efficiency = [^ ]*/gemm-efficiency = 0.6/' -e 's/^inter-node-gbs = [^ ]*/inter-node-gbs = 5/' \
    "$srcdir/machines/selene-a100.conf" >"$work/truth.conf"

# a_log NAME PERCENT HIDDEN LAYERS TP PP DP MBS GBS: as Megatron-LM prints it, with the time that
# the plan of it has on that machine, PERCENT more.  What the log says of the run is what the plan
# was asked.
a_log() {
    name=$1 percent=$2 world=$(($5 * $6 * $7))
    ms=$("$trireme" plan --machine "$work/truth.conf" --hidden-size "$3" --num-layers "$4" --num-attention-heads 32 \
        --seq-length 2048 --max-position-embeddings 2048 --vocab-size 51200 --fp16 --no-overlap-grad-reduce \
        --no-async-tensor-model-parallel-allreduce --tensor-model-parallel-size "$5" \
        --pipeline-model-parallel-size "$6" --world-size "$world" --micro-batch-size "$8" --global-batch-size "$9" \
        2>>"$work/plans" | awk -v more="$percent" '/^  total  .* P10/ { printf "%.3f", $2 * (1 + more / 100) }')
    {
        echo "using world size: $world, data-parallel-size: $7, tensor-model-parallel size: $5, pipeline-model-parallel size: $6 "
        echo "------------------------ arguments ------------------------"
        printf '  %s .......... %s\n' fp16 True hidden_size "$3" num_layers "$4" num_attention_heads 32 \
            seq_length 2048 max_position_embeddings 2048 tensor_model_parallel_size "$5" \
            pipeline_model_parallel_size "$6" micro_batch_size "$8" global_batch_size "$9" world_size "$world" \
            num_layers_per_virtual_pipeline_stage None checkpoint_activations False
        echo "-------------------- end of arguments ---------------------"
        echo " > padded vocab (size: 51200) with 0 dummy tokens (new size: 51200)"
        for i in 1 2 3 4 5 6 7 8; do
            echo " iteration $i/ 100 | elapsed time per iteration (ms): $ms | global batch size: $9 | lm loss: 9.0 | loss scale: 65536.0 |"
        done
    } >"$work/runs/$name.log"
}
mkdir "$work/runs"
make_logs() {
    a_log a 1.7 2048 24 1 1 8 4 256 && a_log b -0.9 2048 24 1 1 64 1 64 && a_log c 2.0 4096 32 8 1 4 4 64 &&
        a_log d -1.4 4096 32 8 1 1 4 32 && a_log e 0.3 4096 32 2 4 4 2 128 && a_log f -2.0 8192 48 8 8 1 1 32 &&
        a_log g 1.2 1024 12 1 1 16 1 16 && ! grep -l '(ms):  |' "$work"/runs/*.log
}
check "logs are made" make_logs

calibrate() { "$trireme" plan --machine selene-a100 --fit "$@"; }
of_folder() { calibrate "$work/runs" >"$work/ours.conf" 2>"$work/errors" && [ ! -s "$work/errors" ]; }
check "a folder of logs gives a profile" of_folder
# near KEY VALUE PERCENT
near() {
    awk -v key="$1" -v is="$2" -v percent="$3" '
        $1 == key && $2 == "=" { off = 100 * ($3 / is - 1) }
        END { print key, "is off by", off, "%"; exit !(off != "" && off < percent && off > -percent) }' "$work/ours.conf"
}
check "the efficiency of its GEMMs comes back" near gemm-efficiency 0.6 5
check "and the rate of its network" near inter-node-gbs 5 10
says() { grep -qE -e "$1" "$work/ours.conf" || { cat "$work/ours.conf"; return 1; }; }
check "what no run says stays, and is named" says '^# host-|^# step-ms +0 +0  as it was: these runs do not determine it$'
check "the error on shapes that were left out" says '^# mean absolute error: [1-9][0-9.]* % with the profile, [0-2]\.[0-9] % here, [0-5]\.[0-9] % of shapes left out$'
check "a small number of them is said" says '^# measured over planned, .* by 7 shapes, wider since they are fewer than nine$'
plans() {
    "$trireme" plan --machine "$work/ours.conf" --hidden-size 4096 --num-layers 32 --num-attention-heads 32 --seq-length 2048 \
        --max-position-embeddings 2048 --vocab-size 51200 --fp16 --tensor-model-parallel-size 4 --world-size 32 \
        --micro-batch-size 2 --global-batch-size 64 "$@" 2>&1
}
between() {
    plans | awk '/^  total .* P10/ { if ($4 + 0 < $2 && $6 + 0 > $2) found = 1 } END { exit !found }'
}
check "plans of that profile have P10 and P90" between
in_json() { plans --json | grep -cE '"(p10|p90)": [0-9.]*[1-9]' | grep -x 2; }
check "in JSON, too" in_json
same_as_json() {
    calibrate "$work"/runs/?.log --json | tr -d ' ",' | awk -F : '
        $1 == "inter-node-gbs" { print "inter-node-gbs =", $2 + 0 } $1 == "shapes" { print "shapes", $2 }' >"$work/json"
    { awk '/^inter-node-gbs/ { print $1, $2, $3 + 0 }' "$work/ours.conf"; echo "shapes 7"; } | diff - "$work/json"
}
check "files in place of their folder, and JSON" same_as_json

# The same runs on CPU ranks: the profile is of those, and a plan by it calls nothing a GPU.
on_cpus() {
    mkdir "$work/cpus" || return 1
    for log in "$work"/runs/*.log; do
        sed 's/^ > padded vocab/> computing with cpu: 2 threads\n&/' "$log" >"$work/cpus/${log##*/}"
    done
    calibrate "$work/cpus" >"$work/ours.conf" 2>"$work/errors" && says '^processor += +cpu' &&
        plans >"$work/plan" && grep -q '^  TFLOP/s per CPU rank ' "$work/plan" &&
        grep -q '^  percent of the CPU rank ' "$work/plan" && ! grep GPU "$work/plan"
}
check "runs on CPU ranks give a profile of CPU ranks" on_cpus
# Of GPUs the same profile has these rows.
of_kernels() { grep -cE '^  (kernel scratch|context|nccl) ' "$1"; }
no_kernels() {
    sed -i '/^processor/s/cpu/gpu/' "$work/ours.conf" && plans >"$work/plan.gpus" &&
        [ "$(of_kernels "$work/plan.gpus")" = 3 ] && [ "$(of_kernels "$work/plan")" = 0 ]
}
check "which have no kernels of GPUs" no_kernels

real() { calibrate "$srcdir"/tests/report/jean-zay-*b.log --machine jean-zay-v100-32g >"$work/ours.conf" 2>"$work/errors"; }
check "two logs of Jean Zay, whose arguments are cut: one factor" real
check "it says so" says '^# That is too few for more than one factor: all times are multiplied by (0\.9|1\.0)'
check "and that no held-out error exists" says '^# No error on runs that it was not fitted to is known'

cp "$work/runs/a.log" "$work/again.log"
fails "one shape only" 65 "all 2 runs have one shape" calibrate "$work/runs/a.log" "$work/again.log"
sed 's/^ > padded vocab/> computing with NVIDIA H100 80GB HBM3\n&/' "$work/runs/a.log" >"$work/h100.log"
fails "another GPU" 65 "ran on GPUs called h100, of 989 TFLOP/s in fp16, and those of the profile selene-a100 have 312" \
    calibrate "$work/h100.log"
grep iteration "$work/runs/a.log" >"$work/bare.log"
fails "no layout" 65 "no run of these logs says in which layout" calibrate "$work/bare.log"
fails "no profile" 64 "give its profile with --machine" "$trireme" plan --fit "$work/bare.log"
