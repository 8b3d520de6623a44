#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# What job files say with --dry-run, which needs no Slurm, and when they are used wrongly.
. "$srcdir/tests/tap.sh"

jobs=$(cd "$srcdir/jobs" && pwd)
TRIREME=$trireme
TRIREME_JOBS=$jobs
export TRIREME TRIREME_JOBS

# said FILE: what it says with --dry-run is in $work/dry; run once, since it is looked at several
# times.
said() {
    [ -e "$work/$1.dry" ] || (cd "$work" && "$jobs/$1" --dry-run) >"$work/$1.dry" 2>&1 || return 1
    cp "$work/$1.dry" "$work/dry"
}

# dry FILE RANKS GPUS: says how it would be submitted, to nodes of so many GPUs, what it would run,
# and what that takes; nothing happens.
dry() {
    said "$1" || return 1
    cat "$work/dry"
    grep -q "would submit: .* sbatch .*--nodes=$(($2 / $3)) --ntasks-per-node=$3" "$work/dry" &&
        grep -q 'would run: srun .*--mpi=pmix .* train @' "$work/dry" &&
        grep -q 'the fullest rank would plan with [0-9.]* MiB' "$work/dry" && [ ! -e "$work/runs" ]
}

memory_is_stated() {
    said "$1.sbatch"
    planned=$(sed -n 's/.*would plan with \([0-9]*\.[0-9]*\) MiB.*/\1/p' "$work/dry" | head -n 1)
    stated=$(sed -n 's/^# Memory  *\([0-9,]*\) MiB.*/\1/p' "$jobs/$1.sbatch" | tr -d ,)
    echo "stated $stated, planned $planned"
    [ -n "$stated" ] && awk -v a="$stated" -v b="$planned" 'BEGIN { exit !(a - b < 1 && b - a < 1) }'
}

# The same with its directives, for those who submit it by sbatch as it is.
directives() {
    sed -n 's/^#SBATCH //p' "$jobs/$1"
    grep -q "^#SBATCH --nodes=$(($2 / $3))\$" "$jobs/$1" && grep -q "^#SBATCH --ntasks-per-node=$3\$" "$jobs/$1" &&
        grep -q "^#SBATCH --gres=gpu:$3\$" "$jobs/$1"
}

# time_is_stated NAME RANKS: the seconds of "Plan", which are those of the options that the job
# would run with.
time_is_stated() {
    said "$1.sbatch"
    stated=$(sed -n 's/^# Plan  *\([0-9.]*\) s with .*/\1/p' "$jobs/$1.sbatch")
    machine=$(sed -n 's/^# Plan .* with --machine \([a-z0-9-]*\).*/\1/p' "$jobs/$1.sbatch")
    # shellcheck disable=SC2046 # a list of words
    "$trireme" plan --machine "$machine" --world-size "$2" $(sed -n 's/.*would run: .* train //p' "$work/dry") \
        >"$work/plan" 2>&1
    planned=$(sed -n '/^time of an iteration/,$s/^  total  *\([0-9.]*\).*/\1/p' "$work/plan")
    echo "stated $stated s on $machine, planned $planned ms"
    [ -n "$stated" ] && [ -n "$planned" ] &&
        awk -v a="$stated" -v b="$planned" 'BEGIN { exit !(1000 * a - b <= 51 && b - 1000 * a <= 51) }'
}

# docs_have NAME PAGE: the table of that page has the job's own numbers.
docs_have() {
    memory=$(sed -n 's/^# Memory  *\([0-9,]*\) MiB.*/\1/p' "$jobs/$1.sbatch")
    seconds=$(sed -n 's/^# Plan  *\([0-9.]*\) s with .*/\1/p' "$jobs/$1.sbatch")
    gpus=$(sed -n 's/^job \([0-9]*\) .*/\1/p' "$jobs/$1.sbatch")
    grep "^| .$1. |" "$srcdir/docs/$2.md"
    grep -q "^| .$1. | $gpus .*| $memory | $seconds |" "$srcdir/docs/$2.md"
}

# with NAME=VALUE... FILE WORD...: that job file, in the test's folder.
with() {
    cd "$work" || return
    env "$@"
}

