/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/launch.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value && *value;
}

/* A positive number in the environment, else 0.  Of a list, as in "4,2" or "4(x2)", the first. */
static int number(const char *name)
{
    const char *value = getenv(name);
    long n = value ? strtol(value, NULL, 10) : 0;

    return n > 0 && n <= INT_MAX ? (int)n : 0;
}

/* How Slurm binds this task to GPUs, without the words "gres/gpu:" or "gpu:" that stand before it; NULL
   where it does not say. */
static const char *gpu_bind(void)
{
    const char *bind = is_set("SLURMD_TRES_BIND") ? getenv("SLURMD_TRES_BIND")
                       : is_set("SLURM_GPU_BIND") ? getenv("SLURM_GPU_BIND")
                                                  : NULL;

    if (bind && strncmp(bind, "gres/", 5) == 0)
        bind += 5;
    return bind && strncmp(bind, "gpu:", 4) == 0 ? bind + 4 : bind;
}

static void read_rank(struct tr_rank_facts *mine)
{
    memset(mine, 0, sizeof *mine);
    gethostname(mine->host, sizeof mine->host - 1);
    /* More than 1024 processors: the mask does not fit, and one core is the safe guess. */
    if (sched_getaffinity(0, sizeof mine->cpus, &mine->cpus) != 0)
        CPU_SET(0, &mine->cpus);
    mine->cpus_per_task = number("SLURM_CPUS_PER_TASK");
    mine->omp_threads = number("OMP_NUM_THREADS");
}

static struct tr_rank_facts *gather(struct tr_comm *world, const struct tr_rank_facts *mine)
{
    struct tr_rank_facts *all = calloc((size_t)world->size, sizeof *all);

    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for the list of ranks");
    world->via->gather_all(world, mine, sizeof *mine, all);
    return all;
}

void tr_launch_read(struct tr_comm *world, struct tr_launch *out)
{
    struct tr_rank_facts mine, *all;
    cpu_set_t together;

    read_rank(&mine);
    CPU_ZERO(&together);
    all = gather(world, &mine);
    memset(out, 0, sizeof *out);
    out->cores = CPU_COUNT(&mine.cpus);
    out->omp_threads = mine.omp_threads;
    out->gpus_given = number("SLURM_GPUS_ON_NODE");
    out->gpu_bind = gpu_bind();
    out->host = calloc((size_t)world->size, sizeof *out->host);
    if (!out->host)
        tr_die(TR_ERESOURCE, "no memory left for the list of hosts");
    for (int r = 0; r < world->size; r++) {
        int first = 0;

        memcpy(out->host[r], all[r].host, sizeof all[r].host);
        while (strcmp(all[first].host, all[r].host) != 0)
            first++;
        if (first == r && strcmp(all[r].host, mine.host) == 0)
            out->node = out->nodes;
        out->nodes += first == r;
        if (strcmp(all[r].host, mine.host) != 0)
            continue;
        out->local_rank += r < world->rank;
        out->local_size++;
        out->sharers += CPU_EQUAL(&all[r].cpus, &mine.cpus) != 0;
        CPU_OR(&together, &together, &all[r].cpus);
    }
    out->processors = CPU_COUNT(&together);
    out->quota = tr_launch_quota("");
    free(all);
}

void tr_launch_release(struct tr_launch *l)
{
    free(l->host);
    l->host = NULL;
}

int tr_launch_threads(const struct tr_launch *l)
{
    int threads = l->omp_threads > 0 ? l->omp_threads : l->cores / l->sharers;

    return threads > 0 ? threads : 1;
}

bool tr_launch_is_crowded(const struct tr_launch *l, int threads, int *room, double *has)
{
    const double need = threads * l->local_size;

    *has = l->quota > 0.0 && l->quota < l->processors ? l->quota : l->processors;
    if (threads * l->sharers > l->cores && !(need > *has)) {
        *has = l->cores; /* others have processors that nobody uses */
        *room = l->cores / threads;
        return true;
    }
    *room = (int)(*has / threads);
    return need > *has;
}

/* Open MPI's mpiexec, that of MPICH and its relatives.  Under Slurm it starts one task per node by srun
   and the ranks below them, which then see Slurm's numbers of those tasks. */
enum tr_starter tr_launch_starter(void)
{
    if (is_set("OMPI_COMM_WORLD_SIZE") || is_set("MPI_LOCALNRANKS") || is_set("MPIEXEC_HOSTNAME"))
        return TR_STARTED_BY_MPIEXEC;
    return is_set("SLURM_STEP_NUM_TASKS") ? TR_STARTED_BY_SRUN : TR_STARTED_ALONE;
}

bool tr_launch_offers(void)
{
    static const char *const ways[] = {"PMIX_RANK", "PMIX_NAMESPACE", "PMI_RANK",
                                       "PMI_FD",    "PMI_SIZE",       "PALS_RANKID"};
    bool some = tr_launch_starter() == TR_STARTED_BY_MPIEXEC;

    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        some = some || is_set(ways[i]);
    return some;
}

bool tr_launch_is_bare(void)
{
    return tr_launch_starter() == TR_STARTED_ALONE && !tr_launch_offers() &&
           !is_set("SLURM_JOB_ID");
}

