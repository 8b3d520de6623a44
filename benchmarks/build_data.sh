#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# build_data.sh [TEXT [VOCAB MERGES]]: how fast `trireme data build` is, run where ./trireme is.
#
# A file of 100 MB is made by repeating TEXT and put through each tokenizer with 1, 2, 4, ...
# threads up to the cores of this process, as one document.  Each line is a JSON object; the rate is
# the best of three, in bytes of text, and counts all from the first byte read to the last one on
# the disk.  The files are in a folder under $TMPDIR.  Without arguments the text and the vocabulary
# of tests/golden are used, whose words are few: real text with GPT-2's vocabulary says more.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
golden=$here/../tests/golden
text=${1:-$golden/make_bpe.py}
vocab=${2:-$golden/bpe_vocab.json}
merges=${3:-$golden/bpe_merges.txt}
work=$(mktemp -d "${TMPDIR:-/tmp}/trireme-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
bytes=100000000

cp "$text" "$work/text"
while [ "$(wc -c <"$work/text")" -lt $bytes ]; do
    cat "$work/text" "$work/text" >"$work/twice"
    mv "$work/twice" "$work/text"
done
head -c $bytes "$work/text" >"$work/corpus.txt"
rm "$work/text"

# measure TOKENIZER WORKERS [OPTION...]: "seconds tokens" of the fastest of three.
measure() {
    tokenizer=$1 workers=$2
    shift 2
    for repeat in 1 2 3; do
        ./trireme data build "$work/corpus.txt" --output-prefix "$work/$repeat" --append-eod \
            --overwrite --tokenizer-type "$tokenizer" --workers "$workers" "$@" |
            awk '/ bytes read in / { seconds = $5 } / documents, / { tokens = $4 }
                 END { print seconds, tokens }'
        rm -f "$work/$repeat"_*
    done | sort -n | head -n 1
}

report() {
    measure "$@" | {
        read -r seconds tokens
        awk -v s="$seconds" -v t="$tokens" -v host="$(uname -n)" -v b=$bytes 'BEGIN {
            printf "{\"bench\": \"build_data\", \"host\": \"%s\", \"tokenizer\": \"%s\", ", host, ARGV[1]
            printf "\"workers\": %d, \"bytes\": %d, \"tokens\": %d, \"seconds_min\": %s, ", ARGV[2], b, t, s
            printf "\"bytes_per_second\": %.3g, \"tokens_per_second\": %.3g}\n", b / s, t / s
        }' "$1" "$2"
    }
}

workers=1
while [ $workers -le "$(nproc)" ]; do
    report bytes $workers
    report gpt2-bpe $workers --vocab-file "$vocab" --merge-file "$merges"
    workers=$((2 * workers))
done
