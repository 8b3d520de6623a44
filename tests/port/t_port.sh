#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Job scripts in the manner of others: what becomes of their options, what is written, and that
# nothing runs.
# shellcheck shell=sh disable=SC2016 # the dollars are those of the scripts
# shellcheck source=tests/tap.sh
. "${srcdir:?}/tests/tap.sh"
plan 51
cd "$work" || exit 1
case $srcdir in /*) ;; *) srcdir=$OLDPWD/$srcdir ;; esac

port() { "$trireme" port "$@" >out 2>err; }
# is CODE TEXT...: port gave that code, and each text is a line of what it printed (leading blanks
# aside).
is() {
    code=$1
    shift
    [ "$got" = "$code" ] || { echo "exit code $got"; cat out err; return 1; }
    for line; do
        sed 's/^ *//' out | grep -qxF -e "$line" || { echo "no line '$line'"; cat out err; return 1; }
    done
}

# Megatron-LM, as its examples are written.
cat >mp.sh <<'END'
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1   # torchrun starts the rest
#SBATCH --gres=gpu:4 --exclusive
#SBATCH --time=1:00:00
#SBATCH --account=abc@gpu
#SBATCH --job-name=small
GPUS=4
NNODES=${SLURM_NNODES:-2}
TP=2 PP=2
DP=$(($GPUS*$NNODES/(TP*PP)))
MBS=2 CHUNKS=8
MODEL_ARGS=(
    --num-layers 4   # of the whole model
    --hidden-size 64 --num-attention-heads 4
    --seq-length 32
    --max-position-embeddings 32
    --position-embedding-type learned_absolute --context-parallel-size 1
)
TRAIN="--micro-batch-size $MBS --global-batch-size $((MBS*CHUNKS*DP)) \
    --lr 1.5e-4 --train-iters 100 \
    --bf16 --use-flash-attn"
torchrun --nproc_per_node $GPUS --nnodes $NNODES pretrain_gpt.py "${MODEL_ARGS[@]}" $TRAIN \
    --tensor-model-parallel-size $TP --pipeline-model-parallel-size=$PP \
    --data-path 0.3 /data/a 0.7 "/data/b c" --split 949,50,1 --vocab-size 50257 --wandb-project x \
    --ckpt-format torch_dist --async-save
END
port mp.sh --out mp.args --job mp.slurm
got=$?
check "a script of which all is done" is 0 "--global-batch-size 32" "--pipeline-model-parallel-size 2" \
    "--data-path 0.3 /data/a 0.7 '/data/b c'" "--position-embedding-type learned_absolute" \
    "--ckpt-format torch_dist: checkpoints are HDF5 files, which is the one format" \
    "17 done, 1 given, 3 ignored, 0 refused, 0 unknown, 0 open; 0 missing"
check "the command that trains is named with its line" grep -q \
    '^mp.sh, line 23: options of Megatron-LM for pretrain_gpt.py' out
check "its arguments are a plan" sh -c "'$trireme' plan @mp.args --world-size 8 >plan 2>&1 ||
    { cat plan; exit 1; }"
check "and words with blanks stay words" grep -qxF -e "--data-path 0.3 /data/a 0.7 '/data/b c'" mp.args
cat >expected <<'END'
#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gres=gpu:4 --exclusive
#SBATCH --time=1:00:00
#SBATCH --account=abc@gpu
#SBATCH --job-name=small
END
check "the job has a task for each GPU" sh -c 'head -n 7 mp.slurm | cmp - expected'
check "and trains with them" grep -qxF "train @$(pwd -P)/mp.args" mp.slurm
runs() {
    TRIREME_JOBS="$srcdir/jobs" TRIREME="$trireme" bash mp.slurm --dry-run >said 2>&1 ||
        { cat said; return 1; }
    grep -q "mp.args" said && ! grep -q -e "--fp16" said
}
if command -v bash >/dev/null 2>&1; then
    check "as a job file of ours, in the precision of the script" runs
else
    skip "as a job file of ours, in the precision of the script" "no bash"
fi

