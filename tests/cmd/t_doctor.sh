#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# `trireme doctor` and what training refuses or warns of when it starts, under the variables that
# Slurm would set for launches that went wrong.
# shellcheck source=tests/tap.sh
. "${srcdir:?}/tests/tap.sh"
plan 21

# What surrounds this test must not speak.
for name in $(env | sed -n 's/^\(SLURM_[A-Z_]*\|PMI[A-Z]*_[A-Z_]*\|OMPI_COMM_[A-Z_]*\|NNODES\)=.*/\1/p'); do
    unset "$name"
done
unset CUDA_VISIBLE_DEVICES CUDA_LAUNCH_BLOCKING NCCL_DEBUG MALLOC_CHECK_ MALLOC_PERTURB_
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

checks() { "$trireme" help doctor | sed -n 's/^    \([a-z-]*\) (\(warn\|fail\)): .*/\1/p'; }
doctor() { timeout 120 "$trireme" doctor "$@"; }
doctors() { doctors_n=$1; shift; ranks "$doctors_n" timeout 120 "$trireme" doctor "$@"; }

# Each check of the manual has a line, in that order, and none fails on a machine that is well.
each_check() {
    "$@" >"$work/out" && checks >"$work/names" && [ "$(wc -l <"$work/names")" -gt 15 ] &&
        awk '$1 == "ok" || $1 == "warn" || $1 == "fail" { print $2 }' "$work/out" | uniq |
        cmp - "$work/names" && ! grep '^  fail' "$work/out"
}
check "alone it has a line for each check" each_check doctor
check "on four ranks too" each_check doctors 4
text="$(uname -n): ranks 0-3,"
says() { "$@" >"$work/out" && grep -q -e "$text" "$work/out"; }
check "it knows where they are" says doctors 4
text="^4 ranks on 1 node, started by mpiexec"
check "and who started them" says doctors 4

# json NAME LEVEL: what a JSON parser finds.
json() {
    "$@" --json >"$work/json" || return 1
    if command -v python3 >/dev/null 2>&1; then
        python3 - "$work/json" "$work/names" <<'END'
import json, sys
told = json.load(open(sys.argv[1]))
names = open(sys.argv[2]).read().split()
assert [c["check"] for c in told["checks"]] == names
assert all(c["level"] in ("ok", "warn", "fail") for c in told["checks"])
assert told["ranks"] == sum(len(n["ranks"]) for n in told["nodes"])
assert any(l["name"] == "MPI" and l["here"] for l in told["libraries"])
END
    fi
}
checks >"$work/names"
check "JSON says the same" json doctor
check "also on four ranks" json doctors 4
version_json() { "$trireme" version --json >"$work/json" && grep -q '"name": "HDF5"' "$work/json"; }
check "so does version" version_json
fails "a wrong option" 64 "did you mean --json?" doctor --jsn

# One task of four that srun started without PMIx.
fails "tasks that are alone" 69 "srun started 4 tasks and each is alone" \
    env SLURM_JOB_ID=1 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 "$trireme" doctor
fails "training does not start there" 64 "use srun --mpi=pmix" \
    env SLURM_JOB_ID=1 SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=2 "$trireme" train --num-layers 1
silent() { [ -z "$(env SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=1 "$trireme" doctor 2>&1)" ]; }
check "the other tasks leave the word to the first" silent

# warns TEXT COMMAND...
warns() { text="^  warn .*$1"; shift; says "$@"; }
check "one rank in a job of four" warns "this job has 4 tasks and this is one rank" \
    env SLURM_JOB_ID=1 SLURM_NTASKS=4 SLURM_JOB_NUM_NODES=1 "$trireme" doctor
check "idle nodes" warns "the job has 3 nodes and ranks on 1, so 2 do nothing" \
    env SLURM_JOB_ID=1 SLURM_JOB_NUM_NODES=3 TR_TEST_RANKS=2 "$srcdir/tests/mpirun" --ranks 2 \
    "$trireme" doctor
check "NNODES of another job" warns "NNODES is 7 in the environment" \
    env NNODES=7 "$srcdir/tests/mpirun" --ranks 2 "$trireme" doctor
check "fewer cores than asked for" warns "the job asked for 5000" \
    env SLURM_JOB_ID=1 SLURM_CPUS_PER_TASK=5000 "$trireme" doctor
check "more threads than cores" warns "with 5000 threads" doctor --threads 5000
check "what somebody left in the environment" warns "MALLOC_PERTURB_=85" \
    env MALLOC_PERTURB_=85 "$trireme" doctor

# A folder that does not exist yet lies where the nearest one above it does.
near() { doctor --save "$work/not/there/yet" >"$work/out" && grep -q '  space ' "$work/out"; }
check "the folder of --save need not exist" near

# train RANKS OPTION...
train() {
    train_n=$1
    shift
    ranks "$train_n" "$trireme" train --num-layers 1 --hidden-size 16 --num-attention-heads 2 \
        --seq-length 8 --max-position-embeddings 8 --tokenizer-type NullTokenizer --vocab-size 30 \
        --mock-data --micro-batch-size 1 --lr 0.001 --train-iters 1 --eval-iters 0 --log-interval 1 \
        --threads 1 "$@"
}
warned() {
    NNODES=7
    export NNODES
    train 2 >"$work/out" 2>"$work/err"
    warned_code=$?
    unset NNODES
    [ $warned_code = 0 ] && grep -q 'warning: NNODES is 7' "$work/err"
}
check "training warns, too" warned
quiet() { train 1 >"$work/out" 2>"$work/err" && [ ! -s "$work/err" ]; }
check "and says nothing where all is well" quiet
# More than any disk: weights and moments of a model that is never made.
fails "no room for a checkpoint" 69 "and a checkpoint takes" \
    train 1 --save "$work/run" --hidden-size 1048576 --num-layers 6 --vocab-size 1000000
