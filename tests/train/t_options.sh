#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# With each way to train: a run that is killed with SIGKILL half-way and started again ends with the
# losses, norms, weights and moments of the run that was never broken, to the bit.  And the
# checkpoint of each goes on in the next, however different that is.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"

# name ranks, then options, to the end of the line.  The second table is for tests/run --all.
table='
recompute-block 2 --recompute-granularity full --recompute-method block --recompute-num-layers 1
sharded         4 --use-distributed-optimizer --overlap-param-gather --ddp-bucket-size 5000 --pipeline-model-parallel-size 2
everything      4 --bf16 --use-distributed-optimizer --sequence-parallel --recompute-granularity full --tensor-model-parallel-size 2
ramp            2 --rampup-batch-size 2 2 100
'
more='
interleaved     2 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2
fp16            2 --fp16 --initial-loss-scale 65536 --pipeline-model-parallel-size 2
fp16-fp32-sums  2 --fp16 --accumulate-allreduce-grads-in-fp32 --fp32-residual-connection
bf16            2 --bf16 --tensor-model-parallel-size 2
recompute       2 --checkpoint-activations --pipeline-model-parallel-size 2
distribute      4 --recompute-granularity full --recompute-num-layers 2 --distribute-checkpointed-activations --tensor-model-parallel-size 4
sequence        2 --sequence-parallel --tensor-model-parallel-size 2
sharded-fp16    3 --use-distributed-optimizer --fp16 --global-batch-size 6
uneven          2 --pipeline-model-parallel-size 2 --decoder-first-pipeline-num-layers 3
documents       2 --reset-attention-mask --reset-position-ids --eod-mask-loss --tensor-model-parallel-size 2
'
[ -z "${TR_TEST_ALL:-}" ] || table=$table$more
iterations=60
plan $((1 + 2 * $(echo "$table" | grep -c '^[^#]')))
check "a dataset is built" small_corpus

# length N OPTION...: the option for N iterations more than the table asks for; 332 samples are 60
# iterations of the ramp.
length() {
    case "$*" in
    *--rampup*) echo "--train-samples $((332 + 8 * $1))" ;;
    *) echo "--train-iters $((iterations + $1))" ;;
    esac
}

# run FOLDER RANKS OPTION...
run() {
    run_dir=$1 run_ranks=$2
    shift 2
    # shellcheck disable=SC2046
    small "$run_ranks" "$@" $(length 0 "$@") --save "$run_dir" --load "$run_dir" \
        --save-interval 4 --keep-last 2 --attention-dropout 0.1 --hidden-dropout 0.1
}

# broken FOLDER RANKS OPTION...: run until some iterations are in the log, then kill one rank; its
# launcher ends the others.  Fails if the run was over before that.
broken() {
    rm -rf "$1"
    : > "$1.log"
    run "$@" >> "$1.log" 2>&1 &
    launcher=$!
    waits=0
    while [ "$(grep -c '^ iteration' "$1.log")" -lt 10 ] && [ $waits -lt 6000 ]; do
        sleep 0.01
        waits=$((waits + 1))
    done
    victim=$(rank_pids $launcher | tail -n 1)
    [ -n "$victim" ] && kill -KILL "$victim"
    ! wait $launcher
}

# same NAME RANKS OPTION...
same() {
    name=$work/$1
    shift
    run "$name.whole" "$@" > "$name.whole.log" 2>&1 || { tail -n 20 "$name.whole.log"; return 1; }
    # On a busy machine the log may come too late.
    broken "$name.part" "$@" || broken "$name.part" "$@" || broken "$name.part" "$@" ||
        { tail -n 20 "$name.part.log"; return 1; }
    run "$name.part" "$@" > "$name.rest.log" 2>&1 || { tail -n 20 "$name.rest.log"; return 1; }
    losses "$name.whole.log" $iterations > "$name.whole.losses"
    losses "$name.rest.log" $iterations > "$name.rest.losses"
    # Steps that overflowed have no loss.
    [ "$(wc -l < "$name.whole.losses")" -ge $((iterations / 2)) ] || return 1
    [ -s "$name.rest.losses" ] || return 1
    grep -v -x -F -f "$name.whole.losses" "$name.rest.losses" && return 1
    sums "$name.whole" > "$name.whole.sums"
    sums "$name.part" > "$name.part.sums"
    [ -s "$name.whole.sums" ] && cmp "$name.whole.sums" "$name.part.sums"
}

# onwards FROM RANKS OPTION...: evaluate the checkpoint of FROM under other options.  All runs have
# learned the same from the same data in the same order, but for rounding.
onwards() {
    from=$work/$1
    shift
    # shellcheck disable=SC2046
    small "$@" $(length 1 "$@") --load "$from.whole" --override-opt-param-scheduler \
        > "$from.on.log" 2>&1 || { tail -n 20 "$from.on.log"; return 1; }
    losses "$from.on.log" $((iterations + 1)) > "$from.on.losses"
    awk -v n=$((iterations + 1)) 'NR == FNR { last = $2; next } { bad = $1 != n || $2 > 1.2 * last || $2 < 0.8 * last }
        END { exit bad }' "$from.whole.losses" "$from.on.losses" || { cat "$from.on.losses"; return 1; }
}

echo "$table" | grep '^[^#]' > "$work/table"
first=$(head -n 1 "$work/table")
# mpiexec reads standard input, so the tables come through another descriptor.
while read -r name ranks options <&3; do
    # shellcheck disable=SC2086
    check "$name: killed and resumed, equal to the bit" same "$name" "$ranks" $options
done 3< "$work/table"
{ tail -n +2 "$work/table"; echo "$first"; } > "$work/next"
paste -d '|' "$work/table" "$work/next" > "$work/pairs"
while IFS='|' read -r this next <&3; do
    name=${this%% *}
    other=${next%% *}
    next=${next#* }
    # shellcheck disable=SC2086
    check "$name goes on as $other" onwards "$name" $next
done 3< "$work/pairs"
