#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# The tables of the planner's errors in docs/plan.md are those that `make published` prints.
. "$srcdir/tests/tap.sh"
plan 2

"$builddir/tests/plan/published" >"$work/printed" 2>&1
tables() { sed -n '/^| profile |/,/^$/p' "$1"; }
tables "$work/printed" >"$work/wanted"
tables "$srcdir/docs/plan.md" >"$work/there"
check "there are four tables, of every profile with published times" \
    test "$(grep -c '^| profile |' "$work/wanted")" -eq 4 -a "$(wc -l <"$work/wanted")" -gt 70
echo >>"$work/wanted"
check "docs/plan.md has the tables that are printed" diff "$work/wanted" "$work/there"