/* An MPI that starts alone serves itself. */
const char *tr_launch_pmix_version(void)
{
    return tr_launch_starter() == TR_STARTED_ALONE ? NULL : getenv("PMIX_VERSION");
}

static bool names_one(const char *list)
{
    return list && *list && !strchr(list, ',');
}

/* What `scontrol show config` says, "KEY = VALUE": the version of Slurm and the fence of PMIx.  It answers at once unless the
   machine of the controller is busy. */
static void ask_slurm(struct tr_job_facts *job)
{
    FILE *f = popen("timeout 8 scontrol show config 2>/dev/null", "re");
    char line[512], word[64];
    int year, month;

    if (!f)
        return;
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, " SLURM_VERSION = %d.%d", &year, &month) == 2)
            job->slurm = 100 * year + month;
        if (sscanf(line, " PMIxCollFence = %63s", word) == 1 && !is_set("SLURM_PMIX_FENCE"))
            job->fence_ring = strcasecmp(word, "ring") == 0;
    }
    pclose(f);
}

void tr_job_read(const struct tr_facts_of *of, struct tr_job_facts *job)
{
    static const char *const names[] = {
#define LEFTOVER(name, value, gpus, why) #name,
#include "launch/leftovers.def"
#undef LEFTOVER
    };
    const char *fence = getenv("SLURM_PMIX_FENCE"), *space = getenv("PMIX_NAMESPACE");

    memset(job, 0, sizeof *job);
    job->starter = tr_launch_starter();
    /* An Open MPI that starts alone sets PMIX_NAMESPACE for itself, to a number. */
    job->pmix = space && strncmp(space, "slurm.", 6) == 0;
    job->in_slurm = is_set("SLURM_JOB_ID");
    job->job_nodes = number("SLURM_JOB_NUM_NODES");
    job->job_tasks = number("SLURM_NTASKS");
    job->step_tasks = number("SLURM_STEP_NUM_TASKS");
    job->task = number("SLURM_PROCID");
    job->nnodes = number("NNODES");
    job->gpus_given = number("SLURM_GPUS_ON_NODE");
    job->one_visible = names_one(getenv("CUDA_VISIBLE_DEVICES"));
    job->fence_ring = fence && strcasecmp(fence, "ring") == 0;
    for (int i = 0; i < TR_LEFTOVERS; i++)
        job->leftover[i] = getenv(names[i]);
    job->save_free = job->save_files = -1;
    if (of->save)
        tr_node_space(of->save, &job->save_free, &job->save_files);
    if (of->slurm)
        ask_slurm(job);
}

/* Fills node_of and nodes; true on the first rank of a node. */
static bool map_nodes(struct tr_facts *f, int rank)
{
    int *first = calloc((size_t)f->ranks, sizeof *first);
    bool leads;

    f->node_of = calloc((size_t)f->ranks, sizeof *f->node_of);
    if (!first || !f->node_of)
        tr_die(TR_ERESOURCE, "no memory left for the list of nodes");
    for (int r = 0; r < f->ranks; r++) {
        int n = 0;

        while (n < f->nodes && strcmp(f->rank[first[n]].host, f->rank[r].host) != 0)
            n++;
        if (n == f->nodes)
            first[f->nodes++] = r;
        f->node_of[r] = n;
    }
    leads = first[f->node_of[rank]] == rank;
    free(first);
    return leads;
}

static double clock_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Ranks of `leaders` are the nodes in order.  All clocks are read between two barriers, so what rank 0
   waits in them bounds how far apart the readings are. */
static void gather_nodes(struct tr_comm *leaders, const struct tr_facts_of *of, struct tr_facts *f)
{
    struct tr_node_facts mine, *all = calloc((size_t)leaders->size, sizeof *all);
    double began;

    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for the list of nodes");
    tr_node_read(of->gpus, of->build, &mine);
    began = tr_now();
    leaders->via->barrier(leaders);
    mine.clock = clock_now();
    leaders->via->barrier(leaders);
    f->clock_doubt = tr_now() - began;
    leaders->via->gather_all(leaders, &mine, sizeof mine, all);
    if (leaders->rank == 0)
        f->node = all;
    else
        free(all);
}

enum tr_status tr_facts_read(struct tr_comm *world, const struct tr_facts_of *of,
                             struct tr_facts *out)
{
    struct tr_rank_facts mine;
    struct tr_comm leaders;
    enum tr_status s;
    bool leads;

    memset(out, 0, sizeof *out);
    out->ranks = world->size;
    read_rank(&mine);
    tr_node_cores(&mine.cpus, &mine.cores);
    out->rank = gather(world, &mine);
    leads = map_nodes(out, world->rank);
    s = world->via->split(world, leads ? 0 : -1, world->rank, "nodes", &leaders);
    if (s != TR_OK) {
        tr_facts_release(out);
        return s;
    }
    if (leads)
        gather_nodes(&leaders, of, out);
    world->via->release(&leaders);
    if (world->rank == 0)
        tr_job_read(of, &out->job);
    return TR_OK;
}

void tr_facts_release(struct tr_facts *f)
{
    free(f->rank);
    free(f->node_of);
    free(f->node);
    memset(f, 0, sizeof *f);
}

int tr_facts_local(const struct tr_facts *f, int node)
{
    int n = 0;

    for (int r = 0; r < f->ranks; r++)
        n += f->node_of[r] == node;
    return n;
}
