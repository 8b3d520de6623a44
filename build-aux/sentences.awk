# SPDX-License-Identifier: BSD-3-Clause
# awk [-v most=25] -f sentences.awk FILE...: "FILE:LINE: WORDS: sentence" of each sentence with more
# words than that. Of pages: paragraphs, items of lists and cells of tables, not blocks of code.  Of
# tables of options (.def): the literals, in which a semicolon ends a sentence too, as in cells.  Of
# sources (.c): the same, and a colon ends one, behind which stands what to type, or a line.
# What stands between back quotes, and a link, is one word, and none in a cell, which may be a list
# of names.
function check(text, from, i, n, part, word, count, k, w) {
    gsub(/`[^`]*`/, cell ? "-" : "code", text)
    text = plain_links(text)
    gsub(/[*_"]/, "", text)
    gsub(/ (e\.g|i\.e|etc|al|cf|vs)\. /, " abbr ", text)
    gsub(/[.!?]+[)]?( +|$)/, "&\001", text)
    if (literals || cell)
        gsub(/; /, "&\001", text)
    if (printed)
        gsub(/: |\\n/, "&\001", text)
    n = split(text, part, "\001")
    for (i = 1; i <= n; i++) {
        count = 0
        k = split(part[i], word, /[ \t]+/)
        for (w = 1; w <= k; w++)
            count += word[w] ~ /[A-Za-z0-9]/
        if (count > most) {
            sub(/^ +/, "", part[i])
            printf "%s:%d: %d: %s\n", file, from, count, part[i]
        }
    }
}
function plain_links(text, open, middle) {
    while (match(text, /\[[^]]*\]\([^)]*\)/)) {
        open = substr(text, 1, RSTART - 1)
        middle = substr(text, RSTART + 1, RLENGTH - 1)
        text = open substr(middle, 1, index(middle, "](") - 1) substr(text, RSTART + RLENGTH)
    }
    return text
}
function flush() {
    if (text != "")
        check(text, begun)
    text = ""
}
function add(line) {
    if (text == "")
        begun = FNR
    text = text " " line
}
function cells(line, n, i, part) {
    gsub(/\\\|/, "/", line)
    n = split(line, part, /\|/)
    cell = 1
    for (i = 1; i <= n; i++)
        check(part[i], FNR)
    cell = 0
}
# Literals that follow one another are one text.
function def(line, rest) {
    rest = line
    while (match(rest, /"([^"\\]|\\.)*"/)) {
        if (substr(rest, 1, RSTART - 1) !~ apart)
            flush()
        if (text == "")
            begun = FNR
        text = text substr(rest, RSTART + 1, RLENGTH - 2)
        rest = substr(rest, RSTART + RLENGTH)
    }
    if (rest !~ apart)
        flush()
}
BEGIN {
    most = most ? most : 25
    apart = "^[ \t]*(PRI[A-Za-z0-9]+)?[ \t]*\\\\?$"
}
FNR == 1 {
    flush()
    fenced = 0
    file = FILENAME
    printed = FILENAME ~ /\.c$/
    literals = printed || FILENAME ~ /\.def$/
}
literals { def($0); next }
/^ *```/ { flush(); fenced = !fenced; next }
fenced || (text == "" && /^    /) { next }
/^ *\|/ { flush(); if ($0 !~ /^ *\|[-: |]*$/) cells($0); next }
/^[ \t]*$/ || /^#/ { flush(); next }
/^ *([*-]|[0-9]+\.) / { flush() }
{ add($0) }
END { flush() }
