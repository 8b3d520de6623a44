#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# slow.sh [PART...]: training over slow links, run where ./trireme is; all parts by default.
#
#   links     transfers on links that are shaped, and over the transport "slow" of the same rate
#   cocktail  four replicas at 500 Mbit/s: all-reduce, and CocktailSGD, next to links that are not shaped
#   acsgd     four stages at what stands for 10 Gbit/s to 100 Mbit/s, with activations as they are and compressed
#   loss      what is left of the loss after 1000 steps of both, next to training without compression
#
# The first three run on a virtual cluster (tests/cluster) of 4 nodes with a core each; its links
# are shaped by the kernel.  Each result is a line of JSON; times are medians over the iterations
# after the first ones. SLOW_STEPS (8) iterations of each run are timed, SLOW_SEEDS ("1 2 3") are
# those of the last part, whose logs are copied to the folder SLOW_KEEP.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
steps=${SLOW_STEPS:-8}
seeds=${SLOW_SEEDS:-1 2 3}
cluster=$here/../tests/cluster
trireme=$PWD/trireme
work=$(mktemp -d "${TMPDIR:-/tmp}/trireme-bench.XXXXXX")
TRIREME_CLUSTER=$work/cluster
OMP_NUM_THREADS=1
export TRIREME_CLUSTER OMP_NUM_THREADS
up=''
finish() {
    [ -z "$up" ] || "$cluster" stop
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

fail() {
    echo "slow.sh: $1" >&2
    exit 70
}

# With the sentence of a run that failed, or the last line of its log.
run_failed() {
    fail "$(grep -m 1 'error:' "$log" || tail -n 1 "$log")"
}

# emit MEMBERS: a line of JSON; what every line has comes first.
emit() {
    printf '{"bench": "slow", "host": "%s", "date": "%s", "cores": %d, "ranks": 4, "threads": 1, "load": %s, %s}\n' "$(uname -n)" \
        "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(getconf _NPROCESSORS_ONLN)" "$(cut -d ' ' -f 1 /proc/loadavg)" "$1"
}

# Of the numbers on the standard input, one a line.
median() {
    sort -n | awk '{ x[NR] = $1 } END { if (!NR) exit 1; print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }'
}

bring_up() {
    [ -z "$up" ] || return 0
    why=$("$cluster" can 2>&1) || { echo "$why"; exit 0; }
    up=yes
    "$cluster" start --nodes 4 --cpus 1 --for 7200 >/dev/null 2>&1 || fail "the virtual cluster does not start"
}

# shape RATE: of all links; "none" is as fast as they go.
shape() {
    case $1 in
    none) "$cluster" shape off ;;
    *) "$cluster" shape --rate "$1" ;;
    esac >"$work/shape.log" 2>&1 || fail "links cannot be shaped: $(tail -n 1 "$work/shape.log")"
}

on_nodes() {
    timeout 1200 "$cluster" exec srun -K1 --nodes=4 --ntasks-per-node=1 "$trireme" "$@"
}

# timed LOG OPTION...: train on the four nodes; the median of its iterations in milliseconds.
timed() {
    log=$work/$1.log
    shift
    on_nodes train "$@" --train-iters $((steps + 4)) --log-interval 1 >"$log" 2>&1 ||
        run_failed
    sed -n 's/.*elapsed time per iteration (ms): \([0-9.]*\).*/\1/p' "$log" | tail -n +5 | median
}

# ---- links ----

# ratio of the time of each call, shaped to emulated.
calls() {
    for call in sendrecv reduce-scatter all-gather all-reduce; do
        on_nodes bench coll --json --call $call --min-bytes 4M --max-bytes 16M --step-factor 4 --repetitions 5 \
            --warmup-iters 2 "$@" 2>/dev/null |
            sed -n 's/.*"call": "\([a-z-]*\)",.*/\1/p; s/.*"bytes": \([0-9]*\),.*/\1/p; s/.*"us": \([0-9.e+]*\),.*/\1/p' |
            paste -d ' ' - - -
    done
}

# `slow` counts bytes of messages, the kernel those of packets, so its rate is 4.4 % less.
links() {
    for rate in 500 100; do
        shape none
        calls --distributed-backend slow --slow-rate "$(awk -v r=$rate 'BEGIN { print 0.956 * r / 1000 }')" >"$work/slow"
        shape ${rate}mbit
        calls >"$work/shaped"
        [ -s "$work/shaped" ] || fail "calls could not be measured"
        paste -d ' ' "$work/shaped" "$work/slow" | while read -r call bytes shaped _ _ slow; do
            emit "$(awk -v call="$call" -v bytes="$bytes" -v rate=$rate -v shaped="$shaped" -v slow="$slow" 'BEGIN {
                printf "\"part\": \"links\", \"what\": \"%s of %d MiB\", \"mbit\": %d, ", call, bytes / 1048576, rate
                printf "\"ms\": %.2f, \"slow_ms\": %.2f, \"ratio\": %.3f", shaped / 1e3, slow / 1e3, shaped / slow }')"
        done
    done
}

