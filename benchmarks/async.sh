#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# async.sh [ROUNDS [FOLDER]] [--option value ...]: how long training waits for an asynchronous
# checkpoint, next to a copy of as many bytes, run where ./trireme is.
#
# GPT-2 124M is saved ROUNDS times (5) by one rank with --async-save, and once more before, which
# does not count: its memory is new.  Training waits for what the thread has not copied when the
# optimizer comes to it.  Before and behind that run benchmarks/bench_adam says at which rate the
# same threads (--threads, all cores unless given) copy; the better of the two counts.  FOLDER is by
# default the current one; what is written there is removed.  The result is a line of JSON, with
# medians.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
rounds_and_folder "$@"
shift "$words"
threads=$(getconf _NPROCESSORS_ONLN)
case "${1:-} ${2:-}" in
"--threads "*) threads=$2 && shift 2 && number --threads "$threads" ;;
esac
mkdir -p "$folder"
work=$(mktemp -d "$folder/async-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# GB that a copy reads and writes in a second, of 1 GB, which no cache holds.
rate() {
    benchmarks/bench_adam 124 "$threads" | sed -n 's/.*"copy_gbytes_per_second": \([0-9.]*\).*/\1/p' | sort -g | tail -n 1 \
        >>"$work/rates"
}
train() {
    sh "$here/../tests/mpirun" --ranks 1 --threads "$threads" ./trireme train --threads "$threads" --num-layers 12 \
        --hidden-size 768 --num-attention-heads 12 --seq-length 64 --max-position-embeddings 1024 --vocab-size 50257 \
        --mock-data --micro-batch-size 1 --global-batch-size 1 --train-iters $((20 * (rounds + 1) + 1)) --lr 6e-4 \
        --eval-iters 0 --save "$work/save" --save-interval 20 --keep-last 1 --async-save "$@" >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        exit 70
    }
}
rate
train "$@"
rate
bytes=$(wc -c <"$(find "$work/save" -name model_optim_rng.h5 | head -n 1)")
waits() { sed -n 's/.*of which training waited \([0-9.]*\) s.*/\1/p' "$work/log"; }
first=$(waits | head -n 1)
waited=$(waits | sed 1d | head -n "$rounds" | median)
best=$(sort -g "$work/rates" | tail -n 1)
awk -v host="$(uname -n)" -v date="$(date -u +%Y-%m-%dT%H:%M:%SZ)" -v cores="$(nproc)" \
    -v busy="$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null || echo -1)" -v threads="$threads" -v rounds="$rounds" \
    -v bytes="$bytes" -v first="$first" -v waited="$waited" -v rate="$best" 'BEGIN {
    copy = 2 * bytes / rate / 1e9
    printf "{\"bench\": \"async\", \"host\": \"%s\", \"date\": \"%s\", \"cores\": %d, \"load\": %s, ", host, date, cores, busy
    printf "\"ranks\": 1, \"threads\": %d, \"rounds\": %d, \"bytes\": %d, \"first_seconds\": %.3f, ", threads, rounds, bytes, first
    printf "\"waited_seconds\": %.3f, \"copy_gbytes_per_second\": %.3f, \"copy_seconds\": %.3f, ", waited, rate, copy
    printf "\"waited_over_copy\": %.3f}\n", waited / copy
}'
