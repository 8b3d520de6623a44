#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2016
# jobs/study: from the arguments of the study of 2021 to its table, figures and page.
. "$srcdir/tests/tap.sh"
command -v bash > /dev/null || skip_all "there is no bash"
plan 8
same() { [ "$1" = "$2" ] || { echo "$1 / $2"; return 1; }; }
study() { TRIREME=$trireme TRIREME_MACHINES=$srcdir/machines bash "$srcdir/jobs/study" "$work/study"; }
rows() { tr -d '\r' < "$work/study/runs.csv" | awk -F , 'NR > 1 { print $1, $2, $3, $4, $5, $6 }' | tr '\n' ';'; }

check "the study" study
# GPUs, size, micro-batch, micro-batches, DP and PP as published of the first two; the third is 76B on 32 stages.
check "its rows" same "$(rows)" "16 7.5B 1 4 1 4;64 30B 1 4 1 16;128 76B 1 4 1 32;"
# Published: 430 and 1439 ms, on a machine that the profile describes; eight of ten runs lie between 0.86 and 1.03
# of the plan's time, and 430 is not one of them.
check "times as published" awk -F , '
    NR == 2 { bad = $7 + 0 < 430 * 0.8 || $7 + 0 > 430 * 1.2 }
    NR == 3 { bad = bad || $7 + 0 < 1439 * 0.9 || $7 + 0 > 1439 * 1.1; rows++ }
    END { exit bad || rows != 1 }' "$work/study/runs.csv"
simulated() { sed -n 's/^iteration *\([0-9.]*\) s;.*/\1/p' "$work/study/$1.sim"; }
for row in "2 7.5b" "3 30b" "4 76b"; do
    check "the time of ${row#* } is the simulated one" awk -F , -v row="${row% *}" -v s="$(simulated "${row#* }")" '
        NR == row { d = $7 / 1000 - s; found = s > 0 && d < 0.001 && d > -0.001 } END { exit !found }' "$work/study/runs.csv"
done
whole() { (cd "$work/study" && grep -q toprule runs.tex && grep -q 'set logscale' scaling.gp && grep -q '</html>' study.html &&
    grep -q 'no run was measured' 7.5b.simulated.log && grep -qi mib 76b.plan); }
check "figures, LaTeX and a page" whole
# A real log of the same study becomes a row of it.
cp "$srcdir/tests/report/jean-zay-30b.log" "$work/study/study-measured.out"
again() { study && same "$(tail -n +2 "$work/study/runs.csv" | wc -l | tr -d ' ')" 4; }
check "with a measured run" again
