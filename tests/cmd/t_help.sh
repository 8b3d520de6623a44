#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Asking the program: one option, a group of options, words; and the message about several wrong options.
# shellcheck source=tests/tap.sh
. "${srcdir:?}/tests/tap.sh"
plan 19

says() { "$@" >"$work/out" && grep -q -e "$text" "$work/out"; }

text='samples that one rank computes at once'
check "an option by its name" says "$trireme" help --micro-batch-size
check "the same of its verb" says "$trireme" help train --micro-batch-size
check "and of another verb that takes it" says "$trireme" help plan --micro-batch-size
text='docs: tutorial.md'
check "which page names it" says "$trireme" help --micro-batch-size
text='^    refused: '
check "one that is refused says why" says "$trireme" help --swiglu
text='^trireme report$'
check "an option of another verb" says "$trireme" help --plot
fails "a wrong one is answered with the nearest" 64 "did you mean --seed?" "$trireme" help --sede
text='--adam-beta1'
check "a group in any case" says "$trireme" help train OPTIMIZER
check "and by the beginning of its heading" says "$trireme" help train opt
text='--forward-bits'
check "a heading of two words" says "$trireme" help train compression between
fails "a wrong group lists all" 64 "there are: Model, Data, Training" "$trireme" help train zzz

text='^option  --hidden-dropout (train)'
check "options are found by a word" says "$trireme" help --search Dropout
text='^docs    numerics.md: '
check "and pages" says "$trireme" help --search dropout
text='^verb    plan: '
check "and verbs" says "$trireme" help --search memory gpu-hours
fails "a word that is nowhere" 64 "no option, verb, term or page has this word" \
    "$trireme" help --search quetzalcoatl
fails "--search wants a word" 64 "usage: trireme help" "$trireme" help --search

# The table of pages, made of a page of our own.
cat >"$work/glossary.md" <<'END'
# Words
Here is `--seed`.
| term | meaning here | option | paper |
|---|---|---|---|
| bubble | Time in which a "stage" waits. And more. | `--x` | none |
| a\|b | one \| two | | |
END
table() {
    "${AWK:-awk}" -v folder=/here -f "$srcdir/build-aux/pages.awk" "$work/glossary.md" >"$work/table"
    cat >"$work/expected" <<'END'
FOLDER("/here")
TERM("bubble", "Time in which a \"stage\" waits.")
TERM("a|b", "one | two")
PAGE("glossary.md", "Words", " here --seed ")
END
    cmp "$work/table" "$work/expected"
}
check "headings, words and terms make the table" table

each_said() {
    "$trireme" plan --num-layer 3 --swiglu --hidden-size x 2>"$work/err" && return 1
    [ "$(grep -c '^trireme: error: --' "$work/err")" = 3 ] &&
        grep -q '^trireme: error: 3 options will not do' "$work/err"
}
check "each wrong option has its line" each_said
both_said() {
    "$trireme" plan --machine --num-layer 3 --json=on 2>"$work/err" && return 1
    grep -q 'error: --machine needs a value' "$work/err" &&
        grep -q 'error: --json takes no value' "$work/err" &&
        grep -q 'error: 3 options will not do' "$work/err"
}
check "also of two tables" both_said
