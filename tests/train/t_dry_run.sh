#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# --dry-run takes the options of two public runs as they were written (GPT of 7.5B on 16 and of 30B
# on 64 V100 of Jean Zay, May 2021) and says what their ranks hold; the number of parameters is the
# closed form.
. "$srcdir/tests/tap.sh"
plan 12

# The vocabulary of GPT-2 has 50257 entries.
awk 'BEGIN { printf "{"; for (i = 0; i < 50257; i++) printf "%s\"t%d\": %d", i ? ", " : "", i, i; print "}" }' \
    > "$work/gpt2-vocab.json"
VOCAB_FILE=$work/gpt2-vocab.json
MERGE_FILE=$work/gpt2-merges.txt
DATA_PATH=$work/openwebtext-10k/meg-gpt2_text_document
SAVE_CHECKPOINT_PATH=$work/checkpoints/gpt2-1-node

# jean_zay LAYERS HIDDEN SEQUENCE STAGES OPTION...
jean_zay() {
    NLAYERS=$1 NHIDDEN=$2 SEQ_LEN=$3 PP_SIZE=$4
    shift 4
    "$trireme" train \
        --tensor-model-parallel-size 4 \
        --pipeline-model-parallel-size "$PP_SIZE" \
        --num-layers "$NLAYERS" \
        --hidden-size "$NHIDDEN" \
        --num-attention-heads 32 \
        --seq-length "$SEQ_LEN" \
        --max-position-embeddings "$SEQ_LEN" \
        --micro-batch-size 1 \
        --global-batch-size 4 \
        --lr 0.00015 \
        --lr-decay-style cosine \
        --min-lr 1.0e-5 \
        --train-iters 1000 \
        --lr-decay-iters 800 \
        --lr-warmup-fraction .01 \
        --weight-decay 1e-2 \
        --clip-grad 1.0 \
        --vocab-file "$VOCAB_FILE" \
        --merge-file "$MERGE_FILE" \
        --fp16 \
        --checkpoint-activations \
        --log-interval 10 \
        --save-interval 500 \
        --eval-interval 100 \
        --eval-iters 10 \
        --save "$SAVE_CHECKPOINT_PATH" \
        --load "$SAVE_CHECKPOINT_PATH" \
        --data-path "$DATA_PATH" \
        --data-impl mmap \
        --split 949,50,1 \
        --distributed-backend nccl \
        "$@"
}

# counts LAYERS HIDDEN SEQUENCE STAGES: per layer 12 h^2 / t + h (6 + 7 / t); the first stage has
# its part of 50688 words and the positions besides, the last one the final norm and its part of the
# words.
counts() {
    jean_zay "$@" --dry-run --log-arguments > "$work/log" 2> "$work/warnings" || { cat "$work/warnings"; return 1; }
    h=$2 layer=$((3 * h * h + 6 * h + 7 * h / 4)) words=$((12672 * h)) stage=0
    while [ $stage -lt "$4" ]; do
        want=$((layer * $1 / $4))
        [ $stage -ne 0 ] || want=$((want + words + $3 * h))
        [ $stage -ne $(($4 - 1)) ] || want=$((want + words + 2 * h))
        echo " > number of parameters on (tensor, pipeline) model parallel rank (0, $stage): $want"
        stage=$((stage + 1))
    done > "$work/want"
    grep '^ > number of parameters' "$work/log" | diff "$work/want" -
}
check "7.5B on 16: parameters of each stage" counts 36 4096 512 4
block() {
    grep -q '^using world size: 16, data-parallel-size: 1, tensor-model-parallel size: 4, pipeline-model-parallel size: 4 $' "$work/log" &&
        grep -q '^using torch.float16 for parameters \.\.\.$' "$work/log" &&
        grep -q '^  fp16 \.* True$' "$work/log" && grep -q '^  world_size \.* 16$' "$work/log" &&
        grep -q '^ > padded vocab (size: 50257) with 431 dummy tokens (new size: 50688)$' "$work/log" &&
        grep -q '^planning for 16 ranks, the fewest' "$work/log"
}
check "the argument block" block

# fp16 weights and gradients, and three fp32 numbers of the optimizer for each parameter: 16 bytes.
bytes() {
    awk '/number of parameters/ { n = $NF }
        /^  (weights|gradients|optimizer) / { sum += $2 * 1048576; lines++ }
        /^  total / {
            printf "# %d parameters, %.0f bytes: %.3f each\n", n, sum, sum / n
            if (sum < 15.9999 * n || sum > 16.01 * n) bad = 1
            sum = 0
        } END { exit bad || lines < 12 }' "$work/log"
}
check "16 bytes for each parameter" bytes
layers() { grep '^  layers' "$work/log" | tr -d '\n' | grep -q '^  layers 0-8  layers 9-17  layers 18-26  layers 27-35$'; }
check "the layers of each stage" layers

check "30B on 64: parameters of each stage" counts 48 7168 1024 16
unknown() { grep '^  .* unknown$' "$work/log" | sort -u | awk '{ $NF = ""; print }' | tr -d '\n'; }
only_machine() {
    [ "$(unknown)" = "context kernel scratch nccl " ] && grep -q '^what is unknown .* not in the total' "$work/log"
}
check "what only a machine profile tells is unknown" only_machine
on_cpus() {
    jean_zay 36 4096 512 4 --backend cpu --dry-run > "$work/log" 2>&1 && grep -q '^  total ' "$work/log" &&
        ! grep unknown "$work/log"
}
check "ranks on CPUs need none of that" on_cpus
on_128() { jean_zay 48 7168 1024 16 --world-size 128 --dry-run 2> /dev/null | grep -q '^using world size: 128, data-parallel-size: 2,'; }
check "--world-size" on_128
nothing_made() { [ ! -e "$work/checkpoints" ] && [ ! -e "$work/openwebtext-10k" ]; }
check "nothing is opened or made" nothing_made
# The 76B study of Jean Zay gives no option for it; the first layers of stages 0, 2, 3, 30 and 31.
uneven() {
    jean_zay 60 10240 1024 32 --dry-run > "$work/log" 2>&1 || return 1
    grep -q '^> 60 layers on 32 stages, .* --pipeline-model-parallel-layout 1\*3,2\*28,1$' "$work/log" &&
        sed -n 's/^  layers //p' "$work/log" | sed -n '1p;3p;4p;31p;32p' | tr '\n' ' ' | grep -qx '0 2 3-4 57-58 59 '
}
check "60 layers on 32 stages, as on Jean Zay" uneven
alone() {
    jean_zay 2 4096 512 4 --account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split \
        --dry-run > "$work/log" 2>&1 &&
        sed -n 's/^  layers //p' "$work/log" | tr '\n' ' ' | grep -qx -e '- 0 1 - '
}
check "stages of the embedding and the head alone" alone
fails "--world-size is no way to start ranks" 64 "were started" jean_zay 36 4096 512 4 --world-size 16
