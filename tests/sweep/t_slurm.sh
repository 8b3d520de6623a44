#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# `trireme sweep` in the shell of a real salloc, and in the tasks of real job arrays, on two nodes
# of a virtual cluster.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/slurm/slurm.sh"
slurm_start --nodes 2 --cpus 4 --gpus 0 --conf InactiveLimit=0
plan 16
cat > "$work/tiny.args" <<'ARGS'
--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
--vocab-size 256 --mock-data --lr 0.001 --micro-batch-size 1 --global-batch-size 8
ARGS
same() { [ "$1" = "$2" ] || { echo "'$1' / '$2'"; return 1; }; }
has() { grep -qE -e "$1" "$2" || { cat "$2"; return 1; }; }
# allocated MINUTES OPTION...: a sweep inside an allocation of two ranks on each of two nodes.
allocated() {
    minutes=$1
    shift
    slurm salloc --nodes=2 --ntasks-per-node=2 --time="$minutes" "$trireme" sweep "@$work/tiny.args" \
        "$@" > "$work/out" 2>&1
}

sized() {
    allocated 20 --ranks 2,4 --sweep-tensor 1-4 --sweep-iters 4 --sweep-warmup 1 || { cat "$work/out"; return 1; }
}
check "a sweep over tensor-parallel sizes and numbers of ranks" sized
check "where the end of the job is from" has "^job [0-9]+ ends in (20|19) min [0-9]+ s, says " "$work/out"
check "four shapes have a row" has '^4 of 4 shapes trained to their end' "$work/out"
check "groups stay inside nodes" has 'not tp4-pp1-dp1-.*not be inside nodes of 2' "$work/out"
check "two ranks stand on one node" has '^\| +1 \| 0.1M \| +1 \| +2 \| +1 \|' "$work/sweep/results.md"
check "four on two" has '^\| +2 \| 0.1M \| +2 \| +2 \| +1 \|' "$work/sweep/results.md"
check "the record names the nodes and the job" has '"node_list":"n\[1-2\]","job":"[0-9]+"' \
    "$work/sweep/results.jsonl"

endless() {
    allocated 20 --sweep-tensor 1,2 --sweep-iters 1000000 --sweep-timeout 15s --sweep-folder endless
    [ $? = 69 ] && has '^0 of 2 shapes' "$work/out"
}
check "runs that do not end are ended" endless
check "and are rows" test "$(grep -c 'failed: no end within 15 s' "$work/endless/results.md")" = 2
no_steps() { ! slurm squeue -h -s -o %j | grep '^tp'; }
check "no step of them is left" no_steps

ending() {
    allocated 1 --sweep-folder ending
    [ $? = 75 ] && has 'the job comes to its end; 0 of 1 shapes' "$work/out"
}
check "nothing begins that the end of the job would interrupt" ending

# Four tasks of two arrays, two at a time, on one node and on two.
arrays() { slurm "$trireme" sweep "@$work/tiny.args" --ranks 2,4 --ranks-per-node 2 --sweep-tensor 1,2 --sweep-iters 4 \
    --sweep-warmup 1 --sweep-folder arrays "$@"; }
check "arrays of two numbers of ranks are submitted" arrays --sweep-array job.sbatch --sweep-array-limit 1 --sweep-submit \
    --sweep-array-options partition=cpu overcommit
check "both" same "$(cd "$work" && echo job-*.sbatch)" "job-ranks2.sbatch job-ranks4.sbatch"
collected() { arrays --sweep-collect > "$work/out" 2>&1; }
check "their results are collected when all have ended" wait_for 240 collected
check "all of them" has '^4 of 4 shapes trained to their end' "$work/out"
jobs() { grep -o '"ranks":[0-9]*,"nodes":[0-9]*\|"job":"[0-9]*"' "$work/arrays/results.jsonl" | sort -u | sed 's/"job".*/job/' | xargs; }
check "each in a job of its own, on the nodes of its ranks" same "$(jobs)" "job job job job ranks:2,nodes:1 ranks:4,nodes:2"
