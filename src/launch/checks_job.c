/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "launch/checks.h"
#include "util/text.h"

/* Checks of the whole job: launch/checks.def describes each. */
static const double GIB = 1024.0 * 1024.0 * 1024.0;

void tr_judge_ranks(const struct tr_facts *f, const struct tr_intent *i, int node,
                    struct tr_verdict *out)
{
    const struct tr_job_facts *job = &f->job;

    (void)i;
    (void)node;
    if (job->starter == TR_STARTED_BY_SRUN && job->step_tasks > f->ranks && f->ranks == 1) {
        if (job->pmix)
            tr_verdict_refuse(
                out, TR_ECONFIG,
                "srun started %d tasks with PMIx and this MPI did not take it, so each "
                "is alone: load the MPI that this cluster built for its Slurm and build "
                "trireme with it, or start ranks with mpiexec in the job",
                job->step_tasks);
        else
            tr_verdict_refuse(
                out, TR_ECONFIG,
                "srun started %d tasks and each is alone, since they have no way to "
                "find one another: use srun --mpi=pmix (srun --mpi=list shows what this "
                "Slurm has)",
                job->step_tasks);
        return;
    }
    if (job->starter == TR_STARTED_BY_SRUN && job->step_tasks > 0 && job->step_tasks != f->ranks)
        tr_verdict_warn(
            out,
            "srun started %d tasks and %d rank%s belong together: start one trireme alone "
            "in each srun",
            job->step_tasks, f->ranks, tr_plural(f->ranks));
    if (job->starter == TR_STARTED_ALONE && f->ranks == 1 && job->job_tasks > 1)
        tr_verdict_warn(out,
                        "this job has %d tasks and this is one rank: start all of them with srun "
                        "trireme ...",
                        job->job_tasks);
}

/* A process that nobody started as a rank, on a login node or in a job script, uses no nodes. */
static bool is_alone(const struct tr_facts *f)
{
    return f->ranks == 1 && f->job.starter == TR_STARTED_ALONE;
}

/* One of several tasks that did not find one another sees no other node, and has reported that. */
static bool is_lost(const struct tr_facts *f)
{
    return f->ranks == 1 && f->job.starter == TR_STARTED_BY_SRUN && f->job.step_tasks > 1;
}

void tr_judge_nodes(const struct tr_facts *f, const struct tr_intent *i, int node,
                    struct tr_verdict *out)
{
    const struct tr_job_facts *job = &f->job;

    (void)i;
    (void)node;
    if (is_alone(f) || is_lost(f))
        return;
    if (job->nnodes > 0 && job->nnodes != f->nodes)
        tr_verdict_warn(
            out,
            "NNODES is %d in the environment and ranks are on %d node%s, so what a script "
            "works out from it is for another job: set NNODES=$SLURM_JOB_NUM_NODES, and ask "
            "for the nodes with --nodes=%d",
            job->nnodes, f->nodes, tr_plural(f->nodes), job->nnodes);
    else if (job->job_nodes > f->nodes)
        tr_verdict_warn(
            out,
            "the job has %d nodes and ranks on %d, so %d do nothing: start ranks on all "
            "with srun --nodes=%d --ntasks-per-node=N",
            job->job_nodes, f->nodes, job->job_nodes - f->nodes, job->job_nodes);
}

/* The fewest and the most ranks of a node. */
static void ranks_per_node(const struct tr_facts *f, int *least, int *most)
{
    *least = f->ranks;
    *most = 0;
    for (int n = 0; n < f->nodes; n++) {
        int local = tr_facts_local(f, n);

        *least = local < *least ? local : *least;
        *most = local > *most ? local : *most;
    }
}

void tr_judge_even(const struct tr_facts *f, const struct tr_intent *i, int node,
                   struct tr_verdict *out)
{
    int least, most;

    (void)i;
    (void)node;
    ranks_per_node(f, &least, &most);
    if (least == most)
        return;
    if (f->ranks % f->nodes == 0)
        tr_verdict_warn(out,
                        "nodes have from %d to %d ranks, and the fullest sets the pace: use srun "
                        "--ntasks-per-node=%d",
                        least, most, f->ranks / f->nodes);
    else
        tr_verdict_warn(
            out,
            "nodes have from %d to %d ranks, since %d do not divide by %d nodes, and the "
            "fullest sets the pace: start as many on each with srun --ntasks-per-node=%d",
            least, most, f->ranks, f->nodes, most);
}

/* Whether a tensor-parallel group of `w` neighbours has ranks on several nodes (comm/grid.h). */
static bool spans(const struct tr_facts *f, int w)
{
    for (int r = 0; r < f->ranks; r++)
        if (f->node_of[r] != f->node_of[r / w * w])
            return true;
    return false;
}

