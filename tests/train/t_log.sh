#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# The log of a real run: Megatron's lines in Megatron's order, from one rank each, and times that
# add up.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 16

check "a dataset is built" small_corpus
# Wide enough that an iteration takes some tens of milliseconds: what stands outside the timers is a
# few microseconds per call.
check "a run" small 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
    --hidden-size 128 --train-iters 40 --log-interval 10 --eval-interval 20 --eval-iters 2 \
    --save "$work/run" --save-interval 25 --log-arguments
echo "$tap_out" > "$work/log"

# Every line that scripts look for, in this order.
cat > "$work/order" <<'END'
^using world size: 4, data-parallel-size: 1, tensor-model-parallel size: 2, pipeline-model-parallel size: 2 $
^using torch.float32 for parameters \.\.\.$
^------------------------ arguments ------------------------$
^  activation \.* gelu-tanh$
^  adam_beta1 \.* 0\.9$
^  ffn_hidden_size \.* 512$
^  lr_decay_style \.* cosine$
^  tensor_model_parallel_size \.* 2$
^-------------------- end of arguments ---------------------$
^setting number of micro-batches to constant 8$
^ > padded vocab (size: 257) with 255 dummy tokens (new size: 512)$
^> initializing tensor model parallel with size 2$
^> initializing pipeline model parallel with size 2$
^> setting random seeds to 1234 \.\.\.$
^time to initialize megatron (seconds): [0-9.]*$
^\[after megatron is initialized\] datetime: [-0-9]* [:0-9]* $
^building GPT model \.\.\.$
^ > number of parameters on (tensor, pipeline) model parallel rank (0, 0): [0-9]*$
^ > number of parameters on (tensor, pipeline) model parallel rank (1, 1): [0-9]*$
^> learning rate decay style: cosine$
^\[after model, optimizer, and learning rate scheduler are built\] datetime: .* $
^> building train, validation, and test datasets \.\.\.$
^ > datasets target sizes (minimum size):$
^    train:      320$
^    validation: 48$
^    test:       16$
^\[after dataloaders are built\] datetime: .* $
^done with setup \.\.\.$
^time (ms) | model-and-optimizer-setup: [0-9.]* | train/valid/test-data-iterators-setup: [0-9.]*$
^training \.\.\.$
^\[before the start of training step\] datetime: .* $
^ iteration       10/      40 | consumed samples:           80 | elapsed time per iteration (ms): [0-9.]* | learning rate: 1.[0-9]*E-03 | global batch size:     8 | lm loss: [0-9.]*E[+-][0-9]* | loss scale: 1.0 | grad norm: [0-9.]* | number of skipped iterations:   0 | number of nan iterations:   0 |$
^time (ms) | forward-compute: .* | batch-generator: [0-9.]*$
^ iteration       20/      40 |
^----*$
^ validation loss at iteration 20 | lm loss value: .* | lm loss PPL: .* | $
^saving checkpoint at iteration      25 to
^  successfully saved checkpoint at iteration      25 to
^ iteration       40/      40 |
^\[after training is done\] datetime: .* $
^ validation loss at the end of training for val data | lm loss value: .* | lm loss PPL: .* | $
^ validation loss at the end of training for test data | lm loss value: .* | lm loss PPL: .* | $
END
in_order() {
    at=0
    while IFS= read -r pattern; do
        next=$(tail -n "+$((at + 1))" "$work/log" | grep -n -m 1 -e "$pattern" | cut -d : -f 1)
        [ -n "$next" ] || { echo "not found after line $at: $pattern"; return 1; }
        at=$((at + next))
    done < "$work/order"
}
check "the lines that scripts look for, in Megatron's order" in_order

