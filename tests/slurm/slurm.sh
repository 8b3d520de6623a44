# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: BSD-3-Clause
# What tests that need a Slurm cluster share: a virtual one (tests/cluster) for this test alone, and
# how to send jobs to it and wait for them.  Source after tap.sh.
#
#   slurm_start --nodes 4 --cpus 4     # before plan: skips all where the machine cannot; ends with the test
#   id=$(submit job.sh)                # sbatch with any options, in $work
#   job_ends "$id" 60 && [ "$(job_state "$id")" = COMPLETED ] && cat "$work/slurm-$id.out"
#
# Every wait has an end, in seconds; the limits are for machines under load, and returns come at
# once.

slurm_dir=$work/cluster
slurm_limit=300 # seconds that a single command may take
TR_WIRE=$PWD/tests/slurm/wire
export TR_WIRE

cluster() { "$srcdir/tests/cluster" --dir "$slurm_dir" "$@"; }

# slurm_start OPTION...: a cluster, with the options of `tests/cluster start`.  It ends with the
# test, and soon after its folder is gone, or in half an hour, if the test is killed.
slurm_start() {
    slurm_reason=$(cluster can "$@" 2>&1) || skip_all "${slurm_reason#cluster: }"
    trap 'cluster stop; rm -rf "$work"' EXIT
    cluster start --for 1800 --wait 120 "$@" >"$work/start.log" 2>&1 || {
        sed 's/^/# /' "$work/start.log"
        echo "Bail out! the virtual cluster does not start"
        exit 1
    }
}

# slurm COMMAND...: on the control node, in $work, as one who has logged in there.
slurm() { (cd "$work" && timeout -k 30 "$slurm_limit" "$slurm_cluster" --dir "$slurm_dir" exec "$@"); }
# on NODE COMMAND...: on that node.
on() {
    slurm_node=$1
    shift
    (cd "$work" && timeout -k 30 "$slurm_limit" "$slurm_cluster" --dir "$slurm_dir" exec --node "$slurm_node" "$@")
}
slurm_cluster=$(cd "$srcdir" && pwd)/tests/cluster

# submit [OPTION...] FILE: sbatch; prints the number of the job.
submit() { slurm sbatch --parsable "$@"; }

# job_field JOB FIELD: of `scontrol show job`, such as JobState, Reason, ExitCode, Restarts,
# NodeList.
job_field() { slurm scontrol -o show job "$1" | tr ' ' '\n' | sed -n "s/^$2=//p" | head -n 1; }
job_state() { job_field "$1" JobState; }
# What the batch script exited with; a signal counts 128 and its number, as in a shell.
job_exit() { job_field "$1" ExitCode | awk -F : '{ print $2 ? 128 + $2 : $1 }'; }

# wait_for SECONDS COMMAND...: until the command succeeds; fails after that time.
wait_for() {
    wait_end=$(($(date +%s) + $1))
    shift
    until "$@"; do
        [ "$(date +%s)" -lt "$wait_end" ] || return 1
        sleep 0.2
    done
}

# A job that was queued again is PENDING, and has not ended.
job_over() {
    case $(job_state "$1") in
    COMPLETED | FAILED | CANCELLED | TIMEOUT | NODE_FAIL | OUT_OF_MEMORY | BOOT_FAIL | DEADLINE | PREEMPTED) ;;
    *) return 1 ;;
    esac
}
job_is() { [ "$(job_state "$1")" = "$2" ]; }

# job_ends JOB SECONDS: until it is over; says where it stands if it is not.
job_ends() {
    wait_for "$2" job_over "$1" || {
        slurm squeue
        tail -n 20 "$slurm_dir/log/slurmctld.log"
        return 1
    }
}
# job_becomes JOB STATE SECONDS: until it is RUNNING, PENDING, ...
job_becomes() { wait_for "$3" job_is "$1" "$2"; }
# job_output JOB: what a batch job printed, at its default place.
job_output() { cat "$work/slurm-$1.out"; }

# node_state NODE: idle, allocated, down, ...; with what sinfo appends, such as * for no answer.
node_state() { slurm sinfo -h -N -p batch -n "$1" -o %T; }

# with_jobs LINE: the job files of this tree, in $jobs, start the program under test on the machine
# that this line of MACHINES describes; its name is virtual.
with_jobs() {
    jobs=$(cd "$srcdir/jobs" && pwd)
    TRIREME=$trireme
    TRIREME_JOBS=$jobs
    MACHINES=$work/machines
    MACHINE=virtual
    export TRIREME TRIREME_JOBS MACHINES MACHINE
    echo "$1" >"$MACHINES"
}