static bool divides_nodes(const struct tr_facts *f, int w)
{
    for (int n = 0; n < f->nodes; n++)
        if (tr_facts_local(f, n) % w != 0)
            return false;
    return true;
}

void tr_judge_tensor_parallel(const struct tr_facts *f, const struct tr_intent *i, int node,
                              struct tr_verdict *out)
{
    const int w = i->tensor_parallel;
    int best = w - 1, least, most;

    (void)node;
    if (w < 2 || f->ranks % w != 0 || i->tensor_across || !spans(f, w))
        return;
    ranks_per_node(f, &least, &most);
    if (divides_nodes(f, w)) {
        tr_verdict_refuse(
            out, TR_ECONFIG,
            "neighbouring ranks are on different nodes, so tensor-parallel groups of %d would "
            "communicate over the network in every layer: fill one node after the other with "
            "srun --distribution=block (mpiexec --map-by slot), or insist with "
            "--allow-tensor-parallel-across-nodes",
            w);
        return;
    }
    /* 1 spans nothing. */
    while (w % best != 0 || spans(f, best))
        best--;
    tr_verdict_refuse(
        out, TR_ECONFIG,
        "a tensor-parallel group of %d has no room on a node with %d rank%s and would "
        "communicate over the network in every layer: use --tensor-model-parallel-size %d, or "
        "start ranks with srun --ntasks-per-node=%d --distribution=block, or insist with "
        "--allow-tensor-parallel-across-nodes",
        w, least, tr_plural(least), best, most < w ? w : most / w * w);
}

/* Kinds are compared with the first node that has GPUs. */
void tr_judge_gpu_kinds(const struct tr_facts *f, const struct tr_intent *i, int node,
                        struct tr_verdict *out)
{
    const struct tr_node_facts *first = NULL;

    (void)node;
    if (!i->gpus || i->mixed)
        return;
    for (int n = 0; n < f->nodes; n++) {
        const struct tr_node_facts *other = &f->node[n];

        if (other->gpus.count == 0)
            continue;
        first = first ? first : other;
        if (strcmp(first->gpus.name, other->gpus.name) != 0 && !i->training) {
            tr_verdict_refuse(
                out, TR_ECONFIG,
                "GPUs are %s on %s and %s on %s, and all would wait for the slower: ask for "
                "GPUs of one kind (--constraint or --gres=gpu:TYPE:N), or train with "
                "--allow-mixed-gpus",
                first->gpus.name, first->host, other->gpus.name, other->host);
            return;
        }
        if ((double)other->gpus.bytes < 0.9 * (double)first->gpus.bytes ||
            (double)first->gpus.bytes < 0.9 * (double)other->gpus.bytes) {
            tr_verdict_warn(
                out,
                "GPUs of %s have %.0f GiB and those of %s %.0f, and the model must fit into "
                "the smaller: ask for one kind with --constraint",
                first->host, (double)first->gpus.bytes / GIB, other->host,
                (double)other->gpus.bytes / GIB);
            return;
        }
    }
}

void tr_judge_memory(const struct tr_facts *f, const struct tr_intent *i, int node,
                     struct tr_verdict *out)
{
    const struct tr_node_facts *least = &f->node[0], *most = &f->node[0];

    (void)i;
    (void)node;
    for (int n = 0; n < f->nodes; n++) {
        if (f->node[n].memory <= 0)
            return;
        least = f->node[n].memory < least->memory ? &f->node[n] : least;
        most = f->node[n].memory > most->memory ? &f->node[n] : most;
    }
    if ((double)least->memory < 0.9 * (double)most->memory)
        tr_verdict_warn(out,
                        "%s has %.0f GiB of memory and %s %.0f, and every rank must fit into the "
                        "smaller: ask for nodes of one kind with --constraint, or use "
                        "--exclude=%s",
                        least->host, (double)least->memory / GIB, most->host,
                        (double)most->memory / GIB, least->host);
}

void tr_judge_clocks(const struct tr_facts *f, const struct tr_intent *i, int node,
                     struct tr_verdict *out)
{
    const struct tr_node_facts *slow = &f->node[0], *fast = &f->node[0];

    (void)i;
    (void)node;
    for (int n = 1; n < f->nodes; n++) {
        slow = f->node[n].clock < slow->clock ? &f->node[n] : slow;
        fast = f->node[n].clock > fast->clock ? &f->node[n] : fast;
    }
    if (fast->clock - slow->clock > 1.0 + f->clock_doubt)
        tr_verdict_warn(
            out,
            "the clock of %s is %.0f seconds before that of %s, so times in their logs do "
            "not compare: report it to the administrators, or use --exclude=%s",
            fast->host, fast->clock - slow->clock, slow->host,
            fast == &f->node[0] ? slow->host : fast->host);
}

