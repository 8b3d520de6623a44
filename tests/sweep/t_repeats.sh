#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# `trireme sweep --sweep-repeats`: the order of runs, medians and intervals of times that the test
# says, and a sweep that goes on.  The logs are of one real run; what they say of times is from a
# table, so that no clock counts.
. "$srcdir/tests/tap.sh"
plan 21

same() { [ "$1" = "$2" ] || { echo "'$1' / '$2'"; return 1; }; }
has() { grep -qE -e "$1" "$2" || { cat "$2"; return 1; }; }

cat > "$work/tiny.args" <<'ARGS'
--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
--vocab-size 256 --mock-data --lr 0.001 --micro-batch-size 1 --global-batch-size 8
ARGS
ranks 1 "$trireme" train "@$work/tiny.args" --train-iters 4 --exit-interval 4 --log-interval 1 --eval-iters 0 \
    > "$work/log" 2>&1
check "a log" test "$(grep -c 'elapsed time per iteration' "$work/log")" = 4

# start NAME ...: a run.  Its iterations take `base` and 0, 1, 2 and 3 ms more, where the line "NAME
# base" of times says it.  It ends with code 3 where `crashes` names it, and asks the sweep to stop,
# and waits, where `stops` does.
cat > "$work/start" <<'START'
#!/bin/sh
folder=${0%/*}
echo "$1" >> "$folder/calls"
[ "$1" != "$(cat "$folder/crashes" 2> /dev/null)" ] || exit 3
if [ "$1" = "$(cat "$folder/stops" 2> /dev/null)" ]; then
    kill -TERM "$(cat "$folder/pid")"
    exec sleep 1000
fi
awk -v name="$1" '
    FNR == NR { if ($1 == name) base = $2; next }
    { if (/elapsed time/) sub(/\(ms\): [0-9.]*/, "(ms): " base + n++); print }' "$folder/times" "$folder/log"
START
chmod +x "$work/start"
sweep() {
    timeout 300 "$trireme" sweep --launcher "$work/start {name}" --ranks 4 --sweep-folder "$work/sweep" \
        --sweep-iters 4 --sweep-warmup 1 "@$work/tiny.args" "$@"
}
one=tp1-pp1-dp4-mbs1-gbs8 two=tp2-pp1-dp2-mbs1-gbs8
shapes="--sweep-tensor 1-4 --sweep-pipeline 1,2"

# ---- the order ----

# The shapes of each repetition, a line each, of a dry run.
orders() { sweep --dry-run $shapes --sweep-repeats 20 "$@" | sed -n 's/^# repetition [0-9]*: //p'; }
orders > "$work/orders"
check "an order for each repetition" same "$(wc -l < "$work/orders")" 20
whole() { awk '{ delete seen; for (i = 1; i <= NF; i++) n += !seen[$i]++ } NF != 5 { bad = 1 } END { exit bad || n != 100 }' "$work/orders"; }
check "each runs every shape once" whole
check "they are not the same" test "$(sort -u "$work/orders" | wc -l)" -gt 10
# Of 20 times any of five is the first, none of them is never with 0.8 ^ 20 each: 6 %, for which the
# seed is fixed.
check "no shape always runs later" same "$(cut -d ' ' -f 1 "$work/orders" | sort -u | wc -l)" 5
orders > "$work/again"
check "they are the same again" cmp "$work/orders" "$work/again"
orders --sweep-seed 7 > "$work/again"
check "and others with another seed" sh -c "! cmp -s '$work/orders' '$work/again'"
sweep --dry-run --sweep-tensor 1-4 --sweep-repeats 20 | sed -n 's/^# repetition [0-9]*: //p' > "$work/fewer"
check "shapes that are added leave the order of the others" same \
    "$(sed -e 's/ *[^ ]*-pp2-[^ ]*//g' -e 's/^ //' "$work/orders" | cksum)" "$(cksum < "$work/fewer")"
sweep --dry-run $shapes > "$work/text"
check "one run of each: the best first" sh -c "! grep repetition '$work/text'"
check "but with a seed" test "$(sweep --dry-run $shapes --sweep-seed 7 | grep -c '^# repetition')" = 1

# ---- medians and intervals ----

# Nine medians of runs, 100 x and 200 x: in any order, and one of them far off.
k=0
for x in 105 101 109 103 900 102 107 106 104; do
    echo "$one.$k $x" >> "$work/times"
    echo "$two.$k $((2 * x))" >> "$work/times"
    k=$((k + 1))
done
value() { sed -n "/\"shape\":\"$2\"/s/.*\"measured\":{[^}]*\"$1\":\\([^,}]*\\).*/\\1/p" "$work/sweep/results.jsonl" | tail -n 1; }

# The fourth call asks to stop.
calls=$(sweep --dry-run --sweep-tensor 1,2 --sweep-repeats 3 | awk '/^# repetition/ { for (i = 4; i <= NF; i++) print $i "." NR0 + 0; NR0++ }')
echo "$calls" | sed -n 4p > "$work/stops"
sh -c 'echo $$ > "$0/pid"; exec "$@"' "$work" "$trireme" sweep --launcher "$work/start {name}" --ranks 4 \
    --sweep-folder "$work/sweep" --sweep-iters 4 --sweep-warmup 1 "@$work/tiny.args" --sweep-tensor 1,2 \
    --sweep-repeats 3 > "$work/text" 2>&1
check "it is asked to stop in the second repetition" same $? 75
rm "$work/stops"
sweep --sweep-tensor 1,2 --sweep-repeats 3 > "$work/text" 2>&1
check "and goes on" same $? 0
check "in the same order" same "$(sed 4d "$work/calls" | tr '\n' ' ')" "$(echo "$calls" | tr '\n' ' ')"
check "with what it had" same "$(value iterations $one)" 9
# Medians of iterations 2 to 4 are 2 ms above, so of three runs 107, 103 and 111, in any of which
# the median is with 1 - 2 / 2^3.
check "three runs: the median of their medians" same "$(value seconds_per_it $one)" 0.107
check "and an interval that says how sure it is" has "\| +4 \| +1 \| +1 \| +1 \| +8 \| .* \| +0.107 \| 0.103-0.111 \(75 %\) \| +3 \|" \
    "$work/sweep/results.md"
sweep --sweep-tensor 1,2 --sweep-repeats 9 > "$work/text" 2>&1
check "more repetitions go on, too" same "$(wc -l < "$work/calls")" 19
# Order statistics of nine: the median is outside of the second and the eighth with 2 (1 + 9) / 2^9.
check "nine runs: the interval is of order statistics" same \
    "$(value seconds_per_it $two) $(value seconds_low $two) $(value seconds_high $two) $(value sure $two)" \
    "0.212 0.206 0.22 0.9609375"
check "the table for spreadsheets has it" same "$(tr -d '\r' < "$work/sweep/results.csv" | awk -F , -v name=$two '
    NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
    $at["shape"] == name { print $at["seconds_per_it"], $at["seconds_low"], $at["seconds_high"], $at["sure"], $at["runs"] }')" \
    "0.212 0.206 0.22 0.9609375 9"

# ---- a run that fails ----

echo "$two.1" > "$work/crashes"
rm "$work/calls"
sweep --sweep-folder "$work/crashed" --sweep-tensor 1,2 --sweep-repeats 3 > "$work/text" 2>&1
check "a shape that fails is not repeated, and the others are" same "$(sort "$work/calls" | tr '\n' ' ')" \
    "$one.0 $one.1 $one.2 $two.0 $two.1 "
check "and its row says so" has "; one of 2 runs failed: exit code 3" "$work/crashed/results.md"
