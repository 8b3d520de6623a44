#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# `trireme report --show goodput`: where the time of a chain of jobs went, of a log with known
# numbers and of real runs.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 13

same() { [ "$1" = "$2" ] || { echo "'$1' / '$2'"; return 1; }; }
# csv COLUMN: of the first row of $work/table, in seconds where it is hours.
csv() {
    awk -F , -v name="$1" '{ sub(/\r$/, "") }
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) column = i; hours = name ~ /_hours$/ }
        NR == 2 { printf "%.6g\n", hours ? 3600 * $column : $column }' "$work/table"
}
table() { "$trireme" report "$@" --show goodput --format csv > "$work/table" 2> "$work/errors"; }

# ---- a chain of three jobs with known numbers ----

# line ITERATION MS, and date TEXT CLOCK.
line() { echo " iteration $1/ 40 | consumed samples: $(($1 * 8)) | elapsed time per iteration (ms): $2 | learning rate: 1.000E-03 | global batch size: 8 | lm loss: 5.0E+00 | loss scale: 1.0 | grad norm: 1.0 | number of skipped iterations: 0 | number of nan iterations: 0 |"; }
date_line() { echo "[$1] datetime: 2026-03-0$2 "; }
begin() { echo "[start $1 of this run] datetime: 2026-03-0$2 | nodes: 1 (n1)${3:-}"; }
saves() {
    echo "saving checkpoint at iteration $1 to runs/a"
    echo "time (ms) | save-checkpoint: $2"
    echo "  successfully saved checkpoint at iteration $1 to runs/a"
}
{
    # 10 s before the first date and 20 after; two lines of 5 iterations of 4 s; a save of 6 s; 4 s
    # of evaluation: 80 s by its dates and 10 before.
    begin 1 "1 10:00:00" " | from: the beginning"
    echo "> start-up (seconds): 30.000 | program: 1.000 | MPI: 5.000 | launch: 4.000 | model: 15.000 | checkpoint: 0.000 | data: 5.000"
    date_line "before the start of training step" "1 10:00:20"
    line 5 4000.0
    line 10 4000.0
    saves 10 6000.00
    echo "[exiting program at iteration 10] datetime: 2026-03-01 10:01:10 "
    # An hour and 50 s later; killed after iteration 20, which was not saved, and no date says when:
    # 30 + 2 x 20 + 6 s.
    begin 2 "1 11:02:10"
    echo "> start-up (seconds): 30.000 | program: 1.000 | MPI: 5.000 | launch: 4.000 | model: 10.000 | checkpoint: 5.000 | data: 5.000"
    echo "  successfully loaded checkpoint from runs/a at iteration 10"
    line 15 4000.0
    saves 15 6000.00
    line 20 4000.0
    # Iterations 16 to 20 are done again.
    begin 3 "1 12:00:10"
    echo "> start-up (seconds): 30.000 | program: 1.000 | MPI: 5.000 | launch: 4.000 | model: 10.000 | checkpoint: 5.000 | data: 5.000"
    echo "  successfully loaded checkpoint from runs/a at iteration 15"
    line 20 4200.0
    line 25 4000.0
    saves 25 6000.00
    date_line "after training is done" "1 12:01:31"
} > "$work/chain"
check "a chain is read" table "$work/chain"
check "three starts" same "$(csv starts)" 3
# 70 + 10; 76; 81 + 10.
check "allocated, from the first moment of each to its last" same "$(csv allocated_hours)" 247
check "useful: 25 iterations, five of them a little slower" same "$(csv useful_hours)" 101
check "goodput" same "$(csv goodput)" "$(awk 'BEGIN { printf "%.6g", 100 * 101 / 247 }')"
check "starting" same "$(csv start_hours)" 90
check "saving" same "$(csv saving_hours)" 18
check "done again" same "$(csv again_hours)" 20
check "all else" same "$(csv rest_hours)" 18
# 11:02:00 less 10:01:10; 12:00:00 less the last date of the second start.
check "between them" same "$(csv between_hours)" $((3650 + 3470))
says_ends() { "$trireme" report "$work/chain" --show goodput | grep -q '1 start ended without a date'; }
check "a start without an end is told" says_ends

# ---- a real chain ----

check "a dataset is built" small_corpus
real() {
    part() { small 1 --train-iters 12 --save "$work/save" --load "$work/save" --save-interval 6 "$@"; }
    part > "$work/first" 2>&1 || { tail -n 3 "$work/first"; return 1; }
    sed '/^ iteration *9\//,$d' "$work/first" > "$work/real"
    rm -rf "$work/save"
    part --exit-interval 6 > "$work/log" 2>&1 || { tail -n 3 "$work/log"; return 1; }
    part > "$work/second" 2>&1 || { tail -n 3 "$work/second"; return 1; }
    cat "$work/second" >> "$work/real"
    table "$work/real"
    cat "$work/table"
    # Its own parts, from the lines: useful are 1 to 6 of the first start and all of the second.
    useful=$(awk '/^ iteration/ { for (i = 1; i < NF; i++) if ($i == "(ms):") ms = $(i + 1); sub("/.*", "", $2)
        if (FILENAME ~ /first/ ? $2 + 0 <= 6 : 1) n += ms } END { printf "%.6f", n / 1000 }' "$work/first" "$work/second")
    echo "useful $useful, $(csv useful_hours) s"
    awk -v a="$useful" -v b="$(csv useful_hours)" -v again="$(csv again_hours)" -v start="$(csv start_hours)" \
        'BEGIN { exit !(a > 0 && (a / b - 1) ^ 2 < 1e-6 && again > 0 && start > 0) }'
}
check "two runs, of which the first was killed" real
