#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the scripts of this folder.
export TR_BENCHMARK=1 # for tests/mpirun

# fail SENTENCE CODE
fail() {
    echo "$(basename "$0"): $1" >&2
    exit "$2"
}

# number WHAT WORD: a whole number above 0.
number() {
    case $2 in
    '' | *[!0-9]* | 0) fail "$1 needs a number, not '$2'" 64 ;;
    esac
}

# rounds_and_folder WORD...: what [ROUNDS [FOLDER]] in front of options says, as $rounds (5) and
# $folder (the current one), and as $words how many words it was.
rounds_and_folder() {
    rounds=5 folder=$PWD words=0
    case ${1:-} in
    '' | --*) return ;;
    *) number ROUNDS "$1"; rounds=$1 words=1 ;;
    esac
    # shellcheck disable=SC2034 # for the caller
    case ${2:-} in
    '' | --*) ;;
    /*) folder=$2 words=2 ;;
    *) fail "FOLDER is a path that begins with /, and '$2' does not" 64 ;;
    esac
}

# The median of the numbers on stdin, one a line, one for each of the $rounds.
median() {
    sort -g | awk -v wanted="$rounds" -v name="$(basename "$0")" '
        { x[NR] = $1 }
        END {
            if (NR != wanted) { print name ": " NR + 0 " times were measured" >"/dev/stderr"; exit 70 }
            print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2
        }'
}
