#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Every parser on its valid inputs and some hundred changed ones; tests/fuzz runs for any time.
. "$srcdir/tests/tap.sh"
plan 3

try() { tests/fuzzing/fuzz --out "$work" "$@"; }
check "no parser crashes, stalls or ends the program" try --cases 250
check "logs" try --cases 1500 log
fails "an unknown target is refused" 64 "targets: idx " try --cases 1 nonsense
