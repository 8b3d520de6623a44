#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# startup.sh [REPEATS [RANKS]]: from srun to the first iteration, run where ./trireme is.
#
# A virtual cluster (tests/cluster) of 4 nodes, 16 ranks on them by default: a small GPT that
# resumes from a checkpoint, trains one iteration and saves it, REPEATS times (5).  Each part is the
# median over the repetitions, in seconds, and a line of JSON.  The parts of the program are those
# of its own line "> start-up (seconds)"; the time outside of it follows from when lines arrive.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
repeats=${1:-5}
ranks=${2:-16}
nodes=4
case $repeats$ranks in
*[!0-9]*) echo "startup.sh: REPEATS and RANKS are numbers" >&2; exit 64 ;;
esac
if [ "$ranks" -eq 0 ] || [ $((ranks % nodes)) -ne 0 ]; then
    echo "startup.sh: $ranks ranks are not as many on each of $nodes nodes" >&2
    exit 64
fi
cluster=$here/../tests/cluster
if ! why=$("$cluster" can 2>&1); then
    echo "$why"
    exit 0
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/trireme-bench.XXXXXX")
TRIREME_CLUSTER=$work/cluster
export TRIREME_CLUSTER
trap '"$cluster" stop; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
trireme=$PWD/trireme

awk 'BEGIN { for (i = 0; i < 40000; i++) printf "%d times %d is %d.%s", i % 13, i % 7, i % 13 * (i % 7), i % 50 == 49 ? "\n\n" : "\n" }' \
    >"$work/text"
"$trireme" data build --tokenizer-type bytes --append-eod --split-documents blank-lines \
    --output-prefix "$work/corpus" "$work/text" >/dev/null
cat >"$work/gpt.args" <<END
--num-layers 8 --hidden-size 128 --num-attention-heads 8 --seq-length 128 --max-position-embeddings 128
--tokenizer-type bytes --data-path $work/corpus_text_document --split 98,1,1
--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
--micro-batch-size 1 --global-batch-size $ranks --lr 1e-3 --lr-decay-iters 10 --eval-iters 0 --log-interval 1
END

# start OPTION...: the ranks, by srun, as jobs/ starts them.
start() {
    env OMP_NUM_THREADS=1 timeout 300 "$cluster" exec srun -K1 --nodes=$nodes \
        --ntasks-per-node=$((ranks / nodes)) "$trireme" train "@$work/gpt.args" "$@" 2>&1
}

# Before each line the seconds since this began, which is when srun does.
stamp() {
    perl -MTime::HiRes=time -ne 'BEGIN { $| = 1; $t = time } printf "%.3f %s", time - $t, $_'
}

"$cluster" start --nodes $nodes --cpus $((ranks / nodes)) --for 1800 >/dev/null 2>&1
start --train-iters 1 --save "$work/ckpt" >"$work/first.log" || {
    tail -n 20 "$work/first.log" >&2
    exit 70
}
repeat=0
while [ $repeat -lt "$repeats" ]; do
    repeat=$((repeat + 1))
    start --train-iters 2 --load "$work/ckpt" --save "$work/run.$repeat" | stamp >"$work/log.$repeat"
    # "> start-up (seconds): 0.8 | program: 0.2 | ...", after the moment.
    awk '/> start-up \(seconds\)/ {
             for (i = 6; i < NF; i++) if ($i == "|") printf "%s %s\n", substr($(i + 1), 1, length($(i + 1)) - 1), $(i + 2)
             printf "launcher %.3f\n", $1 - $5
             printf "to-first-iteration %.3f\n", $1
             mpi = $0; sub(/.*MPI: /, "", mpi); printf "own %.3f\n", $5 - mpi
             then = $1
         }
         / iteration  .*elapsed time per iteration/ && then { printf "first-iteration %.3f\n", $1 - then; exit }' \
        "$work/log.$repeat" >>"$work/parts"
done
load=$(cut -d ' ' -f 1 /proc/loadavg 2>/dev/null || echo -1)
for part in launcher program MPI launch model checkpoint data own to-first-iteration first-iteration; do
    awk -v part=$part '$1 == part { print $2 }' "$work/parts" | sort -n |
        awk -v part=$part -v host="$(uname -n)" -v date="$(date -u +%Y-%m-%dT%H:%M:%SZ)" \
            -v ranks="$ranks" -v nodes=$nodes -v wanted="$repeats" -v busy="$load" \
            -v cores="$(nproc)" '
            { s[NR] = $1 }
            END {
                if (NR != wanted) { print "startup.sh: " part " was measured " NR + 0 " times" >"/dev/stderr"; exit 70 }
                middle = NR % 2 ? s[(NR + 1) / 2] : (s[NR / 2] + s[NR / 2 + 1]) / 2
                printf "{\"bench\": \"startup\", \"host\": \"%s\", \"date\": \"%s\", \"cores\": %d, \"load\": %s, ", host, date, cores, busy
                printf "\"ranks\": %d, \"threads\": 1, \"nodes\": %d, \"repeats\": %d, \"part\": \"%s\", ", ranks, nodes, NR, part
                printf "\"seconds_min\": %.3f, \"seconds_median\": %.3f, \"seconds_max\": %.3f}\n", s[1], middle, s[NR]
            }'
done
