#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Every parser on its valid inputs and some hundred changed ones; tests/fuzz runs as long as it is told.
. "$srcdir/tests/tap.sh"
plan 3

try() { tests/fuzzing/fuzz --out "$work" "$@"; }
check "no parser crashes, stalls or ends the program" try --cases 250
check "logs" try --cases 1500 log
fails "what is no target is told apart" 64 "targets: idx " try --cases 1 nonsense