# Parts that do not overlap, as telemetry/timers.def says: all but batch-generator and optimizer-*.
# On a busy machine a rank now and then loses its core between two of them, so it is one line at
# least of four.
adds_up() {
    awk '/^ iteration /{ match($0, /\(ms\): [0-9.]+/); elapsed = substr($0, RSTART + 6, RLENGTH - 6) }
    /^time \(ms\) \| forward-compute/ {
        n = split($0, part, " [|] "); sum = 0
        for (i = 2; i <= n; i++) {
            split(part[i], pair, ": ")
            if (pair[1] !~ /^batch-generator|^optimizer-/) sum += pair[2]
        }
        printf "%.1f of %.1f ms: %.2f %%\n", sum, elapsed, 100 * sum / elapsed
        lines++
        if (sum >= 0.98 * elapsed) good++
        if (sum < 0.9 * elapsed || sum > 1.001 * elapsed + 0.1) bad = 1
    } END { exit bad || !good || lines != 4 }' "$1"
}
check "timers add up to at least 98 % of the elapsed time" adds_up "$work/log"
echo "$tap_out" | sed 's/^/# /'

# A run without newer options has no other names than the log of 2021 has.
known="forward-compute forward-recv forward-send forward-backward-send-forward-backward-recv \
backward-compute backward-recv backward-send backward-send-forward-recv backward-send-backward-recv \
backward-params-all-reduce backward-embedding-all-reduce optimizer-copy-to-main-grad \
optimizer-unscale-and-check-inf optimizer-clip-main-grad optimizer-copy-main-to-model-params \
optimizer batch-generator forward-send-forward-recv forward-send-backward-recv"
names_of_2021() {
    sed -n 's/^time (ms) | forward-compute/forward-compute/p' "$work/log" | sed 's/: [0-9.]* *|* */\n/g' |
        grep . | sort -u | while read -r name; do
            case " $known " in *" $name "*) ;; *) echo "new: $name" ;; esac
        done
}
no_new_names() { [ -z "$(names_of_2021)" ] || { names_of_2021; return 1; }; }
check "no names of timers that 2021 lacks" no_new_names

# What the study of May 2021 on Jean Zay printed with --fp16, on the last rank of a pipeline, and
# what its options print here, at a toy size: the same names in the same order.
cat > "$work/study" <<'END'
time (ms) | forward-compute: 53.79 | forward-recv: 38.38 | backward-compute: 138.84 | backward-send: 0.28 | backward-send-forward-recv: 2.60 | backward-params-all-reduce: 10.17 | backward-embedding-all-reduce: 135.50 | optimizer-copy-to-main-grad: 4.48 | optimizer-unscale-and-check-inf: 12.63 | optimizer-clip-main-grad: 8.62 | optimizer-copy-main-to-model-params: 4.42 | optimizer: 49.42 | batch-generator: 2.35
END
names_in_order() { sed 's/^time (ms) | //; s/: [0-9.]*//g' "$1"; }
as_the_study() {
    rm -rf "$work/as.saved"
    small 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --micro-batch-size 1 \
        --global-batch-size 4 --lr 0.00015 --min-lr 1.0e-5 --train-iters 12 --lr-decay-iters 10 \
        --lr-warmup-fraction .01 --weight-decay 1e-2 --clip-grad 1.0 --checkpoint-activations \
        --log-interval 4 --save "$work/as.saved" --save-interval 500 --eval-interval 100 --eval-iters 1 \
        --distributed-backend nccl --data-impl mmap "$@" > "$work/as" 2>&1 || return 1
    grep '^time (ms) | forward' "$work/as" > "$work/times"
    [ "$(grep -c . "$work/times")" = 3 ] &&
        [ "$(names_in_order "$work/times" | sort -u)" = "$(names_in_order "$work/study")" ]
}
check "with --fp16, the timers of the study, in its order" as_the_study --fp16 \
    --initial-loss-scale 16384
not_in_fp32() {
    as_the_study --clip-grad 1.0 && return 1
    ! grep -e copy-to -e copy-main -e unscale "$work/times"
}
check "in fp32 nothing is copied" not_in_fp32

