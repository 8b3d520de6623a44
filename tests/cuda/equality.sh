#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086,SC2046
# Training with --backend cuda gives the losses and norms of --backend cpu, in every layout of 1, 2
# and 4 ranks, with every type and with families that together use every part; and a run that was
# saved on one goes on on the other.  $CUDA_TRIREME is the program that has a GPU, or a fake of one;
# ranks share it unless GPU_SHARE is empty.
srcdir=${srcdir:-.}
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/train/small.sh"
cpu=${CPU_TRIREME:-$trireme}
cuda=${CUDA_TRIREME:-$trireme}

# name, type, tolerance of losses, ranks, then options, to the end of the line.  Losses of runs of
# the same type on the CPU, one rank, are what they are compared with; halves round in other places.
# The reference has the options before -- as well.
table='
alone        fp32 1e-5 1
tensor       fp32 1e-5 2 --tensor-model-parallel-size 2
pipeline     fp32 1e-5 2 --pipeline-model-parallel-size 2
replicas     fp32 1e-5 2
tensor-4     fp32 1e-5 4 --tensor-model-parallel-size 4
pipeline-4   fp32 1e-5 4 --pipeline-model-parallel-size 4
replicas-4   fp32 1e-5 4 --ddp-bucket-size 5000
mixed-tp     fp32 1e-5 4 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
mixed-td     fp32 1e-5 4 --tensor-model-parallel-size 2
mixed-pd     fp32 1e-5 4 --pipeline-model-parallel-size 2
interleaved  fp32 1e-5 2 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2
zero-bubble  fp32 1e-5 4 --pipeline-model-parallel-size 4 --pipeline-schedule zb-h1
overlapped   fp32 1e-5 2 --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2 --overlap-p2p-communication
sharded      fp32 1e-5 4 --use-distributed-optimizer --overlap-param-gather --ddp-bucket-size 5000 --tensor-model-parallel-size 2
server       fp16 5e-3 4 --dp-mode central_ps --ddp-bucket-size 5000 --pipeline-model-parallel-size 2
servers      fp32 1e-5 4 --dp-mode sharded_ps --ddp-bucket-size 5000
sequence     fp32 1e-5 2 --sequence-parallel --tensor-model-parallel-size 2
recompute    fp32 1e-5 1 --checkpoint-activations
documents    fp32 1e-5 1 --reset-attention-mask --reset-position-ids --eod-mask-loss
bf16         bf16 1e-2 1
bf16-all     bf16 1e-2 4 --use-distributed-optimizer --sequence-parallel --tensor-model-parallel-size 2 --recompute-granularity full
fp16         fp16 5e-3 1
offload      fp32 1e-5 1 --offload-optimizer cpu --offload-tile 2048
adam8        fp32 1e-3 1 --optimizer 8bit-adam --
adam8-all    bf16 1e-2 2 --optimizer 8bit-adam -- --zero-stage 2
offload-3    bf16 1e-2 2 --zero-stage 3 --optimizer-cpu-offload --offload-tile 1024 --optimizer-offload-fraction 0.7
fp16-all     fp16 5e-3 4 --pipeline-model-parallel-size 2 --use-distributed-optimizer --fp32-residual-connection
'
families='
opt-350m     fp32 1e-5 1 --model-family opt-350m --word-embed-proj-dim 16 --
gptj         fp32 1e-5 1 --model-family gptj --rotary-percent 0.5 --
gpt-neox     fp32 1e-5 1 --model-family gpt-neox --
bloom        fp32 1e-5 2 --model-family bloom -- --tensor-model-parallel-size 2
llama3       fp32 1e-5 1 --model-family llama3 --num-query-groups 2 --
mistral      fp32 1e-5 2 --model-family mistral --num-query-groups 1 --window-size 9 -- --tensor-model-parallel-size 2
qwen3        fp32 1e-5 1 --model-family qwen3 --num-query-groups 2 --kv-channels 12 --
gemma        fp32 1e-5 1 --model-family gemma --num-query-groups 4 --kv-channels 16 --
'
more_families='
opt-350m-tp  fp32 1e-5 2 --model-family opt-350m --word-embed-proj-dim 16 -- --tensor-model-parallel-size 2 --sequence-parallel
opt-350m-pp  fp32 1e-5 2 --model-family opt-350m --word-embed-proj-dim 16 -- --pipeline-model-parallel-size 2
gptj-tp      fp32 1e-5 2 --model-family gptj --rotary-percent 0.5 -- --tensor-model-parallel-size 2 --sequence-parallel
gptj-bf16    bf16 1e-2 1 --model-family gptj --rotary-percent 0.5 --
gpt-neox-tp  fp32 1e-5 2 --model-family gpt-neox -- --tensor-model-parallel-size 2 --recompute-granularity full --distribute-checkpointed-activations
bloom-pp     fp32 1e-5 2 --model-family bloom -- --pipeline-model-parallel-size 2 --num-virtual-stages-per-pipeline-rank 2
bloom-bf16   bf16 1e-2 1 --model-family bloom --
llama3-all   fp32 1e-5 4 --model-family llama3 --num-query-groups 2 -- --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --sequence-parallel
llama3-bf16  bf16 1e-2 1 --model-family llama3 --num-query-groups 2 --
llama3-fp16  fp16 5e-3 1 --model-family llama3 --num-query-groups 2 --
mistral-4    fp32 1e-5 4 --model-family mistral --num-query-groups 2 --window-size 9 -- --tensor-model-parallel-size 4 --sequence-parallel
mistral-bf16 bf16 1e-2 1 --model-family mistral --num-query-groups 2 --window-size 9 --
qwen3-tp     fp32 1e-5 2 --model-family qwen3 --num-query-groups 1 --kv-channels 12 -- --tensor-model-parallel-size 2 --recompute-granularity selective
qwen3-bf16   bf16 1e-2 1 --model-family qwen3 --num-query-groups 2 --kv-channels 12 --
gemma-tp     fp32 1e-5 2 --model-family gemma --num-query-groups 2 --kv-channels 16 -- --tensor-model-parallel-size 2
gemma-bf16   bf16 1e-2 1 --model-family gemma --num-query-groups 4 --kv-channels 16 --
yuan-native  fp32 1e-5 2 --model-family yuan-native -- --pipeline-model-parallel-size 2
'
more_encoders='
deberta-tp   fp32 1e-5 2 --model-family deberta-v2 -- --tensor-model-parallel-size 2
deberta-pp   fp32 1e-5 2 --model-family deberta-v3 -- --pipeline-model-parallel-size 2 --checkpoint-activations
deberta-fp16 fp16 5e-3 1 --model-family deberta-v2 --initial-loss-scale 1024 --
'
# Trained on sentences of some length, which are padded, two of them at a time.
encoders='
deberta      fp32 1e-5 1 --model-family deberta-v2 --
deberta-bf16 bf16 1e-2 1 --model-family deberta-v3 --
'
[ -z "${TR_TEST_ALL:-}" ] || families="$families$more_families" encoders="$encoders$more_encoders"
# Wide weights, so that scores are far enough from 0 for what is done to queries and keys to show.
families=$(echo "$families" | sed 's/--model-family/--global-batch-size 2 --init-method-std 0.2 &/')
table="$table$families$encoders
${MORE_LAYOUTS:-}"
only=${LAYOUTS:-}
[ -z "${WITHOUT:-}" ] || table=$(echo "$table" | awk -v without=" $WITHOUT " '!index(without, " " $1 " ")')
[ -z "$only" ] || table=$(echo "$table" | awk -v only=" $only " 'index(only, " " $1 " ")')
# The first has the passes, the second the weights that were updated, the third moments that are not
# zero.
iterations=3
plan $((3 + $(echo "$table" | grep -c '^[^#]')))
check "a dataset is built" small_corpus
mkdir -p "$work/glue/CoLA"
toy() { awk -v rows="$1" -v seed="$2" -v most=8 -f "$srcdir/tests/train/toy_cola.awk"; }
toy 16 1 > "$work/glue/CoLA/train.tsv"
toy 8 2 > "$work/glue/CoLA/dev.tsv"
awk -f "$srcdir/tests/train/toy_words.awk" "$work/glue/CoLA/train.tsv" > "$work/tokenizer.json"

