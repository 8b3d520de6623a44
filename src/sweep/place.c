/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/place.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/launch.h"
#include "job/job.h"
#include "util/file.h"

/* Seconds for squeue to say when the job ends. */
static const double PATIENCE = 10.0;

static enum tr_status check_alone(const struct tr_job_facts *f)
{
    const bool many = f->starter == TR_STARTED_BY_SRUN && f->step_tasks > 1;

    if (!many && f->starter != TR_STARTED_BY_MPIEXEC)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "trireme sweep starts the ranks of each run itself, and was started by %s: call "
                   "it alone, in the batch script or in the shell of salloc",
                   many ? "srun, several times" : "mpiexec");
}

enum tr_status tr_sweep_place_find(const struct tr_sweep *w, struct tr_sweep_place *out)
{
    const struct tr_facts_of nothing = {0};
    struct tr_job_facts f;
    struct tr_job job;

    tr_job_read(&nothing, &f);
    TR_TRY(check_alone(&f));
    tr_job_find(&job);
    *out = (struct tr_sweep_place){.job = job.id, .end = TR_JOB_NO_END, .how = ""};
    if (gethostname(out->host, sizeof out->host - 1) != 0)
        strcpy(out->host, "unknown");
    out->nodes = job.nodes ? job.nodes : out->host;
    if (job.id) {
        out->tasks = f.job_tasks;
        if (f.job_tasks > 0 && f.job_nodes > 0)
            out->per_node = (f.job_tasks + f.job_nodes - 1) / f.job_nodes;
        out->end = tr_job_end(&job, time(NULL), PATIENCE, &out->how);
    }
    if (w->ranks_per_node != TR_UNSET_INT)
        out->per_node = (int)w->ranks_per_node;
    return TR_OK;
}

int tr_sweep_nodes(const struct tr_sweep_place *p, int ranks)
{
    return p->per_node > 0 ? (ranks + p->per_node - 1) / p->per_node : 1;
}

static int cores(void)
{
    cpu_set_t mask;

    return sched_getaffinity(0, sizeof mask, &mask) == 0 ? CPU_COUNT(&mask) : 1;
}

void tr_sweep_environment(const struct tr_sweep_place *p, int ranks)
{
    const char *per_task = getenv("SLURM_CPUS_PER_TASK");

    if (p->job) {
        /* Slurm's default way for ranks of several nodes to find each other crashes MPI_Init now and
           then, and since 22.05 srun does not take the cores of a task from the job. */
        setenv("SLURM_PMIX_FENCE", "ring", 0);
        if (per_task)
            setenv("SRUN_CPUS_PER_TASK", per_task, 0);
    } else if (cores() < ranks) {
        /* Open MPI would refuse, or bind several ranks to one core. */
        setenv("OMPI_MCA_rmaps_base_oversubscribe", "1", 0);
        setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0);
    }
    if (cores() < (p->job && p->per_node > 0 ? p->per_node : ranks))
        setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
}

/* `text` with what {ranks}, {nodes} and {name} stand for; owned by the caller. */
static char *fill(const char *text, int ranks, int nodes, const char *name)
{
    char *out = NULL;
    size_t size;
    FILE *f = open_memstream(&out, &size);

    TR_ASSERT(f);
    while (*text) {
        if (strncmp(text, "{ranks}", 7) == 0 || strncmp(text, "{nodes}", 7) == 0) {
            fprintf(f, "%d", text[1] == 'r' ? ranks : nodes);
            text += 7;
        } else if (strncmp(text, "{name}", 6) == 0) {
            fputs(name, f);
            text += 6;
        } else {
            putc(*text++, f);
        }
    }
    fclose(f);
    return out;
}

static enum tr_status own_launcher(const struct tr_sweep *w, const struct tr_sweep_place *p,
                                   int ranks, const char *name, struct tr_args *a)
{
    char *text = fill(w->launcher, ranks, tr_sweep_nodes(p, ranks), name);
    const int before = a->count;
    enum tr_status s = tr_args_text(a, text);

    free(text);
    if (s == TR_OK && a->count == before)
        s = TR_FAIL(TR_ECONFIG, "--launcher has no words in it: say what starts the ranks, as in "
                                "--launcher \"mpiexec -n {ranks}\", or leave it out");
    return s;
}

enum tr_status tr_sweep_launcher(const struct tr_sweep *w, const struct tr_sweep_place *p,
                                 int ranks, const char *name, struct tr_args *a)
{
    char *text;
    enum tr_status s;

    if (w->launcher)
        return own_launcher(w, p, ranks, name, a);
    if (!p->job)
        text = tr_format("mpiexec -n %d", ranks);
    else if (ranks == p->tasks && w->ranks_per_node == TR_UNSET_INT)
        text = tr_format("srun --mpi=pmix --kill-on-bad-exit=1 --job-name=%s -n %d", name, ranks);
    else /* srun would spread a few ranks over all nodes */
        text = tr_format("srun --mpi=pmix --kill-on-bad-exit=1 --job-name=%s -n %d --nodes=%d "
                         "--ntasks-per-node=%d",
                         name, ranks, tr_sweep_nodes(p, ranks),
                         p->per_node > 0 && p->per_node < ranks ? p->per_node : ranks);
    s = tr_args_text(a, text);
    free(text);
    return s;
}
