/* SPDX-License-Identifier: BSD-3-Clause */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/nccl.h"
#include "device/cuda/cuda.h"
#include "util/log.h"

/*
 * nccl_fault SECONDS [mixed | allowed | counts | ids | stop | ahead]: a few steps over NCCL, for t_nccl_fault.sh, which plants
 * errors by environment.  A call may be under way for SECONDS.
 *     mixed    the last rank has another kind of GPU
 *     allowed  the same, and that is allowed
 *     counts   the last rank has fewer elements
 *     stop     the last rank stops itself after some steps
 *     ids      two ranks meet at one id of NCCL, not 256
 *     ahead    each step queues more than a stream takes, of operations and of transfers
 */
enum { STEPS = 40, ELEMS = 5000, AHEAD = 1200 };

struct job {
    struct tr_comm inner, world, dp;
    struct tr_queue q;
    const char *way;
};

static bool is(const struct job *j, const char *way)
{
    return strcmp(j->way, way) == 0;
}

static enum tr_status open_job(struct job *j, double seconds)
{
    const struct tr_device_how how = {
        .local_rank = j->inner.rank, .local_size = j->inner.size, .share = true};
    const struct tr_nccl_how nccl = {.timeout_s = seconds,
                                     .share = true,
                                     .mixed = is(j, "allowed"),
                                     .ranks_of_id = is(j, "ids") ? 2 : 0};
    bool last = j->inner.rank == j->inner.size - 1;

    if ((is(j, "mixed") || is(j, "allowed")) && last)
        setenv("FAKE_CUDA_NAME", "Another GPU", 1);
    tr_comm_mpi_limit(&j->inner, seconds);
    j->q.on = &tr_cuda;
    TR_TRY(tr_comm_agree(&j->inner, tr_cuda.open(&how, &j->q.device)));
    TR_TRY(tr_comm_nccl_open(&j->inner, &j->q, &nccl, &j->world));
    return j->world.via->split(&j->world, 0, j->inner.rank, "dp", &j->dp);
}

/* The host has nothing to wait for here, but it must not queue all of this at once. */
static void run_ahead(struct job *j, const struct tr_tensor *x)
{
    static struct tr_pending p[AHEAD / 3];

    for (int i = 0; i < AHEAD; i++)
        j->q.on->scale(&j->q, x, 1.0F);
    for (int i = 0; i < AHEAD / 3; i++)
        j->dp.via->allreduce_start(&j->dp, &j->q, x, TR_MAX, &p[i]);
    for (int i = 0; i < AHEAD / 3; i++)
        j->dp.via->finish(&j->dp, &j->q, &p[i]);
}

/* A sum that is started, and one while it is under way. */
static void step(struct job *j, void *memory, float *got)
{
    int64_t fewer = is(j, "counts") && j->inner.rank == j->inner.size - 1;
    struct tr_tensor x = tr_f32_1(memory, ELEMS), y = tr_f32_1(tr_f32(&x) + ELEMS, ELEMS - fewer);
    struct tr_pending p;

    j->q.on->fill(&j->q, &x, 1.0F);
    j->q.on->fill(&j->q, &y, 2.0F);
    j->dp.via->allreduce_start(&j->dp, &j->q, &x, TR_SUM, &p);
    j->world.via->allreduce(&j->world, &j->q, &y, TR_SUM);
    j->dp.via->finish(&j->dp, &j->q, &p);
    x.dim[0] = 1;
    if (is(j, "ahead"))
        run_ahead(j, &x);
    j->q.on->download(&j->q, got, &x);
}

static enum tr_status run(struct job *j)
{
    void *memory = NULL;
    float got;

    TR_TRY(j->q.on->reserve(j->q.device, 2 * ELEMS * sizeof(float), &memory));
    tr_comm_nccl_register(&j->world);
    for (int i = 0; i < STEPS; i++) {
        if (i == 3 && is(j, "stop") && j->inner.rank == j->inner.size - 1)
            raise(SIGSTOP);
        step(j, memory, &got);
        TR_ASSERT(got == (float)j->inner.size);
    }
    printf("rank %d is done\n", j->inner.rank);
    return TR_OK;
}

static void close_job(struct job *j)
{
    if (j->dp.via)
        j->dp.via->release(&j->dp);
    if (j->world.via)
        j->world.via->release(&j->world);
    if (j->q.device)
        j->q.on->close(j->q.device);
}

int main(int argc, char **argv)
{
    struct job j = {.way = argc > 2 ? argv[2] : ""};
    enum tr_status s = tr_comm_mpi_start(&j.inner);

    if (s == TR_OK)
        s = open_job(&j, argc > 1 ? strtod(argv[1], NULL) : 60.0);
    if (s == TR_OK)
        s = run(&j);
    tr_report_error();
    close_job(&j);
    j.inner.via->barrier(&j.inner);
    tr_comm_mpi_stop(&j.inner);
    return tr_status_exit_code(s);
}
