#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The sources are laid out as .clang-format says.  Releases of clang-format differ, so it is that of
# Debian 12.
set -u
cd "${srcdir:-.}" || exit 1
version=14
echo 1..1

sources() {
    find src kernels tests benchmarks -name '*.[ch]' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh'
}

case $(clang-format --version 2>/dev/null) in
*"version $version."*) ;;
*)
    echo "ok 1 - layout # SKIP clang-format $version is not installed"
    exit 0
    ;;
esac
# shellcheck disable=SC2046 # a list of words
if out=$(clang-format --dry-run -Werror $(sources) 2>&1); then
    echo "ok 1 - clang-format finds nothing in $(sources | wc -l) files"
else
    echo "not ok 1 - clang-format finds nothing"
    echo "$out" | sed 's/^/# /' | head -n 40
    exit 1
fi
