#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# adam.sh [--python PATH] [MILLIONS [ROUNDS [THREADS]]]: AdamW and 8-bit Adam here next to a copy of
# memory, and AdamW in PyTorch, run where benchmarks/bench_adam is.
#
# Each round (3) is a process of ours and, with PATH, a python3 that has PyTorch, one of
# AdamW(fused=True); every other round it is first.  The last lines have ratios of the medians of
# the rounds: how long 8-bit Adam takes, and how many times as fast as PyTorch's ours is.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
python=
if [ "${1:-}" = --python ]; then
    python=${2:?adam.sh: --python needs a path}
    shift 2
fi
millions=${1:-64}
rounds=${2:-3}
number ROUNDS "$rounds"
threads=${3:-$(nproc)}
work=$(mktemp -d "${TMPDIR:-/tmp}/trireme-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
if [ -n "$python" ] && ! "$python" -c 'import torch' 2>"$work/why"; then
    fail "$python cannot import PyTorch: $(tail -n 1 "$work/why")" 69
fi

ours() {
    benchmarks/bench_adam "$millions" "$threads" | tee -a "$work/ours"
}

theirs() {
    [ -z "$python" ] || "$python" "$here/peers/pytorch_adam.py" "$millions" "$threads" | tee -a "$work/theirs"
}

# seconds FILE WHAT: of the rounds.
seconds() { sed -n 's/.*"what": "'"$2"'".*"seconds_median": \([0-9.e+-]*\).*/\1/p' "$1"; }

round=1
while [ "$round" -le "$rounds" ]; do
    if [ $((round % 2)) -eq 1 ]; then
        ours
        theirs
    else
        theirs
        ours
    fi
    round=$((round + 1))
done
a=$(seconds "$work/ours" adamw | median)
e=$(seconds "$work/ours" '8-bit adam' | median)
awk -v a="$a" -v e="$e" -v n="$rounds" -v t="$threads" 'BEGIN {
    printf "8-bit Adam takes %.2f times as long as AdamW: medians of %d rounds, %d threads, fp32\n", e / a, n, t }'
if [ -n "$python" ]; then
    b=$(seconds "$work/theirs" 'adamw of PyTorch, fused' | median)
    awk -v a="$a" -v b="$b" -v n="$rounds" -v t="$threads" 'BEGIN {
        printf "AdamW is %.2f times as fast as PyTorch'"'"'s fused one: medians of %d rounds, %d threads, fp32\n", b / a, n, t }'
fi
