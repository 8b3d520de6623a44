#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Imports and exports of several ranks write the bytes of one, and what was killed or failed leaves
# nothing unsaid.
. "${srcdir:?}/tests/tap.sh"
plan 22

check "a model" "$trireme" train --mock-data --micro-batch-size 1 --lr 0.01 --train-iters 1 --eval-iters 0 --no-save-optim \
    --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 --vocab-size 257 \
    --save "$work/model"

# both NAME OPTION...: an export by one rank and by three; the trees are the same to the byte.
both() {
    both_name=$1
    shift
    "$trireme" ckpt export --load "$work/model" --to "$work/$both_name" "$@" || return 1
    ranks 3 "$trireme" ckpt export --load "$work/model" --to "$work/$both_name-3" "$@" > "$work/log" || return 1
    cat "$work/log"
    grep -q 'in memory of each rank$' "$work/log" && diff -r "$work/$both_name" "$work/$both_name-3"
}
check "export: shards of transformers" both hf --max-shard-size 50KB --dtype bf16
check "export: files of layers, with their checksums" both layers --format layers
check "export: files of Megatron-LM" both megatron --format megatron --tensor-model-parallel-size 2 \
    --pipeline-model-parallel-size 2

# imported FROM OPTION...: the same of an import.  HDF5's index has the time at which it was made;
# behind it are 238 kB of tensors.
imported() {
    imported_from=$1
    shift
    rm -rf "$work/one" "$work/three"
    "$trireme" ckpt import --from "$work/$imported_from" --save "$work/one" "$@" &&
        ranks 3 "$trireme" ckpt import --from "$work/$imported_from" --save "$work/three" "$@" > "$work/log" &&
        "$trireme" ckpt verify "$work/three" || return 1
    for run in one three; do
        "$trireme" ckpt show "$work/$run" | tail -n +2 > "$work/$run.show"
        tail -c 230000 "$work/$run/iter_0000000/model_optim_rng.h5" > "$work/$run.tensors"
    done
    cmp "$work/one.show" "$work/three.show" && cmp "$work/one.tensors" "$work/three.tensors"
}
for format in hf layers; do
    check "import: $format" imported "$format"
done
check "import: megatron" imported megatron --vocab-size 257
check "five ranks" ranks 5 "$trireme" ckpt export --load "$work/model" --to "$work/five" --max-shard-size 50KB --dtype bf16
check "the same bytes" diff -r "$work/hf" "$work/five"

# nothing: no folder under way is left.
nothing() { ! find "$work" -name '*.tmp-*' | grep .; }
# A byte in the last tensor of the file, which one of the ranks reads.
damage() {
    cp -r "$work/model" "$work/damaged"
    file=$work/damaged/iter_0000001/model_optim_rng.h5
    at=$(h5dump -p -H "$file" | sed -n 's/.* OFFSET \([0-9]*\).*/\1/p' | sort -n | tail -n 1)
    printf x | dd of="$file" bs=1 seek=$((at + 3)) conv=notrunc 2> /dev/null
    ranks 3 "$trireme" ckpt export --load "$work/damaged" --to "$work/none"
}
fails "one rank meets a damaged tensor, and all give up" 65 "the checksum of" damage
check "nothing is left" nothing
check "nor begun" [ ! -e "$work/none" ]
fails "a folder that is there" 64 "is not an empty folder" ranks 2 "$trireme" ckpt export --load "$work/model" --to "$work/hf"
fails "a run that is there" 64 "has checkpoints" ranks 2 "$trireme" ckpt import --from "$work/hf" --save "$work/model"
rm "$work"/hf-3/model-00002-of-*
fails "a missing shard" 74 "fetch the missing file" ranks 2 "$trireme" ckpt import --from "$work/hf-3" --save "$work/none"
check "nothing was made" [ ! -e "$work/none" ]

# A signal.  Whether it comes before the last byte is a matter of luck: then all is complete, else
# nothing is there.
signalled() {
    rm -rf "$work/signalled"
    "$trireme" ckpt "$@" > "$work/log" 2>&1 &
    signalled_pid=$!
    signalled_tries=0
    while nothing > /dev/null && [ $signalled_tries -lt 300 ] && kill -0 $signalled_pid 2> /dev/null; do
        signalled_tries=$((signalled_tries + 1))
    done
    kill -TERM $signalled_pid 2> /dev/null
    wait $signalled_pid
    signalled_code=$?
    nothing || return 1
    if [ $signalled_code -eq 0 ]; then
        [ -e "$work/signalled" ]
    else
        [ $signalled_code -eq 143 ] && grep -q 'stopped by signal 15' "$work/log" && [ ! -e "$work/signalled" ]
    fi
}
check "SIGTERM in an import" signalled import --from "$work/hf" --save "$work/signalled"
check "SIGTERM in an export" signalled export --load "$work/model" --to "$work/signalled"

# What was killed by SIGKILL stays, and is named.
mkdir -p "$work/killed/.iter_0000000.tmp-1" "$work/out.tmp-1"
tells() {
    tells_text=$1
    shift
    tells_out=$("$@" 2>&1) || { echo "$tells_out" && return 1; }
    case $tells_out in *"$tells_text"*) ;; *) echo "$tells_out" && return 1 ;; esac
}
check "an import names what a killed one left" tells "killed/.iter_0000000.tmp-1 is left of one that was killed" \
    "$trireme" ckpt import --from "$work/hf" --save "$work/killed"
check "and is whole" "$trireme" ckpt verify "$work/killed"
check "an export does as well" tells "out.tmp-1 is left of an export that was killed" \
    "$trireme" ckpt export --load "$work/model" --to "$work/out" --max-shard-size 50KB --dtype bf16
check "and has the bytes of the others" diff -r "$work/hf" "$work/out"
