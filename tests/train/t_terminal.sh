#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# --log-format auto and terminal: who gets the short log, what stands in it, and what reads it.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 32

# This test may itself run below a launcher or in a job.
for name in $(env | sed -n 's/^\(\(SLURM\|PMI\|PMIX\|OMPI_COMM\|PALS\)[A-Z_0-9]*\)=.*/\1/p'); do unset "$name"; done
# One process needs what tests/mpirun sets for its ranks.
export OMP_NUM_THREADS=1 OMPI_MCA_hwloc_base_binding_policy=none
command -v script > /dev/null || skip_all "no script of util-linux, which makes pseudo-terminals"

same() { [ "$1" = "$2" ] || { echo "$1 / $2"; return 1; }; }
check "a dataset is built" small_corpus
cat > "$work/args" << END
--num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
--tokenizer-type bytes --data-path $work/corpus_text_document --split 90,5,5
--micro-batch-size 1 --global-batch-size 8 --lr 0.002 --lr-decay-style constant --lr-decay-iters 24
--train-iters 12 --log-interval 4 --eval-interval 8 --eval-iters 1
END
# on_terminal COLUMNS COMMAND: its output, each line ended as files have it.
on_terminal() { script -qec "stty cols $1; $2" /dev/null < /dev/null | tr -d '\r'; }
train="$trireme train @$work/args"

# The lines of the short form: iterations at 4, 8 and 12.
short_lines() { sed -n 's/^ *\([0-9]*\)\/12  loss [0-9.]*  [0-9]* tokens\/s  [0-9.]* m\?s.*/\1/p' "$1" | tr '\n' ' '; }
# Which form is it?  Both patterns are looked for in every log.
form() {
    if [ "$(short_lines "$1")" = "4 8 12 " ]; then
        grep -q -e "- arguments -" -e "^ iteration " "$1" && echo both || echo terminal
    elif grep -q "^------------------------ arguments" "$1" && grep -q "^ iteration        4/      12 | consumed" "$1"; then
        echo megatron
    else
        cat "$1"
    fi
}

on_terminal 120 "$train --save $work/save" > "$work/pty"
check "alone on a terminal: the short form" same "$(form "$work/pty")" terminal
sed 's/^/# /' "$work/pty"
# What stands there, and nothing else.
shape() { sed -e 's/[0-9][0-9.]*e[-+][0-9]*/N/g' -e 's/[0-9][0-9.]*/N/g' -e 's/^ *//' -e "s|$work|W|g" \
    -e 's/N ms/N s/g' -e 's/N min N s/N s/' "$1"; }
cat > "$work/expected" << 'END'
training on N CPU rank (TP N, PP N, DP N): iterations N to N of N samples, N tokens each
N/N  loss N  N tokens/s  N s  N s left  lr N  grad norm N
N/N  loss N  N tokens/s  N s  N s left  lr N  grad norm N
validation loss at iteration N: N, perplexity N
N/N  loss N  N tokens/s  N s  lr N  grad norm N
training is done: N iterations in N s
validation loss at iteration N on validation set: N, perplexity N
checkpoint saved at iteration N in W/save, N s
validation loss at iteration N on test set: N, perplexity N
> this run wrote checkpoints and arguments.txt in W/save; go on with --load W/save
END
# The name of $work may have digits.
shape "$work/pty" | sed -e 's/ in .*save, N s$/ in W\/save, N s/' \
    -e 's/ in [^ ]*save; go on with --load .*/ in W\/save; go on with --load W\/save/' > "$work/shape"
check "a line for each event" diff "$work/expected" "$work/shape"

$train > "$work/pipe" 2>&1
check "alone, and not on a terminal: Megatron's form" same "$(form "$work/pipe")" megatron
check "it names the form that was chosen" grep -q '^  log_format \.* megatron$' "$work/pipe"
losses_of() { sed -n "$2" "$1" | awk '{ printf "%.4f ", $1 }'; }
check "both have the same losses" same "$(losses_of "$work/pty" 's/.*\/12  loss \([^ ]*\) .*/\1/p')" \
    "$(losses_of "$work/pipe" 's/.* lm loss: \([^ ]*\) .*/\1/p')"

