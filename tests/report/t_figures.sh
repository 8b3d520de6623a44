#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2016
# Plots of `trireme report` as figures of a paper: what is in their scripts against closed forms and
# order statistics, and in their pictures that no text meets another at the width of a column.
. "$srcdir/tests/tap.sh"
plan 126
report() { "$trireme" report "$@"; }
same() { [ "$1" = "$2" ] || { echo "$1 / $2"; return 1; }; }
has() { grep -q -F -e "$2" "$1" || { echo "no \"$2\" in $1:"; cat "$1"; return 1; }; }
lacks() { ! grep -n -F -e "$2" "$1"; }
# The data of series N of a script, rounded: "16 1 0.97 1.03;32 ...;"
series() { sed -n "/^\$series$2 <</,/^END/p" "$1" | awk '/^[0-9]/ { for (i = 1; i <= NF; i++) printf "%s%.5g", (i > 1 ? " " : ""), $i
    printf ";" }'; }
# title N: what the script calls series N.
title() { sed -n "s/^.*\\\$series$2 using.* title '\\(.*\\)'.*/\\1/p" "$1"; }

# run FILE GPUS TP PP BATCH MS...: a log with a line for each time.
run() {
    run_file=$1 run_gpus=$2 run_tp=$3 run_pp=$4 run_batch=$5
    shift 5
    {
        echo "using world size: $run_gpus, data-parallel size: $((run_gpus / run_tp / run_pp)), tensor-model-parallel size: $run_tp, pipeline-model-parallel size: $run_pp"
        for ms; do
            i=$((${i:-0} + 1))
            echo " iteration $i/ 100 | elapsed time per iteration (ms): $ms | global batch size: $run_batch | lm loss: 2.5E+00 |"
        done
    } > "$work/$run_file"
    i=0
}

# ---- scaling ----

# 16 to 64 GPUs: strong with a batch of 64, weak, and stages twice as many; nine times each, in any
# order.
base="1010 1000 990 1040 1020 980 1030 970 960"
strong="520 500 510 505 490 470 530 480 499"
# shellcheck disable=SC2086
{
    run base.log 16 4 2 64 $base
    run slow.log 16 4 2 64 1500 1510 1490 1505 1500 1500
    run strong32.log 32 4 2 64 $strong
    run strong64.log 64 4 2 64 400 400 400 400 400 400 400 400 400
    run weak64.log 64 4 2 256 1250 1250 1250 1250 1250 1250
    run deep32.log 32 4 4 64 600 600 600 600 600 600
    run deep64.log 64 4 4 64 320 320 320 320 320 320
}
sweep() { (cd "$work" && report strong64.log slow.log deep64.log strong32.log weak64.log base.log deep32.log \
    --warmup 0 --plot scaling "$@"); }
check "scaling" sweep -o s.gp
gp=$work/s.gp
titles() { for n in 0 2 4 6; do printf '%s;' "$(title "$gp" $n)"; done; }
check "a line for each way to scale" same "$(titles)" \
    "measured, strong;measured, weak;other runs;ideal;"
labels() { sed -n "/^\$labels$2 <</,/^END/p" "$1" | awk -F '"' 'NF > 1 {
    split($1, at, " "); printf "%s %s%s%s;", at[1], $2, $4, $6 }'; }
check "with layouts at its points" same "$(labels "$gp" 0)$(labels "$gp" 2)" \
    "16 TP 4, PP 2;32 TP 4, PP 2;64 TP 4, PP 4;64 TP 4, PP 2;"
# 95 % of nine times lie between the second and the eighth: 1 - 2 (1 + 9) / 2^9 = 0.961.
expected() { # GPUS MS...: speed-up and efficiency with their intervals
    gpus=$1
    shift
    printf '%s\n' "$@" | sort -n | awk -v gpus="$gpus" -v base=1000 '{ x[NR] = $1 } END {
        printf "%d %.5g %.5g %.5g;\n", gpus, base / x[5], base / x[8], base / x[2]
        e = 100 * 16 / gpus
        printf "%d %.5g %.5g %.5g;\n", gpus, e * base / x[5], e * base / x[8], e * base / x[2] }'
}
# shellcheck disable=SC2086
strong_line() {
    same "$(series "$gp" 0)" "$(expected 16 $base | sed -n 1p)$(expected 32 $strong | sed -n 1p)64 3.125 3.125 3.125;" &&
        same "$(series "$gp" 1)" "$(expected 16 $base | sed -n 2p)$(expected 32 $strong | sed -n 2p)64 78.125 78.125 78.125;"
}
check "strong scaling, its efficiency, and intervals by order statistics" strong_line
check "weak scaling begins at the baseline" same \
    "$(series "$gp" 2 | cut -d ' ' -f 1,2),$(series "$gp" 2 |
    cut -d ';' -f 2)" "16 1,64 3.2 3.2 3.2"
