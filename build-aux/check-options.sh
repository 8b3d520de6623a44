#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every --option that the README, the pages and the jobs mention exists: in a table of the program,
# or as an option of configure or of another program that is named here.
set -eu
srcdir=${srcdir:-.}
echo 1..1
known=$(mktemp "${TMPDIR:-/tmp}/options.XXXXXX")
trap 'rm -f "$known"' EXIT

words() { grep -oE -e '--[A-Za-z][A-Za-z0-9_-]*'; }
{
    # What the program says about itself, verb by verb.
    ./trireme help | awk '/^  [a-z]/ { print $1 }' | while read -r verb; do
        ./trireme help "$verb"
    done | words
    # The table, with the rows that the help leaves out.
    sed -nE 's/^(OPT|ALIAS|OFF|IGNORED|GIVEN|REFUSED)\([^"]*"([A-Za-z0-9_-]+)".*/--\2/p' \
        "$srcdir/src/config/options.def" "$srcdir/src/config/others.def"
    "$srcdir/configure" --help | words
    # What scripts say about themselves.
    for script in jobs/setup jobs/study tests/cluster tests/fuzz tests/gpu/run tests/run benchmarks/run; do
        sed -n '/^set -/q; /^#/p' "$srcdir/$script"
    done | words
    # Of jobs/lib.sh.
    echo --toy
    echo --help
    echo --version
    echo --with-NAME
} >"$known"
# Of Slurm, MPI, git, apt, nvidia-smi, autoconf and the shell, in scripts and examples.
others='^--(account|array|gpu-bind|gpus-per-node|gpus-per-task|profile-from-start|bind-to|cpus-per-task|constraint|dependency|exclusive|gres|hint|job-name'
others="$others|kill-on-bad-exit|mpi|nodes|ntasks|ntasks-per-node|open-mode|oversubscribe|output|partition"
others="$others|qos|requeue|signal|time|wait|map-by|allow-run-as-root|no-install-recommends|append|max-count"
others="$others|state|kill-on-invalid-dep|no-requeue|test-only|wrap|rcfile|conf|exclude|distribution|query-gpu|recheck)\$"

set -- "$srcdir/README" "$srcdir/README.md" "$srcdir/CONTRIBUTING.md" "$srcdir"/docs/*.md \
    "$srcdir"/jobs/* "$srcdir"/jobs/models/*
for file; do
    [ -f "$file" ] || continue
    grep -noE -e '(^|[^A-Za-z0-9_-])--[A-Za-z][A-Za-z0-9_-]*' "$file" |
        sed -E 's/^([0-9]+):[^-]?(--.*)/\1 \2/' |
        while read -r line option; do
            if ! grep -qxF -e "$option" "$known" && ! echo "$option" | grep -qE -e "$others"; then
                echo "$file:$line: $option is in no table"
            fi
        done
done >"$known.bad"
if [ ! -s "$known.bad" ]; then
    echo "ok 1 - every option that is mentioned exists"
else
    echo "not ok 1 - every option that is mentioned exists"
    sed 's/^/# /' "$known.bad"
fi
rm -f "$known.bad"
