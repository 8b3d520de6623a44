#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2016
# Plans and simulations as runs of a report, beside logs: against JSON whose parts are round
# numbers, and against what `trireme plan` and `trireme sim` print as text.
. "$srcdir/tests/tap.sh"
plan 41
report() { "$trireme" report "$@"; }
same() { [ "$1" = "$2" ] || { echo "$1 / $2"; return 1; }; }
# The data of series N of a script: "0 500 0;"
series() { sed -n "/^\$series$2 <</,/^END/p" "$1" | awk '/^[0-9]/ { for (i = 1; i <= NF; i++) printf "%s%.5g", (i > 1 ? " " : ""), $i
    printf ";" }'; }
title() { sed -n "s/^.*\\\$series$2 using.* title '\\(.*\\)'.*/\\1/p" "$1"; }
caption() { grep '^set label' "$1" | cut -d "'" -f 2 | tr '\n' ' '; }

# simulated FILE MEDIAN GPUS: parts of a second, which is the first draw.
simulated() {
    cat > "$work/mix/$1" << END
{"machine": "lab-v100", "nodes": 2, "iteration_seconds": {"planned": 1.0, "p10": 0.9, "p50": $2, "p90": 1.2},
 "seconds_of_a_rank": {"compute": {"mean": 0.5}, "tensor_parallel": {"mean": 0.1}, "bubble": {"mean": 0.2},
   "transfer": {"mean": 0.05}, "replicas": {"mean": 0.03}, "reduction": {"mean": 0.04}, "optimizer": {"mean": 0.06},
   "rest": {"mean": 0.02}},
 "shape": {"ranks": $3, "tensor_parallel": 2, "pipeline_parallel": 2, "data_parallel": $(($3 / 4)), "model_chunks": 1,
   "rank_order": "tp-dp-pp", "micro_batch": 1, "global_batch": 8, "micro_batches": 4, "layers": 4,
   "padded_vocabulary": 128},
 "options": {"hidden_size": 64, "seq_length": 32, "num_attention_heads": 4, "recompute_granularity": "full",
   "train_iters": null, "fp16": true, "lr": 0.0001}}
END
}
mkdir "$work/mix"
simulated a.sim.json 1.0 8
simulated b.sim.json 2.0 16
# A log of two stages: 200 ms of receiving, of which (p - 1) tf = 100 are filling, 400 / 4; draining
# (p - 1) tb = 150.
{
    echo "using world size: 8, data-parallel size: 2, tensor-model-parallel size: 2, pipeline-model-parallel size: 2"
    for i in 1 2 3; do
        echo " iteration $i/ 9 | elapsed time per iteration (ms): 1500 | global batch size: 8 | lm loss: 2.5E+00 |"
        echo "time (ms) | forward-compute: 400 | forward-recv: 200 | backward-compute: 600 | backward-embedding-all-reduce: 170 | optimizer: 50"
    done
} > "$work/mix/c.log"
echo '{"pareto": [{"world_size": 8, "global_batch_size": 8, "seconds": 1.0, "bytes": 1e9, "gpu_hours": 2.0}]}' > "$work/mix/search.json"
echo '{"traceEvents": []}' > "$work/mix/trace.json"
echo '{"shape": {' > "$work/mix/cut.json"
# The size of a trace: it is not looked at, though it was cut.
echo '{"shape": {' > "$work/mix/large.json"
truncate -s 17M "$work/mix/large.json"

draw() { (cd "$work" && report mix --micro-batch-size 1 --warmup 0 --plot breakdown -o b.gp); }
check "a breakdown of simulations and a log" draw
gp=$work/b.gp
check "a bar for each" grep -q "set ytics ('a.sim' 0, 'b.sim' 1, 'c' 2)" "$gp"
check "compute, of the log with the sums in it" same "$(series "$gp" 0)" "0 500 0;0 1000 1;0 1000 2;"
check "sums of tensor ranks" same "$(title "$gp" 1): $(series "$gp" 1)" "tensor-parallel: 500 600 0;1000 1200 1;"
check "waiting for stages; of the log what fills and drains" same "$(title "$gp" 2): $(series "$gp" 2)" \
    "bubble: 600 800 0;1200 1600 1;1000 1250 2;"
check "transfer" same "$(title "$gp" 5): $(series "$gp" 5)" "transfer: 800 850 0;1600 1700 1;1250 1370 2;"
check "waiting for replicas" same "$(title "$gp" 6): $(series "$gp" 6)" "replicas: 850 880 0;1700 1760 1;"
check "gradients" same "$(series "$gp" 7)" "880 920 0;1760 1840 1;"
check "the optimizer" same "$(series "$gp" 8)" "920 980 0;1840 1960 1;1370 1420 2;"
check "the rest, up to the end" same "$(series "$gp" 10)" "980 1000 0;1960 2000 1;1420 1500 2;"
check "no two parts have one colour" same "$(grep -o "boxxyerror fillcolor rgb '#[0-9a-f]*'" "$gp" | sort | uniq -d |
    wc -l | tr -d ' ') $(for n in 3 4; do series "$gp" $n; done)" "2 "
