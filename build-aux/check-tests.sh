#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# tests/list has a row for each test, and a test for each row; and the rows mean something.
set -eu
cd "${srcdir:-.}"
echo 1..4

. build-aux/result.sh

rows=$(awk '!/^#/ && NF { print $1 }' tests/list | sort -u)
# The sources that local.mk name for programs, and programs that tests start, with lines that go on
# taken as one.
named=$(cat tests/*/local.mk | sed -e ':a' -e '/\\$/N; s/\\\n//; ta' | grep -E '^(check_PROGRAMS|tests_[a-z0-9_]*_SOURCES)' || :)

# result.sh prints what is wrong, and nothing where nothing is.
result 1 "each tests/*/t_* is in a row" "$(
    for file in tests/*/t_*.sh tests/*/t_*.c tests/*/t_*.cc; do
        case $file in *.sh) row=$file ;; *) row=${file%.*} ;; esac
        echo "$rows" | grep -qxF "$row" || echo "$named" | grep -qwF -e "$file" -e "$row" ||
            echo "$file has no row in tests/list"
    done
)"
result 2 "each row has a script or a source" "$(
    for row in $rows; do
        case $row in
        *.sh) [ -f "$row" ] || echo "$row is not there" ;;
        *)
            [ -f "$row.c" ] || [ -f "$row.cc" ] ||
                echo "$named" | grep -q "^$(echo "$row" | tr / _)_SOURCES" || echo "$row has no source"
            ;;
        esac
    done
)"
result 3 "make's variables follow from the list" "$(awk -f build-aux/list.awk tests/list 2>&1 >/dev/null || :)"

# What a test finds in its environment; its time goes to a folder of its own.
work=$(mktemp -d "${TMPDIR:-/tmp}/list.XXXXXX")
trap 'rm -rf "$work"' EXIT
top=$PWD
ends() {
    (cd "$work" && srcdir=$top sh "$top/build-aux/timed.sh" sh -c 'echo "${OMPI_MCA_odls_base_sigkill_timeout-default}"' \
        - --test-name "$1")
}
result 4 "only tests of dying give ranks time to end" "$(
    unset OMPI_MCA_odls_base_sigkill_timeout
    [ "$(ends tests/train/t_kill.sh)" = default ] || echo "a test that is marked as dying does not"
    [ "$(ends tests/train/t_bad_input.sh)" = 0 ] || echo "tests/train/t_bad_input.sh does"
)"