check "mpiexec -n 2" ranks 2 "$trireme" train "@$work/args"
ranks 2 "$trireme" train "@$work/args" > "$work/ranks" 2>&1
check "two ranks and a file: Megatron's form" same "$(form "$work/ranks")" megatron
on_terminal 200 "$srcdir/tests/mpirun --ranks 1 $train" > "$work/launched"
check "below mpiexec on a terminal: the short form" same "$(form "$work/launched")" terminal
on_terminal 200 "$srcdir/tests/mpirun --ranks 2 $train > $work/launched" > "$work/seen"
check "its output to a file: Megatron's form" same "$(form "$work/launched")" megatron
on_terminal 200 "$srcdir/tests/mpirun --ranks 1 $train | cat" > "$work/launched"
check "through a pipe: Megatron's form" same "$(form "$work/launched")" megatron
on_terminal 200 "$srcdir/tests/mpirun --ranks 1 $train --log-format megatron" > "$work/launched"
check "asked for below mpiexec: Megatron's form" same "$(form "$work/launched")" megatron
on_terminal 120 "$train --log-format megatron" > "$work/asked"
check "on a terminal, but asked for: Megatron's form" same "$(form "$work/asked")" megatron

$train --log-format terminal > "$work/file" 2>&1
check "asked for, in a file: the short form" same "$(form "$work/file")" terminal
ranks 2 "$trireme" train "@$work/args" --log-format terminal --pipeline-model-parallel-size 2 > "$work/two" 2>&1
check "asked for, of two ranks: the loss is there" same "$(form "$work/two")" terminal
check "and their layout" grep -q "^training on 2 CPU ranks (TP 1, PP 2, DP 1)" "$work/two"

# As wide as the terminal, and 80 columns where the width is not known.
on_terminal 60 "$train" > "$work/narrow"
longest() { awk '/ loss / && /tokens/ { if (length($0) > most) most = length($0) } END { print most + 0 }' "$1"; }
check "a narrow terminal: no line is wider" [ "$(longest "$work/narrow")" -le 60 ]
check "but the first fields are there" same "$(short_lines "$work/narrow")" "4 8 12 "
check "what does not fit is left out" sh -c "! grep -q 'grad norm' '$work/narrow'"
on_terminal 0 "$train" > "$work/unknown"
check "of an unknown width: 80 columns" [ "$(longest "$work/unknown")" -le 80 ]

# The arguments on request, and in the checkpoint in any case.
$train --log-format terminal --log-arguments > "$work/arguments" 2>&1
check "--log-arguments: the block" grep -q '^  log_arguments \.* True$' "$work/arguments"
check "and the parameters" grep -q "^ > number of parameters on" "$work/arguments"
check "then the short lines" same "$(short_lines "$work/arguments")" "4 8 12 "
stored() { h5dump -a config "$work/save/iter_0000012/model_optim_rng.h5" | grep -q '"log_format[^,]*terminal'; }
check "a checkpoint has all of them" stored

# What was asked for and is not shown.
$train --log-format terminal --log-params-norm --log-memory-interval 4 > "$work/more" 2>&1
check "a warning names what is left out" grep -q \
    'terminal.* with --log-params-norm, --log-memory-interval; give --log-format megatron' "$work/more"
check "without it there is none" sh -c "! grep -q warning '$work/file'"

# The last sentence has what there is, and nothing else.
$train --log-format terminal --log-jsonl "$work/j.jsonl" --tensorboard-dir "$work/tb" > "$work/places" 2>&1
check "the last sentence says where everything is" same "$(tail -n 1 "$work/places")" \
    "> this run wrote TensorBoard events in $work/tb, JSON lines in $work/j.jsonl"
check "which is nothing where nothing was written" sh -c "! grep -q 'this run wrote' '$work/file'"

# A loss scale is shown when it is another one; what was skipped is counted.
$train --log-format terminal --fp16 --initial-loss-scale 4294967296 --hysteresis 1 > "$work/fp16" 2>&1
check "the loss scale, and skipped iterations" grep -q "  loss scale [0-9]*  4 skipped" "$work/fp16"
$train --log-format terminal --fp16 --loss-scale 128 > "$work/fp16" 2>&1
check "a scale that stays is shown once" same "$(grep -c "loss scale 128" "$work/fp16")" 1

# report reads it: two starts, the second goes on.
on_terminal 120 "$train --save $work/save --load $work/save --train-iters 24" | sed 's/$/\r/' >> "$work/pty"
"$trireme" report "$work/pty" --show starts --format csv 2> "$work/odd" > "$work/starts"
check "report: both starts, and that they are done" same \
    "$(tr -d '\r' < "$work/starts" | awk -F , 'NR > 1 { print $6, $7, $9 }' | tr '\n' ';')" "0 12 done;12 24 done;"
check "report: nothing is odd" [ ! -s "$work/odd" ]
