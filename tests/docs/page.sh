# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh disable=SC2154,SC2034
# For tests of a page of docs/: its blocks of commands are run one after the other in one folder,
# $work/study.
#
#   . "$srcdir/tests/docs/page.sh"      after tests/tap.sh, with `page` set
#   $blocks                             how many there are (a number)
#   run_blocks [FIRST [LAST]]           a check each; what block N said is in $work/out.N
#
# Set before run_blocks: $within, words that a block is run with; $after, a command to run after
# each; $elsewhere, a line for each block that is not run here, its first command, a bar, and where
# it is tried or what it needs.  Such a block is still read by a shell, and one that is listed and
# not on the page fails.
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
# More ranks than cores: those that wait give way (tests/mpirun says why).
patient=${trireme%/*}/tests/slurm/patient.so
[ ! -f "$patient" ] || export LD_PRELOAD="$patient${LD_PRELOAD:+:$LD_PRELOAD}"

# block N: the N-th one of the page.  A later one has what an earlier one exported.
block() {
    awk -v want="$1" '
        /^```sh$/ { n++; on = n == want; next }
        /^```/ { on = 0 }
        on { print }' "$page"
}

# first N: the first command of a block, without a comment behind it.
first() { block "$1" | sed '/^#/d; /^$/d; /^export /d; s/ *#.*//' | head -n 1; }
# listed N: is it in $elsewhere?  Where is then in $where.
listed() {
    where=$(printf '%s\n' "${elsewhere-}" | first=$(first "$1") awk -F ' [|] ' '$1 != "" && $1 == ENVIRON["first"] { print $2 }')
    [ -n "$where" ]
}
all_listed_are_there() {
    printf '%s\n' "$elsewhere" | while IFS= read -r line; do
        n=$blocks
        while [ "$n" -gt 0 ] && [ "$(first "$n")" != "${line% | *}" ]; do n=$((n - 1)); done
        [ "$n" -gt 0 ] || { echo "no block begins with ${line% | *}"; return 1; }
    done
}

# run_blocks [FIRST [LAST]]: all of them unless given.
run_blocks() {
    n=$((${1:-1} - 1))
    while [ $n -lt "${2:-$blocks}" ]; do
        n=$((n + 1))
        { grep -h '^export ' "$work"/blocks/* 2> /dev/null; block $n; } > "$work/script"
        block $n > "$work/blocks/$n"
        if listed $n; then
            check "block $n: $(first $n) ($where)" sh -n "$work/script"
            continue
        fi
        name=$(first $n)
        check "block $n: ${name:-exports}" sh -c "cd '$work/study' && ${within:-timeout 600} sh -eu '$work/script'"
        echo "$tap_out" > "$work/out.$n"
        ${after:-:}
    done
    [ -z "${elsewhere-}" ] || check "all blocks that are tried elsewhere are on the page" all_listed_are_there
}
has() { grep -qE -e "$1" "$2" || { cat "$2"; return 1; }; }
