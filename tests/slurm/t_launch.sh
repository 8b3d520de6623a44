#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# Launches as people get them wrong, by a real srun: what trireme says of them.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/slurm/slurm.sh"
# Where cores are scarce, srun may not answer in the 30 seconds that the cluster gives it.
slurm_start --nodes 2 --cpus 4 --gpus 4 --conf InactiveLimit=0
plan 11
program=$PWD/trireme
model="--num-layers 2 --hidden-size 16 --num-attention-heads 4 --seq-length 8
    --max-position-embeddings 8 --tokenizer-type NullTokenizer --vocab-size 30 --mock-data
    --micro-batch-size 1 --lr 0.001 --train-iters 1 --eval-iters 0 --log-interval 1"

# on_ranks OPTIONS-OF-SRUN: a look at them, into $work/out.
on_ranks() { slurm srun "$@" "$program" doctor >"$work/out" 2>&1; }
told() { grep -q -e "$1" "$work/out" || { cat "$work/out"; return 1; }; }
quiet() {
    on_ranks -N 2 --ntasks-per-node=2 && told '^4 ranks on 2 nodes, started by srun with PMIx' &&
        told '^  n1: ranks 0-1,' && told '^  n2: ranks 2-3,' && ! grep '^  fail' "$work/out" &&
        [ "$(grep -c '^  ok  .*\(ranks\|nodes\|even\|pmix-fence\)  ' "$work/out")" -ge 4 ]
}
check "a launch that is right" quiet
uneven() { on_ranks -N 2 -n 3 && told '^  warn  even .*from 1 to 2 ranks'; }
check "more ranks on one node than on the other" uneven
idle() {
    slurm salloc -N 2 srun -N 1 -n 1 "$program" doctor >"$work/out" 2>&1
    told '^  warn  nodes .*the job has 2 nodes and ranks on 1'
}
check "a node that does nothing" idle
apart() { ! on_ranks --mpi=none -N 2 --ntasks-per-node=2 && told '^  fail  ranks .*started 4 tasks'; }
check "tasks without PMIx" apart
once() { [ "$(grep -c '^  fail' "$work/out")" = 1 ]; }
check "of which one alone speaks" once
fails "training does not start on them" 64 "use srun --mpi=pmix" \
    slurm srun --kill-on-bad-exit=0 --mpi=none -N 2 --ntasks-per-node=2 "$program" train $model
alone() { slurm salloc -n 4 "$program" doctor >"$work/out" 2>&1 && told '^  warn  ranks .*has 4 tasks'; }
check "srun was forgotten" alone
fence() {
    slurm env SLURM_PMIX_FENCE=mixed srun -N 2 --ntasks-per-node=1 "$program" doctor >"$work/out" 2>&1 &&
        told '^  ok  .*pmix-fence' &&
        slurm env SLURM_PMIX_FENCE=mixed "$program" doctor >"$work/out" 2>&1 &&
        case $(slurm srun --version) in
        *' 22.05'* | *' 23.'*) told '^  warn  pmix-fence .*export SLURM_PMIX_FENCE=ring' ;;
        *) told '^  ok  .*pmix-fence' ;;
        esac
}
check "a fence that may crash, before ranks are started over it" fence

# Tensor parallelism: groups of two fit on nodes with two ranks, unless the ranks are dealt out in
# turn.
fails "a tensor-parallel group over two nodes" 64 "use --tensor-model-parallel-size 2" \
    slurm srun -N 2 --ntasks-per-node=2 "$program" train $model --tensor-model-parallel-size 4
fails "neighbours on different nodes" 64 "srun --distribution=block" \
    slurm srun -N 2 --ntasks-per-node=2 --distribution=cyclic "$program" train $model \
    --tensor-model-parallel-size 2
trains() {
    slurm srun -N 2 --ntasks-per-node=2 "$program" train $model --tensor-model-parallel-size 2 \
        >"$work/out" 2>&1 && told '^> 4 ranks on 2 nodes: n[12] 0-1, n[12] 2-3$' && told 'iteration *1/'
}
check "a group for each node trains, and the log has the map" trains
