#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# totals.sh BUILD: what `make check` in BUILD came to, from the .trs files of the test drivers and
# from test-times: seconds of each folder and of the slowest tests, what part of the cores was in
# use, and in the last line how many passed, failed and were skipped.  Exits with 1 if a test failed
# or none ran.
set -eu
times=$1/test-times
if [ -s "$times" ]; then
    echo "seconds of tests, one after the other (and of processors):"
    awk '
        { sub("/[^/]*$", "", $1); n[$1]++; wall[$1] += $2; cpu[$1] += $3; all += $2; work += $3; count++ }
        END {
            for (part in n)
                printf "%8.1f %8.1f  %s: %d\n", wall[part], cpu[part], part, n[part] | "sort -rn"
            close("sort -rn")
            printf "%8.1f %8.1f  all: %d\n", all, work, count
        }' "$times"
    echo "the slowest:"
    sort -k2,2 -rn "$times" | awk 'NR <= 15 { printf "%8.1f %8.1f  %s\n", $2, $3, $1 }'
fi
# Of each run of schedule.py: seconds, cores.
if [ -s "$times" ] && [ -s "$1/suite-seconds" ]; then
    awk 'NR == FNR { work += $3; next } { wall += $1; cores = $2 }
        END { printf "%.0f s on the clock, %.0f of processors: %.0f %% of %d cores\n", wall, work, 100 * work / wall / cores, cores }' \
        "$times" "$1/suite-seconds"
fi
find "$1" -name '*.trs' -exec cat {} + | awk '
    /^:test-result: (PASS|XFAIL)/ { passed++ }
    /^:test-result: (FAIL|XPASS|ERROR)/ { failed++ }
    /^:test-result: SKIP/ { skipped++ }
    END {
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
        exit failed > 0 || passed == 0
    }'
