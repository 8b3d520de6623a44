#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# Compressed pipelines from the command line: what the log, JSON lines and a report say of them; a
# run that stops or is killed goes on with the same bits with its activation caches, and without
# them, saying so, from the first sight of each sample; mistakes are sentences.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 38

check "a dataset is built" small_corpus

# 44 samples, 8 in an iteration: 5 iterations in an epoch.  The first epoch is sent as it is; the
# four samples that it leaves out go uncompressed in a later one, in fp16.
links() {
    links_ranks=$1
    shift
    small "$links_ranks" --n-epochs 4 --data-blocks 44 --micro-batch-size 2 --eval-iters 0 \
        --attention-dropout 0 --hidden-dropout 0 --check-links-interval 2 "$@"
}
pp4="4 --pipeline-model-parallel-size 4"
delta="--forward-compress-method delta --forward-bits 3 --backward-compress-method fixpoint"

check "four epochs" links $pp4 $delta --save "$work/whole" --log-jsonl "$work/lines"
echo "$tap_out" > "$work/whole.log"
losses "$work/whole.log" 100 > "$work/whole.losses"
check "they have 20 iterations" [ "$(wc -l < "$work/whole.losses")" = 20 ]
said() { grep -qF -- "$1" "$work/whole.log" || { echo "not in the log: $1"; return 1; }; }
check "how forward messages are compressed" \
    said "> pipeline-forward messages are compressed: delta, 3 bits, scales: max over dimensions 0 1"
check "how backward messages are compressed" \
    said "> pipeline-backward messages are compressed: fixpoint, 8 bits, scales: max over dimensions 0 1"
check "for how long they are not" \
    said "> messages of the first 5 iterations are not compressed (--warmup-epochs)"
# A stage between others has 2 x 44 samples of 32 x 32 numbers in fp16: 0.17 MiB, and tables.
check "the activation cache" said "> activation cache of a rank: at most 0.2 MiB of host memory"

# 4 micro-batches over 3 links: 2 x 32 x 32 numbers each, in floats; then 3 bits and a half for each
# of the 32 channels, 8 bits and the same.  Of a micro-batch with a new sample the other one has 384
# + 64 bytes, and the new one 2048.
traffic() {
    grep '^traffic | ' "$work/whole.log" > "$work/traffic" || return 1
    [ "$(wc -l < "$work/traffic")" = 20 ] &&
        [ "$(grep -c 'pipeline-forward (bytes): 98304 .*pipeline-backward (bytes): 98304 ' "$work/traffic")" = 5 ] &&
        [ "$(grep -c 'pipeline-forward (bytes): 9984 | pipeline-forward (times below fp16): 4.923 ' "$work/traffic")" = 12 ] &&
        [ "$(grep -c 'pipeline-forward (bytes): 14976 ' "$work/traffic")" = 2 ] &&
        [ "$(grep -c 'pipeline-forward (bytes): 19776 ' "$work/traffic")" = 1 ] &&
        [ "$(grep -c 'pipeline-backward (bytes): 25344 | pipeline-backward (times below fp16): 1.939 ' "$work/traffic")" = 15 ] &&
        [ "$(grep -c 'pipeline compress (ms): [0-9.]* | pipeline decompress (ms): [0-9.]* | pipeline exposed (ms)' "$work/traffic")" = 20 ]
}
check "bytes of every iteration" traffic
json() {
    [ "$(grep -c '"traffic": {"pipeline-forward": {"codec": "delta, 3 bits", "bytes": 9984, "fp16_bytes": 49152, "fp32_bytes": 98304}, "pipeline-backward": {"codec": "fixpoint, 8 bits", "bytes": 25344, ' "$work/lines")" = 12 ]
}
check "the same in JSON lines" json
report() {
    "$trireme" report "$work/whole.log" --show iterations --format csv > "$work/report.csv" || return 1
    awk -F , 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        NR > 1 { forward += $at["pipeline_forward_bytes"]; times += $at["pipeline_backward_below_fp16"] > 1.9
                 ms += $at["pipeline_compress_ms"] > 0 }
        END { exit !(forward == 5 * 98304 + 12 * 9984 + 2 * 14976 + 19776 && times == 15 && ms == 20) }' "$work/report.csv"
}
check "a report reads them" report
timed() {
    grep '^time (ms) | forward-compute' "$work/whole.log" | tail -n 1 | grep -q 'pipeline-compress: .*pipeline-decompress: '
}
check "timers of both" timed

# Both ends of a link have the same, so one of them writes it.
files() {
    find "$work/whole/iter_0000020" -name 'rank-*' | sort | sed 's/.*iter/iter/' > "$work/files"
    printf '%s\n' iter_0000020/rank-00000-link-0 iter_0000020/rank-00001-link-0 \
        iter_0000020/rank-00002-link-0 | diff - "$work/files"
}
check "a checkpoint has the memory of each link once" files

