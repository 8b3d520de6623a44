#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2086
# Command lines of CocktailSGD and AC-SGD and the lists of the Jean Zay experiments, pasted as they
# stand behind `trireme train`: they start, what is translated has its line and its result, and what
# contradicts the launch is refused.  Options of a toy size come behind theirs, where they count.
# Lines of the documents as they are pasted: their words are split, and checks quote programs of
# their own.
# shellcheck disable=SC2016,SC2046,SC2086,SC2116
. "$srcdir/tests/tap.sh"
plan 48
srcdir=$(cd "$srcdir" && pwd)
cd "$work" || exit 1

# Folders of models with a tokenizer, as `trireme ckpt export` makes them: 4 layers, and 32 for
# eight stages.
mkdir like data
cp "$srcdir/tests/golden/tok_llama3.json" like/tokenizer.json
echo '{"eos_token": "<|endoftext|>", "bos_token": "<|begin_of_text|>"}' > like/tokenizer_config.json
echo '{"model_type": "llama", "eos_token_id": 0, "bos_token_id": 1}' > like/config.json
folder() {
    "$trireme" train --model-family "$2" --num-layers "$3" --hidden-size 32 --num-attention-heads 4 --vocab-size 512 \
        --seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 --train-iters 1 --lr 1e-4 --mock-data \
        --eval-iters 0 --tokenizer-type NullTokenizer --save "random-$1" &&
        "$trireme" ckpt export --load "random-$1" --to "$1" --dtype fp32 --like like
}
check "a folder of OPT" folder opt opt 4
check "of OPT with an odd number of layers" folder opt3 opt 3
check "of GPT-J" folder gptj gptj 4
check "of GPT-2" folder checkpoints/gpt2-xl gpt2 32

# Their data: subjects of chain of thought, tasks of Natural Instructions, text.
awk 'BEGIN {
    printf "{"
    for (i = 0; i < 57; i++) {
        printf "%s\"s%d\": \"", i ? ", " : "", i
        for (k = 0; k < 8; k++) printf "Step %d of %d. ", k, i
        printf "\""
    }
    print "}"
}' > data/mmlu-cot.json
mkdir -p natural-instructions/tasks natural-instructions/splits/default
echo t0 > natural-instructions/splits/default/train_tasks.txt
awk 'BEGIN {
    printf "{\"Definition\": [\"Say it.\"], \"Instances\": ["
    for (i = 0; i < 20; i++) printf "%s{\"input\": \"what %d\", \"output\": [\"this %d\"]}", i ? ", " : "", i, i
    print "]}"
}' > natural-instructions/tasks/t0.json
for name in arxiv21 wikitext; do
    for part in train test; do
        "$trireme" data build --tokenizer-model like --append-eod --split-documents blank-lines \
            --output-prefix data/$name-$part "$srcdir/docs/tutorial.md" > build.log 2>&1 || cat build.log
    done
done

