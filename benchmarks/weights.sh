#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weights.sh [ROUNDS [FOLDER]] [--ranks N]: importing and exporting weights next to dd, run where
# ./trireme is.
#
# A checkpoint of 12 layers of width 768 is exported in fp32 and that is imported, of GPT-2, whose
# matrices are transposed, and of Llama 3, whose rows are in several tensors.  dd copies the file
# that was read, which has as many bytes, in the same folder, and flushes it: ROUNDS times (5), and
# every other time dd is first.  What is read is not in the page cache. FOLDER is by default the
# current one; what is written there is removed.  With --ranks N so many ranks import and export.
# Each result is a line of JSON, with medians.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
rounds_and_folder "$@"
shift "$words"
ranks=1
if [ $# -gt 0 ]; then
    [ "$#,$1" = 2,--ranks ] || fail "'$1' is no option: --ranks N" 64
    number --ranks "$2"
    ranks=$2
fi
mkdir -p "$folder"
work=$(mktemp -d "$folder/weights-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

quietly() {
    "$@" >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        exit 70
    }
}

# timed FILE COMMAND...: add its seconds to the file.  What it reads, $source, leaves the page cache
# before.
timed() {
    times=$1
    shift
    sync
    dd if="$source" iflag=nocache count=0 2>/dev/null
    began=$(date +%s.%N)
    quietly "$@"
    echo "$began $(date +%s.%N)" | awk '{ printf "%.3f\n", $2 - $1 }' >>"$times"
}

ckpt() {
    if [ "$ranks" = 1 ]; then ./trireme ckpt "$@"; else sh "$here/../tests/mpirun" --ranks "$ranks" ./trireme ckpt "$@"; fi
}

move() {
    rm -rf "$work/out"
    case $direction in
    export) timed "$work/ours" ckpt export --load "$work/run" --to "$work/out" --max-shard-size 1000GB ;;
    import) timed "$work/ours" ckpt import --from "$work/hf" --save "$work/out" ;;
    esac
    rm -rf "$work/out"
}

copy() {
    timed "$work/dd" dd if="$source" of="$work/copy" bs=4M conv=fsync
    rm "$work/copy"
}

# The first pair finds the disk in no usual state.
measure() {
    move
    copy
    rm "$work/ours" "$work/dd"
    round=0
    while [ $round -lt "$rounds" ]; do
        round=$((round + 1))
        [ $((round % 2)) = 1 ] || copy
        move
        [ $((round % 2)) = 0 ] || copy
    done
    o=$(median <"$work/ours")
    d=$(median <"$work/dd")
    rm "$work/ours" "$work/dd"
    awk -v host="$(uname -n)" -v date="$(date -u +%Y-%m-%dT%H:%M:%SZ)" -v cores="$(nproc)" \
        -v busy="$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null || echo -1)" -v ranks="$ranks" -v rounds="$rounds" \
        -v bytes="$(wc -c <"$source")" -v fs="$(stat -f -c %T "$folder")" -v o="$o" -v d="$d" \
        -v folder="$folder" -v what="$direction" -v family="$family" 'BEGIN {
        gsub(/[\\"]/, "\\\\&", folder)
        printf "{\"bench\": \"weights\", \"host\": \"%s\", \"date\": \"%s\", \"cores\": %d, \"load\": %s, ", host, date, cores, busy
        printf "\"what\": \"%s\", \"family\": \"%s\", \"ranks\": %d, \"rounds\": %d, \"bytes\": %d, ", what, family, ranks, rounds, bytes
        printf "\"folder\": \"%s\", \"file_system\": \"%s\", ", folder, fs
        printf "\"seconds\": %.3f, \"dd_seconds\": %.3f, \"dd_over_ours\": %.3f}\n", o, d, d / o
    }'
}

for family in gpt2 llama3; do
    groups=
    [ $family = gpt2 ] || groups='--num-query-groups 4'
    # shellcheck disable=SC2086
    quietly ./trireme train --model-family "$family" --num-layers 12 --hidden-size 768 --num-attention-heads 12 $groups \
        --seq-length 64 --max-position-embeddings 1024 --vocab-size 50257 --mock-data --micro-batch-size 1 \
        --train-iters 1 --lr 6e-4 --eval-iters 0 --no-save-optim --save "$work/run"
    quietly ./trireme ckpt export --load "$work/run" --to "$work/hf" --max-shard-size 1000GB
    source=$work/run/iter_0000001/model_optim_rng.h5 direction=export
    measure
    source=$work/hf/model.safetensors direction=import
    measure
    rm -rf "$work/run" "$work/hf"
done
