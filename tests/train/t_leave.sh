#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# A run leaves by itself before its job ends, and on each signal it listens for; SAVE/state says how
# each start ended, and a run that is finished ends at once.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 23

unset SLURM_JOB_ID SLURM_JOB_END_TIME SLURM_RESTART_COUNT SLURM_ARRAY_JOB_ID SLURM_JOB_NODELIST
mkdir "$work/bin"
check "a dataset is built" small_corpus

# train NAME ITERATIONS OPTION...: two ranks into $work/NAME, its log in $work/NAME.log.
train() {
    train_name=$1 train_iters=$2
    shift 2
    small 2 --lr-decay-style constant --lr-warmup-fraction 0 --eval-iters 0 --log-interval 10 \
        --train-iters "$train_iters" --save "$work/$train_name" --load "$work/$train_name" "$@" \
        > "$work/$train_name.log" 2>&1
    train_code=$?
    cat "$work/$train_name.log"
    return $train_code
}

# member NAME KEY: what sed finds in the state of a run.
member() { sed -n "s/^  \"$2\": \"*\([^\",]*\)\"*,*\$/\1/p" "$work/$1/state"; }
is() { [ "$(member "$1" "$2")" = "$3" ] || { echo "$2 is $(member "$1" "$2"), not $3"; return 1; }; }
logged() { grep -q -e "$2" "$work/$1.log" || { echo "not in the log: $2"; return 1; }; }
not_logged() { if logged "$@" > /dev/null; then echo "in the log: $2"; return 1; fi; }

# left NAME: it was before the last iteration, and that one is saved.
left() {
    at=$(member "$1" iteration)
    [ "$at" -gt 0 ] && [ "$at" -lt 100000 ] && is "$1" checkpoint "$at" &&
        [ "$(cat "$work/$1/latest_checkpointed_iteration.txt")" = "$at" ]
}

# The end of the job is in the environment.
env_end() {
    SLURM_JOB_ID=4711 SLURM_RESTART_COUNT=2 SLURM_ARRAY_JOB_ID=4700 SLURM_ARRAY_TASK_ID=3 \
        SLURM_JOB_NODELIST='n[1-2]' SLURM_JOB_END_TIME=$(($(date +%s) + 12)) \
        train env 100000 --exit-margin-in-mins 0.05
}
check "a run leaves before its job ends" env_end
env_says() {
    logged env '^\[start 1 of this run\] datetime: .* | job: 4711 | array: 4700_3 | requeued: 2 | ranks: 2 | nodes: 1 (n\[1-2\]) | from: the beginning$' &&
        logged env '^> the job ends at .* minutes (SLURM_JOB_END_TIME)$' &&
        logged env '^> the job ends in .* that may pass until one more iteration is saved' &&
        tail -n 1 "$work/env.log" | grep -q '^\[exiting program [0-9.]* minutes before the job ends\] datetime: '
}
check "and says why" env_says
env_state() {
    left env && is env state stopped && is env reason job-end && is env next go-on &&
        is env exit_code 0 && is env job 4711 && is env array 4700_3 && is env restart 2 &&
        is env start 1 && is env train_iters 100000
}
check "the state says it, too" env_state

if command -v python3 > /dev/null 2>&1; then
    check "the state is JSON" python3 -c '
import json, sys
s = json.load(open(sys.argv[1]))
assert s["state"] == "stopped" and s["iteration"] == s["checkpoint"] > 0 and s["job_ends"], s
assert s["save_seconds"] > 0 and s["updated"].endswith("Z") and s["hosts"] == "n[1-2]", s' \
        "$work/env/state"
else
    skip "the state is JSON" "no python3"
fi

# squeue SCRIPT: a squeue of our own, which the ranks find first: mpiexec puts folders before those
# of PATH.
squeue() {
    printf '#!/bin/sh\necho "$*" >> "%s/asked"\n%s\n' "$work" "$1" > "$work/bin/squeue"
    # shellcheck disable=SC2016 # expanded when it runs
    printf '#!/bin/sh\nPATH=%s:$PATH exec "%s" "$@"\n' "$work/bin" "$program" > "$work/bin/start"
    chmod +x "$work/bin/squeue" "$work/bin/start"
    : > "$work/asked"
}
program=$trireme
with_squeue() {
    trireme=$work/bin/start
    SLURM_JOB_ID=4712 train "$@"
    squeue_code=$?
    trireme=$program
    return $squeue_code
}

