#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# shellcheck disable=SC2154,SC1091
# The virtual Slurm cluster does what real ones do: MPI jobs, queues, GPUs by number, nodes that die
# and come back, slow links; and it leaves nothing behind.
. "$srcdir/tests/tap.sh"
. "$srcdir/tests/slurm/slurm.sh"
. "$srcdir/tests/train/small.sh"

# What the host has, to be compared at the end.
traces() {
    hostname
    cut -d ' ' -f 3- /proc/self/mountinfo
    ls /sys/class/net /run
}
traces >"$work/before"
slurm_start --nodes 6 --cpus 4 --gpus 4 --features fast,big
plan 27
hello=$PWD/tests/slurm/hello

# script NAME: a batch job from standard input.
script() { { echo '#!/bin/sh' && cat; } >"$work/$1"; }

# --- jobs that take their time: begun first and looked at last
# ---------------------------------------

script victim <<'END'
echo "run ${SLURM_RESTART_COUNT:-0} on $SLURM_JOB_NODELIST"
[ -n "${SLURM_RESTART_COUNT:-}" ] || sleep 600
END
script again <<'END'
echo "run ${SLURM_RESTART_COUNT:-0}"
[ -n "${SLURM_RESTART_COUNT:-}" ] || { scontrol requeue "$SLURM_JOB_ID"; sleep 600; }
END
script three <<'END'
echo "hello from $(hostname)"
exit 3
END
victim=$(submit -N 2 -w n3,n4 --open-mode=append victim)
again=$(submit -w n5 --open-mode=append again)
guest=$(submit -w n6 -p preempt --exclusive --open-mode=append victim)

# run_begins JOB: its script has printed something.
run_begins() { job_becomes "$1" RUNNING 60 && wait_for 60 grep -q 'run 0' "$work/slurm-$1.out"; }
power_off() { run_begins "$victim" && cluster node-kill n4 && ! on n4 true; }
check "a node of a running job is switched off" power_off
check "a job of the partition \`preempt' runs" run_begins "$guest"
owner=$(submit -w n6 --exclusive three)

# --- MPI ------------------------------------------------------------------------------------------

# same_hello NODES OPTION...: 4 ranks on each of the first NODES nodes print what they should.
same_hello() {
    hello_nodes=$1
    shift
    slurm srun -N "$hello_nodes" --ntasks-per-node=4 --gres=gpu:2 "$@" "$hello" >"$work/hello.out" ||
        return 1
    sort -n -k 2 "$work/hello.out" >"$work/hello.sorted"
    n=$((hello_nodes * 4)) i=0
    while [ $i -lt $n ]; do
        echo "rank $i of $n on n$((i / 4 + 1)) local $((i % 4)) of 4 gpus 0,1 ring ok"
        i=$((i + 1))
    done | diff - "$work/hello.sorted"
}
# The others have their jobs still.
check "srun starts 8 ranks on 2 nodes, which see each other and the GPUs asked for" \
    same_hello 2 -w n1,n2

gpus() {
    # shellcheck disable=SC2016 # for the shell there
    slurm srun -w n1 -N 1 --ntasks=4 --gpus-per-task=1 sh -c 'echo $CUDA_VISIBLE_DEVICES' |
        sort | tr '\n' ' '
}
each_gpu() { [ "$(gpus)" = "0 1 2 3 " ] && ! slurm srun -w n1 -N 1 --gres=gpu:5 true; }
check "each task has a GPU of its own, and a fifth one does not exist" each_gpu

features() {
    slurm srun -w n1 --constraint='fast&big' true && ! slurm srun -w n1 --constraint=v100-16g true 2>"$work/refused" &&
        grep 'Invalid feature specification' "$work/refused"
}
check "nodes have the features that are asked for, and no others" features