# Nothing is executed, whatever it looks like.
cat >evil.sh <<'END'
A=$(touch made1)
B=`touch made2`
C="$(touch made3; echo 3)"
touch made4
eval 'touch made5'
bash -c "touch made6"
D=${E:=$(touch made7)}
F=$((G[$(touch made8)]))
source ./evil2.sh
cat <<EOT > made9
$(touch made10)
EOT
python pretrain_gpt.py --num-layers $C --seed $(touch made11 && echo 3) --lr $F `touch made12`
END
echo 'touch made13' >evil2.sh
port evil.sh --out evil.args
got=$?
check "what only a running shell knows is open" is 64 '--num-layers $(touch made3; echo 3)' \
    './evil2.sh' "0 done, 0 given, 0 ignored, 0 refused, 0 unknown, 3 open; 5 missing"
check "nothing in a script is executed" sh -c '! ls made* 2>/dev/null'
check "what is open stands in a comment" grep -qF "# --num-layers '\$(touch made3" evil.args
check "so that the file can be read" sh -c "'$trireme' plan @evil.args 2>&1 | grep -q 'num-layers'"

# What is not done.
cat >bad.sh <<'END'
python pretrain_gpt.py --num-layers 2 --hidden-size 8 --num-attention-heads 2 --seq-length 8 \
    --max-position-embeddings 8 --micro-batch-size 1 --lr 1e-4 --softmax-type learnable --quick-geglu \
    --num-layerss 3 --lr-decay-style cosin --fp16 yes --save $SCRATCH/x
END
port bad.sh --out bad.args
got=$?
check "refused and unknown options have their reasons" is 64 \
    "--num-layerss 3: there is no such option; did you mean --num-layers?" \
    "--fp16 yes: it takes no value" '--save $SCRATCH/x' \
    "7 done, 0 given, 0 ignored, 4 refused, 1 unknown, 1 open; 0 missing"
check "they stand in comments of the file" grep -qxF -e "# not done: --quick-geglu" bad.args
check "the sentence counts them" grep -q "4 refused, 1 unknown, 1 open, 0 missing" err
port bad.sh --define SCRATCH=/s
got=$?
check "--define gives a variable" is 64 "--save /s/x" \
    "8 done, 0 given, 0 ignored, 4 refused, 1 unknown, 0 open; 0 missing"

# CocktailSGD: numbers of one GPU, of one replica and of micro-steps.
cat >cocktail.sh <<'END'
export QUANT_BITS=4 TOPK_RATIO=0.2
ARGS="--model-name m --model-type gpt2 --optimizer adam --load-pretrained-model false \
--num-layers 12 --embedding-dim 64 --num-heads 4 --total-steps 200 --train-warmup-steps 10 \
--checkpoint-path ./ck --checkpoint-steps 100 --evaluation-steps 0 --lr 1e-4 --seq-length 128 \
--batch-size 16 --micro-batch-size 1 --gradient-accumulate-step 2 --dist-url tcp://10.0.0.1:7033 \
--world-size 8 --pipeline-group-size 2 --data-group-size 4 --fp16 --dp-backend gloo \
--dp-mode cocktail_sgd --pp-mode gpipe"
(trap 'kill 0' SIGINT; \
python dist_lm_train.py $(echo ${ARGS}) --cuda-id 0 --rank 0 & \
python dist_lm_train.py $(echo ${ARGS}) --cuda-id 1 --rank 1 & \
wait)
END
port cocktail.sh --out c.args --job c.slurm
got=$?
check "CocktailSGD" is 0 "--load-config m (theirs: --model-name m): a run begins with random weights" \
    "QUANT_BITS=4 is --quant-bits 4" "--model-type gpt2" \
    "--num-layers 24 (theirs: --num-layers 12): they give the layers of one GPU" \
    "--train-iters 100 (theirs: --total-steps 200): they count micro-steps" \
    "--train-warmup-steps 5 (theirs: --train-warmup-steps 10): they count micro-steps" \
    "1 other command of it trains too and was not read"
