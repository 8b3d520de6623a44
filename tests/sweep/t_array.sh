#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# `trireme sweep --sweep-array`: the text of its scripts, and what their tasks leave in a folder
# that they share, with an sbatch that starts all tasks at once.  t_slurm.sh has the real one.
. "$srcdir/tests/tap.sh"
command -v bash > /dev/null || skip_all "there is no bash, for which the scripts are"
plan 31

same() { [ "$1" = "$2" ] || { echo "'$1' / '$2'"; return 1; }; }
has() { grep -qE -e "$1" "$2" || { cat "$2"; return 1; }; }

cat > "$work/tiny.args" <<'ARGS'
--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
--vocab-size 256 --mock-data --lr 0.001 --micro-batch-size 1 --global-batch-size 8
ARGS
ranks 1 "$trireme" train "@$work/tiny.args" --train-iters 4 --exit-interval 4 --log-interval 1 --eval-iters 0 \
    > "$work/log" 2>&1
# A run, by the log of another; one that `crashes` names fails.
cat > "$work/start" <<'START'
#!/bin/sh
folder=${0%/*}
echo "$1" >> "$folder/calls"
[ "$1" != "$(cat "$folder/crashes" 2> /dev/null)" ] || exit 3
cat "$folder/log"
START
# sbatch FILE: all tasks but those that `later` has, at once; as Slurm does it runs a copy.
mkdir "$work/bin"
cat > "$work/bin/sbatch" <<'SBATCH'
#!/bin/sh
folder=${0%/*}/..
[ ! -e "$folder/refuses" ] || { echo "sbatch: error: invalid account"; exit 1; }
cp "$1" "$folder/copy"
last=$(sed -n 's/^#SBATCH --array=0-\([0-9]*\).*/\1/p' "$1")
i=0
while [ $i -le "$last" ]; do
    grep -qx $i "$folder/later" 2> /dev/null ||
        SLURM_JOB_ID=$((100 + i)) SLURM_ARRAY_TASK_ID=$i SLURM_NTASKS=4 SLURM_JOB_NUM_NODES=2 SLURM_JOB_END_TIME=4000000000 \
            bash "$folder/copy" > "$folder/out.$i" 2>&1 &
    i=$((i + 1))
done
wait
echo "Submitted batch job 100"
SBATCH
chmod +x "$work/start" "$work/bin/sbatch"
PATH=$work/bin:$PATH
sweep() {
    timeout 300 "$trireme" sweep --launcher "$work/start {name}" --sweep-folder "$work/sweep" --sweep-iters 4 \
        --sweep-warmup 1 --ranks-per-node 2 "@$work/tiny.args" "$@"
}
one=tp1-pp1-dp4-mbs1-gbs8 two=tp2-pp1-dp2-mbs1-gbs8 three=tp1-pp2-dp2-mbs1-gbs8
shapes="--ranks 4 --sweep-tensor 1,2 --sweep-pipeline 1,2"
four=tp2-pp2-dp1-mbs1-gbs8

# ---- the script ----

line() { sed -n "s/^#SBATCH --$1=//p" "$2"; }
sweep --dry-run $shapes --sweep-array "$work/job.sbatch" --sweep-timeout 10 --sweep-repeats 2 --sweep-array-limit 3 \
    --sweep-array-options account=abc@v100 gres=gpu:2 "comment=two words" --lr-decay-style cosine > "$work/text" 2>&1
check "--dry-run prints it" has '^#!/bin/bash$' "$work/text"
check "and writes nothing" test ! -e "$work/job.sbatch" -a ! -e "$work/sweep"
check "a task for each shape, three at a time" same "$(line array "$work/text")" "0-3%3"
check "on the nodes that it needs" same "$(line nodes "$work/text") $(line ntasks-per-node "$work/text")" "2 2"
# Two runs of 10 minutes and 10 seconds to end them, half a minute to start, and one that is kept
# free.
check "as long as its runs may take" same "$(line time "$work/text")" 22
check "where the sweep was" same "$(line chdir "$work/text")" "$PWD"
check "other options of sbatch have lines of their own" same "$(grep -e account -e gres -e comment "$work/text")" \
    "#SBATCH --account=abc@v100
#SBATCH --gres=gpu:2
#SBATCH '--comment=two words'"
check "it names the shapes in the order of the first repetition" same "$(sed -n '/^shapes=/,/^)/p' "$work/text" | grep tp | xargs)" \
    "$(sweep --dry-run $shapes --sweep-repeats 2 | sed -n 's/^# repetition 0: //p')"
sed -n '/^#!/,$p' "$work/text" > "$work/job"
check "bash reads it" bash -n "$work/job"
sed -i 's/^exec /printf "<%s>" /' "$work/job"
words() { SLURM_ARRAY_TASK_ID=1 bash "$work/job"; }
check "its command has all options" same "$(words | grep -o -e '<--launcher><[^>]*>' -e '<--ranks><4>' -e '<--sweep-repeats><2>' -e '<cosine>' -e '<--sweep-timeout><10>' | wc -l)" 5
check "and names one shape" has "<--sweep-only><$(sed -n '/^shapes=/,/^)/p' "$work/text" | grep tp | sed -n 2p | xargs)>" "$(words > "$work/words"; echo "$work/words")"
check "none of them makes arrays" test "$(words | grep -c sweep-array)" = 0

# ---- tasks at the same time ----

rows() { tr -d '\r' < "$work/sweep/results.csv" | sed 1d | cut -d , -f 1 | sort | xargs; }
echo 1 > "$work/later"
sweep $shapes --sweep-array "$work/job.sbatch" --sweep-submit > "$work/text" 2>&1
check "it is submitted" same "$(tail -n 1 "$work/text")" "Submitted batch job 100"
later=$(sed -n '/^shapes=/,/^)/p' "$work/job.sbatch" | grep tp | sed -n 2p | xargs)
check "each task ran a shape" same "$(sort "$work/calls" | xargs)" "$(printf '%s\n' $one $two $three $four | grep -v "$later" | sed 's/$/.0/' | sort | xargs)"
check "and left a file" same "$(cd "$work/sweep/shapes" && printf '%s\n' *.json | wc -l)" 3
check "and no row of a table" same "$(rows)" ""
fails "results are collected as they come" 75 "3 of 4 shapes have results so far" sweep $shapes --sweep-collect
check "tables have those that there are" same "$(rows)" "$(printf '%s\n' $one $two $three $four | grep -v "$later" | sort | xargs)"
check "which are in one file now" same "$(wc -l < "$work/sweep/results.jsonl") $(find "$work/sweep/shapes" -name '*.json' | wc -l)" "3 0"
check "their records name the job of the task" same "$(grep -c '"job":"10[023]"' "$work/sweep/results.jsonl")" 3
rm "$work/later"
sweep $shapes --sweep-array "$work/job.sbatch" --sweep-submit > "$work/text" 2>&1
check "another array has what is left" same "$(sed -n '/^shapes=/,/^)/p' "$work/job.sbatch" | grep tp | xargs)" "$later"
sweep $shapes > "$work/text" 2>&1
check "a sweep takes it over, and runs nothing" same "$(rows | wc -w) $(wc -l < "$work/calls")" "4 4"
sweep $shapes --sweep-array "$work/more.sbatch" > "$work/text" 2>&1
check "then there is nothing to submit" sh -c "grep -q 'all 4 shapes have results' '$work/text' && [ ! -e '$work/more.sbatch' ]"

# Several numbers of ranks.
sweep --ranks 1,2,4 --sweep-folder "$work/scaling" --sweep-array "$work/a.b/job.sbatch" > "$work/text" 2>&1
mkdir "$work/a.b"
sweep --ranks 1,2,4 --sweep-folder "$work/scaling" --sweep-array "$work/a.b/job.sbatch" > "$work/text" 2>&1
check "a script for each number of ranks" same "$(cd "$work/a.b" && echo *)" "job-ranks1.sbatch job-ranks2.sbatch job-ranks4.sbatch"
check "with its nodes and tasks" same "$(for n in 1 2 4; do line nodes "$work/a.b/job-ranks$n.sbatch"; line ntasks-per-node "$work/a.b/job-ranks$n.sbatch"; done | xargs)" \
    "1 1 1 2 2 2"

# ---- what goes wrong ----

echo "$two.0" > "$work/crashes"
fails "a shape that fails alone" 69 "no shape trained to its end" sweep $shapes --sweep-folder "$work/alone" --sweep-only $two
fails "a shape that is not there" 64 "the lists have no such shape" sweep $shapes --sweep-only tp8
fails "two at once" 64 "take one of them" sweep $shapes --sweep-only $two --sweep-collect
fails "options of no script" 64 "give --sweep-array FILE" sweep $shapes --sweep-submit
touch "$work/refuses"
fails "what sbatch says" 69 "sbatch: error: invalid account" sweep $shapes --sweep-folder "$work/other" \
    --sweep-array "$work/job.sbatch" --sweep-submit
echo '{' > "$work/alone/shapes/tp9.json"
fails "a file that is no result is named" 65 "shapes/tp9.json is no result" sweep $shapes --sweep-folder "$work/alone" --sweep-collect
