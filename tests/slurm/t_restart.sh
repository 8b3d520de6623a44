#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# What interrupts jobs: a rank that is killed, a rank that hangs, a node that dies, scancel, the
# time limit, a signal before it, preemption.  Each time the chain goes on by itself from the last
# checkpoint, the losses are, as text, those of a run that nothing interrupted, and the log says
# what happened, and where.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/slurm/slurm.sh"

with_jobs "virtual 2 2 16 --bf16"

# How long an iteration takes is the delay of the network, which a file of its own says for each
# case: long at the first start, so that there is time to interrupt it, and nothing at the next
# ones.
cat >"$work/tiny.args" <<'ARGS'
--num-layers 2 --hidden-size 32 --num-attention-heads 4
--seq-length 16 --max-position-embeddings 16 --vocab-size 100 --tokenizer-type NullTokenizer --backend cpu
--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --use-distributed-optimizer
--micro-batch-size 1 --global-batch-size 2 --lr 1e-3 --lr-decay-style constant --lr-warmup-fraction 0
--mock-data --train-iters 60 --log-interval 1 --eval-iters 0
--distributed-backend slow --slow-rate 10
ARGS
delay() { echo "--slow-latency $2" >"$work/$1.speed"; }

# start CASE FILE MS NODES WORD...: a job of 2 ranks on each of two nodes, not of NODES, whose name,
# log and run are CASE, with a delay of MS; the words are options of sbatch up to --, and of trireme
# after it.  Until it has begun to train.  It is the first link of a chain, or element of an array;
# the others find what it left to do.
start() {
    start_case=$1 start_file=$2 start_options="--nodes=2 --exclude=$4 --job-name=$1 --output=$1-%j.out"
    delay "$1" "$3"
    shift 4
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        start_options="$start_options $1"
        shift
    done
    [ $# -eq 0 ] || shift
    SBATCH_OPTIONS=$start_options LINKS=4 RUN=runs/$start_case slurm "$jobs/$start_file" @tiny.args --mock-data \
        "@$start_case.speed" --save-interval 5 "$@" >"$work/$start_case.submitted" 2>&1 || {
        cat "$work/$start_case.submitted"
        return 1
    }
    wait_for 200 trains "$start_case" || { log_of "$start_case"; return 1; }
    delay "$start_case" 0
    job=$(number "$start_case")
}
number() { sed -n 's/^Submitted batch job //p' "$work/$1.submitted"; }

# Of all links of a chain, or elements of an array; those that are on the way to be queued again,
# too.
log_of() { cat "$work/$1"-*.out 2>/dev/null; }
says() { log_of "$1" | grep -qE -e "$2" || { echo "$1 does not say: $2"; return 1; }; }
trains() { says "$1" '^\[before the start of training step\]' >/dev/null; }
has_reached() { log_of "$1" | grep -q "^ iteration *$2/"; }
reached() { wait_for 200 has_reached "$1" "$2" || { log_of "$1"; return 1; }; }
queue_is_empty_of() { [ -z "$(slurm squeue -h -n "$1" -o %i || echo unknown)" ]; }

# From where it goes on, iterations stand in the log twice: with the same loss, or both stay.
losses() { sed -n 's/^ iteration *\([0-9]*\)\/.*lm loss: \([^ ]*\) .*/\1 \2/p' "$@" | sort -n -u; }
same_losses() {
    losses "$work/$1"-*.out >"$work/$1.losses"
    diff "$work/unbroken" "$work/$1.losses" || { echo "the losses of $1 are not those of the unbroken run"; return 1; }
}

# went_on CASE STARTS: the run is finished, at that start or a later one, as if nothing had been.
went_on() {
    wait_for 300 queue_is_empty_of "$1"
    says "$1" '^\[after training is done\]' || {
        slurm squeue
        log_of "$1" | grep -vE '^ iteration|^time|^\[Rank|\.\.\. ' | tail -n 60
        return 1
    }
    same_losses "$1" && grep -q '"state": "finished"' "$work/runs/$1/state" &&
        says "$1" "^\[start $2 of this run\] .* from: iteration [1-9][0-9]* in runs/$1\$" && return
    log_of "$1" | grep -E '^job:|^trireme|^srun|^slurmstepd|exiting|^\[start|^>'
    return 1
}

# process JOB RANK: its number, which is the same on all nodes.
process() {
    # shellcheck disable=SC2016 # for the shell over there
    slurm sh -c 'for p in $(pgrep -x trireme); do
        tr "\0" "\n" <"/proc/$p/environ" | grep -cx -e "SLURM_JOB_ID=$1" -e "SLURM_PROCID=$2" | grep -qx 2 && echo "$p"
    done' process "$1" "$2"
}
send() { slurm kill "-$1" "$2"; }

unbroken() {
    delay plain 0
    (cd "$work" && timeout 300 "$launch" --ranks 4 "$trireme" train @tiny.args @plain.speed --split 949,50,1 \
        --bf16) >"$work/plain.log" 2>&1 || { tail -n 20 "$work/plain.log"; return 1; }
    losses "$work/plain.log" >"$work/unbroken" && [ "$(wc -l <"$work/unbroken")" -eq 60 ]
}

# A second job is refused while the first one runs, and the first one goes on to be killed.
second_writer() {
    start rank gpt2-1.5b.sbatch 20 n[4-8] || return 1
    SBATCH_OPTIONS="--nodes=2 --exclude=n[4-8] --output=second-%j.out" RUN=runs/rank LINKS=1 \
        slurm "$jobs/gpt2-1.5b.sbatch" @tiny.args --mock-data @rank.speed >"$work/second.submitted" 2>&1
    job_ends "$(number second)" 120
    says second "another run writes into runs/rank \(job $job, host n[1-3], process [0-9]*, since" &&
        says second '^job: trireme ended with 69;' && [ -n "$(process "$job" 0)" ]
}
killed_rank() {
    job=$(number rank)
    reached rank 11 && send KILL "$(process "$job" 3)" || return 1
    went_on rank 2 && says rank 'srun: error: n[1-3]: tasks? .*3: Killed' &&
        says rank "^job: exit code 1[0-9]* may be a temporary failure: requeueing job $job" &&
        says rank "^> start 1, job $job on n\[[-,1-3]*\], was killed, or lost its nodes, after iteration"
}

# The host of the rank is left out, whichever that is.
hung_rank() {
    start hung gpt2-1.5b.sbatch 10 n[4-8] -- --distributed-timeout-minutes 15s || return 1
    reached hung 11 && send STOP "$(process "$job" 2)" || return 1
    went_on hung 2 || return 1
    host=$(log_of hung | sed -n 's/.*error: after 15 seconds: rank 2 on \(n[1-3]\) did not enter .*/\1/p')
    says hung '^job: trireme ended with 75; state: failed, next: go-on, .*: rank 2 on n[1-3] did not enter' &&
        says hung "^> start 1, job $job on .* failed with exit code 75 after iteration .*rank 2 on $host" &&
        says hung "^job: it will start without $host\$" || return 1
    last=$(grep '^> 4 ranks on 2 nodes:' "$work/hung-$job.out" | tail -n 1)
    echo "left out: $(job_field "$job" ExcNodeList); $last"
    case $(job_field "$job" ExcNodeList),$last in
    *"$host "*) false ;;
    "n[4-8],$host,"*) ;;
    *) false ;;
    esac
}

