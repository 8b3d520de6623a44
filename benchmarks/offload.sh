#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# offload.sh [ROUNDS [FOLDER]] [--option value ...]: files of an offloaded optimizer next to dd, and
# steps with an offloaded optimizer next to plain ones, run where ./trireme and
# benchmarks/bench_files are.
#
# Each round (3) writes and reads MIB (1024) of records and has dd write and read as much, both with
# O_DIRECT, and every other time dd is first.  Then GPT-2 124M takes 4 steps of 2048 tokens on one
# rank: plain, with --offload-optimizer cpu, and with files in FOLDER (by default the current one);
# the time of a step is the median of the last 3.  At last it takes steps of 16 samples of 128
# tokens in a quarter of the memory that its states take, 474 MiB (--device-memory): weights,
# gradients, states and activations with the host; next to steps with all memory, one sample at a
# time as there, and all 16; and, in each round, of chunks next to whole layers with as much memory
# for both.  Options are those of `trireme train`, such as --threads 2.  Each result is a line of
# JSON with the ratio of medians.
set -eu
rounds=3
folder=$PWD
mib=${MIB:-1024}
case ${1:-} in
'' | --*) ;;
*[!0-9]* | 0) echo "offload.sh: '$1' is not a number of rounds" >&2; exit 64 ;;
*) rounds=$1; shift ;;
esac
case ${1:-} in
'' | --*) ;;
/*) folder=$1; shift ;;
*) echo "offload.sh: FOLDER is a path that begins with /, and '$1' does not" >&2; exit 64 ;;
esac
mkdir -p "$folder"
work=$(mktemp -d "$folder/offload-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

ours() {
    benchmarks/bench_files "$work" "$mib" >"$work/lines"
    for what in write read; do
        sed -n 's/.*"what": "'$what'".*"gbytes_per_second": \([0-9.e+-]*\).*/\1/p' "$work/lines" >>"$work/ours.$what"
    done
    grep -q '"direct": true' "$work/lines" || { echo "offload.sh: $folder takes no O_DIRECT" >&2; exit 69; }
}

# rate NAME DD-ARGUMENT...: GB/s.
rate() {
    name=$1
    shift
    LC_ALL=C dd bs=4M count="$((mib / 4))" "$@" 2>"$work/dd.log"
    sed -n 's/^\([0-9]*\) bytes.* copied, \([0-9.e+-]*\) s,.*/\1 \2/p' "$work/dd.log" |
        awk '{ print $1 / $2 / 1e9 }' >>"$work/$name"
}
# Over blocks that the file has, as ours are.
theirs() {
    [ -e "$work/file" ] || rate first if=/dev/zero of="$work/file" oflag=direct
    rate dd.write if=/dev/zero of="$work/file" oflag=direct conv=notrunc
    rate dd.read if="$work/file" of=/dev/null iflag=direct
}

# Of the numbers in a file, one a line.
median() {
    sort -g "$1" | awk '{ x[NR] = $1 } END { print NR % 2 ? x[(NR + 1) / 2] : (x[NR / 2] + x[NR / 2 + 1]) / 2 }'
}
about=$(printf '"host": "%s", "date": "%s", "cores": %d, "file_system": "%s"' "$(uname -n)" \
    "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(nproc)" "$(stat -f -c %T "$folder")")
load() { cut -d ' ' -f 1 /proc/loadavg 2>/dev/null || echo -1; }

round=1
while [ "$round" -le "$rounds" ]; do
    if [ $((round % 2)) -eq 1 ]; then ours; theirs; else theirs; ours; fi
    round=$((round + 1))
done
rm -f "$work/file"
for what in write read; do
    awk -v what=$what -v a="$(median "$work/ours.$what")" -v b="$(median "$work/dd.$what")" -v n="$rounds" \
        -v about="$about" -v busy="$(load)" 'BEGIN {
        printf "{\"bench\": \"offload\", %s, \"load\": %s, \"what\": \"%s\", \"rounds\": %d, \"gbytes_per_second\": %.3f, \"dd_gbytes_per_second\": %.3f, \"over_dd\": %.3f}\n", about, busy, what, n, a, b, a / b }'
done

# step NAME OPTION...: milliseconds of a step.
step() {
    step_name=$1
    shift
    ./trireme train --num-layers 12 --hidden-size 768 --num-attention-heads 12 --seq-length 1024 \
        --max-position-embeddings 1024 --vocab-size 50257 --mock-data --micro-batch-size 1 --global-batch-size 2 \
        --train-iters 4 --lr 6e-4 --eval-iters 0 --log-interval 1 --backend cpu "$@" >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        exit 70
    }
    sed -n 's/.*elapsed time per iteration (ms): \([0-9.]*\).*/\1/p' "$work/log" | tail -n 3 >"$work/step.$step_name"
}
# compare WHAT NAME PLAIN: of two steps.
compare() {
    awk -v what="$1" -v a="$(median "$work/step.$2")" -v b="$(median "$work/step.$3")" -v about="$about" \
        -v busy="$(load)" 'BEGIN {
        printf "{\"bench\": \"offload\", %s, \"load\": %s, \"what\": \"a step, %s\", \"milliseconds\": %.1f, \"plain_milliseconds\": %.1f, \"speed_over_plain\": %.3f}\n", about, busy, what, a, b, b / a }'
}
step plain "$@"
step cpu --offload-optimizer cpu "$@"
step files --offload-optimizer "$work" "$@"
compare cpu cpu plain
compare files files plain
short="--seq-length 128 --global-batch-size 16 --attention-dropout 0 --hidden-dropout 0"
# shellcheck disable=SC2086 # words
step one $short "$@"
# shellcheck disable=SC2086 # words
step whole $short --micro-batch-size 16 "$@"
# shellcheck disable=SC2086 # words
step quarter $short --device-memory 474M --zero-stage 3 --zero-prefetch-depth 1 --offload-optimizer cpu \
    --offload-param cpu --cpu-offloading --cpu-offloading-num-layers 12 "$@"
compare "in a quarter of the memory of its states" quarter one
compare "in a quarter, over all samples at once" quarter whole

# Chunks in the memory that windows of whole layers take, two for weights and two for gradients,
# alternately.
in_quarter() {
    quarter_name=$1
    shift
    # shellcheck disable=SC2086 # words
    step "$quarter_name" $short --device-memory 474M --cpu-offloading --cpu-offloading-num-layers 12 "$@"
    cat "$work/step.$quarter_name" >>"$work/steps.$quarter_name"
}
round=1
while [ "$round" -le "$rounds" ]; do
    in_quarter layers --zero-stage 3 --zero-prefetch-depth 1 --offload-optimizer cpu --offload-param cpu "$@"
    in_quarter chunks --chunk-memory 113405952 "$@"
    round=$((round + 1))
done
mv "$work/steps.layers" "$work/step.layers"
mv "$work/steps.chunks" "$work/step.chunks"
compare "chunks in a quarter, over whole layers" chunks layers
