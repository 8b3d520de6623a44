#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# sim.sh [ROUNDS] [--option value ...]: training on two ranks next to what `trireme sim` says of it,
# run where ./trireme is.
#
# Each of ROUNDS rounds (5) measures the machine as users do (trireme bench machine) and then trains
# two models with a thread a rank in three layouts, all in turn; options are added to every run.  A
# step that was measured is the median of the rounds' medians.  It is simulated twice: with the
# medians of the profiles, which no run has changed, and with a profile that is fitted (trireme plan
# --fit) to the runs of the other two layouts.  The result is a line of JSON for each model and
# layout.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
rounds_and_folder "$@"
[ "$words" -lt 2 ] || fail "there is no FOLDER here: [ROUNDS] [--option value ...]" 64
shift "$words"
steps=8 warm=2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

set -- --seq-length 256 --max-position-embeddings 256 --vocab-size 8192 --tokenizer-type NullTokenizer --mock-data \
    --micro-batch-size 1 --train-iters $((warm + steps)) --lr 1e-4 --eval-iters 0 --log-interval 1 --timing-log-level 2 "$@"
# options MODEL LAYOUT
options() {
    case $1 in
    narrow) echo --num-layers 8 --hidden-size 512 --num-attention-heads 8 --global-batch-size 4 ;;
    wide) echo --num-layers 6 --hidden-size 1024 --num-attention-heads 16 --global-batch-size 2 ;;
    esac
    case $2 in
    tensor) echo --tensor-model-parallel-size 2 ;;
    pipeline) echo --pipeline-model-parallel-size 2 ;;
    esac
}

ranks() {
    sh "$here/../tests/mpirun" --ranks 2 --threads 1 ./trireme "$@" || {
        echo "sim.sh: trireme $1 failed" >&2
        exit 70
    }
}

# The median of each number of the profiles.
profile() {
    awk -F ' = ' '
        /^#/ || NF != 2 { next }
        !($1 in n) { order[++keys] = $1 }
        { all[$1, ++n[$1]] = $2 }
        END {
            for (k = 1; k <= keys; k++) {
                key = order[k]
                for (i = 2; i <= n[key]; i++)
                    for (j = i; j > 1 && all[key, j] + 0 < all[key, j - 1] + 0; j--) {
                        x = all[key, j]; all[key, j] = all[key, j - 1]; all[key, j - 1] = x
                    }
                print key " = " all[key, int((n[key] + 1) / 2)]
            }
        }' "$work"/machine.*
}

# Milliseconds of a step by the simulation with a profile: simulated PROFILE OPTION...
simulated() {
    machine=$1
    shift
    ./trireme sim --json --machine "$machine" --world-size 2 "$@" | sed -n 's/.*"p50": \([0-9.e+-]*\).*/\1/p' |
        awk '{ print 1e3 * $1 }'
}

# The median of a run's steps, without the first ones.
step() {
    all=$rounds
    rounds=$steps
    sed -n 's/.*elapsed time per iteration (ms): \([0-9.]*\).*/\1/p' "$1" | sed "1,${warm}d" | median
    rounds=$all
}

for round in $(seq "$rounds"); do
    ranks bench machine --threads 1 --write-machine "$work/machine.$round" >"$work/bench"
    for model in narrow wide; do
        for layout in tensor pipeline replicas; do
            # shellcheck disable=SC2046 # options are several words
            ranks train --threads 1 $(options $model $layout) "$@" >"$work/$layout.$model.$round" 2>&1
            step "$work/$layout.$model.$round" >>"$work/steps.$layout.$model"
        done
    done
done
profile >"$work/measured.conf"
kernels=$(sed -n 's/^# trireme.*on 1 node, //p' "$work/bench")
for layout in tensor pipeline replicas; do
    others=$(find "$work" -name '*.*.[0-9]*' ! -name 'machine.*' ! -name 'steps.*' ! -name "$layout.*" | sort)
    # shellcheck disable=SC2086 # files are several words
    ./trireme plan --fit $others --machine "$work/measured.conf" >"$work/fitted.conf"
    for model in narrow wide; do
        took=$(median <"$work/steps.$layout.$model")
        # shellcheck disable=SC2046 # options are several words
        says=$(simulated "$work/measured.conf" $(options $model $layout) "$@")
        # shellcheck disable=SC2046
        fits=$(simulated "$work/fitted.conf" $(options $model $layout) "$@")
        awk -v host="$(uname -n)" -v date="$(date -u +%Y-%m-%dT%H:%M:%SZ)" -v cores="$(nproc)" -v rounds="$rounds" \
            -v busy="$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null || echo -1)" -v kernels="$kernels" -v model="$model" \
            -v layout="$layout" -v took="$took" -v says="$says" -v fits="$fits" 'BEGIN {
            printf "{\"bench\": \"sim\", \"host\": \"%s\", \"date\": \"%s\", \"cores\": %d, \"load\": %s, ", host, date, cores, busy
            printf "\"kernels\": \"%s\", \"ranks\": 2, \"threads\": 1, \"rounds\": %d, ", kernels, rounds
            printf "\"layout\": \"%s\", \"model\": \"%s\", \"measured_ms\": %.1f, ", layout, model, took
            printf "\"simulated_ms\": %.1f, \"ratio\": %.3f, ", says, says / took
            printf "\"fitted_ms\": %.1f, \"fitted_ratio\": %.3f}\n", fits, fits / took
        }'
    done
done
