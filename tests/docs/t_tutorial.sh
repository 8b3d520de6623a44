#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# docs/tutorial.md: the commands of the page itself, at small size, one block after the other in one
# folder, and what the page says about what they leave.
. "$srcdir/tests/tap.sh"
# shellcheck disable=SC2034 # of the file that was sourced
page=$srcdir/docs/tutorial.md
. "$srcdir/tests/docs/page.sh"
plan $((blocks + 11))
CORES=$(unset OMP_NUM_THREADS; nproc)
[ "$CORES" -lt 2 ] || CORES=2
export HIDDEN=64 ITERS=6 CORES
run_blocks

cd "$work/study" || exit 1
rows() { [ "$(grep -c '^| *1 |' sweep/results.md)" = "$1" ] || { cat sweep/results.md; return 1; }; }
check "the plan has the bubble, and a verdict" sh -c "
    grep -h '^verdict on' '$work'/out.* | grep -q fits && grep -qh '^  bubble ' '$work'/out.*"
lines() { [ "$(grep -c 'elapsed time per iteration' tp4-pp4.log)" = "$1" ]; }
factor() { grep -E '^# That is too few for more than one factor: all times are multiplied by [0-9.]+\.$' ours.conf; }
check "a run gives a factor" factor
check "a sweep gives an error on shapes left out" has '^# mean absolute error: .* % of shapes left out$' fitted.conf
check "one run: as many lines as iterations" lines 6
check "all shapes that can be have a row" rows 10
check "none of them failed" sh -c "! grep failed sweep/results.md"
check "that of the study is there" has '^\| +1 \| [0-9.]+M +\| +1 \| +4 \| +4 \| +1 \| +4 \|' \
    sweep/results.md
check "impossible shapes are listed" has '^\| tp4-pp8-.*16 ranks is not a multiple' sweep/results.md
check "fill and drain have names" sh -c \
    "grep -q '| fill ' breakdown.md && grep -q '| drain ' breakdown.md"
check "a plot for pages" has '<svg' breakdown.svg
check "and one for documents" sh -c "head -c 4 throughput.png | grep -q PNG"
