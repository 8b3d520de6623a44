#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# --memory-tracker: its buffers are those of the arena, as --memory-plan and `trireme plan` count
# them.
. "$srcdir/tests/tap.sh"
plan 7

model="--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
    --vocab-size 128 --mock-data --micro-batch-size 1 --global-batch-size 4 --lr 1e-3 --train-iters 2 --eval-iters 0
    --backend cpu"

# run RANKS OPTION...
run() {
    rank_count=$1
    shift
    rm -f "$work"/track*
    # shellcheck disable=SC2086 # words
    ranks "$rank_count" "$trireme" train $model --memory-plan --memory-tracker "$work/track" "$@" >"$work/log" 2>&1 &&
        "$trireme" plan $model "$@" --world-size "$rank_count" --json >"$work/plan" 2>&1
}

# sum FILE SIGN [LABEL]: bytes of these lines.
sum() {
    sed -n "s/^[$2] | *\([0-9]*\) \* Size:(\([0-9]*\) bytes) | Memory: [0-9.]* M | ${3:-.*} | cpu\$/\1 \2/p" "$1" |
        awk '{ n += $1 * $2 } END { printf "%d", n }'
}
# planned STAGE NAME: bytes of that stage.
planned() {
    sed -n '/"bytes": {/,/}/p' "$work/plan" | sed -n "s/.*\"$2\": \([0-9.]*\).*/\1/p" | sed -n "$(($1 + 1))p" | cut -d . -f 1
}
equal() {
    echo "$*"
    [ "$1" = "$2" ] && [ "${1:-0}" -gt 0 ]
}
# like_plan FILE STAGE
like_plan() {
    cat "$1"
    equal "$(sum "$1" +)" "$(planned "$2" total)" || return 1
    for label in weights gradients optimizer activations messages scratch; do
        equal "$(sum "$1" + $label)" "$(planned "$2" $label)" || return 1
    done
}

alone() { run 1 && like_plan "$work/track" 0; }
check "buffers of one rank are those of the plan, label by label" alone
arena() {
    total=$(sed -n '/^memory plan/,/total/s/^  total *\([0-9.]*\) MiB/\1/p' "$work/log")
    echo "arena $total MiB"
    awk -v a="$(sum "$work/track" +)" -v b="$total" 'BEGIN { d = a / 1048576 - b; exit !(b > 0 && d < 0.006 && d > -0.006) }'
}
check "and of the arena" arena
# What goes at the end of a step is what came for it.
returns() {
    awk '/^At the start/ { on = 1; next } on' "$work/track" | grep '^+' | tr + = >"$work/came"
    grep '^-' "$work/track" | tr - = >"$work/went"
    cmp "$work/came" "$work/went" && [ -s "$work/came" ] && ! grep -E 'weights|optimizer' "$work/went" &&
        [ "$(grep -c '^At the ' "$work/track")" = 3 ]
}
check "three marks, and what came for a step goes at its end" returns
totals() {
    first=$(sed -n 's/^At the start.*Used Memory: *\([0-9.]*\) Mb.*/\1/p' "$work/track")
    peak=$(sed -n 's/^At the peak.*Used Memory: *\([0-9.]*\) Mb.*/\1/p' "$work/track")
    last=$(sed -n 's/^At the end.*Used Memory: *\([0-9.]*\) Mb.*/\1/p' "$work/track")
    echo "$first $peak $last"
    [ "$first" = "$last" ] && awk -v p="$peak" -v f="$first" -v all="$(sum "$work/track" +)" -v less="$(sum "$work/track" -)" \
        'function off(x, y) { return x - y > 0.051 || y - x > 0.051 }
         BEGIN { exit off(p, all / 1048576) || off(f, (all - less) / 1048576) }'
}
check "totals are sums of the buffers" totals
stages() {
    run 4 --pipeline-model-parallel-size 2 --zero-stage 2 && [ ! -e "$work/track" ] && like_plan "$work/track.0" 0 &&
        like_plan "$work/track.2" 1 && ! cmp -s "$work/track.0" "$work/track.2"
}
check "a file for each rank, of sharded states and two stages" stages
masters() { run 1 --bf16 --recompute-granularity full && like_plan "$work/track" 0; }
check "with bf16 and recomputation" masters
mkdir "$work/folder"
# shellcheck disable=SC2086 # words
fails "a file that cannot be written" 74 "cannot be written" ranks 1 "$trireme" train $model --memory-tracker "$work/folder"
