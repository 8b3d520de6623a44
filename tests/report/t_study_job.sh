#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2016
# jobs/study: from the arguments of the study of 2021 to its table, figures and page, which are
# those of docs/study.md.
. "$srcdir/tests/tap.sh"
command -v bash > /dev/null || skip_all "there is no bash"
plan 19
same() { [ "$1" = "$2" ] || { echo "$1 / $2"; return 1; }; }
study() { TRIREME=$trireme TRIREME_MACHINES=$srcdir/machines bash "$srcdir/jobs/study" "$work/study"; }
# rows KIND: those that are measured, planned or simulated, without that word.
rows() { tr -d '\r' < "$work/study/runs.csv" | awk -F , -v kind="$1" '$8 == kind { print $1, $2, $3, $4, $5, $6 }' | tr '\n' ';'; }
ms() { tr -d '\r' < "$work/study/runs.csv" | awk -F , -v kind="$1" -v size="$2" '$8 == kind && $2 == size { print $7 + 0 }'; }

check "the study" study
# GPUs, size, micro-batch, micro-batches, DP and PP as published of the first two; the third is 76B
# on 32 stages.
published="16 7.5B 1 4 1 4;64 30B 1 4 1 16;"
check "its planned rows" same "$(rows planned)" "${published}128 76B 1 4 1 32;"
check "its simulated rows" same "$(rows simulated)" "${published}128 76B 1 4 1 32;"
check "what was measured beside them" same "$(rows measured)" "$published"
check "as it was published" same "$(ms measured 7.5B) $(ms measured 30B)" "430 1439"
# On a machine that the profile describes; eight of ten runs lie between 0.86 and 1.03 of the plan's
# time, and 430 is not one of them.
near() { awk -v a="$1" -v b="$2" -v part="$3" 'BEGIN { exit !(b > 0 && a > b * (1 - part) && a < b * (1 + part)) }'; }
check "7.5B is near that" near "$(ms simulated 7.5B)" 430 0.2
check "30B is nearer" near "$(ms simulated 30B)" 1439 0.1
simulated() { sed -n 's/^iteration *\([0-9.]*\) s;.*/\1/p' "$work/study/$1.sim"; }
for row in "7.5B 7.5b" "30B 30b" "76B 76b"; do
    check "the time of ${row% *} is the simulated one" near "$(ms simulated "${row% *}")" \
        "$(awk -v s="$(simulated "${row#* }")" 'BEGIN { print 1000 * s }')" 0.002
done
whole() { (cd "$work/study" && grep -q toprule runs.tex && grep -q 'set logscale' scaling.gp && grep -q '</html>' study.html &&
    grep -q 'id="search"' study.html && grep -q boxxyerror breakdown.gp && grep -qi mib 76b.plan); }
check "figures, LaTeX and a page" whole

# The page in docs has the table, row by row, and the figures, as this version makes them.
in_docs() { grep '^|' "$work/study/runs.md" > "$work/rows" && [ -s "$work/rows" ] && while read -r row; do
    grep -q -x -F -e "$row" "$srcdir/docs/study.md" || { echo "docs/study.md lacks $row"; return 1; }; done < "$work/rows"; }
check "the table is the one of docs/study.md" in_docs
drawn_by() { sed -n 's/.*Produced by \(GNUPLOT [^<]*[^ <]\).*/\1/p' "$1" | head -n 1; }
# Numbers and what is between them, a line each; other processors round the last digit of a
# coordinate otherwise.
parts() { tr '\t' ' ' < "$1" | grep -oE '[0-9.]+|[^0-9.]+'; }
alike() {
    parts "$1" > "$work/have" && parts "$2" > "$work/want" && same "$(wc -l < "$work/have")" "$(wc -l < "$work/want")" &&
        paste "$work/have" "$work/want" | awk -F '\t' '
            $1 != $2 && !($1 ~ /^[0-9.]+$/ && $2 ~ /^[0-9.]+$/ && $1 - $2 < 0.02 && $2 - $1 < 0.02) { print; bad = 1 }
            END { exit bad }'
}
figures() {
    for plot in breakdown scaling memory pareto; do
        alike "$work/study/$plot.svg" "$srcdir/docs/study-$plot.svg" || { echo "run jobs/study, and copy its figures to docs/"; return 1; }
    done
}
if ! command -v gnuplot > /dev/null; then
    skip "so are its figures" "there is no gnuplot"
elif [ "$(drawn_by "$work/study/memory.svg")" != "$(drawn_by "$srcdir/docs/study-memory.svg")" ]; then
    skip "so are its figures" "another gnuplot drew those"
else
    check "so are its figures" figures
fi
shown() { for plot in breakdown scaling memory pareto; do grep -q "](study-$plot.svg)" "$srcdir/docs/study.md" || return 1; done; }
check "which it shows" shown

# ---- the table alone ----

study_job() { (cd "$work/empty" && TMPDIR=$work/empty TRIREME=$trireme TRIREME_MACHINES=$srcdir/machines bash "$srcdir/jobs/study" "$@"); }
mkdir "$work/empty"
table() { study_job --table > "$work/table.md" && same "$(ls "$work/empty")" ""; }
check "the table alone leaves no file" table
check "it has the times of the study" same "$(awk -F '|' '/^[|] [0-9]/ { print $2, $10 }' "$work/table.md" | tr -s ' \n' ' ')" \
    " $(for size in 7.5B 30B 76B; do ms planned $size; done | awk -v sizes="7.5B 30B 76B" '{ split(sizes, s, " "); printf "%s %s ", s[NR], $1 }')"
in_readme() { grep '^[|]' "$work/table.md" > "$work/rows" && [ -s "$work/rows" ] && while read -r row; do
    grep -q -x -F -e "$row" "$srcdir/README.md" || { echo "README.md lacks $row"; return 1; }; done < "$work/rows"; }
check "README.md shows it" in_readme
fails "other options" 64 "--tables is no option" study_job --tables

# A real log of the same study becomes a row of it.
cp "$srcdir/tests/report/jean-zay-30b.log" "$work/study/study-measured.out"
again() { study && same "$(tail -n +2 "$work/study/runs.csv" | wc -l | tr -d ' ')" 9; }
check "with a measured run" again
