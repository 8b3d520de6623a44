# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: BSD-3-Clause
# How tests/gpu/run starts what it runs: each command with a limit and a log of its own, which is on
# the disk from the first line on, and what comes out of it as lines of TAP.  Wants $results, $part,
# $deadline, when the part is to be over, and $most, the seconds that any command may take.

now() { date +%s; }

# What goes into the log of the part, and failures to the terminal too.
emit() {
    printf '%s\n' "$*" >>"$results/$part.log"
    case $* in 'not ok'*) printf 'gpu:   %s\n' "$*" ;; esac
}
remark() { sed 's/^/# /' >>"$results/$part.log"; }

# The processes of a session, which a command and what it starts are.
in_session() {
    cat /proc/[0-9]*/stat 2>/dev/null |
        awk -v s="$1" '{ pid = $1; sub(/^.*\) /, ""); if ($4 == s && $1 != "Z") print pid }'
}

word_of() { cat "/proc/$1/$2" 2>/dev/null || echo '?'; }

# One that wrote no backtrace of its own when asked is asked from outside, by what the kernel says.
tell_process() {
    echo "process $1: $(word_of "$1" comm), $(sed -n 's/^State:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)," \
        "in the kernel at $(word_of "$1" wchan)"
    cat "/proc/$1/stack" 2>/dev/null || :
}

# Those that can write where they are (backtrace.c): not shells and launchers.
ask_process() {
    case $(word_of "$1" comm) in
    srun | sh | dash | bash | timeout | sleep | mpi* | orte* | prte* | hydra*) ;;
    *) if grep -q gpu/backtrace.so "/proc/$1/maps" 2>/dev/null; then kill -QUIT "$1" 2>/dev/null || :; fi ;;
    esac
}

# Ranks that srun has started are no processes of this session, and may be on other nodes.
ask_steps() {
    [ -n "${SLURM_JOB_ID:-}" ] && command -v scancel >/dev/null 2>&1 || return 0
    for step in $(timeout 5 squeue -h -s -j "$SLURM_JOB_ID" -o %i 2>/dev/null | grep '\.[0-9]*$'); do
        timeout 5 scancel --signal=QUIT "$step" 2>/dev/null || :
    done
}

# wait_gone SESSION SECONDS: whether it has ended by then.
wait_gone() {
    gone_until=$(($(now) + $2))
    while [ -n "$(in_session "$1")" ] && [ "$(now)" -lt "$gone_until" ]; do sleep 0.2; done
    [ -z "$(in_session "$1")" ]
}

# A session that has run into its limit: where is it, and then its end.
end_session() {
    for process in $(in_session "$1"); do tell_process "$process"; done >>"$results/hung.txt"
    for process in $(in_session "$1"); do ask_process "$process"; done
    ask_steps
    wait_gone "$1" 14 && return # gdb takes ten at most
    for signal in TERM KILL; do
        # shellcheck disable=SC2046 # a list of numbers
        kill -$signal $(in_session "$1") 2>/dev/null || :
        wait_gone "$1" 3 && return
    done
    echo "some do not die of KILL: $(in_session "$1" | tr '\n' ' '); the driver may hang" >>"$results/hung.txt"
}

# limited SECONDS LOG COMMAND...: its exit code; 124 when it was ended at the limit, 125 when the
# part has no time left for it.
limited() {
    limit=$1 limited_log=$2
    shift 2
    left=$((deadline - $(now)))
    [ "$limit" -le "$most" ] || limit=$most
    [ "$limit" -le "$left" ] || limit=$left
    if [ "$limit" -le 0 ]; then
        echo "not started: $*" >>"$limited_log"
        return 125
    fi
    echo "\$ $*" >>"$limited_log"
    rm -f "$results/tmp/code" "$results/tmp/session"
    {
        limited_code=0
        # shellcheck disable=SC2016 # for the other shell
        setsid sh -c 'echo $$ >"$0"; exec "$@"' "$results/tmp/session" "$@" >>"$limited_log" 2>&1 </dev/null ||
            limited_code=$?
        echo "$limited_code" >"$results/tmp/code.new"
        mv "$results/tmp/code.new" "$results/tmp/code"
    } &
    limited_until=$(($(now) + limit))
    ticks=0
    while [ ! -f "$results/tmp/code" ]; do
        sleep 0.1
        ticks=$(((ticks + 1) % 10))
        [ $ticks -ne 0 ] || [ "$(now)" -lt "$limited_until" ] || break
    done
    if [ -f "$results/tmp/code" ]; then
        return "$(cat "$results/tmp/code")"
    fi
    echo "== after $limit s it had not ended: $*" | tee -a "$results/hung.txt" >>"$limited_log"
    end_session "$(cat "$results/tmp/session")"
    return 124
}

