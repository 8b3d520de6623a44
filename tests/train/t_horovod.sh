#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# What users of Horovod know: gradients in fp16 on their way, the size of what is fused, a learning rate times the
# replicas, and its variables.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 16

check "a dataset is built" small_corpus

# run NAME OPTION...: two replicas; losses in $work/NAME.losses.
run() {
    run_name=$1
    shift
    small 2 --train-iters 6 "$@" > "$work/$run_name.log" 2>&1 || { tail -n 20 "$work/$run_name.log"; return 1; }
    losses "$work/$run_name.log" 6 > "$work/$run_name.losses"
    [ "$(wc -l < "$work/$run_name.losses")" = 6 ]
}
sent() { sed -n 's/^traffic .*gradients-sum (bytes): \([0-9]*\) .*/\1/p' "$work/$1.log" | tail -n 1; }
check "all-reduce in fp32" run whole --log-traffic

half() {
    run half --fp16-allreduce --log-traffic && [ "$(sent half)" = $(($(sent whole) / 2)) ] &&
        close_losses "$work/whole.losses" "$work/half.losses" 1e-3
}
check "fp16 on the wire: half the bytes, and about the same losses" half
later() { run later --dp-wire fp16 --no-overlap-grad-reduce --ddp-bucket-size 3000 && cmp "$work/half.losses" "$work/later.losses"; }
check "in other buckets, after the backward pass: the same bits" later
sharded() {
    run sharded --dp-wire bf16 --use-distributed-optimizer --log-traffic && [ "$(sent sharded)" = $(($(sent whole) / 4)) ] &&
        close_losses "$work/whole.losses" "$work/sharded.losses" 1e-2 && ! cmp "$work/whole.losses" "$work/sharded.losses"
}
check "scattered in bf16: a quarter" sharded
# Gradients in fp32 of a loss times 2^40 are numbers, and in fp16 they are not.
overflow() {
    run overflow --fp16 --accumulate-allreduce-grads-in-fp32 --loss-scale 1099511627776 --dp-wire fp16
    grep -q 'gradients of iteration 1 are not finite in fp16, in which replicas sum them' "$work/overflow.log" &&
        grep -q '^ iteration .*number of skipped iterations:   1' "$work/overflow.log"
}
check "what overflows is said, and updates nothing" overflow

horovod() {
    run strategy --strategy horovod --lr .001 && run twice --lr .002 && cmp "$work/strategy.losses" "$work/twice.losses" &&
        cmp "$work/whole.losses" "$work/twice.losses" &&
        grep -q '^> --strategy horovod stands for --zero-stage 0 --lr-times-replicas' "$work/strategy.log"
}
check "--strategy horovod: the learning rate times two replicas" horovod
fused() { run fused --fusion-threshold-mb 0.01 && cmp "$work/whole.losses" "$work/fused.losses"; }
check "fused in small buffers: the same bits" fused

# dry OPTION...: what the environment makes of the options.
dry() { small 1 --dry-run --world-size 2 --train-iters 1 "$@" > "$work/dry.log" 2>&1; }
variables() {
    HOROVOD_FUSION_THRESHOLD=67108864 HOROVOD_CYCLE_TIME=3.5 HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=90 dry &&
        grep -q '^  fusion_threshold_mb \.* 64\.0$' "$work/dry.log" &&
        grep -q '^  distributed_timeout_minutes \.* 1\.5$' "$work/dry.log" &&
        grep -q 'HOROVOD_CYCLE_TIME has no effect: what is fused is planned' "$work/dry.log"
}
check "its variables are read" variables
option_wins() {
    HOROVOD_FUSION_THRESHOLD=67108864 dry --ddp-bucket-size 5000 &&
        grep -q '^  fusion_threshold_mb \.* None$' "$work/dry.log" &&
        HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=0 dry && grep -q '^  distributed_timeout_minutes \.* 10$' "$work/dry.log"
}
check "an option wins, and 0 is none" option_wins

once="--train-iters=1"
fails "two sizes" 64 "--fusion-threshold-mb is the size of a bucket in MiB" small 2 --fusion-threshold-mb 64 \
    --ddp-bucket-size 5000 "$once"
fails "two types" 64 "--fp16-allreduce is --dp-wire fp16" small 2 --fp16-allreduce --dp-wire bf16 "$once"
fails "servers" 64 "give --dp-mode allreduce or --zero-stage 1" small 2 --dp-wire fp16 --dp-mode central_ps "$once"
fails "sharded gradients" 64 "with --zero-stage they are exchanged in another way" small 2 --dp-wire fp16 --zero-stage 2 "$once"
fails "a size of nothing" 64 "fusion-threshold-mb" small 2 --fusion-threshold-mb 0 "$once"
fails "too many buckets" 64 "--fusion-threshold-mb makes more than" small 2 --fusion-threshold-mb 1e-9 --hidden-size 12800 "$once"
