#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# What YuanGenerativeLM's users need around a run: rows of a .npz file as training data, the splits
# of both states of its repository, mock rows that are validated on again, its log file and the
# names of its TensorBoard runs.
. "$srcdir/tests/tap.sh"
trireme=$PWD/trireme
srcdir=$(cd "$srcdir" && pwd)
command -v python3 >/dev/null 2>&1 || skip_all "python3 is not installed"
plan 18
cd "$work" || exit 1

# Rows of 32 tokens below 97 as numpy writes them, stored and deflated, and the bytes of the first
# array.
python3 - <<'END' || exit 1
import struct, zipfile
rows = [[(7 * i + 3 * k + i * k) % 97 for k in range(32)] for i in range(60)]
def npy(rows):
    head = "{'descr': '<u2', 'fortran_order': False, 'shape': (%d, %d), }" % (len(rows), len(rows[0]))
    head += " " * (-(len(head) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data(rows)
def data(rows):
    return b"".join(struct.pack("<32H", *r) for r in rows)
for name, how in ("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(name + ".npz", "w", how) as z:
        z.writestr("id.npy", npy(rows))
        z.writestr("attention_mask.npy", npy([[1] * 32] * 60))
open("rows", "wb").write(data(rows))
END

# yuan NAME RANKS OPTION...
yuan() {
    yuan_name=$1 yuan_ranks=$2
    shift 2
    ranks "$yuan_ranks" "$trireme" train --model-family yuan --num-layers 2 --hidden-size 32 --num-attention-heads 4 \
        --seq-length 32 --max-position-embeddings 32 --vocab-size 97 --tokenizer-type NullTokenizer \
        --micro-batch-size 2 --global-batch-size 4 --lr 1e-3 --min-lr 1e-3 --lr-decay-style constant --log-interval 1 \
        --eval-interval 1000 --attention-dropout 0 --hidden-dropout 0 --log-format megatron --loss-within-samples \
        "$@" > "$work/$yuan_name" 2>&1 || { tail -n 4 "$work/$yuan_name"; return 1; }
}
rows="--document-samples --n-epochs 1 --split 80,20,0"
losses() { sed -n 's/.*lm loss\( value\)*: \([^ ]*\) .*/\2/p' "$work/$1"; }
as_built() { [ -s "$work/built" ] && losses built > a && losses "$1" | cmp a -; }

"$trireme" data build deflated.npz --vocab-size 97 --output-prefix built > build.log
# shellcheck disable=SC2086
check "rows that were built before" yuan built 1 $rows --data-path built_id_document
check "12 iterations of 48 rows, and a validation on 12" [ "$(losses built | grep -c .)" = 13 ]
for how in stored deflated; do
    # shellcheck disable=SC2086
    check "$how rows of the file itself" yuan $how 1 $rows --data-path $how.npz
    check "$how: the same losses" as_built $how
    check "$how: they are those of numpy" cmp rows ${how}_id_document.bin
done
once() {
    before=$(stat -c %Y.%i stored_id_document.bin)
    # shellcheck disable=SC2086
    yuan again 2 $rows --data-path stored.npz --pipeline-model-parallel-size 2 || return 1
    [ "$before" = "$(stat -c %Y.%i stored_id_document.bin)" ] && ! grep 'are now the documents' "$work/again"
}
check "they are read once" once
newer() {
    touch stored.npz
    # shellcheck disable=SC2086
    yuan newer 1 $rows --data-path stored.npz && grep -q '60 rows of 32 tokens are now the documents' "$work/newer"
}
check "and again when the file is newer" newer
# shellcheck disable=SC2086
elsewhere() {
    mkdir -p cache && yuan elsewhere 2 $rows --data-path stored.npz --data-cache-path cache --npz-array attention_mask &&
        [ -f cache/stored_attention_mask_document.idx ]
}
check "another array, in another folder" elsewhere

# 80f1e03 splits at random, 80 to 20; d84f71c takes the first rows.
# shellcheck disable=SC2086
random() {
    yuan random 1 $rows --data-path stored.npz --split-at-random && ! as_built random &&
        yuan random2 2 $rows --data-path stored.npz --split-at-random --pipeline-model-parallel-size 2 &&
        losses random > a && losses random2 > b && paste a b | awk '{ d = $1 / $2 - 1; exit d * d > 1e-10 }'
}
check "a split at random, the same on two stages" random
first() {
    yuan first 1 --log-arguments --document-samples --n-epochs 1 --split 40,10,0 --data-documents 50 --data-path stored.npz &&
        grep -q 'document indices in \[40, 50) total of 10 documents' "$work/first"
}
check "the first 50 rows, 40 to 10" first

# Mock rows: nothing is learnt at a rate of 0, so an evaluation on the rows of training has the mean
# of their losses.
mock() {
    yuan mock 1 --mock-data --mock-distribution uniform --mock-validation train --data-blocks 16 --n-epochs 1 --lr 0 \
        --min-lr 0 && losses mock | awk '{ x[NR] = $1 } END { d = (x[1] + x[2] + x[3] + x[4]) / 4 / x[5] - 1
        exit NR != 5 || d * d > 1e-12 }'
}
check "mock rows are validated on again" mock

# The file that its logger writes, and the folder of a run.
files() {
    yuan files 2 --mock-data --train-iters 2 --eval-iters 0 --log-file 'log/train_gpt2_yuan_%Y-%m-%d_%H-%M-%S.txt' \
        --tensorboard-dir logs/default --tensorboard-run config --pipeline-model-parallel-size 2 || return 1
    ls log > name
    grep -qE '^train_gpt2_yuan_20[0-9][0-9]-[0-9][0-9]-[0-9][0-9]_[0-9][0-9]-[0-9][0-9]-[0-9][0-9]\.txt$' name || return 1
    ! grep -vE '^20[0-9-]{8} [0-9:]{8},[0-9]{3} - trireme - (INFO|WARNING) - .' "log/$(cat name)" || return 1
    sed 's/^[^-]*-[^-]*-[^-]* - trireme - INFO - //' "log/$(cat name)" | grep '^ iteration' > a
    grep '^ iteration' "$work/files" | cmp - a && [ "$(grep -c . a)" = 2 ]
}
check "a file of all lines" files
run_name() {
    ls logs/default > name && cat name || return 1
    grep -qE '^20[0-9]{2}(_[0-9]{2}){4}_32_4_2_32_98_0.001_2$' name
}
check "a folder of values" run_name
: > file
unwritable() {
    ! yuan bad 1 --mock-data --train-iters 1 --log-file file/log.txt > /dev/null && grep -q 'file' "$work/bad" &&
        ! grep -q iteration "$work/bad"
}
check "a log that cannot be written" unwritable
fails "a split of nothing" 64 "give --document-samples and --data-path" "$trireme" train --mock-data --num-layers 1 \
    --hidden-size 8 --num-attention-heads 1 --seq-length 8 --max-position-embeddings 8 --vocab-size 9 --micro-batch-size 1 \
    --train-iters 1 --lr 1 --split-at-random
