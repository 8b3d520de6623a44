#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# `trireme sweep`: which shapes, in which order, and that it outlives shapes that crash and hang,
# its own end by any signal, and the end of its job.
. "$srcdir/tests/tap.sh"
plan 71
TRIREME_MACHINES=$srcdir/machines
export TRIREME_MACHINES

same() { [ "$1" = "$2" ] || { echo "'$1' / '$2'"; return 1; }; }
has() { grep -qE -e "$1" "$2" || { cat "$2"; return 1; }; }
hasnt() { ! grep -E -e "$1" "$2"; }

cat > "$work/tiny.args" <<'ARGS'
--num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
--vocab-size 256 --mock-data --lr 0.001 --micro-batch-size 1 --global-batch-size 8
ARGS
# The profile of a card that one of the shapes below is too large for.
sed -e 's/^memory-mib .*/memory-mib = 400/' -e 's/^context-mib .*/context-mib = 0/' \
    -e 's/^nccl-mib .*/nccl-mib = 0/' "$srcdir/machines/h200.conf" > "$work/small.conf"

# How ranks are started: it notes the run, and crashes or hangs where the test asks for it.  A
# hanging one does not hear SIGTERM and has a child, as mpiexec has.
cat > "$work/start" <<'START'
#!/bin/sh
name=$1 ranks=$2 folder=${0%/*}
shift 2
echo "$name" >> "$folder/calls"
if [ "$name" = "$(cat "$folder/crashes" 2> /dev/null)" ]; then
    kill -9 $$
elif [ "$name" = "$(cat "$folder/hangs" 2> /dev/null)" ]; then
    trap '' TERM
    sleep 1000 &
    echo $! > "$folder/hanging"
    wait
fi
exec "$srcdir/tests/mpirun" --ranks "$ranks" "$@"
START
chmod +x "$work/start"
export srcdir
sweep() {
    timeout 500 "$trireme" sweep --launcher "$work/start {name} {ranks}" --ranks 4 \
        --sweep-folder "$work/sweep" --sweep-iters 4 --sweep-warmup 1 --sweep-timeout 240s \
        "@$work/tiny.args" "$@"
}
shapes="--sweep-tensor 1-4 --sweep-pipeline 1,2"

# ---- what would be run ----

sweep --dry-run $shapes > "$work/text" 2>&1
check "all combinations" has '^6 shapes: 5 to run, 1 that cannot be$' "$work/text"
check "one that cannot be, and why" has \
    '^  not tp4-pp2.*: a world size of 4 ranks is not a multiple of' "$work/text"
check "a command for each" same "$(grep -c 'start .* train .*--tensor-model-parallel-size' "$work/text")" 5
check "--dry-run runs nothing" test ! -e "$work/calls"
check "and writes nothing" test ! -e "$work/sweep"

sweep --dry-run $shapes --machine h200 > "$work/text" 2>&1
# Predicted times of the same batch, in the order of the runs.
check "the best predicted first" sh -c "sed -n 's/^# .* predicted \([^ ]*\) s.*/\1/p' '$work/text' |
    sort -g -c && [ \$(grep -c predicted '$work/text') = 5 ]"
sweep --dry-run $shapes --machine "$work/small.conf" --hidden-size 512 > "$work/text" 2>&1
check "what does not fit the card is not run" has '  not tp1-pp1-.*: does not fit: 4[0-9]* MiB of the 400 of a' \
    "$work/text"
check "and the others are" has '^# tp2-pp2-' "$work/text"
sweep --dry-run --sweep-tensor 2-6,1 --sweep-recompute none,full --sweep-micro-batch 1-2 \
    --sweep-virtual 1,2 --sweep-pipeline 2 > "$work/text" 2>&1
check "ranges double" same "$(sed -n 's/^# tp\([0-9]*\)-.*/\1/p' "$work/text" | sort -u | tr '\n' ' ')" "1 2 "
check "recomputation and chunks are dimensions" has \
    '^# tp2-pp2-dp1-mbs2-gbs8-vp2-recompute: ' "$work/text"
check "and have their options" has \
    'num-virtual-stages-per-pipeline-rank 2 .*--recompute-granularity full --recompute-method uniform' \
    "$work/text"
sweep --dry-run --sweep-tensor 1,4 --sweep-zero-stage 0,1,2,3 > "$work/text" 2>&1
check "stages of ZeRO are a dimension" same "$(sed -n 's/^# \(tp1-[^:]*\): .*/\1/p' "$work/text" | sort | tr '\n' ' ')" \
    "tp1-pp1-dp4-mbs1-gbs8 tp1-pp1-dp4-mbs1-gbs8-zero1 tp1-pp1-dp4-mbs1-gbs8-zero2 tp1-pp1-dp4-mbs1-gbs8-zero3 "
check "with their option" has '/start .*--tensor-model-parallel-size 1 .*--zero-stage 3' "$work/text"
check "and one replica has nothing to shard" same "$(grep -c '^# tp4-' "$work/text")" 1
sweep --dry-run --sweep-tensor 4 --sweep-offload none,optimizer > "$work/text" 2>&1
check "an optimizer with the host is one, too" same "$(sed -n 's/^# \(tp4-[^:]*\): .*/\1/p' "$work/text" | sort | tr '\n' ' ')" \
    "tp4-pp1-dp1-mbs1-gbs8 tp4-pp1-dp1-mbs1-gbs8-offload "
check "with its option" has '/start .*--optimizer-cpu-offload' "$work/text"
fails "two that say what is offloaded" 64 "leave out --optimizer-cpu-offload" \
    sweep --sweep-offload none --optimizer-cpu-offload
sweep --dry-run --sweep-pipeline 2 --sweep-rank-order tp-dp-pp,tp-pp-dp > "$work/text" 2>&1
check "so is the order of ranks" has '^# tp1-pp2-dp2-mbs1-gbs8-tp-pp-dp: ' "$work/text"
check "with its option" same "$(grep -c '/start tp.*--use-tp-pp-dp-mapping' "$work/text")" 1
sweep --dry-run --sweep-pipeline 2 --sweep-split even,balanced --machine h200 --num-layers 12 --vocab-size 50000 \
    > "$work/text" 2>&1
check "and a last stage with fewer layers for its head" has '/start .*--pipeline-model-parallel-layout ([7-9]|1[0-2]),[0-5] ' \
    "$work/text"
check "besides equal ones" same "$(grep -c '/start tp' "$work/text")" 2
sweep --dry-run --sweep-tensor 2,4 --sweep-bucket-size 5000,20000 > "$work/text" 2>&1
check "so are sizes of buckets, where there are replicas" same "$(sed -n 's/^# \(tp[^:]*\): .*/\1/p' "$work/text" | sort | tr '\n' ' ')" \
    "tp2-pp1-dp2-mbs1-gbs8-bucket20000 tp2-pp1-dp2-mbs1-gbs8-bucket5000 tp4-pp1-dp1-mbs1-gbs8 "
# One that is measured, with Horovod's file of it: 4 (12 h^2 + 13 h) + 2 h + (256 + 32) h parameters
# of h = 32, in fp16.
sweep --sweep-folder "$work/buckets" --ranks 2 --sweep-bucket-size 5000,20000 --sweep-iters 2 --fp16-allreduce \
    --autotune-log "$work/autotune.csv" > "$work/text" 2>&1
check "the fastest is named with its options" has \
    '^fastest per sample: tp1-pp1-dp2-mbs1-gbs8-bucket[0-9]*: .*--ddp-bucket-size (5000|20000)$' "$work/text"
check "a row for each in Horovod's file" same "$(cut -d , -f 1-6 "$work/autotune.csv" | sort | tr '\n' ' ')" \
    "0,0,0,0,0,0.00953674 0,0,0,0,0,0.038147 hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,tensor_fusion_threshold "
scores() {
    awk -F , 'NR == FNR { if (FNR > 1) { for (i = 1; i <= NF; i++) if (head[i] == "seconds_per_it") seconds[$0] = $i } else for (i = 1; i <= NF; i++) head[i] = $i; next }
        FNR > 1 { found = 0; for (s in seconds) if (($7 * seconds[s] / (2 * (4 * (12 * 32 * 32 + 13 * 32) + 2 * 32 + 288 * 32)) - 1) ^ 2 < 1e-6) found = 1; bad += !found; n++ }
        END { exit n != 2 || bad }' "$work/buckets/results.csv" "$work/autotune.csv"
}
check "whose scores are bytes of gradients per second" scores
rm -f "$work/calls"
SLURM_JOB_ID=7 SLURM_NTASKS=8 SLURM_JOB_NUM_NODES=4 SLURM_JOB_END_TIME=4000000000 \
    "$trireme" sweep --dry-run --sweep-tensor 2,4 "@$work/tiny.args" --sweep-global-batch 8 \
    > "$work/text" 2>&1
check "in a job its tasks are the ranks, and srun starts them" has \
    '^srun --mpi=pmix --kill-on-bad-exit=1 --job-name=tp2-pp1-dp4-mbs1-gbs8.0 -n 8 ' "$work/text"
check "tensor-parallel groups stay inside nodes" has \
    'not tp4-.* groups of 4 ranks would not be inside nodes of 2' "$work/text"

# ---- what cannot be meant ----

fails "a list that is none" 64 "'1,x' is no list" sweep --sweep-tensor 1,x
fails "a range that falls" 64 "'4-1' is no list" sweep --sweep-tensor 4-1
fails "no number of ranks" 64 "use --ranks" "$trireme" sweep "@$work/tiny.args"
fails "a sweep keeps no checkpoints" 64 "leave out --save" sweep --save "$work/save"
fails "nothing would count" 64 "none would count" sweep --sweep-warmup 4
fails "two that say what is recomputed" 64 "leave out --checkpoint-activations" \
    sweep --sweep-recompute full --checkpoint-activations
fails "an order that is none" 64 "'pp-tp' is no list of some of tp-dp-pp,tp-pp-dp" \
    sweep --sweep-rank-order pp-tp
fails "a stage that is none" 64 "'1-3' is no list of some of 0,1,2,3" sweep --sweep-zero-stage 1-3
fails "two that say what is sharded" 64 "leave out --use-distributed-optimizer" \
    sweep --sweep-zero-stage 1 --use-distributed-optimizer
fails "two that say how ranks are ordered" 64 "leave out --use-tp-pp-dp-mapping" \
    sweep --sweep-rank-order tp-dp-pp --use-tp-pp-dp-mapping
fails "two that say how layers are split" 64 "leave out --pipeline-model-parallel-layout" \
    sweep --sweep-split even --pipeline-model-parallel-layout 1,1
fails "a split for no machine" 64 "give its profile with --machine" sweep --sweep-split balanced
fails "no shape that can be" 64 "none of the 2 shapes can be run" sweep --sweep-tensor 8,16
# The first epoch, of 4 iterations, goes as it is, and a sweep would time no other.
fails "times of what is not compressed yet" 64 "give --sweep-warmup 4 and more --sweep-iters, or --warmup-epochs 0" \
    sweep --sweep-tensor 2 --sweep-pipeline 2 --n-epochs 2 --data-blocks 32 --sweep-warmup 3 \
    --forward-compress-method fixpoint
check "but after it" sweep --dry-run --sweep-tensor 2 --sweep-pipeline 2 --n-epochs 2 --data-blocks 32 \
    --sweep-warmup 4 --sweep-iters 6 --forward-compress-method fixpoint
fails "not below mpiexec" 64 "was started by mpiexec" env OMPI_COMM_WORLD_SIZE=4 "$trireme" sweep \
    --ranks 4 "@$work/tiny.args"
fails "a launcher that is not there" 69 "cannot be run" "$trireme" sweep --launcher "$work/none" \
    --ranks 4 --sweep-folder "$work/none" "@$work/tiny.args"

# ---- a crash, a hang, and the end of the sweep itself ----

# Ended by kill -9 in the second shape, which waits until then.
order=$(sweep --dry-run $shapes | sed -n 's/^# \(tp[^:]*\):.*/\1/p')
second=$(echo "$order" | sed -n 2p) third=$(echo "$order" | sed -n 3p) last=$(echo "$order" | tail -n 1)
echo "$second.0" > "$work/hangs"
"$trireme" sweep --launcher "$work/start {name} {ranks}" --ranks 4 --sweep-folder "$work/sweep" \
    --sweep-iters 4 --sweep-warmup 1 --sweep-timeout 240s "@$work/tiny.args" $shapes \
    > "$work/text" 2>&1 &
pid=$!
# wait_for SECONDS COMMAND...: until it succeeds.
wait_for() {
    tries=$(($1 * 5))
    shift
    until "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.2
    done
}
check "the second shape is under way" wait_for 240 test -s "$work/hanging"
kill -9 $pid
wait $pid 2> /dev/null
gone() { ! kill -0 "$(cat "$work/hanging")" 2> /dev/null; }
check "what it had started ends with it" wait_for 60 gone
check "the first shape has its result" same "$(wc -l < "$work/sweep/results.jsonl")" 1
printf '{"schema":1,"shape":"to' >> "$work/sweep/results.jsonl"

# On: the third crashes, the last hangs past its time.
echo "$third.0" > "$work/crashes"
echo "$last.0" > "$work/hangs"
rm "$work/hanging"
sweep $shapes --sweep-timeout 60s > "$work/text" 2>&1
check "it goes on, and ends well" same $? 0
check "one has a result" has '^1 of 5 shapes have results' "$work/text"
check "no shape with a result ran again" same "$(sort "$work/calls" | uniq -c | awk '{ print $1, $2 }')" \
    "$({ echo "$order"; echo "$second"; } | sort | uniq -c | awk '{ print $1, $2 ".0" }')"
check "what hung is gone" gone

check "the columns" has \
    '^\| Nodes \| Size \| +DP \| +TP \| +PP \| MBS \| GBS \| +Mem +\| +Sec/it \| +Interval +\| Runs \| +TFLOPs \| Agree +\| Notes +\|$' \
    "$work/sweep/results.md"
check "a shape that crashed is a row" has '\| ~[0-9.]+ +\| .*; failed: .*signal 9' "$work/sweep/results.md"
check "one that hung, too" has '\| ~[0-9.]+ +\| .*; failed: no end within 60 s, in which 0 of 4' \
    "$work/sweep/results.md"
check "what cannot be is there" has '^\| tp4-pp2-.*not a multiple' "$work/sweep/results.md"
# shellcheck disable=SC2016 # awk's
# Seconds and TFLOP/s of each measured row belong together: 96 or 72 B s l h^2 (...) of the paper.
check "the numbers belong together" awk -F , '
    { sub(/\r$/, "") }
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { seconds = $at["seconds_per_it"]; rows++
      if (!(seconds > 0) || $at["iterations"] != 3) bad = 1
      if ($at["samples_per_second"] * seconds < 7.999 || $at["samples_per_second"] * seconds > 8.001) bad = 1
      vocab = $at["tp"] * 128; vocab = vocab < 256 ? 256 : vocab
      flops = 72 * 8 * 32 * 4 * 32 * 32 * (1 + 32 / 192 + vocab / (12 * 4 * 32))
      ratio = $at["tflops_per_gpu"] * 1e12 * seconds * 4 / flops
      if (ratio < 0.999 || ratio > 1.001) bad = 1
      if (bad) print }
    END { exit bad || rows != 3 }' "$work/sweep/results.csv"
# shellcheck disable=SC2016 # awk's
check "all layouts train the same" awk -F , '
    { sub(/\r$/, "") }
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    { agree = $at["agree"]; first += agree == ""; rows++; if (agree !~ /^(|equal|1e-[5-9])$/) { print; bad = 1 } }
    END { exit bad || first != 1 || rows != 3 }' "$work/sweep/results.csv"
check "failures have a file of their own" same "$(grep -c '^tp' "$work/sweep/failed.csv")" 2

rm "$work/crashes" "$work/hangs"
sweep $shapes --sweep-again > "$work/text" 2>&1
check "--sweep-again runs those that failed, and no others" same \
    "$(tail -n 2 "$work/calls" | sort | tr '\n' ' ') $(wc -l < "$work/calls")" \
    "$(printf '%s\n' "$third.0" "$last.0" | sort | tr '\n' ' ') 8"
check "and they are no failures any more" hasnt 'failed' "$work/sweep/results.md"
fails "other options want another folder" 64 "with other options" sweep $shapes --lr 0.002

# ---- requests to stop, and the end of the job ----

echo "tp1-pp1-dp4-mbs1-gbs8.1" > "$work/hangs"
rm -f "$work/hanging"
"$trireme" sweep --launcher "$work/start {name} {ranks}" --ranks 4 --sweep-folder "$work/told" \
    --sweep-iters 4 --sweep-warmup 1 --sweep-repeats 3 "@$work/tiny.args" > "$work/text" 2>&1 &
pid=$!
check "the second run of a shape is under way" wait_for 240 test -s "$work/hanging"
kill -TERM $pid
wait $pid
check "SIGTERM: exit code 75" same $? 75
check "and what is left" has 'asked to stop; 0 of 1 shapes have results' "$work/text"
check "what it had started is gone" gone
rm "$work/hangs"
check "three runs of a shape" sweep --sweep-folder "$work/told" --sweep-repeats 3
check "count together" has '"measured":[{]"iterations":9,' "$work/told/results.jsonl"
check "and the table says so" has ' in 3 runs \|$' "$work/told/results.md"
check "report reads the logs" "$trireme" report "$work"/told/*.log --show runs
fails "no run begins that the end of the job would interrupt" 75 "the job comes to its end" \
    env SLURM_JOB_ID=7 SLURM_JOB_END_TIME=$(($(date +%s) + 80)) "$trireme" sweep \
    --launcher "$work/start {name} {ranks}" --ranks 4 --sweep-folder "$work/late" "@$work/tiny.args"
check "and none did" test ! -e "$work/late/tp1-pp1-dp4-mbs1-gbs8.0.log"
