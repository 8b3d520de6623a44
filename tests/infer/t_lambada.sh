#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Final words of passages, JSON lines in the format of LAMBADA, as a loop with transformers' model
# of the same folder has them (tests/golden/make_lambada.py): on one rank, and with tensor and
# pipeline parallelism.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 7

golden=$srcdir/tests/golden
check "weights are imported" "$trireme" ckpt import --from "$golden/lambada" --save "$work/run"

# words NAME RANKS OPTION...: final words; results in NAME.json.
words() {
    words_name=$1 words_ranks=$2
    shift 2
    ranks "$words_ranks" "$trireme" eval --load "$work/run" --tokenizer-type bytes --lambada "$golden/lambada.jsonl" \
        --json "$work/$words_name.json" "$@"
}
number() { sed -n "s/.*\"$2\":\([-0-9.e+]*\)[,}].*/\1/p" "$work/$1.json"; }
# As many passages, right ones and tokens; and the perplexity of a word to 1e-4: the mean of -log p
# is 26, so it is to 4e-6.
same() {
    echo "$(number "$1" passages) $(number "$1" correct) $(number "$1" counted) $(number "$1" perplexity)" |
        cat "$golden/lambada.txt" - | awk '
        NR == 1 { for (i = 1; i <= 4; i++) want[i] = $i }
        NR == 2 { d = $4 / want[4] - 1; exit NF != 4 || $1 != want[1] || $2 != want[2] || $3 != want[3] || d * d > 1e-8 }'
}
check "on one rank" words one 1
check "it is what transformers' model says" same one
check "TP 2, PP 2" words four 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --micro-batch-size 5
check "it is the same" same four
check "two replicas, three at a time" words two 2 --micro-batch-size 3
check "it is the same there" same two