# go_on NAME COMMAND...: resume from a copy of the half run.
go_on() {
    rm -rf "${work:?}/$1"
    cp -r "$work/half" "$work/$1"
    go_name=$1
    shift
    "$@"
    links $go_layout $go_codec --load "$work/$go_name" --save "$work/$go_name" > "$work/$go_name.log" 2>&1
    go_code=$?
    cat "$work/half.log" "$work/$go_name.log" > "$work/$go_name.all"
    losses "$work/$go_name.all" 100 > "$work/$go_name.losses"
    cat "$work/$go_name.log"
    return $go_code
}
same_end() {
    cmp "$work/whole.losses" "$work/$1.losses" || return 1
    sums "$work/whole" > "$work/whole.sums"
    sums "$work/$1" | cmp - "$work/whole.sums" && [ -s "$work/whole.sums" ]
}
check "12 iterations" links $pp4 $delta --exit-interval 12 --save "$work/half" --save-interval 4
echo "$tap_out" > "$work/half.log"
go_layout=$pp4 go_codec=$delta
same() { go_on same true && same_end same && ! grep -q 'activation caches start empty' "$work/same.log"; }
check "it goes on to the bit" same
go_codec="$delta --activation-cache-dir $work/cache"
mkdir "$work/cache"
in_files() { go_on in_files true && same_end in_files && grep -q "of files in $work/cache" "$work/in_files.log"; }
check "also with activation caches in files" in_files
check "which leave nothing behind" [ -z "$(ls "$work/cache")" ]
go_codec=$delta

# Without: the first loss is the same, since a sample goes whole once more, and the others are near.
near() {
    close_losses "$work/whole.losses" "$work/$1.losses" 0.02 && ! cmp -s "$work/whole.losses" "$work/$1.losses"
}
remembered_not() { grep -q "^> activation caches start empty, each sample is sent uncompressed when it comes again: .*$2" "$work/$1.log"; }
missing() {
    go_on missing rm "$work/missing/iter_0000012/rank-00001-link-0" && near missing &&
        remembered_not missing "rank-00001-link-0"
}
check "a missing activation cache is reported, and all begin anew" missing
verify() { "$trireme" ckpt verify "$@"; }
whole_beside() {
    verify "$work/whole" | grep -qE 'is whole: .*; 3 sidecar files of ranks, [0-9]{6} bytes$' &&
        "$trireme" ckpt show "$work/whole" > "$work/shown" && grep -q '^rank_files  *3$' "$work/shown" &&
        grep -qE '^  rank-00001-link-0 +[0-9]+ bytes  44 samples of 2048 bytes: activations before layer 2 ' "$work/shown"
}
check "sidecar files of a checkpoint are shown and verified" whole_beside
fails "verify misses it" 65 "ranks saved 3 files rank-... with this checkpoint, and 2 are in" \
    verify "$work/missing/iter_0000012"
damage() { printf '\377\377\377' | dd of="$1" bs=1 seek=9000 conv=notrunc 2> /dev/null; }
damaged() {
    go_on damaged damage "$work/damaged/iter_0000012/rank-00002-link-0" && near damaged &&
        remembered_not damaged "rank-00002-link-0"
}
check "one that is damaged as well" damaged
fails "verify names it" 65 "rank-00002-link-0, which should hold an activation cache, has a damaged" \
    verify "$work/damaged/iter_0000012"
# As many samples of another text: one letter of the first document differs.
other_text() {
    sed '1s/0 times/7 times/' "$work/text.txt" > "$work/other.txt" && ! cmp -s "$work/text.txt" "$work/other.txt" &&
        "$trireme" data build --tokenizer-type bytes --append-eod --split-documents blank-lines \
            --output-prefix "$work/other" "$work/other.txt" > "$work/build.log" 2>&1 || return 1
    go_codec="$delta --data-path $work/other_text_document"
    go_on other_text true
    other_code=$?
    go_codec=$delta
    return $other_code
}
check "over another text it goes on" other_text
check "and caches nothing of the first" remembered_not other_text \
    'rank-0000[0-2]-link-0 holds the activation cache of .*, text .* with its own options and data'
copied() {
    mkdir "$work/copy" && cp "$work"/corpus_text_document.* "$work/copy" || return 1
    go_codec="$delta --data-path $work/copy/corpus_text_document --split 91,4,5"
    go_on copied true && same_end copied && ! grep -q 'activation caches start empty' "$work/copied.log"
    copied_code=$?
    go_codec=$delta
    return $copied_code
}
check "a copy elsewhere is the same text, and so are the first samples of a larger part" copied
go_layout="2 --pipeline-model-parallel-size 2"
other() { go_on other true && near other && remembered_not other ""; }
check "in another layout the activation caches are empty" other
go_layout=$pp4

