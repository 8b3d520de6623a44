#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2034
# docs/finetuning.md: the commands of the page itself, on this machine and on a virtual cluster of
# two nodes, from small models in folders of the names that the page uses, and what the page says
# about what they leave.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/slurm/slurm.sh"
srcdir=$(cd "$srcdir" && pwd)
page=$srcdir/docs/finetuning.md
. "$srcdir/tests/docs/page.sh"
one=$(awk '/^# On a cluster/ { exit } /^```sh$/ { n++ } END { print n + 0 }' "$page")
can=$(cluster can --nodes 2 --machine h100 2>&1) && clustered=true || clustered=false
if $clustered; then
    slurm_start --nodes 2 --machine h100
    plan $((blocks + 15))
else
    plan $((one + 6))
fi

# The program, which computes on the cores of this machine whatever else is there.
rm "$work/bin/trireme"
cat > "$work/bin/trireme" << END
#!/bin/sh
case \$1 in
train | eval | generate) exec "$trireme" "\$@" --backend cpu ;;
esac
exec "$trireme" "\$@"
END
chmod +x "$work/bin/trireme"
TRIREME=$work/bin/trireme
export TRIREME

# A Llama of 0.2 million parameters that has read some of the pages here, with the tokenizer of
# another one.
published() {
    cd "$work" && mkdir like || return 1
    cp "$srcdir/tests/golden/tok_llama3.json" like/tokenizer.json
    echo '{"eos_token": "<|endoftext|>", "bos_token": "<|begin_of_text|>"}' > like/tokenizer_config.json
    echo '{"model_type": "llama", "eos_token_id": 0, "bos_token_id": 1}' > like/config.json
    set -- --tokenizer-type HuggingFaceTokenizer --tokenizer-model like
    trireme data build "$srcdir/README.md" "$srcdir/CONTRIBUTING.md" --append-eod --output-prefix pages "$@" &&
        trireme train --model-family llama3.1 --num-layers 4 --hidden-size 64 --num-attention-heads 8 \
            --num-query-groups 4 --ffn-hidden-size 128 --seq-length 64 --max-position-embeddings 128 "$@" \
            --data-path pages_text_document --micro-batch-size 8 --global-batch-size 8 --train-iters 60 \
            --lr 3e-3 --lr-decay-style cosine --eval-iters 0 --save random > pages.log &&
        trireme ckpt export --load random --to "study/Llama-3.1-8B" --dtype bf16 --like like
}
# The page's folder; so small a model needs larger steps.
folder() {
    cp -r "$srcdir/jobs" "$work/study/jobs" && chmod -R u+w "$work/study/jobs" &&
        sed -i 's/^--lr 1e-5$/--lr 4e-3/; s/^--min-lr .*/--min-lr 1e-3/' "$work/study/jobs/models/finetune.args" &&
        cat "$srcdir/docs/numerics.md" "$srcdir/docs/formats.md" "$srcdir/docs/plan.md" > "$work/all.txt" &&
        head -n -120 "$work/all.txt" > "$work/study/train.txt" &&
        tail -n 120 "$work/all.txt" > "$work/study/held-out.txt"
}
idle() { [ -z "$(slurm squeue -h)" ]; }
jobs_end() { wait_for 240 idle; }

check "a model folder" published
check "and what the page has besides" folder