# ---- CocktailSGD ----

# A model whose gradients take seconds on such a link, and as many micro-batches as make the step of
# all-reduce spend little of its time in communication where links are not shaped.
cocktail() {
    set -- --num-layers 6 --hidden-size 512 --num-attention-heads 8 --seq-length 128 \
        --max-position-embeddings 128 --vocab-size 1000 --mock-data --micro-batch-size 2 \
        --global-batch-size $((4 * 2 * ${SLOW_MICROS:-4})) --lr 1e-4 --lr-decay-style constant --eval-iters 0
    compressed="--dp-mode cocktail_sgd --randomp-ratio .1 --topk-ratio .1 --quant-bits 4 --quant-bucket-size 128"
    shape none
    base=$(timed allreduce.none "$@")
    # The part of it that is not light: what is left to do for the gradients after the last
    # backward.
    exchange=$(sed -n 's/.*backward-params-all-reduce: \([0-9.]*\).*/\1/p' "$work/allreduce.none.log" | tail -n +5 | median)
    emit "$(awk -v ms="$base" -v x="$exchange" 'BEGIN {
        printf "\"part\": \"cocktail\", \"what\": \"sums of all-reduce\", \"mbit\": 0, \"ms\": %.1f, \"ratio\": %.3f", x, x / ms }')"
    step "all-reduce" 0 "$base"
    # shellcheck disable=SC2086 # words
    step "CocktailSGD" 0 "$(timed cocktail.none "$@" $compressed)"
    shape 500mbit
    # shellcheck disable=SC2086
    step "CocktailSGD" 500 "$(timed cocktail.500 "$@" $compressed)"
    step "all-reduce" 500 "$(timed allreduce.500 "$@")"
    shape none
}

# step WHAT RATE MS: relative to all-reduce without shaping.
step() {
    emit "$(awk -v what="$1" -v rate="$2" -v ms="$3" -v base="$base" 'BEGIN {
        printf "\"part\": \"cocktail\", \"what\": \"%s\", \"mbit\": %d, \"ms\": %.1f, \"ratio\": %.3f", what, rate, ms, ms / base }')"
}

# ---- AC-SGD ----

# Cores compute a hundred times less in the time that a byte takes on such a link than the GPUs of
# which the published figures speak.  So links are slower by as much: by what a stage computes here
# for each byte that it sends, over what one of eight stages of GPT-2 1.5B takes for it at 30
# TFLOP/s, 5.8 ns.
acsgd() {
    text
    micros=16 tokens=128 hidden=256
    set -- --num-layers 4 --hidden-size $hidden --num-attention-heads 4 --seq-length $tokens \
        --max-position-embeddings $tokens --tokenizer-type bytes --data-path "$work/text_text_document" \
        --split 100,0,0 --pipeline-model-parallel-size 4 --micro-batch-size 1 --global-batch-size $micros \
        --make-vocab-size-divisible-by 1 --lr 1e-4 --lr-decay-style constant --n-epochs 3 \
        --data-blocks $((2 * micros)) --warmup-epochs 1
    shape none
    free=$(epochs none "$@")
    times=$(awk -v ms="$free" -v m=$micros -v bytes=$((tokens * hidden * 4)) \
        'BEGIN { printf "%.1f", ms / 1e3 / (m + 3) / bytes / 5.8e-9 }')
    plain=$free
    piped "links not shaped" 0 "$free"
    for rate in 10000 1000 500 100; do
        shape "$(awk -v r=$rate -v s="$times" 'BEGIN { printf "%d", 1e3 * r / s }')kbit"
        plain=$(epochs none "$@")
        piped none $rate "$plain"
        for method in fixpoint:4:8 fixpoint:8:8 delta:3:6 delta:4:8; do
            bits=${method#*:}
            piped "${method%%:*} ${bits%:*}/${bits#*:}" $rate "$(epochs packed "$@" \
                --forward-compress-method "${method%%:*}" --forward-bits "${bits%:*}" \
                --backward-compress-method fixpoint --backward-bits "${bits#*:}")"
        done
    done
    shape none
}

# epochs LOG OPTION...: two iterations an epoch; the median of those after the epoch that warms up.
epochs() {
    log=$work/$1.log
    shift
    on_nodes train "$@" --log-interval 1 >"$log" 2>&1 || run_failed
    sed -n 's/.*elapsed time per iteration (ms): \([0-9.]*\).*/\1/p' "$log" | tail -n +3 | median
}

# piped WHAT RATE MS: `ratio` is how many times faster than uncompressed.
piped() {
    emit "$(awk -v what="$1" -v rate="$2" -v ms="$3" -v plain="$plain" -v times="$times" 'BEGIN {
        printf "\"part\": \"acsgd\", \"what\": \"%s\", \"mbit\": %d, \"slower_by\": %s, \"ms\": %.1f, ", what, rate, times, ms
        printf "\"ratio\": %.3f", plain / ms }')"
}

# ---- what it does to the loss ----

# Text that is there, in documents, for training and for validation.
text() {
    [ ! -e "$work/text_text_document.bin" ] || return 0
    for name in GPL-2 GPL-3 LGPL-2.1 Apache-2.0 Artistic GFDL-1.3 MPL-2.0; do
        cat "/usr/share/common-licenses/$name" 2>/dev/null || true
    done >"$work/text"
    [ -s "$work/text" ] || fail "no text to train on in /usr/share/common-licenses"
    "$trireme" data build --tokenizer-type bytes --append-eod --split-documents blank-lines \
        --output-prefix "$work/text" "$work/text" >/dev/null 2>&1 || fail "no dataset"
}

# train LOG OPTION...: a small GPT on four ranks of this machine.
train() {
    log=$work/$1.log
    shift
    timeout 3000 sh "$here/../tests/mpirun" --ranks 4 "$trireme" train --hidden-size 64 --num-attention-heads 4 \
        --seq-length 64 --max-position-embeddings 64 --tokenizer-type bytes --data-path "$work/text_text_document" \
        --split 90,10,0 --micro-batch-size 4 --global-batch-size 16 --attention-dropout 0 --hidden-dropout 0 \
        --log-interval 10 "$@" >"$log" 2>&1 || run_failed
}

# What is left at the end: of the last 100 iterations, and on text that was not trained on.
trained() { sed -n 's/.*lm loss: \([0-9.E+-]*\).*/\1/p' "$work/$1.log" | tail -n 10 | awk '{ s += $1 } END { print s / NR }'; }
held_out() { sed -n 's/.*validation loss at the end .*lm loss value: \([0-9.E+-]*\).*/\1/p' "$work/$1.log" | tail -n 1; }
less() { sed -n "s/^traffic .*$2 (times below fp16): \([0-9.]*\).*/\1/p" "$work/$1.log" | tail -n 1; }

# ended WHAT SEED LOG BASE TIMES: next to the same without compression.
ended() {
    emit "$(awk -v what="$1" -v seed="$2" -v t="$(trained "$3")" -v v="$(held_out "$3")" -v bt="$(trained "$4")" \
        -v bv="$(held_out "$4")" -v times="${5:-1}" 'BEGIN {
        printf "\"part\": \"loss\", \"what\": \"%s\", \"seed\": %d, \"times_below_fp16\": %s, ", what, seed, times
        printf "\"loss\": %.4f, \"loss_ratio\": %.4f, \"validation\": %.4f, \"validation_ratio\": %.4f", t, t / bt, v, v / bv }')"
}

