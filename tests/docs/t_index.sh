#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2016
# The pages hang together: every link leads to a file and a heading that are there, every page of
# docs/ is reached from its index, docs/README.md, every figure is shown on a page, and pages that
# the program names exist.
. "$srcdir/tests/tap.sh"
plan 7
cd "$srcdir" || exit 1
pages="README.md CONTRIBUTING.md benchmarks/README.md contrib/README.md $(echo docs/*.md)"

# links FILE: their targets, a line each, but those of other sites; blocks are no text.
links() {
    awk '/^```/ { on = !on; next }
        !on { while (match($0, /\]\([^)]*\)/)) { print substr($0, RSTART + 2, RLENGTH - 3); $0 = substr($0, RSTART + RLENGTH) } }' "$1" |
        grep -v '^[a-z]*://'
}
# anchors FILE: of its headings, as forges make them.
anchors() {
    awk '/^```/ { on = !on; next } !on && /^#+ / { sub(/^#+ /, ""); print tolower($0) }' "$1" |
        sed 's/\[\([^]]*\)\]([^)]*)/\1/g; s/[^a-z0-9 _-]//g; s/ /-/g'
}
# lead_somewhere FILE...: of each link the file, and its heading.
lead_somewhere() {
    bad=0
    for page; do
        for link in $(links "$page"); do
            file=$(dirname "$page")/${link%%#*}
            [ -n "${link%%#*}" ] || file=$page
            if [ ! -e "$file" ]; then
                echo "$page: $link: there is no such file"
                bad=1
            elif [ "${link#*#}" != "$link" ] && ! anchors "$file" | grep -qxF -e "${link#*#}"; then
                echo "$page: $link: $file has no such heading"
                bad=1
            fi
        done
    done
    return $bad
}
# shellcheck disable=SC2086 # a list of names
check "no link is dead" lead_somewhere $pages

in_index() {
    links docs/README.md | sed 's/#.*//' | sort -u > "$work/index"
    for page in docs/*.md; do
        [ "$page" = docs/README.md ] || grep -qxF -e "${page#docs/}" "$work/index" || { echo "docs/README.md does not lead to $page"; return 1; }
    done
}
check "the index has every page" in_index
check "README leads to the index" grep -qF '](docs/README.md)' README.md
shown() {
    # shellcheck disable=SC2086 # a list of names
    for page in $pages; do links "$page" | sed "s|^|$(dirname "$page")/|; s|^\./||"; done > "$work/all"
    for figure in docs/*.svg; do grep -qxF -e "$figure" "$work/all" || { echo "no page shows $figure"; return 1; }; done
}
check "a page shows every figure" shown
named() {
    { grep -rhoE --include='*.c' --include='*.h' --include='*.def' --include='*.cu*' 'docs/[a-z0-9-]+\.(md|svg)' src kernels
      # shellcheck disable=SC2086 # a list of names
      cat $pages NEWS jobs/*.sbatch jobs/*.sh | grep -oE 'docs/[a-z0-9-]+\.(md|svg)'; } | sort -u > "$work/named"
    while read -r page; do [ -f "$page" ] || { echo "there is no $page"; return 1; }; done < "$work/named"
}
check "pages that texts and the program name are there" named

# The search itself.
mkdir "$work/try"
printf '# One `word`, two\n[a](b.md) [b](#one-word-two)\n```\n[c](none.md)\n```\n' > "$work/try/a.md"
: > "$work/try/b.md"
check "links of a page that has all of them" lead_somewhere "$work/try/a.md"
printf '[a](a.md#two)\n[b](none.md)\n' > "$work/try/b.md"
dead() { ! lead_somewhere "$work/try/b.md" > "$work/dead" && [ "$(wc -l < "$work/dead")" = 2 ]; }
check "dead links are found" dead
