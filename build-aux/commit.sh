#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# commit.sh SOURCE HEADER: write the commit of the checkout SOURCE, or "" where there is none, into
# HEADER, and leave HEADER alone if it says so already.
set -eu
source=$(cd "$1" && pwd -P)
header=$2
commit=
# A release unpacked inside somebody's checkout is not that checkout.
if top=$(git -C "$source" rev-parse --show-toplevel 2>/dev/null) && [ "$top" = "$source" ]; then
    commit=$(git -C "$source" describe --always --dirty --abbrev=12 2>/dev/null) || commit=
fi
line="#define TR_COMMIT \"$commit\""
if [ ! -f "$header" ] || [ "$(cat "$header")" != "$line" ]; then
    mkdir -p "$(dirname "$header")"
    printf '%s\n' "$line" >"$header.tmp"
    mv "$header.tmp" "$header"
fi
