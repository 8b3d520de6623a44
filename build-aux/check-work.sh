#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The arithmetic of a layer stands in src/config/work.c and nowhere else: what asks for the width of
# the MLP, of heads or of their groups is about to count products, numbers or bytes of a layer a
# second time.
set -eu
cd "${srcdir:-.}"
echo 1..2

. build-aux/result.sh

# Of struct tr_dims, in C; comments, and a group's `groups` in comm/ and pipeline/, are others.
uses() {
    find src -name '*.[ch]' | sort | xargs grep -nE "$1" | grep -vE '^[^:]*:[0-9]*: *(/?\*|//)'
}

# What may: the list itself; the rules that set the widths (config/dims.c) and their file in
# checkpoints; the model, which computes with them; the formulas of others, which know layers by
# them (config/flops.c); the reader of logs, which finds them.
result 1 "only the list of work has the width of the MLP" "$(
    uses '(\.|->)ffn\b' | grep -vE '^src/(config/(work|dims|model_family)\.c|model/[a-z_]*\.c|report/summary\.c|weights/[a-z_]*\.c):' || :
)"

# Numbers of heads and their widths: also rules about which of them a run can have, and the weights
# of others, whose rows stand by heads.
result 2 "only the list of work has heads and their widths" "$(
    uses '(dims(\.|->)|\b[ms]->)(heads|groups|head_dim)\b' | grep -vE \
        '^src/(config/(work|dims|flops)\.c|model/[a-z_]*\.c|report/summary\.c|train/compute\.c|plan/others\.c|weights/[a-z_]*\.c):' |
        grep -v '^src/plan/cost\.c:[0-9]*:.*head_dim %' || :
)"
