#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# Four ranks on the four nodes of a virtual cluster, of which one is slow, has a weight that is no
# number, stops, or is killed: it is named with its node, within five iterations or five seconds
# after the time limit.
. "$srcdir/tests/tap.sh"
only_with_all
. "$srcdir/tests/slurm/slurm.sh"
${CC:-cc} -shared -fPIC -D_GNU_SOURCE -o "$work/clock.so" "$srcdir/tests/train/clock.c" -ldl > "$work/cc.log" 2>&1 ||
    skip_all "no shared library can be made: $(head -n 1 "$work/cc.log")"
slurm_start --nodes 4 --cpus 2
plan 7
model="--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
    --tokenizer-type NullTokenizer --vocab-size 250 --mock-data --micro-batch-size 1 --global-batch-size 8 --lr 0.002
    --eval-iters 0 --log-interval 1 --threads 1"

# Nodes of the job before are not idle at once where a rank of it was stopped or killed.
idle() { [ "$(slurm sinfo -h -p batch -o '%T %D')" = "idle 4" ]; }

# trained NAME OPTION...: a rank on each node, which begins with the library in $library; its log is
# $work/NAME.log.  In a job of its own, which is over when the command is.
library=
trained() {
    name=$1
    shift
    wait_for 60 idle || { slurm sinfo -N -l; return 1; }
    # shellcheck disable=SC2016 # for the shell of the task, whose prolog has a library for it, too
    slurm srun -N 4 --ntasks-per-node=1 sh -c 'LD_PRELOAD=$0${LD_PRELOAD:+:$LD_PRELOAD} exec "$@"' "$library" \
        "$trireme" train $model "$@" > "$work/$name.log" 2>&1
}
says() { grep -q -e "$2" "$work/$1.log" || { tail -n 20 "$work/$1.log"; return 1; }; }

# What a rank computed is what clock.c counts, so that nothing else on the cores matters.
slow() {
    export TR_SLOW_RANK=2
    library=$work/clock.so trained slow --train-iters 6 &&
        says slow '^> slow rank 2 on n3: computes 20.0 % longer than .* at iteration [1-5];' &&
        [ "$(grep -c '^> slow rank' "$work/slow.log")" = 1 ]
}
check "a rank that computes 20 % longer is named with its node, within five iterations" slow
unset TR_SLOW_RANK

# A run of weights of others, one of which is NaN in layer 2: the number at byte 400 of its tensor.
plant() {
    file=$work/weights/model.safetensors
    "$trireme" train $model --train-iters 1 --save "$work/seed" && "$trireme" ckpt export --load "$work/seed" --to "$work/weights" &&
        header=$(od -An -tu8 -N8 "$file" | tr -d ' ') &&
        tensor=$(head -c $((8 + header)) "$file" | grep -a -o 'h\.2\.mlp\.c_fc\.weight":{[^}]*"data_offsets":\[[0-9]*' | sed 's/.*\[//') &&
        printf '\000\000\300\177' | dd of="$file" bs=1 seek=$((8 + header + tensor + 400)) conv=notrunc &&
        "$trireme" ckpt import --from "$work/weights" --save "$work/planted" --seq-length 32
}
check "a NaN is planted in one layer" plant
not_finite() {
    trained weights --pipeline-model-parallel-size 4 --train-iters 6 --load "$work/planted" --finetune && return 1
    says weights 'not finite at iteration [1-5], first in the weight encoder.layers.2.mlp.dense_h_to_4h.weight (1 of 4096 numbers) on rank 2 on n3,'
}
check "the layer is named with rank and node, within five iterations" not_finite

# of_rank RANK: its process, whose number is the same on all nodes.
of_rank() {
    # shellcheck disable=SC2016 # for the shell over there
    slurm sh -c 'for p in $(pgrep -x trireme); do
        if tr "\0" "\n" < "/proc/$p/environ" | grep -qx "SLURM_PROCID=$1"; then echo "$p"; fi
    done' of_rank "$1"
}
trains() { grep -qs '^ iteration *3/' "$work/$1.log"; }
ended() { ! kill -0 "$1" 2> /dev/null; }

# lose NAME RANK SIGNAL TEXT: a run, of which one rank gets a signal while it trains, until it has
# ended.  $seconds are those from the signal to the line of the log with TEXT, rounded up.
lose() {
    rm -rf "${work:?}/$1" "$work/$1.log"
    trained "$1" --pipeline-model-parallel-size 2 --train-iters 1000000 --distributed-timeout-minutes "${limit}s" \
        --save "$work/$1" &
    runs=$! victim=
    wait_for 120 trains "$1" && victim=$(of_rank "$2")
    if [ -z "$victim" ] || ! slurm kill "-$3" "$victim"; then
        tail -n 20 "$work/$1.log"
        slurm scancel --state=RUNNING
        return 1
    fi
    began=$(date +%s)
    wait_for $((limit + 60)) grep -qs -e "$4" "$work/$1.log"
    seconds=$(($(date +%s) - began + 1))
    wait_for 60 ended "$runs" && says "$1" "$4" && echo "named after $seconds seconds; the limit is $limit"
}
limit=10

# Cores that others use may make it late, so the best of three counts.
in_time() {
    for attempt in 1 2 3; do
        echo "attempt $attempt"
        lose "$@" || return 1
        if [ $seconds -le $((limit + 5)) ]; then return 0; fi
    done
    return 1
}
stopped() { in_time stopped 1 STOP "after $limit seconds: rank 1 on n2 did not"; }
check "a rank that is stopped is named with its node, within five seconds after the limit" stopped
flight() { "$trireme" report --flight "$work/$1" > "$work/$1.text" 2>&1; cat "$work/$1.text"; }
recorded() { flight stopped | grep -q '^  rank 1 on n2 \(did not answer\|left no record\)'; }
check "and by the flight records of the others" recorded

# With KillOnBadExit Slurm ends the others as soon as one is gone, as PMIx does, and says which one
# that was.
killed() { in_time killed 3 KILL 'srun: error: n4: task 3: Killed'; }
check "a rank that is killed is named by srun with its node, in that time" killed
missing() { flight killed | grep -q '^  rank 3 on n4 left no record: it was killed'; }
check "and by the flight records of the others" missing
