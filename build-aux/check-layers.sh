#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Every include in src/ names a folder, and that folder is the file's own or one above it in
# src/LAYERS.  The architecture is this list: a lower layer never knows a higher one.
set -eu
cd "${srcdir:-.}"
echo 1..1
# shellcheck disable=SC2016 # the dollars are those of awk
bad=$(find src -name '*.[ch]' -o -name '*.def' | sort | xargs awk '
    FILENAME == "src/LAYERS" { level[$1] = NR; next }
    FNR == 1 { split(FILENAME, part, "/"); own = part[2] }
    !(own in level) { print FILENAME ": the folder is not in src/LAYERS"; nextfile }
    /^#include "/ {
        split($2, quoted, "\"")
        n = split(quoted[2], path, "/")
        if (n != 2)
            print FILENAME ":" FNR ": include \"" quoted[2] "\" does not name one folder"
        else if (!(path[1] in level) || level[path[1]] > level[own])
            print FILENAME ":" FNR ": " own " includes \"" quoted[2] "\" from a higher layer"
    }' src/LAYERS)
if [ -z "$bad" ]; then
    echo "ok 1 - files include their own folder and those above it"
else
    echo "not ok 1 - files include their own folder and those above it"
    echo "$bad" | sed 's/^/# /'
fi
