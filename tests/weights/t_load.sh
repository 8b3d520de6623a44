#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# A run that begins with weights of others is, to the bit, the run that begins with their import.
. "${srcdir:?}/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
plan 43

# prints TEXT COMMAND...: the command succeeds and prints TEXT.
prints() {
    prints_text=$1
    shift
    prints_out=$("$@" 2>&1) || { echo "$prints_out" && return 1; }
    case $prints_out in
    *"$prints_text"*) ;;
    *) echo "no $prints_text in: $prints_out" && return 1 ;;
    esac
}

# start RANKS VERB OPTION...: without a launcher if that is one.
start() {
    start_ranks=$1
    shift
    if [ "$start_ranks" = 1 ]; then OMP_NUM_THREADS=1 "$trireme" "$@"; else ranks "$start_ranks" "$trireme" "$@"; fi
}

# some RANKS OPTION...: three iterations.
some() {
    some_ranks=$1
    shift
    start "$some_ranks" train --mock-data --micro-batch-size 1 --global-batch-size 4 --lr 0.01 \
        --train-iters 3 --log-interval 1 --eval-iters 0 "$@"
}

# same NAME RANKS LOAD IMPORTED OPTION...: both runs have the same losses, norms, weights and
# moments.
same() {
    same_name=$1 same_ranks=$2 same_load=$3 same_imported=$4
    shift 4
    some "$same_ranks" --load "$same_load" --save "$work/$same_name-direct" "$@" > "$work/direct.log" 2>&1 || {
        cat "$work/direct.log"
        return 1
    }
    some "$same_ranks" --load "$same_imported" --finetune --use-checkpoint-args --save "$work/$same_name-import" "$@" \
        > "$work/import.log" 2>&1 || { cat "$work/import.log" && return 1; }
    losses "$work/direct.log" 3 > "$work/direct.losses"
    losses "$work/import.log" 3 > "$work/import.losses"
    [ "$(wc -l < "$work/direct.losses")" -eq 3 ] && cmp "$work/direct.losses" "$work/import.losses" || return 1
    sums "$work/$same_name-direct" > "$work/direct.sums"
    sums "$work/$same_name-import" > "$work/import.sums"
    [ -s "$work/direct.sums" ] && cmp "$work/direct.sums" "$work/import.sums"
}

# made NAME OPTION...: a checkpoint of a small model.
made() {
    made_name=$1
    shift
    "$trireme" train --mock-data --micro-batch-size 1 --lr 0.01 --train-iters 1 --eval-iters 0 --no-save-optim --num-layers 4 \
        --hidden-size 32 --num-attention-heads 4 --seq-length 16 --max-position-embeddings 16 --vocab-size 257 \
        --save "$work/$made_name" "$@"
}
check "a GPT-2" made gpt2
check "a Llama 3" made llama3 --model-family llama3 --num-query-groups 2
check "GPT-2 as transformers has it" "$trireme" ckpt export --load "$work/gpt2" --to "$work/hf" --dtype fp16
check "in files of layers" "$trireme" ckpt export --load "$work/gpt2" --to "$work/layers" --format layers
check "in files of Megatron-LM" "$trireme" ckpt export --load "$work/gpt2" --to "$work/megatron" --format megatron \
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
check "Llama 3 in shards" "$trireme" ckpt export --load "$work/llama3" --to "$work/shards" --dtype bf16 --max-shard-size 9KB
mkdir "$work/stages"
cp "$srcdir"/tests/weights/torch/prank_*.pt "$work/stages"
echo '{"model_type": "gpt2", "n_layer": 2, "n_embd": 8, "n_head": 2, "n_positions": 6, "n_inner": 12, "vocab_size": 11}' \
    > "$work/stages/config.json"
for format in hf layers shards stages; do
    check "$format: import" "$trireme" ckpt import --from "$work/$format" --save "$work/$format-run"
done
check "megatron: import" "$trireme" ckpt import --from "$work/megatron" --vocab-size 257 --save "$work/megatron-run"

tp2pp2='--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2'
check "hf: one rank" same hf-1 1 "$work/hf" "$work/hf-run"
check "layers: one rank" same layers-1 1 "$work/layers" "$work/layers-run"
# shellcheck disable=SC2086
for format in hf shards stages; do
    check "$format: TP 2, PP 2" same "$format-4" 4 "$work/$format" "$work/$format-run" $tp2pp2
done
# shellcheck disable=SC2086
check "megatron: TP 2, PP 2" same megatron-4 4 "$work/megatron" "$work/megatron-run" --vocab-size 257 $tp2pp2
check "its iteration's folder" same megatron-1 1 "$work/megatron/iter_0000001" "$work/megatron-run" --vocab-size 257
check "the distributed optimizer, TP 2, DP 2, bf16" same zero 4 "$work/shards" "$work/shards-run" --bf16 \
    --tensor-model-parallel-size 2 --use-distributed-optimizer
