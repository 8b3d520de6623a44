#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Every kernel compiles without a warning for the oldest GPU that trireme claims and nvcc knows,
# which the program is not always built for.
. "$srcdir/tests/tap.sh"
. "$builddir/tests/cuda/nvcc.sh" # made by make: compile, known, kernels
only_with_all

listed=$(known 2>"$work/why") || skip_all "there is no nvcc: $(tail -n 1 "$work/why")"
for arch in 70 75 80; do
    case $listed in
    *"sm_$arch"*) break ;;
    esac
done

quietly() {
    compile -arch="sm_$arch" -cubin -o "$work/code.cubin" "$srcdir/$1" >"$work/told" 2>&1
    code=$?
    cat "$work/told"
    [ $code -eq 0 ] && [ ! -s "$work/told" ]
}

# shellcheck disable=SC2086 # a list of words
set -- $kernels
plan $#
for kernel; do
    check "$kernel for sm_$arch" quietly "$kernel"
done