own_folders() {
    slurm srun -w n1,n2 -N 2 sh -c 'hostname >/run/scratch/name; hostname >/dev/shm/name' &&
        [ "$(on n1 cat /run/scratch/name /dev/shm/name | tr '\n' ' ')" = "n1 n1 " ] &&
        [ "$(on n2 cat /run/scratch/name /dev/shm/name | tr '\n' ' ')" = "n2 n2 " ] &&
        [ ! -e /dev/shm/name ]
}
check "scratch folders and shared memory are each node's own" own_folders

# --- queues
# -----------------------------------------------------------------------------------------

failing() {
    id=$(submit -w n2 three) && job_ends "$id" 60 && [ "$(job_state "$id")" = FAILED ] &&
        [ "$(job_exit "$id")" = 3 ] && [ "$(job_output "$id")" = "hello from n2" ]
}
check "a job's output and exit code arrive" failing

script long <<'END'
sleep 600
END
cancelled() {
    id=$(submit -w n1 long) && job_becomes "$id" RUNNING 60 && slurm squeue -h -j "$id" -o %T | grep -q RUNNING &&
        slurm scancel "$id" && job_ends "$id" 60 && job_is "$id" CANCELLED
}
check "a job is cancelled" cancelled

# second_run JOB: it is over, at its second try.
second_run() {
    job_ends "$1" 120 && job_is "$1" COMPLETED && [ "$(job_field "$1" Restarts)" = 1 ] &&
        [ "$(job_output "$1" | grep -c '^run [01]')" = 2 ]
}
check "a job queues itself again under its number" second_run "$again"
preempted() { job_ends "$owner" 120 && second_run "$guest"; }
check "a job of \`preempt' gives its node to one of \`batch' and runs again later" preempted

# --- the node that died
# -----------------------------------------------------------------------------

noticed() { case $(node_state n4) in down*) ;; *) return 1 ;; esac }
check "Slurm notices that the node is gone" wait_for 120 noticed

back() { [ "$(node_state n4)" = idle ]; }
revived() {
    cluster node-boot n4 && wait_for 60 back && [ "$(on n4 hostname)" = n4 ]
}
check "the node is switched on and serves again" revived

ran_twice() {
    second_run "$victim" && [ "$(job_output "$victim" | grep -c '^run [01] on n\[3-4\]$')" = 2 ]
}
check "its job was queued again and ran to its end" ran_twice

check "srun starts 16 ranks on 4 nodes, one of which was off" same_hello 4 -w 'n[1-4]'

# --- links
# ------------------------------------------------------------------------------------------

# seconds BYTES: one way between two nodes, the least of three.
seconds() {
    slurm srun -N 2 --ntasks-per-node=1 "$hello" "$1" | sed -n 's/^message .* seconds //p'
}
# A loaded machine makes a message slow, but never faster than its link.
more() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 > b + 0) }'; }
less() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 > 0 && a + 0 < b + 0) }'; }
# 4 MiB at 80 Mbit/s are 0.42 s.
slow_rate() {
    cluster shape --rate 80mbit && cluster status | grep -q 'n4: rate 80mbit, delay none' &&
        more "$(seconds 4194304)" 0.38
}
check "a link with a rate is as slow as that" slow_rate
slow_delay() { cluster shape --delay 60ms && more "$(seconds 8)" 0.059; }
check "a link with a delay is as late as that" slow_delay
# Two sites of three nodes: 4 MiB to the other one at 80 Mbit/s, and 60 ms; at 10 Gbit/s and no
# delay inside one.
cat >"$work/links" <<'END'
group here 0-2   # n1 to n3
group there 3,4,5
rate 10 0.08
     0.08 10
latency 0 60
        60 0