for line in "--global-batch-size 128" "--save-interval 50" "--eval-iters 0" "--quant-bits 4" "--topk-ratio 0.2" \
    "--pipeline-schedule gpipe" "--sum-gradients" "--use-tp-pp-dp-mapping" "--load ./ck" "--adam-eps 1e-6"; do
    check "CocktailSGD: $line" grep -qxF -e "$line" c.args
done
check "as many ranks as its world" grep -qxF 'job 8 "$@"' c.slurm

# Tasks are tokenized while training, a model begins with its weights, and what nobody reads is not
# taken.
cat >tasks.sh <<'END'
export QUANT_BITS=4
python dist_lm_train.py --model-name ./opt --tokenizer-name ./opt --model-type opt --task-name cot --num-layers 12 \
    --embedding-dim 2048 --total-steps 200 --lr 1e-4 --seq-length 2048 --batch-size 16 --micro-batch-size 1 \
    --pipeline-group-size 2 --data-group-size 4 --dp-mode allreduce --vocab-extra-ids 0 --checkpoint-steps 0 \
    --forward-scale-dims "(0,1)" --use-offload --evaluation-num-batch 256 --load-checkpoint-path ./other
END
port tasks.sh --out tasks.args
got=$?
check "CocktailSGD's tasks" is 0 "--tokenizer-model ./opt (theirs: --tokenizer-name ./opt)" \
    "--tokenizer-type HuggingFaceTokenizer" "--load ./other (theirs: --load-checkpoint-path ./other)" \
    "--load-config ./opt (theirs: --model-name ./opt): its weights are those of" \
    "QUANT_BITS has no effect without --dp-mode cocktail_sgd" \
    "--offload-optimizer cpu (theirs: --use-offload)" \
    "--evaluation-num-batch 256: without --evaluation-steps nothing is evaluated" "--eval-iters 0" \
    "--vocab-extra-ids 0: it has no effect there either" \
    "--global-batch-size 64 (theirs: --batch-size 16): they give the samples of one replica" \
    "14 done, 2 given, 4 ignored, 0 refused, 0 unknown, 0 open; 0 missing"

# A model by Megatron-LM's options, and what has no effect there unless another option is given.
cat >llama.sh <<'END'
MODEL_ARGS=(
    --num-layers 2 --hidden-size 64 --num-attention-heads 8 --seq-length 32
    --position-embedding-type rope --rotary-base 500000 --rotary-percent 1.0 --rope-scaling-factor 8.0
    --group-query-attention --num-query-groups 2 --kv-channels 8 --ffn-hidden-size 128 --window-size "(15, 0)"
    --normalization RMSNorm --norm-epsilon 1e-5 --swiglu --disable-bias-linear --qk-layernorm
    --untie-embeddings-and-output-weights --no-position-embedding --attention-dropout 0.0 --hidden-dropout 0.0
)
torchrun pretrain_gpt.py "${MODEL_ARGS[@]}" --micro-batch-size 1 --lr 1e-4 --train-iters 10 --vocab-size 100
END
port llama.sh --out llama.args
got=$?
check "a model of Llama's kind" is 0 "--window-size '(15, 0)'" "--num-query-groups 2" "--rotary-base 500000" \
    "--rope-scaling-factor 8.0: without --use-rope-scaling it has no effect there" \
    "25 done, 0 given, 1 ignored, 0 refused, 0 unknown, 0 open; 0 missing"
check "its arguments are a plan" sh -c "'$trireme' plan @llama.args --world-size 1 >plan 2>&1 || { cat plan; exit 1; }"
cat >plain.txt <<'END'
--num-layers 2 --hidden-size 64 --num-attention-heads 8 --seq-length 32 --micro-batch-size 1 --lr 1e-4
--num-query-groups 4 --rotary-percent 0.5 --rotary-base 10000 --use-rope-scaling
END
port plain.txt
got=$?
check "what has no effect in Megatron-LM has none here, and learned positions have a length" is 64 \
    "--num-query-groups 4: without --group-query-attention it has no effect there" \
    "--rotary-percent 0.5: it has no effect there without rotary embeddings" \
    "6 done, 0 given, 4 ignored, 0 refused, 0 unknown, 0 open; 1 missing"
