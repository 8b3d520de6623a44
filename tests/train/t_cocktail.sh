#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# Replicas that differ: a run that stops and resumes is the run that never stopped, in every layout
# of four ranks; whether exchange and computation overlap changes nothing; and what a user can get
# wrong.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 57

check "a dataset is built" small_corpus
cocktail="--dp-mode cocktail_sgd --quant-bits 4 --topk-ratio .2 --randomp-ratio .1 --train-warmup-steps 2
    --check-replicas-interval 1"

# whole NAME OPTION...: ten iterations at once, and its losses.
whole() {
    whole_name=$1
    shift
    small 4 "$@" --train-iters 10 --save "$work/$whole_name" > "$work/$whole_name.log" 2>&1 ||
        { cat "$work/$whole_name.log"; return 1; }
    losses "$work/$whole_name.log" 10 > "$work/$whole_name.losses"
    [ "$(wc -l < "$work/$whole_name.losses")" = 10 ] && sums "$work/$whole_name" > "$work/$whole_name.sums"
}

# half NAME STOP OPTION...: STOP iterations, then the rest.
half() {
    half_name=$1.half half_stop=$2
    shift 2
    small 4 "$@" --train-iters 10 --exit-interval "$half_stop" --save "$work/$half_name" \
        > "$work/$half_name.log" 2>&1 || { cat "$work/$half_name.log"; return 1; }
    # Not in the folder of --save, so that others can begin from there, too.
    small 4 "$@" --train-iters 10 --load "$work/$half_name" --save "$work/$half_name.more" \
        > "$work/$half_name.more.log" 2>&1 || { cat "$work/$half_name.more.log"; return 1; }
    cat "$work/$half_name.log" "$work/$half_name.more.log" > "$work/$half_name.all"
    losses "$work/$half_name.all" 10 > "$work/$half_name.losses"
    sums "$work/$half_name.more" > "$work/$half_name.sums"
}

# How many files of ranks there are.
rank_files() { find "$1" -name 'rank-0000[0-3].replica' | wc -l; }

# resumes NAME OPTION...: after a stop.  goes_on NAME OPTION...: from a checkpoint of the run
# itself.
resumes() {
    resumes_name=$1
    shift
    whole "$resumes_name" "$@" && half "$resumes_name" 5 "$@" && is_whole
}
goes_on() {
    resumes_name=$1
    shift
    whole "$resumes_name" "$@" --save-interval 5 || return 1
    small 4 "$@" --train-iters 10 --load "$work/$resumes_name" --ckpt-step 5 --save "$work/$resumes_name.half" \
        > "$work/$resumes_name.more.log" 2>&1 || { cat "$work/$resumes_name.more.log"; return 1; }
    { head -n 5 "$work/$resumes_name.losses"; losses "$work/$resumes_name.more.log" 10; } > "$work/$resumes_name.half.losses"
    sums "$work/$resumes_name.half" > "$work/$resumes_name.half.sums"
    is_whole
}
is_whole() {
    diff "$work/$resumes_name.losses" "$work/$resumes_name.half.losses" &&
        [ -s "$work/$resumes_name.sums" ] &&
        diff "$work/$resumes_name.sums" "$work/$resumes_name.half.sums"
}
check "four replicas resume with the same bits" resumes d4 $cocktail
check "two replicas of two stages, too" resumes d2p2 $cocktail --pipeline-model-parallel-size 2 \
    --random-method random_wo_replacement
check "two replicas of two tensor ranks go on" goes_on d2w2 $cocktail --quant-bits 8 \
    --tensor-model-parallel-size 2 --sequence-parallel --random-method random_w_replacement
check "with fp16, too" goes_on fp16 $cocktail --fp16 --initial-loss-scale 65536
check "with bf16 and chunks, too" goes_on bf16 $cocktail --bf16 --pipeline-model-parallel-size 2 \
    --num-virtual-stages-per-pipeline-rank 2
check "replicas that exchange nothing, too" goes_on local --dp-mode local --train-warmup-steps 1
check "without loss, too" goes_on exact --dp-mode cocktail_sgd --quant-bits 32 --topk-ratio 1 \
    --randomp-ratio 1

# The files of ranks belong to places, so the other order of ranks goes on with the same bits; other
# stages do not.
in_order() {
    small 4 $cocktail --pipeline-model-parallel-size 2 --random-method random_wo_replacement \
        --train-iters 10 --load "$work/d2p2.half" --save "$work/order" "$@" > "$work/order.log" 2>&1 ||
        { cat "$work/order.log"; return 1; }
}
other_order() {
    in_order --use-tp-pp-dp-mapping || return 1
    losses "$work/order.log" 10 > "$work/order.losses"
    tail -n 5 "$work/d2p2.losses" | diff - "$work/order.losses" &&
        sums "$work/order" | diff "$work/d2p2.sums" -
}
check "pipelines inside, too" other_order
other_stages() {
    rm -rf "$work/order"
    in_order --pipeline-model-parallel-layout 1,3 && cat "$work/order.log"
}
says_stages() { other_stages | grep -q 'all replicas begin with the weights of the checkpoint'; }
check "in stages of other sizes all begin alike" says_stages

