# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
#
# Functions for job files.  A job file is directives, its arithmetic, and
#
#     . "${TRIREME_JOBS:-jobs}/lib.sh" || exit 69
#     job 16 "$@"                         # GPUs, and the arguments of the file
#     train @"$models/study-7.5b.args"    # on all of them
#
# so that it can be used in these ways:
#
#     sbatch jobs/study-7.5b.sbatch [OPTION...]       as it is: its directives are for 4 V100 a node, or for
#                                                     the nodes of the MACHINE that the file names
#     jobs/study-7.5b.sbatch [OPTION...]              submits itself, for the nodes of MACHINE
#     jobs/study-7.5b.sbatch --dry-run [OPTION...]    prints what would be submitted and run
#     jobs/yuan-ddp.sbatch --toy [OPTION...]          runs the same options at a small size on random tokens, on
#                                                     two cores of this machine, or on the licences that Debian
#                                                     installs (jobs/toy.sh); for files that call `toy`
#
# OPTIONs are options of `trireme train` and come last, where they count.  Environment:
#
#   MACHINE        a line of jobs/machines; v100-16g, or      SBATCH_OPTIONS  more for sbatch, such as
#                  the one that the file names                                "--account=abc@v100 --time=2:00:00"
#   MACHINES       another such file
#   RUN            folder of the run: checkpoints, state;     TRIREME         the program; the one next to
#                  runs/JOBNAME                                               this file, or that of PATH
#   DATA_PATH, VOCAB_FILE, MERGE_FILE    of training jobs
#   MODEL, WEIGHTS    of fine-tuning: the folder of a published model, and what `trireme ckpt import` made of it
#   TASK_DIR          of weighted tasks: where they are (docs/tasks.md)
#   MAX_REQUEUES   how often a job may be requeued if it fails in a way that may be temporary; 3
#   MPIEXEC        the launcher of --toy; mpiexec
#
# A job that reaches its end exits with trireme's exit code.  What that means for a chain is decided
# in finish(), from the run's state file.

trireme_jobs=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# For job files.
# shellcheck disable=SC2034
models=$trireme_jobs/models

say() { echo "job: $*"; }
# count NUMBER NAME: "1 node", "2 nodes".
count() {
    if [ "$1" -eq 1 ]; then echo "$1 $2"; else echo "$1 $2s"; fi
}
stop() {
    local code=$1
    shift
    echo "job: $*" >&2
    exit "$code"
}

# The program of a build next to jobs/, of the installation that jobs/ belongs to, or of PATH.
find_trireme() {
    local try
    for try in "${TRIREME:-}" "$trireme_jobs/../build/trireme" "$trireme_jobs/../../../bin/trireme" \
        "$(command -v trireme)"; do
        [ -x "$try" ] || continue
        [ "$(basename "$try")" = "$try" ] || try=$(cd "$(dirname "$try")" && pwd)/$(basename "$try")
        trireme=$try
        return
    done
    stop 69 "there is no trireme to run: build it with jobs/setup, load its module, or set TRIREME"
}

# Input from tables, files and the environment is checked before it is used: bash evaluates the text
# of a number as an expression, and runs commands in it.

# is_whole TEXT: digits, as people write numbers.
is_whole() {
    case $1 in
    '' | *[!0-9]* | 0[0-9]* | ??????????*) return 1 ;;
    esac
}
# whole NAME TEXT [WHAT]: or the job ends.
whole() { is_whole "$2" || stop 64 "$1 is a whole number${3:+ in $3}, not \`$2'"; }

# letters NAME TEXT FILE: what names and options of Slurm are made of.
letters() {
    case $2 in
    '' | *[!A-Za-z0-9._=:,%@+/\&\|*\(\)\[\]-]*)
        stop 64 "$1 in $3 holds other characters than names and options of Slurm have: \`$2'" ;;
    esac
}

check_machine() {
    local file=$1 word
    letters "the name of a machine" "$machine" "$file"
    whole "GPUs of $machine" "$node_gpus" "$file"
    whole "cores of $machine" "$node_cores" "$file"
    [ "$gpu_memory" = - ] || whole "memory of $machine" "$gpu_memory" "$file"
    case ${precision%,--attention-dropout=0} in
    --fp16 | --bf16) ;;
    *) stop 64 "precision of $machine is --fp16 or --bf16 in $file, not \`$precision'" ;;
    esac
    read -r -a machine_words <<<"$machine_sbatch"
    for word in "${machine_words[@]}"; do
        letters "an sbatch option of $machine" "$word" "$file"
    done
}