# encoder RANKS OPTION...: an epoch of four iterations.
encoder() {
    encoder_ranks=$1
    shift
    ranks "$encoder_ranks" "$trireme" train --num-layers 2 --hidden-size 32 --num-attention-heads 4 \
        --ffn-hidden-size 64 --seq-length 12 --max-position-embeddings 12 --position-buckets 8 \
        --max-relative-positions 16 --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$work/tokenizer.json" \
        --task-name cola --task-dir "$work/glue" --micro-batch-size 2 --n-epochs 1 --lr 0.002 \
        --lr-decay-style linear --init-method-std 0.2 --log-interval 1 "$@"
}

type_options() {
    case $1 in
    fp16) echo "--fp16 --initial-loss-scale 65536" ;;
    bf16) echo "--bf16" ;;
    esac
}

# train PROGRAM BACKEND TYPE RANKS OPTION...
train() {
    trireme=$1 train_backend=$2 train_type=$3 train_ranks=$4 train_model=encoder
    shift 4
    case "$*" in
    *deberta*) ;;
    *) train_model=small && set -- --train-iters $iterations "$@" ;;
    esac
    [ "$train_backend" = cpu ] || set -- ${GPU_SHARE---gpu-oversubscribe} "$@"
    $train_model "$train_ranks" --backend "$train_backend" --seed 3 \
        --global-batch-size 4 \
        --attention-dropout 0.1 --hidden-dropout 0.1 $(type_options "$train_type") "$@"
}