others() { series "$gp" 4 | tr ';' '\n' | cut -d ' ' -f 1,2 | sort | tr '\n' ';'; }
check "runs that are slower than another on as many GPUs" same "$(others)" \
    "16 0.66667;32 1.6667;64 2.5;"
check "the ideal" same "$(series "$gp" 6)$(series "$gp" 7)" \
    "16 1 1 1;64 4 4 4;16 100 100 100;64 100 100 100;"
check "the baseline is named" has "$gp" "Baseline: base.log on 16 GPUs, efficiency 100 %."
check "and what the bars are" has "$gp" "Vertical bars are 95 %"
check "error bars where there are intervals" grep -q '^plot $series0 using 1:2:3:4 with yerrorlines' "$gp"
check "and none where there are not" grep -q '$series4 using 1:2 with points' "$gp"
check "two panels" same "$(grep -c '^plot ' "$gp")" 2
check "numbers of GPUs at the axis" has "$gp" "set xtics ('16' 16, '32' 32, '64' 64)"
# Of five lines the interval from the first to the last is sure by 1 - 2 / 2^5; one line has none.
run five.log 32 4 2 64 500 505 510 515 520
few() { (cd "$work" && report base.log five.log --warmup 0 --plot scaling -o few.gp); }
check "few lines" few
check "are less sure" has "$work/few.gp" "Vertical bars are 93 %"
run one.log 32 4 2 64 500
single() { (cd "$work" && report one.log --warmup 0 --plot scaling -o one.gp); }
check "a line alone" single
check "has no interval" lacks "$work/one.gp" "Vertical bars"
check "nor error bars" lacks "$work/one.gp" "yerror"

# A batch in no proportion, whose work can be compared where the model is known alone.
run odd.log 32 4 2 100 500 505
odd() { (cd "$work" && report base.log odd.log --warmup 0 --plot scaling -o odd.gp "$@"); }
check "another batch" odd
check "of an unknown model is left out with a word" grep -q "^set label .*odd.log" "$work/odd.gp"
check "another batch of a model that is known" odd --num-layers 2 --hidden-size 64 --seq-length 32 --padded-vocab-size 128
# Work per second: 100 / 502.5 ms against 64 / 1000 ms, by medians of rates.
check "is drawn" same "$(series "$work/odd.gp" 0 | cut -d ';' -f 2 | cut -d ' ' -f 1,2)" "32 $(awk 'BEGIN {
    printf "%.5g", (100 / 500 + 100 / 505) / 2 / (64 / 1000) }')"

# A sweep of nine layouts on one number of GPUs: points, but no line for each.
many() {
    layouts=
    for pp in 1 2 4 8 16 32 64 128 256; do
        run "l$pp.log" 1024 1 $pp 4096 $((1000 + pp)) || return 1
        layouts="$layouts l$pp.log"
    done
    # shellcheck disable=SC2086
    (cd "$work" && report base.log $layouts --warmup 0 --plot scaling -o many.gp)
}
check "many layouts" many
check "are points together" same "$(title "$work/many.gp" 0);$(title "$work/many.gp" 2)" \
    "measured;other runs"

# ---- breakdown ----

# timed FILE MS FORWARD BACKWARD DATA OPTIMIZER: one stage with one micro-batch.
timed() {
    {
        echo "using world size: 4, data-parallel size: 4, tensor-model-parallel size: 1, pipeline-model-parallel size: 1"
        for i in 1 2 3; do
            echo " iteration $i/ 9 | elapsed time per iteration (ms): $2 | global batch size: 4 | lm loss: 2.5E+00 |"
            echo "time (ms) | forward-compute: $3 | backward-compute: $4 | batch-generator: $5 | optimizer: $6"
        done
    } > "$work/$1"
}
timed run-small.log 100 30 50 5 10
timed run-large.log 200 60 110 8 30
timed run-overlap.log 90 40 50 4 20
parts() { (cd "$work" && report run-small.log run-large.log run-overlap.log --micro-batch-size 1 --warmup 0 \
    --plot breakdown "$@"); }
