#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What a data-parallel group does is a struct (src/dp/mode.h): a step, the optimizer, checkpoints and plans call
# src/dp/dp.h, and nothing above dp/ in src/LAYERS asks which mode it is.
set -eu
cd "${srcdir:-.}"
echo 1..2

result() {
    if [ -z "$3" ]; then
        echo "ok $1 - $2"
    else
        echo "not ok $1 - $2"
        echo "$3" | sed 's/^/# /'
    fi
}

# The symbols of the table, as one expression.
symbols=$(sed -nE 's/^MODE(_BY)?\(([A-Z_]+),.*/\2/p' src/config/modes.def | paste -sd '|' -)
structs=$(sed -nE 's/^MODE(_BY)?\(.*\b(tr_dp_[a-z]+)\b.*/\2/p' src/config/modes.def | paste -sd '|' -)
above=$(sed -n '/^dp$/,$p' src/LAYERS | sed '1d; s|^|src/|')

# shellcheck disable=SC2086 # a list of folders
result 1 "nothing above dp/ asks which data-parallel mode it is" "$(
    grep -rnE --include='*.[ch]' \
        "\b($symbols|tr_dp_mode_diverges)\b|dp[.]mode\b|dp_mode *[=!]=|switch \(.*dp_mode|\"dp/(mode|cocktail[a-z_]*)[.]h\"" \
        $above || :
)"

# A mode is a file: its struct stands in one, and no other names it.
result 2 "each mode is one file of dp/" "$(
    grep -rnE --include='*.[ch]' "\b($structs)\b" src | cut -d: -f1 | sort | uniq -c |
        awk -v n="$(echo "$structs" | tr '|' '\n' | grep -c .)" '
            $2 !~ "^src/dp/" { print $2 " names the struct of a mode" }
            $1 > 1 { print $2 " defines or uses more than one mode" }
            { files++ }
            END { if (files != n) print files + 0 " files for " n " modes" }'
)"