# Slurm takes half a minute to notice.
node_dies() {
    start node gpt2-1.5b.sbatch 10 n[1-5] && reached node 11 && cluster node-kill "$(dead_node)"
}
dead_node() { log_of node | sed -n 's/^> 4 ranks on 2 nodes: .*, \(n[6-8]\) 2-3$/\1/p' | head -n 1; }
job_without_node() {
    went_on node 2 && says node "Node failure on $(dead_node)\$" &&
        says node "^> start 1, job $(number node) on n\[[-,6-8]*\], was killed, or lost its nodes" &&
        cluster node-boot "$(dead_node)"
}

# The element that is cancelled saves, and the next one goes on.  Signals reach nodes one after the
# other, and the first rank that has one is named.
cancelled() {
    start cancel gpt2-345m.sbatch 10 n[4-8] --array=1-3%1 && reached cancel 7 || return 1
    slurm scancel "${job}_1" || return 1
    went_on cancel 2 && says cancel '^> rank [0-9]* on n[1-3] received SIGTERM; heard after iteration [0-9]*$' &&
        says cancel '^\[exiting program after receiving SIGTERM\.\]' &&
        says cancel "^> start 1, job ${job}_1 on n.*, stopped at iteration [0-9]*: signal SIGTERM\$"
}

# A job of another partition takes the nodes; the one that had them saves, waits, and goes on.
preempted() {
    start preempt gpt2-1.5b.sbatch 10 n[4-8] --partition=preempt && reached preempt 7 || return 1
    printf '#!/bin/sh\nsleep 2\n' >"$work/urgent.sh"
    urgent=$(submit --partition=batch --nodes=3 --nodelist=n1,n2,n3 --exclusive --time=1 urgent.sh) || return 1
    went_on preempt 2 && job_over "$urgent" && says preempt "^job: it was preempted, with everything saved: requeueing job $job\$" &&
        says preempt '^> rank [0-9]* on n[1-3] received SIGTERM; heard after iteration [0-9]*$'
}