# run RANKS WORD...: what it printed is in `log`.
run() {
    run_ranks=$1
    shift
    ranks "$run_ranks" "$trireme" train "$@" --backend cpu --log-arguments > log 2>&1
    run_code=$?
    cat log
    return $run_code
}
# said LINE...: each is a line of the log.
said() {
    for line; do
        grep -qxF -e "$line" log || { echo "no line '$line'"; cat log; return 1; }
    done
}
# is NAME VALUE...: options as the log lists them.
is() {
    while [ $# -gt 0 ]; do
        grep -q "^  $1 \.* $2\$" log || { echo "$1 is not $2"; grep "^  $1 " log; return 1; }
        shift 2
    done
}

# finetune_opt1.3b.sh: its environment and its ARGS.
opt_environment() {
    netif=lo
    export GLOO_SOCKET_IFNAME=${netif}
    export NCCL_SOCKET_IFNAME=${netif}
    export WANDB_NAME=opt-cot
    export QUANT_BITS=4
    export TOPK_RATIO=0.2
    export RANDOMP_RATIO=0.1
    export SHOW_DATA=0
}
netif=lo WANDB_NAME=opt-cot
OPT="--model-name /root/fm/models/opt-1.3b-new \
--tokenizer-name /root/fm/models/opt-1.3b-new \
--project-name cocktail-sgd \
--model-type opt \
--optimizer adam \
--seed 42 \
--load-pretrained-model true \
--task-name cot \
--checkpoint-path ./model_ckpts/$WANDB_NAME \
--num-layers 12 --embedding-dim 2048 \
--total-steps 200 --warmup-steps 10 --train-warmup-steps 0 \
--checkpoint-steps 100 \
--lr 1e-4 --seq-length 2048 --batch-size 16 --micro-batch-size 1 --gradient-accumulate-step 1 \
--dist-url tcp://127.0.0.1:7033 \
--world-size 8 --pipeline-group-size 2 --data-group-size 4 \
--job-id 0 --net-interface ${netif} \
--fp16 \
--dp-backend gloo \
--dp-mode cocktail_sgd \
--pp-mode gpipe --profiling no-profiling"
toy="--model-name opt --tokenizer-name opt --num-layers 2 --embedding-dim 32 --seq-length 32 --batch-size 2 --total-steps 4 --warmup-steps 0"
(
    opt_environment
    run 8 $(echo ${OPT}) $toy --warmup-steps 1 --checkpoint-steps 2 --log-interval 1 > /dev/null
)
opt_ran() { [ "$(grep -c '^ iteration .* global batch size: *8 ' log)" = 4 ] || { cat log; return 1; }; }
check "finetune_opt1.3b.sh trains" opt_ran
check "and says what was translated" said "> --pipeline-group-size: these options are read as those of CocktailSGD" \
    "> --model-name opt is --load opt: a run begins with its weights" "> --tokenizer-name opt is --tokenizer-model opt" \
    "> --num-layers 2 is --num-layers 4: they give the layers of one GPU" "> --pp-mode gpipe is --pipeline-schedule gpipe" \
    "> --batch-size 2 is --global-batch-size 8: they give the samples of one replica and micro-step" \
    "> --total-steps 4 is --train-iters 4" "> --warmup-steps 1 is --lr-warmup-iters 1" \
    "> --checkpoint-steps 2 is --save-interval 2" "> --checkpoint-path ./model_ckpts/opt-cot is --save ./model_ckpts/opt-cot" \
    "> --dist-url tcp://127.0.0.1:7033 has no effect: ranks find one another through MPI" \
    "> without an option it does: --tokenizer-type HuggingFaceTokenizer --sum-gradients --use-tp-pp-dp-mapping --adam-eps 1e-6 --initial-loss-scale 32768 --eval-iters 0"
check "and what its environment says" grep -q \
    '^> environment: QUANT_BITS=4 is --quant-bits 4; TOPK_RATIO=0.2 is --topk-ratio 0.2; RANDOMP_RATIO=0.1 is --randomp-ratio 0.1; SHOW_DATA has no effect: ' log
check "with that model, these steps and rates" is num_layers 4 pipeline_model_parallel_size 2 global_batch_size 8 \
    train_iters 4 quant_bits 4 topk_ratio 0.2 randomp_ratio 0.1 seed 42 fp16 True lr_warmup_iters 1 dp_mode cocktail_sgd
check "and two checkpoints" sh -c '[ "$(ls -d model_ckpts/opt-cot/iter_* | wc -l)" = 2 ]'

# Options win, a switch that is 0 is none, and a variable that would do nothing is not taken.
(
    opt_environment
    export RANDOM_METHOD=random_wo_replacement QUANT_STOCHASTIC=0 QUANT_BUCKET_SIZE=64
    run 2 $(echo ${OPT}) $toy --world-size 2 --data-group-size 1 --total-steps 1 --checkpoint-path ./wins --quant-bits 6 \
        --topk-ratio .5 > /dev/null
)
check "an option counts before the environment" is quant_bits 6 topk_ratio 0.5 randomp_ratio 0.1 quant_bucket_size 64 \
    random_method random_wo_replacement
check "and that is said" grep -q -e '--quant-bits is given, so QUANT_BITS=4 does not count' log
check "for a switch, too" grep -q 'QUANT_STOCHASTIC=0 is without --quant-stochastic' log

# Accumulation: their steps are micro-steps, but those of the learning rate.
check "accumulation" run 2 $(echo ${OPT}) $toy --world-size 2 --data-group-size 1 --gradient-accumulate-step 2 --total-steps 8 \
    --train-warmup-steps 4 --warmup-steps 2 --checkpoint-steps 4 --checkpoint-path ./twice --evaluation-steps 4 \
    --evaluation-num-batch 1 --evaluation-data cot --dp-mode local --log-interval 1
check "is in the batch, and in steps" is global_batch_size 4 train_iters 4 train_warmup_steps 2 lr_warmup_iters 2 \
    save_interval 2 eval_interval 2 eval_iters 1
check "the run has as many" sh -c '[ "$(grep -c "^ iteration .* global batch size: *4 " log)" = 4 ] &&
    [ "$(grep -c "^ validation loss at iteration" log)" = 2 ]'
twice="$toy --world-size 2 --data-group-size 1 --dp-mode allreduce"
check "a second start goes on" run 2 $(echo ${OPT}) $twice --checkpoint-path ./wins2 --total-steps 2 --log-interval 1
check "from its checkpoint" run 2 $(echo ${OPT}) $twice --checkpoint-path ./wins2 --total-steps 3 --log-interval 1 \
    --override-lr-scheduler
went_on() { grep '^ iteration' log | grep -q ' 3/ *3 ' && ! grep -q '^ iteration *[12]/' log; }
check "and not from the beginning" went_on
check "--load-checkpoint false begins anew" run 2 $(echo ${OPT}) $twice --checkpoint-path ./wins2 --total-steps 1 \
    --load-checkpoint false --log-interval 1
check "with the first iteration" grep -q '^ iteration *1/ *1 ' log

# A depth that the stages do not divide, and a model without weights.
check "the last stage has less" run 2 $(echo ${OPT}) $twice --model-name opt3 --checkpoint-path ./odd --total-steps 1
check "as their split has it" is num_layers 3 pipeline_model_parallel_layout '2\*1,1'
check "--load-pretrained-model false" run 2 $(echo ${OPT}) $twice --load-pretrained-model no --checkpoint-path ./drawn \
    --total-steps 1 --log-interval 1
drawn() { is load_config opt num_layers 4 && ! grep -q 'loading weights from' log; }
check "is the model alone" drawn

# finetune_gptj_ni.sh.
GPTJ="--model-name /root/fm/models/gpt-j-6B \
--tokenizer-name /root/fm/models/gpt-j-6B \
--project-name cocktail-sgd \
--model-type gptj \
--optimizer adam \
--seed 42 \
--load-pretrained-model true \
--task-name ni \
--checkpoint-path ./model_ckpts/$WANDB_NAME-ni \
--num-layers 14 --embedding-dim 4096 \
--total-steps 3000 --warmup-steps 100 --train-warmup-steps 0 \
--checkpoint-steps 500 \
--lr 1e-4 --seq-length 2048 --batch-size 16 --micro-batch-size 1 --gradient-accumulate-step 1 \
--dist-url tcp://127.0.0.1:7033 \
--world-size 8 --pipeline-group-size 2 --data-group-size 4 \
--job-id 0 --net-interface ${netif} \
--fp16 \
--dp-backend nccl \
--dp-mode allreduce \
--pp-mode gpipe --profiling no-profiling"
check "finetune_gptj_ni.sh trains" env QUANT_BITS=4 SHOW_DATA=0 "$srcdir/tests/mpirun" --ranks 8 "$trireme" train \
    $(echo ${GPTJ}) --model-name gptj --tokenizer-name gptj --num-layers 2 --embedding-dim 32 --seq-length 32 --batch-size 1 \
    --total-steps 2 --warmup-steps 1 --checkpoint-steps 2 --log-interval 1 --log-arguments --backend cpu
echo "$tap_out" > log
check "on natural instructions, in 8 ranks" is task_name ni num_layers 4 global_batch_size 4 model_family gptj quant_bits 8
check "a variable of another mode is not taken" grep -q 'QUANT_BITS has no effect without --dp-mode cocktail_sgd' log

# run_lm.sh, and the example of AC-SGD's README.
LM="--model-name checkpoints/gpt2-xl \
--tokenizer-name gpt2-xl \
--load-pretrained-model true \
--task-name arxiv21 --n-epochs 10 --warmup-epochs 1 \
--num-layers 6 --num-heads 25 --embedding-dim 1600 \
--num-iters 10000000 --lr 5e-5 --seq-length 1024 --batch-size 32 --micro-batch-size 1 \
--forward-compress-method delta \
--forward-bits 4 \
--backward-compress-method fixpoint \
--backward-bits 8 \
--dist-url tcp://127.0.0.1:9033 \
--world-size 8 --pipeline-group-size 8 \
--pp-mode gpipe --profiling no-profiling --do-evaluation true"
small="--num-layers 4 --num-heads 4 --embedding-dim 32 --seq-length 64 --batch-size 16 --n-epochs 2"
check "run_lm.sh trains" run 8 $(echo ${LM}) $small
check "in its stages, with its warm-up" is num_layers 32 pipeline_model_parallel_layout '4\*4,5\*3,1' global_batch_size 16 \
    lr_warmup_fraction 0.5 forward_compress_method delta forward_bits 4 backward_bits 8 seed 1 sum_gradients True \
    loss_within_samples True drop_last_eval True
check "as they say how long it took" grep -q '^Finished running  [0-9]*  iterations, averaged (exclude the first iter) run time: ' log
check "and evaluates each epoch" grep -q '^ validation loss at the end of training' log
check "its README's example trains" run 2 $(echo ${LM}) $small --task-name wikitext --world-size 2 --pipeline-group-size 2 \
    --num-iters 2 --num-layers 16 --forward-scale-dims '(0,1)'
check "and says what was translated" said "> --pipeline-group-size: these options are read as those of AC-SGD" \
    "> --forward-scale-dims (0,1) is --forward-scale-dims 0,1" \
    "> --num-iters 2 is --epoch-iters 2: an epoch ends after so many, or with its samples" \
    "> --task-name wikitext is --train-data-path data/wikitext-train_text_document: its validation data are --valid-data-path"
check "its epochs end after --num-iters" grep -q "^> 2 epochs of 2 iterations: " log

# run_deberta.sh.
mkdir -p data/glue_cola words
toy_rows() { awk -v rows="$1" -v seed="$2" -v most=8 -f "$srcdir/tests/train/toy_cola.awk"; }
toy_rows 96 1 > data/glue_cola/train.tsv
toy_rows 36 2 > data/glue_cola/dev.tsv
awk -f "$srcdir/tests/train/toy_words.awk" data/glue_cola/train.tsv > words/tokenizer.json
echo '{"model_type": "deberta-v2"}' > words/config.json
check "a folder of DeBERTa" sh -c '"$0" train --model-family deberta-v2 --num-labels 2 --num-layers 8 --hidden-size 32 \
        --num-attention-heads 4 --vocab-size 64 --seq-length 32 --max-position-embeddings 32 --position-buckets 8 \
        --max-relative-positions 16 --micro-batch-size 1 --train-iters 1 --lr 1e-4 --mock-data --eval-iters 0 \
        --tokenizer-type NullTokenizer --save random-deberta &&
    "$0" ckpt export --load random-deberta --to checkpoints/deberta-v2-xxl --dtype fp32 --like words' "$trireme"
DEBERTA="--model-name checkpoints/deberta-v2-xxl \
--tokenizer-name deberta-v2-xxl \
--load-pretrained-model true \
--task-name cola --n-epochs 10 --warmup-epochs 1 --warmup-steps 50 \
--num-layers 6 --num-heads 24 --embedding-dim 1536 \
--num-iters 10000000 --lr 2.5e-6 --seq-length 256 --batch-size 32 --micro-batch-size 8 \
--forward-compress-method delta \
--forward-bits 3 \
--backward-compress-method fixpoint \
--backward-bits 6 \
--dist-url tcp://127.0.0.1:9033 \
--world-size 8 --pipeline-group-size 8 \
--pp-mode gpipe --profiling no-profiling --do-evaluation true"
check "run_deberta.sh trains" run 8 $(echo ${DEBERTA}) --num-layers 1 --num-heads 4 --embedding-dim 32 --seq-length 16 \
    --n-epochs 2 --warmup-steps 2
check "with its data, its tokenizer and its rates" is task_dir data tokenizer_model checkpoints/deberta-v2-xxl num_layers 8 \
    pipeline_model_parallel_size 8 global_batch_size 32 lr_warmup_iters 2 forward_bits 3 backward_bits 6 drop_last_eval True
classified() { [ "$(grep -c '^{"matthews_correlation": {"matthews_correlation": [-0-9.e]*}, "accuracy"' log)" = 2 ] &&
    grep -q '^Finished running  3  iterations, averaged' log; }
check "and says its metrics after each epoch" classified

# What contradicts the launch, the model or itself.
refused() {
    refused_text=$1
    shift
    fails "refused: $*" 64 "$refused_text" "$trireme" train $(echo ${OPT}) $toy --world-size 1 --pipeline-group-size 1 \
        --data-group-size 1 --num-layers 4 --checkpoint-path ./no "$@"
}
refused "--world-size 4: there is 1 rank in this launch" --world-size 4
refused "3 replicas of 1 stage are 3 ranks, and there is 1" --data-group-size 3
refused "1 stage of so many layers does not hold the 4 layers that config.json of --model-name has: 4 on each GPU would" \
    --num-layers 3
refused "config.json of --model-name says opt" --model-type gptj
refused "--rank 1 was given to rank 0 of this launch" --rank 1
refused "--pipeline-group-sise 2: there is no such option" --pipeline-group-sise 2
fails "its options in a line of ours" 64 "--total-steps: it counts micro-batches" "$trireme" train --total-steps 3
fails "a plan does not guess" 64 "reads a command line with it as one of CocktailSGD" "$trireme" plan --pipeline-group-size 2

# The lists of the Jean Zay experiments, with the variables of the first one.
NLAYERS=36 NHIDDEN=4096 NHEADS=32 SEQ_LEN=512 MICRO_BATCH_SIZE=1 GLOBAL_BATCH_SIZE=4 TP_SIZE=4 PP_SIZE=4
VOCAB_FILE=vocab.json MERGE_FILE=merges.txt SAVE_CHECKPOINT_PATH=gpt2-1-node DATA_PATH=meg-gpt2_text_document
GPT_ARGS=" \
    --num-layers $NLAYERS \
    --hidden-size $NHIDDEN \
    --num-attention-heads $NHEADS \
    --seq-length $SEQ_LEN \
    --max-position-embeddings $SEQ_LEN \
    --micro-batch-size $MICRO_BATCH_SIZE \
    --global-batch-size $GLOBAL_BATCH_SIZE
    --lr 0.00015 \
    --lr-decay-style cosine \
    --min-lr 1.0e-5 \
    --train-iters 1000 \
    --lr-decay-iters 800 \
    --lr-warmup-fraction .01 \
    --weight-decay 1e-2 \
    --clip-grad 1.0 \
    --vocab-file $VOCAB_FILE \
    --merge-file $MERGE_FILE \
    --fp16 \
    --checkpoint-activations \
    "
OUTPUT_ARGS=" \
    --log-interval 10 \
    --save-interval 500 \
    --eval-interval 100 \
    --eval-iters 10 \
    "
echo '#version: 0.2' > merges.txt
awk 'BEGIN { printf "{"; for (i = 0; i < 300; i++) printf "%s\"t%d\": %d", i ? ", " : "", i, i; print ", \"<|endoftext|>\": 300}" }' > vocab.json
"$trireme" data build --tokenizer-type bytes --append-eod --split-documents blank-lines --output-prefix meg-gpt2 \
    "$srcdir/docs/tutorial.md" "$srcdir/docs/formats.md" > build.log 2>&1 || cat build.log
check "the Jean Zay lists train" run 4 --tensor-model-parallel-size $TP_SIZE --pipeline-model-parallel-size $PP_SIZE $GPT_ARGS \
    $OUTPUT_ARGS --save $SAVE_CHECKPOINT_PATH --load $SAVE_CHECKPOINT_PATH --data-path $DATA_PATH --data-impl mmap \
    --split 949,50,1 --distributed-backend nccl --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
    --num-layers 2 --hidden-size 32 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 --train-iters 20 \
    --lr-decay-iters 16 --eval-interval 10 --distributed-backend mpi
check "with its interval of lines and of evaluations" sh -c '[ "$(grep -c "^ iteration *[12]0/ *20 " log)" = 2 ] &&
    grep -q "^ validation loss at iteration 10 " log && ls -d gpt2-1-node/iter_0000020'
