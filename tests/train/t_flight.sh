#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# What ranks leave when a run hangs or loses one, and that `trireme report --flight` names the right
# rank.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 13
host=$(uname -n)

check "a dataset is built" small_corpus

# lose RANK SIGNAL OPTION...: one of four ranks while they train.
lose() {
    rank=$1 signal=$2
    shift 2
    lose_rank "$rank" '^ iteration *3/' "$signal" "$@"
}

# named RANK WHY: that rank and no other, in text and JSON.
named() {
    "$trireme" report --flight "$work/run" > "$work/text" 2>&1 &&
        "$trireme" report --flight "$work/run" --format json -o "$work/json" &&
        [ "$(grep -c "^  rank $1 on $host $2" "$work/text")" = 1 ] &&
        [ "$(grep -c "^  rank [0-9]* on $host" "$work/text")" = 1 ] &&
        tr -d ' \n' < "$work/json" | grep -q "\"rows\":\[{\"rank\":$1,\"host\":\"$host\",[^]]*}\],\"notes\"" && return 0
    cat "$work/text"
    tail -n 20 "$work/log"
    return 1
}
records() { [ "$(cd "$work"/run/flight-* && echo rank-*)" = "$1" ] || { echo "$work"/run/flight-*/rank-*; return 1; }; }

lose 2 STOP --tensor-model-parallel-size 2
check "a rank that is stopped is named" named 2 'did not answer when all ranks were asked\|left no record'
lose 1 KILL --pipeline-model-parallel-size 4
check "a rank that is killed is named" named 1 'left no record: it was killed'
check "all others left a record" records "rank-00000.json rank-00002.json rank-00003.json"
# Which calls these are depends on where it was.
where() {
    for other in 0 2 3; do
        sed '1,/Calls that had not ended/d' "$work/text" | grep -q "^ *$other  *$host  *[a-z]*  *[0-9]*  *[a-z-]*  *[0-9]" || return 1
    done
}
check "and say what they were in" where

folder=$(echo "$work"/run/flight-*)
direct() { "$trireme" report --flight "$folder" | cmp - "$work/text"; }
check "the folder of the records themselves will do" direct
mkdir "$work/run/flight-19990101T000000"
older() { "$trireme" report --flight "$work/run" | grep -q '3 of 4 ranks left a record in .*, and earlier starts others'; }
check "the newest of several starts counts" older

# What is no record is refused by name, and the others are read.
cp "$folder/rank-00003.json" "$work/kept"
head -c 700 "$work/kept" > "$folder/rank-00003.json"
fails "a record that was cut is refused" 65 "$folder/rank-00003.json is no flight record, or a part of one" \
    "$trireme" report --flight "$work/run"
still() { "$trireme" report --flight "$work/run" 2> /dev/null | grep -q '^  rank 1 on .* left no record'; }
check "and the others are read" still
cp "$folder/rank-00002.json" "$folder/rank-00003.json"
fails "and one of another rank" 65 "is the flight record of rank 2, not of the one in its name" \
    "$trireme" report --flight "$work/run"

fails "a folder without records is refused" 65 "$work has no flight records, which ranks write when a run hangs or crashes" \
    "$trireme" report --flight "$work"
fails "and one that is missing" 74 "cannot read the folder $work/none" "$trireme" report --flight "$work/none"
fails "and tables of logs" 64 "flight compares the flight records in one folder" \
    "$trireme" report --flight "$work/run" --show runs
