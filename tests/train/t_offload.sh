#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# --offload-optimizer and --device-memory as a user meets them: a model that does not fit is refused
# with its memory plan and runs offloaded; a run that is killed leaves no file and resumes to the
# bit of a run that was never offloaded; folders that are full, missing or not ours are told;
# options that contradict each other are refused; plans.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
. "$srcdir/tests/train/broken.sh"
plan 28

export OMP_NUM_THREADS=1
check "a dataset is built" small_corpus
mkdir "$work/one" "$work/two"

train() {
    train_dir=$1 train_iterations=$2
    shift 2
    small 2 --train-iters "$train_iterations" --eval-interval 40 --save "$train_dir" \
        --load "$train_dir" --save-interval 2 --keep-last 2 "$@"
}

# What was never offloaded and never broken, and what was.
iterations=30
[ -z "${TR_TEST_ALL:-}" ] || iterations=200
kills_wanted=1
[ -z "${TR_TEST_ALL:-}" ] || kills_wanted=20
whole() { train "$work/whole" $iterations --zero-stage 1 > "$work/whole.log" 2>&1 || { tail "$work/whole.log"; return 1; }; }
check "a run on the device" whole
empty() { [ -z "$(find "$work/one" "$work/two" -type f)" ] || { ls -l "$work/one" "$work/two"; return 1; }; }
# broken NAME OPTION...
broken() {
    broken_name=$1
    shift
    kill_often "$kills_wanted" "$broken_name" train "$work/$broken_name" $iterations --zero-stage 1 "$@"
    echo "finished: $finished, kills: $kills"
    if [ "$finished" != yes ] || [ "$kills" -lt 1 ]; then
        tail -n 30 "$work/$broken_name.log"
        return 1
    fi
}
for where in cpu files; do
    at=cpu
    [ $where = cpu ] || at=$work/one,$work/two
    check "$where: a run that is killed again and again finishes" \
        broken $where --offload-optimizer "$at" --offload-tile 4096
    check "$where: its losses and norms are those of the run on the device" same_losses whole $where $iterations 10
    check "$where: its weights and moments, too" same_weights whole $where
done
check "no file is left" empty

# One rank: what the plan says, and a budget.
alone() {
    "$trireme" train --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 \
        --max-position-embeddings 32 --tokenizer-type bytes --data-path "$work/corpus_text_document" \
        --split 90,5,5 --micro-batch-size 1 --global-batch-size 2 --lr 0.002 --eval-iters 0 --log-interval 1 \
        --train-iters 3 --backend cpu --threads 1 "$@"
}
# total WHERE OPTION...: MiB of the line of a dry run.
total() {
    total_of=$1
    shift
    alone --dry-run "$@" | sed -n "s/^  $total_of  *\([0-9.]*\) MiB/\1/p"
}
less() {
    here=$(total total --bf16) && there=$(total total --bf16 --offload-optimizer cpu) &&
        host=$(total "optimizer, host" --bf16 --offload-optimizer cpu) &&
        file=$(total "optimizer, files" --bf16 --offload-optimizer "$work/one" --offload-tile 1024) || return 1
    echo "$here on the device, $there with $host on the host, or $file in files"
    # Masters and states, 12 bytes each, leave the device; files are rounded up to tiles.
    awk -v a="$here" -v b="$there" -v c="$host" -v f="$file" \
        'BEGIN { d = a - b - c; exit !(c > 1 && d * d < 0.0004 && f >= c - 0.01 && f < c + 0.02) }'
}
check "a dry run tells what is where" less
tells() {
    # shellcheck disable=SC2086 # words
    "$trireme" plan --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 \
        --vocab-size 256 --world-size 1 --micro-batch-size 1 --global-batch-size 4 --lr 1 --train-iters 9 --bf16 \
        --offload-optimizer $1 | grep "$2"
}
check "a plan tells it, too" tells cpu "^optimizer, host\|^  optimizer, host"
without_rate() {
    "$trireme" plan --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 \
        --vocab-size 256 --world-size 1 --micro-batch-size 1 --global-batch-size 4 --fp16 "$@" \
        --machine "$work/unknown.conf"
}
grep -v '^host-' "$srcdir/machines/jean-zay-v100-16g.conf" > "$work/unknown.conf"
fails "a machine whose link to the host nobody measured" 64 "has no host-link-gbs" without_rate --offload-optimizer cpu
fails "also for activations" 64 "has no host-link-gbs" without_rate --cpu-offloading
check "and of files" tells "$work/one" "^  optimizer, files"
real() { alone --bf16 --offload-optimizer "$work/one" --memory-plan | grep "rank 0, host"; }
check "and so does a run" real