check "two chunks of a stage" same chunks 2 "$work/hf" "$work/hf-run" --pipeline-model-parallel-size 2 \
    --num-layers-per-virtual-pipeline-stage 1

# Where the weights come from, in the checkpoints of this run and of those that go on from it.
tells() { "$trireme" ckpt show "$1" | grep -q "^weights from  *$work/shards (safetensors, [0-9]* files; LlamaForCausalLM, BF16)$"; }
check "a checkpoint says where its weights come from" tells "$work/shards-4-direct"
check "and in which precision it trained" sh -c \
    "'$trireme' ckpt show '$work/zero-direct' | grep -q '^precision  *fp32, trained in bf16$'"
check "as one does that began with their import" tells "$work/shards-4-import"
check "a run goes on" some 1 --load "$work/shards-4-direct" --use-checkpoint-args --save "$work/on" \
    --train-iters 4 --override-opt-param-scheduler
check "and tells it as well" tells "$work/on"

# The same command line begins, and then goes on.
check "a job of a chain" some 1 --load "$work/hf/" --save "$work/chain" --exit-interval 2
go_on() {
    prints "goes on" some 1 --load "$work/hf" --save "$work/chain" &&
        sums "$work/chain" | cmp - "$work/hf-1-direct.sums"
}
sums "$work/hf-1-direct" > "$work/hf-1-direct.sums"
check "the next one goes on" go_on
fails "other weights are not taken for these" 64 "that did not begin with the weights in --load $work/layers: give another" \
    some 1 --load "$work/layers" --save "$work/chain"
anew() { some 1 --load "$work/hf" --finetune --save "$work/chain" 2>&1 | grep '^ iteration  *1/' > /dev/null; }
check "--finetune begins anew" anew

# What the command line says against the folder.
fails "another number of layers" 65 "holds another model: it has num_layers 4 and not 2" \
    some 1 --load "$work/hf" --num-layers 2
fails "another family" 65 "holds another model" some 1 --load "$work/hf" --model-family llama3
fails "an iteration" 64 "of no iteration, so --ckpt-step has no effect" some 1 --load "$work/hf" --ckpt-step 3
check "a dry run has the options of the model" sh -c "'$trireme' train --load '$work/shards' --dry-run --seq-length 12 --micro-batch-size 1 \
    --lr 1 --train-iters 1 | grep -q '  model_family \.* llama3'"
cut_short() {
    rm "$work"/shards/model-00003-of-*
    some 4 --load "$work/shards" --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
}
fails "a shard is missing, once for all ranks" 74 "fetch the missing file" cut_short
mv "$work/stages/config.json" "$work/model.json"
fails "no config.json" 74 "stages has no config.json" some 2 --load "$work/stages"
there() {
    # shellcheck disable=SC2086
    some 4 --load "$work/stages" --load-config "$work/model.json" --save "$work/stages-there" $tp2pp2 &&
        sums "$work/stages-4-direct" > "$work/stages.sums" && sums "$work/stages-there" | cmp - "$work/stages.sums"
}
check "one that is elsewhere" there
fails "one that is not that of a checkpoint" 65 "it has num_layers 4 and not 2" some 1 --load "$work/gpt2" \
    --load-config "$work/model.json"
fails "one for files that describe their model" 64 "so a config.json has no effect" some 1 --load "$work/megatron" \
    --load-config "$work/model.json" --vocab-size 257
# Without weights it is the model, which begins as the same one by its options.
described() {
    some 1 --load-config "$work/model.json" --seq-length 6 > "$work/described.log" || return 1
    grep -q '^  num_layers \.* 2$' "$work/described.log" && grep -q '^  vocab_size \.* 11$' "$work/described.log" && grep -q '^ iteration  *3/' "$work/described.log"
}
check "one for random weights" described
fails "two places that describe a model" 64 "--use-checkpoint-args takes the model from" some 1 --load "$work/gpt2" \
    --load-config "$work/model.json" --use-checkpoint-args

# Evaluation and generation.
head -c 400 "$srcdir/README.md" > "$work/text.txt"
# both RANKS VERB OPTION...: what the verb writes from the folder and from its import.
both() {
    both_ranks=$1
    shift
    for from in hf hf-run; do
        start "$both_ranks" "$@" --load "$work/$from" --tokenizer-type bytes > "$work/$from.out" 2> "$work/err" || {
            cat "$work/err"
            return 1
        }
    done
    # Not how long it took, nor from where.
    sed -i '/second\|load/d' "$work/hf.out" "$work/hf-run.out"
    [ -s "$work/hf.out" ] && cmp "$work/hf.out" "$work/hf-run.out"
}
# shellcheck disable=SC2086
check "eval" both 4 eval --text "$work/text.txt" --stride 3 $tp2pp2
check "generate" both 2 generate --prompt "the " --max-new-tokens 8 --temperature 1 --tensor-model-parallel-size 2
fails "another size for eval" 65 "num_layers 4 and not 2" "$trireme" eval --load "$work/hf" --num-layers 2 --text "$work/text.txt" \
    --tokenizer-type bytes
