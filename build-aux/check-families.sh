#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A family is a row of src/family/family.c: nothing else asks for one by its name, and no code reads
# the name but to print it.
set -eu
cd "${srcdir:-.}"
echo 1..2

. build-aux/result.sh

names=$(sed -n 's/.*{\.name = "\([^"]*\)".*/"\1"/p' src/family/family.c)
[ "$(echo "$names" | wc -l)" -gt 5 ] || { echo "Bail out! no names in src/family/family.c"; exit 1; }

# What may have a name: the default of the option, and scripts, model folders and events of others,
# which have names of their own.
result 1 "no file but the table has the name of a family" "$(
    echo "$names" | grep -rnwFf - src kernels --include=*.c --include=*.h --include=*.def --include=*.cu \
        --include=*.cuh | grep -v -e '^src/family/family\.c:' -e '^src/port/' -e '^src/train/tracks\.def:' \
        -e '^src/weights/models\.def:' -e '^src/config/options\.def:.*"model-family"'
)"
result 2 "no comparison with the name of a family" "$(
    grep -rnE 'strn?(case)?cmp\([^;]*family' src --include=*.c --include=*.h | grep -v '^src/family/family\.c:'
)"