# The line of MACHINE.
find_machine() {
    local file=${MACHINES:-$trireme_jobs/machines} name=${MACHINE:-v100-16g} found
    if [ ! -f "$file" ] || [ ! -r "$file" ]; then
        stop 64 "MACHINES=$file is no file that can be read"
    fi
    found=$(awk -v name="$name" '$1 == name { print; exit }' "$file")
    [ -n "$found" ] || stop 64 "MACHINE=$name is not in $file, which has$(awk \
        '!/^#/ && NF { printf " %s", $1 }' "$file")"
    read -r machine node_gpus node_cores gpu_memory precision machine_sbatch <<<"$found"
    check_machine "$file"
    whole MAX_REQUEUES "${MAX_REQUEUES:-3}"
    ranks_per_node=$((node_gpus > 0 ? node_gpus : 4))
    cores_per_rank=$((node_cores / ranks_per_node))
}

# job RANKS WORD...: outside Slurm, submit this file or, with --dry-run, say how; inside, get ready.
# A job of RANKS GPUs takes as many nodes as have them, or a part of a node.
job() {
    job_ranks=$1
    shift
    dry_run='' small=''
    case ${1:-} in
    --dry-run) dry_run=yes ;;
    --toy) small=yes ;;
    esac
    [ -z "$dry_run$small" ] || shift
    job_options=("$@")
    find_machine
    find_trireme
    if [ -n "$small" ]; then
        begin_small
    elif [ -z "${SLURM_JOB_ID:-}" ] || [ -n "$dry_run" ]; then
        submit
    else
        begin
    fi
}

job_name() { sed -n 's/^#SBATCH --job-name=//p' "$0"; }

# Options of sbatch and salloc for job_ranks GPUs of the machine, in `with`.
node_options() {
    nodes=$(((job_ranks + ranks_per_node - 1) / ranks_per_node))
    if [ "$job_ranks" -lt "$ranks_per_node" ]; then
        ranks_per_node=$job_ranks
        [ "$node_gpus" -eq 0 ] || node_gpus=$job_ranks
    fi
    with=("--nodes=$nodes" "--ntasks-per-node=$ranks_per_node" "--cpus-per-task=$cores_per_rank")
    if [ "$node_gpus" -gt 0 ]; then
        with+=("--gres=gpu:$node_gpus")
    else
        with+=(--gres=none)
    fi
    read -r -d '' -a site_words <<<"${SBATCH_OPTIONS:-}"
    with+=("${machine_words[@]}" "${site_words[@]}")
}

# Submit this file, with options that its directives lack, or that override them.
submit() {
    local command
    run=${RUN:-runs/$(job_name)}
    node_options
    command=(sbatch "${with[@]}" "$0" "${job_options[@]}")
    if [ -n "$dry_run" ]; then
        say "$machine: $(count "$nodes" node), $(count "$ranks_per_node" rank) on each," \
            "$(count "$cores_per_rank" core) for each"
        say "would submit: MACHINE=$machine RUN=$run ${command[*]}"
        return
    fi
    command -v sbatch >/dev/null ||
        stop 69 "there is no sbatch here to submit $0 with: log in to the cluster, or add --dry-run"
    export MACHINE=$machine RUN=$run TRIREME=$trireme TRIREME_JOBS=$trireme_jobs
    export JOB_SUBMITTED_WITH="${with[*]}"
    exec "${command[@]}"
}

# In an interactive allocation: define the functions and print nothing.
session() {
    dry_run='' small='' job_options=()
    find_machine
    find_trireme
    environment
}

# The environment of srun and MPI.
environment() {
    # Slurm's default way for ranks of several nodes to find each other crashes MPI_Init now and
    # then.
    export SLURM_PMIX_FENCE=${SLURM_PMIX_FENCE:-ring}
    # srun no longer takes this from the job (Slurm 22.05 and newer).
    [ -z "${SLURM_CPUS_PER_TASK:-}" ] || export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
    # Waiting ranks must not take the core from those that compute.
    [ "$(nproc)" -ge "${SLURM_NTASKS_PER_NODE:-1}" ] || export OMPI_MCA_mpi_yield_when_idle=1
}

