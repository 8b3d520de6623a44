#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# `trireme sweep --sweep-stop-early`: what a run is told, what becomes of one that leaves, and a
# real one of a shape that is slower for certain, as each of its messages waits.
. "$srcdir/tests/tap.sh"
plan 20

same() { [ "$1" = "$2" ] || { echo "'$1' / '$2'"; return 1; }; }
has() { grep -qE -e "$1" "$2" || { cat "$2"; return 1; }; }
hasnt() { ! grep -E -e "$1" "$2"; }

cat > "$work/tiny.args" <<'ARGS'
--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
--vocab-size 256 --mock-data --lr 0.001 --micro-batch-size 1
ARGS

# ---- with times that the test says ----

ranks 1 "$trireme" train "@$work/tiny.args" --global-batch-size 8 --train-iters 10 --exit-interval 10 --log-interval 1 \
    --eval-iters 0 > "$work/log" 2>&1
# start NAME word...: a run of trireme whose iterations take what `times` says of NAME, in
# milliseconds, and which leaves after the seventh where that is more than --exit-slower-than.
cat > "$work/start" <<'START'
#!/bin/sh
folder=${0%/*} name=$1
echo "$*" >> "$folder/calls"
most=$(echo "$*" | sed -n 's/.* --exit-slower-than \([^ ]*\).*/\1/p')
awk -v name="$name" -v most="${most:-1e9}" '
    FNR == NR { if ($1 == name) ms = $2; next }
    /elapsed time/ { sub(/\(ms\): [0-9.]*/, "(ms): " ms) }
    { sub(/after training is done/, "exiting program at iteration 10"); print }
    / iteration +7\// && ms > most {
        print "[exiting program as its iterations take more than " most " ms] datetime: 2026-11-28 10:26:41 "; exit }
    ' "$folder/times" "$folder/log"
START
chmod +x "$work/start"
sweep() {
    timeout 300 "$trireme" sweep --launcher "$work/start {name}" --ranks 4 --sweep-folder "$work/sweep" \
        --sweep-iters 10 --sweep-warmup 2 --sweep-tensor 1-4 "@$work/tiny.args" "$@"
}
a=tp1-pp1-dp4-mbs1-gbs8 b=tp2-pp1-dp2-mbs1-gbs8 c=tp4-pp1-dp1-mbs1-gbs8
batch="--global-batch-size 8 --sweep-stop-early 30"
told() { sed -n "s/^$1 .* --exit-slower-than \\([^ ]*\\) --exit-slower-after \\([0-9]*\\).*/\\1 \\2/p" "$work/calls"; }

# In the order a, b, c: the second is within 30 % of the first, and the third is not.
printf '%s\n' "$a.0 100" "$b.0 125" "$c.0 150" "$a.1 100" "$b.1 80" "$c.1 150" > "$work/times"
# seeded ORDER COMMAND...: the first seed with which a dry run has shapes in that order.
seeded() {
    want=$1 seed=0
    shift
    until [ $seed = 100 ] || "$@" --dry-run --sweep-seed $seed | grep -q "^# repetition 0: $want"; do seed=$((seed + 1)); done
}
seeded "$a $b $c" sweep $batch
sweep $batch --sweep-seed $seed > "$work/text" 2>&1
check "a sweep that stops early ends well" same $? 0
check "the first is not told when to leave" same "$(told $a.0)" ""
check "the others are: 30 % above the first, after the warm-up and five iterations" same "$(told $b.0) $(told $c.0)" "130 7 130 7"
check "one that left is a row" has '\| .*; stopped early, 50 % slower than '"$a" "$work/sweep/results.md"
check "which is no failure" hasnt 'failed' "$work/sweep/results.md"
check "the others trained to their end" has '^2 of 3 shapes trained to their end, 1 stopped early; ' "$work/text"
check "its record has that, and the times it has" has \
    "\"shape\":\"$c\",\"ok\":false,\"error\":\"stopped early, 50 % slower than [^\"]*\",\"early\":true,.*\"iterations\":5," \
    "$work/sweep/results.jsonl"
cp "$work/calls" "$work/before"
sweep $batch --sweep-seed $seed > "$work/text" 2>&1
check "it is not run again" cmp "$work/calls" "$work/before"
sweep --global-batch-size 8 --sweep-again > "$work/text" 2>&1
check "but with --sweep-again" has '^3 of 3 shapes trained to their end; ' "$work/text"

# The first is the best after the first repetition, and runs again without a limit.
rm "$work/calls"
rm -r "$work/sweep"
sweep $batch --sweep-seed $seed --sweep-repeats 2 > "$work/text" 2>&1
check "the best is never told" same "$(told $a.1)" ""
check "one that was stopped does not run again" same "$(grep -c "^$c" "$work/calls")" 1

# Batches of different sizes: the limit is of a sample.
rm "$work/calls"
printf '%s\n' "tp1-pp1-dp4-mbs1-gbs8.0 100" "tp1-pp1-dp4-mbs1-gbs16.0 210" > "$work/times"
seeded "[^ ]*gbs8 " sweep --sweep-tensor 1 --sweep-global-batch 8,16
sweep --sweep-folder "$work/batches" --sweep-tensor 1 --sweep-global-batch 8,16 --sweep-stop-early 50 --sweep-seed $seed > "$work/text" 2>&1
check "an iteration of twice as many samples may take twice as long" same "$(told tp1-pp1-dp4-mbs1-gbs16.0)" "300 7"

fails "nothing left to save" 64 "give --sweep-iters above 7" sweep $batch --sweep-iters 7
fails "two that say it" 64 "leave out --exit-slower-than" sweep $batch --exit-slower-than 5
fails "less than nothing" 64 "sweep-stop-early" sweep --global-batch-size 8 --sweep-stop-early -1

# ---- with real runs ----

# One rank has nobody to talk to; of two each message takes 40 ms, and an iteration four of these.
real() {
    timeout 300 "$trireme" sweep --launcher "$srcdir/tests/mpirun --ranks {ranks}" --ranks 1,2 --sweep-folder "$work/real" \
        --sweep-iters 40 --sweep-warmup 1 --sweep-stop-early 20 --distributed-backend slow --slow-rate 1 --slow-latency 40 \
        --global-batch-size 2 "@$work/tiny.args" "$@"
}
seeded tp1-pp1-dp1- real
real --sweep-seed $seed > "$work/text" 2>&1
check "real runs end well" same $? 0
check "the one that waits is stopped" has '; stopped early, [0-9]+ % slower than tp1-pp1-dp1-' "$work/real/results.md"
left() { sed -n 's/.*"shape":"tp1-pp1-dp2-.*"exit_code":\([0-9]*\),"last_iteration":\([0-9]*\).*/\1 \2/p' "$work/real/results.jsonl"; }
early() { [ "$(left | cut -d ' ' -f 1)" = 0 ] && [ "$(left | cut -d ' ' -f 2)" -ge 6 ] && [ "$(left | cut -d ' ' -f 2)" -lt 40 ]; }
check "by itself, after six iterations or a few more" early
check "and its log says why" has '^\[exiting program as its iterations take more than ' "$work"/real/tp1-pp1-dp2-*.log
check "the fast one has all" has '"shape":"tp1-pp1-dp1-.*"ok":true.*"last_iteration":40,' "$work/real/results.jsonl"