void tr_judge_builds(const struct tr_facts *f, const struct tr_intent *i, int node,
                     struct tr_verdict *out)
{
    (void)i;
    (void)node;
    for (int n = 1; n < f->nodes; n++)
        if (f->node[n].build != f->node[0].build) {
            tr_verdict_warn(
                out,
                "%s and %s run different programs or libraries, so a fault or a loss may be "
                "of one alone: compare `srun -w HOST trireme version` on both, and install "
                "trireme where all nodes see it",
                f->node[0].host, f->node[n].host);
            return;
        }
}

/* A checkpoint is one file in its own folder, with a few sidecar files. */
enum { FILES_NEEDED = 16 };

void tr_judge_space(const struct tr_facts *f, const struct tr_intent *i, int node,
                    struct tr_verdict *out)
{
    const struct tr_job_facts *job = &f->job;
    const double need = i->save_bytes > 0 ? (double)i->save_bytes : GIB;
    char left[TR_TEXT_BYTES], takes[TR_TEXT_BYTES];

    (void)node;
    tr_text_bytes((double)job->save_free, left);
    if (!i->save)
        return;
    if (job->save_files >= 0 && job->save_files < FILES_NEEDED)
        tr_verdict_refuse(
            out, TR_ERESOURCE,
            "there is no inode left where %s is, so no checkpoint could be saved: remove "
            "files there, or give --save another folder",
            i->save);
    else if (job->save_free >= 0 && (double)job->save_free < need && i->save_bytes > 0)
        tr_verdict_refuse(out, TR_ERESOURCE,
                          "%s are left where %s is and a checkpoint takes %s, so none could be "
                          "saved: remove files there, or give --save another folder",
                          left, i->save, tr_text_bytes(need, takes));
    else if (job->save_free >= 0 && (double)job->save_free < need)
        tr_verdict_warn(
            out,
            "%s are left where %s is, little for checkpoints: remove files there, or give --save "
            "another folder",
            left, i->save);
}

static bool any_gpu(const struct tr_facts *f, const struct tr_intent *i)
{
    for (int n = 0; n < f->nodes && i->gpus; n++)
        if (f->node[n].gpus.count > 0)
            return true;
    return false;
}

void tr_judge_leftovers(const struct tr_facts *f, const struct tr_intent *i, int node,
                        struct tr_verdict *out)
{
    static const struct {
        const char *name, *value;
        bool gpus;
        const char *why;
    } rows[TR_LEFTOVERS] = {
#define LEFTOVER(name, value, gpus, why) {#name, value, gpus, why},
#include "launch/leftovers.def"
#undef LEFTOVER
    };
    const bool gpus = any_gpu(f, i);
    char list[512] = "";
    size_t n = 0;
    int found = 0;

    (void)node;
    for (int k = 0; k < TR_LEFTOVERS && n < sizeof list; k++) {
        const char *value = f->job.leftover[k];

        if (!value || !*value || strcmp(value, "0") == 0 || (rows[k].gpus && !gpus))
            continue;
        if (rows[k].value[0] && strcmp(rows[k].value, value) != 0)
            continue;
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s=%s (%s)", found ? ", " : "",
                              rows[k].name, value, rows[k].why);
        found++;
    }
    if (found > 0)
        tr_verdict_warn(out, "the environment has %s: unless you look for a fault, unset %s", list,
                        found == 1 ? "it" : "them");
}

/* Ranks of a node leave MPI_Init while those of another still wait in its first barrier, and their
   first message finds nobody. */
void tr_judge_pmix_fence(const struct tr_facts *f, const struct tr_intent *i, int node,
                         struct tr_verdict *out)
{
    enum { FIRST = 2205, LAST = 2311 };
    const struct tr_job_facts *job = &f->job;
    const bool alone = is_alone(f) && job->job_nodes != 1;
    const bool meets = job->starter == TR_STARTED_BY_SRUN && f->nodes > 1 && f->ranks > f->nodes;

    (void)i;
    (void)node;
    if (job->slurm < FIRST || job->slurm > LAST || job->fence_ring || (!alone && !meets))
        return;
    tr_verdict_warn(out,
                    "Slurm %d.%02d may crash or hang ranks inside MPI_Init when several nodes have "
                    "several ranks each: export SLURM_PMIX_FENCE=ring before srun",
                    job->slurm / 100, job->slurm % 100);
}
