/* SPDX-License-Identifier: BSD-3-Clause */
#include "launch/checks.h"
#include "util/text.h"

/* Checks of one node and its ranks: launch/checks.def describes each. */

/* In Slurm the options of srun, elsewhere those of mpiexec. */
static bool by_srun(const struct tr_facts *f)
{
    return f->job.in_slurm && f->job.starter != TR_STARTED_BY_MPIEXEC;
}

/* Whether the ranks of the node compute on GPUs; then their threads have little to do. */
static bool on_gpus(const struct tr_facts *f, const struct tr_intent *i, int node)
{
    return i->gpus && f->node[node].gpus.count > 0;
}

static void judge_idle_gpus(const struct tr_facts *f, int ranks, int gpus, struct tr_verdict *out)
{
    if (ranks == 1 && f->job.starter == TR_STARTED_BY_SRUN)
        tr_verdict_refuse(
            out, TR_ECONFIG,
            "there is 1 task for %d GPUs, and a rank computes on one of them: start one "
            "task for each with srun --ntasks-per-node=%d, or give it one with "
            "--gpus-per-node=1",
            gpus, gpus);
    else
        tr_verdict_warn(
            out,
            "the node has %d rank%s for %d GPUs, so %d do nothing: start one rank for each "
            "(in Slurm --ntasks-per-node=%d)",
            ranks, tr_plural(ranks), gpus, gpus - ranks, gpus);
}

/* Where each rank sees one GPU alone, only Slurm's number says how many there are. */
void tr_judge_gpus(const struct tr_facts *f, const struct tr_intent *i, int node,
                   struct tr_verdict *out)
{
    const int ranks = tr_facts_local(f, node), given = f->job.gpus_given;
    int gpus = f->node[node].gpus.count;

    if (!i->gpus)
        return;
    if (gpus == 0) {
        if (given > 0)
            tr_verdict_warn(
                out,
                "the job has %d GPU%s on a node and ranks compute on CPUs, because %s: use "
                "a trireme and nodes with CUDA, or give the GPUs back and use --backend cpu",
                given, tr_plural(given),
                i->has_cuda ? "the driver shows none"
                            : "this trireme was built without "
                              "CUDA");
        return;
    }
    if (f->job.one_visible && gpus == 1)
        gpus = given > ranks ? given : ranks;
    if (ranks < gpus)
        judge_idle_gpus(f, ranks, gpus, out);
    else if (gpus < ranks && gpus < given && !i->share && !i->training)
        tr_verdict_refuse(
            out, TR_ERESOURCE,
            "a rank sees %d of the %d GPUs that the job has on this node, and the node has %d "
            "ranks: ranks are bound to GPUs, so start them with --gpu-bind=none and without "
            "--gpus-per-task, and rank r takes GPU r",
            gpus, given, ranks);
    else if (ranks > gpus && !i->share && !i->training)
        tr_verdict_refuse(
            out, TR_ERESOURCE,
            "the node has %d ranks for %d GPU%s, and each takes one of its own: start fewer "
            "(in Slurm --ntasks-per-node=%d), or let ranks share them with "
            "--gpu-oversubscribe, which is slow",
            ranks, gpus, tr_plural(gpus), gpus);
}

/* The numbers of the first rank of the node that has fewer. */
void tr_judge_cores(const struct tr_facts *f, const struct tr_intent *i, int node,
                    struct tr_verdict *out)
{
    int asked = 0, has = 0;

