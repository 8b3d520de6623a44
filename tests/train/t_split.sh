#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# --split-wait: a slow network shows under transfer, a slow stage under wait, the parts add up, and
# the numbers of training do not change.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 12

# value LOG NAME: the largest of all ranks in the last table, in ms; 0 if it is not there.
value() {
    awk -v name="$2" '$1 == name { sub(/.*: */, ""); gsub(/[(),]/, " "); split($0, x, " "); v = x[3] }
        END { print v + 0 }' "$1"
}

# larger LOG FACTOR NAME... / NAME...: the sum of the first ones is that many times the sum of the
# others.
larger() {
    larger_log=$1 larger_factor=$2 larger_sum=0 larger_than=
    shift 2
    for name; do
        if [ "$name" = / ]; then
            larger_than=$larger_sum larger_sum=0
            continue
        fi
        larger_sum=$(echo "$larger_sum $(value "$larger_log" "$name")" | awk '{ print $1 + $2 }')
    done
    echo "$larger_than against $larger_sum ms"
    echo "$larger_than $larger_factor $larger_sum" | awk '{ exit !($1 > 0 && $1 > $2 * $3) }'
}

check "a dataset is built" small_corpus

# 40 ms on the way, and stages that take a few: the network is what takes time.
slow_link() {
    small 2 --pipeline-model-parallel-size 2 --train-iters 4 --log-interval 4 --eval-iters 0 \
        --timing-log-level 2 --distributed-backend slow --slow-rate 10 --slow-latency 40 \
        > "$work/link" 2>&1
}
check "a run over a slow network" slow_link
check "the network shows under transfer" larger "$work/link" 3 \
    forward-recv-transfer backward-recv-transfer forward-send-backward-recv-transfer \
    backward-send-forward-recv-transfer / \
    forward-recv-wait backward-recv-wait forward-send-backward-recv-wait \
    backward-send-forward-recv-wait

# Eleven layers on the last stage and one on the first, which waits for the others.
slow_stage() {
    small 2 --pipeline-model-parallel-size 2 --num-layers 12 --decoder-last-pipeline-num-layers 11 \
        --hidden-size 192 --train-iters 4 --log-interval 4 --eval-iters 0 --timing-log-level 2 \
        > "$work/stage" 2>&1
}
check "a run with a slow stage" slow_stage
check "the stage shows under wait" larger "$work/stage" 3 \
    backward-recv-wait forward-send-backward-recv-wait / \
    backward-recv-transfer forward-send-backward-recv-transfer
check "and under the steady wait of the pipeline" larger "$work/stage" 1 pipeline-steady-wait / \
    forward-recv-transfer backward-recv-transfer

# The line of the last rank: each timer is the sum of its parts, and the pipeline's three are what
# its transfers waited, and its embedding and its optimizer.
parts_add_up() {
    parts_ranks=$1
    shift
    small "$parts_ranks" --train-iters 6 --log-interval 3 --eval-interval 2 \
        --eval-iters 1 --num-layers 8 --clip-grad 1 "$@" > "$work/parts" 2>&1 || return 1
    awk '
    /^time \(ms\) \| forward-compute/ {
        delete whole
        n = split($0, part, " [|] ")
        for (i = 2; i <= n; i++) { split(part[i], x, ": "); whole[x[1]] = x[2] }
    }
    /^wait and transfer \(ms\) \| / {
        lines++
        delete of
        n = split($0, part, " [|] ")
        for (i = 2; i <= n; i++) { split(part[i], x, ": "); of[x[1]] = x[2] }
        names = 0; waits = 0
        for (name in whole) {
            short = name
            if (name == "backward-embedding-all-reduce") short = "embedding-all-reduce"
            if (name == "backward-params-all-reduce") short = "grads-all-reduce"
            if (!((short "-transfer") in of)) continue
            names++
            sum = of[short "-wait"] + of[short "-transfer"]
            if (sum - whole[name] > 0.021 || whole[name] - sum > 0.021) {
                print name, whole[name], "is not", sum; bad = 1
            }
            if (short != "grads-all-reduce") waits += of[short "-wait"]
        }
        waits += of["optimizer-wait"]
        sum = of["pipeline-fill-wait"] + of["pipeline-steady-wait"] + of["pipeline-drain-wait"]
        if (sum - waits > 0.1 || waits - sum > 0.1) { print sum, "is not", waits; bad = 1 }
        if (names < 3) { print "only", names, "names"; bad = 1 }
    }
    END { exit bad || lines != 2 }' "$work/parts"
}
check "parts add up to their timers" parts_add_up 4 \
    --pipeline-model-parallel-size 4
check "also with replicas and chunks" parts_add_up 4 \
    --pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 2
check "and with gradients of weights apart" parts_add_up 4 \
    --pipeline-model-parallel-size 4 --pipeline-schedule zb-h1
check "and where each neighbour has messages of two chunks" parts_add_up 4 \
    --pipeline-model-parallel-size 2 --pipeline-schedule zb-v

without() {
    small 4 --pipeline-model-parallel-size 2 --train-iters 4 > "$work/with" 2>&1 &&
        small 4 --pipeline-model-parallel-size 2 --train-iters 4 --no-split-wait > "$work/without" 2>&1 &&
        grep -q '^wait and transfer' "$work/with" && ! grep -q '^wait and transfer' "$work/without" &&
        losses "$work/with" 4 > "$work/with.losses" && losses "$work/without" 4 > "$work/without.losses" &&
        [ -s "$work/with.losses" ] && cmp "$work/with.losses" "$work/without.losses"
}
check "the same losses without it" without

alone() { small 1 --train-iters 2 > "$work/alone" 2>&1 && ! grep '^wait and transfer' "$work/alone"; }
check "one rank waits for nobody" alone