# These wait for Slurm's clock, so they begin first and are looked at last.  A limit is a minute at
# least: the run leaves when 42 seconds are left.
limit_begins() {
    start limit gpt2-345m.sbatch 20 n[1-3,6-8] --array=1-20%1 --time=1 -- --exit-margin-in-mins 0.7
}
limit() {
    went_on limit '([2-9]|[12][0-9])' && says limit '^> the job ends at .*, in [01]\.[0-9] minutes \(squeue\)$' &&
        says limit '^\[exiting program [0-9.]* minutes before the job ends\]' &&
        says limit '^> start 1, job .* on n\[4-5\], stopped at iteration [0-9]*: job-end$'
}

# Slurm sends it up to a minute early, and the run must not leave by itself before.  By
# --signal=USR1@N all ranks get it, with B: the batch script alone, which passes it on.
signal_begins() {
    start "$1" gpt2-1.5b.sbatch 100 n[1-3,6-8] --time=3 "--signal=$2USR1@40" -- --exit-margin-in-mins 0.05
}
signalled() {
    went_on "$1" 2 && says "$1" '^> rank [0-9]* on n[45] received SIGUSR1; heard after iteration [0-9]*$' &&
        says "$1" '^\[exiting program after receiving SIGUSR1\.\]' &&
        says "$1" '^job: trireme ended with 0; state: stopped, next: go-on, signal SIGUSR1$' &&
        says "$1" '^> start 1, job [0-9]* on n\[4-5\], stopped at iteration [0-9]*: signal SIGUSR1$'
}

launch=$(cd "$srcdir/tests" && pwd)/mpirun
slurm_start --nodes 8 --cpus 8 --gpus 8 --conf KillWait=10
plan 14
check "a run that nothing interrupts" unbroken
check "jobs begin that will leave before their limit," limit_begins
check "by a signal that Slurm sends to the ranks," signal_begins usr1 ''
check "by one that it sends to the batch script" signal_begins usr1b B:
check "a node dies" node_dies
check "a second job that writes into the same run is refused" second_writer
check "a rank is killed" killed_rank
check "a job is cancelled" cancelled
check "a rank hangs" hung_rank
check "a job is preempted" preempted
check "the job that lost its node goes on" job_without_node
check "the time limit comes near" limit
check "the ranks get a signal" signalled usr1
check "the batch script gets a signal" signalled usr1b
