#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# trireme data build with what Yuan needs: arrays of numpy, rows of padded lines, parts, folders.
# shellcheck source=tests/tap.sh
. "${srcdir:?}/tests/tap.sh"
python=$(python_with numpy) || skip_all "no python3 with numpy"
plan 33

data() { "$trireme" data "$@"; }
same() { cmp "$1.bin" "$2.bin" && cmp "$1.idx" "$2.idx"; }
cd "$work" || exit 1

# What numpy writes, as files and as the bytes that .bin must have.
"$python" - <<'END' || exit 1
import struct, zipfile
import numpy as np
rows = np.random.default_rng(5).integers(0, 53228, (700, 64)).astype("<u2")
for save, name in (np.savez, "stored"), (np.savez_compressed, "deflated"):
    save(f"{name}.npz", id=rows, attention_mask=np.ones_like(rows))
np.savez_compressed("wide.npz", id=rows.astype("<i8"))
np.savez("four.npz", id=rows.astype("<i4"))
np.savez("vector.npz", id=rows[0])
rows.tofile("u2"), rows.astype("<i4").tofile("i4")
np.savez("float.npz", id=rows.astype("<f4"))
np.savez("fortran.npz", id=np.asfortranarray(rows))
np.savez("cube.npz", id=rows.reshape(7, 100, 64))
np.savez("big.npz", id=rows.astype(">u2"))
np.savez("none.npz", id=rows[:0])
bad = rows.astype("<i8"); bad[6, 9] = -1
np.savez("negative.npz", id=bad)
bad[6, 9] = 2**31
np.savez_compressed("large.npz", id=bad)
np.savez("object.npz", id=np.array([{"a": 1}], dtype=object))
whole = bytearray(open("stored.npz", "rb").read())
whole[whole.index(rows[300].tobytes()) + 3] ^= 1
open("changed.npz", "wb").write(whole)
whole = open("deflated.npz", "rb").read()
open("short.npz", "wb").write(whole[:len(whole) // 2])
packed = bytearray(whole)
packed[20000:20008] = bytes(8)
open("holes.npz", "wb").write(packed)
with zipfile.ZipFile("lzma.npz", "w", zipfile.ZIP_LZMA) as z:
    z.writestr("id.npy", b"\x93NUMPY")
with zipfile.ZipFile("header.npz", "w") as z:
    text = b"{'descr': '<u2', 'fortran_order': False, 'shape': (9000000000, 9)}"
    z.writestr("id.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text)
END

is() { data build "$1.npz" --output-prefix "$1" && cmp "$1_id_document.bin" "$2" && data verify "$1_id_document"; }
check "stored rows are those of numpy" is stored u2
check "deflated rows are those of numpy" is deflated u2
check "rows of 64 bits" is wide i4
check "rows of 32 bits" is four i4
documents() { data show stored_id_document | grep -q 700 && data show stored_id_document --document 699 >/dev/null; }
check "each row is a document" documents
check "a vector is one" data build vector.npz --output-prefix vector
another() { data build deflated.npz --output-prefix other --npz-array attention_mask && [ -f other_attention_mask_document.bin ]; }
check "another array" another
both() { data build stored.npz four.npz --output-prefix both && cat u2 u2 | cmp - both_id_document.bin; }
check "several files" both

refused() { fails "$1" "$2" "$3" "$trireme" data build "$4.npz" --output-prefix no; }
refused "floats" 65 "<f4" float
refused "an order of columns" 65 "in C order" fortran
refused "three dimensions" 65 "one or two dimensions" cube
refused "big endian" 65 "little endian" big
refused "objects" 65 "|O" object
refused "no rows" 65 "has no rows" none
refused "a negative number" 65 "row 6, column 9" negative
refused "a number of 32 bits" 65 "row 6, column 9" large
refused "a bit that changed" 65 "CRC-32" changed
refused "half a file" 65 "is cut short" short
refused "damage" 65 "holes.npz" holes
refused "another compression" 65 "id.npy is encrypted or compressed" lzma
refused "a header that promises more" 65 "do not hold them" header
fails "no such array" 65 'no array "ids", only attention_mask.npy, id.npy' "$trireme" data build stored.npz \
    --output-prefix no --npz-array ids
fails "a vocabulary that is too small" 65 "has the token" "$trireme" data build stored.npz \
    --output-prefix no --vocab-size 50000
nothing_left() { ! ls no_* 2>/dev/null; }
check "nothing of these is left" nothing_left

# Lines as rows of 8: a long one is cut, a blank one is padding.
printf '中国,GPT2\n\n国2 国2 国2 国2 国2\n' >lines.txt
printf '的\n中国\n中\n国\nGPT\n##2\n人a\n<unk>\n[PAD]\n' >vocab.txt
chinese() { data build "$@" --tokenizer-type ChineseWordPiece --tokenizer-model vocab.txt; }
rows() {
    chinese lines.txt --split-documents lines --row-tokens 8 --output-prefix rows &&
        [ "$(od -An -v -w16 -t u2 rows_text_document.bin | tr -s ' ')" = " 1 7 4 5 8 8 8 8
 8 8 8 8 8 8 8 8
 3 5 3 5 3 5 3 5" ]
}
check "lines become rows of one length" rows
own_pad() {
    chinese lines.txt --split-documents lines --row-tokens 8 --pad-id 0 --output-prefix own &&
        od -An -v -t u2 own_text_document.bin | head -1 | grep -q '5 *0 *0 *0 *0'
}
check "with a padding of one's own" own_pad
fails "rows of a file that is one document" 64 "give --split-documents lines" "$trireme" data build lines.txt \
    --row-tokens 8 --output-prefix no --tokenizer-type ChineseWordPiece --tokenizer-model vocab.txt

# A folder is its files by name, without what begins with a dot.
mkdir -p folder/b folder/.git
cp lines.txt folder/b/one.txt
cp lines.txt folder/a.txt
cp vocab.txt folder/.git/no.txt
folder() {
    chinese folder --split-documents lines --output-prefix folder-a &&
        chinese lines.txt lines.txt --split-documents lines --output-prefix folder-b &&
        same folder-a_text_document folder-b_text_document
}
check "a folder stands for its files" folder

# Parts, each by a process of its own, joined.
awk 'BEGIN { for (i = 0; i < 90000; i++) print "中国 " i " GPT2" }' >many.txt
parts() {
    chinese many.txt --split-documents lines --row-tokens 8 --output-prefix whole || return
    for k in 0 1 2; do
        chinese many.txt --split-documents lines --row-tokens 8 --part $k/3 --output-prefix part$k &
    done
    wait
    data merge part0_text_document part1_text_document part2_text_document --output-prefix joined &&
        same whole_text_document joined && ! cmp -s part0_text_document.bin part1_text_document.bin
}
check "parts of several processes are the whole" parts
fails "a part that there is not" 64 "give K/N" "$trireme" data build many.txt --split-documents lines \
    --part 3/3 --output-prefix no --tokenizer-type bytes
fails "a part of next to nothing" 65 "give fewer parts" "$trireme" data build lines.txt --split-documents lines \
    --part 1/2 --output-prefix no --tokenizer-type bytes

# Each row is a sample of an epoch, none of it is in two.
train() {
    "$trireme" train --num-layers 1 --hidden-size 8 --num-attention-heads 1 --max-position-embeddings 64 --seq-length 63 \
        --tokenizer-type NullTokenizer --vocab-size 53227 --micro-batch-size 10 --global-batch-size 100 --lr 0.001 \
        --train-data-path stored_id_document --n-epochs 1 --eval-iters 0 --log-interval 1 "$@"
}
epoch() {
    train --document-samples > train.log 2>&1 && grep -q '^ iteration *7/ *7 ' train.log &&
        grep -qF ' > train: 700 samples of 63 tokens, each once in an epoch; of 44800 tokens 0 at the end are left over' train.log
}
check "an epoch takes each row once" epoch
fails "rows of another length" 65 "give --seq-length 63" train --document-samples --seq-length 32
