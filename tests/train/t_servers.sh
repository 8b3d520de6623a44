#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# Servers that compress what replicas send (--dp-mode sharded_ps_compressed): a run that is killed
# with SIGKILL, also while it saves, and started again ends with the bits of the run that was never
# broken, errors of compression included; so does one on a slow network; and what a user can get
# wrong.  Killed twice, and with TR_TEST_ALL seven times in each of three layouts; TR_TEST_KILLS and
# TR_TEST_SEED set other numbers.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
. "$srcdir/tests/train/broken.sh"

servers="--dp-mode sharded_ps_compressed --dp-bits 4 --train-warmup-steps 3"
layouts='
replicas 2
'
more='
tensor   4 --tensor-model-parallel-size 2 --bf16 --sequence-parallel
stages   4 --pipeline-model-parallel-size 2 --fp16 --initial-loss-scale 512
'
want=${TR_TEST_KILLS:-2} iterations=24
[ -z "${TR_TEST_ALL:-}" ] || want=${TR_TEST_KILLS:-7} iterations=50 layouts="$layouts$more"
rows() { echo "$1" | grep .; }
names() { rows "$1" | awk '{ print $1 }'; }
rest() { rows "$1" | awk -v name="$2" '$1 == name { $1 = ""; print }'; }

plan $((18 + 2 * $(rows "$layouts" | wc -l)))
check "a dataset is built" small_corpus

# train LAYOUT OPTION...
train() {
    train_layout=$(rest "$layouts" "$1")
    shift
    small $train_layout $servers --train-iters $iterations --attention-dropout 0.1 --hidden-dropout 0.1 "$@"
}

# killed LAYOUT: in runs one after the other, each as often as it lives long enough; some end before
# they are killed.
killed() {
    broken=$1.broken killed_all=0 killed_runs=0
    while [ $killed_all -lt "$want" ] && [ $killed_runs -lt $((3 * want)) ]; do
        killed_runs=$((killed_runs + 1))
        rm -rf "${work:?}/$broken"
        kill_often $((want - killed_all)) "$broken" train "$1" --save "$work/$broken" --load "$work/$broken" \
            --save-interval 2 --keep-last 2
        killed_all=$((killed_all + kills))
        [ $finished = yes ] || { echo "it did not finish:"; tail -n 40 "$work/$broken.log"; return 1; }
        same_losses "$1" "$broken" $iterations 4 && same_weights "$1" "$broken" || return 1
    done
    [ $killed_all -ge "$want" ]
}
for layout in $(names "$layouts"); do
    check "$layout: a run that is never broken" \
        train "$layout" --save "$work/$layout" --save-interval $((iterations / 2))
    echo "$tap_out" > "$work/$layout.log"
    check "$layout: killed $want times, equal to the bit" killed "$layout"
done
losses "$work/replicas.log" $iterations > "$work/replicas.losses"

# A sidecar file has the errors alone: of all elements and of this rank's chunk, in fp16, and a page
# before each.
has_files() {
    find "$work/replicas/iter_00000$iterations" -name 'rank-*' -exec wc -c {} + |
        awk '/rank/ { n++; bad += $1 < 3 * 65536 || $1 > 3 * 65536 + 3 * 4096 } END { exit n != 2 || bad }'
}
check "each rank keeps its errors, and nothing else" has_files

# What it sends takes its time and changes nothing.
slow() {
    train replicas --distributed-backend slow --slow-rate 1 --slow-latency 0.1 > "$work/slow.log" 2>&1 &&
        losses "$work/slow.log" $iterations | cmp - "$work/replicas.losses"
}
check "over a slow network: the same bits" slow
learns() { awk 'NR == 1 { first = $2 } END { exit !($2 < 0.9 * first) }' "$work/replicas.losses"; }
check "it learns" learns

# The warm-up is that of all-reduce, and what follows is not.
warm_up() {
    small 2 --train-iters $iterations --attention-dropout 0.1 --hidden-dropout 0.1 --exit-interval 5 > "$work/plain.log" 2>&1
    losses "$work/plain.log" 5 > "$work/plain.losses"
    head -n 4 "$work/plain.losses" > "$work/want" && head -n 4 "$work/replicas.losses" | cut -d ' ' -f 1,2 > "$work/have" &&
        cut -d ' ' -f 1,2 "$work/want" | cmp - "$work/have" &&
        [ "$(sed -n '5s/ [^ ]*$//p' "$work/plain.losses")" != "$(sed -n '5s/ [^ ]*$//p' "$work/replicas.losses")" ]
}
check "the warm-up has the losses of all-reduce, and what follows others" warm_up
in_warm_up() {
    train replicas --exit-interval 2 --save "$work/early" > "$work/early.log" 2>&1 &&
        [ "$(find "$work/early" -name 'rank-*' | wc -l)" = 0 ]
}
check "in the warm-up there are no files" in_warm_up

# says TEXT LAYOUT OPTION...: a run that goes on from half-way, and says so.
says() {
    says_text=$1
    shift
    train "$@" --ckpt-step $((iterations / 2)) --exit-interval $((iterations / 2 + 1)) > "$work/says.log" 2>&1 &&
        [ "$(grep -c "^> $says_text" "$work/says.log")" = 1 ]
}
layouts="$layouts
pair 2 --pipeline-model-parallel-size 2
four 4"
check "elsewhere errors begin at zero" says "errors of compression begin at zero: its sidecar files of replicas are of another layout" \
    four --load "$work/replicas"
check "without the optimizer's states, too" says "errors of compression begin at zero: their own states are not wanted" \
    replicas --load "$work/replicas" --no-load-optim
check "another mode drops them" says "this run does not compress what replicas send, and drops the errors" \
    replicas --load "$work/replicas" --dp-mode allreduce --dp-bits 8 --train-warmup-steps 0
check "and so does one replica" says "this run does not compress what replicas send, and drops the errors" \
    pair --load "$work/replicas"

once="--train-iters=1"
fails "no such number of bits" 64 "--dp-bits 9: a number is sent in 1 to 8 bits" small 2 $servers --dp-bits 9 "$once"
fails "bits without compression" 64 "give --dp-mode sharded_ps_compressed" refused 2 --dp-bits 4 "$once"
fails "no warm-up" 64 "the first step ruins the weights: give --train-warmup-steps N" refused 2 $servers --train-warmup-steps 0 "$once"
fails "ZeRO" 64 "--zero-stage shards optimizer states" refused 2 $servers --zero-stage 1 "$once"
fails "offload" 64 "keeps master weights and moments with the host" refused 2 $servers --offload-optimizer cpu "$once"
fails "options of CocktailSGD" 64 "--quant-bits configures the compressed exchange of CocktailSGD" \
    refused 2 $servers --quant-bits 4 "$once"
planned() {
    "$trireme" plan --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 \
        --vocab-size 128 --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --train-iters 2 --world-size 4 $servers |
        grep -i compression
}
check "a plan has its memory" planned
alone() {
    small 1 $servers --train-iters 1 --global-batch-size 2 2>&1 |
        grep '^> there is one replica, so --dp-mode sharded_ps_compressed has no effect'
}
check "one replica says that there is nothing to send" alone
