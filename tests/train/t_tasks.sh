#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# Training on weighted tasks: the same samples in any layout, after a stop, after a kill, and from a
# dataset that was built of them before.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 20

dir=$work/tasks
mkdir -p "$dir/data" "$dir/natural-instructions/tasks" "$dir/natural-instructions/splits/default"
awk 'BEGIN {
    for (i = 0; i < 400; i++)
        printf "{\"text\": \"%d times %d is %d.\"}\n", i % 13, i % 7, i % 13 * (i % 7) > "'"$dir"'/pile.jsonl"
    for (i = 0; i < 90; i++)
        printf "{\"inputs\": \"%d plus %d%s\", \"targets\": \"%d\"}\n", i, i, i % 2 ? " is:" : "?", 2 * i > "'"$dir"'/p3.jsonl"
    printf "{" > "'"$dir"'/data/mmlu-cot.json"
    for (i = 0; i < 9; i++) {
        printf "%s\"k%d\": \"", i ? ", " : "", i > "'"$dir"'/data/mmlu-cot.json"
        for (k = 0; k < 12; k++) printf "step %d of %d. ", k, i > "'"$dir"'/data/mmlu-cot.json"
        printf "\"" > "'"$dir"'/data/mmlu-cot.json"
    }
    printf "}" > "'"$dir"'/data/mmlu-cot.json"
    for (t = 0; t < 3; t++) {
        file = "'"$dir"'/natural-instructions/tasks/t" t ".json"
        print "t" t > "'"$dir"'/natural-instructions/splits/default/train_tasks.txt"
        printf "{\"Definition\": [\"Say it %d times.\"], \"Instances\": [", t > file
        for (i = 0; i < 20; i++)
            printf "%s{\"input\": \"what %d\", \"output\": [\"%s\"]}", i ? ", " : "", i, \
                t ? "yes " i % 4 : "free " i > file
        print "]}" > file
    }
}'

mix=cot:0.1,ni:0.2,p3:0.3,pile:0.4
model() {
    model_ranks=$1
    shift
    ranks "$model_ranks" "$trireme" train --num-layers 4 --hidden-size 32 --num-attention-heads 4 \
        --seq-length 96 --max-position-embeddings 96 --tokenizer-type bytes --micro-batch-size 1 \
        --global-batch-size 8 --lr 0.002 --lr-decay-style constant --eval-interval 6 --eval-iters 2 \
        --log-interval 1 --train-iters 16 "$@"
}
tasks() {
    tasks_ranks=$1
    shift
    model "$tasks_ranks" --task-name $mix --task-dir "$dir" --evaluation-data p3 "$@"
}

check "a mixture is trained on" tasks 2 --save "$work/whole"
echo "$tap_out" > "$work/whole.log"
losses "$work/whole.log" 100 > "$work/whole.losses"
sums "$work/whole" > "$work/whole.sums"
check "in 16 iterations" [ "$(wc -l < "$work/whole.losses")" = 16 ]
learns() { awk 'NR == 1 { a = $2 } { b = $2 } END { exit !(b < a - 1) }' "$work/whole.losses"; }
check "the loss falls" learns
check "the log says the tasks" grep -q '^   task 2, weight 0.300000: p3$' "$work/whole.log"
valid() { [ "$(grep -c '^ validation loss at .*lm loss PPL' "$work/whole.log")" -ge 3 ]; }
check "--evaluation-data is evaluated" valid

results() {
    sed -n 's/^ validation loss at .*lm loss value: \([^ ]*\) .*PPL: \([^ ]*\) .*/\2 \1/p' "$work/whole.log" > "$work/valid"
    sed -n 's/^{"valid.perplexity": \(.*\), "valid.loss": \(.*\)}$/\1 \2/p' "$work/whole.log" |
        paste -d ' ' - "$work/valid" |
        awk '{ a = $1 / $3 - 1; b = $2 / $4 - 1; if (NF != 4 || a * a > 1e-10 || b * b > 1e-10) bad = 1 }
            END { exit bad || NR < 3 }'
}
check "with the two numbers that CocktailSGD prints" results
fixed() {
    tasks 1 --lr 0 --train-iters 12 > "$work/fixed.log" 2>&1
    sed -n 's/^ validation loss at iteration .*lm loss value: \([^ ]*\) .*/\1/p' "$work/fixed.log" | uniq -c |
        awk '$1 == 2 { ok = 1 } END { exit !(ok && NR == 1) }'
}
check "each evaluation takes the same samples" fixed

