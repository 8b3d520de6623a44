#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Every job file is submitted to a real Slurm, with a model so small that it is trained in a moment:
# by sbatch as it is, by itself, as an array, as a chain, and from a session of salloc.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/slurm/slurm.sh"

with_jobs "virtual 4 40 16 --bf16 --constraint=virtual&gpu --partition=long"
SBATCH_OPTIONS=--time=10
export SBATCH_OPTIONS

# 4 layers of 32, which each layout of 16 ranks divides.
cat >"$work/tiny.args" <<'ARGS'
--num-layers 4 --hidden-size 32 --num-attention-heads 4
--seq-length 16 --max-position-embeddings 16 --vocab-size 100 --tokenizer-type NullTokenizer --backend cpu
--micro-batch-size 1 --global-batch-size 16 --lr 1e-3 --lr-decay-style constant --lr-warmup-fraction 0
--log-interval 1
ARGS

# ended JOB STATE SECONDS: it ends so; shows what it said if it does not.
ended() {
    if job_ends "$1" "$3" && job_is "$1" "$2"; then return; fi
    echo "job $1 is $(job_state "$1"), exit code $(job_exit "$1")"
    tail -n 15 "$work"/*-"$1"*.out
    return 1
}

# runs TEXT FILE OPTION...: the job completes and says TEXT.
runs() {
    runs_text=$1 runs_file=$2
    shift 2
    job=$(slurm "$jobs/$runs_file" "$@" | sed -n 's/^Submitted batch job //p')
    [ -n "$job" ] && ended "$job" COMPLETED 240 || return 1
    cat "$work"/*-"$job".out
    grep -q "$runs_text" "$work"/*-"$job".out
}

plain() {
    job=$(submit "$jobs/study-7.5b.sbatch" @tiny.args --train-iters 3) && ended "$job" COMPLETED 240 || return 1
    cat "$work/study-7.5b-$job.out"
    grep -q 'tensor-model-parallel size: 4, pipeline-model-parallel size: 4' "$work/study-7.5b-$job.out" &&
        [ "$(slurm scontrol -o show job "$job" | sed 's/.*NumNodes=\([0-9]*\).*/\1/')" -eq 4 ]
}

state_is() { grep -q "\"$2\": \"\{0,1\}$3[\",]" "$work/runs/$1/state" || { cat "$work/runs/$1/state"; false; }; }
losses() { cat "$@" | sed -n 's/^ iteration *\([0-9]*\)\/.*lm loss: \([^ ]*\) .*/\1 \2/p' | sort -n; }

# Four of eight iterations in the first element, four in the second; the others have nothing to do.
array() {
    job=$(SBATCH_OPTIONS="--time=10 --nodes=1 --array=1-4%1" slurm "$jobs/gpt2-345m.sbatch" @tiny.args \
        --mock-data --train-iters 8 --exit-interval 4 --eval-iters 0 | sed -n 's/^Submitted batch job //p')
    wait_for 240 array_is_over "$job" || return 1
    cat "$work/gpt2-345m-$job"_*.out
    [ "$(losses "$work/gpt2-345m-$job"_*.out | cut -d ' ' -f 1 | tr '\n' ' ')" = "1 2 3 4 5 6 7 8 " ] &&
        [ ! -e "$work/gpt2-345m-${job}_3.out" ] && state_is gpt2-345m next "done"
}
array_is_over() { [ -z "$(slurm squeue -h -j "$1" 2>/dev/null)" ] && grep -qs '"done"' "$work/runs/gpt2-345m/state"; }

# Three links at most; the second finishes the run and submits no third.
links() {
    LINKS=4 SBATCH_OPTIONS="--time=10 --nodes=1" slurm "$jobs/gpt2-1.5b.sbatch" @tiny.args --mock-data \
        --train-iters 8 --exit-interval 4 --eval-iters 0 >"$work/submitted" 2>&1 || return 1
    wait_for 240 chain_is_over || { slurm squeue; cat "$work"/gpt2-1.5b-*.out; return 1; }
    cat "$work"/gpt2-1.5b-*.out
    [ "$(losses "$work"/gpt2-1.5b-*.out | cut -d ' ' -f 1 | tr '\n' ' ')" = "1 2 3 4 5 6 7 8 " ]
}
chain_is_over() { [ -z "$(slurm squeue -h)" ] && state_is gpt2-1.5b next "done" >/dev/null 2>&1; }

in_session() {
    cat >"$work/commands" <<'COMMANDS'
launch doctor --json >doctor.json; echo "doctor $?"
study @tiny.args --mock-data --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --train-iters 2 --eval-iters 0
study @tiny.args --mock-data --tensor-model-parallel-size 4 --train-iters 2 --eval-iters 0
COMMANDS
    SESSION=commands slurm "$jobs/session" 4 --time=5 >"$work/session" 2>&1 || { cat "$work/session"; return 1; }
    cat "$work/session"
    [ "$(grep -c '^ iteration *2/' "$work/session")" -eq 2 ]
}

# Slurm looks at the options of a job when it is submitted.  Two nodes with the most CPUs and GPUs
# that a machine of the table has: a job that asks for more of them is made smaller, everything else
# is as it is.
each_cluster=$work/each/cluster
each() { timeout -k 30 "$slurm_limit" "$slurm_cluster" --dir "$each_cluster" "$@"; }
cat >"$work/submit-all" <<'END'
for file in "$TRIREME_JOBS"/*.sbatch; do
    for MACHINE in $(awk '!/^#/ && NF { print $1 }' "$TRIREME_JOBS/machines"); do
        export MACHINE
        # What sbatch says of a job that it would take has its number.
        "$file" >said 2>&1 && grep -q '^sbatch: Job [0-9]* to start' said && continue
        echo "$MACHINE ${file##*/}: $(tail -n 1 said)"
    done
done
END
all_are_taken() (
    mkdir "$work/each" && unset MACHINES && cd "$work/each" &&
        each start --nodes 2 --machine a100 --cpus 96 --for 900 --wait 120 || return 1
    each exec scontrol show node n1 | grep -q 'CPUTot=96 ' && each exec scontrol show node n1 | grep 'Gres=gpu:8$' &&
        SBATCH_OPTIONS="--test-only --nodes=2" each exec bash "$work/submit-all" >"$work/refused" || return 1
    cat "$work/refused"
    each stop && [ ! -s "$work/refused" ]
)

# The CPUs, GPUs, features and partition are those of the machine.
slurm_start --nodes 4
trap 'each stop 2>/dev/null; cluster stop; rm -rf "$work"' EXIT
plan 13
check "a job for each machine of the table gets past sbatch, each job file" all_are_taken
check "sbatch study-7.5b.sbatch, as it is, on 4 nodes of 4 ranks" plain
few="--pipeline-model-parallel-size 2 --train-iters 2 --eval-iters 0"
for file in study-30b study-50b study-76b study-neox-20b study-bloom-176b "study-llama3-70b.sbatch --num-query-groups 2"; do
    # shellcheck disable=SC2086 # a list of words
    SBATCH_OPTIONS="--time=10 --nodes=2" check "${file%%.*}.sbatch submits itself" \
        runs 'after training is done' "${file%%.*}.sbatch" @tiny.args $few ${file#"${file%% *}"}
done
check "smoke.sbatch" runs 'the smoke test passed' smoke.sbatch --backend cpu
check "bench.sbatch" runs '^4  *2  *[0-9]' bench.sbatch @tiny.args --train-iters 12
check "an array goes on where its last element stopped, and ends early" array
check "so does a chain of jobs" links
check "a session of salloc" in_session