cat >types.txt <<'END'
--pipeline-group-size 1 --total-steps 1 --model-type flash_gptneox
--model-type deberta
END
port types.txt
got=$?
check "CocktailSGD's families" is 64 "--model-family gpt-neox (theirs: --model-type flash_gptneox)" \
    "3 done, 0 given, 0 ignored, 1 refused, 0 unknown, 0 open; 6 missing"

# AC-SGD.
cat >acsgd.txt <<'END'
--n-epochs 10 --warmup-epochs 1 --num-layers 6 --num-heads 25 --embedding-dim 1600
--num-iters 10000000 --lr 5e-5 --seq-length 1024 --batch-size 32 --micro-batch-size 1
--forward-compress-method delta --forward-bits 4 --world-size 8 --pipeline-group-size 8
--do-evaluation true --load-pretrained-model true
END
port acsgd.txt
got=$?
check "a list of arguments of AC-SGD" is 64 "acsgd.txt: a list of options of AC-SGD" \
    "--num-layers 48 (theirs: --num-layers 6): they give the layers of one GPU" \
    "--epoch-iters 10000000 (theirs: --num-iters 10000000): an epoch ends after so many, or" "--sum-gradients" "--loss-within-samples" \
    "--pipeline-model-parallel-layout 6*4,7*3,3" \
    "13 done, 1 given, 1 ignored, 1 refused, 0 unknown, 0 open; 0 missing"

# Its classifier keeps even stages, its task and its tokenizer.
cat >deberta.txt <<'END'
--model-name m --tokenizer-name t --task-name cola --n-epochs 10 --num-layers 6 --num-heads 24 --embedding-dim 1536
--lr 2.5e-6 --seq-length 256 --batch-size 32 --micro-batch-size 8 --world-size 8 --pipeline-group-size 8
END
port deberta.txt
got=$?
check "a list of AC-SGD's classifier" is 0 "--task-name cola" "--tokenizer-model t (theirs: --tokenizer-name t)" \
    "--num-layers 48 (theirs: --num-layers 6): they give the layers of one GPU" "--task-dir data" "--drop-last-eval"
check "has no stages of a language model" sh -c '! grep -e layout -e loss-within out'

# Megatron-DeepSpeed.
cat >ds.sh <<'END'
TOKENS=1_048_576
opts="--num-layers 2 --hidden-size 8 --num-attention-heads 2 --seq-length 1024 --max-position-embeddings 1024
 --micro-batch-size 1 --lr 1e-4 --train-tokens $TOKENS --train-samples 9999 --num-experts 1 --moe-min-capacity 4"
run="deepspeed --num_gpus 4 pretrain_gpt.py $opts --deepspeed --zero-stage 1 --no-pipeline-parallel &> log"
echo $run
eval $run
END
port ds.sh --out ds.args
got=$?
check "Megatron-DeepSpeed" is 0 "--train-samples 1024 (theirs: --train-tokens 1_048_576): tokens / --seq-length" \
    "--zero-stage 1" "--num-experts 1" \
    "9 done, 1 given, 4 ignored, 0 refused, 0 unknown, 0 open; 0 missing"

json() { "$trireme" port ds.sh --json >json; grep -q '"format": "Megatron-DeepSpeed"' json &&
    grep -q '"ignored": 4' json; }
check "--json" json
fails "a script that trains nothing" 64 "no command here trains" "$trireme" port evil2.sh
fails "no script" 64 "which script?" "$trireme" port
fails "a job without arguments" 64 "add --out NAME.args" "$trireme" port ds.sh --job x
echo '--num-layers 2' >list
fails "a job of how many GPUs" 64 "add --ranks N" "$trireme" port list --out x.args --job x.slurm