check "a breakdown" parts -o b.gp
gp=$work/b.gp
check "a bar for each run, with a short name" has "$gp" "set ytics ('small' 0, 'large' 1, 'overlap' 2)"
check "the first run on top" has "$gp" "set yrange [2.5:-0.5]"
# compute = forward + backward - data, from 0 on; the optimizer after it, then data, then the rest.
check "compute" same "$(series "$gp" 0)" "0 75 0;0 162 1;0 86 2;"
check "optimizer" same "$(series "$gp" 5)" "75 85 0;162 192 1;86 106 2;"
check "data" same "$(series "$gp" 6)" "85 90 0;192 200 1;106 110 2;"
# 100 - 90; 200 - 200; 90 - 110 below zero.
check "the rest, where there is one" same "$(series "$gp" 7)" "90 100 0;"
check "nothing is drawn below zero" awk '/^\$series/ { on = 1; next } /^END/ { on = 0 }
    on && $1 + 0 < 0 { print; bad = 1 } END { exit bad }' "$gp"
# A caption may be broken at any blank.
check "parts that overlap are explained" sh -c "grep '^set label' '$gp' | cut -d \"'\" -f 2 | tr '\n' ' ' |
    grep -q 'marked: overlap by 20 ms'"
check "and the end of that iteration is marked" same "$(series "$gp" 8)" "90 2;"
# 85 mm have room for two columns of eight names of 8 points, so the panel begins below four rows.
check "a legend for a column" parts --plot-width 85 --plot-font-size 8 -o small.gp
check "gnuplot lays out in the rows that are left free" grep -q '^set key .* vertical maxrows 5 ' "$work/small.gp"
check "each part has a colour of its own" same "$(grep -o "boxxyerror fillcolor rgb '#[0-9a-f]*'" "$gp" | sort -u |
    wc -l)" 8
# Colours of figure 16 of Okabe and Ito, with the grey that stands for black.
check "the palette is that of Okabe and Ito" same "$(sed -n 's/.*rgb .\(#[0-9a-f]*\). fillstyle.*title.*/\1/p' "$gp" |
    sort | tr '\n' ' ')" "#0072b2 #009e73 #56b4e9 #999999 #cc79a7 #d55e00 #e69f00 #f0e442 "
check "as text, with its caption" parts
check "the caption" sh -c "echo '$tap_out' | grep -q 'overlap by 20 ms'"
check "in percent of the iteration" parts --plot-percent -o percent.gp
check "which ends at 100" same "$(series "$work/percent.gp" 0)$(series "$work/percent.gp" 8)" \
    "0 75 0;0 81 1;0 95.556 2;100 2;"
check "and the axis says it" grep -q "^set label '% of the iteration' at" "$work/percent.gp"
fails "percent of another plot" 64 "add --plot breakdown" sweep --plot-percent
(cd "$work" && report run-small.log --micro-batch-size 1 --warmup 0 --plot breakdown -o alone.gp)
check "a run alone has no caption" lacks "$work/alone.gp" "overlap"

# ---- equal runs, and smooth ones ----

# losses FILE TP LOSS...: a log of two GPUs with a line for each.
losses() {
    losses_file=$1 losses_tp=$2 i=0
    shift 2
    {
        printf 'using world size: 2, data-parallel size: %d, ' $((2 / losses_tp))
        echo "tensor-model-parallel size: $losses_tp, pipeline-model-parallel size: 1"
        for loss; do
            i=$((${i:-0} + 1))
            printf ' iteration %d/ 9 | elapsed time per iteration (ms): 100 | ' "$i"
            echo "global batch size: 4 | lm loss: $loss |"
        done
    } > "$work/$losses_file"
    i=0
}
losses dp.log 1 1.000000E+00 3.000000E+00 2.000000E+00
losses again.log 1 1.000000E+00 3.000000E+00 2.000000E+00
losses tp.log 2 1.000000E+00 3.000003E+00 2.000000E+00
losses other.log 2 1.000000E+00 3.000400E+00 2.000000E+00
curves() { (cd "$work" && report "$@" --plot loss -o curves.gp); }
check "losses of two runs" curves dp.log again.log
check "are one line" same "$(title "$work/curves.gp" 0)/$(series "$work/curves.gp" 1)" \
    "2 runs, equal/"