END
between() {
    slurm srun -N 2 -w "$1" --ntasks-per-node=1 "$hello" "$2" | sed -n 's/^message .* seconds //p'
}
sites() {
    cluster shape --slow-links "$work/links" && cluster status | grep -q "n4: links of $work/links" &&
        more "$(between n3,n4 4194304)" 0.48 && more "$(between n3,n4 8)" 0.059
}
check "two sites have links of their own" sites
inside_one() { less "$(between n5,n6 8)" 0.059 && less "$(between n1,n2 4194304)" 0.38; }
inside() { wait_for 120 inside_one; }
check "and none inside" inside
printf 'group a 0-1\nrate 1\n' >"$work/bad"
fails "a node without a group" 64 "node 2 is in no group" cluster shape --slow-links "$work/bad"
printf 'rate 1 1 1\n' >"$work/bad"
fails "a matrix that is too small" 64 "rate needs 36 numbers" cluster shape --slow-links "$work/bad"
quick_again() {
    quick_time=$(seconds 4194304)
    echo "4 MiB take $quick_time s"
    less "$quick_time" 0.38 && less "$(seconds 8)" 0.059
}
unshaped() { cluster shape off && wait_for 120 quick_again; }
check "links are quick again" unshaped

# --- trireme
# ----------------------------------------------------------------------------------------

check "a dataset is built" small_corpus
# By Slurm, and not as tests/mpirun starts ranks.
train_on_nodes() (
    # shellcheck disable=SC2317 # small() calls it
    ranks() {
        shift
        OMP_NUM_THREADS=1 slurm srun -N 4 --ntasks-per-node=4 "$@"
    }
    small "$@" --train-iters 3 --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2
)
one_machine() { small 1 --train-iters 3 >"$work/one.log" 2>&1 && losses "$work/one.log" 3 >"$work/one"; }
four_nodes() {
    train_on_nodes 16 >"$work/four.log" 2>&1 || {
        tail -n 20 "$work/four.log"
        return 1
    }
    losses "$work/four.log" 3 >"$work/four"
}
same_losses() {
    one_machine && four_nodes && [ "$(wc -l <"$work/one")" -eq 3 ] &&
        close_losses "$work/one" "$work/four" 1e-5
}
check "trireme on 4 nodes of 4 ranks has the losses of one rank" same_losses

# Somebody at a terminal of the node of rank 0 sees the short form, and a file has Megatron's.
here="OMP_NUM_THREADS=1 srun -N 1 -n 2 -w n1 '$trireme' train --num-layers 1 --hidden-size 32
    --num-attention-heads 2 --seq-length 16 --max-position-embeddings 16 --vocab-size 64 --mock-data
    --micro-batch-size 1 --global-batch-size 2 --train-iters 2 --lr 1e-3
    --eval-iters 0 --log-interval 1"
at_a_terminal() {
    on n1 script -qec "$(echo "$here" | tr '\n' ' ')" /dev/null </dev/null >"$work/seen" 2>&1
    on n1 sh -c "$(echo "$here" | tr '\n' ' ')" >"$work/kept" 2>&1
    cat "$work/seen" "$work/kept"
    grep -q '^training is done: 2 iterations' "$work/seen" &&
        ! grep -q '^ iteration ' "$work/seen" &&
        [ "$(grep -c '^ iteration ' "$work/kept")" = 2 ]
}
check "the short form below srun at a terminal" at_a_terminal

# What two servers that compress send over links of 200 Mbit/s is the formula of
# docs/data-parallel.md for each replica and step, and what the link adds: 66 bytes of headers to
# 1448, and answers to what comes.  Beginning and end are what a run of 2 steps has, so that the 4
# more of one of 6 are left.
wide="--num-layers 2 --hidden-size 256 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32
    --vocab-size 256 --mock-data --micro-batch-size 1 --global-batch-size 2 --lr 1e-4 --eval-iters 0 --log-interval 1"
