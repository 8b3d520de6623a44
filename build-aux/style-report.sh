#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# style-report.sh SOURCE: the ten largest functions and files, and lines beyond 100 columns.  A
# prompt to look, not a gate: under 60 lines and complexity 15 a function, under 600 lines a file.
set -eu
cd "$1"
if command -v pmccabe >/dev/null 2>&1; then
    echo "The ten longest functions: lines, complexity, where"
    find src tests -name '*.c' -exec pmccabe {} + | sort -k5,5nr | head -n 10 |
        awk '{ printf "  %4d %4d  %s %s\n", $5, $1, $6, $7 }'
    echo "The ten most complex functions: lines, complexity, where"
    find src tests -name '*.c' -exec pmccabe {} + | sort -k1,1nr | head -n 10 |
        awk '{ printf "  %4d %4d  %s %s\n", $5, $1, $6, $7 }'
else
    echo "pmccabe is not installed: no report on functions"
fi
echo "The ten longest files"
find src tests -name '*.[ch]' -exec wc -l {} + | grep -v ' total$' | sort -nr | head -n 10
echo "Lines beyond 100 columns"
find src tests -name '*.[ch]' -exec awk 'length > 100 { print "  " FILENAME ":" FNR }' {} +