# toy WORD...: before `job`, the options that --toy adds.
toy() { small_options=("$@"); }

# With --toy: nothing of it is kept.
begin_small() {
    [ -n "${small_options:-}" ] || stop 64 "$(job_name) has no small size: --toy is for files that set one; see --dry-run"
    small_ranks=$((job_ranks < 2 ? job_ranks : 2))
    run=$(mktemp -d "${TMPDIR:-/tmp}/$(job_name).XXXXXX") || exit 74
    trap 'rm -rf "$run"' EXIT
    # shellcheck source=jobs/toy.sh
    . "$trireme_jobs/toy.sh"
    environment
    export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
}

# Inside the job, before anything runs.
begin() {
    run=${RUN:-runs/$SLURM_JOB_NAME}
    mkdir -p "$run" || stop 74 "cannot make $run: set RUN to a folder that all nodes can write"
    environment
    say "$SLURM_JOB_NAME: job $SLURM_JOB_ID on ${SLURM_JOB_NODELIST:-?}, started $(date +%FT%T)," \
        "requeued ${SLURM_RESTART_COUNT:-0} times"
    say "the run is in $run: trireme ctl $run status|save|stop"
}

# launch WORD...: trireme on all ranks of the job; returns its exit code.  A rank that dies takes
# the others with it, and one that hangs at the end is given a minute.
launch() {
    local command=(srun --kill-on-bad-exit=1 --wait=60 --mpi=pmix "$trireme" "$@") code=0
    [ -z "$small" ] || command=("${MPIEXEC:-mpiexec}" -n "$small_ranks" "$trireme" "$@" --backend cpu)
    say "${dry_run:+would run: }${command[*]}"
    if [ -n "$dry_run" ]; then
        plan_memory "$@"
        return
    fi
    # In the background: bash acts on signals only while it waits.  USR1 comes to the batch script
    # alone when sbatch has --signal=B:USR1@SECONDS; TERM comes to the ranks as well, which save and
    # exit.
    "${command[@]}" &
    local srun=$! last
    trap 'kill -USR1 $srun 2>/dev/null' USR1
    trap : TERM
    while wait $srun || code=$?; kill -0 $srun 2>/dev/null; do
        code=0
    done
    # When a signal ended the last wait its code is not srun's; 127 means that it was reported
    # already.
    last=0
    wait $srun || last=$?
    [ $last -eq 127 ] || code=$last
    trap - USR1 TERM
    return $code
}

# plan_memory WORD...: the memory that its ranks need, and that a GPU has; trireme says why it would
# not start.
plan_memory() {
    local output
    [ "$1" = train ] || return 0
    output=$("$trireme" "$@" --dry-run --world-size "$((nodes * ranks_per_node))" 2>&1) ||
        stop $? "$(tail -n 1 <<<"$output")"
    say "$(sed -n 's/^largest of all ranks: /the fullest rank would plan with /p' <<<"$output")," \
        "besides what CUDA and NCCL take$([ "$gpu_memory" = - ] || echo "; a GPU has $gpu_memory GiB")"
}

# The options to train with from the line of the machine, in `machine_options`.
read_machine_options() {
    machine_options=()
    [ -z "$precision" ] || IFS=, read -r -a machine_options <<<"$precision"
    case $precision in
    *,--attention-dropout=0)
        say "--attention-dropout is 0 on $machine, because cuDNN computes attention there and does no" \
            "dropout: --attention-dropout 0.1 behind the job file brings it back, with slower kernels" ;;
    esac
}

# train WORD...: start or resume training, in the precision of the machine, with the options of the
# job file and of the command line; then act on the state of the run.  It starts with WEIGHTS, where
# the job file asked for them, and as soon as it has a checkpoint of its own with that.
train() {
    local code=0 load=(--load "$run")
    read_machine_options
    [ -z "${weights:-}" ] || compgen -G "$run/iter_*" >/dev/null || load=(--load "$weights" --finetune)
    launch train "$@" "${machine_options[@]}" --exit-signal-handler --exit-signal SIGTERM SIGUSR1 \
        --save "$run" "${load[@]}" ${small:+"${small_options[@]}"} "${job_options[@]}" || code=$?
    [ -z "$small" ] || exit $code
    [ -n "$dry_run" ] || finish $code
}