check "losses of layouts that differ by a digit, and more" curves dp.log again.log tp.log other.log
check "are one line and another" same "$(title "$work/curves.gp" 0)/$(title "$work/curves.gp" 3)" \
    "3 layouts, equal to 1e-6/other"
check "the caption has their names" has "$work/curves.gp" "3 layouts, equal to 1e-6: dp, again, tp."
# Against 1, 3, 2 with a weight of 1/2: 1; (1/4 + 3/2) / (3/4); (1/8 + 3/4 + 1) / (7/8).
check "a smooth line" curves dp.log other.log --plot-smoothing 0.5
smoothed() { series "$work/curves.gp" 0 | tr ';' '\n' | cut -d ' ' -f 2,5 | tr '\n' ';'; }
check "is TensorBoard's mean, with what was behind it" same "$(smoothed)" \
    "1 1;2.3333 3;2.1429 2;"
fails "a weight of 1" 64 "to below 1" curves dp.log --plot-smoothing 1
check "marks have as many digits as their step" grep -q "^set format y '%.1f'" "$work/curves.gp"

# ---- the x axis ----

# line ITERATION MS SAMPLES JOULES: a line of the log, each of ten iterations.
line() {
    echo " iteration $1/ 100 | consumed samples: $3 | elapsed time per iteration (ms): $2 | energy per GPU (J/iter/GPU): $4 | global batch size: 4 | lm loss: 2.5E+00 |"
}
{
    echo "using world size: 8, data-parallel size: 8, tensor-model-parallel size: 1, pipeline-model-parallel size: 1"
    echo "------------------------ arguments ------------------------"
    echo "  log_interval ................ 10"
    echo "-------------------- end of arguments ---------------------"
    echo "[before the start of training step] datetime: 2026-11-28 04:00:00"
    line 10 1000 40 100
    line 20 500 80 200
    line 30 2000 120 900
    echo "using world size: 8, data-parallel size: 8, tensor-model-parallel size: 1, pipeline-model-parallel size: 1"
    echo " loading checkpoint from /tmp/run at iteration 20"
    echo "[before the start of training step] datetime: 2026-11-28 09:00:00"
    line 30 3000 120 300
} > "$work/twice.log"
against() { (cd "$work" && report twice.log --seq-length 32 --plot loss --plot-x "$1" -o "$1.gp"); }
places() { series "$work/$1.gp" 0 | tr ';' '\n' | awk '{ printf "%s ", $1 }'; }
for axis in "iterations:10 20 30:iteration" "tokens:1.28 2.56 3.84:tokens (thousands)" "time:10 15 45:training time (s)" \
    "energy:8 24 48:energy (kJ)"; do
    name=${axis%%:*} label=${axis##*:} axis=${axis#*:}
    check "against $name" against "$name"
    # 10 x 1 s, 10 x 0.5 s, and 10 x 3 s of the iterations as they were done last; 8 GPUs x 10 x 100
    # J, and so on.
    check "where $name are" same "$(places "$name")" "${axis%%:*} "
    check "and its unit" grep -q "^set label '$label' at" "$work/$name.gp"
done
sed 's/(ms): 1000/(ms): 1000000/' "$work/twice.log" > "$work/hours.log"
hours() { (cd "$work" && report hours.log --plot throughput --plot-x time -o hours.gp); }
check "throughput against hours" hours
check "of which there are three" same "$(series "$work/hours.gp" 0 | cut -d ' ' -f 1)" 2.7778
fails "energy that was not logged" 65 "base.log, line 2: the iteration has no energy" \
    report "$work/base.log" --plot loss --plot-x energy
fails "tokens of no length" 64 "give --seq-length" report "$work/twice.log" --plot loss --plot-x tokens
fails "tokens that were not counted" 65 "has no consumed samples" report "$work/base.log" --seq-length 8 --plot loss \
    --plot-x tokens
fails "an axis of no run" 64 "--plot-x is of plots over a run" sweep --plot-x time

# ---- memory of stages ----

# memory FILE WORLD DP ORDER: two stages of TP 2; rank n has 1000 + 10 n MiB.
memory() {
    {
        echo "using world size: $2, data-parallel size: $3, tensor-model-parallel size: 2, pipeline-model-parallel size: 2"
        echo "------------------------ arguments ------------------------"
        echo "  use_tp_pp_dp_mapping ........ $4"
        echo "-------------------- end of arguments ---------------------"
        line 10 1000 40 100
        for rank in 0 1 2 3 4 5 6 7; do
            [ "$rank" -lt "$2" ] && echo "[Rank $rank] (after 10 iterations) memory (MB) | allocated: 900.5 | max allocated: $((1000 + 10 * rank)).5 | reserved: 2000.0 | max reserved: 2000.0"
        done
    } > "$work/$1"
}
memory ordered.log 8 2 False
memory pipeline.log 8 2 True
# A plan of 1,010 GiB less the 10 that logs do not count, in two stages.
plan_of() {
    echo '{"shape": {"ranks": 8, "tensor_parallel": 2, "pipeline_parallel": 2, "data_parallel": 2, "model_chunks": 1,
        "rank_order": "tp-dp-pp"}, "stages": [
        {"rank": 0, "bytes": {"weights": 1.0, "kernel_scratch": 1073741824.0, "context": 2147483648.0, "nccl": null,
            "total": 7516192768.0}},
        {"rank": 4, "bytes": {"kernel_scratch": null, "context": null, "nccl": 1073741824.0, "total": 2147483648.0}}]}'
}
plan_of > "$work/plan.json"
memories() { (cd "$work" && report ordered.log pipeline.log plan.json --plot memory -o memory.gp); }
check "memory of stages" memories
# In GiB: stages of ranks 0 to 3 and 4 to 7; of 0, 1, 4, 5 and 2, 3, 6, 7; 7 - 1 - 2, and 2 - 1 GiB.
expected_memory() { awk -v least="$1" -v most="$2" 'BEGIN { printf "%.5g %.5g", (1000.5 + 10 * most) / 1024,
    (1000.5 + 10 * least) / 1024 }'; }
