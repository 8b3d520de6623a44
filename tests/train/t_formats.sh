#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Logs of real runs in each --log-format: public programs read the right numbers out of them.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 21

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
check "a run of megatron-core without tables" run megatron-core --log-arguments
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

# A loss that is not a number: the run goes on with the option for it, and says so.
fails "not a number" 0 "number of nan iterations:   2" \
    small 1 --train-iters 6 --log-interval 2 --lr 1e30 --lr-warmup-fraction 0 \
    --clip-grad 1e30 --no-check-for-nan-in-loss-and-grad

# In half precision with a scale that is too large: it falls at once by halves, and a skipped
# iteration has neither loss nor norm.
half() {
    small 2 --tensor-model-parallel-size 2 --train-iters 12 --fp16 --initial-loss-scale 67108864 \
        --hysteresis 1
}
check "a run in half precision" half
echo "$tap_out" > "$work/half"
falls() {
    grep '^ iteration' "$work/half" | awk -F '|' 'function after(label,  i) {
            for (i = 1; i <= NF; i++) if (index($i, label)) { sub(/.*: */, "", $i); return $i + 0 }
            return -1
        }
        BEGIN { scale = 67108864; rate = 0 }
        {
            loss = after("lm loss:"); norm = after("grad norm:"); now = after("loss scale:")
            skipped = after("skipped iterations:"); next_rate = after("learning rate:")
            if (skipped) { skips++; bad += now != scale / 2 || loss >= 0 || norm >= 0 }
            else { steps++; bad += now != scale || loss <= 0 || norm <= 0 }
            bad += skipped && next_rate != rate
            scale = now; rate = next_rate
        }
        END { print skips " skipped, " steps " done, " bad + 0 " wrong"; exit bad || !skips || !steps }'
}
check "its scale, its skipped iterations, its rate" falls
echo "$tap_out" | sed 's/^/# /'
