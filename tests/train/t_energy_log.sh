#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# --log-energy: joules of an iteration, watts and joules of a token in the log, in JSON lines and in
# a report.  The node uses 2 J between two looks (tests/train/powercap.c), so numbers follow from
# how often one looks.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"

${CC:-cc} -shared -fPIC -D_GNU_SOURCE -o "$work/powercap.so" "$srcdir/tests/train/powercap.c" -ldl \
    > "$work/cc.log" 2>&1 || skip_all "no shared library can be made: $(head -n 1 "$work/cc.log")"
plan 7
unset SLURM_JOB_ID SLURM_JOB_END_TIME
check "a dataset is built" small_corpus

is() { [ "$1" = "$2" ] || { echo "it is: $1"; return 1; }; }
counted() {
    env LD_PRELOAD="$work/powercap.so" ASAN_OPTIONS="verify_asan_link_order=0" TR_TEST_RANKS=2 \
        "$srcdir/tests/mpirun" --ranks 2 "$trireme" train --num-layers 2 --hidden-size 16 --num-attention-heads 2 \
        --seq-length 16 --max-position-embeddings 16 --tokenizer-type bytes \
        --data-path "$work/corpus_text_document" --split 90,5,5 --micro-batch-size 1 --global-batch-size 8 --lr 0.002 \
        --train-iters 8 --lr-warmup-fraction .1 --log-interval 2 --eval-interval 4 --eval-iters 1 --threads 1 \
        --log-energy --log-jsonl "$work/jsonl" > "$work/log" 2>&1
}
check "two ranks of a node, of which one counts" counted
# 2 J in an interval, 4 J in the one with an evaluation, whose own are left out: halved by ranks and
# by iterations.
fields() { sed -n 's/.*energy per GPU (J.iter.GPU): \([^ ]*\) .*energy per token (J.token): \([^ ]*\) .*/\1 \2/p' "$work/log"; }
check "in the log" is "$(fields)" "0.5 7.812E-03
0.5 7.812E-03
1.0 1.562E-02
0.5 7.812E-03"
json() { grep -o '"joules": [0-9.]*, "joules_per_token": [0-9.]*' "$work/jsonl" | sed -n '1p;3p'; }
check "in JSON lines" is "$(json)" '"joules": 2.0, "joules_per_token": 0.0078125
"joules": 4.0, "joules_per_token": 0.015625'
report() {
    "$trireme" report "$work/log" --show summary --format json | grep -o '"joules[a-z_]*": [0-9.]*'
}
check "in a report, as medians" is "$(report)" '"joules": 0.5
"joules_per_token": 0.007812'

if [ -e /sys/class/powercap/intel-rapl:0 ]; then
    skip "refused where nothing counts" "this machine has RAPL"
else
    fails "refused where nothing counts" 69 "there is no zone of RAPL" small 2 --train-iters 2 --log-energy
fi
fails "a source, and nothing to count" 64 "says what --log-energy counts by" small 2 --train-iters 2 --energy-source rapl
