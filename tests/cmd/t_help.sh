#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Asking the program: one option, a group of options, words; and the message about several wrong
# options.
# shellcheck source=tests/tap.sh
. "${srcdir:?}/tests/tap.sh"
plan 49

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

# What is asked for and is not here is answered with a term, an option or a refusal that says what
# to do.
first() { # WORDS RESULT: a regular expression for the first line
    "$trireme" help --search "$1" >"$work/out" || return 1
    cat "$work/out"
    head -n 1 "$work/out" | grep -q -e "$2"
}
while IFS='|' read -r words result; do
    check "the first result of $words" first "$words" "$result"
done <<'END'
gqa|^term    grouped-query attention (GQA):
toml|^term    argument file:
mlflow|^term    experiment tracker (MLflow, W&B):
early stopping|^term    early stopping:
oom|^term    out of memory (OOM):
lora|^term    LoRA, adapters (PEFT):
moe|^term    mixture of experts (MoE):
rotary-base|^term    ALiBi, RoPE:
END
text='^option  --moe-layer-freq (train) and [0-9]* more:'
check "options refused for one reason are one result" says "$trireme" help --search moe

# Results of each word of a term or an option: what is refused is last; before it a text with the
# whole word is not behind one with a part of it, nor a term behind an option that has the word as
# well.  Only the lines of terms and options have all of their texts.
"$trireme" help train | grep -oE '^[+ ] --[a-z0-9-]+' | tr -cs 'a-z0-9' '\n' >"$work/words"
sed 's/\\|/ /g' "$srcdir/docs/glossary.md" | awk -F '|' '/^\|/ { print tolower($2) }' | tr -cs 'a-z0-9' '\n' >>"$work/words"
ranked() {
    [ "$(sort -u "$work/words" | grep -c '..')" -gt 300 ] || return 1
    sort -u "$work/words" | grep '..' | while read -r word; do
        echo "== $word"
        "$trireme" help --search "$word" 2>/dev/null
    done | awk '
        function judge(kind, of, text, rank) {
            if (line == "")
                return
            text = tolower(line)
            if (text ~ /^option/)
                sub(/ \([a-z]+\)( and [0-9]+ more)?:/, ":", text)
            gsub(/[-_]/, " ", text)
            kind = substr(line, 1, 6)
            sub(/^[a-z]+ +/, "", text)
            of = text ~ ("(^|[^a-z0-9])" word "([^a-z0-9]|$)") ? 0 : text ~ ("(^|[^a-z0-9])" word) ? 1 : 2
            rank = line ~ /: +refused: / ? 100 : kind == "term  " ? 10 * of : 10 * of + 1
            if (kind ~ /term|option/ && line !~ /: +accepted with/) {
                if (rank < last)
                    print word ": rank " rank " behind " last ": " line
                last = rank
                results++
            }
            line = ""
        }
        /^== / { judge(); word = $2; last = 0; next }
        /^[a-z]/ { judge(); line = $0; next }
        /^$/ { judge(); next }
        /^ / { sub(/^ +/, " "); line = line $0 }
        END { judge(); print results + 0 " results"; }' >"$work/ranks"
    cat "$work/ranks"
    awk '/ results$/ { n = $1; next } { bad = 1 } END { exit bad || n < 1000 }' "$work/ranks"
}
check "whole words first, then terms, options, and what is refused" ranked

# What a first run needs stands first, and the marks are explained before they are used.
begins() {
    "$trireme" help $1 >"$work/out" || return 1
    sed -n "$2p" "$work/out"
    [ "$(sed -n "$2p" "$work/out")" = "The 25 options of train that one needs" ] &&
        sed -n "$(($2 + 2))p" "$work/out" | grep -q '^+ marks an option that Megatron-LM does not have' &&
        [ "$(sed -n "$(($2 + 4)),/^.\?trireme help\|^All options/p" "$work/out" | grep -c '^[+ ] --')" = 25 ]
}
check "help begins with 25 options" begins "" "$("$trireme" help | grep -n '^The 25' | cut -d : -f 1)"
check "help train, too" begins train 3
check "the verbs stand before them" sh -c "'$trireme' help | head -n 3 | grep -q '^  train '"
same_help() {
    "$trireme" help train | awk '/^The 25/ { on = 1 } /^All options/ { on = 0 } on && /^[+ ] --/ { print $0 }' |
        sed 's/^. \(--[a-z0-9-]*\).*/\1/' >"$work/first"
    grep -c . "$work/first"
    "$trireme" help train | sed '1,/^All options/d' | sed -n 's/^. \(--[a-z0-9-]*\).*/\1/p' | sort >"$work/all"
    [ "$(sort "$work/first" | comm -12 - "$work/all" | grep -c .)" = 25 ]
}
check "each of them is in the whole list" same_help
text='^+ marks an option'
check "a group explains the marks" says "$trireme" help train machine
last_mark() { ! "$trireme" help train machine | tail -n 1 | grep -q '^+ '; }
check "and not at its end" last_mark

# The tables of pages and folders, made of pages of our own.
cat >"$work/glossary.md" <<'END'
# Words
Here is `--seed`.
| term | meaning here | option | paper |
|---|---|---|---|
| bubble | Time in which a "stage" waits. And more. | `--x`, `trireme y` | none |
| a\|b | one \| two [y.md](y.md) | – | |
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
TERM("bubble", "Time in which a \"stage\" waits. [--x, trireme y]")
TERM("a|b", "one | two (docs/y.md)")
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
