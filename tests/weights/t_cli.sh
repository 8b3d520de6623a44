#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The verbs as one types them: options, what is printed, what is taken along, and that a run starts
# from imported weights.
# shellcheck source=tests/tap.sh
. "${srcdir:?}/tests/tap.sh"
plan 17

from=$srcdir/tests/weights/torch
model=$work/model
mkdir "$model"
cp "$from/model.bin" "$model/pytorch_model.bin"
cat >"$model/config.json" <<'JSON'
{"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 6, "n_inner": 12, "vocab_size": 11,
 "bos_token_id": 3, "eos_token_id": [3, 4], "n_head_of_nobody": 5}
JSON
echo '{"eos_token_id": 3}' >"$model/generation_config.json"
echo 'not read' >"$model/tokenizer.json"

# prints TEXT COMMAND...: the command succeeds and prints TEXT.
prints() {
    text=$1
    shift
    out=$("$@" 2>&1) || { echo "$out" && return 1; }
    case $out in
    *"$text"*) ;;
    *) echo "no $text in: $out" && return 1 ;;
    esac
}

fails "a folder is needed" 64 "needs --from" "$trireme" ckpt import --save "$work/a"
fails "a wrong option is named" 64 "did you mean" "$trireme" ckpt import --form x
fails "the format says the files" 64 "--max-shard-size has no effect" \
    "$trireme" ckpt export --load x --to "$work/x" --format layers --max-shard-size 1MB
fails "a size is a number" 64 "is no number of bytes" \
    "$trireme" ckpt export --load x --to "$work/x" --max-shard-size 5Gx
fails "ranks are Megatron-LM's" 64 "are of --format megatron" \
    "$trireme" ckpt export --load x --to "$work/x" --tensor-model-parallel-size 2
check "import says what it found" prints "(torch.save, 1 file; GPT2LMHeadModel, F16)" \
    "$trireme" ckpt import --from "$model/" --save "$work/run"
check "show names the family" prints "model_family                    gpt2" "$trireme" ckpt show "$work/run"
check "and the precision" prints "precision                       fp32" "$trireme" ckpt show "$work/run"
check "show says where weights come from" prints "weights from                    $model (torch.save" \
    "$trireme" ckpt show "$work/run"
check "the checkpoint is whole" prints "is whole: 16 tensors" "$trireme" ckpt verify "$work/run"
fails "a run is not overwritten" 64 "has checkpoints" "$trireme" ckpt import --from "$model" --save "$work/run"
check "a run starts from it" ranks 2 "$trireme" train --load "$work/run" --finetune --use-checkpoint-args \
    --save "$work/tuned" --mock-data --micro-batch-size 1 --global-batch-size 2 --lr 1e-3 --train-iters 2 \
    --tensor-model-parallel-size 2 --eval-iters 0 --save-interval 2
check "export takes the tokenizer along" prints "tensors of type BF16, 1 file" \
    "$trireme" ckpt export --load "$work/tuned" --to "$work/out/" --dtype bf16 --like "$model"
check "the tokenizer is the same" cmp "$model/tokenizer.json" "$work/out/tokenizer.json"
special() { tr -d ' \n' <"$work/out/config.json" | grep -q '"bos_token_id":3,"eos_token_id":\[3,4\]' && ! grep -q nobody "$work/out/config.json"; }
check "special tokens are those of the model" special
check "what is exported can be imported" "$trireme" ckpt import --from "$work/out" --save "$work/again"
fails "a folder with files stays" 64 "is not an empty folder" "$trireme" ckpt export --load "$work/run" --to "$work/out"
