#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# peers.sh [--python PATH] [--llm-c DIR] [--cc PATH] [--model-family NAME] [--bf16] [--rounds N]
# [--repeats N] [--threads N]: a training step here and in other programs, run where
# benchmarks/bench_step is.
#
# GPT-2 124M from random weights, fp32 or, with --bf16, bf16, no dropout, forward to AdamW, 4 samples
# of 64 tokens and 1 of 1024. PyTorch is run by PATH, a python3 that has it; llm.c is compiled from
# its checkout DIR with --cc (cc) and the flags of its Makefile.  Each round (3) runs all of them, one
# after the other, a process each, REPEATS (9) steps of the first kind and a third of that of the
# second; llm.c a third of that again, and one of 1024 tokens, since it takes a minute for it.  With
# --model-family it is the step of `bench_step --model-family NAME`, and the peers are that model of
# transformers on PyTorch, eager and by torch.compile; PATH then has transformers, too.  With --bf16
# PyTorch runs twice: with autocast over fp32 weights, and with weights, gradients and AdamW in bf16.
# The ratio is to the faster of the two.  Each warms up before.  A ratio is one of the medians of the
# rounds' medians; behind it are the least and the largest ratio of one round.  Each process says
# with what it ran, and a ratio of unlike things is refused.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
python='' llmc='' family='' half='' cc=${CC:-cc} rounds=3 repeats=9 threads=$(nproc)

while [ $# -gt 0 ]; do
    if [ "$1" = --bf16 ]; then
        half=bf16
        shift
        continue
    fi
    [ $# -gt 1 ] || fail "$1 needs a value" 64
    case $1 in
    --python) python=$2 ;;
    --llm-c) llmc=$2 ;;
    --cc) cc=$2 ;;
    --model-family) family=$2 ;;
    --rounds) number "$1" "$2"; rounds=$2 ;;
    --repeats) number "$1" "$2"; repeats=$2 ;;
    --threads) number "$1" "$2"; threads=$2 ;;
    *) fail "there is no option '$1': --python, --llm-c, --cc, --model-family, --bf16, --rounds, --repeats or --threads" 64 ;;
    esac
    shift 2
