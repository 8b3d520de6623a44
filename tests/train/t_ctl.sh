#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# `trireme ctl`: a run is asked where it stands, to save, to tell what it does, to stop, from
# outside.  One run at a time writes into a folder, and a killed one leaves nothing in the way of
# the next.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 32

unset SLURM_JOB_ID SLURM_JOB_END_TIME
run=$work/run
check "a dataset is built" small_corpus

# train LOG OPTION...: two ranks into $run.
train() {
    log=$work/$1.log
    shift
    small 2 --lr-decay-style constant --lr-warmup-fraction 0 --eval-iters 0 --log-interval 10 \
        --train-iters 100000 --save "$run" --load "$run" "$@" > "$log" 2>&1
}
member() { sed -n "s/^  \"$1\": \"*\([^\",]*\)\"*,*\$/\1/p" "$run/state"; }
is() { [ "$(member "$1")" = "$2" ] || { echo "$1 is $(member "$1"), not $2"; return 1; }; }
ctl() { "$trireme" ctl "$run" "$@"; }

# begin LOG: a run in the background that has printed an iteration.
begin() {
    : > "$work/$1.log"
    train "$1" &
    launcher=$!
    iterates "$work/$1.log"
}

fails "no folder" 69 "there is no folder $run" ctl status
mkdir "$run"
fails "no run" 69 "there is no $run/state" ctl status
fails "no run to stop" 69 "there is no $run/state" ctl stop
fails "a word that is none" 64 "did you mean status?" ctl statsu
fails "a word too few" 64 "takes the folder of a run" ctl
fails "a wait that is none" 64 "'x' will not do" ctl save --wait x

if begin first; then ok "a run"; else not_ok "a run" "$(tail -n 20 "$work/first.log")"; fi
status_running() {
    ctl status > "$work/status" || return 1
    cat "$work/status"
    grep -q '^state:  *running$' "$work/status" && grep -q '^next:  *go-on$' "$work/status" &&
        grep -q "^process:  *alive: no Slurm job, host $(uname -n), process $(member pid), since" "$work/status"
}
check "its state" status_running

dumps() {
    ctl dump || return 1
    cat "$run"/dump-*.txt
    [ "$(grep -c '^rank [01] | host: .* | pid: [0-9]* | ' "$run"/dump-*.txt)" -eq 2 ] &&
        grep -q '^  memory (MB) | planned: [0-9.]* | max resident: [1-9][0-9.]*$' "$run"/dump-*.txt &&
        grep -q "pid: $(member pid) " "$run"/dump-*.txt && [ ! -e "$run/ctl/dump" ]
}
check "dump" dumps
saves() {
    [ ! -e "$run/latest_checkpointed_iteration.txt" ] && ctl save > "$work/save" || return 1
    cat "$work/save"
    at=$(cat "$run/latest_checkpointed_iteration.txt")
    grep -q "has saved iteration $at and goes on" "$work/save" && is state running && is checkpoint "$at" &&
        [ ! -e "$run/ctl/save" ] &&
        grep -q "^> $(id -un) on .* asked for save; heard after iteration $at$" "$work/first.log"
}
check "save" saves
no_waiting() { ctl dump --wait 0 && kill -0 $launcher; }
check "without waiting" no_waiting

held_by=$(member pid)
second() {
    train second
    code=$?
    cat "$work/second.log"
    [ $code -eq 69 ] && grep -q "another run writes into $run (no Slurm job, host $(uname -n), process $held_by, since 20" "$work/second.log"
}
check "a second run is refused" second
unharmed() { is state running && is pid "$held_by" && kill -0 $launcher; }
check "which does the first no harm" unharmed

# The launcher is a child of this shell and not of those that check() starts.
if ctl stop > "$work/stop" 2>&1; then ok "stop"; else not_ok "stop" "$(cat "$work/stop")"; fi
wait $launcher
code=$?
at=$(cat "$run/latest_checkpointed_iteration.txt")
stops() {
    cat "$work/stop"
    echo "code $code"
    [ $code -eq 0 ] && is state stopped && is reason ctl && is next look && is exit_code 0 &&
        is iteration "$at" && is checkpoint "$at" &&
        grep -q "is stopped at iteration $at and stays stopped" "$work/stop" &&
        tail -n 1 "$work/first.log" | grep -q '^\[exiting program as trireme ctl asked\] datetime: '
}
check "the run has saved and left well" stops
stays() {
    train held --data-path "$work/nowhere" || return 1
    cat "$work/held.log"
    [ "$(wc -l < "$work/held.log")" -eq 1 ] && grep -q "^this run was asked to stop by .*trireme ctl $run go" "$work/held.log" &&
        is state stopped && is next look && is start 2 && is checkpoint "$at"
}
check "it stays stopped" stays
told() { ctl status > "$work/status" && grep -q '^asked for:  *stop, by ' "$work/status" && grep -q '^process:  *none$' "$work/status"; }
check "and status says so" told
fails "what is not running cannot save" 69 "is not running (stopped), so it cannot save" ctl save
goes() { ctl go && [ ! -e "$run/ctl/stop" ] && ctl go | grep -q 'was not asked to stop$'; }
check "go" goes

