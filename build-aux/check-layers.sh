#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The architecture is the list src/LAYERS: a file includes headers of its own folder and of those
# above it there, so a lower layer never knows a higher one.  A folder may have folders, which have
# lines of their own; kernels/ lies at the top of the tree.  And names are unique: of headers, by
# which they are found, and of structs, by which a reader finds what they are.
set -eu
cd "${srcdir:-.}"
echo 1..3

. build-aux/result.sh

# shellcheck disable=SC2016 # the dollars are those of awk
result 1 "files include their own folder and those above it" "$(
    find src kernels -name '*.[ch]' -o -name '*.def' -o -name '*.cu' -o -name '*.cuh' | sort | xargs awk '
    function folder(path) { sub("/[^/]*$", "", path); return path }
    FILENAME == "src/LAYERS" { level[$1] = NR; next }
    FNR == 1 { own = folder(FILENAME); sub("^src/", "", own) }
    !(own in level) { print FILENAME ": the folder is not in src/LAYERS"; nextfile }
    /^ *#include "/ {
        split($0, quoted, "\"")
        if (quoted[2] !~ "/") {
            if (own != "kernels")
                print FILENAME ":" FNR ": include \"" quoted[2] "\" does not name its folder"
        } else if (!(folder(quoted[2]) in level) || level[folder(quoted[2])] > level[own])
            print FILENAME ":" FNR ": " own " includes \"" quoted[2] "\" from a higher layer"
    }' src/LAYERS)"

result 2 "no two headers or tables have one name" "$(
    find src kernels -name '*.h' -o -name '*.cuh' -o -name '*.def' | sed 's|.*/||' | sort | uniq -d)"

result 3 "no two structs have one tag" "$(
    find src -name '*.[ch]' -exec grep -hoE '^[a-z ]*struct tr_[a-z0-9_]+ \{' {} + |
        sed 's/.*struct //; s/ {//' | sort | uniq -d)"
