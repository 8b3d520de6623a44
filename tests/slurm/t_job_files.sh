#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# What job files say with --dry-run, which needs no Slurm, and when they are used wrongly.
. "$srcdir/tests/tap.sh"

jobs=$(cd "$srcdir/jobs" && pwd)
TRIREME=$trireme
TRIREME_JOBS=$jobs
export TRIREME TRIREME_JOBS

# dry FILE RANKS: says how it would be submitted, what it would run, and what that takes; nothing happens.
dry() {
    (cd "$work" && "$jobs/$1" --dry-run) >"$work/dry" 2>&1 || return 1
    cat "$work/dry"
    grep -q "would submit: .* sbatch .*--nodes=$(($2 / 4)) --ntasks-per-node=4" "$work/dry" &&
        grep -q 'would run: srun .*--mpi=pmix .* train @' "$work/dry" &&
        grep -q 'the fullest rank would plan with [0-9.]* MiB' "$work/dry" && [ ! -e "$work/runs" ]
}

memory_is_stated() {
    (cd "$work" && "$jobs/$1.sbatch" --dry-run) >"$work/dry" 2>&1
    planned=$(sed -n 's/.*would plan with \([0-9]*\.[0-9]*\) MiB.*/\1/p' "$work/dry" | head -n 1)
    stated=$(sed -n 's/^# Memory  *\([0-9,]*\) MiB.*/\1/p' "$jobs/$1.sbatch" | tr -d ,)
    echo "stated $stated, planned $planned"
    [ -n "$stated" ] && awk -v a="$stated" -v b="$planned" 'BEGIN { exit !(a - b < 1 && b - a < 1) }'
}

# with NAME=VALUE... FILE WORD...: that job file, in the test's folder.
with() {
    cd "$work" || return
    env "$@"
}

plan 22
for file in study-7.5b:16 study-30b:64 study-50b:128 study-76b:120 gpt2-345m:16 gpt2-1.5b:32 smoke:8 bench:8; do
    check "${file%:*} --dry-run" dry "${file%:*}.sbatch" "${file#*:}"
done
for file in study-7.5b study-30b study-50b study-76b gpt2-345m gpt2-1.5b; do
    check "$file states the memory that is planned" memory_is_stated "$file"
done
study=$jobs/study-7.5b.sbatch
fails "8 GPUs on a node: half the nodes" 0 "--nodes=2 --ntasks-per-node=8 --cpus-per-task=8 --gres=gpu:8" \
    with MACHINE=a100 "$study" --dry-run
fails "ranks without GPUs" 0 "--cpus-per-task=10 --gres=none --partition=cpu_p1" with MACHINE=cpu "$study" --dry-run
fails "options of the site" 0 "--account=abc@v100" with SBATCH_OPTIONS=--account=abc@v100 "$study" --dry-run
fails "a machine that is not known" 64 "which has v100-16g" with MACHINE=fugaku "$study" --dry-run
fails "an option that is wrong is found before the job is" 64 "micro-batch-size" \
    with MACHINE=v100-16g "$study" --dry-run --micro-batch-size 3
fails "a session" 0 "salloc --job-name=session --nodes=4" with MACHINE=v100-16g "$jobs/session" --dry-run 16
fails "a session of how many?" 64 "say for how many GPUs" with MACHINE=v100-16g "$jobs/session"
fails "no data" 64 "DATA_PATH is not set" with SLURM_JOB_ID=1 SLURM_JOB_NAME=x "$jobs/gpt2-345m.sbatch"
