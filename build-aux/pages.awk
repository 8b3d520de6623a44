# SPDX-License-Identifier: BSD-3-Clause
# awk -v folder=DIR -f pages.awk docs/*.md CONTRIBUTING.md: rows of C for `trireme help --search`
# and `help --OPTION`.
#
#     FOLDER("where the pages are installed")
#     PAGE("page.md", "Heading", " words that stand below it, each once ")
#     TERM("term", "first sentence of its meaning [options and verbs of it]")     of the table in glossary.md
#     SOURCE("src/dp", "what it has")     of the table of folders in CONTRIBUTING.md
#
# Words have three letters at least, and the names of options have their dashes.
function literal(s) {
    gsub(/\\/, "\\\\", s)
    gsub(/"/, "\\\"", s)
    gsub(/`/, "", s)
    return s
}
function end_section(word) {
    if (page != "" && words != "")
        printf "PAGE(\"%s\", \"%s\", \"%s \")\n", page, literal(heading), words
    words = ""
    for (word in seen)
        delete seen[word]
}
function add_words(line, n, i, part, word) {
    n = split(tolower(line), part, /[^a-z0-9_-]+/)
    for (i = 1; i <= n; i++) {
        word = part[i]
        sub(/[-_]+$/, "", word)
        if (word !~ /^--[a-z]/)
            sub(/^[-_]+/, "", word)
        if (length(word) < 3 || word ~ /^[0-9-]+$/ || word in seen)
            continue
        seen[word] = 1
        words = words " " word
    }
}
function add_term(line, n, cell, end) {
    gsub(/\\\|/, "\001", line) # a bar within a cell
    n = split(line, cell, /[ \t]*\|[ \t]*/)
    if (n < 4 || cell[2] == "term" || cell[2] ~ /^:?-+:?$/)
        return
    gsub(/\001/, "|", cell[2])
    gsub(/\001/, "|", cell[3])
    gsub(/\[[^]]*\]\(/, "(docs/", cell[3]) # the address of a link
    end = index(cell[3], ". ")
    printf "TERM(\"%s\", \"%s%s\")\n", literal(cell[2]), literal(end ? substr(cell[3], 1, end) : cell[3]),
        cell[4] ~ /`/ ? " [" literal(cell[4]) "]" : ""
}
function add_source(line, n, cell) {
    n = split(line, cell, /[ \t]*\|[ \t]*/)
    if (n == 4)
        printf "SOURCE(\"%s\", \"%s\")\n", literal(cell[2]), literal(cell[3])
}
BEGIN { printf "FOLDER(\"%s\")\n", literal(folder) }
FNR == 1 {
    end_section()
    page = FILENAME
    sub(/.*\//, "", page)
    heading = page
    fenced = 0
}
/^ *```/ { fenced = !fenced; next }
!fenced && /^#+ / {
    end_section()
    heading = $0
    sub(/^#+ +/, "", heading)
    next
}
page == "glossary.md" && /^\|/ { add_term($0); next }
# Of CONTRIBUTING.md only the rows whose first cell is one folder.
page == "CONTRIBUTING.md" {
    if (/^\| `[a-z\/]+` \|/)
        add_source($0)
    next
}
{ add_words($0) }
END { end_section() }