# A killed run resumes from what it saved last.
killed() {
    (small 4 $cocktail --train-iters 100000 --save "$work/killed" --save-interval 3 --keep-last 2 \
        > "$work/killed.log" 2>&1) &
    killed_pid=$!
    saves "$work/killed" 1200
    for killed_rank in $(rank_pids $killed_pid); do kill -9 "$killed_rank"; done
    wait $killed_pid
    killed_at=$(cat "$work/killed/latest_checkpointed_iteration.txt")
    for killed_run in 1 2; do
        cp -r "$work/killed" "$work/killed.$killed_run"
        small 4 $cocktail --train-iters $((killed_at + 4)) --lr-decay-iters 100000 \
            --override-opt-param-scheduler --load "$work/killed.$killed_run" \
            --save "$work/killed.$killed_run" > "$work/killed.$killed_run.log" 2>&1 ||
            { cat "$work/killed.$killed_run.log"; return 1; }
        sums "$work/killed.$killed_run" > "$work/killed.$killed_run.sums"
    done
    [ "$(rank_files "$work/killed/iter_$(printf %07d "$killed_at")")" = 4 ] &&
        ! grep "all replicas begin" "$work/killed.1.log" &&
        cmp "$work/killed.1.sums" "$work/killed.2.sums"
}
check "a killed run goes on from its last checkpoint" killed

# The same losses as the run that is already there.
same_as() {
    same_name=$1
    shift
    whole "$same_name.again" "$@" && diff "$work/$same_name.losses" "$work/$same_name.again.losses" &&
        diff "$work/$same_name.sums" "$work/$same_name.again.sums"
}
check "without overlap: the same bits" same_as d4 $cocktail --no-overlap-round
check "without overlap, two stages: the same bits" same_as d2p2 $cocktail --no-overlap-round \
    --pipeline-model-parallel-size 2 --random-method random_wo_replacement
check "over a slow network: the same bits" same_as d4 $cocktail --distributed-backend slow \
    --slow-rate 10 --slow-latency 0.1

# The warm-up is that of a run which reduces gradients, and what follows is not.
warm() {
    whole plain && head -n 2 "$work/plain.losses" > "$work/two" &&
        head -n 2 "$work/d4.losses" | cmp - "$work/two" && ! cmp -s "$work/plain.losses" "$work/d4.losses"
}
check "two iterations of warm-up are those of allreduce" warm
close() { close_losses "$work/plain.losses" "$work/$1.losses" 0.02; }
check "losses stay near those of allreduce" close d4

# A batch of 8 is 4 micro-batches of each of 2 replicas: a sum is 8 times the mean, or 4 times where
# gradients stay with their replica.
summed() {
    summed_times=$1
    shift
    for summed_as in "" --sum-gradients; do
        small 2 "$@" $summed_as --train-iters 2 > "$work/summed$summed_as.log" 2>&1 || return 1
        losses "$work/summed$summed_as.log" 1 > "$work/summed$summed_as.losses"
        cat "$work/summed$summed_as.losses"
    done
    paste -d ' ' "$work/summed.losses" "$work/summed--sum-gradients.losses" | awk -v t="$summed_times" '
        { r = $6 / $3; good = NF == 6 && $2 == $5 && r > t * 0.999 && r < t * 1.001 }
        END { exit !good }'
}
check "gradients may be summed, as its authors do" summed 8
check "in replicas that differ, too" summed 4 --dp-mode local

# The files of ranks.
has_files() { [ "$(rank_files "$work/d4/iter_0000010")" = 4 ]; }
check "each rank keeps a file" has_files
verify() { "$trireme" ckpt verify "$@"; }
check "the checkpoint is whole" verify "$work/d4"
shown() {
    shown_bytes=$(cat "$work"/d4/iter_0000010/rank-* | wc -c)
    "$trireme" ckpt show "$work/d4" > "$work/shown" &&
        grep -q "^sidecar files of ranks  *4, $shown_bytes bytes$" "$work/shown" &&
        grep -q "^  rank-00003.replica .* bytes  tensor 1, pipeline 1, data 4, chunks 1, --dp-mode cocktail_sgd$" \
            "$work/shown"
}
check "it is shown with the files of ranks" shown
in_warm_up() {
    small 4 $cocktail --train-iters 2 --save "$work/early" > "$work/early.log" 2>&1 &&
        [ "$(rank_files "$work/early/iter_0000002")" = 0 ]
}
check "in the warm-up there are none" in_warm_up