# No name of a timer twice in a line, whole lines only: none has two line starts in it.
whole_lines() {
    ! grep -n -E '.(iteration +[0-9]+/ +[0-9]+ \||time \(ms\) \|)' "$work/log" | grep -v '^[0-9]*: iteration' |
        grep -v '^[0-9]*:time'
}
check "lines are whole" whole_lines

numbers() {
    LC_ALL=de_DE.UTF-8 small 1 --train-iters 2 > "$work/german.log" 2>&1 || return 1
    ! grep -E 'lm loss: [0-9]+,' "$work/german.log"
}
check "numbers have a point in every locale" numbers

# Marks of the device, which on the host have the host's clock.
events() {
    small 2 --pipeline-model-parallel-size 2 --hidden-size 128 --train-iters 40 --log-interval 10 \
        --eval-iters 0 --timing events > "$work/events" 2>&1 || return 1
    grep -q '^> clock of the timers: that of the device, which nothing waits for$' "$work/events" &&
        adds_up "$work/events"
}
check "the clock of the device" events
not_mentioned() {
    grep -q '^> computing with cpu' "$work/log" && ! grep -q 'clock of the timers' "$work/log"
}
check "is not mentioned where it is not asked for" not_mentioned

# ---- the short form ----

# Without --log-arguments: what programs read of set-up, and of the arguments what was given and
# what reports read.
check "a short log" small 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --train-iters 43 \
    --save "$work/short" --adam-beta2 .99
echo "$tap_out" > "$work/short.log"
cat > "$work/order" << 'END'
^using world size: 4, data-parallel-size: 1, tensor-model-parallel size: 2, pipeline-model-parallel size: 2 $
^------------------------ arguments ------------------------$
^  activation \.* gelu-tanh$
^  adam_beta2 \.* 0\.99$
^  lr_decay_style \.* cosine$
^  pipeline_model_parallel_size \.* 2$
^-------------------- end of arguments ---------------------$
^setting number of micro-batches to constant 8$
^ > padded vocab (size: 257) with 255 dummy tokens (new size: 512)$
^> computing with cpu
^ > number of parameters on (tensor, pipeline) model parallel rank (0, 0): [0-9]*$
^ > number of parameters on (tensor, pipeline) model parallel rank (0, 1): [0-9]*$
^> start-up (seconds):
^\[before the start of training step\] datetime: .* $
^ iteration        1/      43 |
END
cp "$work/short.log" "$work/log"
check "it has these lines, in this order" in_order
few() {
    sed '/^ iteration/,$d' "$work/short.log" > "$work/before"
    lines=$(grep -c . "$work/before")
    [ "$lines" -le 40 ] || { echo "$lines lines"; cat "$work/before"; return 1; }
    ! grep -e 'learning rate decay' -e 'reading sizes' -e '^  adam_beta1' "$work/before"
}
check "and at most 40 before the first iteration" few
whole_list() {
    [ "$(grep -c '^  [a-z0-9_]* \.* ' "$work/short/arguments.txt")" -gt 250 ] &&
        grep -q '^  adam_beta1 \.* 0\.9$' "$work/short/arguments.txt" &&
        grep -q '^  adam_beta2 \.* 0\.99$' "$work/short/arguments.txt" &&
        grep -q '^  log_interval \.* 1$' "$work/short/arguments.txt"
}
check "all arguments stand in the folder of the run" whole_list
# Standard output and error in one file: an error stands behind what was printed before it.
behind() {
    "$trireme" train --dry-run --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 \
        --max-position-embeddings 32 --vocab-size 64 --micro-batch-size 1 --global-batch-size 3 --lr 1 --train-iters 2 \
        --world-size 3 --dp-mode adasum --log-arguments > "$work/one" 2>&1 && return 1
    tail -n 1 "$work/one" | grep -q '^trireme: error: '
}
check "an error in the same file stands at its end" behind
