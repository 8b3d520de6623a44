/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_LAUNCH_LAUNCH_H
#define TR_LAUNCH_LAUNCH_H

#include <sched.h>

#include "comm/comm.h"
#include "launch/node.h"

/* What this process was given by whoever started it. */
struct tr_launch {
    int local_rank, local_size; /* among the ranks on this host */
    int nodes;                  /* hosts in the world */
    int node;                   /* number of this one, in the order of their first ranks */
    int cores;                  /* in the affinity mask of this process */
    int sharers;                /* ranks of this host with that very mask: 1 when ranks are bound */
    int processors;             /* in the masks of all ranks of this host together */
    double
        quota; /* processors that the control groups of this process may keep busy; 0: no limit */
    int omp_threads;             /* OMP_NUM_THREADS; 0 where it is not set */
    int gpus_given;              /* SLURM_GPUS_ON_NODE; 0 where it is not set */
    const char *gpu_bind;        /* as --gpu-bind has it, of the environment; NULL: not known */
    char (*host)[TR_HOST_BYTES]; /* [ranks of the world]; owned */
};

/* Collective over `world`. */
void tr_launch_read(struct tr_comm *world, struct tr_launch *out);
void tr_launch_release(struct tr_launch *l);

/* Threads that a rank should work with: OMP_NUM_THREADS where it is set, else its cores divided
   evenly among the ranks that have the same, at least 1. */
int tr_launch_threads(const struct tr_launch *l);

/*
 * How many processors the ranks of this host may keep busy at once: those of their masks, or fewer where a control
 * group has a quota.  `threads` of a rank; *room is how many ranks have enough, and *has the processors of those that
 * share them.  Are there more ranks than that?
 */
bool tr_launch_is_crowded(const struct tr_launch *l, int threads, int *room, double *has);

/* Processors that the control groups of this process may keep busy, the least of their quotas of both versions of
   control groups; 0 where none has one.  `root` is "", or a folder in which /proc and /sys are. */
double tr_launch_quota(const char *root);

/* Whether the launcher offers this process a way to find the others, as long as MPI has not started. */
bool tr_launch_offers(void);

/* Did neither a launcher nor a job of Slurm start this process?  Only as long as MPI has not started,
   which sets variables of launchers. */
bool tr_launch_is_bare(void);

/* The version of the PMIx that the launcher offers, or NULL; static storage. */
const char *tr_launch_pmix_version(void);

/*
 * Everything that the checks of a launch (launch/checks.h) look at.  This file reads Slurm's variables
 * and those of other launchers, and nothing else in the program does but job/job.h, which wants the
 * job's number and its end; 0 stands for what is not set.
 */
enum tr_starter { TR_STARTED_ALONE, TR_STARTED_BY_SRUN, TR_STARTED_BY_MPIEXEC };

/* Who started this process, as its environment says. */
enum tr_starter tr_launch_starter(void);

/* Each rank's own. */
struct tr_rank_facts {
    char host[TR_HOST_BYTES];
    cpu_set_t cpus;    /* the affinity mask: hardware threads */
    cpu_set_t cores;   /* their cores: of each the first hardware thread */
    int cpus_per_task; /* SLURM_CPUS_PER_TASK */
    int omp_threads;   /* OMP_NUM_THREADS */
};

/* The rows of launch/leftovers.def. */
enum {
#define LEFTOVER(name, value, gpus, why) TR_LEFTOVER_##name,
#include "launch/leftovers.def"
#undef LEFTOVER
    TR_LEFTOVERS
};

/* As rank 0 sees them. */
struct tr_job_facts {
    enum tr_starter starter;
    bool pmix;                /* the launcher offered PMIx */
    bool in_slurm;            /* within an allocation */
    int job_nodes, job_tasks; /* of the allocation: SLURM_JOB_NUM_NODES, SLURM_NTASKS */
    int step_tasks;           /* SLURM_STEP_NUM_TASKS */
    int task;                 /* of this process: SLURM_PROCID */
    int nnodes;               /* NNODES, as job scripts define it */
    int gpus_given;           /* SLURM_GPUS_ON_NODE */
    bool one_visible;         /* CUDA_VISIBLE_DEVICES names one GPU */
    bool fence_ring;          /* SLURM_PMIX_FENCE or mpi.conf asks for the ring */
    int slurm;                /* version of Slurm, 2205 for 22.05; 0 unless it was asked for */
    const char *leftover[TR_LEFTOVERS]; /* their values, NULL where one is not set; borrowed */
    int64_t save_free, save_files;      /* bytes and inodes left for --save; -1 where unknown */
};

struct tr_facts {
    int ranks, nodes;
    struct tr_rank_facts *rank; /* [ranks] */
    int *node_of;               /* [ranks] nodes count in the order of their first ranks */
    struct tr_node_facts *node; /* [nodes]; on rank 0, elsewhere empty */
    struct tr_job_facts job;
    double clock_doubt; /* seconds within which the clocks of the nodes were read */
};

/* What to look at, the same on all ranks. */
struct tr_facts_of {
    bool gpus;        /* look for GPUs, which starts CUDA */
    bool slurm;       /* ask Slurm for its version and settings, which starts a program */
    const char *save; /* folder of --save or NULL; borrowed */
    uint64_t build;   /* of this program, its libraries included: a checksum */
};

/* Collective.  One rank of each node looks at the node, and what it saw goes to rank 0.  TR_ERESOURCE
   when MPI has no room for the group of those ranks; else owned by the caller. */
enum tr_status tr_facts_read(struct tr_comm *world, const struct tr_facts_of *of,
                             struct tr_facts *out) TR_MUST_CHECK;
void tr_facts_release(struct tr_facts *f);

/* The job's part of it alone, on any process and without MPI. */
void tr_job_read(const struct tr_facts_of *of, struct tr_job_facts *out);

/* Ranks on node `node`. */
int tr_facts_local(const struct tr_facts *f, int node);

#endif
