#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# docs/glossary.md is a table of four columns in the order of the alphabet; every option in it is a
# row of a table in src/config and every verb one of src/cmd/verbs.def; what names an option that is
# refused says that it is not supported.
set -eu
srcdir=${srcdir:-.}
page=$srcdir/docs/glossary.md
work=$(mktemp -d "${TMPDIR:-/tmp}/glossary.XXXXXX")
trap 'rm -rf "$work"' EXIT
echo 1..3

# "KIND name" of each row, where the name may stand on a line of its own.
cat "$srcdir"/src/config/*.def | tr '\n' ' ' |
    grep -oE '((OPT|ALIAS|OFF)\([A-Z]+,[^"]*|(IGNORED|GIVEN|REFUSED)\()"[A-Za-z0-9_-]+"' |
    sed -E 's/^([A-Z]+)\([^"]*"([^"]+)"/\1 \2/' >"$work/options"
sed -nE 's/^VERB\(([a-z]+),.*/\1/p' "$srcdir/src/cmd/verbs.def" >"$work/verbs"
# Rows with their line; a bar within a term is written \| and is no border.
sed 's/\\|/!/g' "$page" | awk '/^\| / && !/^\| term / { print NR ": " $0 }' >"$work/rows"

verdict() {
    if [ ! -s "$work/bad" ]; then
        echo "ok $1 - $2"
    else
        echo "not ok $1 - $2"
        sed 's|^|# docs/glossary.md:|' "$work/bad"
    fi
}

# Order without case and the point of a suffix, hyphens and spaces as they are.
awk -F ' *[|] *' '
    NF != 6 || $2 == "" || $3 == "" || $4 == "" || $5 == "" { print $1 " not four columns" }
    { term = tolower($2); sub(/^[.]/, "", term) }
    term <= last { print $1 " \"" $2 "\" is out of order" }
    { last = term }
    END { if (NR < 80) print "0: fewer than 80 terms" }' "$work/rows" >"$work/bad"
verdict 1 "$(wc -l <"$work/rows") terms, in order"

# shellcheck disable=SC2016 # the backquotes are those of the page
awk -F ' *[|] *' -v options="$work/options" -v verbs="$work/verbs" '
    BEGIN {
        while ((getline row <options) > 0) {
            split(row, word, " ")
            kind[word[2]] = kind[word[2]] word[1] " "
        }
        while ((getline row <verbs) > 0)
            verb[row] = 1
    }
    {
        rest = $3 " " $4
        while (match(rest, /`(--[A-Za-z0-9_-]+|trireme [a-z]+)/)) {
            name = substr(rest, RSTART + 1, RLENGTH - 1)
            rest = substr(rest, RSTART + RLENGTH)
            if (sub(/^--/, "", name)) {
                if (!(name in kind))
                    print $1 " --" name " is in no table of src/config"
                else if (kind[name] ~ /^REFUSED / && $3 !~ /not (supported|needed)|^see /)
                    print $1 " --" name " is refused, and the row does not say so"
            } else if (!(substr(name, 9) in verb)) {
                print $1 " " name " is no verb"
            }
        }
    }' "$work/rows" >"$work/bad"
verdict 2 "options and verbs of the glossary exist"

# What is between back quotes in the third column is an option or a verb, so that nothing escapes.
awk -F ' *[|] *' '{
    rest = $4
    gsub(/`(--[A-Za-z0-9_-]+|trireme [a-z]+)`/, "", rest)
    gsub(/[ ,–]/, "", rest)
    if (rest != "")
        print $1 " \"" $4 "\" is not a list of options and verbs"
}' "$work/rows" >"$work/bad"
verdict 3 "the column of options holds nothing else"