how_it_ended() {
    case $1 in
    124) echo "it was ended after $limit s" ;;
    125) echo "there was no time left" ;;
    129 | 13? | 14?) echo "ended by signal $(($1 - 128))" ;;
    *) echo "exit code $1" ;;
    esac
}

# keep NAME: lines of JSON go to the results, with the name of the check, however the command ended.
keep() { sed -n "s/^{\(.*}\)\$/{\"check\": \"$1\", \1/p" "$log" >>"$results/results.jsonl"; }

new_log() {
    log=$results/logs/$part.$(echo "$1" | tr -c 'A-Za-z0-9.\n' '-').log
    : >"$log"
}

# checked NAME SECONDS COMMAND...: one check, which passes when the command succeeds.
checked() {
    name=$1 seconds=$2
    shift 2
    new_log "$name"
    began=$(now) code=0
    limited "$seconds" "$log" "$@" || code=$?
    keep "$name"
    if [ $code -eq 0 ]; then
        emit "ok - $name ($(($(now) - began)) s)"
        return 0
    fi
    emit "not ok - $name: $(how_it_ended $code), see logs/${log##*/}"
    last_words ok | remark
    return 1
}

# last_words CHECKS: the last that a command which failed said besides JSON, those CHECKS, an
# expression, and the boxes in which launchers say that it failed.
last_words() {
    awk -v checks="^($1)" '/^-----------------------/ { box = !box; next }
        !box && NF && $0 !~ checks && !/^(1\.\.|\$ |\{|\[[^ ]*:[0-9]+\])/' "$log" | tail -n 8
}

# Those of a test program, which stand below its checks.
other_words() {
    { echo "logs/${log##*/} also has:"; last_words 'ok|not ok|#'; } | sed 's/^/#! /' >>"$results/$part.log"
}

# tapped NAME SECONDS COMMAND...: what the command checks, line by line; what it said of failures
# too.
tapped() {
    name=$1 seconds=$2
    shift 2
    new_log "$name"
    code=0
    limited "$seconds" "$log" "$@" || code=$?
    keep "$name"
    sed -n -e "s/^ok [0-9]* *-* */ok - $name: /p" -e "s/^not ok [0-9]* *-* */not ok - $name: /p" \
        -e "s/^Bail out! */not ok - $name: bails out: /p" -e '/^#/p' "$log" >"$results/tmp/tap"
    cat "$results/tmp/tap" >>"$results/$part.log"
    sed -n 's/^not ok/gpu:   not ok/p' "$results/tmp/tap" | head -n 5
    sed -n "s/^1\.\.0 # SKIP/ok - $name # SKIP/p" "$log" >>"$results/$part.log"
    came=$(grep -c '^ok\|^not ok' "$results/tmp/tap" || :)
    planned=$(sed -n 's/^1\.\.\([0-9]*\).*/\1/p' "$log" | head -n 1)
    if [ $code -ne 0 ] && { [ $code -eq 124 ] || [ $code -eq 125 ] || ! grep -q '^not ok' "$results/tmp/tap"; }; then
        emit "not ok - $name: $(how_it_ended $code) after $came of ${planned:-?} checks, see logs/${log##*/}"
    elif [ "$came" -lt "${planned:-1}" ] && ! grep -q '^not ok' "$results/tmp/tap"; then
        emit "not ok - $name: $came of ${planned:-?} checks were made, see logs/${log##*/}"
    fi
    [ $code -eq 0 ] || other_words
    [ $code -eq 0 ] && ! grep -q '^not ok' "$results/tmp/tap"
}
