#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# No number of an option is an assertion: plan and train --dry-run answer, or refuse in a sentence.
. "$srcdir/tests/tap.sh"
plan 4
TRIREME_MACHINES=$srcdir/machines
export TRIREME_MACHINES

small="--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64
    --max-position-embeddings 64 --vocab-size 300 --micro-batch-size 1 --global-batch-size 8
    --train-iters 10 --lr 1e-4"

# 0 it answers, 64 it refuses, 69 there is no room; nothing else is an answer, nor is a place in a
# source.
# shellcheck disable=SC2086 # words
tried() {
    timeout 60 "$trireme" $1 $small $2 >"$work/text" 2>"$work/errors"
    code=$?
    case $code in 0 | 64 | 69) ;; *) echo "$1 $2: exit $code"; cat "$work/errors"; return 1 ;; esac
    if grep -q 'please report it' "$work/errors"; then
        cat "$work/errors"
        return 1
    fi
    [ $code -ne 64 ] || [ -s "$work/errors" ] || { echo "$1 $2: no sentence"; return 1; }
}

# VERB OPTIONS...: each of them is tried, and all that fail are shown.
all() {
    verb=$1
    shift
    bad=0
    for more in "$@"; do
        tried "$verb" "$more" || bad=1
    done
    return $bad
}
wide="--num-attention-heads 1000000000 --hidden-size"
long="--seq-length 1000000000 --max-position-embeddings"
for verb in "plan --machine selene-a100" "train --dry-run --mock-data"; do
    check "products of large numbers: $verb" all "$verb" \
        "--hidden-size 1000000000" "$wide 1000000000" "$wide 2000000000" \
        "$wide 2000000000 --num-layers 2147483647" "--ffn-hidden-size 2147483647" \
        "$long 2147483647" "$long 1000000000 --micro-batch-size 1000000 --global-batch-size 8000000" \
        "--micro-batch-size 2147483647 --global-batch-size 2147483647" \
        "--global-batch-size 2147483647" "--vocab-size 2147483647" \
        "--vocab-size 2147483647 --make-vocab-size-divisible-by 2147483647" \
        "--vocab-size 2147483647 --hidden-size 1073741824 --num-attention-heads 1" \
        "--num-layers 2147483647" "--train-iters 2147483647" "--ddp-bucket-size 2147483647" \
        "--hidden-size 1048576 --num-attention-heads 1" \
        "--hidden-size 1048576 --num-attention-heads 1 --ddp-bucket-size 1"
done
# Each option that takes a number, by itself; a prime divides no product of others.
names=$(awk '/^OPT\(/ { row = $0; if (row !~ /"/) { getline; row = row $0 }
                        if (row ~ /, *(INT|REAL|MINUTES),/) { split(row, part, "\""); print part[2] } }' \
    "$srcdir/src/config/options.def")
each() {
    bad=0
    for name in $names; do
        for number in $1; do
            tried "plan" "--$name $number" || bad=1
        done
    done
    return $bad
}
check "small numbers of every option" each "0 3"
check "large numbers of every option" each 2147483647
