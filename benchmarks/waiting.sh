#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# waiting.sh [ROUNDS] [--option value ...]: what waiting for threads and ranks costs, run where
# ./trireme is.
#
# A GPT of 4 layers of 64 on 2 ranks of a thread and on a rank of 2 threads, as it is and with one
# busy loop for each core beside it.  Where it is busy the same is run with passive waiting, and
# where it is not with waiting that only spins; both in turn, ROUNDS times (10).  The result is a
# line of JSON for each of the four, with medians and their ratio.  Options are added to every run.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib.sh"
rounds_and_folder "$@"
# shellcheck disable=SC2154 # of lib.sh
[ "$words" -lt 2 ] || fail "there is no FOLDER here: [ROUNDS] [--option value ...]" 64
[ "$words" -gt 0 ] || rounds=10
shift "$words"
cores=$(nproc)
work=$(mktemp -d)
loops=
# Each loop ends by itself, too.
busy() {
    for _ in $(seq "$cores"); do
        timeout 120 sh -c 'while :; do :; done' &
        loops="$loops $!"
    done
}
idle() {
    for loop in $loops; do
        kill "$loop" 2>/dev/null || :
        wait "$loop" 2>/dev/null || :
    done
    loops=
}
trap 'idle; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM

unset OMP_WAIT_POLICY GOMP_SPINCOUNT KMP_BLOCKTIME OMPI_MCA_mpi_yield_when_idle || :
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none

# train HOW RANKS THREADS OPTION...: milliseconds of an iteration, without the first ten.
train() {
    how=$1 ranks=$2 threads=$3
    shift 3
    case $how in
    passive) set -- env OMP_WAIT_POLICY=passive OMPI_MCA_mpi_yield_when_idle=1 "$@" ;;
    spinning) set -- env OMP_WAIT_POLICY=active OMPI_MCA_mpi_yield_when_idle=0 "$@" ;;
    ours) set -- env "$@" ;;
    esac
    OMP_NUM_THREADS=$threads "${MPIEXEC:-mpiexec}" -n "$ranks" "$@" >"$work/log" 2>&1 || {
        tail -n 20 "$work/log" >&2
        exit 70
    }
    sed -n 's/.*elapsed time per iteration (ms): \([0-9.]*\).*/\1/p' "$work/log" |
        awk 'NR > 1 { sum += $1 } END { if (NR < 2) exit 70; print sum / (NR - 1) }'
}

set -- ./trireme train --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 \
    --max-position-embeddings 64 --vocab-size 512 --tokenizer-type NullTokenizer --mock-data --micro-batch-size 4 \
    --global-batch-size 16 --train-iters 30 --lr 1e-4 --eval-iters 0 --log-interval 10 "$@"
for beside in busy idle; do
    case $beside in busy) other=passive ;; idle) other=spinning ;; esac
    for layout in "2 1" "1 2"; do
        rm -f "$work"/ms.*
        for _ in $(seq "$rounds"); do
            "$beside"
            # shellcheck disable=SC2086 # two words
            for how in ours $other; do
                train $how $layout "$@" >>"$work/ms.$how"
            done
            idle
        done
        ours=$(median <"$work/ms.ours")
        theirs=$(median <"$work/ms.$other")
        awk -v host="$(uname -n)" -v date="$(date -u +%Y-%m-%dT%H:%M:%SZ)" -v cores="$cores" -v beside="$beside" \
            -v busy="$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null || echo -1)" -v layout="$layout" -v rounds="$rounds" \
            -v other="$other" -v ours="$ours" -v theirs="$theirs" 'BEGIN {
            split(layout, n, " ")
            printf "{\"bench\": \"waiting\", \"host\": \"%s\", \"date\": \"%s\", \"cores\": %d, ", host, date, cores
            printf "\"load\": %s, \"cores_are\": \"%s\", \"ranks\": %d, \"threads\": %d, ", busy, beside, n[1], n[2]
            printf "\"rounds\": %d, \"ms\": %.2f, \"next_to\": \"%s\", \"its_ms\": %.2f, ", rounds, ours, other, theirs
            printf "\"ratio\": %.3f}\n", ours / theirs
        }'
    done
done