plan 157
for file in study-7.5b:16 study-30b:64 study-50b:128 study-76b:128 gpt2-345m:16 gpt2-1.5b:32 smoke:8 bench:8 \
    study-llama3-8b:8 study-llama3-70b:64 finetune:8 yuan-ddp:4 yuan-ds:4; do
    check "${file%:*} --dry-run" dry "${file%:*}.sbatch" "${file#*:}" 4
    check "${file%:*} asks for as many nodes itself" directives "${file%:*}.sbatch" "${file#*:}" 4
done
for file in study-neox-20b:96 study-bloom-176b:384; do
    check "${file%:*} --dry-run" dry "${file%:*}.sbatch" "${file#*:}" 8
    check "${file%:*} asks for as many nodes itself" directives "${file%:*}.sbatch" "${file#*:}" 8
done
for file in opt-1.3b-cot:8:8 gptj-ni:8:8 opt-125m-pretrain:8:8 llama-mix:8:8 gpt2-xl-wikitext:8:4 gpt2-xl-arxiv21:8:4 \
    deberta-cola:8:4 deberta-qnli:8:4 megatron-7.5b:16:4 megatron-30b:64:4 megatron-76b:128:4; do
    name=${file%%:*} gpus=${file##*:} count=${file#*:}
    check "$name --dry-run" dry "$name.sbatch" "${count%:*}" "$gpus"
    check "$name asks for as many nodes itself" directives "$name.sbatch" "${count%:*}" "$gpus"
    check "$name states the memory that is planned" memory_is_stated "$name"
    check "$name states the time that is planned" time_is_stated "$name" "${count%:*}"
done
check "yuan-one --dry-run takes a part of a node" dry yuan-one.sbatch 1 1
check "yuan-one asks for it itself" directives yuan-one.sbatch 1 1
for file in yuan-hvd yuan-pstar; do
    check "$file --dry-run takes a part of a node" dry "$file.sbatch" 2 2
    check "$file asks for it itself" directives "$file.sbatch" 2 2
done
for file in study-7.5b study-30b study-50b study-76b gpt2-345m gpt2-1.5b study-llama3-8b study-llama3-70b study-neox-20b \
    study-bloom-176b finetune yuan-ddp yuan-ds yuan-one yuan-hvd yuan-pstar; do
    check "$file states the memory that is planned" memory_is_stated "$file"
done
for file in study-llama3-8b:8 study-llama3-70b:64 study-neox-20b:96 study-bloom-176b:384; do
    check "${file%:*} states the time that is planned" time_is_stated "${file%:*}" "${file#*:}"
    check "docs/families.md has what ${file%:*} states" docs_have "${file%:*}" families
done
for file in yuan-ddp:4 yuan-ds:4 yuan-one:1 yuan-hvd:2 yuan-pstar:2; do
    check "${file%:*} states the time that is planned" time_is_stated "${file%:*}" "${file#*:}"
    check "docs/trainers.md has what ${file%:*} states" docs_have "${file%:*}" trainers
done
check "finetune states the time that is planned" time_is_stated finetune 8
study=$jobs/study-7.5b.sbatch

# toy NAME LINE: it trains forty iterations at its small size, says LINE, and leaves nothing.
toy() {
    (cd "$work" && TMPDIR=$work "$jobs/$1.sbatch" --toy) >"$work/toy" 2>&1
    code=$?
    grep -e '^> ' -e ' iteration ' "$work/toy"
    [ $code -eq 0 ] && grep -q "^> $2" "$work/toy" &&
        grep -q '^ iteration  *40/ .* lm loss: 6\.' "$work/toy" && ! ls -d "$work/$1".* "$work/runs"
}
# toy_of_all JOB NAME COMMAND...: the check, of any job with tests/run --all and of one without.
toy_of_all() {
    if [ -n "${TR_TEST_ALL:-}" ] || [ "$1" = megatron-7.5b ]; then
        shift
        check "$@"
    else
        skip "$2" "tests/run --all"
    fi
}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
toy_of_all yuan-ddp "yuan-ddp --toy" toy yuan-ddp "--strategy ddp_sharded stands for"
check "yuan-ds --toy, with an evaluation and a checkpoint" toy yuan-ds "--strategy deepspeed_stage_3 stands for"
toy_of_all yuan-one "yuan-one --toy" toy yuan-one "--strategy deepspeed_stage_2 stands for"
toy_of_all yuan-hvd "yuan-hvd --toy" toy yuan-hvd "--strategy horovod stands for"
toy_of_all yuan-pstar "yuan-pstar --toy" toy yuan-pstar "4 chunks of 198272 elements"
# learns NAME ITERATION TEXT...: the same with a model, a tokenizer and texts that are made here;
# all of TEXT in its log.
learns() {
    name=$1 last=$2
    shift 2
    (cd "$work" && TMPDIR=$work "$jobs/$name.sbatch" --toy) >"$work/toy" 2>&1 || { cat "$work/toy"; return 1; }
    for text in "^ iteration  *$last/" "$@"; do
        grep -q -e "$text" "$work/toy" || { echo "nothing like '$text'"; cat "$work/toy"; return 1; }
    done
    ! ls -d "$work/$name".* "$work/runs" 2> /dev/null
}
check "opt-1.3b-cot --toy, with CocktailSGD" learns opt-1.3b-cot 8 '^ loading weights from .*/model' ': cot$' \
    '^> replicas exchange cocktail, 4 bits of 0.2 of 0.1' 'saving checkpoint at iteration  *8 '
for name in megatron-7.5b megatron-30b megatron-76b; do
    toy_of_all $name "$name --toy" learns $name 20 '^ iteration  *10/' '^ validation loss at iteration 10 ' \
        'saving checkpoint at iteration  *20 '
done
toy_of_all gptj-ni "gptj-ni --toy" learns gptj-ni 8 ': ni$' '  model_family \.* gptj'
toy_of_all opt-125m-pretrain "opt-125m-pretrain --toy" learns opt-125m-pretrain 8 ': pile$' \
    '4 bits of 0.5 of 0.4 after iteration 2' '^ validation loss at iteration 4 ' '{"valid.perplexity": '
no_weights() { ! grep -q 'loading weights' "$work/toy"; }
toy_of_all opt-125m-pretrain "with random weights" no_weights
toy_of_all llama-mix "llama-mix --toy" learns llama-mix 8 'weight 0.200000: ni_dehelm$' 'weight 0.200000: p3_dehelm$' \
    'weight 0.600000: pile$'
toy_of_all gpt2-xl-wikitext "gpt2-xl-wikitext --toy, with AC-SGD" learns gpt2-xl-wikitext 80 \
    'pipeline-forward messages are compressed: delta, 4 bits' '^ validation loss at the end of training' \
    '^Finished running  42  iterations'
toy_of_all gpt2-xl-arxiv21 "gpt2-xl-arxiv21 --toy" learns gpt2-xl-arxiv21 80 '^ validation loss at the end of training'
toy_of_all deberta-cola "deberta-cola --toy, with AC-SGD" learns deberta-cola 30 \
    'pipeline-forward messages are compressed: delta, 3 bits' '^{"matthews_correlation": ' '^Finished running  17  iterations'
toy_of_all deberta-qnli "deberta-qnli --toy" learns deberta-qnli 30 '^{"accuracy": {"accuracy": [0-9.]*}, "f1": '
fails "no model to begin with" 64 "export MODEL=FOLDER" \
    with TASK_DIR=x SLURM_JOB_ID=1 SLURM_JOB_NAME=x RUN=r "$jobs/opt-1.3b-cot.sbatch"
fails "no tasks" 64 "export TASK_DIR=FOLDER with the data of ni" \
    with MODEL=x SLURM_JOB_ID=1 SLURM_JOB_NAME=x RUN=r "$jobs/gptj-ni.sbatch"
fails "a file without a small size" 64 "study-7.5b has no small size" with MACHINE=v100-16g "$study" --toy

fails "8 GPUs on a node: half the nodes" 0 "--nodes=2 --ntasks-per-node=8 --cpus-per-task=8 --gres=gpu:8" \
    with MACHINE=a100 "$study" --dry-run
fails "cuDNN's attention on an A100: no dropout" 0 "--bf16 --attention-dropout=0" with MACHINE=a100 "$study" --dry-run
fails "and the job says so" 0 "--attention-dropout is 0 on h100, because cuDNN" with MACHINE=h100 "$study" --dry-run
dropped_on_v100() { ! with MACHINE=v100-16g "$study" --dry-run 2>&1 | grep attention-dropout; }
check "a V100 computes attention with dropout" dropped_on_v100
fails "ranks without GPUs" 0 "--cpus-per-task=10 --gres=none --partition=cpu_p1" with MACHINE=cpu "$study" --dry-run
fails "options of the site" 0 "--account=abc@v100" with SBATCH_OPTIONS=--account=abc@v100 "$study" --dry-run
fails "a machine that is not known" 64 "which has v100-16g" with MACHINE=fugaku "$study" --dry-run
fails "an option that is wrong is found before the job is" 64 "micro-batch-size" \
    with MACHINE=v100-16g "$study" --dry-run --micro-batch-size 3
fails "a session" 0 "salloc --job-name=session --nodes=4" with MACHINE=v100-16g "$jobs/session" --dry-run 16
fails "a session of how many?" 64 "say for how many GPUs" with MACHINE=v100-16g "$jobs/session"
fails "nothing to fine-tune" 64 "export WEIGHTS=FOLDER" \
    with DATA_PATH=x MODEL=y SLURM_JOB_ID=1 SLURM_JOB_NAME=x "$jobs/finetune.sbatch"
fails "no tokenizer" 64 "export MODEL=FOLDER" \
    with DATA_PATH=x WEIGHTS=y SLURM_JOB_ID=1 SLURM_JOB_NAME=x "$jobs/finetune.sbatch"
fails "no data" 64 "DATA_PATH is not set" with SLURM_JOB_ID=1 SLURM_JOB_NAME=x "$jobs/gpt2-345m.sbatch"

# machine LINE: a table of the user with that line for the machine `mine`.
machine() {
    printf '%s\n' "$1" > "$work/machines"
    with MACHINES="$work/machines" MACHINE=mine "$study" --dry-run
}
fails "a machine of one's own" 0 "--nodes=2 --ntasks-per-node=8 --cpus-per-task=3 --gres=gpu:8 --partition=x --qos=a&b" \
    machine "mine 8 24 40 --bf16 --partition=x --qos=a&b"
# What bash would do with a number that is none: run a command.
evil="a[\$(touch\$IFS$work/done)]"
fails "GPUs of a table that are no number" 64 "GPUs of mine is a whole number in $work/machines, not" \
    machine "mine $evil 24 40 --bf16"
fails "cores that are no number" 64 "cores of mine is a whole number" machine "mine 8 $evil 40 --bf16"
fails "memory that is no number" 64 "memory of mine is a whole number" machine "mine 8 24 08 --bf16"
fails "a precision that is none" 64 "precision of mine is --fp16 or --bf16" machine "mine 8 24 40 --bf17"
# shellcheck disable=SC2016 # it is not to be expanded
fails "an option of strange characters" 64 "an sbatch option of mine in $work/machines holds other characters" \
    machine 'mine 8 24 40 --bf16 --comment=`id`'
nothing_ran() { [ ! -e "$work/done" ]; }
check "no command of a table was run" nothing_ran
fails "LINKS that are no number" 64 "LINKS is a whole number, not" with LINKS=x "$jobs/gpt2-1.5b.sbatch" --dry-run

# A Slurm that has one job, whose file lies in a folder with a blank in its name.
mkdir "$work/bin" "$work/two words"
cp "$jobs/gpt2-1.5b.sbatch" "$work/two words/job.sbatch"
cat > "$work/bin/scontrol" << END
#!/bin/sh
case "\$*" in
"-o show job 7") echo "JobId=7 Command=$work/two words/job.sbatch --mock-data WorkDir=$work" ;;
"show job 7") printf 'JobId=7\n   Command=%s --mock-data\n   WorkDir=%s\n' "$work/two words/job.sbatch" "$work" ;;
esac
END
# shellcheck disable=SC2016 # for that script
printf '#!/bin/sh\nfor word; do echo "$word"; done > "%s/submitted"\n' "$work" > "$work/bin/sbatch"
printf '#!/bin/sh\n' > "$work/bin/srun"
chmod +x "$work/bin/scontrol" "$work/bin/sbatch" "$work/bin/srun"
links() {
    with PATH="$work/bin:$PATH" SLURM_JOB_ID=7 SLURM_JOB_NAME=x LINKS=2 JOB_SUBMITTED_WITH="--nodes=8 --qos=a" \
        "$work/two words/job.sbatch" --mock-data || return 1
    cat "$work/submitted"
    [ "$(sed -n '3,$p' "$work/submitted")" = "--nodes=8
--qos=a
$work/two words/job.sbatch
--mock-data" ]
}
check "a chain goes on from a folder with a blank in its name" links
