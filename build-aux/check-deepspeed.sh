#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# docs/deepspeed.md has each key of src/config/deepspeed.def in a row of its own, and no other.
set -eu
cd "${srcdir:-.}"
echo 1..1
known=$(sed -n 's/^\(SET\|SWITCH\|READ\|SECTION\|MUST\|IGNORED\|REFUSED\)("\([^"]*\)".*/\2/p' src/config/deepspeed.def |
    sort)
# shellcheck disable=SC2016 # the quotes of Markdown
told=$(sed -n 's/^| `\([^`]*\)` |.*/\1/p' docs/deepspeed.md | sort)
if [ -n "$known" ] && [ "$known" = "$told" ]; then
    echo "ok 1 - docs/deepspeed.md has the keys that are read"
else
    echo "not ok 1 - docs/deepspeed.md has the keys that are read"
    printf '%s\n' "$known" "$told" | sort | uniq -u | sed 's/^/# /'
fi