done
[ -n "$python$llmc" ] || fail "no peer to compare with: name a python3 that has PyTorch with --python PATH \
(python3 -m venv V && V/bin/pip install torch numpy makes V/bin/python3), a checkout of llm.c with --llm-c DIR, or both" 64
[ -z "$family" ] || [ -z "$llmc" ] || fail "llm.c has GPT-2 alone and cannot be compared with --model-family $family: \
leave out one of --llm-c and --model-family" 64
[ -z "$half" ] || [ -z "$llmc$family" ] || fail "in bf16 only GPT-2 and PyTorch are compared: leave out --bf16, or \
--llm-c and --model-family" 64
work=$(mktemp -d "${TMPDIR:-/tmp}/trireme-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

# These are of the libraries that we compare with; peers choose their kernels themselves.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE OPENBLAS_NUM_THREADS BLIS_ARCH_TYPE
OMP_NUM_THREADS=$threads
export OMP_NUM_THREADS

prepare_pytorch() {
    "$python" -c 'import torch, numpy' 2>"$work/why" ||
        fail "$python cannot import PyTorch and numpy ($(tail -n 1 "$work/why")): $python -m pip install torch numpy" 69
}

prepare_transformers() {
    "$python" -c 'import torch, transformers, numpy' 2>"$work/why" ||
        fail "$python cannot import PyTorch, transformers and numpy ($(tail -n 1 "$work/why")): $python -m pip install torch transformers numpy" 69
}

# Weights are written in version 3 of its format, that of padded vocabularies.
prepare_llmc() {
    [ -f "$llmc/train_gpt2.c" ] || fail "$llmc has no train_gpt2.c: --llm-c takes a checkout of llm.c" 69
    grep -q padded_vocab_size "$llmc/train_gpt2.c" ||
        fail "$llmc reads weights of a version before 3 of its format, which we do not write: update it" 69
    "$cc" -Ofast -march=native -fopenmp -DOMP -w -I "$llmc" -o "$work/llmc_step" "$here/peers/llmc_step.c" -lm \
        2>"$work/why" || fail "$cc does not compile $llmc/train_gpt2.c: $(head -n 1 "$work/why")" 69
    commit=$(git -C "$llmc" rev-parse --short HEAD 2>/dev/null) ||
        commit="of no commit, checksum $(cksum <"$llmc/train_gpt2.c" | cut -d ' ' -f 1)"
}

# SAMPLES TOKENS REPEATS; each prints a line of JSON.
run_trireme() {
    sh "$here/../tests/mpirun" --ranks 1 --threads "$threads" benchmarks/bench_step alone "$3" \
        --micro-batch-size "$1" --seq-length "$2" ${family:+--model-family "$family"} ${half:+--bf16}
}

# TYPE and those of the others.
run_pytorch_in() {
    "$python" "$here/peers/pytorch_step.py" "$4" "$2" "$3" "$threads" "$1" 0
}

run_pytorch() {
    run_pytorch_in fp32 "$@"
}

run_autocast() {
    run_pytorch_in autocast "$@"
}

run_weights() {
    run_pytorch_in weights "$@"
}

# MODE and those of the others; the sizes are those of our step of the same round.
run_transformers() {
    for size in heads groups head_width inner; do
        set -- "$@" "$(value "$work/trireme.$round" $size)"
    done
    "$python" "$here/peers/transformers_step.py" "$1" "$4" "$threads" "$family" "$2" "$3" "$5" "$6" "$7" "$8"
}

run_eager() {
    run_transformers eager "$@"
}

run_compiled() {
    run_transformers compiled "$@"
}

run_llmc() {
    fewer=$((($3 + 2) / 3))
    [ "$2" -lt 1024 ] || fewer=1
    (cd "$work" && ./llmc_step $fewer "$1" "$2" "$commit")
}

# value FILE KEY: of the line of JSON in it.
value() {
    sed -n 's/^{.*"'"$2"'": \("[^"]*"\|[^,}]*\)[,}].*/\1/p' "$1" | tr -d '"'
}

# alike WHO: whether the processes of round 1 ran with the same; else a sentence.
alike() {
    for key in threads ranks type dropout samples tokens ${family:+family parameters}; do
        ours=$(value "$work/trireme.1" "$key")
        theirs=$(value "$work/$1.1" "$key")
        # 0 and 0.0 are the same
        awk -v a="$ours" -v b="$theirs" 'BEGIN { exit !(a == b && a != "") }' || {
            echo "no ratio to $1: $key $theirs there and $ours here; measure both with the same"
            return 1
        }
    done
}

# of WHO KEY: of all rounds, one a line.
of() {
    round=1
    while [ $round -le "$rounds" ]; do
        value "$work/$1.$round" "$2"
        round=$((round + 1))
    done
}

# Name, median, those of the rounds, and what it ran with.
show() {
    kernels=$(value "$work/$1.1" kernels)
    printf '%-8s %8.1f ms (%s), %s threads, %s rank, %s, loss %s at first%s, %s MHz\n' "$1" \
        "$(of "$1" seconds_median | median | awk '{ print 1e3 * $1 }')" \
        "$(of "$1" seconds_median | awk '{ printf "%s%.1f", (NR > 1 ? " " : ""), 1e3 * $1 }')" \
        "$(value "$work/$1.1" threads)" "$(value "$work/$1.1" ranks)" "$(value "$work/$1.1" type)" \
        "$(value "$work/$1.1" first_loss)" "${kernels:+, $kernels}" "$(paste -s -d ' ' "$work/$1.mhz")"
}

ratio() {
    of trireme seconds_median >"$work/ours"
    of "$1" seconds_median | paste -d ' ' "$work/ours" - | awk -v who="$(value "$work/$1.1" by)" \
        -v ours="$(median <"$work/ours")" -v theirs="$(of "$1" seconds_median | median)" '
        { r = $2 / $1; if (NR == 1 || r < low) low = r; if (r > high) high = r }
        END { printf "ratio: trireme is %.2f times as fast as %s (%.2f to %.2f)\n", theirs / ours, who, low, high }'
}

# The peers to have a ratio to: all, but of two kinds of bf16 the one with the least median.
rivals() {
    [ -n "$half" ] || { echo "$peers"; return; }
    for who in $peers; do
        echo "$(of "$who" seconds_median | median) $who"
    done | sort -g | sed -n '1s/.* //p'
}

# compare SAMPLES TOKENS REPEATS
compare() {
    echo "-- ${family:+$family, }$1 x $2 tokens, ${half:-fp32}, no dropout, $threads threads; $rounds rounds, medians"
    rm -f "$work"/*.mhz
    round=1
    while [ $round -le "$rounds" ]; do
        for who in trireme $peers; do
            "run_$who" "$@" >"$work/$who.$round" 2>"$work/why" ||
                fail "$who does not run: $(tail -n 1 "$work/why")" 70
            grep '^{' "$work/$who.$round" || fail "$who printed no result" 70
            benchmarks/bench_clock "$threads" >>"$work/$who.mhz"
        done
        round=$((round + 1))
    done
    for who in trireme $peers; do
        show "$who"
    done
    for who in $(rivals); do
        if alike "$who"; then ratio "$who"; fi
    done
}

peers=''
if [ -n "$family" ]; then
    prepare_transformers
    peers='eager compiled'
elif [ -n "$python" ]; then
    prepare_pytorch
    peers=pytorch
    [ -z "$half" ] || peers='autocast weights'
fi
[ -z "$llmc" ] || { prepare_llmc; peers="$peers llmc"; }
compare 4 64 "$repeats"
compare 1 1024 $(((repeats + 2) / 3))
