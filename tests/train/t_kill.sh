#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# Nothing is lost: a run that is killed with SIGKILL at random moments, also while it saves, and
# started again each time, ends with the losses, norms and weights of the run that was never broken,
# to the bit. t_campaign.sh does it oftener and in other layouts, t_families stops every family
# without a kill.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
. "$srcdir/tests/train/broken.sh"

# name, iterations, kills, how many at least, options; the others with TR_TEST_ALL.
table='
gpt2      60  4 2 --pipeline-model-parallel-size 2
adasum    60  3 1 --dp-mode adasum
mistral   60  3 1 --model-family mistral --num-query-groups 1 --window-size 7 --tensor-model-parallel-size 2
'
more='
longer   150 10 4 --pipeline-model-parallel-size 2
opt-350m 100 10 4 --model-family opt-350m --word-embed-proj-dim 16 --use-distributed-optimizer
gemma    100 10 4 --model-family gemma --kv-channels 16 --pipeline-model-parallel-size 2
gptj     100 10 4 --model-family gptj --tensor-model-parallel-size 2 --sequence-parallel
'
[ -z "${TR_TEST_ALL:-}" ] || table="$table$more"
plan $((1 + 4 * $(echo "$table" | grep -c .)))

train() {
    train_dir=$1 train_iterations=$2
    shift 2
    small 2 --train-iters "$train_iterations" --eval-interval 40 --save "$train_dir" \
        --load "$train_dir" --save-interval 2 --keep-last 2 "$@"
}

# killed NAME ITERATIONS KILLS LEAST OPTION...
killed() {
    name=$1 iterations=$2 often=$3 least=$4
    shift 4
    if train "$work/$name" "$iterations" "$@" > "$work/$name.log" 2>&1; then
        ok "$name: a run that is never broken"
    else
        not_ok "$name: a run that is never broken" "$(tail -n 20 "$work/$name.log")"
    fi
    kill_often "$often" "$name.broken" train "$work/$name.broken" "$iterations" "$@"
    echo "# killed $kills times"
    if [ $finished = yes ] && [ "$kills" -ge "$least" ]; then
        ok "$name: a run that was killed again and again finishes"
    else
        not_ok "$name: a run that was killed again and again finishes" \
            "finished: $finished, kills: $kills" "$(tail -n 30 "$work/$name.broken.log")"
    fi
    check "$name: its losses and norms are those of the unbroken run" \
        same_losses "$name" "$name.broken" "$iterations" 10
    check "$name: its weights and moments are those of the unbroken run" \
        same_weights "$name" "$name.broken"
}

check "a dataset is built" small_corpus
echo "$table" | grep . > "$work/table"
while read -r name iterations often least options; do
    killed "$name" "$iterations" "$often" "$least" $options < /dev/null
done < "$work/table"
