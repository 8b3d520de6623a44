#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# totals.sh BUILD: one plain line with what `make check` in BUILD came to, from the .trs files of the
# test drivers.  Exits with 1 if a test failed or none ran.
set -eu
find "$1" -name '*.trs' -exec cat {} + | awk '
    /^:test-result: (PASS|XFAIL)/ { passed++ }
    /^:test-result: (FAIL|XPASS|ERROR)/ { failed++ }
    /^:test-result: SKIP/ { skipped++ }
    END {
        printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
        exit failed > 0 || passed == 0
    }'