    (void)i;
    for (int r = 0; r < f->ranks; r++) {
        const struct tr_rank_facts *rank = &f->rank[r];
        const int cpus = CPU_COUNT(&rank->cpus);

        if (f->node_of[r] != node || rank->cpus_per_task <= cpus || asked > 0)
            continue;
        asked = rank->cpus_per_task;
        has = cpus;
    }
    if (asked == 0)
        return;
    if (by_srun(f))
        tr_verdict_warn(
            out,
            "a rank may use %d core%s and the job asked for %d (SLURM_CPUS_PER_TASK), which "
            "srun takes no notice of from Slurm 22.05 on: export "
            "SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK before srun, or use srun "
            "--cpus-per-task=%d",
            has, tr_plural(has), asked, asked);
    else
        tr_verdict_warn(
            out,
            "a rank may use %d core%s and the job asked for %d (SLURM_CPUS_PER_TASK): use "
            "mpiexec --map-by slot:PE=%d, or --bind-to none",
            has, tr_plural(has), asked, asked);
}

/* Ranks of the node with the same mask as rank r. */
static int sharers(const struct tr_facts *f, int r)
{
    int n = 0;

    for (int other = 0; other < f->ranks; other++)
        n += f->node_of[other] == f->node_of[r] &&
             CPU_EQUAL(&f->rank[other].cpus, &f->rank[r].cpus) != 0;
    return n;
}

/* The threads of training: --threads, OMP_NUM_THREADS, else an equal part of the cores. */
static int threads_of(const struct tr_facts *f, const struct tr_intent *i, int r)
{
    const int fair = CPU_COUNT(&f->rank[r].cpus) / sharers(f, r);

    if (i->threads > 0)
        return i->threads;
    if (f->rank[r].omp_threads > 0)
        return f->rank[r].omp_threads;
    return fair > 0 ? fair : 1;
}

/* Says something about rank r or nothing. */
static void judge_threads(const struct tr_facts *f, const struct tr_intent *i, int r,
                          struct tr_verdict *out)
{
    enum { FAR = 4 };
    const int cores = CPU_COUNT(&f->rank[r].cpus), n = sharers(f, r);
    const int threads = threads_of(f, i, r), fair = cores / n;

    if (n > cores)
        tr_verdict_warn(
            out,
            "%d ranks take turns on %d core%s: start at most one for each core (in Slurm "
            "--ntasks-per-node=%d), or ask for more cores",
            n, cores, tr_plural(cores), cores);
    else if (threads * n > cores)
        tr_verdict_warn(out, "%d rank%s with %d threads each share %d core%s: use %s%d", n,
                        tr_plural(n), threads, cores, tr_plural(cores),
                        i->threads > 0 ? "--threads " : "OMP_NUM_THREADS=", fair);
    else if (i->threads == 0 && f->rank[r].omp_threads > 0 && FAR * threads <= fair)
        tr_verdict_warn(out,
                        "OMP_NUM_THREADS=%d leaves %d of %d cores of a rank idle: unset it, or use "
                        "--threads %d",
                        threads, fair - threads, fair, fair);
}

void tr_judge_threads(const struct tr_facts *f, const struct tr_intent *i, int node,
                      struct tr_verdict *out)
{
    if (on_gpus(f, i, node))
        return;
    for (int r = 0; r < f->ranks && out->level == TR_LEVEL_OK; r++)
        if (f->node_of[r] == node)
            judge_threads(f, i, r, out);
}

static bool overlap(const cpu_set_t *a, const cpu_set_t *b)
{
    cpu_set_t both;

    CPU_AND(&both, a, b);
    return CPU_COUNT(&both) > 0;
}

/* Two ranks with hardware threads of their own on a core that they share. */
static bool split_a_core(const struct tr_facts *f, int node)
{
    for (int a = 0; a < f->ranks; a++)
        for (int b = 0; b < a && f->node_of[a] == node; b++)
            if (f->node_of[b] == node && !overlap(&f->rank[a].cpus, &f->rank[b].cpus) &&
                overlap(&f->rank[a].cores, &f->rank[b].cores))
                return true;
    return false;
}

