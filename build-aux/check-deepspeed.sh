#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# docs/deepspeed.md has each key of src/config/deepspeed.def in a row of its own, and no other;
# docs/trainers.md the same of the names in src/config/strategy.def.
set -eu
cd "${srcdir:-.}"
echo 1..2

# same NUMBER PAGE TABLE: the first words of the table's rows are the first column of the page.
same() {
    known=$(sed -n 's/^\(SET\|SWITCH\|READ\|SECTION\|MUST\|IGNORED\|REFUSED\|STANDS\)("\([^"]*\)".*/\2/p' "$3" | sort)
    # shellcheck disable=SC2016 # the quotes of Markdown
    told=$(sed -n 's/^| `\([a-z0-9_.*]*\)` |.*/\1/p' "$2" | sort)
    if [ -n "$known" ] && [ "$known" = "$told" ]; then
        echo "ok $1 - $2 has the rows of $3"
    else
        echo "not ok $1 - $2 has the rows of $3"
        printf '%s\n' "$known" "$told" | sort | uniq -u | sed 's/^/# /'
    fi
}

same 1 docs/deepspeed.md src/config/deepspeed.def
same 2 docs/trainers.md src/config/strategy.def
