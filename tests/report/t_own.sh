#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# `trireme report` on what `trireme train` prints, in each --log-format, and on a run of two jobs.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 39

same() { [ "$1" = "$2" ] || { echo "$1 / $2"; return 1; }; }
# csv COLUMN: of the first row of the table that is read.
csv() {
    awk -F , -v name="$1" '
        { sub(/\r$/, "") }
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) column = i }
        NR == 2 { print $column }'
}
# The parts of the breakdown that is read add up to its last row, in hundredths of a millisecond.
adds_up() {
    awk -F , '
        { hundredths = int($3 * 100 + ($3 < 0 ? -0.5 : 0.5)) }
        NR > 1 && $2 != "iteration" { sum += hundredths; parts++ }
        $2 == "iteration" { whole = hundredths }
        END { if (parts != 8 || sum != whole || whole <= 0) { print parts, sum, whole; exit 1 } }'
}
# losses_of LABEL LOG: what the lines say, as numbers.
logged() { sed -n "s/^ .*iteration .*$1: *\([^ ]*\) |.*/\1/p" "$2" | awk '{ printf "%.6E ", $1 }'; }
reported() { awk -F , -v name="$1" '
    { sub(/\r$/, "") }
    NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) column = i }
    NR > 1 { printf "%.6E ", $column }'; }

check "a dataset is built" small_corpus
run() {
    small 2 --pipeline-model-parallel-size 2 --train-iters 12 --log-interval 2 "$@"
}
for way in megatron "megatron-core --timing-log-level 2" "megatron-deepspeed --timing-log-level 2 \
    --timing-log-option all" "megatron --timing-log-option max --timing-log-level 2"; do
    name=$(echo "$way" | awk '{ print $1, $NF }')
    # shellcheck disable=SC2086
    check "a run: $name" run --log-throughput --log-format $way
    echo "$tap_out" > "$work/log"
    check "$name: nothing is odd" same "$("$trireme" report "$work/log" 2>&1 > "$work/all")" ""
    "$trireme" report "$work/log" --show iterations --format csv > "$work/iterations"
    check "$name: its losses" same "$(reported loss < "$work/iterations")" \
        "$(logged 'lm loss' "$work/log")"
    "$trireme" report "$work/log" --show summary --format csv > "$work/summary"
    check "$name: whose it is, and its end" same \
        "$(csv layout < "$work/summary") $(csv end < "$work/summary")" "trireme done"
    "$trireme" report "$work/log" --show breakdown --format csv > "$work/parts"
    check "$name: the parts add up" adds_up < "$work/parts"
    sed 's/^/# /' "$work/parts"
done

# Two jobs: the first saves at 6 and is killed after 8 without a checkpoint, so 7 and 8 are done
# again.
part() {
    small 2 --pipeline-model-parallel-size 2 --train-iters 12 --save "$work/save" --load "$work/save" \
        --save-interval 6
}
check "the first job" part
echo "$tap_out" | sed '/^ iteration *9/,$d' > "$work/first"
rm -rf "$work/save/iter_0000012"
echo 6 > "$work/save/latest_checkpointed_iteration.txt"
sed -i.old 's/^state: .*/state: failed/' "$work/save/state"
check "the second job" part
echo "$tap_out" > "$work/second"
cat "$work/first" "$work/second" > "$work/both"
for way in "$work/both" "$work/first $work/second --join"; do
    # shellcheck disable=SC2086
    "$trireme" report $way --show summary --format csv > "$work/summary"
    check "each iteration once: ${way##* }" same \
        "$(csv starts < "$work/summary") $(csv lines < "$work/summary") $(
            csv iterations_lost < "$work/summary") $(csv saves < "$work/summary")" "2 12 2 2"
    # shellcheck disable=SC2086
    check "as it was done last: ${way##* }" same \
        "$("$trireme" report $way --show starts --format csv | awk -F , 'NR > 1 { print $6, $7, $8 }' |
            tr '\n' ';')" "0 8 0;6 12 2;"
done
check "from the standard input" sh -c "cat '$work/both' | '$trireme' report - --show runs"