check "of ranks in the order tensor, data, pipeline" same "$(series "$work/memory.gp" 0 | tr ';' '\n' |
    cut -d ' ' -f 2,3 | tr '\n' ';')" "$(expected_memory 0 3);$(expected_memory 4 7);"
check "of ranks in the order tensor, pipeline, data" same "$(series "$work/memory.gp" 1 | tr ';' '\n' |
    cut -d ' ' -f 2,3 | tr '\n' ';')" "$(expected_memory 0 5);$(expected_memory 2 7);"
check "of a plan" same "$(series "$work/memory.gp" 2)" "0 4 4 4;1 1 1 1;"
check "in GiB" grep -q "^set label 'memory (GiB)' at" "$work/memory.gp"
sed 's/max allocated: 10/max allocated: 1/' "$work/ordered.log" > "$work/small.log"
small() { (cd "$work" && report small.log --plot memory -o small.gp); }
check "less than a GiB" small
check "in MiB" same "$(grep -c "^set label 'memory (MiB)' at" "$work/small.gp") $(series "$work/small.gp" 0)" \
    "1 0 130.5 100.5 130.5;1 170.5 140.5 170.5;"
fails "a log without lines of memory" 65 "has no lines of memory" report "$work/base.log" --plot memory
echo '{"stages": []}' > "$work/none.json"
fails "JSON that is no plan" 65 "is not what \`trireme plan --json\` or \`trireme sim --json\` prints" report "$work/none.json" --plot memory
echo '{"stages": ' > "$work/cut.json"
fails "JSON that was cut" 65 "is no JSON" report "$work/cut.json" --plot memory
fails "a plan has no loss" 65 "plans and simulations train nothing" report "$work/plan.json" --plot loss
small_plan="--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --vocab-size 127 --mock-data
    --tokenizer-type NullTokenizer --micro-batch-size 1 --global-batch-size 4 --lr 1e-4 --train-iters 5"
planned() {
    # shellcheck disable=SC2086
    "$trireme" plan $small_plan --world-size 4 --pipeline-model-parallel-size 4 --json > "$work/real.json" &&
        report "$work/real.json" --plot memory -o "$work/real.gp"
}
check "what trireme plan prints" planned
check "has all stages" same "$(series "$work/real.gp" 0 | tr ';' '\n' | cut -d ' ' -f 1 | tr '\n' ' ')" "0 1 2 3 "

