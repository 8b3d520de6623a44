#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# suite.sh [--resume] BUILD TARGET [PART...]: run the tests of `make TARGET` (check, check-short or
# check-compiler) in BUILD, or parts of them (schedule.py), and print what totals.sh makes of them.
# With --resume those that passed on this commit, with the same changes to it and as many of the
# long tests, are not run again; without it none has passed.
set -u
resume=
if [ "$1" = --resume ]; then
    resume=yes
    shift
fi
build=$1
target=$2
shift 2
[ "$target" = check ] || export TR_TEST_SHORT=1

# What is tested.  A release has no commits, so there nothing is known of what ran before.
what_is_tested() {
    git rev-parse HEAD 2>/dev/null || date +%s.%N
    git diff HEAD 2>/dev/null | cksum
    echo "$target ${TR_TEST_ALL:+all}"
}
now=$(what_is_tested)
[ "$(cat "$build/suite-of" 2>/dev/null)" = "$now" ] || resume=
find "$build" -name '*.trs' | while read -r trs; do
    if [ -z "$resume" ] || grep -qE '^:test-result: (FAIL|XPASS|ERROR)' "$trs"; then
        rm -f "$trs" "${trs%.trs}.log"
    fi
done
[ -n "$resume" ] || rm -f "$build/test-times" "$build/suite-seconds"
echo "$now" >"$build/suite-of"

if ! make -s -C "$build" -j "$(getconf _NPROCESSORS_ONLN)" "built-$target" >"$build/check.log" 2>&1; then
    tail -n 30 "$build/check.log"
    echo "suite.sh: the tests do not build; see $build/check.log" >&2
    echo "0 passed, 1 failed, 0 skipped"
    exit 1
fi
code=0
PARTS="$*" make -s -C "$build" "suite-$target" || code=1
sh build-aux/totals.sh "$build" || code=1
exit "$code"
