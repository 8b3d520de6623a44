#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Nothing is lost: a run that is killed with SIGKILL at random moments, also while it saves, and started
# again each time, ends with the losses, norms and weights of the run that was never broken, to the bit.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
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

# The random numbers are awk's with a printed seed, so that a failure can be had again.
seed=${TR_TEST_SEED:-$$}
echo "# seed $seed"
random() { awk -v seed="$seed" -v n="$1" 'BEGIN { srand(seed + 7919 * n); print rand() }'; }

# count PATTERN: lines of the broken run's log so far.
count() { grep -c "$1" "$work/broken.log"; }

# kill_one LAUNCHER U V: SIGKILL to one rank; its launcher then ends the others.  Half of the deaths come
# up to 15 ms after the beginning of a save, half after some iterations; U and V in [0, 1) say when and
# whom.
kill_one() {
    if [ $((tries % 2)) -eq 0 ]; then
        pattern='^saving checkpoint' lines=1 delay=$(awk -v u="$2" 'BEGIN { print u * 0.015 }')
    else
        pattern='^ iteration' lines=$(awk -v u="$2" 'BEGIN { print int(2 + u * 8) }') delay=0.00$((tries % 8))
    fi
    lines=$((lines + $(count "$pattern")))
    while [ "$(count "$pattern")" -lt $lines ]; do sleep 0.01; done
    sleep "$delay"
    victim=$(rank_pids "$1" |
        awk -v u="$3" '{ p[NR] = $1 } END { if (NR) print p[int(u * NR) + 1] }')
    [ -n "$victim" ] && kill -KILL "$victim"
}

: > "$work/broken.log"
kills=0 tries=0 finished=no
while [ $tries -lt 60 ] && [ $finished = no ]; do
    tries=$((tries + 1))
    train "$work/broken" >> "$work/broken.log" 2>&1 &
    launcher=$!
    killer=
    # After ten deaths let it live.
    if [ $kills -lt 10 ]; then
        kill_one $launcher "$(random $tries)" "$(random $((tries + 100)))" 2> /dev/null &
        killer=$!
    fi
    if wait $launcher; then finished=yes; else kills=$((kills + 1)); fi
    [ -n "$killer" ] && kill $killer 2> /dev/null && wait $killer 2> /dev/null
done
echo "# killed $kills times"
if [ $finished = yes ] && [ $kills -ge 4 ]; then
    ok "a run that was killed again and again finishes"
else
    not_ok "a run that was killed again and again finishes" "finished: $finished, kills: $kills" \
        "$(tail -n 30 "$work/broken.log")"
fi

# When a rank dies mpiexec swallows lines that it had not yet forwarded, so the broken run's log need
# not have every iteration; those that it has must be the same.
same_losses() {
    losses "$work/whole.log" $iterations > "$work/whole.losses"
    losses "$work/broken.log" $iterations > "$work/broken.losses"
    [ "$(wc -l < "$work/whole.losses")" -eq $iterations ] || return 1
    [ "$(wc -l < "$work/broken.losses")" -ge 10 ] &&
        ! grep -v -x -F -f "$work/whole.losses" "$work/broken.losses"
}
check "its losses and norms are those of the unbroken run" same_losses

same_weights() {
    sums "$work/whole" > "$work/whole.sums"
    sums "$work/broken" > "$work/broken.sums"
    [ -s "$work/whole.sums" ] && cmp "$work/whole.sums" "$work/broken.sums" &&
        "$trireme" ckpt verify "$work/broken"
}
check "its weights and moments are those of the unbroken run" same_weights