# Killed between two saves, in the epochs with activation caches.
killed() {
    links $pp4 $delta --save "$work/killed" --save-interval 3 > "$work/killed.log" 2>&1 &
    killed_pid=$!
    killed_tries=0
    while [ "$(grep -c '^ iteration' "$work/killed.log")" -lt 8 ] && [ $killed_tries -lt 1200 ]; do
        sleep 0.05
        killed_tries=$((killed_tries + 1))
    done
    killed_victim=$(rank_pids $killed_pid | tail -n 1)
    [ -n "$killed_victim" ] && kill -KILL "$killed_victim"
    wait $killed_pid
    links $pp4 $delta --load "$work/killed" --save "$work/killed" >> "$work/killed.log" 2>&1 || return 1
    losses "$work/killed.log" 100 > "$work/killed.losses"
    same_end killed && ! grep -q 'activation caches start empty' "$work/killed.log"
}
check "a run that was killed goes on to the bit" killed

few() {
        links $pp4 $delta --save "$work/few" --save-interval 4 --keep-last 1 > /dev/null 2>&1 &&
        [ "$(find "$work/few" -name 'iter_*' | wc -l)" = 1 ]
}
check "older checkpoints are removed with their sidecar files" few

# Nothing changes on a network that is slow but for the time; nor with schedules.
slow() {
        links $pp4 $delta --distributed-backend slow --slow-rate 1 > "$work/slow.log" 2>&1 &&
        losses "$work/slow.log" 100 | cmp - "$work/whole.losses"
}
check "the slow transport carries the same" slow
gpipe() {
        links $pp4 $delta --pipeline-schedule gpipe > "$work/gpipe.log" 2>&1 &&
        losses "$work/gpipe.log" 100 | cmp - "$work/whole.losses"
}
check "and so does gpipe" gpipe

planned() {
    "$trireme" train --dry-run --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 \
        --max-position-embeddings 32 --vocab-size 256 --micro-batch-size 2 --global-batch-size 8 --lr 0.1 \
        --n-epochs 4 --data-blocks 44 --pipeline-model-parallel-size 4 --forward-compress-method delta \
        > "$work/dry" && [ "$(grep -c '^  cache, host memory  *0.09 MiB' "$work/dry")" = 2 ] &&
        [ "$(grep -c '^  cache, host memory  *0.1[78] MiB' "$work/dry")" = 2 ] && grep -q '^  compression ' "$work/dry"
}
saved() {
    "$trireme" plan --world-size 4 --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 \
        --max-position-embeddings 32 --vocab-size 256 --micro-batch-size 2 --global-batch-size 8 --lr 0.1 \
        --n-epochs 4 --data-blocks 4400 --pipeline-model-parallel-size 4 "$@" | grep '^checkpoint: ' > "$work/plan"
    cat "$work/plan"
}
# 3 links cache 4400 samples of 32 x 32 numbers in fp16: 27 MB more.
beside() {
    saved && grep -q '^checkpoint: 0.001 GB in 1 file$' "$work/plan" &&
        saved --forward-compress-method delta && grep -q '^checkpoint: 0.028 GB in 4 files$' "$work/plan"
}
check "a plan counts it in checkpoints" beside
check "a dry run shows the activation cache" planned
# 44000 samples of 32 x 32 numbers in fp16 are 85.9 MiB, and a stage between others has them twice.
plans() {
    "$trireme" plan --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 \
        --max-position-embeddings 32 --vocab-size 256 --micro-batch-size 2 --global-batch-size 8 --lr 0.1 \
        --n-epochs 4 --data-blocks 44000 --max-activation-cache-size 44000 --world-size 4 \
        --pipeline-model-parallel-size 4 --forward-compress-method delta --activation-cache-dir "$work" \
        > "$work/plan" && grep -qE '^  cache, files +85\.9 +171\.9 +85\.9$' "$work/plan"
}
check "so does a plan" plans

idle() {
    links 4 --pipeline-model-parallel-size 4 --forward-compress-method fixpoint \
        --activation-cache-dir "$work/cache" --backward-bits 3 > "$work/idle" 2>&1 &&
        grep -q -e '--activation-cache-dir has no effect here' "$work/idle" &&
        grep -q -e '--backward-bits has no effect here' "$work/idle" &&
        ! grep -q -e '--forward-bits changes' "$work/idle"
}
idle_all() {
    links 2 --forward-bits 3 --warmup-epochs 2 > "$work/idle" 2>&1 &&
        grep -q -e '--forward-bits has no effect here' "$work/idle" &&
        grep -q -e '--warmup-epochs has no effect here' "$work/idle" &&
        grep -q -e '--check-links-interval has no effect here' "$work/idle"
}
check "an option that changes nothing says so" idle
check "also where nothing is compressed" idle_all
fails "more bits than there are" 64 "--forward-bits 9: codes have 1 to 8 bits" links $pp4 $delta --forward-bits 9
fails "a memory that is too small" 64 "less than the 44 samples" links $pp4 $delta --max-activation-cache-size 43
fails "no epochs" 64 "give --n-epochs, or --forward-compress-method fixpoint" \
    small 2 --pipeline-model-parallel-size 2 --train-iters 2 --forward-compress-method delta
fails "a folder that is none" 74 "$work/nowhere" links $pp4 $delta --activation-cache-dir "$work/nowhere"
