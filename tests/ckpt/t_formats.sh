#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Checkpoints as others see them: `trireme ckpt`, HDF5's own tools, Python, and what the manual
# says.
# shellcheck source=tests/tap.sh
. "${srcdir:?}/tests/tap.sh"
plan 15

doc=$srcdir/docs/formats.md
dir=$work/save
file=$dir/iter_0000100/model_optim_rng.h5
ranks 1 tests/ckpt/t_victim once "$dir" 100 >"$work/log" 2>&1

log_is() {
    printf '%s\n' "saving checkpoint at iteration     100 to $dir" \
        "  successfully saved checkpoint at iteration     100 to $dir" \
        " loading checkpoint from $dir at iteration 100" \
        " checkpoint version 1.5" \
        "  successfully loaded checkpoint from $dir at iteration 100" | diff - "$work/log"
}
check "the lines of the log are Megatron's" log_is

shows() { "$trireme" ckpt show "$1" | grep -q "^iteration  *100$"; }
check "show takes the folder that was saved to" shows "$dir"
check "show takes the folder of a checkpoint" shows "$dir/iter_0000100"
check "show takes the file" shows "$file"
check "verify finds it whole" "$trireme" ckpt verify "$dir"
fails "there must be a sub-verb" 64 "show, verify, import or export" "$trireme" ckpt
fails "a wrong sub-verb is named" 64 "cannot 'prune'" "$trireme" ckpt prune "$dir"
fails "a wrong option is named" 64 "has no option --all" "$trireme" ckpt verify --all "$dir"
fails "nothing there: 74" 74 "there is no checkpoint in $work" "$trireme" ckpt show "$work"
fails "no such file: 74" 74 "No such file" "$trireme" ckpt verify "$work/none.h5"

# The last byte of the file is one of the last tensor.
cp "$file" "$work/damaged.h5"
size=$(wc -c <"$file")
printf '\377' | dd of="$work/damaged.h5" bs=1 seek=$((size - 2)) conv=notrunc 2>/dev/null
fails "a damaged one: 65, and the tensor is named" 65 \
    "exp_avg_sq/encoder.final_layernorm.bias is damaged" "$trireme" ckpt verify "$work/damaged.h5"
fails "one of several: 65" 65 "1 of 2 checkpoints" "$trireme" ckpt verify "$work/damaged.h5" "$file"

# Attributes and datasets, as h5dump prints them, against the tables of the manual.
documented() {
    h5dump -H "$file" | grep -E '^ +(ATTRIBUTE|GROUP|DATASET)' |
        sed -E 's/.* "(.*)" \{/\1/; s/layers\.[0-9]+/layers.N/' | grep -v '^/$' | sort -u |
        while read -r name; do
            tail=${name##*.}
            grep -qF "\`$name\`" "$doc" || grep -qF "\`${name%.*}.weight\` and \`.$tail\`" "$doc" ||
                { echo "docs/formats.md does not name $name"; return 1; }
        done
}
# Elements and checksum as h5dump gives them, the sum as the manual defines it.
resum() {
    set=/exp_avg/encoder.layers.1.mlp.dense_4h_to_h.weight
    h5dump -d "$set" -b LE -o "$work/raw" "$file" >/dev/null || return 1
    want=$(h5dump -a "$set/checksum" "$file" | sed -n 's/.*(0): //p')
    python3 - "$work/raw" "$want" <<'EOF'
import struct, sys
data = open(sys.argv[1], "rb").read()
total, m = 0, 2**64 - 1
for i, (b,) in enumerate(struct.iter_unpack("<I", data)):
    z = ((i + 1) * 0x9E3779B97F4A7C15 + b) & m
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & m
    z = (z ^ z >> 27) * 0x94D049BB133111EB & m
    total += z ^ z >> 31
sys.exit(not (len(data) == 4 * 8 * 32 and total & m == int(sys.argv[2])))
EOF
}
if command -v h5dump >/dev/null; then
    check "the manual names all that h5dump shows" documented
else
    skip "the manual names all that h5dump shows" "no h5dump"
fi
if command -v h5dump >/dev/null && command -v python3 >/dev/null; then
    check "h5dump reads the elements, and they have the checksum of the manual" resum
else
    skip "h5dump reads the elements, and they have the checksum of the manual" "no h5dump or python3"
fi

# The program in the manual, as it stands there.
example() {
    awk '/^```/ { inside = $0 == "```python"; next } inside' "$doc" >"$work/read.py"
    "$python" "$work/read.py" "$file" >"$work/out" &&
        printf 'iteration 100\nweights 3856\ntrireme checkpoint 1.5\n' | diff - "$work/out"
}
if python=$(python_with h5py numpy); then
    check "the program in the manual reads it" example
else
    skip "the program in the manual reads it" "no python3 with h5py and numpy"
fi