if begin third; then ok "it runs again"; else not_ok "it runs again" "$(tail -n 20 "$work/third.log")"; fi
header() {
    grep -q "^\[start 3 of this run\] datetime: .* | from: iteration $at in $run\$" "$work/third.log" &&
        grep -q "^> start 2 on [^ ]*, stopped at iteration $at: ctl\$" "$work/third.log"
}
check "its header says which start it is, from where, and how the last one ended" header

# All ranks at once, so that none has the time to say anything.
last_pid=$(member pid)
# shellcheck disable=SC2046
kill -KILL $(rank_pids $launcher)
wait $launcher
code=$?
killed() {
    [ $code -ne 0 ] && is state running && is pid "$last_pid" && ctl status > "$work/status" || return 1
    cat "$work/status"
    grep -q '^state:  *killed$' "$work/status" && grep -q '^process:  *none: it ended without recording why$' "$work/status"
}
check "killed, its state stands and its lock does not" killed
fails "a dead run cannot save" 69 "is not running (killed), so it cannot save" ctl save
# Of another host: its locks may not reach this one.
away() { sed -i.was 's/^  "host": ".*"/  "host": "elsewhere"/' "$run/state"; }
check "as if on another host" away
fails "a run that may be dead does not answer" 69 "probably dead" ctl save --wait 1
harmless() {
    sed 's/^  "reason": ""/  "reason": "a\\u001b[2Jb\\u009bc"/; s/^  "next": ".*"/  "next": "\\u0007"/' "$run/state.was" > "$run/state"
    ctl status > "$work/status" || return 1
    cat -v "$work/status"
    mv "$run/state.was" "$run/state"
    grep -q '^state:  *killed: a?\[2Jb??*c$' "$work/status" && ! LC_ALL=C grep -q "$(printf '[\001-\010\013-\037]')" "$work/status"
}
check "what a state holds does nothing to a terminal" harmless
nothing_left() { [ -z "$(ls "$run/ctl")" ]; }
check "and the request is taken back" nothing_left

# What fails after the folder was taken stands in the state.
breaks() {
    train broken --data-path "$work/nowhere" --data-impl mmap
    code=$?
    cat "$work/broken.log"
    [ $code -ne 0 ] && is state failed && is exit_code $code && is next look && is start 4 &&
        grep -q "^  \"reason\": \".*$work/nowhere" "$run/state" &&
        grep -q '^> start 3 on [^ ]*, was killed, or lost its nodes, after iteration [0-9]* or later$' "$work/broken.log"
}
check "a failure stands in the state" breaks
held_before() {
    ctl stop && train held && ctl go && is state stopped && is exit_code 0
}
check "a stop between two jobs holds the next one" held_before

# The lock is taken away: another run may have the folder now.
if begin last; then ok "it runs once more"; else not_ok "it runs once more" "$(tail -n 20 "$work/last.log")"; fi
rm "$run/lock"
before=$(cat "$run/latest_checkpointed_iteration.txt")
was_there=$(ls -d "$run"/iter_*)
ctl save > "$work/save" 2>&1
save_code=$?
wait $launcher
code=$?
unlocked() {
    cat "$work/save" "$work/last.log"
    echo "codes $save_code $code"
    [ $code -eq 69 ] && [ $save_code -eq 69 ] && is state running && [ ! -e "$run/lock" ] &&
        grep -q "error: $run/lock was removed while this run held it, so nothing keeps another run out of $run" "$work/last.log" &&
        [ "$(cat "$run/latest_checkpointed_iteration.txt")" = "$before" ] && [ "$(ls -d "$run"/iter_*)" = "$was_there" ]
}
check "without its lock it saves nothing more, and all ranks leave" unlocked
