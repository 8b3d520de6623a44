#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2034
# docs/classification.md: the commands of the page itself, and what it says of what they print.
. "$srcdir/tests/tap.sh"
srcdir=$(cd "$srcdir" && pwd)
page=$srcdir/docs/classification.md
. "$srcdir/tests/docs/page.sh"
plan $((blocks + 3))
mkdir -p "$work/study/glue/CoLA"
cp "$srcdir/tests/train/toy_cola.awk" "$srcdir/tests/train/toy_words.awk" "$work/study"
within="timeout -k 30 300"
after=true
run_blocks

cd "$work/study" || exit 1
reached() {
    sed -n 's/^{"matthews_correlation": {"matthews_correlation": \([-0-9.e]*\)}, "accuracy": {"accuracy": [0-9.]*}}$/\1/p' "$1" |
        awk -v n="$2" '{ last = $1 } END { print last; exit !(NR == n && last >= 0.6) }'
}
check "metrics after each of three epochs, and it learns" reached "$work/out.2" 3
check "the same numbers in JSON" sh -c "[ \$(grep -c '\"kind\": *\"validation\".*\"matthews_correlation\": *[0-9.]*.*\"accuracy\": *[0-9]' run.jsonl) = 3 ]"
check "with compressed messages as well" reached "$work/out.3" 3
