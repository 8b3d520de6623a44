#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check-ratchet.sh [--list | --update]: what is too long or too complex in src, kernels and tests is
# counted, and no number is above that of build-aux/ratchet.txt.  --list prints what is counted, one
# place a line; --update writes the numbers that have fallen.  Nothing raises one.
#
# Limits: 100 columns a line, 600 lines a file, 60 lines and a complexity of 15 (pmccabe) a
# function, 25 words a sentence in the comments of a header.
set -eu
cd "${srcdir:-.}"
folders='src kernels tests'

# files PATTERN...: of all folders that match one of them.
files() {
    for pattern; do
        # shellcheck disable=SC2086 # a list of words
        find $folders -type f -name "$pattern"
    done | sort
}

# Each prints a word for what it counts, and a place.
lines_and_files() {
    files '*.[ch]' '*.cc' '*.cu' '*.cuh' '*.def' '*.sh' '*.py' '*.awk' | xargs awk '
        FNR == 1 { long = 0 }
        length > 100 { print "lines", FILENAME ":" FNR }
        FNR == 601 { print "files", FILENAME }'
}
functions() {
    files '*.c' '*.cc' '*.cu' | xargs pmccabe 2>/dev/null | awk '
        $5 > 60 { print "functions", $6, $7, $5 " lines" }
        $1 > 15 { print "complexity", $6, $7, $1 }'
}
# A sentence ends with a full stop, a question mark or a colon, before a blank; with an empty line;
# with its comment.
# shellcheck disable=SC2016 # the dollars are those of awk
sentences() {
    files '*.h' '*.cuh' | xargs awk '
        function ended() {
            if (words > 25)
                print "sentences", FILENAME ":" begun, words " words"
            words = 0
        }
        function read_text(text,    count, word, i) {
            count = split(text, word, /[ \t]+/)
            if (text ~ /^[ \t]*$/)
                ended()
            for (i = 1; i <= count; i++) {
                if (word[i] !~ /[A-Za-z0-9]/)
                    continue
                if (!words++)
                    begun = FNR
                if (word[i] ~ /[.?!:]["\)]*$/)
                    ended()
            }
        }
        FNR == 1 { inside = words = 0 }
        {
            rest = $0
            while (rest != "") {
                if (!inside) {
                    at = index(rest, "/*")
                    if (!at)
                        break
                    rest = substr(rest, at + 2)
                    inside = 1
                }
                at = index(rest, "*/")
                text = at ? substr(rest, 1, at - 1) : rest
                sub(/^[ \t]*\*( |$)/, "", text)
                read_text(text)
                if (!at)
                    break
                ended()
                inside = 0
                rest = substr(rest, at + 2)
            }
            if (inside && $0 ~ /^[ \t]*$/)
                ended()
        }'
}
counted() {
    lines_and_files
    functions
    sentences
}

if ! command -v pmccabe >/dev/null 2>&1; then
    echo "1..0 # SKIP pmccabe is not installed"
    exit 0
fi
if [ "${1-}" = --list ]; then
    counted
    exit 0
fi

# The table as it would be: what, and a number for each folder.
found=$(counted | awk '{ split($2, part, "/"); n[$1 " " part[1]]++ }
    END {
        split("lines files functions complexity sentences", what)
        for (i = 1; i <= 5; i++)
            print what[i], n[what[i] " src"] + 0, n[what[i] " kernels"] + 0, n[what[i] " tests"] + 0
    }')
if [ "${1-}" = --update ]; then
    # The lesser of both; all of what is found where there is no table yet.
    echo "$found" | awk '
        NR == FNR { if (!/^#/ && NF == 4) for (i = 2; i <= 4; i++) old[$1, i] = $i; next }
        { for (i = 2; i <= 4; i++) if (($1, i) in old && old[$1, i] < $i) $i = old[$1, i]
          printf "%-11s %6d %8d %6d\n", $1, $2, $3, $4 }' build-aux/ratchet.txt - >build-aux/ratchet.tmp
    { grep '^#' build-aux/ratchet.txt; cat build-aux/ratchet.tmp; } >build-aux/ratchet.new
    cat build-aux/ratchet.new >build-aux/ratchet.txt
    rm build-aux/ratchet.new build-aux/ratchet.tmp
    exit 0
fi

. build-aux/result.sh
echo 1..5
number=0
for what in lines files functions complexity sentences; do
    number=$((number + 1))
    result $number "$what: no more than in build-aux/ratchet.txt" "$(
        echo "$found" | awk -v what=$what '
            BEGIN { split("src kernels tests", folder) }
            $1 != what || /^#/ { next }
            NR == FNR { for (i = 2; i <= 4; i++) most[i] = $i; next }
            { for (i = 2; i <= 4; i++)
                  if ($i > most[i])
                      print folder[i - 1] ": " $i ", at most " most[i] "; build-aux/check-ratchet.sh --list shows each" }' \
            build-aux/ratchet.txt -
    )"
done
echo "$found" | awk 'NR == FNR { if (NF == 4) sum[$1] = $2 + $3 + $4; next }
    $2 + $3 + $4 < sum[$1] { print "# " $1 " fell; build-aux/check-ratchet.sh --update writes it down" }' build-aux/ratchet.txt -
