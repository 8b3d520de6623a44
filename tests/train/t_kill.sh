#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Nothing is lost: a run that is killed with SIGKILL at random moments, also while it saves, and started
# again each time, ends with the losses, norms and weights of the run that was never broken, to the bit.
# t_campaign.sh does it oftener and in other layouts.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
. "$srcdir/tests/train/broken.sh"
plan 5

iterations=150
train() {
    small 2 --pipeline-model-parallel-size 2 --train-iters $iterations --eval-interval 40 \
        --save "$1" --load "$1" --save-interval 2 --keep-last 2
}

check "a dataset is built" small_corpus
if train "$work/whole" > "$work/whole.log" 2>&1; then
    ok "a run that is never broken"
else
    not_ok "a run that is never broken" "$(tail -n 20 "$work/whole.log")"
fi
kill_often 10 broken train "$work/broken"
echo "# killed $kills times"
if [ $finished = yes ] && [ $kills -ge 4 ]; then
    ok "a run that was killed again and again finishes"
else
    not_ok "a run that was killed again and again finishes" "finished: $finished, kills: $kills" \
        "$(tail -n 30 "$work/broken.log")"
fi
check "its losses and norms are those of the unbroken run" same_losses whole broken $iterations 10
check "its weights and moments are those of the unbroken run" same_weights whole broken
