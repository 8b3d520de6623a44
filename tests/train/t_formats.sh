#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Logs of real runs in each --log-format: public programs read the right numbers out of them.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 19

check "a dataset is built" small_corpus
run() {
    small 2 --pipeline-model-parallel-size 2 --train-iters 6 --log-interval 2 --log-throughput \
        --log-format "$@"
}
parsers() { perl "$srcdir/tests/train/parsers.pl" "$1" "$work/$1" "$srcdir/tests/train/parsers.txt"; }
for format in megatron megatron-core megatron-deepspeed; do
    check "a run: $format" run "$format" --timing-log-level 2
    echo "$tap_out" > "$work/$format"
    check "public programs read it: $format" parsers "$format"
    echo "$tap_out" | sed 's/^/# /'
done

# numbers LOG LABEL: what follows the label in each iteration line.
numbers() { sed -n "s/^ .*iteration .*$2 *\([^ ]*\) |.*/\1/p" "$work/$1"; }
same() { [ "$1" = "$2" ] || { echo "$1 / $2"; return 1; }; }
iterations() { sed -n 's/^ .*iteration *\([0-9]*\)\/.*/\1/p' "$work/$1" | tr '\n' ' '; }
check "lines where each version has them" same \
    "$(iterations megatron), $(iterations megatron-core), $(iterations megatron-deepspeed)" \
    "2 4 6 , 1 2 4 6 , 2 4 6 "
check "the extra line ends no interval" same \
    "$(numbers megatron 'lm loss:')" "$(numbers megatron-core 'lm loss:' | sed 1d)"
check "the formula is named once" same "$(grep -c '^> TFLOP/s by the formula core' \
    "$work/megatron-core") $(grep -c '^> TFLOP/s by the formula sc21' "$work/megatron")" "1 1"

# With no option of timers, megatron has the line of 2021, and megatron-core nothing.
check "a run without tables" run megatron --timing-log-option minmax
check "the line of 2021" same "$(echo "$tap_out" | grep -c '^time (ms) | forward-compute')" 3
check "a run of megatron-core without tables" run megatron-core
check "tables of set-up only" same "$(echo "$tap_out" | grep -c 'time across ranks')" 1
check "memory in theory, then of each rank, then every third iteration" run megatron-core \
    --log-memory-interval 3
echo "$tap_out" > "$work/memory"
check "that order" same "$(sed -n 's/^Theor.*/theory/p; s/.*(after \([0-9]*\) iter.*/\1/p' \
    "$work/memory" | tr '\n' ' ')" "theory 1 1 3 3 6 6 "

check "a run that keeps a record of its jobs" run megatron --log-progress --save "$work/save" \
    --save-interval 3
check "start and checkpoints" same "$(sed 's/.*# GPUs: 2.//; s/.Job thr.*//' \
    "$work/save/progress.txt" | tr '\t\n' ' ,')" \
    "Starting job,Saved checkpoint Iteration: 3,Saved checkpoint Iteration: 6,"

# A loss that is not a number: the run goes on when told so, and says so.
fails "not a number" 0 "number of nan iterations:   2" \
    small 1 --train-iters 6 --log-interval 2 --lr 1e30 --lr-warmup-fraction 0 \
    --clip-grad 1e30 --no-check-for-nan-in-loss-and-grad