# In between what the two take: 12 bytes each of 0.12 million parameters.
room=$(awk -v a="$(total total --bf16)" -v b="$(total total --bf16 --offload-optimizer cpu)" \
    'BEGIN { printf "%.3f", (a + b) / 2 }')
# Kernels have scratch besides, which a run says.
scratch=$(alone --bf16 --device-memory 1K 2>&1 | sed -n 's/.*this rank needs \([0-9.]*\) MiB of the device.*/\1/p')
room=$(awk -v a="$room" -v b="${scratch:-0}" 'BEGIN { printf "%.2fM", a + b }')
echo "# a budget of $room"
fails "a model that does not fit is refused" 69 "MiB left (--device-memory): offload the optimizer" \
    alone --bf16 --device-memory "$room"
planned() { alone --bf16 --device-memory "$room" 2>&1 | grep "^memory plan of rank 0"; }
check "with its memory plan" planned
check "and runs with its optimizer on the host" alone --bf16 --device-memory "$room" --offload-optimizer cpu
fails "no amount of memory" 64 "is no amount of memory" alone --device-memory 12parsecs

fails "a folder that is not there" 74 "no file can be made in $work/none: No such file or directory" \
    alone --offload-optimizer "$work/one,$work/none"
fails "options of an offload that there is not" 64 "offload-tile says how the optimizer is offloaded" \
    alone --offload-tile 1024
fails "files and memory at once" 64 "remove one of them" \
    alone --offload-optimizer "$work/one" --optimizer-cpu-offload
fails "too few buffers" 64 "give 3 to 16" alone --offload-optimizer "$work/one" --offload-buffers 2
fails "replicas that exchange masters" 64 "exchanges them between devices" \
    small 2 --train-iters 1 --dp-mode local --offload-optimizer cpu

# Chunks: what the table of sizes says of the one that is taken is what the run does.
chunked() {
    alone --chunk-memory 520K --bf16 | sed -n 's/.* fetches \([0-9]*\) and writes \([0-9]*\) back/\1 \2/p' > "$work/moves"
    "$trireme" plan --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 \
        --vocab-size 256 --world-size 1 --micro-batch-size 1 --global-batch-size 2 --bf16 --chunk-memory 520K |
        awk '/^\*/ { print $(NF - 1), $NF }' > "$work/table"
    cat "$work/table" "$work/moves"
    [ -s "$work/table" ] && cmp "$work/table" "$work/moves"
}
check "a plan moves as many chunks as the run" chunked
fails "too little memory for chunks" 64 "needs at one time take" alone --chunk-memory 100K

# A disk that is full: a small one of memory, gone with the process that has it.
mkdir "$work/disk"
own() { if [ "$(id -u)" = 0 ]; then unshare -m "$@"; else unshare -rm "$@"; fi; }
# on_disk KIB COMMAND...
on_disk() {
    disk_room=$1
    shift
    # shellcheck disable=SC2016 # expanded by the shell that it is for
    own sh -c 'mount -t tmpfs -o size="$1"k none "$2" && shift 2 && exec "$@"' sh "$disk_room" "$work/disk" "$@"
}
on_small_disk() {
    on_disk "$1" "$trireme" train --num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 32 \
        --max-position-embeddings 32 --tokenizer-type bytes --data-path "$work/corpus_text_document" \
        --split 90,5,5 --micro-batch-size 1 --global-batch-size 2 --lr 0.002 --eval-iters 0 --train-iters 3 \
        --offload-optimizer "$work/disk" --offload-tile 4096
}
if on_disk 64 true 2> /dev/null; then
    fails "a full disk" 74 "$work/disk, which has 0.00 GiB free: No space left on device" on_small_disk 1000
    check "a disk with room, through the page cache if need be" on_small_disk 3000
else
    skip "a full disk" "this user cannot mount a small disk"
    skip "a disk with room" "this user cannot mount a small disk"
fi
