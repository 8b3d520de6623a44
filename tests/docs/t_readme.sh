#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091,SC2016,SC2034
# README.md and docs/training.md: every block runs as it is pasted into a clone that is built, or
# stands in the list of those that need a cluster, a package manager or files of others.
. "$srcdir/tests/tap.sh"
srcdir=$(cd "$srcdir" && pwd)
. "$srcdir/tests/train/small.sh"
page=$work/page.md
cat "$srcdir/README.md" "$srcdir/docs/training.md" > "$page"
. "$srcdir/tests/docs/page.sh"
elsewhere='jobs/quickstart | it installs and builds
tests/run | it runs this test
module load gcc openmpi hdf5 cuda nccl | a cluster
build/trireme data build --tokenizer-type gpt2-bpe --vocab-file vocab.json --merge-file merges.txt \ | files of GPT-2'
plan $((blocks + 13))

# A clone that is built.
cd "$work/study" || exit 1
mkdir build
ln -s "$trireme" build/trireme
cp -r "$srcdir/README.md" "$srcdir/docs" "$srcdir/jobs" .
chmod -R u+w .

# What README supposes: a script of Megatron-LM, and a run that lost a rank.
cat > pretrain_gpt.sh << 'END'
GPT_ARGS="--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 --max-position-embeddings 1024
    --micro-batch-size 4 --global-batch-size 8 --lr 0.00015 --train-iters 500000 --lr-decay-style cosine"
torchrun --nnodes 1 --nproc_per_node 8 pretrain_gpt.py $GPT_ARGS --vocab-size 50257 --data-path corpus_text_document --split 949,50,1
END
lose() {
    small_corpus || return 1
    lose_rank 1 '^ iteration *3/' KILL --tensor-model-parallel-size 2
    mkdir -p runs && cp -r "$work/run" runs/gpt && ls runs/gpt/flight-*/rank-* && return
    tail "$work/log"
    return 1
}
check "a run that loses a rank" lose

# A user has none of these.
unset OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe
run_blocks

out_of() { n=1; while [ "$n" -le "$blocks" ]; do ! grep -qF -e "$1" "$work/blocks/$n" || { echo "$work/out.$n"; return; }; n=$((n + 1)); done; }
five=$(out_of "trireme plan --machine")
check "the plan has a verdict and an interval" sh -c "grep -q '^verdict on' '$five' && grep -q 'P10 [0-9.]*, P90 [0-9.]*' '$five'"
layouts() { "$trireme" report sweep --columns agree --format csv | tr -d '\r' | sort | uniq -c | tr -s ' \n' ' '; }
check "six layouts, one loss" test "$(layouts)" = " 1 1 agree 5 equal "
check "it is on the screen" sh -c "[ \$(grep -c ' equal\$' '$five') = 5 ]"
check "the rank that was lost has a name" grep -q "rank 1 on $(uname -n) left no record" "$five"
check "CocktailSGD says what it sent" grep -q 'replicas-up (times below fp16)' "$five"
check "the script became arguments and a job" sh -c "grep -q -- '--num-layers 24' gpt.args && grep -q '^#SBATCH' gpt.slurm"
# Both numbers stand in README.
drain=$(awk '$2 == "drain" { printf "%.0f", $3 }' "$five") iteration=$(awk '$2 == "iteration" { printf "%.0f", $3 }' "$five")
check "the breakdown of the published log" grep -q "$drain of these $iteration ms" "$srcdir/README.md"
check "the dry run says what fits" grep -q 'the fullest rank would plan with' "$(out_of --dry-run)"
learns=$(out_of 'trireme data build --tokenizer-type bytes')
check "the model learns" awk '/^ iteration/ { n++; l = $0; sub(/.*lm loss: /, "", l); last = l + 0; first = first ? first : last }
    END { exit !(n == 10 && last < 0.7 * first) }' "$learns"
check "its checkpoint is there" grep -q '^100$' checkpoints/latest_checkpointed_iteration.txt
few() { [ "$(wc -w < "$srcdir/README.md")" -le 1500 ]; }
check "README has at most 1,500 words" few
