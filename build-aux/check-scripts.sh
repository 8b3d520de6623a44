#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The scripts of the project pass shellcheck, its pages pass mandoc.
set -eu
srcdir=${srcdir:-.} code=0
echo 1..2

# The pages are not installed yet, so none finds the others.
lint() {
    mandoc -T lint -W style man/*.1 2>&1 | grep -v 'referenced manual not found' || :
}

scripts() {
    find jobs build-aux tests benchmarks .ci bootstrap -type f 2>/dev/null | while read -r file; do
        case $file in
        */tap-driver.sh | */install-sh | */missing | */compile | */depcomp | */ar-lib) ;;
        *) if head -n 1 "$file" | grep -qE '^#!.*(sh|bash)$'; then echo "$file"; fi ;;
        esac
    done
}
# Test scripts get variables from make and tests/tap.sh (SC2154), and keep lists of options in
# variables (SC2086); job files get theirs from jobs/lib.sh, wherever that is (SC1091).  What test
# scripts source is not read again for each of them (no -x), which would take most of a minute.
shellcheck_all() {
    scripts | grep -vE '\.(sh|sbatch)$' | xargs shellcheck -x &&
        scripts | grep '\.sbatch$' | xargs shellcheck -e SC1091,SC2154 &&
        scripts | grep 'build-aux/.*\.sh$' | xargs shellcheck -x &&
        scripts | grep 'tests/.*\.sh$' | xargs shellcheck -e SC1091,SC2154,SC2086
}
# From the top folder, where the names of sourced files are true.
if ! command -v shellcheck >/dev/null 2>&1; then
    echo "ok 1 - scripts # SKIP shellcheck is not installed"
elif out=$(cd "$srcdir" && shellcheck_all 2>&1); then
    echo "ok 1 - shellcheck finds nothing in $(cd "$srcdir" && scripts | wc -l) scripts"
else
    echo "not ok 1 - shellcheck finds nothing"
    echo "$out" | sed 's/^/# /'
    code=1
fi

if ! command -v mandoc >/dev/null 2>&1; then
    echo "ok 2 - pages # SKIP mandoc is not installed"
elif ! ls man/*.1 >/dev/null 2>&1; then
    echo "ok 2 - pages # SKIP they are not built here"
elif out=$(lint) && [ -z "$out" ]; then
    echo "ok 2 - mandoc finds nothing in the pages"
else
    echo "not ok 2 - mandoc finds nothing in the pages"
    echo "$out" | sed 's/^/# /'
    code=1
fi
exit $code
