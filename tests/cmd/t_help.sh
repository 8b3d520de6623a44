#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Asking the program: one option, a group of options, words; and the message about several wrong options.
# shellcheck source=tests/tap.sh
. "${srcdir:?}/tests/tap.sh"
plan 33

says() { "$@" >"$work/out" && grep -q -e "$text" "$work/out"; }

text='samples that one rank computes at once'
check "an option by its name" says "$trireme" help --micro-batch-size
check "the same of its verb" says "$trireme" help train --micro-batch-size
check "and of another verb that takes it" says "$trireme" help plan --micro-batch-size
text='docs: tutorial.md'
check "which page names it" says "$trireme" help --micro-batch-size
text='^    refused: '
check "one that is refused says why" says "$trireme" help --quick-geglu
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
text='^option  --pipeline-schedule (train)'
check "words of one argument also with hyphens between them" says "$trireme" help --search "zero bubble"
text='^option  --model-family llama3 (train)'
check "families are found by a word" says "$trireme" help --search llama
text='^      mistral        Mistral 7B: '
check "and listed with their option" says "$trireme" help --model-family
text='^ *mistral: Mistral 7B: '
check "and in their group" says "$trireme" help train model
text='^docs    numerics.md: '
check "and pages" says "$trireme" help --search dropout
text='^verb    plan: '
check "and verbs" says "$trireme" help --search memory gpu-hours
fails "a word that is nowhere" 64 "no option, verb, term, folder or page has this word" \
    "$trireme" help --search quetzalcoatl
fails "--search wants a word" 64 "usage: trireme help" "$trireme" help --search

# Searches of a newcomer, each of which leads to an option, a page and a folder of the sources.
leads() { # WORDS OPTION PAGE FOLDER
    # shellcheck disable=SC2086 # a list of words
    "$trireme" help --search $1 >"$work/out" || return 1
    cat "$work/out"
    grep -q -e "^option  $2 (" "$work/out" && grep -q "^docs    $3:" "$work/out" && grep -q "^folder  $4:" "$work/out"
}
while read -r option page folder words; do
    check "search: $words" leads "$words" "$option" "$page" "$folder"
done <<'END'
--global-batch-size schedules.md src/train gradient accumulation
--use-distributed-optimizer numerics.md src/dp ZeRO
--recompute-granularity numerics.md src/model activation checkpointing
--quant-bits numerics.md src/codec quantization
--dp-mode numerics.md src/dp error feedback
--dp-mode numerics.md src/dp local SGD
--sequence-parallel numerics.md src/tp sequence parallelism
--tokenizer-type slow-networks.md src/token tokenizer
--timing-log-option bench.md src/bench straggler
--dry-run plan.md src/train dry run
END

# The tables of pages and folders, made of pages of our own.
cat >"$work/glossary.md" <<'END'
# Words
Here is `--seed`.
| term | meaning here | option | paper |
|---|---|---|---|
| bubble | Time in which a "stage" waits. And more. | `--x` | none |
| a\|b | one \| two | | |
END
cat >"$work/CONTRIBUTING.md" <<'END'
# Work
| folder | what it has |
|---|---|
| `src/here` | one `thing`, another |

| to add | touch |
|---|---|
| a test | a file in `src/here` |
END
table() {
    "${AWK:-awk}" -v folder=/here -f "$srcdir/build-aux/pages.awk" "$work/glossary.md" "$work/CONTRIBUTING.md" \
        >"$work/table"
    cat >"$work/expected" <<'END'
FOLDER("/here")
TERM("bubble", "Time in which a \"stage\" waits.")
TERM("a|b", "one | two")
PAGE("glossary.md", "Words", " here --seed ")
SOURCE("src/here", "one thing, another")
END
    cmp "$work/table" "$work/expected"
}
check "headings, words, terms and folders make the table" table

each_said() {
    "$trireme" plan --num-layer 3 --quick-geglu --hidden-size x 2>"$work/err" && return 1
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
