#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The program around its verbs: help, version, what is said to a wrong word, and how it ends.
# shellcheck source=tests/tap.sh
. "${srcdir:?}/tests/tap.sh"
plan 18

says() { "$@" >"$work/out" && grep -q -e "$text" "$work/out"; }
verbs=$("$trireme" help | awk '/^  [a-z]/ { print $1 }')

fails "alone it shows its usage" 64 "usage: trireme VERB" "$trireme"
fails "a wrong verb is answered with the nearest one" 64 \
    "trireme: error: 'verison' is no verb of trireme; did you mean version?" "$trireme" verison
fails "a strange word is answered with the list" 64 "\`trireme help\` lists them" "$trireme" quux
fails "a wrong option of the program too" 64 "is no verb" "$trireme" --verbose
fails "help of a wrong verb" 64 "did you mean help?" "$trireme" help hlep
fails "help of a wrong group" 64 "no group of options 'x'" "$trireme" help version x
fails "version takes nothing" 64 "not 'x'" "$trireme" version x

text='^usage: trireme VERB'
check "--help is help" says "$trireme" --help
text='^trireme [0-9]*\.[0-9]*\.[0-9]'
check "--version is version" says "$trireme" --version

# Every verb explains itself, the same in three ways.
each_verb() {
    for verb in $verbs; do
        "$trireme" help "$verb" >"$work/a" && "$trireme" "$verb" --help >"$work/b" &&
            "$trireme" "$verb" x -h y >"$work/c" || return 1
        cmp "$work/a" "$work/b" && cmp "$work/a" "$work/c" || return 1
        grep -q "^trireme $verb" "$work/a" || return 1
    done
}
check "each verb explains itself" each_verb
each_page() {
    for verb in trireme $verbs; do
        "$trireme" help --man "$verb" >"$work/$verb.1" || return 1
        for section in NAME SYNOPSIS DESCRIPTION 'EXIT STATUS' 'SEE ALSO'; do
            grep -q "^.Sh $section" "$work/$verb.1" || return 1
        done
    done
}
check "each verb has a page" each_page

# /dev/full takes nothing.
full() { "$trireme" version >/dev/full; }
if [ -c /dev/full ]; then
    fails "output that cannot be written is an error" 74 "standard output: No space left on device" full
else
    skip "output that cannot be written is an error" "no /dev/full"
fi

reply_to() {
    bash -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _trireme
             echo "${COMPREPLY[*]}"' bash "$work/completion" "$@"
}
completes() {
    expected=$1
    shift
    got=$(reply_to "$@")
    [ "$got" = "$expected" ] || { echo "got: $got"; return 1; }
}
"$trireme" help --completion >"$work/completion"
if command -v bash >/dev/null 2>&1; then
    check "verbs are completed" completes version trireme ve
    check "so are the verbs that help explains" completes version trireme help ve
    check "so are options" completes --output-prefix trireme data --output
    check "and those of training where they may stand" completes --hidden-size trireme plan --hidden-s
    check "beside the verb's own" completes --sweep-tensor trireme sweep --sweep-te
    check "and their values" completes 'single cyclic' trireme plan --dataloader-type ''
else
    skip "verbs are completed" "no bash"
    skip "so are the verbs that help explains" "no bash"
    skip "so are options" "no bash"
    skip "and those of training where they may stand" "no bash"
    skip "beside the verb's own" "no bash"
    skip "and their values" "no bash"
fi
