#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# suite.sh BUILD TARGET: run the tests of `make TARGET` (check, check-short or check-compiler) in BUILD from nothing, and print what
# totals.sh makes of them.
#
# Three tests run at a time, on machines that others use, too.  Up to four that failed run a second time, one by one:
# a test that passes then is named as unsteady, and is to be mended, but it does not fail the suite.  Where more
# failed, the fault is no matter of time, and none is repeated.
set -u
build=$1
target=$2
most=4
[ "$target" = check ] || export TR_TEST_SHORT=1
jobs=$(getconf _NPROCESSORS_ONLN)

# failed: the .trs files of tests that did.
failed() {
    find "$build" -name '*.trs' -exec grep -lE '^:test-result: (FAIL|XPASS|ERROR)' {} + | sort
}

find "$build" -name '*.trs' | while read -r trs; do
    rm -f "$trs" "${trs%.trs}.log"
done
rm -f "$build/test-times"
if ! make -s -C "$build" -j "$jobs" check TESTS= >"$build/check.log" 2>&1; then
    tail -n 30 "$build/check.log"
    echo "suite.sh: the tests do not build; see $build/check.log" >&2
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
# Three at a time on two cores: many of them mostly wait, for launchers, for clocks and for disks.
code=0
make -s -C "$build" -j3 "$target" VERBOSE=1 || code=$?
before=$(failed)
count=$(printf '%s' "$before" | grep -c .)
if [ "$count" -gt 0 ] && [ "$count" -le "$most" ]; then
    echo "$count failed; once more, one by one:"
    code=0
    make -s -C "$build" -j1 recheck VERBOSE=1 || code=$?
    for trs in $before; do
        grep -qE '^:test-result: (FAIL|XPASS|ERROR)' "$trs" || echo "unsteady: ${trs#"$build"/} passed the second time"
    done
fi
sh build-aux/totals.sh "$build" || code=1
exit "$code"
