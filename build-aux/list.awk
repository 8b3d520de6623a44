# SPDX-License-Identifier: BSD-3-Clause
# awk -f list.awk tests/list >tests/list.mk: make's variables from the list of tests, for
# Makefile.am.  A row of which a mark names what configure must have found stands between `if` and
# `endif`.  The longest tests come first, and before them those that are not measured yet.
function stop(sentence) {
    print "tests/list, line " FNR ": " sentence | "cat >&2"
    bad = 1
    exit 1
}
BEGIN {
    condition["cxx"] = "HAVE_CXX"
    condition["fakes"] = "HAVE_CUDA_FAKES"
    condition["tsan"] = "HAVE_TSAN"
    condition["cudnn"] = "HAVE_CUDNN"
    condition["driver"] = "!LIBFUZZER"
    known["bare"] = known["dying"] = known["cluster"] = 1
    split("compiler short suite all", words)
    for (i in words)
        tiers[words[i]] = 1
}
/^#/ || NF == 0 { next }
NF != 6 { stop("six columns are wanted: test, ranks, tier, marks, cpu, wall") }
!($3 in tiers) { stop("no tier is called " $3) }
$2 !~ /^(-|[1-9][0-9]*)$/ { stop($2 " is no number of ranks") }
$5 !~ /^(-|[0-9]+(\.[0-9]+)?)$/ || $6 !~ /^(-|[0-9]+(\.[0-9]+)?)$/ { stop("a cost is a number of seconds, or -") }
{
    script = $1 ~ /\.sh$/
    name[++n] = script || $2 == "-" ? $1 : $1 "." $2 ".mpi"
    if (seen[name[n]]++)
        stop(name[n] " has a row already")
    program[n] = script ? "" : $1
    tier[n] = $3
    wall[n] = $6 == "-" ? 1e9 : $6
    bare = 0
    needs[n] = ""
    count = split($4, words, ",")
    for (i = 1; i <= count && $4 != "-"; i++) {
        if (words[i] in condition)
            needs[n] = needs[n] " " condition[words[i]]
        else if (!(words[i] in known))
            stop("no mark is called " words[i])
        bare = bare || words[i] == "bare"
    }
    if (!bare)
        needs[n] = " HAVE_CMOCKA" needs[n]
    if (name[n] ~ /\.mpi$/)
        ranks[$2 + 0] = 1
    if ($2 + 0 > most)
        most = $2 + 0
}
END {
    if (bad)
        exit 1
    print "# Made from tests/list by build-aux/list.awk."
    for (i = 1; i <= n; i++)
        order[i] = i
    for (i = 2; i <= n; i++)
        for (k = i; k > 1 && wall[order[k]] > wall[order[k - 1]]; k--) {
            swap = order[k]
            order[k] = order[k - 1]
            order[k - 1] = swap
        }
    for (i = 1; i <= n; i++)
        if (!grouped[needs[order[i]]]++)
            group(needs[order[i]])
    for (i = 1; i <= most; i++)
        if (i in ranks)
            printf "%%.%d.mpi: %%\n\t$(LINK_TEST)\n", i
}
function add(variable, word) {
    list[variable] = list[variable] " \\\n\t" word
}
# The variables of the rows that need the same.
function group(what,    count, words, i, k) {
    for (k in list)
        delete list[k]
    for (i = 1; i <= n; i++) {
        k = order[i]
        if (needs[k] != what)
            continue
        add("TESTS", name[k])
        if (!program[k])
            add("EXTRA_DIST", name[k])
        else if (!made[program[k]]++)
            add("check_PROGRAMS", program[k])
        if (name[k] ~ /\.mpi$/) {
            add("check_SCRIPTS", name[k])
            add("CLEANFILES", name[k])
        }
        if (tier[k] == "compiler")
            add("COMPILER_TESTS", name[k])
        if (tier[k] == "compiler" || tier[k] == "short")
            add("SHORT_TESTS", name[k])
    }
    count = split(what, words, " ")
    for (i = 1; i <= count; i++)
        print "if " words[i]
    for (k = split("TESTS EXTRA_DIST check_PROGRAMS check_SCRIPTS CLEANFILES COMPILER_TESTS SHORT_TESTS", words, " "); k; k--)
        if (words[k] in list)
            print words[k] " +=" list[words[k]]
    for (i = 1; i <= count; i++)
        print "endif"
}
