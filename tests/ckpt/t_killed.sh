#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# One rank of a job is killed at some moment of a save, again and again: what is loaded afterwards
# is whole, and not older than what was there before.
# shellcheck source=tests/tap.sh
. "${srcdir:?}/tests/tap.sh"
plan 7

victim=tests/ckpt/t_victim
dir=$work/save

latest() { cat "$dir/latest_checkpointed_iteration.txt" 2>/dev/null || echo 0; }

# round RANK USECONDS: a job whose rank RANK dies, and another job that loads in another layout.
round() {
    before=$(latest)
    ranks 4 $victim save "$dir" "$1" "$2" >/dev/null 2>&1 &&
        echo "the job ended before rank $1 was killed" && return 1
    out=$(ranks 2 $victim load "$dir" 2>&1) || { echo "$out"; return 1; }
    [ "$out" = "loaded $(latest)" ] || { echo "$out, not $(latest)"; return 1; }
    [ "$(latest)" -ge "$before" ]
}

for turn in 0:150000 1:151000 2:153000 3:157000; do
    check "rank ${turn%:*} killed after ${turn#*:} us" round "${turn%:*}" "${turn#*:}"
done
check "some were saved" test "$(latest)" -gt 3
check "no more are kept than asked for, and one that was not finished" \
    test "$(find "$dir" -name 'iter_*' -maxdepth 1 | wc -l)" -le 3
check "the latest is whole" "$trireme" ckpt verify "$dir"