# One workstation: a model of its own name, with a learning rate for its size.
number() { sed -n 's/.*"perplexity":\([0-9.e+]*\).*/\1/p' "$1"; }
falls() {
    before=$(number before.json) after=$(number after.json)
    echo "$before, then $after"
    awk -v a="$before" -v b="$after" 'BEGIN { exit !(b > 1 && b < 0.95 * a) }'
}
workstation() {
    cp -r "$work/study/Llama-3.1-8B" "$work/study/SmolLM2-360M" &&
        sed "1,/^# On a cluster/s/^--lr 2e-5 --min-lr 2e-6/--lr 4e-3 --min-lr 1e-3/" "$page" > "$work/page.md" &&
        grep -q '^--lr 4e-3' "$work/page.md"
}
check "a model for the workstation" workstation
page=$work/page.md
run_blocks 1 "$one"
page=$srcdir/docs/finetuning.md
cd "$work/study" || exit 1
check "the dry run says what a rank needs" has 'total .*MiB|MiB .*total' "$work/out.2"
check "the perplexity falls on one machine" falls
check "the new folder has the tokenizer, and other weights" sh -c "
    cmp SmolLM2-360M/tokenizer.json SmolLM2-360M-tuned/tokenizer.json &&
        ! cmp -s SmolLM2-360M/model.safetensors SmolLM2-360M-tuned/model.safetensors"
rm -f before.json after.json train_text_document.*
$clustered || { echo "# ${can#cluster: }: the part on a cluster is left out" && exit; }

within="timeout -k 30 $slurm_limit $slurm_cluster --dir $slurm_dir exec"
after=jobs_end
run_blocks $((one + 1))

check "the import tells family, precision and origin" sh -c "
    grep -q '^weights from  *Llama-3.1-8B (safetensors, 1 file; LlamaForCausalLM, BF16)\$' llama.txt &&
        grep -q '^model_family  *llama3.1\$' llama.txt && grep -q '^family llama3.1\|^  family llama3.1: ' '$work/out.$((one + 1))'"
check "the tokenizer is that of the folder" has '^tokenizer: tokenizer.json, byte-level BPE, 502 tokens' "$work/out.$((one + 2))"
check "the dry run says what fits" sh -c "
    grep -q 'would plan with [0-9.]* MiB.*a GPU has 80 GiB' '$work/out.$((one + 3))' && grep -q -- '--load llama --finetune' '$work/out.$((one + 3))'"
check "the plan, too" has '^verdict on 81559 MiB: fits' "$work/out.$((one + 4))"
check "three epochs on eight ranks of two nodes" sh -c "
    grep -q '^state:  *finished: done\$' '$work/out.$((one + 7))' && grep -q 'ranks: 8, nodes: 2' '$work/out.$((one + 7))' &&
        [ \$(grep -c 'validation loss at ' finetune-2.out) -eq 3 ]"
check "the perplexity falls" falls
check "the exported folder has the tokenizer and the tokens of the first" sh -c "
    cmp Llama-3.1-8B/tokenizer.json Llama-3.1-8B-tuned/tokenizer.json &&
        grep -q '\"eos_token_id\": 0,' Llama-3.1-8B-tuned/config.json &&
        ! cmp -s Llama-3.1-8B/model.safetensors Llama-3.1-8B-tuned/model.safetensors"

# Links of a chain leave the same bits as one job: none but the first begins with the weights of the
# model.
chained() {
    export MODEL=Llama-3.1-8B WEIGHTS=llama DATA_PATH=train_text_document MACHINE=h100 RUN=runs/chained LINKS=3
    $within jobs/finetune.sbatch --exit-interval 8 && jobs_end || return 1
    grep -h -e '^\[start' -e '^trireme.*error' finetune-*.out
    trireme ckpt export --load runs/chained --to chained --dtype bf16 --like Llama-3.1-8B &&
        cmp chained/model.safetensors Llama-3.1-8B-tuned/model.safetensors &&
        grep -q 'from: iteration 8 in runs/chained' finetune-*.out
}
check "a chain of jobs ends with the same bits" chained

if python=$(python_with torch transformers); then
    awk '/^```python$/ { on = 1; next } /^```/ { on = 0 } on' "$page" > load.py
    check "transformers loads it, and writes" sh -c "'$python' load.py > loaded.txt && grep -q 'The licence' loaded.txt &&
        [ \$(wc -c < loaded.txt) -gt 60 ]"
else
    skip "transformers loads it" "no python with torch and transformers"
fi
