# shellcheck shell=sh disable=SC2154,SC2034
# SPDX-License-Identifier: BSD-3-Clause
# Runs that are killed again and again.  Source after small.sh.  The random numbers are awk's with a
# printed seed, so that a failure can be had again.

seed=${TR_TEST_SEED:-$$}
echo "# seed $seed"
random() { awk -v seed="$seed" -v n="$1" 'BEGIN { srand(seed + 7919 * n); print rand() }'; }

# below N U: a whole number in [0, N) of a U in [0, 1).
below() { awk -v n="$1" -v u="$2" 'BEGIN { print int(n * u) }'; }

# count PATTERN LOG: lines of a log so far.
count() { grep -c "$1" "$2"; }

# until_lines LOG LAUNCHER N PATTERN: until the log has N such lines, at once when the last one
# comes.
until_lines() {
    mkfifo "$work/lines.$tries"
    tail -n +1 -f --pid="$2" "$1" > "$work/lines.$tries" &
    until_tail=$!
    grep -m "$3" "$4" < "$work/lines.$tries" > "$work/lines"
    kill $until_tail
    rm "$work/lines.$tries"
    [ "$(wc -l < "$work/lines")" -eq "$3" ]
}

# kill_one LOG LAUNCHER TRY: SIGKILL to one rank; its launcher then ends the others.  Half of the
# deaths come up to KILL_WITHIN seconds (0.015) after the beginning of a save, half after some
# iterations; TRY says when and whom.
kill_one() {
    kill_when=$(random "$3") kill_whom=$(random $(($3 + 100000)))
    if [ $(($3 % 2)) -eq 0 ]; then
        pattern='^saving checkpoint' lines=1 delay=$(awk -v u="$kill_when" 'BEGIN { print u * '"${KILL_WITHIN:-0.015}"' }')
    else
        pattern='^ iteration' lines=$((2 + $(below 8 "$kill_when"))) delay=0.00$(($3 % 8))
    fi
    lines=$((lines + $(count "$pattern" "$1")))
    until_lines "$1" "$2" $lines "$pattern" || return
    sleep "$delay"
    victim=$(rank_pids "$2" |
        awk -v u="$kill_whom" '{ p[NR] = $1 } END { if (NR) print p[int(u * NR) + 1] }')
    [ -n "$victim" ] && kill -KILL "$victim"
}

# kill_often KILLS NAME COMMAND...: until so many deaths, then let it live.  Its log is
# $work/NAME.log; sets kills, and finished to yes or no.
tries=0
kill_often() {
    often_kills=$1 often_log=$work/$2.log often_tries=0
    shift 2
    kills=0 finished=no
    : > "$often_log"
    while [ $often_tries -lt $((6 * often_kills)) ] && [ $finished = no ]; do
        tries=$((tries + 1)) often_tries=$((often_tries + 1))
        "$@" >> "$often_log" 2>&1 &
        launcher=$!
        killer=
        if [ $kills -lt "$often_kills" ]; then
            kill_one "$often_log" $launcher $tries 2> /dev/null &
            killer=$!
        fi
        if wait $launcher; then finished=yes; else kills=$((kills + 1)); fi
        [ -n "$killer" ] && kill $killer 2> /dev/null && wait $killer 2> /dev/null
    done
}

# same_losses WHOLE OTHER N LEAST: the lines of OTHER's log, at least LEAST, are among the N of
# WHOLE's. When a rank dies mpiexec swallows lines that it had not yet forwarded, so not all need be
# there; those that are must be the same.
same_losses() {
    losses "$work/$1.log" "$3" > "$work/$1.losses"
    losses "$work/$2.log" "$3" > "$work/$2.losses"
    [ "$(wc -l < "$work/$1.losses")" -eq "$3" ] && [ "$(wc -l < "$work/$2.losses")" -ge "$4" ] &&
        ! grep -v -x -F -f "$work/$1.losses" "$work/$2.losses"
}

# rank_sums FOLDER: the sidecar files of its newest checkpoint.
rank_sums() {
    rank_sums_at=$(printf 'iter_%07d' "$(cat "$1/latest_checkpointed_iteration.txt")")
    (cd "$1/$rank_sums_at" && find . -name 'rank-*' -exec sha256sum {} + | sort)
}

# same_weights WHOLE OTHER: the newest checkpoints have the same tensors and files of ranks, and the
# other is whole.
same_weights() {
    for same in "$1" "$2"; do
        { sums "$work/$same" && rank_sums "$work/$same"; } > "$work/$same.sums"
    done
    [ -s "$work/$1.sums" ] && cmp "$work/$1.sums" "$work/$2.sums" && "$trireme" ckpt verify "$work/$2"
}
