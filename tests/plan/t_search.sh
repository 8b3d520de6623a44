#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# `trireme plan --search`: its words, its tables and its JSON; t_pareto.c has its results.
. "$srcdir/tests/tap.sh"
plan 19
TRIREME_MACHINES=$srcdir/machines
export TRIREME_MACHINES

same() { [ "$1" = "$2" ] || { echo "'$1' / '$2'"; return 1; }; }
has() { grep -qE -e "$1" "$work/text" || { cat "$work/text"; return 1; }; }

model="--num-layers 12 --hidden-size 2048 --num-attention-heads 16 --seq-length 512 --max-position-embeddings 512
    --vocab-size 50257 --global-batch-size 32 --micro-batch-size 1 --fp16 --world-size 8"
search() { "$trireme" plan --machine jean-zay-v100-32g $model --search "$@" > "$work/text" 2> "$work/errors"; }

check "a search" search
check "how many were looked at" has '^[0-9]+ combinations: [0-9]+ refused, [0-9]+ with too many parameters, memory of [0-9]+ counted'
check "the fastest per sample first" sh -c "sed -n 's/^ *8 *32 *[0-9.]* *\([0-9.]*\) .*/\1/p' '$work/text' | sort -gr -c"
check "and the smallest last" sh -c "sed -n 's/^ *8 *32 *[0-9.]* *[0-9.]* *\([0-9]*\) .*/\1/p' '$work/text' | sort -gr -c"
check "a neighbour that is slower, and why" has '^  --.* % slower: [a-z-]+ takes [0-9]+ ms more; [0-9]+ MiB$'
check "one that is refused, and why" has '^  --.* refused: .*--'
check "hours of a known number of tokens" has 'GPU-hours of 10\^9 tokens'
check "with a length" search --train-iters 1000 --lr 1e-4
check "hours of the run" has 'GPU-hours of the run'
check "numbers of GPUs and batches" search --search-gpus 8-32 --search-global-batch 32,64
check "all of them are compared" same "$(sed -n 's/^ *\([0-9]*\) *\(32\|64\) *[0-9.]* *[0-9.]* .*/\1/p' "$work/text" | sort -gu | tail -n 1)" 32
search --search-keep micro-batch-size recompute-granularity
check "what is kept is not said" sh -c "! grep -E -e '--micro-batch-size|--recompute' '$work/text'"
search --json
check "JSON" same "$(python3 -c "
import json
x = json.load(open('$work/text'))
r = x['pareto']
print(all(a['seconds'] < b['seconds'] and a['bytes'] > b['bytes'] for a, b in zip(r, r[1:])), len(r) > 2,
      x['combinations'] > x['refused'] + x['too_large'], {'option', 'reason'} == set(x['rejected'][0]))")" "True True True True"
# The study of 76B has 60 layers on 32 stages.
by_turns() { "$trireme" plan --machine jean-zay-v100-16g @"$srcdir/jobs/models/study-76b.args" --fp16 --vocab-size 50257 --world-size 128 \
    --search > "$work/text" 2>&1 && grep -q '^ *128 *4 ' "$work/text"; }
check "stages that were asked for, though they do not divide the layers" by_turns
fails "a batch that no number of replicas divides" 64 "is a run, the last for this reason: --global-batch-size 3 is not a multiple" \
    "$trireme" plan --machine jean-zay-v100-32g $model --world-size 1 --global-batch-size 3 --num-layers 1 --search --search-gpus 32
fails "no machine" 64 "give its profile with --machine" "$trireme" plan $model --search
fails "a list that is none" 64 "is no list of up to 16 whole numbers" \
    "$trireme" plan --machine jean-zay-v100-32g $model --search --search-gpus x
fails "words of a search without it" 64 "are about --search" "$trireme" plan $model --search-gpus 8
fails "nothing to keep" 64 "a search does not change it" \
    "$trireme" plan --machine jean-zay-v100-32g $model --search --search-keep lr
