#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# checkpoint.sh [ROUNDS [FOLDER]] [--option value ...]: saving a checkpoint next to dd with fsync,
# run where ./trireme is.
#
# GPT-2 124M is saved after one iteration by 1 rank, and by 4, and dd writes as many zeros to the
# same folder and flushes them: ROUNDS times (5), and every other time dd is first.  FOLDER is by
# default the current one; what is written there is removed.  Options are those of `trireme train`
# for the 4 ranks, such as --tensor-model-parallel-size 2.  Each result is a line of JSON, with
# medians.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
rounds_and_folder "$@"
shift "$words"
mkdir -p "$folder"
work=$(mktemp -d "$folder/checkpoint-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
bytes=0

# save RANKS OPTION...: its seconds, as the log has them; and how long the file is.
save() {
    n=$1
    shift
    rm -rf "$work/save"
    sh "$here/../tests/mpirun" --ranks "$n" ./trireme train --num-layers 12 --hidden-size 768 \
        --num-attention-heads 12 --seq-length 64 --max-position-embeddings 1024 --vocab-size 50257 --mock-data \
        --micro-batch-size 1 --global-batch-size 4 --train-iters 1 --lr 6e-4 --eval-iters 0 \
        --save "$work/save" "$@" >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        exit 70
    }
    sed -n 's/.*save-checkpoint: \([0-9.]*\).*/\1/p' "$work/log" | awk '{ print $1 / 1e3 }' >>"$work/save.$n"
    bytes=$(wc -c <"$work/save/iter_0000001/model_optim_rng.h5")
    rm -rf "$work/save"
}

# Its own clock leaves out the removal.
zeros() {
    LC_ALL=C dd if=/dev/zero of="$work/zeros" bs=4M iflag=count_bytes count="$bytes" conv=fsync 2>"$work/dd.log"
    sed -n 's/.* copied, \([0-9.e+-]*\) s,.*/\1/p' "$work/dd.log" >>"$work/dd.$1"
    rm "$work/zeros"
}

# dd needs the length of a file that was saved; and what comes first finds the disk in no usual
# state.
for n in 1 4; do
    if [ "$n" = 1 ]; then save 1; else save 4 "$@"; fi
    zeros "$n"
    rm "$work/save.$n" "$work/dd.$n"
    round=0
    while [ $round -lt "$rounds" ]; do
        round=$((round + 1))
        [ $((round % 2)) = 1 ] || zeros "$n"
        if [ "$n" = 1 ]; then save 1; else save 4 "$@"; fi
        [ $((round % 2)) = 0 ] || zeros "$n"
    done
    s=$(median <"$work/save.$n")
    d=$(median <"$work/dd.$n")
    awk -v host="$(uname -n)" -v date="$(date -u +%Y-%m-%dT%H:%M:%SZ)" -v cores="$(nproc)" \
        -v busy="$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null || echo -1)" -v ranks="$n" -v rounds="$rounds" \
        -v bytes="$bytes" -v fs="$(stat -f -c %T "$folder")" -v s="$s" -v d="$d" \
        -v folder="$folder" -v options="$([ "$n" = 1 ] || echo "$*")" 'BEGIN {
        gsub(/[\\"]/, "\\\\&", folder)
        gsub(/[\\"]/, "\\\\&", options)
        printf "{\"bench\": \"checkpoint\", \"host\": \"%s\", \"date\": \"%s\", \"cores\": %d, \"load\": %s, ", host, date, cores, busy
        printf "\"ranks\": %d, \"options\": \"%s\", \"rounds\": %d, \"bytes\": %d, \"folder\": \"%s\", ", ranks, options, rounds, bytes, folder
        printf "\"file_system\": \"%s\", \"save_seconds\": %.3f, \"dd_seconds\": %.3f, \"dd_over_save\": %.3f}\n", fs, s, d, d / s
    }'
done
