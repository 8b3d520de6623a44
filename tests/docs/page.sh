# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2154,SC2034
# For tests of a page of docs/: its blocks of commands are run one after the other in one folder, $work/study.
#
#   . "$srcdir/tests/docs/page.sh"      after tests/tap.sh, with `page` set
#   $blocks                             how many there are (a number)
#   run_blocks                          a check each; what block N said is in $work/out.N
#
# Set before run_blocks: $within, words that a block is run with, and $after, a command to run after each.
! grep -q -e --plot "$page" || command -v gnuplot > /dev/null 2>&1 || skip_all "gnuplot is not installed"
blocks=$(grep -c '^```sh$' "$page")

# The page calls trireme and mpiexec by their names.
mkdir "$work/bin" "$work/study" "$work/blocks"
ln -s "$trireme" "$work/bin/trireme"
ln -s "$(command -v "${MPIEXEC:-mpiexec}")" "$work/bin/mpiexec"
PATH=$work/bin:$PATH
TRIREME_MACHINES=$srcdir/machines
OMP_NUM_THREADS=1
export PATH TRIREME_MACHINES OMP_NUM_THREADS
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none

# block N: the N-th one of the page.  A later one has what an earlier one exported.
block() {
    awk -v want="$1" '
        /^```sh$/ { n++; on = n == want; next }
        /^```/ { on = 0 }
        on { print }' "$page"
}

run_blocks() {
    n=0
    while [ $n -lt "$blocks" ]; do
        n=$((n + 1))
        { grep -h '^export ' "$work"/blocks/* 2> /dev/null; block $n; } > "$work/script"
        block $n > "$work/blocks/$n"
        first=$(grep -v '^export ' "$work/blocks/$n" | head -n 1)
        check "block $n: ${first:-exports}" sh -c "cd '$work/study' && ${within:-timeout 600} sh -eu '$work/script'"
        echo "$tap_out" > "$work/out.$n"
        ${after:-:}
    done
}
has() { grep -qE -e "$1" "$2" || { cat "$2"; return 1; }; }