check "stopped after 7" tasks 2 --exit-interval 7 --save "$work/half"
resumed() {
    tasks 2 --load "$work/half" --save "$work/half" && sums "$work/half" | cmp - "$work/whole.sums" &&
        [ -s "$work/whole.sums" ]
}
check "resumed: the same weights to the bit" resumed

killed() {
    tasks 2 --save "$work/killed" --save-interval 3 > "$work/killed.log" 2>&1 &
    killed_pid=$!
    saves "$work/killed" 600
    for pid in $(rank_pids $killed_pid); do kill -9 "$pid" 2> /dev/null; done
    wait $killed_pid
    tasks 2 --load "$work/killed" --save "$work/killed" > "$work/killed.again" 2>&1
    sums "$work/killed" | cmp - "$work/whole.sums"
}
check "killed and started again: the same weights to the bit" killed

# layout NAME RANKS OPTION...
layout() {
    layout_name=$1
    shift
    tasks "$@" > "$work/$layout_name.log" 2>&1 || { tail -5 "$work/$layout_name.log"; return 1; }
    losses "$work/$layout_name.log" 100 > "$work/$layout_name.losses"
    close_losses "$work/whole.losses" "$work/$layout_name.losses" 1e-5
}
check "two stages: the same losses" layout pp 2 --pipeline-model-parallel-size 2
check "one rank: the same losses" layout one 1
another() { layout seed 1 --seed 7 > /dev/null; [ -s "$work/seed.losses" ] && ! cmp -s "$work/one.losses" "$work/seed.losses"; }
check "another seed, other samples" another

built() {
    "$trireme" data build --task-name $mix --task-dir "$dir" --output-prefix "$work/mix" \
        --task-samples 128 --seq-length 96 --tokenizer-type bytes > "$work/build.log" &&
        model 2 --train-data-path "$work/mix_task_document" --document-samples --eval-iters 0 \
            --save "$work/built" && sums "$work/built" | cmp - "$work/whole.sums"
}
check "built before: the same weights to the bit" built
says() { grep -Eq '^pile: weight 0.400000, [0-9]+ of 128 samples$' "$work/build.log"; }
check "and it says how many of each" says

fails "two kinds of data" 64 "remove it, or --data-path" tasks 1 --data-path "$work/mix_task_document"
fails "a task that is not there" 74 "ni_dehelm: there is no" model 1 --task-name ni_dehelm --task-dir "$dir"
fails "tasks without a number of samples" 64 "give --task-samples" "$trireme" data build --task-name pile \
    --task-dir "$dir" --output-prefix "$work/no" --tokenizer-type bytes

# 128 samples: numbers 0 and 64 are shown, by whoever has them, and nothing of that changes a
# number.
shown() {
    tasks "$@" --show-data > "$work/shown.log" 2>&1 || return 1
    grep -E '^[0-9.e-]+ [0-9.]+$' "$work/shown.log" > "$work/draws"
    grep -E '^\*\*[a-z0-9]+\*\*: ' "$work/shown.log" > "$work/texts"
    [ "$(grep -c . "$work/draws")" = 2 ] && [ "$(grep -c . "$work/texts")" = 2 ] &&
        awk '$1 >= $2 { exit 1 }' "$work/draws"
}
same_losses() { losses "$work/shown.log" 100 | cmp - "$work/whole.losses"; }
one_and_two() { shown 2 && same_losses && sort "$work/texts" > "$work/two" && shown 1 && sort "$work/texts" | cmp - "$work/two"; }
check "each 64th sample is shown, the same in any layout" one_and_two
fails "samples of no tasks" 64 "prints samples of --task-name" model 1 --mock-data --show-data