void tr_judge_hyperthreads(const struct tr_facts *f, const struct tr_intent *i, int node,
                           struct tr_verdict *out)
{
    if (split_a_core(f, node)) {
        tr_verdict_warn(
            out,
            "two ranks compute on the two hardware threads of one core, each at about half "
            "its speed: use %s",
            by_srun(f) ? "srun --hint=nomultithread" : "mpiexec --map-by core --bind-to core");
        return;
    }
    for (int r = 0; r < f->ranks && !on_gpus(f, i, node); r++) {
        const int cores = CPU_COUNT(&f->rank[r].cores), threads = CPU_COUNT(&f->rank[r].cpus);
        const int busy = threads_of(f, i, r) * sharers(f, r);

        if (f->node_of[r] != node || busy <= cores || busy > threads)
            continue;
        tr_verdict_warn(
            out,
            "%d threads compute on %d core%s, since each core shows itself as several: use "
            "%s--threads %d",
            busy, cores, tr_plural(cores), by_srun(f) ? "srun --hint=nomultithread, or " : "",
            cores / sharers(f, r) > 0 ? cores / sharers(f, r) : 1);
        return;
    }
}

void tr_judge_processor(const struct tr_facts *f, const struct tr_intent *i, int node,
                        struct tr_verdict *out)
{
    (void)i;
    if (f->node[node].lacks[0])
        tr_verdict_refuse(
            out, TR_ERESOURCE,
            "the processor lacks %s, which this trireme was compiled for, and would end "
            "it with an illegal instruction: configure it on such a node, or with "
            "--with-march=NAME for both",
            f->node[node].lacks);
}

void tr_judge_shared_memory(const struct tr_facts *f, const struct tr_intent *i, int node,
                            struct tr_verdict *out)
{
    enum { MIB = 1 << 20, OF_RANK = 16, OF_GPU = 64 };
    const struct tr_node_facts *n = &f->node[node];
    const int64_t need =
        (int64_t)tr_facts_local(f, node) * (on_gpus(f, i, node) ? OF_GPU : OF_RANK);

    if (tr_facts_local(f, node) < 2 || n->shm_free / MIB >= need)
        return;
    tr_verdict_warn(out,
                    "/dev/shm has %lld MiB left and the ranks of the node want about %lld to talk "
                    "through: remove what lies there, mount it larger, or give a container "
                    "--shm-size=%lldm",
                    (long long)(n->shm_free / MIB), (long long)need, (long long)need);
}

void tr_judge_open_files(const struct tr_facts *f, const struct tr_intent *i, int node,
                         struct tr_verdict *out)
{
    enum { BESIDES = 256 };
    const int64_t has = f->node[node].open_files, need = f->ranks + BESIDES;

    (void)i;
    if (has >= 0 && has < need)
        tr_verdict_warn(
            out,
            "a rank may open %lld files and may need %lld, with a connection to each other "
            "rank: run ulimit -n %lld before the ranks start",
            (long long)has, (long long)need, (long long)need);
}

void tr_judge_stack(const struct tr_facts *f, const struct tr_intent *i, int node,
                    struct tr_verdict *out)
{
    enum { KIB = 1024, NEED = 1024 };
    const int64_t has = f->node[node].stack;

    (void)i;
    if (has >= 0 && has / KIB < NEED)
        tr_verdict_warn(
            out,
            "the stack of a rank may grow to %lld KiB, and libraries need more: run ulimit "
            "-s 8192 before the ranks start",
            (long long)(has / KIB));
}

void tr_judge_locked_memory(const struct tr_facts *f, const struct tr_intent *i, int node,
                            struct tr_verdict *out)
{
    const struct tr_node_facts *n = &f->node[node];

    (void)i;
    if (!n->verbs || f->nodes < 2 || n->locked < 0 || n->locked == INT64_MAX)
        return;
    tr_verdict_warn(
        out,
        "a rank may lock %lld MiB of memory, and the fast network locks what it sends from: "
        "run ulimit -l unlimited before the ranks start; in Slurm limits come from where "
        "the job was submitted unless slurm.conf excludes MEMLOCK",
        (long long)(n->locked >> 20));
}