# study WORD...: train without a checkpoint, for the times in the log; returns trireme's exit code.
study() {
    read_machine_options
    launch train "$@" "${machine_options[@]}" ${small:+"${small_options[@]}"} "${job_options[@]}"
}

# A member of the state file; nothing if there is none, or if it is empty or null.  What a terminal
# would obey is left out.
state_of() {
    [ -f "$run/state" ] || return 0
    sed -n -e 's/,$//' -e "s/^ *\"$1\": null\$//" -e "s/^ *\"$1\": \"\(.*\)\"\$/\1/p" \
        -e "s/^ *\"$1\": \([0-9].*\)\$/\1/p" "$run/state" 2>/dev/null |
        sed 's/\\"/"/g' | LC_ALL=C tr -d '\001-\011\013-\037\177'
}
# Did this start of this job write it?
state_is_ours() {
    [ "$(state_of job)" = "$SLURM_JOB_ID" ] && [ "$(state_of restart)" = "${SLURM_RESTART_COUNT:-0}" ]
}

preempted() {
    case $(scontrol -o show job "$SLURM_JOB_ID" 2>/dev/null) in
    *PreemptTime=None* | *PreemptTime=Unknown*) return 1 ;;
    *PreemptTime=*) return 0 ;;
    *) return 1 ;;
    esac
}

# finish CODE: queue the job again, end the chain, or just end.  The highest exit code of all ranks
# hides others where a rank was killed: then the state file has the word.
finish() {
    local code=$1 next reason
    next=$(state_of next)
    reason=$(state_of reason)
    say "trireme ended with $code; state: $(state_of state), next: ${next:-unknown}${reason:+, $reason}"
    if [ "$code" -eq 0 ] && preempted; then
        again "it was preempted, with everything saved"
    elif [ "$code" -eq 75 ] || { [ "$code" -gt 128 ] && [ -n "$(state_of checkpoint)" ]; }; then
        if [ "${SLURM_RESTART_COUNT:-0}" -ge "${MAX_REQUEUES:-3}" ]; then
            end_chain "exit code $code, and it was requeued $(count "$SLURM_RESTART_COUNT" time) before," \
                "no more than MAX_REQUEUES=${MAX_REQUEUES:-3}"
        else
            again "exit code $code may be a temporary failure"
            [ "$code" -ne 75 ] || leave_out
        fi
    elif [ "$code" -ne 0 ]; then
        end_chain "exit code $code needs somebody to look at it"
    elif [ "$next" = "done" ]; then
        end_chain "the run is finished"
    fi
    exit "$code"
}

# again WHY: this job once more, with the same number.
again() {
    # Slurm ends this script as soon as it has the job in the queue; what the script still asks of
    # Slurm must not be interrupted.
    trap '' TERM
    say "$1: requeueing job $SLURM_JOB_ID"
    scontrol requeue "$SLURM_JOB_ID" || say "Slurm does not requeue it: submit it yourself, it goes on" \
        "from iteration $(state_of checkpoint)"
}

# leave_out: exclude the host that the failure points at from the job that was just requeued, and
# from the pending elements of its array.  Where Slurm does not accept that, or too few nodes would
# be left, somebody has to decide.
leave_out() {
    local suspect out tries=25
    state_is_ours && suspect=$(state_of suspect) && [ -n "$suspect" ] || return 0
    case $suspect in
    *[!A-Za-z0-9.,_-]*) return 0 ;;
    esac
    out=$(scontrol -o show job "$SLURM_JOB_ID" | sed -n 's/.* ExcNodeList=\([^ (]*\).*/\1/p')
    out=${out:+$out,}$suspect
    if sbatch --test-only --partition="$SLURM_JOB_PARTITION" --nodes="$SLURM_JOB_NUM_NODES" \
        ${SLURM_JOB_ACCOUNT:+--account="$SLURM_JOB_ACCOUNT"} --exclude="$out" --wrap=true >/dev/null 2>&1; then
        while [ $tries -gt 0 ]; do
            if scontrol update jobid="$SLURM_JOB_ID" ExcNodeList="$out" 2>/dev/null; then
                say "it will start without $suspect"
                [ -z "${SLURM_ARRAY_JOB_ID:-}" ] ||
                    scontrol update jobid="$SLURM_ARRAY_JOB_ID" ExcNodeList="$out" >/dev/null 2>&1
                return 0
            fi
            tries=$((tries - 1))
            sleep 0.2
        done
    fi
    say "Slurm does not leave out $suspect; if it fails there again, submit with --exclude=$out"
}