squeue 'echo 0:12'
squeue_end() { with_squeue squeue 100000 --exit-margin-in-mins 0.05; }
check "squeue knows the end where the environment does not" squeue_end
squeue_once() {
    cat "$work/asked"
    left squeue && is squeue reason job-end && logged squeue 'minutes (squeue)$' &&
        [ "$(cat "$work/asked")" = "-h -j 4712 -o %L" ]
}
check "and is asked once" squeue_once

squeue 'sleep 600'
hangs() { with_squeue hang 20 && logged hang 'is not known: squeue did not answer$' && is hang state finished; }
check "a squeue that hangs does no harm" hangs
squeue 'echo UNLIMITED'
unlimited() { with_squeue endless 20 && logged endless 'is not known: squeue knows no time limit$' && is endless state finished; }
check "nor does a job without a limit" unlimited

# So little time that nothing fits.
too_late() { SLURM_JOB_ID=4713 SLURM_JOB_END_TIME=$(date +%s) train late 100000; }
check "a job that is too short does one iteration" too_late
late_says() { logged late 'warning: one iteration will be done and no more, because' && is late iteration 1 && left late; }
check "and gets a warning" late_says
ignores() {
    SLURM_JOB_ID=4713 SLURM_JOB_END_TIME=$(date +%s) train ignore 20 --no-exit-at-job-end &&
        is ignore state finished && is ignore job_ends null && is ignore next "done"
}
check "--no-exit-at-job-end" ignores
nowhere() {
    SLURM_JOB_ID=4713 SLURM_JOB_END_TIME=$(date +%s) small 1 --train-iters 4 > "$work/nowhere.log" 2>&1 &&
        grep -q '^ iteration        4/' "$work/nowhere.log" &&
        grep -q '^\[start of a run\] datetime: .* | job: 4713 |' "$work/nowhere.log"
}
check "without --save the end of the job is not watched" nowhere

# hears SIGNAL: to the last rank, once it prints iterations; both its names are listened for.
hears() {
    : > "$work/$1.log"
    train "$1" 100000 --exit-signal-handler --exit-signal SIGTERM INT HUP USR1 SIGUSR2 > /dev/null &
    launcher=$!
    iterates "$work/$1.log"
    victim=$(rank_pids $launcher | tail -n 1)
    [ -n "$victim" ] && kill -s "$1" "$victim"
    wait $launcher || { cat "$work/$1.log"; return 1; }
    left "$1" && is "$1" reason "signal SIG$1" && is "$1" next go-on &&
        logged "$1" "^> rank [01] on .* received SIG$1; heard after iteration $(member "$1" iteration)\$" &&
        tail -n 1 "$work/$1.log" | grep -q "^\[exiting program after receiving SIG$1.\] datetime: "
}
for signal in TERM INT HUP USR1 USR2; do
    check "SIG$signal among several" hears $signal
done
# Its launcher is killed, and its ranks survive: the ranks save and leave.
without_launcher() {
    : > "$work/gone.log"
    train gone 100000 > /dev/null &
    shell=$!
    iterates "$work/gone.log"
    orphans=$(rank_pids $shell)
    for pid in $orphans; do kill -KILL "$(sed 's/^.*) . //; s/ .*//' "/proc/$pid/stat")" 2> /dev/null; break; done
    wait $shell
    without_tries=0
    for pid in $orphans; do
        while [ -d "/proc/$pid" ] && [ $without_tries -lt 600 ]; do
            sleep 0.1
            without_tries=$((without_tries + 1))
        done
    done
    cat "$work/gone/state"
    [ -n "$orphans" ] && [ $without_tries -lt 600 ] && left gone && is gone state stopped && is gone reason launcher &&
        is gone next go-on && is gone exit_code 0
}
check "a run whose mpiexec is killed saves and leaves" without_launcher
from_there() {
    at=$(member gone checkpoint)
    train gone $((at + 2)) --override-opt-param-scheduler && is gone state finished &&
        logged gone "^\[start 2 of this run\] datetime: .* | from: iteration $at in $work/gone\$" &&
        logged gone "^> start 1 on [^ ]*, stopped at iteration $at: launcher\$"
}
check "and goes on from there" from_there
fails "a signal that is none" 64 "'SIGKILL' is none of" small 1 --train-iters 4 --exit-signal USR1 SIGKILL

finishes() { train full 20 && is full state finished && is full reason "done" && is full next "done"; }
check "a run that is finished" finishes
again() {
    # The datasets are not even looked at.
    train full 20 --data-path "$work/nowhere" || return 1
    [ "$(cat "$work/full.log")" = "the run in $work/full is finished: all of its 20 iterations are done" ] &&
        is full state finished && is full start 1 && is full iteration 20
}
check "ends at once when it is started again" again
