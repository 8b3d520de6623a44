/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/transport.h"

#ifdef HAVE_NCCL
#include "comm/nccl.h"
#endif
#include "comm/slow.h"
#include "util/log.h"

struct tr_comm *tr_transport_network(const struct tr_config *c, struct tr_comm *world,
                                     struct tr_comm *slow)
{
    const struct tr_slow_how how = {
        .rate = 1e9 * c->slow_rate,
        .latency = 1e-3 * c->slow_latency,
        .jitter = 1e-3 * c->slow_jitter,
    };

    if (c->distributed_backend != TR_DIST_SLOW || !(how.rate > 0.0))
        return world;
    tr_comm_slow_open(world, how, slow);
    return slow;
}

static enum tr_status refuse(int backend)
{
    if (backend == TR_DIST_SLOW)
        return TR_FAIL(
            TR_ECONFIG,
            "--distributed-backend slow simulates a slow network between hosts, and GPUs do not "
            "communicate through hosts: leave it out, or compute with --backend cpu");
    return TR_FAIL(TR_ECONFIG, "--distributed-backend mpi carries memory of hosts, and the model "
                               "would be in that of GPUs: leave it out, or compute with "
                               "--backend cpu");
}

#ifdef HAVE_NCCL
static enum tr_status open_nccl(struct tr_run *r)
{
    const struct tr_nccl_how how = {
        .timeout_s = 60.0 * r->config->distributed_timeout_minutes,
        .share = r->config->gpu_oversubscribe,
        .mixed = r->config->allow_mixed_gpus,
    };

    TR_TRY(tr_comm_nccl_open(r->world, &r->queue, &how, &r->own_transport));
    r->transport = &r->own_transport;
    return TR_OK;
}

void tr_transport_register(struct tr_run *r)
{
    if (r->transport != r->world && r->transport->size > 1)
        tr_comm_nccl_register(r->transport);
}
#else
static enum tr_status open_nccl(struct tr_run *r)
{
    (void)r;
    return TR_FAIL(TR_ERESOURCE,
                   "this trireme was built without NCCL, and ranks that compute on GPUs "
                   "talk through it: build it with NCCL, or train on one rank");
}

void tr_transport_register(struct tr_run *r)
{
    (void)r;
}
#endif

enum tr_status tr_transport_open(struct tr_run *r)
{
    int backend = r->config->distributed_backend;

    r->transport = r->world;
    if (!r->queue.on->apart) {
        if (backend == TR_DIST_NCCL)
            tr_log_rank0(TR_LOG_WARNING, "--distributed-backend nccl: there are no GPUs to talk "
                                         "through it, ranks talk through MPI");
        return TR_OK;
    }
    if (backend == TR_DIST_SLOW || backend == TR_DIST_MPI)
        return refuse(backend);
    if (r->world->size > 1)
        return open_nccl(r);
    tr_comm_self(&r->own_transport);
    r->transport = &r->own_transport;
    return TR_OK;
}

void tr_transport_close(struct tr_run *r)
{
    if (r->own_transport.via)
        r->own_transport.via->release(&r->own_transport);
}