# says TEXT OPTION...: a run that resumes and says so.
says() {
    says_text=$1 says_from=$2
    shift 2
    small 4 "$@" --train-iters 10 --load "$says_from" > "$work/says.log" 2>&1
    says_code=$?
    cat "$work/says.log"
    [ $says_code = 0 ] && [ "$(grep -c "all replicas begin with.*$says_text" "$work/says.log")" = 1 ]
}
check "another layout begins with the first replica" says "another layout" "$work/d4.half" \
    --pipeline-model-parallel-size 2 $cocktail
check "another mode, too" says "another layout or mode" "$work/d4.half" --dp-mode local
check "and --finetune" says "not wanted" "$work/d4.half" $cocktail --finetune
check "and a checkpoint of replicas that did not differ" says "no sidecar files of replicas" "$work/plain" $cocktail \
    --train-iters 11
plain_says() {
    small "$@" --load "$work/d4.half" --train-iters 10 > "$work/says.log" 2>&1 &&
        grep "^> the replicas of the checkpoint have diverged, and this run goes on with the weights of the first" "$work/says.log"
}
check "allreduce begins with the first replica, and says so" plain_says 4
check "one replica, too" plain_says 1 $cocktail
fails "a warm-up of replicas that differ" 64 "--train-warmup-steps 8: the replicas of the checkpoint of iteration 5 have diverged" \
    small 4 $cocktail --train-warmup-steps 8 --load "$work/d4.half" --train-iters 10

# damage NAME COMMAND...: a copy of the checkpoint whose file of rank 2 is no longer what it was.
damage() {
    rm -rf "$work/damaged"
    cp -r "$work/d4.half" "$work/damaged"
    (cd "$work/damaged/iter_0000005" && "$@")
}
resume_damaged() { small 4 $cocktail --train-iters 10 --load "$work/damaged"; }
damage rm rank-00002.replica
fails "a missing file: one sentence" 65 "rank-00002.replica" resume_damaged
fails "verify misses it" 65 "rank-00002.replica is missing" verify "$work/damaged"
damage truncate -s -100 rank-00002.replica
fails "a truncated file" 65 "rank-00002.replica is truncated" resume_damaged
fails "verify sees it" 65 "rank-00002.replica is truncated" verify "$work/damaged"
damage cp rank-00001.replica rank-00002.replica
fails "the file of another rank" 65 "is of rank 1" resume_damaged
fails "verify tells whose it is" 65 "was saved as rank-00001.replica" verify "$work/damaged"
damage sh -c 'printf x | dd of=rank-00002.replica bs=1 seek=5000 conv=notrunc 2> /dev/null'
fails "a damaged file" 65 "does not have its checksum" resume_damaged
fails "verify compares checksums" 65 "weights does not have its checksum" verify "$work/damaged"

# Of a checkpoint whose files of ranks cannot be used the run goes back to one before, here twice:
# to one that lacks the file of the first rank, and to one of the warm-up, which has none.
back() {
    back="small 2 $cocktail --train-iters 6"
    $back --save "$work/back" --save-interval 2 > "$work/back.log" 2>&1 || { cat "$work/back.log"; return 1; }
    sums "$work/back" > "$work/back.sums"
    cp -r "$work/back" "$work/bad"
    printf x | dd of="$work/bad/iter_0000006/rank-00001.replica" bs=1 conv=notrunc 2> /dev/null \
        seek=$(($(stat -c %s "$work/bad/iter_0000006/rank-00001.replica") - 9))
    rm "$work/bad/iter_0000004/rank-00000.replica"
    $back --load "$work/bad" --save "$work/bad.more" > "$work/bad.log" 2>&1
    back_code=$?
    cat "$work/bad.log"
    [ $back_code = 0 ] || return 1
    sums "$work/bad.more" | cmp - "$work/back.sums"
}
check "back to an older checkpoint, with the same bits in the end" back
back_said() {
    grep -q "iteration 6 cannot be used (.*rank-00001.replica is damaged: error .*; going back to that of iteration 4" \
        "$work/bad.log" &&
        grep -q "iteration 4 cannot be used (.*rank-00000.replica is missing.*; going back to that of iteration 2" \
            "$work/bad.log"
}
check "and what was wrong" back_said

once=--train-iters=2
fails "ZeRO" 64 "--use-distributed-optimizer" refused 2 $cocktail --use-distributed-optimizer "$once"
fails "no such number of bits" 64 "--quant-bits 9" refused 2 $cocktail --quant-bits 9 "$once"
fails "nothing kept" 64 "--topk-ratio" refused 2 $cocktail --topk-ratio 0 "$once"
fails "nothing chosen" 64 "--randomp-ratio" refused 2 $cocktail --randomp-ratio 0 "$once"
fails "an option of another mode" 64 "--quant-bits" refused 2 --quant-bits 4 "$once"
fails "a mode that its authors have" 64 "use cocktail_sgd" refused 2 --dp-mode cocktail_sgd_grad "$once"
fails "a distance that draws nothing" 64 "--quant-min-stochastic-distance 0.6" refused 2 $cocktail --quant-stochastic \
    --quant-min-stochastic-distance .6 "$once"
