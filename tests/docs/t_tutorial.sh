#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# docs/tutorial.md: the commands of the page itself, at small size, one block after the other in one
# folder, and what the page says about what they leave.
. "$srcdir/tests/tap.sh"
command -v gnuplot > /dev/null 2>&1 || skip_all "gnuplot is not installed"
page=$srcdir/docs/tutorial.md
blocks=$(grep -c '^```sh$' "$page")
plan $((blocks + 9))

# The page calls trireme and mpiexec by their names.
mkdir "$work/bin" "$work/study"
ln -s "$trireme" "$work/bin/trireme"
ln -s "$(command -v "${MPIEXEC:-mpiexec}")" "$work/bin/mpiexec"
PATH=$work/bin:$PATH
TRIREME_MACHINES=$srcdir/machines
OMP_NUM_THREADS=1
export PATH TRIREME_MACHINES OMP_NUM_THREADS
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
export HIDDEN=64 ITERS=6

# block N: the N-th one of the page.  A later one has what an earlier one exported.
block() {
    awk -v want="$1" '
        /^```sh$/ { n++; on = n == want; next }
        /^```/ { on = 0 }
        on { print }' "$page"
}
mkdir "$work/blocks"
n=0
while [ $n -lt "$blocks" ]; do
    n=$((n + 1))
    { grep -h '^export ' "$work"/blocks/* 2> /dev/null; block $n; } > "$work/script"
    block $n > "$work/blocks/$n"
    first=$(grep -v '^export ' "$work/blocks/$n" | head -n 1)
    check "block $n: ${first:-exports}" sh -c "cd '$work/study' && timeout 600 sh -eu '$work/script'"
    echo "$tap_out" > "$work/out.$n"
done

cd "$work/study" || exit 1
has() { grep -qE -e "$1" "$2" || { cat "$2"; return 1; }; }
rows() { [ "$(grep -c '^| *1 |' sweep/results.md)" = "$1" ] || { cat sweep/results.md; return 1; }; }
check "the plan has the bubble, and a verdict" sh -c "
    grep -h '^verdict on' '$work'/out.* | grep -q fits && grep -qh '^  bubble ' '$work'/out.*"
lines() { [ "$(grep -c 'elapsed time per iteration' tp4-pp4.log)" = "$1" ]; }
check "one run: as many lines as iterations" lines 6
check "all shapes that can be have a row" rows 10
check "none of them failed" sh -c "! grep failed sweep/results.md"
check "that of the study is there" has '^\| +1 \| [0-9.]+M +\| +1 \| +4 \| +4 \| +1 \| +4 \|' \
    sweep/results.md
check "what cannot be is told" has '^\| tp4-pp8-.*16 ranks cannot hold' sweep/results.md
check "fill and drain have names" sh -c \
    "grep -q '| fill ' breakdown.md && grep -q '| drain ' breakdown.md"
check "a plot for pages" has '<svg' breakdown.svg
check "and one for documents" sh -c "head -c 4 throughput.png | grep -q PNG"