# Both refine a model that has learned its text: four replicas in a thousand steps, and four stages
# in six epochs, with 2 bits and 3 for messages between stages.
loss() {
    text
    for seed in $seeds; do
        base "$seed" 2
        set -- --num-layers 2 --load "$work/base" --finetune --seed "1$seed" --train-iters 1000 --lr "${SLOW_LR:-5e-5}" \
            --lr-decay-style linear --lr-decay-iters 1000 --eval-iters 20 --eval-interval 1000
        train all."$seed" "$@"
        ended "all-reduce" "$seed" all."$seed" all."$seed"
        for bits in 4 3; do
            train cocktail."$seed" "$@" --dp-mode cocktail_sgd --randomp-ratio .1 --topk-ratio .1 --quant-bits $bits \
                --quant-bucket-size 128
            ended "CocktailSGD, $bits bits" "$seed" cocktail."$seed" all."$seed" "$(less cocktail."$seed" replicas-up)"
        done
        base "$seed" 4
        set -- --num-layers 4 --load "$work/base" --finetune --seed "1$seed" --pipeline-model-parallel-size 4 \
            --n-epochs 6 --data-blocks 1280 --lr 2e-4 --lr-decay-style linear
        train pipeline."$seed" "$@"
        ended "pipeline" "$seed" pipeline."$seed" pipeline."$seed"
        for bits in 2 3; do
            for method in fixpoint delta; do
                train "$method.$bits.$seed" "$@" --forward-compress-method $method --forward-bits $bits \
                    --backward-compress-method fixpoint --backward-bits 8
                ended "$method, $bits bits" "$seed" "$method.$bits.$seed" pipeline."$seed" \
                    "$(less "$method.$bits.$seed" pipeline-forward)"
            done
        done
        [ -z "${SLOW_KEEP:-}" ] || cp "$work"/*."$seed".log "$SLOW_KEEP"
    done
}

# base SEED LAYERS: what they begin with.
base() {
    rm -rf "$work/base"
    train base."$1" --num-layers "$2" --seed "$1" --train-iters 2000 --lr 1e-3 --min-lr 1e-4 --lr-decay-style cosine \
        --eval-iters 0 --save "$work/base"
}

[ $# -gt 0 ] || set -- links cocktail acsgd loss
for part; do
    case $part in
    links | cocktail | acsgd | loss) ;;
    *) echo "slow.sh: there is no part '$part': links, cocktail, acsgd or loss" >&2; exit 64 ;;
    esac
done
for part; do
    case $part in loss) ;; *) bring_up ;; esac
    $part
done