fails "draws of another mode" 64 "--quant-stochastic" refused 2 --quant-stochastic "$once"

# Draws follow from the seed, the replica and the round: the same with other threads and after a
# stop.
drawn() {
    small 2 $cocktail --quant-bits 3 --quant-stochastic --train-iters 6 "$@"
}
check "stochastic rounding" drawn --save "$work/drawn"
echo "$tap_out" > "$work/drawn.log"
losses "$work/drawn.log" 6 > "$work/drawn.losses"
check "in six steps" [ "$(wc -l < "$work/drawn.losses")" = 6 ]
drawn_again() {
    drawn --threads 3 --no-overlap-round --exit-interval 3 --save "$work/drawn2" &&
        drawn --save "$work/drawn2" --load "$work/drawn2" > "$work/drawn2.log" || return 1
    losses "$work/drawn2.log" 6 > "$work/drawn2.losses"
    tail -n 3 "$work/drawn.losses" | cmp - "$work/drawn2.losses"
}
check "the same with threads and after a stop" drawn_again
nearest() {
    small 2 $cocktail --quant-bits 3 --train-iters 6 > "$work/nearest.log" || return 1
    losses "$work/nearest.log" 6 > "$work/nearest.losses"
    ! cmp -s "$work/nearest.losses" "$work/drawn.losses"
}
check "and another rounding than to nearest" nearest

told() {
    QUANT_BITS=4 TOPK_RATIO=.2 small 2 --dp-mode cocktail_sgd "$once" > "$work/told.log" 2>&1
    cat "$work/told.log"
    grep -qxF "> environment: QUANT_BITS=4 is --quant-bits 4; TOPK_RATIO=.2 is --topk-ratio .2" "$work/told.log" &&
        grep -q '^  quant_bits \.* 4$' "$work/told.log" && grep -q '^  topk_ratio \.* 0\.2$' "$work/told.log"
}
check "the environment of its authors is read" told

# The bytes of the formula, on two replicas: R = 0.1 (1 + 0.2 (4 + 16/128)), or near it where counts
# are rounded down.
counted() {
    small 2 $cocktail --train-iters 4 > "$work/counted.log" 2>&1
    cat "$work/counted.log"
    each=$(sed -n 's/.* direction, \([0-9]*\) bytes to each other one/\1/p' "$work/counted.log")
    sent=$(sed -n 's/^traffic | replicas-up (bytes): \([0-9]*\) .*/\1/p' "$work/counted.log" | sort -u)
    [ "$sent" = $((2 * each)) ]
}
check "the log tells the bytes of a round" counted

# A thousandth of half of the weights is less than 128 of them.
more() {
    small 2 --dp-mode cocktail_sgd --randomp-ratio "$1" "$once" > "$work/more.log" 2>&1
    cat "$work/more.log"
    grep -q "replicas exchange .* bits for a parameter where --randomp-ratio and --topk-ratio ask for" "$work/more.log"
}
check "a random-k part that would be empty is all, with a warning" more .001
fewer() { ! more .1; }
check "and no other" fewer

# Seconds of a round: what was hidden and what was not are all that it took but for the commit.
spent() {
    rm -f "$work/spent.lines"
    small 2 $cocktail --train-iters 6 --log-jsonl "$work/spent.lines" "$@" > "$work/spent.log" 2>&1
    cat "$work/spent.log"
    grep '^traffic | replicas' "$work/spent.log" > "$work/spent.lines.of"
    [ "$(wc -l < "$work/spent.lines.of")" = 4 ] &&
        [ "$(grep -c 'replicas exposed (ms): [0-9.]* | replicas wire (ms): [0-9.]* | replicas hidden (ms): [0-9.]*$' "$work/spent.lines.of")" = 4 ] &&
        [ "$(grep -c '"exposed_ms": [0-9.]*, "wire_ms": [0-9.]*, "hidden_ms": [0-9.]*}' "$work/spent.lines")" = 4 ] &&
        "$trireme" report "$work/spent.log" --show iterations --format csv | head -n 1 |
        grep -q 'replicas_wire_ms,replicas_hidden_ms'
}
check "and its times" spent
nothing_hidden() {
    spent --no-overlap-round &&
        [ "$(grep -c 'exposed (ms): \([0-9.]*\) | replicas wire (ms): \1 | replicas hidden (ms): 0.00$' "$work/spent.lines.of")" = 4 ]
}
check "of which nothing is hidden where rounds overlap nothing" nothing_hidden
