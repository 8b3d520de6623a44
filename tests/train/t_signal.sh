#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# --exit-signal-handler: a signal to one rank, and the run saves and leaves; it resumes to the same
# end as a run that heard nothing.  --iterations-to-skip passes over samples, --skip-train only
# evaluates.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 9

check "a dataset is built" small_corpus

train() {
    small 2 --pipeline-model-parallel-size 2 --train-iters 400 --save "$1" --load "$1" \
        --exit-signal-handler --exit-signal SIGUSR1
}

# interrupt COUNT: start a run, and once it prints iterations send the signal to its last rank.
interrupt() {
    : > "$work/run.log"
    train "$work/run" > "$work/run.log" 2>&1 &
    launcher=$!
    while [ "$(grep -c '^ iteration' "$work/run.log")" -lt 3 ]; do
        kill -0 $launcher 2> /dev/null || break
        sleep 0.02
    done
    victim=$(rank_pids $launcher | tail -n 1)
    [ -n "$victim" ] || return 1
    for _ in $(seq "$1"); do kill -USR1 "$victim"; sleep 0.01; done
    wait $launcher
}
check "a signal ends the run well" interrupt 1
last=$(sed -n 's/^ iteration *\([0-9]*\)\/.*/\1/p' "$work/run.log" | tail -n 1)
leaves() {
    cat "$work/run.log"
    tail -n 1 "$work/run.log" | grep -q '^\[exiting program after receiving SIGUSR1.\] datetime: ' &&
        [ "$last" -lt 400 ] && [ "$(cat "$work/run/latest_checkpointed_iteration.txt")" -eq "$last" ]
}
check "it says so, and has saved" leaves
resumes() { train "$work/run" > "$work/rest.log" 2>&1 && grep -q "^ iteration  *$((last + 1))/" "$work/rest.log"; }
check "it resumes" resumes
same() {
    train "$work/whole" > "$work/whole.log" 2>&1 || return 1
    sums "$work/whole" > "$work/whole.sums"
    sums "$work/run" | cmp - "$work/whole.sums" && [ -s "$work/whole.sums" ]
}
check "to the weights of the run that heard nothing" same

# It comes before the options are known: the file of options is a pipe into which nothing has been
# written yet.
before_options() {
    mkfifo "$work/options"
    small 1 --train-iters 400 --save "$work/early" "@$work/options" > "$work/early.log" 2>&1 &
    launcher=$!
    exec 3> "$work/options"
    kill -USR1 "$(rank_pids $launcher)"
    echo "--exit-signal-handler --exit-signal SIGUSR1" >&3
    exec 3>&-
    wait $launcher || { cat "$work/early.log"; return 1; }
    cat "$work/early.log"
    grep -q '^trireme: SIGUSR1: the run saves and leaves after the iteration under way; the next SIGUSR1 ends it at once$' \
        "$work/early.log" && grep -q '^\[exiting program after receiving SIGUSR1.\] datetime: ' "$work/early.log" &&
        [ "$(cat "$work/early/latest_checkpointed_iteration.txt")" -lt 400 ]
}
check "a signal before the options are known" before_options

# What stands in the log for iteration 3 of 4, which is passed over.
passes() {
    small 1 --train-iters 4 --iterations-to-skip 2 7 > "$work/pass.log" 2>&1 || return 1
    small 1 --train-iters 4 > "$work/all.log" 2>&1 || return 1
    cat "$work/pass.log"
    losses "$work/pass.log" 2 > "$work/pass.losses"
    losses "$work/all.log" 2 | cmp - "$work/pass.losses" || return 1
    line=$(grep '^ iteration        3/' "$work/pass.log")
    case $line in
    *"consumed samples:           24 | skipped samples:            8 |"*"number of skipped iterations:   1 |"*) ;;
    *) return 1 ;;
    esac
    case $line in *"lm loss"*) return 1 ;; esac
    # The rate of the last line is that of three steps.
    rate=$(sed -n 's/^ iteration        3\/.*learning rate: \([^ ]*\) .*/\1/p' "$work/all.log")
    sed -n 's/^ iteration        4\/.*learning rate: \([^ ]*\) .*/\1/p' "$work/pass.log" | grep -q "^$rate$"
}
check "--iterations-to-skip" passes
fails "--iterations-to-skip wants numbers" 64 "'x' will not do" small 1 --train-iters 4 --iterations-to-skip x

evaluates() {
    small 1 --train-iters 400 --load "$work/run" --skip-train > "$work/skip.log" 2>&1 || return 1
    cat "$work/skip.log"
    grep -q '^skipping training (--skip-train is on) \.\.\.$' "$work/skip.log" || return 1
    grep -q '^ validation loss at iteration 400 on validation set | lm loss value: ' "$work/skip.log" || return 1
    grep -q '^ validation loss at iteration 400 on test set | lm loss value: ' "$work/skip.log" || return 1
    ! grep -q '^ iteration ' "$work/skip.log"
}
check "--skip-train" evaluates