# end_chain WHY...: elements of this array that still wait would only fail, or find nothing to do.
end_chain() {
    say "$*"
    [ -n "${SLURM_ARRAY_JOB_ID:-}" ] || return 0
    say "taking the waiting elements of array $SLURM_ARRAY_JOB_ID out of the queue"
    scancel --state=PENDING "$SLURM_ARRAY_JOB_ID" || true
}

# The job file as it was submitted, since $0 is a copy.  Its arguments follow its name, which may
# have blanks.
job_file() {
    local file
    file=$(scontrol show job "$SLURM_JOB_ID" | sed -n 's/^ *Command=//p')
    while [ -n "$file" ] && [ ! -f "$file" ]; do
        case $file in
        *' '*) file=${file% *} ;;
        *) file= ;;
        esac
    done
    echo "${file:-the job file, which Slurm does not name}"
}

# chain LINKS: submit the next link of a chain of jobs, before this one runs: it starts when this
# one has ended well, and never if not.  It is this file again, submitted as this one was.
chain() {
    local links=${LINKS:-$1} file
    whole LINKS "$links"
    [ -z "$small" ] || return 0
    if [ -n "$dry_run" ]; then
        say "$(count "$links" link), each submitted by the one before it"
        return
    fi
    [ "$links" -gt 1 ] && [ "${SLURM_RESTART_COUNT:-0}" -eq 0 ] && [ "$(state_of next)" != "done" ] ||
        return 0
    file=$(job_file)
    read -r -a with <<<"${JOB_SUBMITTED_WITH:-}"
    LINKS=$((links - 1)) sbatch --dependency=afterok:"$SLURM_JOB_ID" --kill-on-invalid-dep=yes \
        "${with[@]}" "$file" "${job_options[@]}" ||
        say "the next link is not submitted: submit it yourself when this one has ended"
}

# data: the dataset of a training job, in data_options; random tokens with --mock-data.
data() {
    data_options=()
    [ -z "$small" ] || return 0
    case " ${job_options[*]} " in
    *" --mock-data "* | *" --data-path "*) return ;;
    esac
    if [ -n "$dry_run" ] && [ -z "${DATA_PATH:-}" ]; then
        say "DATA_PATH is not set: shown with --mock-data"
        data_options=(--mock-data --vocab-size 50257)
        return
    fi
    [ -n "${DATA_PATH:-}" ] ||
        stop 64 "DATA_PATH is not set, and there is nothing to learn from: export DATA_PATH=PREFIX of a" \
            ".bin and .idx (trireme help data), or add --mock-data"
    # shellcheck disable=SC2206 # weights and prefixes are words
    data_options=(--data-path $DATA_PATH)
    [ -z "${VOCAB_FILE:-}" ] || data_options+=(--vocab-file "$VOCAB_FILE")
    [ -z "${MERGE_FILE:-}" ] || data_options+=(--merge-file "$MERGE_FILE")
}

