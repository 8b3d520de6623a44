#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# --optimizer 8bit-adam as a user meets it: offloaded it has the bits of a run on the device, in
# other layouts the same losses but for blocks that are cut elsewhere; a run that is killed resumes
# to the bit; checkpoints go to adam and back; what makes no sense is refused; and a plan counts its
# bytes.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
. "$srcdir/tests/train/broken.sh"
plan 22

export OMP_NUM_THREADS=1
check "a dataset is built" small_corpus
mkdir "$work/states"
iterations=8

# run NAME RANKS OPTION...: its losses in $work/NAME.losses, its checkpoint in $work/NAME.
run() {
    run_name=$1 run_ranks=$2
    shift 2
    small "$run_ranks" --train-iters $iterations --save "$work/$run_name" --optimizer 8bit-adam "$@" \
        > "$work/$run_name.log" 2>&1 || { tail -n 20 "$work/$run_name.log"; return 1; }
    losses "$work/$run_name.log" $iterations > "$work/$run_name.losses"
    [ "$(wc -l < "$work/$run_name.losses")" -eq $iterations ]
}
check "a run of one rank" run one 1

# same NAME OPTION...: the losses, weights and moments of one rank, to the bit.
same() {
    run "$@" || return 1
    diff "$work/one.losses" "$work/$1.losses" && same_weights one "$1"
}
check "states in memory of the host: the same bits" same host 1 --offload-optimizer cpu --offload-tile 5120
check "in files: the same bits" same files 1 --offload-optimizer "$work/states" --offload-tile 2048 --offload-buffers 3
check "half of them on the device: the same bits" same part 1 --offload-optimizer cpu --optimizer-offload-fraction 0.5
stages() {
    run stages 2 --pipeline-model-parallel-size 2 && close_losses "$work/one.losses" "$work/stages.losses" 1e-6
}
check "two stages: the same losses" stages

# In blocks that begin elsewhere another element is the largest: a code may be the next one, 0.7 %
# of the scale and less.
close() {
    run "$@" && close_losses "$work/one.losses" "$work/$1.losses" 1e-3
}
check "tensor parallelism: close losses" close tensor 2 --tensor-model-parallel-size 2
check "replicas: close losses" close replicas 2
check "ZeRO-1: close losses" close zero1 2 --zero-stage 1
check "ZeRO-2: close losses" close zero2 2 --zero-stage 2
check "ZeRO-3, offloaded: close losses" close zero3 2 --zero-stage 3 --offload-optimizer cpu --offload-param cpu
check "blocks of 2048: close losses" close long 1 --adam8bit-block 2048

# Killed, in shards that cut blocks.
want=2
[ -z "${TR_TEST_ALL:-}" ] || want=20
iterations=20
[ -z "${TR_TEST_ALL:-}" ] || iterations=100
check "a run that is never broken" run whole 2 --zero-stage 1
again() { run_again=$1; shift; small 2 --train-iters $iterations --optimizer 8bit-adam --zero-stage 1 \
    --save "$work/$run_again" --load "$work/$run_again" --save-interval 2 --keep-last 2 "$@"; }
killed() {
    kill_often $want broken again broken
    if [ $finished != yes ] || [ "$kills" -lt 1 ]; then
        tail -n 30 "$work/broken.log"
        return 1
    fi
    same_losses whole broken $iterations 4 && same_weights whole broken
}
check "killed $want times, equal to the bit" killed

# From one optimizer to the other.
goes_on() { small 1 --load "$work/one" --train-iters 10 --override-opt-param-scheduler "$@" 2>&1; }
to_adam() {
    goes_on | grep "^> the checkpoint is of a run with --optimizer 8bit-adam: .* as those of --optimizer adam$"
}
check "its checkpoint goes on as adam, which is told" to_adam
from_adam() {
    small 1 --train-iters 2 --save "$work/plain" > "$work/plain.log" 2>&1 &&
        small 1 --load "$work/plain" --train-iters 4 --override-opt-param-scheduler --optimizer adam8bit 2>&1 |
        grep "^> the checkpoint is of a run with --optimizer adam: .* as those of --optimizer 8bit-adam$"
}
check "and that of adam as 8bit-adam" from_adam
quiet() { ! goes_on --optimizer adam8bit | grep "^> the checkpoint is of a run"; }
check "where nothing changes, nothing is told" quiet

# Refusals.
fails "blocks without it" 64 "add that, or remove it" refused 1 --train-iters 1 --adam8bit-block 2048
fails "blocks of another size" 64 "2048" refused 1 --train-iters 1 --optimizer 8bit-adam --adam8bit-block 512
fails "tiles that are no block" 64 "give 2048 or more" refused 1 --train-iters 1 --optimizer 8bit-adam \
    --adam8bit-block 2048 --offload-optimizer cpu --offload-tile 1024

# Bytes of the optimizer: m and v of the matrices of each layer, 4096 elements and more, are codes
# and 4 bytes for each block; all of it a multiple of 64.
dry() {
    "$trireme" train --dry-run --num-layers 2 --hidden-size 256 --num-attention-heads 4 --seq-length 64 --lr 1e-3 \
        --max-position-embeddings 64 --vocab-size 1000 --micro-batch-size 1 --global-batch-size 1 --train-iters 1 "$@" |
        awk '/^memory plan/ { on = 1 } on && $1 == "optimizer" { print $2; exit }'
}
saved() {
    dry > "$work/fp32" && dry --optimizer 8bit-adam --adam8bit-block "$1" > "$work/eight" &&
        paste "$work/fp32" "$work/eight" | awk -v b="$1" '{
            n = 2 * 12 * 256 * 256
            want = n * (8 - 2 * (1 + 4 / b)) / 1048576
            d = $1 - $2 - want; print $1, $2, want
            exit !(d < 0.011 && d > -0.011) }'
}
check "blocks of 256: 6 bytes less for each element of a matrix, but for 8 of a block" saved 256
check "blocks of 2048" saved 2048
