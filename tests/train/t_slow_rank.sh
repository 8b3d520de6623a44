#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# --slow-rank-percent: a rank that computes 20 % longer than the others is named in the log, in
# RUN/state and in a report, within five iterations, and so is its recovery; healthy ranks are not.
# The processor time of the ranks is what tests/train/clock.c says, on any machine.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"

${CC:-cc} -shared -fPIC -D_GNU_SOURCE -o "$work/clock.so" "$srcdir/tests/train/clock.c" -ldl \
    > "$work/cc.log" 2>&1 || skip_all "no shared library can be made: $(head -n 1 "$work/cc.log")"
plan 14
unset SLURM_JOB_ID SLURM_JOB_END_TIME
check "a dataset is built" small_corpus

# clocked LOG VARIABLES OPTION...: four ranks on that clock.
clocked() {
    log=$work/$1.log variables=$2
    shift 2
    # shellcheck disable=SC2086
    env LD_PRELOAD="$work/clock.so" ASAN_OPTIONS="verify_asan_link_order=0" $variables TR_TEST_RANKS=4 \
        "$srcdir/tests/mpirun" --ranks 4 "$trireme" train --num-layers 2 --hidden-size 16 \
        --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --tokenizer-type bytes \
        --data-path "$work/corpus_text_document" --split 90,5,5 --micro-batch-size 1 --global-batch-size 8 \
        --lr 0.002 --train-iters 12 --lr-warmup-fraction .1 --eval-interval 1000 --eval-iters 0 \
        --log-interval 1 --threads 1 "$@" > "$log" 2>&1
}
host=$(uname -n)
named() { grep -o 'slow rank.*at iteration [0-9]*' "$work/$1.log"; }
is() { [ "$1" = "$2" ] || { echo "it is: $1"; return 1; }; }
state() { sed -n 's/^  "slow_ranks": "\(.*\)",$/\1/p' "$work/$1/state"; }

check "tensor and data ranks, one of them slow" clocked slow "TR_SLOW_RANK=2" \
    --tensor-model-parallel-size 2 --save "$work/slow"
check "is named once, after three iterations" is "$(named slow)" \
    "slow rank 2 on $host: computes 20.0 % longer than the median of its 3 peers in 3 intervals in a row, at iteration 3"
check "and in the state" is "$(state slow)" "rank 2 on $host (20.0 % longer)"
status() { "$trireme" ctl "$work/slow" status | sed -n 's/^slow ranks: *//p'; }
check "which ctl shows" is "$(status)" "rank 2 on $host (20.0 % longer)"
report() { "$trireme" report "$work/$1.log" --show slow --format csv | tr -d '\r'; }
check "and in a report" is "$(report slow)" "log,rank,where,percent,iteration,event
slow.log,2,$host,20,3,slow"
shown() { "$trireme" report "$work/slow.log" | grep -A 2 '^Slow ranks'; }
check "unasked" shown

check "pipeline and data ranks, one slow for a while" clocked while "TR_SLOW_RANK=1 TR_SLOW_UNTIL=500" \
    --pipeline-model-parallel-size 2 --save "$work/while" --slow-rank-intervals 2
recovered() {
    named while > "$work/events"
    cat "$work/events"
    grep -q "^slow rank 1 on $host: computes [0-9.]* % longer than the median of its 1 peer in 2 intervals" \
        "$work/events" && [ "$(grep -c "^slow rank 1" "$work/events")" -eq 2 ] &&
        grep -q "> no longer slow rank 1 on $host: computes as long as its peers in 2 intervals in a row" \
            "$work/while.log" && [ "$(wc -l < "$work/events")" -eq 2 ]
}
check "is named when it begins and when it ends" recovered
check "and no longer in the state" is "$(state while)" ""
both() { report while | cut -d , -f 2,6; }
check "and twice in a report" is "$(both)" "rank,event
1,slow
1,no longer slow"

check "healthy ranks" clocked healthy "A=b" --tensor-model-parallel-size 2
check "are not named" is "$(named healthy)" ""
off() { clocked off "TR_SLOW_RANK=2" --tensor-model-parallel-size 2 --slow-rank-percent 0 && [ -z "$(named off)" ]; }
check "nor is anybody with --slow-rank-percent 0" off
