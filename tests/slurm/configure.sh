# shellcheck shell=sh disable=SC2154,SC2034
# SPDX-License-Identifier: BSD-3-Clause
# The files that a virtual cluster reads; sourced by tests/cluster.  Everything lies in $dir,
# everything else comes from the settings of `start`: $nodes $cpus $gpus $features $memory
# $accounting $conf (lines), and $machines, the table whose jobs are to run: what they ask sbatch
# for is there.
#
# What real sites have was the model where it matters to a job: KillOnBadExit=1, JobRequeue as Slurm
# has it, no RequeueExit (few sites set it), tasks that are not bound, a time limit of minutes by
# default. Waits that a site makes long are short: a credential expires in 5 s (a requeued job waits
# that long and one more), a dead node is noticed in half a minute, the scheduler runs at every
# change.

net=10.77.0

# asked LONG SHORT: the values of that option of sbatch in the table, a line each.
asked() {
    awk -v long="--$1" -v short="-$2" '!/^#/ {
        for (i = 6; i <= NF; i++)
            if ($i == long || $i == short) print $(++i)
            else if (index($i, long "=") == 1) print substr($i, length(long) + 2)
            else if (index($i, short) == 1) print substr($i, 3)
    }' "$machines"
}

# names [NAME...]: each name of standard input once, but for these; of [a*2|b], a and b.
names() {
    tr -s '&|,*()[]' '\n' | grep -x '[A-Za-z0-9._-]*' | grep -vx '[0-9]*' | sort -u | while read -r name; do
        case " $* " in
        *" $name "*) ;;
        *) echo "$name" ;;
        esac
    done
}

write_slurm_conf() {
    [ "$features" != table ] || features=$(asked constraint C | names | paste -s -d ,)
    cat <<END
ClusterName=virtual
SlurmctldHost=ctl($net.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=cred_expire=5
CredType=cred/munge
StateSaveLocation=$dir/state
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/slurmd.%n.log
SlurmdSpoolDir=/run/slurm/%n
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.%n.pid
TmpFS=/run/scratch
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog=$dir/etc/task-prolog
JobCompType=jobcomp/filetxt
JobCompLoc=$dir/log/jobs
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
GresTypes=gpu
MpiDefault=pmix
KillOnBadExit=1
KillWait=5
ReturnToService=2
SlurmctldTimeout=20
SlurmdTimeout=20
InactiveLimit=0
SchedulerParameters=sched_min_interval=0,sched_interval=5,bf_interval=5
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
END
    if [ "$accounting" = yes ]; then
        cat <<END
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=ctl
AccountingStorageTRES=gres/gpu
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
END
    else
        cat <<END
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
END
    fi
    gres=
    [ "$gpus" -eq 0 ] || gres="Gres=gpu:$gpus"
    echo "NodeName=DEFAULT CPUs=$cpus RealMemory=$memory $gres ${features:+Feature=$features} State=UNKNOWN"
    i=0
    while [ $i -lt "$nodes" ]; do
        i=$((i + 1))
        echo "NodeName=n$i NodeAddr=$net.$((10 + i))"
    done
    # Jobs of `batch` and `cpu` take nodes from those of `preempt`, which are queued again.
    cat <<END
PartitionName=DEFAULT Nodes=ALL DefaultTime=10 MaxTime=INFINITE State=UP
PartitionName=batch Default=YES PriorityTier=10 PreemptMode=OFF
PartitionName=cpu PriorityTier=10 PreemptMode=OFF
PartitionName=preempt PriorityTier=1 PreemptMode=REQUEUE GraceTime=10
END
    asked partition p | names batch cpu preempt DEFAULT |
        sed 's/.*/PartitionName=& PriorityTier=10 PreemptMode=OFF/'
    [ -z "$conf" ] || printf '%s\n' "$conf" # of two lines the later one counts
}

# A GPU's file must be a device, or a link to one; CUDA_VISIBLE_DEVICES has the number at its end.
write_gres_conf() {
    i=0
    while [ $i -lt "$gpus" ]; do
        ln -s /dev/null "$dir/gpu/nvidia$i"
        i=$((i + 1))
    done
    [ "$gpus" -eq 0 ] || echo "Name=gpu File=$dir/gpu/nvidia[0-$((gpus - 1))]"
}

# With the tree that is Slurm 22.05's default some ranks leave MPI_Init before all have begun it,
# and programs crash in one start of ten.
write_mpi_conf() { echo 'PMIxCollFence=ring'; }

# Open MPI's defaults for all of the cluster.  Addresses and not names of interfaces, because those
# differ between the control node and the others; ranks that wait let others run, since the cores
# are too few (patient.c makes that true).
write_openmpi_conf() {
    cat <<END
pml=ob1
btl=self,vader,tcp
btl_tcp_if_include=$net.0/24
oob_tcp_if_include=$net.0/24
mpi_yield_when_idle=1
btl_vader_single_copy_mechanism=none
orte_tmpdir_base=/run/scratch
END
}

# What it prints goes into the environment of each task.  Programs that look for bad addresses want
# to be loaded first and would refuse to start.
write_task_prolog() {
    cat <<END
#!/bin/sh
echo "export LD_PRELOAD=$dir/patient.so\${LD_PRELOAD:+:\$LD_PRELOAD}"
echo "export ASAN_OPTIONS=\${ASAN_OPTIONS:+\$ASAN_OPTIONS:}verify_asan_link_order=0"
END
}

write_hosts() {
    echo "127.0.0.1 localhost"
    echo "$net.1 ctl"
    i=0
    while [ $i -lt "$nodes" ]; do
        i=$((i + 1))
        echo "$net.$((10 + i)) n$i"
    done
}

write_slurmdbd_conf() {
    cat <<END
AuthType=auth/munge
DbdHost=ctl
SlurmUser=root
LogFile=$dir/log/slurmdbd.log
PidFile=/run/slurm/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=accounts
END
}

# configure: all files of a new cluster; the folders in $dir are there and empty.
configure() {
    head -c 1024 /dev/urandom >"$dir/munge/key"
    chmod 400 "$dir/munge/key"
    write_slurm_conf >"$dir/etc/slurm.conf"
    write_gres_conf >"$dir/etc/gres.conf"
    write_mpi_conf >"$dir/etc/mpi.conf"
    write_openmpi_conf >"$dir/etc/openmpi-mca-params.conf"
    write_hosts >"$dir/etc/hosts"
    write_task_prolog >"$dir/etc/task-prolog"
    chmod 755 "$dir/etc/task-prolog"
    if [ "$accounting" = yes ]; then
        (umask 077 && write_slurmdbd_conf >"$dir/etc/slurmdbd.conf")
    fi
}
