# SPDX-License-Identifier: BSD-3-Clause
# awk -f costs.awk test-times tests/list: the list with the costs of the last run.  Tests that did
# not run keep theirs.
function round(seconds) { return sprintf(seconds < 10 ? "%.1f" : "%.0f", seconds) }
NR == FNR {
    wall[$1] = $2
    cpu[$1] = $3
    next
}
{
    name = $1 ~ /\.sh$/ || $2 == "-" ? $1 : $1 "." $2 ".mpi"
    if (/^#/ || !(name in wall))
        print
    else
        printf "%-34s %5s  %-8s %-18s %6s %6s\n", $1, $2, $3, $4, round(cpu[name]), round(wall[name])
}