# ---- the front of a search ----

front() {
    echo "{\"gpu_hours_of_run\": $1, \"pareto\": ["
    echo "{\"world_size\": 16, \"global_batch_size\": 8, \"seconds\": 2.0, \"bytes\": 1073741824.0, \"gpu_hours\": 5.0},"
    echo "{\"world_size\": 8, \"global_batch_size\": $2, \"seconds\": 4.0, \"bytes\": 3221225472.0, \"gpu_hours\": 3.0},"
    echo "{\"world_size\": 16, \"global_batch_size\": 8, \"seconds\": 1.0, \"bytes\": 2147483648.0, \"gpu_hours\": 4.0}]}"
}
front true 8 > "$work/front.json"
front false 16 > "$work/batches.json"
pareto() { (cd "$work" && report "$1.json" --plot pareto -o "$1.gp"); }
check "a front" pareto front
check "time against memory, of 8 GPUs" same "$(title "$work/front.gp" 0): $(series "$work/front.gp" 0)" "8 GPUs: 3 4 4 4;"
check "and of 16" same "$(title "$work/front.gp" 2): $(series "$work/front.gp" 2)" "16 GPUs: 1 2 2 2;2 1 1 1;"
check "and GPU-hours" same "$(series "$work/front.gp" 1)$(series "$work/front.gp" 3)" "3 3 3 3;1 5 5 5;2 4 4 4;"
check "time of an iteration" grep -q "^set label 'iteration (s)' at" "$work/front.gp"
check "batches that differ" pareto batches
check "have times of a sample" grep -q "^set label 'sample (s)' at" "$work/batches.gp"
check "which are these" same "$(series "$work/batches.gp" 0)" "3 0.25 0.25 0.25;"
sed '1s/{/&"processor": "cpu", /' "$work/front.json" > "$work/cpus.json"
check "a front of CPU ranks" pareto cpus
check "is of no GPUs" same "$(title "$work/cpus.gp" 0) $(grep -c GPU "$work/cpus.gp")" \
    "8 CPU ranks 0"
fails "a plan without a search" 65 "has no runs of a search" report "$work/plan.json" --plot pareto
fails "what a search is not asked" 64 "and no logs" report "$work/front.json" --plot pareto --warmup 3
fails "a log in place of a search" 65 "is no JSON" report "$work/base.log" --plot pareto

# ---- pictures ----

fails "a font that is none" 64 "names of fonts have letters" sweep --plot-font "a,b" -o x.svg
fails "a picture without room" 64 "has no room for axes" sweep --plot-height 20 -o x.svg
fails "a picture that is too narrow" 64 "has no room for axes" sweep --plot-width 20 -o x.gp
fails "a picture as large as a house" 64 "at most 2000 mm" sweep --plot-width 5000 -o x.svg
fails "a style without a picture" 64 "none was asked for" sweep --plot-font-size 8
fails "a style of a table" 64 "none was asked for" report "$work/base.log" --plot-width 84 -o "$work/x"