# What stages send: 8 micro-batches of 32 x 32 numbers, in fp32 or in codes and a half for each
# channel.
check "a run that compresses one direction" run --forward-compress-method fixpoint --forward-bits 4
echo "$tap_out" > "$work/log"
"$trireme" report "$work/log" --show summary --format csv > "$work/summary"
check "bytes of an iteration" same \
    "$(for name in forward_bytes forward_below_fp16 backward_bytes; do csv pipeline_$name < "$work/summary"; done |
        tr '\n' ' ')" "$((8 * (32 * 32 / 2 + 2 * 32))) 3.556 $((8 * 32 * 32 * 4)) "

# A short log says the same as one with all arguments and all lines of set-up: of both only what
# differs is left out of the long one.  A family and a layout, so that more than defaults stands
# there.
both() {
    small 2 --pipeline-model-parallel-size 2 --model-family llama3 --num-query-groups 2 --ffn-hidden-size 64 \
        --train-iters 40 --log-interval 2 --seed 7 --save "$work/both.saved" "$@"
}
check "a log with all arguments" both --log-arguments
echo "$tap_out" > "$work/long.log"
rm -rf "$work/both.saved"
check "a short one" both
echo "$tap_out" > "$work/short.log"
at_most_40() {
    count=$(sed '/^ iteration/,$d' "$work/short.log" | wc -l)
    if [ "$count" -gt 40 ] || ! grep -q '^ iteration' "$work/short.log"; then
        sed '/^ iteration/,$d' "$work/short.log"
        return 1
    fi
}
check "which has at most 40 lines before its first iteration" at_most_40
mkdir "$work/spliced"
awk 'function shape(line) { gsub(/[0-9]+([.][0-9]+)?/, "N", line); return line }
    /^ iteration/ { started[FILENAME] = 1 }
    FILENAME != "-" && !started[FILENAME] { there[shape($0)] = 1 }
    FILENAME == "-" && (started["-"] || shape($0) in there)' "$work/short.log" - < "$work/long.log" > "$work/spliced/long.log"
the_same() {
    left_out=$(($(wc -l < "$work/long.log") - $(wc -l < "$work/spliced/long.log")))
    [ "$left_out" -gt 200 ] || { echo "only $left_out lines are left out"; return 1; }
    for format in text csv json; do
        (cd "$work" && "$trireme" report long.log --format $format) > "$work/of_long" &&
            (cd "$work/spliced" && "$trireme" report long.log --format $format) > "$work/of_short" &&
            diff "$work/of_long" "$work/of_short" || return 1
    done
}
check "report: the same as text, CSV and JSON" the_same
# Nothing of a run on CPU ranks is called a GPU, whatever the form of its log; beside one on GPUs
# both are ranks.
headings() {
    "$trireme" report "$@" --format markdown &&
        "$trireme" report "$@" --format markdown --show scaling
}
on_cpu_ranks() {
    both --log-format terminal > "$work/terminal.log" || return 1
    for log in short long terminal; do
        headings "$work/$log.log" > "$work/$log.md" || return 1
        grep -q '| CPU ranks | ' "$work/$log.md" || { cat "$work/$log.md"; return 1; }
        ! grep GPU "$work/$log.md" || return 1
    done
    # On a terminal the log says no sizes.
    grep -q 'hardware TFLOP/s per CPU rank ' "$work/short.md"
}
check "ranks on CPUs are no GPUs" on_cpu_ranks
in_figure() {
    "$trireme" report "$work/short.log" --plot scaling -o "$work/ranks.gp" &&
        grep -q "'CPU ranks'" "$work/ranks.gp" && ! grep GPU "$work/ranks.gp"
}
check "in a figure, too" in_figure
with_gpus() {
    headings "$work/short.log" "$srcdir/tests/report/jean-zay-18b.log" > "$work/all.md" &&
        grep -q 'hardware TFLOP/s per rank ' "$work/all.md" && ! grep -E 'GPU|CPU' "$work/all.md"
}
check "beside GPUs they are ranks" with_gpus
# A profile says from which log it was fitted: it has the same name.
the_same_fit() {
    (cd "$work" && "$trireme" plan --fit long.log --machine jean-zay-v100-32g) > "$work/of_long" 2>&1 &&
        (cd "$work/spliced" && "$trireme" plan --fit long.log --machine jean-zay-v100-32g) > "$work/of_short" 2>&1 &&
        diff "$work/of_long" "$work/of_short"
}
check "plan --fit: the same" the_same_fit
"$trireme" report "$work/long.log" "$work/spliced/long.log" --show runs --format csv > "$work/runs"
check "and the two are runs of the same training" grep -q ',equal,' "$work/runs"