# Programs that have their settings in themselves: the lines of YuanGenerativeLM's README.
cat >yuan.sh <<'END'
OMP_NUM_THREADS=32 torchrun --nnodes=2 --nproc_per_node=2 --master_addr GPU04 --master_port 9001 --node_rank 1 train.ds_pl.py
END
port yuan.sh --out yuan.args --job yuan.slurm
got=$?
check "a program without options" is 0 "--strategy deepspeed_stage_3" "--micro-batch-size 18" \
    "yuan.sh, line 1: options of YuanGenerativeLM for train.ds_pl.py" \
    "20 done, 0 given, 0 ignored, 0 refused, 0 unknown, 0 open; 0 missing"
# Its parameters are those of transformers' GPT-2 of that size.
its_size() {
    "$trireme" plan @yuan.args --world-size 4 --data-blocks 488282 | tee plan
    grep -q '^parameters: 4701259776; ' plan && grep -q '^--strategy deepspeed_stage_3 stands for --zero-stage 3$' plan &&
        grep -q '^#SBATCH --ntasks-per-node=' yuan.slurm
}
check "its arguments are its model" its_size
# How each is started: the lines of its README, and of the experiments on Jean Zay.
started() {
    printf '%s\n' "$1" >start.sh
    shift
    "$trireme" port start.sh 2>&1 | tr '\n' ' ' | tr -s ' ' >out
    cat out
    for line; do grep -qF -e "$line" out || { echo "no line '$line'"; return 1; }; done
}
check "torchrun's words" started \
    "OMP_NUM_THREADS=32 torchrun --nnodes=2 --nproc_per_node=2 --master_addr GPU04 --master_port 9001 --node_rank 1 train.ds_pl.py" \
    "OMP_NUM_THREADS=32: #SBATCH --cpus-per-task" "torchrun: srun, which starts every rank itself" \
    "--nnodes=2: nodes of the job, #SBATCH --nodes" "--nproc_per_node=2: ranks of a node, #SBATCH --ntasks-per-node" \
    "--master_addr GPU04: nothing: ranks find one another through MPI" "--node_rank 1: nothing: one command starts"
check "behind nvprof" started \
    "nvprof --profile-from-start off -o xxx.nvprof -- OMP_NUM_THREADS=32 torchrun --nnodes=2 --nproc_per_node=2 train.ds_pl.py" \
    "nvprof: nsys profile -c cudaProfilerApi before trireme" "-o xxx.nvprof: nsys profile -o" \
    "OMP_NUM_THREADS=32: #SBATCH --cpus-per-task" "--nproc_per_node=2: ranks of a node"
check "PatrickStar's program" started "torchrun --nnodes=1 --nproc_per_node=2 train.pstar.py" \
    "options of YuanGenerativeLM for train.pstar.py" "--chunk-memory 8GiB" "--initial-loss-scale 256" " 0 refused"
check "horovodrun's, and its program" started \
    "HOROVOD_FUSION_THRESHOLD=33554432 horovodrun -np 2 --cycle-time-ms 3 python train.hvd_pl.py" \
    "options of YuanGenerativeLM for train.hvd_pl.py" "--strategy horovod" "its learning rate is multiplied" \
    "horovodrun: srun, which starts" "-np 2: ranks of the job" \
    "--cycle-time-ms 3: nothing: what is fused is planned before the first step" " 0 refused"
check "deepspeed's" started "deepspeed --num_nodes 2 --num_gpus 4 --hostfile hosts pretrain_gpt.py --num-layers 2" \
    "--num_nodes 2: nodes of the job" "--num_gpus 4: ranks of a node" "--hostfile hosts: nothing: Slurm chooses the nodes"
check "torch.distributed.launch's" started \
    "python -u -m torch.distributed.launch --nproc_per_node 4 --nnodes 4 --nodes 3 pretrain_gpt.py --num-layers 2" \
    "-m torch.distributed.launch: srun, which starts" "--nproc_per_node 4: ranks of a node" "--nodes: it is not known here"
check "what num_nodes of the DDP script is" started "torchrun --nnodes=2 --nproc_per_node=2 train.ddp_pl.py" \
    "its num_nodes has to be the number of GPUs of all nodes there"
echo 'python train.py' >train.sh
fails "one that nobody knows" 64 "its settings stand in the program itself" "$trireme" port train.sh