check "whose time each is" sh -c "echo \"$(caption "$gp")\" | grep -q 'Simulations: mean of all ranks'"

csv() { (cd "$work" && report mix --format csv "$@" 2> "$work/err") | tr -d '\r'; }
check "rows of all three" same "$(csv --columns log,from,gpus,dp,pp,nodes,hidden,ms --micro-batch-size 1 --warmup 0 | tail -n +2 |
    tr '\n' ';')" "a.sim.json,simulated,8,2,2,2,64,1000;b.sim.json,simulated,16,4,2,2,64,2000;c.log,measured,8,2,2,,,1500;"
check "JSON that was cut is left out with a word" grep -q 'left out: mix/cut.json' "$work/err"
check "other JSON without one" sh -c "! grep -q 'trace.json\|search.json\|large.json' '$work/err'"
check "a list of columns in a list" same "$(csv --columns 'GPUs, jean-zay' 2>&1; grep -c 'gpus twice' "$work/err")" 1
check "names as they are typed" same "$(csv --columns 'Jean-Zay, From' | head -n 1)" \
    "gpus,size,mbs,micro_batches,dp,pp,time,from"
check "options of a simulation are on the page" sh -c "cd '$work' && '$trireme' report mix --html page.html 2> err &&
    grep -q '<td>recompute_granularity</td><td>full</td>' page.html && grep -q '<td>fp16</td><td>True</td>' page.html"
# 72 b s l h^2 (1 + s/6h + V/16lh) for one sample, 96 with recomputation.
check "operations of its model, recomputation included" same "$(csv --columns tflops | sed -n 2p | awk '{ printf "%.4g", $1 }')" \
    "$(awk 'BEGIN { s = 32; l = 4; h = 64; V = 128
        printf "%.4g", 96 * 8 * s * l * h * h * (1 + s / (6 * h) + V / (16 * l * h)) / 8 / 1e12 }')"
check "from the standard input" same "$("$trireme" report - --columns ms --format csv < "$work/mix/a.sim.json" | sed -n 2p |
    tr -d '\r')" 1000
only_simulated() { "$trireme" report "$work/mix/a.sim.json" "$@"; }
fails "a simulation has no loss" 65 "plans and simulations train nothing" only_simulated --plot loss
fails "no throughput over a run" 65 "one time for all iterations" only_simulated --plot throughput
fails "no memory" 65 "nor has a simulation" only_simulated --plot memory
page_says() { only_simulated --html "$work/sim.html" && grep -q 'there is no loss to draw' "$work/sim.html"; }
check "the page says why there is no loss" page_says
with_log() { (cd "$work" && report mix --plot loss -o l.gp 2> err) && caption "$work/l.gp" | grep -q 'train nothing'; }
check "the loss of the log alone, with a word" with_log
fails "a search is no run" 65 "only --plot pareto draws" report "$work/mix/search.json"
check "but its plot finds it in a folder" report "$work/mix" --plot pareto
fails "a folder without a search" 65 "has no file NAME.json" report "$srcdir/tests/report" --plot pareto

# Against its own base: 16 GPUs do the same batch in twice the time, so a quarter of the efficiency.
scaled() { (cd "$work" && report mix --micro-batch-size 1 --warmup 0 --plot scaling -o s.gp 2> err); }
check "what was simulated scales against what was simulated" scaled
check "and the log is its own base" same "$(series "$work/s.gp" 1)$(series "$work/s.gp" 3)" \
    "8 100 100 100;16 25 25 25;8 100 100 100;"

# What the verbs print.
options="--machine jean-zay-v100-16g @$srcdir/jobs/models/study-7.5b.args --fp16 --vocab-size 50257 --world-size 16"
real() {
    for verb in plan sim; do
        # shellcheck disable=SC2086
        TRIREME_MACHINES=$srcdir/machines "$trireme" $verb $options > "$work/$verb.txt" &&
            TRIREME_MACHINES=$srcdir/machines "$trireme" $verb $options --json > "$work/$verb.json" || return 1
        report "$work/$verb.json" --show breakdown --format csv > "$work/$verb.csv" || return 1
    done
}
check "plan and sim" real
# part FILE KEY DIGITS: its ms in the breakdown.
part() { awk -F , -v key="$2" -v digits="$3" '$2 == key { printf "%.*f", digits, $3 }' "$work/$1.csv"; }
parts_agree() {
    for row in compute:compute bubble:bubble tensor-parallel:tensor-parallel gradients:reduction iteration:total; do
        same "$(part plan "${row%:*}" 1)" "$(awk -v key="${row#*:}" '/^time of/ { on = 1 } on && $1 == key { print $2; exit }' \
            "$work/plan.txt")" ||
            return 1
    done
    for row in compute bubble optimizer; do
        awk -v a="$(part sim $row 3)" -v b="$(awk -v key=$row '$1 == key { print 1e3 * $2 }' "$work/sim.txt")" \
            'BEGIN { exit !(b > 0 && a / b > 0.999 && a / b < 1.001) }' || { part sim $row 3; return 1; }
    done
}
check "have the parts that they print" parts_agree

