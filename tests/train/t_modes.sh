#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# Modes of replicas: a run that is killed with SIGKILL at random moments, also while it saves, and
# started again each time, ends with the losses, norms, weights and moments of the run that was
# never broken, to the bit.  And the checkpoint of a lossless one goes on in the next lossless mode,
# with TR_TEST_ALL in three others, with the same losses but for rounding.  Each mode twice, and
# with TR_TEST_ALL 20 times, five in each of four layouts; TR_TEST_KILLS, of a layout, and
# TR_TEST_SEED set other numbers.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
. "$srcdir/tests/train/broken.sh"

# A row for each lossless mode: name, options.
modes='
allreduce
zero1  --use-distributed-optimizer --overlap-param-gather --ddp-bucket-size 5000
zero3  --zero-stage 3
hosted --zero-stage 3 --offload-optimizer cpu --offload-param cpu
chunks --chunk-memory 200K --chunk-size 5000
'
more_modes="
zero2  --zero-stage 2
server --dp-mode central_ps
shards --dp-mode sharded_ps
hybrid --zero-stage 3 --zero-shard-size 2
once   --zero-stage 3 --zero-reduce-once --zero-prefetch-depth 1
files  --zero-stage 2 --offload-optimizer $work/states
stays  --chunk-memory 900K
"
# And for each other, which is only killed.  t_servers.sh and t_adam8.sh kill theirs each time.
lossy='
adasum  --dp-mode adasum --untie-embeddings-and-output-weights
horovod --strategy horovod --dp-wire fp16 --fusion-threshold-mb 0.02
'
more_lossy='
rounded --dp-wire bf16
adam8   --optimizer 8bit-adam --use-distributed-optimizer
servers --dp-mode sharded_ps_compressed --dp-bits 4 --train-warmup-steps 3
'
# A row for each layout: name, relative tolerance of losses in another mode, ranks, options.  In
# bf16 one weight may round otherwise, 2^-9 of it.
layouts='
replicas 1e-5 2
'
more='
tensor   1e-3 4 --tensor-model-parallel-size 2 --bf16 --sequence-parallel
four     1e-5 4
stages   1e-5 6 --pipeline-model-parallel-size 3 --decoder-first-pipeline-num-layers 2
'
want=${TR_TEST_KILLS:-2} iterations=24 others=1
[ -z "${TR_TEST_ALL:-}" ] || want=${TR_TEST_KILLS:-5} iterations=40 others=3 layouts="$layouts$more" modes="$modes$more_modes" lossy="$lossy$more_lossy"

# rows TABLE: without empty lines.  names TABLE, rest TABLE NAME: of a row, what stands behind its
# name.
rows() { echo "$1" | grep .; }
names() { rows "$1" | awk '{ print $1 }'; }
rest() { rows "$1" | awk -v name="$2" '$1 == name { $1 = ""; print }'; }

# modes_of LAYOUT: Adasum refuses sequence parallelism.
modes_of() { names "$modes$lossy" | if [ "$1" = tensor ]; then grep -v -x adasum; else cat; fi; }
# Two tests for each mode of each layout, and the lossless ones go on as others.
tests=1
for layout in $(names "$layouts"); do
    tests=$((tests + 2 * $(modes_of "$layout" | wc -l) + others * $(names "$modes" | wc -l)))
done

mkdir "$work/states" || exit 1
plan $tests
check "a dataset is built" small_corpus

# train LAYOUT MODE OPTION...
train() {
    train_layout=$(rest "$layouts" "$1" | sed 's/^ *[^ ]*//') train_mode=$(rest "$modes$lossy" "$2")
    shift 2
    small $train_layout $train_mode --train-iters $iterations --attention-dropout 0.1 --hidden-dropout 0.1 "$@"
}

# killed LAYOUT MODE: in runs one after the other, each as often as it lives long enough; some end
# before they are killed.
killed() {
    whole=$1.$2 broken=$1.$2.broken killed_all=0 killed_runs=0
    while [ $killed_all -lt "$want" ] && [ $killed_runs -lt $((3 * want)) ]; do
        killed_runs=$((killed_runs + 1))
        rm -rf "${work:?}/$broken"
        kill_often $((want - killed_all)) "$broken" train "$1" "$2" --save "$work/$broken" --load "$work/$broken" \
            --save-interval 2 --keep-last 2
        killed_all=$((killed_all + kills))
        [ $finished = yes ] || { echo "it did not finish:"; tail -n 40 "$work/$broken.log"; return 1; }
        same_losses "$whole" "$broken" $iterations 4 && same_weights "$whole" "$broken" || return 1
    done
    echo "# killed $killed_all times in $killed_runs runs" > "$work/$whole.kills"
    [ $killed_all -ge "$want" ]
}

# goes_on LAYOUT MODE OTHER: from half-way of the unbroken run.
goes_on() {
    on=$1.$2.$3
    train "$1" "$3" --load "$work/$1.$2" --ckpt-step $((iterations / 2)) > "$work/$on.log" 2>&1 ||
        { tail -n 20 "$work/$on.log"; return 1; }
    losses "$work/$on.log" $iterations > "$work/$on.losses"
    tail -n $((iterations / 2)) "$work/$1.$2.losses" > "$work/$on.want"
    [ "$(wc -l < "$work/$on.want")" -eq $((iterations / 2)) ] &&
        close_losses "$work/$on.want" "$work/$on.losses" "$(rest "$layouts" "$1" | awk '{ print $1 }')"
}

for layout in $(names "$layouts"); do
    for mode in $(modes_of "$layout"); do
        check "$layout, $mode: a run that is never broken" \
            train "$layout" "$mode" --save "$work/$layout.$mode" --save-interval $((iterations / 2))
        echo "$tap_out" > "$work/$layout.$mode.log"
        check "$layout, $mode: killed $want times, equal to the bit" killed "$layout" "$mode"
        [ ! -f "$work/$layout.$mode.kills" ] || cat "$work/$layout.$mode.kills"
        # The next ones in the table, which begins again behind its end.
        for other in $(names "$modes" | grep -q -x "$mode" &&
            { names "$modes"; names "$modes"; } | sed "1,/^$mode\$/d" | head -n $others); do
            check "$layout, $mode goes on as $other: the same losses" goes_on "$layout" "$mode" "$other"
        done
    done
done
