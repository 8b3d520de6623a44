#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# benchmarks/run: what the two sides of a ratio ran with is said, and a ratio of unlike things
# refused.
. "$srcdir/tests/tap.sh"
plan 20

case $srcdir in /*) ;; *) srcdir=$PWD/$srcdir ;; esac

# What is built already serves, and lines of JSON go to a folder of this test.
mkdir -p "$work/build/benchmarks"
ln -s "$PWD/Makefile" "$work/build"
ln -s "$PWD/benchmarks/bench_step" "$work/build/benchmarks"
run() {
    MAKE=true BUILD=$work/build timeout 300 sh "$srcdir/benchmarks/run" "$@" >"$work/out" 2>&1 && return 0
    cat "$work/out"
    return 1
}

says() {
    grep -q -e "$1" "$work/out" || { cat "$work/out"; return 1; }
}

tiny="--num-layers 1 --hidden-size 16 --num-attention-heads 1 --vocab-size 64 --seq-length 8 --max-position-embeddings 8"

# shellcheck disable=SC2086 # words
check "a step in fp16" run step 1 $tiny --fp16
check "it takes all cores" says "^threads: $(nproc) of each rank, ranks \* threads: $(nproc), cores for them: $(nproc)\$"
check "no library multiplies fp16" says '^ratio: none'
refused() {
    grep -q '"libraries": "none"' "$work/build/benchmarks/results.jsonl" ||
        says '^no ratio to .*: it multiplies in fp32 and the step in fp16'
}
check "which is said of each" refused
# shellcheck disable=SC2086
check "a step on three threads" run step alone 1 $tiny --threads 3
check "it takes three" says '^threads: 3 of each rank'

# Peers, and a step of ours, that print given results.
mkdir "$work/benchmarks"
line() {
    printf '#!/bin/sh\n%s\ncat <<END\n{"bench": "x", "by": "Peer 1.0", "type": "fp32", "kernels": "K", "samples": %s, "tokens": %s, ' \
        "$2" '4' '64' >"$1"
    printf '"family": "llama3", "parameters": 5, "heads": 12, "groups": 3, "head_width": 64, "inner": 2816, ' >>"$1"
    printf '"dropout": %s, "ranks": 1, "threads": %s, "seconds_min": 0.4, "seconds_median": %s, "first_loss": 11}\nEND\n' \
        "$3" "$4" "$5" >>"$1"
    chmod +x "$1"
}
line "$work/benchmarks/bench_step" ':' 0.0 2 0.5
printf '#!/bin/sh\necho 3000\n' >"$work/benchmarks/bench_clock"
chmod +x "$work/benchmarks/bench_clock"
peers() { (cd "$work" && sh "$srcdir/benchmarks/peers.sh" --rounds 2 --repeats 1 --threads 2 "$@") >"$work/out" 2>&1; }

# shellcheck disable=SC2016 # for the script
line "$work/python" '[ "$1" != -c ] || exit 0' 0 2 1.25
check "a peer that is alike" peers --python "$work/python"
check "its ratio" says '^ratio: trireme is 2.50 times as fast as Peer 1.0 (2.50 to 2.50)$'
check "what it ran with" says '^pytorch *1250\.0 ms (1250\.0 1250\.0), 2 threads, 1 rank, fp32, loss 11 at first, K, 3000 3000 MHz$'
# shellcheck disable=SC2016
line "$work/python" '[ "$1" != -c ] || exit 0' 0 1 1.25
unlike() {
    peers --python "$work/python" || return 1
    says '^no ratio to pytorch: threads 1 there and 2 here' && ! grep '^ratio:' "$work/out"
}
check "a peer on one thread" unlike

# In bf16 there are two kinds of PyTorch, of which the faster counts.
# shellcheck disable=SC2016
line "$work/python" '[ "$1" != -c ] || exit 0; s=1.25; [ "$6" = autocast ] || s=1.5' 0 2 '$s'
# shellcheck disable=SC2016
sed -i 's/"type": "fp32"/"type": "bf16"/; s/"by": "Peer 1.0"/"by": "$6"/' "$work/python"
both() {
    peers --python "$work/python" --bf16 || return 1
    says '^weights *1500\.0 ms' && says '^no ratio to autocast: type bf16 there and fp32 here'
}
check "bf16 there and fp32 here" both
# shellcheck disable=SC2016
line "$work/benchmarks/bench_step" 'for last; do :; done; [ "$last" = --bf16 ] || exit 1' 0.0 2 0.5
sed -i 's/"type": "fp32"/"type": "bf16"/' "$work/benchmarks/bench_step"
stronger() {
    peers --python "$work/python" --bf16 || return 1
    says '^ratio: trireme is 2.50 times as fast as autocast (' &&
        [ "$(grep -c '^ratio:' "$work/out")" -eq 2 ]
}
check "bf16 on both sides: a ratio to the faster kind" stronger
fails "llm.c in bf16" 64 "in bf16 only GPT-2 and PyTorch" \
    sh "$srcdir/benchmarks/peers.sh" --llm-c "$work" --bf16
line "$work/benchmarks/bench_step" ':' 0.0 2 0.5

# What it is called with takes the place of its name.
# shellcheck disable=SC2016
line "$work/python" '[ "$1" != -c ] || exit 0; shift' 0 2 1.25
sed -i 's/"by": "Peer 1.0"/"by": "$*"/' "$work/python"
check "the same model of transformers" peers --python "$work/python" --model-family llama3
check "by itself and compiled, of those sizes" \
    says '^ratio: trireme is 2.50 times as fast as compiled 1 2 llama3 1 1024 12 3 64 2816 (2.50 to 2.50)$'
sed -i 's/"parameters": 5/"parameters": 6/' "$work/python"
other() {
    peers --python "$work/python" --model-family llama3 || return 1
    says '^no ratio to eager: parameters 6 there and 5 here' && ! grep '^ratio:' "$work/out"
}
check "a model of another size" other
fails "a family of llm.c" 64 "llm.c has GPT-2 alone" sh "$srcdir/benchmarks/peers.sh" --llm-c "$work" --model-family opt

fails "no peer" 64 "no peer to compare with" sh "$srcdir/benchmarks/peers.sh"
fails "a Python without PyTorch" 69 "cannot import PyTorch" sh "$srcdir/benchmarks/peers.sh" --python /bin/false
fails "no checkout of llm.c" 69 "has no train_gpt2.c" sh "$srcdir/benchmarks/peers.sh" --llm-c "$work"