left_node() { on n1 cat /proc/self/net/dev | awk '/eth0:/ { print $10 }'; }
# sent_of BITS STEPS: bytes that leave the first node.
sent_of() {
    sent_from=$(left_node)
    # shellcheck disable=SC2086 # words
    OMP_NUM_THREADS=1 slurm srun -N 2 -w n1,n2 --ntasks-per-node=1 "$trireme" train $wide --train-iters "$2" \
        --dp-mode sharded_ps_compressed --dp-bits "$1" --train-warmup-steps 1 >"$work/sent.log" 2>&1 || { tail -n 5 "$work/sent.log"; return 1; }
    echo $(($(left_node) - sent_from))
}
# Two layers of 12 H^2 + 13 H, tokens, positions and the last norm, to a multiple of 2048 for each
# of two replicas; b bits and a scale for 64 numbers in fp16, or fp32.
on_the_wire() {
    for bits in 4 32; do
        { few=$(sent_of $bits 2) && many=$(sent_of $bits 6); } || return 1
        awk -v bits=$bits -v bytes=$((many - few)) 'BEGIN {
            n = 2 * (12 * 256 * 256 + 13 * 256) + (256 + 32 + 2) * 256
            step = bits == 32 ? 4 * n : int((n + 4095) / 4096) * 4096 * (bits + 1 / 32) / 8
            printf "%d bits: %.0f bytes a step, the formula has %.0f, %.3f\n", bits, bytes / 4, step, bytes / 4 / step
            exit !(bytes > 4 * step && bytes < 1.1 * 4 * step) }' || return 1
        # No exchange is faster than its link, but for what may leave at once.
        sed -n 's/.*grads-all-reduce-transfer: //p' "$work/sent.log" | awk -v bytes=$(((many - few) / 4)) '
            { print "in " $1 " ms"; n++; bad += $1 < 0.9 * bytes * 8e3 / 200e6 } END { exit n != 6 || bad }' || return 1
    done
}
on_shaped_links() { cluster shape --rate 200mbit && on_the_wire && cluster shape off; }
check "servers that compress send what their formula says" on_shaped_links

# --- two clusters, and nothing left
# -----------------------------------------------------------------

# The other one belongs to an ordinary user where there is one that may: root cannot be told from
# it.
other() {
    if [ "$(id -u)" -eq 0 ]; then
        setpriv --reuid=nobody --regid=nogroup --clear-groups \
            env HOME=/ "$slurm_cluster" --dir "$work/other/cluster" "$@"
    else
        "$slurm_cluster" --dir "$work/other/cluster" "$@"
    fi
}
trap 'other stop 2>/dev/null; cluster stop; rm -rf "$work"' EXIT
space_of() { readlink "/proc/$(pgrep -P "$(cut -d ' ' -f 1 "$1/pid")" | head -n 1)/ns/pid"; }
emptied() {
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/ns/pid" 2>/dev/null)" != "$1" ] || return 1
    done
}
one_pid() {
    mkdir "$work/other" && chmod 755 "$work" && chmod 777 "$work/other" &&
        (cd "$work/other" && other start --nodes 2 --gpus 0 --for 1800 --wait 120) || return 1
    space=$(space_of "$work/other/cluster")
    [ "$(cd "$work/other" && other exec srun -N 2 hostname | sort | tr '\n' ' ')" = "n1 n2 " ] &&
        slurm srun -N 4 true && kill -KILL "$(cut -d ' ' -f 1 "$work/other/cluster/pid")" &&
        wait_for 30 emptied "$space" && slurm srun -N 4 true
}
if [ "$(id -u)" -eq 0 ] && ! (cd / && other can) >"$work/can.log" 2>&1; then
    skip "a second cluster, of an ordinary user, beside it; one kill ends it" "$(cat "$work/can.log")"
else
    check "a second cluster, of an ordinary user, beside it; one kill ends it" one_pid
fi

nothing_left() {
    space=$(space_of "$slurm_dir")
    submit -N 4 long && [ -n "$space" ] && ! emptied "$space" && cluster stop && wait_for 30 emptied "$space" &&
        ! cluster status && traces | diff "$work/before" -
}
check "after stop no process, mount or interface is left" nothing_left
