#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# A run whose length is given in samples, with batch-size ramp-up: its log has the batches of the
# formula, and what it resumes in the middle of the ramp ends as the run that never stopped.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 7

check "a dataset is built" small_corpus

# Three increments in 30 samples; a rate that stays and falls, a weight decay that rises.
train() {
    small "$@" --global-batch-size 16 --rampup-batch-size 4 4 30 --train-samples 120 \
        --lr-decay-style WSD --lr-wsd-decay-samples 40 --lr-wsd-decay-style minus_sqrt \
        --weight-decay-incr-style linear --start-weight-decay 0.01 --end-weight-decay 0.1
}
pp2="2 --pipeline-model-parallel-size 2"

# shellcheck disable=SC2086
check "a batch that grows" train $pp2 --save "$work/whole"
echo "$tap_out" > "$work/whole.log"
batches() {
    sed -n 's/^ iteration .*consumed samples: *\([0-9]*\) .*global batch size: *\([0-9]*\) .*/\1 \2/p' \
        "$work/whole.log" > "$work/got"
    # Worked out in Python with Megatron's formula.
    cat > "$work/want" <<'END'
4 4
8 4
12 4
20 8
32 12
48 16
64 16
80 16
96 16
112 16
END
    diff "$work/want" "$work/got" &&
        grep -q '^will use batch size rampup starting from global batch size 4 to global batch size 16 with batch size increments 4 over 30 samples\.$' "$work/whole.log"
}
check "batches of the formula" batches
losses "$work/whole.log" 10 > "$work/whole.losses"

# shellcheck disable=SC2086
check "4 iterations" train $pp2 --exit-interval 4 --save "$work/half"
echo "$tap_out" > "$work/half.log"
resume() { resume_half train 10 "$@"; }
same() {
    # shellcheck disable=SC2086
    resume same $pp2
    cmp "$work/whole.losses" "$work/same.losses" || return 1
    sums "$work/whole" > "$work/whole.sums"
    sums "$work/same" | cmp - "$work/whole.sums" && [ -s "$work/whole.sums" ]
}
check "resumed in the ramp: equal to the bit" same
other() { resume other 4 --tensor-model-parallel-size 2; close_losses "$work/whole.losses" "$work/other.losses" 1e-5; }
check "on other ranks: equal to 1e-5" other

# A learning-rate schedule that differs from the checkpoint's is reported, not followed in silence.
other_course() {
    cp -r "$work/half" "$work/course"
    small 1 --global-batch-size 16 --rampup-batch-size 4 4 30 --train-samples 120 --load "$work/course" \
        --lr-decay-style WSD --lr-wsd-decay-samples 40 --lr-wsd-decay-style minus_sqrt \
        --weight-decay-incr-style linear --start-weight-decay 0.01 --end-weight-decay 0.2
}
fails "another weight decay at the end is reported" 65 "--end-weight-decay" other_course