# published_model WORD...: the run begins with the weights of a published model, and the model and
# its tokenizer are given by them, in model_options.  The words are a model to show with --dry-run
# where none is given.
published_model() {
    if [ -n "$dry_run" ] && [ -z "${WEIGHTS:+${DATA_PATH:-}}" ]; then
        say "WEIGHTS and DATA_PATH are not both set: shown for $2"
        model_options=("$@")
        return
    fi
    [ -n "${WEIGHTS:-}" ] ||
        stop 64 "WEIGHTS is not set, and there is nothing to fine-tune: export WEIGHTS=FOLDER that" \
            "\`trireme ckpt import\` made (docs/finetuning.md)"
    [ -n "${MODEL:-}" ] ||
        stop 64 "MODEL is not set, and nobody knows which tokenizer made the tokens: export MODEL=FOLDER of" \
            "the model that WEIGHTS=$WEIGHTS comes from"
    weights=$WEIGHTS
    model_options=(--use-checkpoint-args --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$MODEL")
}

# model_folder FAMILY WORD...: the run begins with the model in the folder MODEL, with its
# tokenizer; the family and the words are that model, to show with --dry-run where MODEL is not set.
# Before it, task_data, file_data or class_data.
model_folder() {
    weights=${MODEL:-}
    if [ -n "$small" ]; then
        weights=$run/model
        toy_folder "$weights" "$1" ${toy_model:+"${toy_model[@]}"}
    elif [ -n "$dry_run" ] && [ -z "${MODEL:+${data_given:-}}" ]; then
        say "MODEL and the data are not both set: shown for $1 with --mock-data"
        model_options=(--model-family "$@")
        data_options=(--mock-data "${mock_options[@]}")
        weights=''
        return
    fi
    [ -n "$weights" ] ||
        stop 64 "MODEL is not set, and there is no model to begin with: export MODEL=FOLDER of a published one, with" \
            "config.json, weights and tokenizer (docs/weights.md)"
    model_options=(--use-checkpoint-args --tokenizer-type HuggingFaceTokenizer --tokenizer-model "$weights")
}

# empty_model FAMILY WORD...: the same without its weights, which are random: config.json and the
# tokenizer.
empty_model() {
    model_folder "$@"
    [ -z "$weights" ] || model_options=(--load-config "$weights" "${model_options[@]:1}")
    weights=''
}

# task_data TASKS [WORD...]: weighted tasks in the folder TASK_DIR, and what else belongs to them.
task_data() {
    local folder=${TASK_DIR:-}
    data_given=$folder mock_options=()
    if [ -n "$small" ]; then
        folder=$run/tasks
        toy_tasks "$folder"
    elif [ -z "$folder" ] && [ -z "$dry_run" ]; then
        stop 64 "TASK_DIR is not set, and there is nothing to learn from: export TASK_DIR=FOLDER with the data of $1" \
            "(docs/tasks.md)"
    fi
    data_options=(--task-name "$1" --task-dir "$folder" "${@:2}")
}

# file_data BLOCKS [WORD...]: DATA_PATH-train_text_document to learn from and
# DATA_PATH-test_text_document to measure with.  --dry-run assumes BLOCKS samples where DATA_PATH is
# not set; the words are for `trireme data build`, with --toy.
file_data() {
    local prefix=${DATA_PATH:-}
    data_given=$prefix mock_options=(--data-blocks "$1")
    if [ -n "$small" ]; then
        prefix=$run/text
        toy_tokenizer "$run/tokenizer"
        toy_dataset "$prefix" --tokenizer-model "$run/tokenizer" "${@:2}"
    elif [ -z "$prefix" ] && [ -z "$dry_run" ]; then
        stop 64 "DATA_PATH is not set, and there is nothing to learn from: export DATA_PATH=PREFIX of" \
            "PREFIX-train_text_document and PREFIX-test_text_document (docs/tasks.md)"
    fi
    data_options=(--train-data-path "$prefix-train_text_document" --valid-data-path "$prefix-test_text_document")
}

# class_data TASK ROWS: the rows of a task of sequence classification in the folder TASK_DIR.
# --dry-run assumes ROWS of them where TASK_DIR is not set.
class_data() {
    local folder=${TASK_DIR:-}
    data_given=$folder mock_options=(--data-blocks "$2" --num-labels 2) toy_model=(--num-labels 2)
    if [ -n "$small" ]; then
        folder=$run/glue
        toy_classes "$folder"
    elif [ -z "$folder" ] && [ -z "$dry_run" ]; then
        stop 64 "TASK_DIR is not set, and there is nothing to learn from: export TASK_DIR=FOLDER with the rows of $1" \
            "(docs/classification.md)"
    fi
    data_options=(--task-name "$1" --task-dir "$folder")
}