# The options that change the numbers are the CPU run's as well: a family, and what documents do to
# the loss.
meaning() {
    case "$*" in
    *" -- "* | *" --") echo "$*" | sed 's/ --\( .*\)*$//' ;;
    *--reset-attention-mask*) echo "--reset-attention-mask --reset-position-ids --eod-mask-loss" ;;
    esac
}

without_mark() { echo "$*" | sed 's/ --\( \|$\)/ /'; }

compare() {
    compare_type=$1 compare_tolerance=$2 compare_ranks=$3
    shift 3
    reference="$work/cpu-$compare_type-$(meaning "$@" | cksum | cut -d ' ' -f 1)"
    if [ ! -f "$reference" ]; then
        train "$cpu" cpu "$compare_type" 1 $(meaning "$@") > "$work/cpu.log" 2>&1
        losses "$work/cpu.log" $iterations > "$reference"
    fi
    train "$cuda" cuda "$compare_type" "$compare_ranks" $(without_mark "$@") > "$work/cuda.log" 2>&1 || {
        tail -n 5 "$work/cuda.log"
        return 1
    }
    losses "$work/cuda.log" $iterations > "$work/cuda.losses"
    [ "$(grep -c . < "$reference")" -eq $iterations ] &&
        close_losses "$reference" "$work/cuda.losses" "$compare_tolerance"
}

echo "$table" | grep '^[^#]' > "$work/table"
while read -r name type tolerance ranks options; do
    check "$name: $type on $ranks" compare "$type" "$tolerance" "$ranks" $options < /dev/null
done < "$work/table"

# What was saved by one after two iterations goes on on the other.
handed_over() {
    from=$1 to=$2 dir=$work/saved-$1
    train "$([ "$from" = cpu ] && echo "$cpu" || echo "$cuda")" "$from" fp32 2 --save "$dir" \
        --save-interval 2 --exit-interval 2 > "$work/first.log" 2>&1 || return 1
    train "$([ "$to" = cpu ] && echo "$cpu" || echo "$cuda")" "$to" fp32 2 \
        --tensor-model-parallel-size 2 --load "$dir" > "$work/second.log" 2>&1 || return 1
    [ "$(losses "$work/first.log" $iterations | wc -l)" -eq 2 ] &&
        [ "$(losses "$work/second.log" $iterations | wc -l)" -eq $((iterations - 2)) ] || return 1
    cat "$work/first.log" "$work/second.log" > "$work/both.log"
    losses "$work/both.log" $iterations > "$work/both.losses"
    if [ ! -f "$work/whole.losses" ]; then
        train "$cpu" cpu fp32 1 > "$work/whole.log" 2>&1
        losses "$work/whole.log" $iterations > "$work/whole.losses"
    fi
    [ "$(grep -c . < "$work/whole.losses")" -eq $iterations ] &&
        close_losses "$work/whole.losses" "$work/both.losses" 1e-5
}
check "saved on the GPU, resumed on the CPU" handed_over cuda cpu
check "saved on the CPU, resumed on the GPU" handed_over cpu cuda