# ---- plans beside what was measured ----

# logged STAGES MS: a log of the 7.5B of the plan on so many stages, twice as many micro-batches on
# two, with recomputation unless a third argument says otherwise.
logged() {
    echo "using world size: $((4 * $1)), data-parallel-size: 1, tensor-model-parallel size: 4, pipeline-model-parallel size: $1"
    echo "------------------------ arguments ------------------------"
    for argument in "num_layers 36" "hidden_size 4096" "num_attention_heads 32" "seq_length 512" "micro_batch_size 1" \
        "global_batch_size 4" "checkpoint_activations ${3:-True}"; do
        echo "  ${argument% *} ....................... ${argument#* }"
    done
    echo "-------------------- end of arguments ---------------------"
    for i in 1 2 3 4; do
        echo " iteration $i/ 9 | elapsed time per iteration (ms): $2 | global batch size: 4 | lm loss: 2.5E+00 |"
    done
}
mkdir "$work/beside"
cp "$work/plan.json" "$work/sim.json" "$work/beside"
logged 4 400 > "$work/beside/a.log"
logged 4 300 > "$work/beside/b.log"
logged 4 500 > "$work/beside/c.log"
logged 2 50 > "$work/beside/other.log"
logged 4 50 False > "$work/beside/kept.log"
beside() { report "$work/beside" --show planned --format csv | tr -d '\r'; }
beside > "$work/beside.csv"
check "one row, of the plan" same "$(tail -n +2 "$work/beside.csv" | cut -d , -f 1-8)" "7.5B,16,4,4,1,1,4,jean-zay-v100-16g"
cell() { awk -F , -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i } NR == 2 { printf "%.1f", $at }' "$work/beside.csv"; }
check "its time and interval, as it prints them" same "$(cell planned_ms) P10 $(cell p10_ms), P90 $(cell p90_ms)," \
    "$(awk '/^time of/ { on = 1 } on && $1 == "total" { print $2, $3, $4, $5, $6; exit }' "$work/plan.txt")"
check "the median of the logs of its layout, other layouts left out" same "$(cell measured_ms)" 400.0
none() {
    report "$work/beside" --show planned > "$work/inside.txt" || return 1
    ! grep "on 16 ranks" "$work/inside.txt"
}
check "no note where it lies between P10 and P90" none
# timed: adds timers of the passes, 190 ms of an iteration.
timed() { sed 's/^ iteration.*/&\ntime (ms) | forward-compute: 60 | backward-compute: 130/'; }
passes=$(awk '/^time of/ { on = 1 } on && $1 == "total" { exit }
    on && ($1 == "compute" || $1 == "tensor-parallel") { ms += $2 }
    END { printf "%.0f", ms }' "$work/plan.txt")
wants() {
    printf '7.5B on 16 ranks: planned %.0f ms (P10 to P90: %.0f to %.0f), measured %d. ' \
        "$(cell planned_ms)" "$(cell p10_ms)" "$(cell p90_ms)" "$1"
    echo "In c.log forward and backward passes took 190 ms and were planned with $passes."
}
outside() {
    mkdir -p "$work/outside" && cp "$work/plan.json" "$work/outside"
    logged 4 "$1" | timed > "$work/outside/c.log"
    report "$work/outside" --show planned | tr -s ' \n' ' ' > "$work/outside.txt"
    grep -Fq "$(wants "$1")" "$work/outside.txt" && return
    wants "$1"
    cat "$work/outside.txt"
    return 1
}
check "a note where it takes longer says what the timers tell" outside 530
check "and where it takes less" outside 210
check "it is among all tables" sh -c "'$trireme' report '$work/beside' 2> '$work/err' | grep -qi '^Planned and measured'"
rm "$work/beside"/?.log
check "without such a log there is the plan" same "$(beside | sed -n 2p | cut -d , -f 8,12-)" "jean-zay-v100-16g,,"
fails "logs alone" 65 "trireme plan --machine NAME --json" report "$work/beside/other.log" --show planned