# In a picture of SVG: texts with their places, in units of 1/96 inch.  Letters are at least 0.35 of
# their size wide in the mean; two texts on one line may not meet, and none may leave the picture.
texts() {
    awk '/<g transform="translate/ {
            where = $0; sub(/.*translate\(/, "", where); split(where, xy, /[,)]/)
            size = $0; sub(/.*font-size="/, "", size); anchor = $0; sub(/.*text-anchor="/, "", anchor); sub(/".*/, "", anchor)
            turned = where ~ /^[^>]*rotate/ }
        /<text>/ { s = $0; gsub(/<[^>]*>/, "", s); gsub(/&[a-z]*;/, "x", s); gsub(/^[ \t]*|[ \t]*$/, "", s)
            if (s != "") printf "%s\t%s\t%s\t%s\t%d\t%s\n", xy[1], xy[2], size + 0, anchor, turned, s }' "$1"
}
no_text_meets() {
    texts "$1" > "$work/texts"
    awk -F '\t' -v wide="$(sed -n 's/.*viewBox="0 0 \([0-9]*\) .*/\1/p' "$1")" \
        -v high="$(sed -n 's/.*viewBox="0 0 [0-9]* \([0-9]*\)".*/\1/p' "$1")" '
        $5 { next }
        { n++; w = 0.45 * $3 * length($6); y[n] = $2; size[n] = $3; name[n] = $6
          left[n] = $4 == "end" ? $1 - w : $4 == "middle" ? $1 - w / 2 : $1
          right[n] = left[n] + w
          if (left[n] < 0 || right[n] > wide || y[n] > high || y[n] < size[n] / 2) { print "outside: " $6; bad = 1 } }
        END {
            for (i = 1; i <= n; i++) for (k = 1; k < i; k++) {
                d = y[i] - y[k]; if (d < 0) d = -d
                if (d < 0.8 * size[i] && left[i] < right[k] && left[k] < right[i]) { print name[i] " / " name[k]; bad = 1 } }
            if (n < 5) { print n " texts"; bad = 1 }
            exit bad }' "$work/texts"
}
# As long as the names of logs are.
long=a-name-of-a-log-that-is-much-longer-than-a-column-of-a-paper-can-show-beside-its-bars
cp "$work/run-small.log" "$work/it's \"one\" \$x.log"
cp "$work/run-large.log" "$work/$long.log"
figure() {
    kind=$1
    shift
    case $kind in
    scaling) sweep "$@" ;;
    memory) (cd "$work" && report ordered.log pipeline.log plan.json --plot memory "$@") ;;
    pareto) (cd "$work" && report front.json batches.json --plot pareto "$@") ;;
    *) (cd "$work" && report "it's \"one\" \$x.log" "$long.log" run-overlap.log --micro-batch-size 1 --warmup 0 \
        --plot "$kind" "$@") ;;
    esac
}
kinds="loss throughput breakdown scaling memory pareto"
if command -v gnuplot > /dev/null; then
    for kind in $kinds; do
        check "$kind: a column wide" figure "$kind" --plot-width 84 -o "$kind.svg"
        check "$kind: no text meets another" no_text_meets "$work/$kind.svg"
    done
    # 84 mm are 317 units of 1/96 inch, 8 points 10.67 of them.
    check "a font, its size and width" figure loss --plot-width 84 --plot-font "DejaVu Serif" --plot-font-size 8 \
        --plot-height 60 -o font.svg
    check "are those of the picture" has "$work/font.svg" 'font-family="DejaVu Serif" font-size="10.67"'
    check "and so is its size" has "$work/font.svg" 'width="317" height="227"'
    terminals=$(gnuplot -e 'print GPVAL_TERMINALS' 2>&1)
    for terminal in pdfcairo pngcairo; do
        file=$work/picture.${terminal%cairo}
        case $terminals in
        *" $terminal "*)
            check "$terminal draws" figure breakdown --plot-width 84 --plot-height 70 -o "$file"
            # 84 by 70 mm: 238.11 by 198.43 points, 992 by 827 of 300 an inch, which are 0x3e0 and
            # 0x33b.
            if [ $terminal = pdfcairo ]; then
                check "a PDF of that size" grep -a -q "/MediaBox \[ 0 0 238 198 \]" "$file"
            else
                check "a PNG of that size" same "$(od -A n -t x1 -j 16 -N 8 "$file" | tr -d ' ')" 000003e00000033b
            fi ;;
        *)
            skip "$terminal draws" "gnuplot has no $terminal"
            skip "its size" "gnuplot has no $terminal" ;;
        esac
    done
    # A gnuplot that knows no PDF: what it is asked to look for has another name.
    mkdir "$work/bin"
    printf '#!/bin/sh\nsed "s/pdfcairo/pdfnone/" | %s\n' "$(command -v gnuplot)" > "$work/bin/gnuplot"
    chmod +x "$work/bin/gnuplot"
    fails "a terminal that is not there" 69 "without its terminal pdfcairo" \
        env PATH="$work/bin:$PATH" "$trireme" report "$work/base.log" --plot loss -o "$work/none.pdf"
    check "leaves no file" test ! -e "$work/none.pdf"
    check "gnuplot draws the script" sh -c "cd '$work' && { echo \"set terminal svg; set output 'again.svg'\"; cat s.gp; } |
        gnuplot && grep -q '</svg>' again.svg"
else
    n=0
    while [ $n -lt 22 ]; do
        skip "a picture" "there is no gnuplot"
        n=$((n + 1))
    done
fi
