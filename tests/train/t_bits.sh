#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The bits that runs computed when tests/golden/bits.txt was last written.  Here the plain loops of
# this build; tests/run --all also makes programs for each kind of processor.
. "$srcdir/tests/tap.sh"

if [ -n "${TR_TEST_ALL:-}" ]; then
    out=$("$srcdir/tests/bits" --build "$PWD" 2>&1)
else
    out=$("$srcdir/tests/bits" --quick --build "$PWD" ref 2>&1)
fi
code=$?
[ $code -ne 77 ] || skip_all "$out"
plan 1
if [ $code -eq 0 ]; then ok "the bits of the table"; else not_ok "the bits of the table" "$out"; fi
