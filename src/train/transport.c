/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/transport.h"

#include <stdlib.h>

#ifdef HAVE_NCCL
#include <jansson.h>
#include <string.h>

#include "comm/nccl.h"
#endif
#include "ckpt/map.h"
#include "comm/slow.h"
#include "train/step.h"
#include "util/file.h"
#include "util/log.h"

enum { LINKS_MOST = 1 << 20 };

static void tell_links(const struct tr_slow_links *l)
{
    double least = l->rate[0], most = l->rate[0], late = 0.0;

    for (int i = 0; i < l->groups * l->groups; i++) {
        least = l->rate[i] < least ? l->rate[i] : least;
        most = l->rate[i] > most ? l->rate[i] : most;
        late = l->latency[i] > late ? l->latency[i] : late;
    }
    tr_print_rank0("> links between %d groups of ranks: %g to %g Gbit/s, latencies up to %g ms\n",
                   l->groups, 1e-9 * least, 1e-9 * most, 1e3 * late);
}

static enum tr_status read_links(const struct tr_config *c, struct tr_comm *world,
                                 struct tr_slow_links *out)
{
    char *text = NULL;
    enum tr_status s = world->rank == 0 ? tr_regular_text(c->slow_links, LINKS_MOST, &text) : TR_OK;

    TR_TRY(tr_comm_agree(world, s));
    tr_ckpt_tell_text(world, &text);
    s = tr_slow_links_read(c->slow_links, text, out);
    free(text);
    if (s == TR_OK && out->ranks != world->size)
        s = TR_FAIL(
            TR_ECONFIG,
            "--slow-links %s has %d ranks, and there are %d: start as many, or change its groups",
            c->slow_links, out->ranks, world->size);
    TR_TRY(tr_comm_agree(world, s));
    tell_links(out);
    return TR_OK;
}

enum tr_status tr_transport_network(const struct tr_config *c, struct tr_comm *world,
                                    struct tr_network *out)
{
    struct tr_slow_how how = {
        .rate = 1e9 * c->slow_rate,
        .latency = 1e-3 * c->slow_latency,
        .jitter = 1e-3 * c->slow_jitter,
    };

    *out = (struct tr_network){.over = world};
    if (c->distributed_backend != TR_DIST_SLOW || !(how.rate > 0.0 || c->slow_links))
        return TR_OK;
    if (c->slow_links) {
        TR_TRY(read_links(c, world, &out->links));
        how.links = &out->links;
    }
    tr_comm_slow_open(world, how, &out->slow);
    out->over = &out->slow;
    return TR_OK;
}

void tr_transport_network_close(struct tr_network *n)
{
    if (n->over == &n->slow)
        n->slow.via->release(&n->slow);
    tr_slow_links_release(&n->links);
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

static bool has_nccl(const struct tr_run *r)
{
    return r->transport != r->world && r->transport->size > 1;
}

/* Calls of a step, in the order of what follows. */
enum { USES = 24 };

struct uses {
    struct tr_nccl_use list[USES];
    int n;
};

static void add(struct uses *u, struct tr_comm *group, enum tr_nccl_call_kind call,
                enum tr_dtype type, int64_t elems)
{
    TR_ASSERT(u->n < USES);
    u->list[u->n++] =
        (struct tr_nccl_use){group, call, type, TR_SUM, elems * (int64_t)tr_dtype_bytes(type)};
}

/* Activations and their gradients, queries, keys and values where ranks are more than groups, the softmax over shards of the vocabulary, gradients of what all tensor
   ranks hold; what a pipeline scatters over them (train/step.c). */
static void add_tensor(struct uses *u, struct tr_run *r)
{
    const enum tr_dtype type = r->model.type, stream = r->model.stream;
    const int64_t rows = tr_model_rows(&r->model), elems = rows * r->shape.dims.hidden;
    const int64_t gathered = tr_model_gathered_width(&r->model);
    struct tr_comm *tp = &r->grid.tp;

    add(u, tp, TR_NCCL_ALLREDUCE, type, elems);
    add(u, tp, TR_NCCL_ALLREDUCE, TR_F32, 2 * rows);
    add(u, tp, TR_NCCL_ALLREDUCE, TR_F32, rows);
    u->list[u->n - 1].op = TR_MAX;
    add(u, tp, TR_NCCL_ALLGATHER, stream, elems);
    if (gathered > 0) {
        add(u, tp, TR_NCCL_ALLGATHER, type, rows * gathered);
        add(u, tp, TR_NCCL_REDUCE_SCATTER, type, rows * gathered);
    }
    if (!r->shape.activations.sequence)
        return;
    add(u, tp, TR_NCCL_REDUCE_SCATTER, type, elems);
    add(u, tp, TR_NCCL_ALLGATHER, type, elems);
}

static enum tr_dtype grads_of(const struct tr_run *r)
{
    return r->shape.precision.grads_fp32 ? TR_F32 : r->model.type;
}

/* Those of replicas, and where they go. */
struct replicas {
    struct uses *u;
    struct tr_run *r;
};

static void add_use(void *ctx, enum tr_dp_use what, bool weights)
{
    static const enum tr_nccl_call_kind calls[] = {
        [TR_DP_USE_ALLREDUCE] = TR_NCCL_ALLREDUCE,
        [TR_DP_USE_REDUCE_SCATTER] = TR_NCCL_REDUCE_SCATTER,
        [TR_DP_USE_ALLGATHER] = TR_NCCL_ALLGATHER,
    };
    const struct replicas *x = ctx;
    const int64_t wanted = tr_dp_bucket(x->r->config, true), all = x->r->model.params.size;

    add(x->u, &x->r->dp.sums, calls[what], weights ? x->r->model.type : tr_dp_wire(&x->r->dp),
        wanted < all ? wanted : all);
}

/* The sums and gathers of buckets. */
static void add_replicas(struct uses *u, struct tr_run *r)
{
    struct replicas x = {u, r};

    tr_dp_uses(&r->dp, add_use, &x);
    add(u, &r->grid.dp, TR_NCCL_ALLREDUCE, TR_F64, 1);
    if (r->dp.outer.size > 0)
        add(u, &r->dp.outer, TR_NCCL_ALLREDUCE, grads_of(r),
            r->model.params.size / r->dp.sums.size);
    if (r->dp.rounds.size > 0)
        add(u, &r->dp.rounds, TR_NCCL_ALL_TO_ALL, TR_U8, 1);
}

/* Messages of the pipeline, the gradient of the tied embedding, and the sums of squares. */
static void add_others(struct uses *u, struct tr_run *r)
{
    const struct tr_dims *d = &r->shape.dims;

    add(u, &r->grid.pp,
        r->shape.layout.k > 1 && !r->shape.layout.vee ? TR_NCCL_RING : TR_NCCL_CHAIN, TR_U8, 1);
    if (d->family.tied)
        add(u, &r->grid.embed, TR_NCCL_ALLREDUCE, grads_of(r),
            d->vocab_padded * d->embed / r->shape.layout.w);
    add(u, tr_dp_owners(&r->dp), TR_NCCL_ALLREDUCE, TR_F64, r->optim.stages);
}

enum tr_status tr_transport_warm(struct tr_run *r)
{
    struct uses u = {.n = 0};

    if (!has_nccl(r))
        return TR_OK;
    add_tensor(&u, r);
    add_replicas(&u, r);
    add_others(&u, r);
    return tr_comm_nccl_warm(r->transport, u.list, u.n);
}

void tr_transport_report(const struct tr_run *r, FILE *f)
{
    if (has_nccl(r) && tr_comm_nccl_bytes(r->transport) > 0)
        fprintf(f, "  %-24s %12.2f MiB\n", "nccl (taken before)",
                (double)tr_comm_nccl_bytes(r->transport) / 1048576.0);
}

/* ---- the record ---- */

/* NCCL's facts as they come: lists of variables and of lines of its log, and the others. */
struct record {
    json_t *all, *environment, *says;
};

static void put(void *ctx, const char *name, const char *value)
{
    struct record *x = ctx;

    if (strcmp(name, "says") == 0)
        json_array_append_new(x->says, json_string(value));
    else if (strncmp(name, "NCCL_", 5) == 0)
        json_object_set_new(x->environment, name, json_string(value));
    else
        json_object_set_new(x->all, name, json_string(value));
}

static json_t *record_of(const struct tr_run *r)
{
    struct record x = {json_object(), json_object(), json_array()};

    tr_comm_nccl_record(r->transport, put, &x);
    json_object_set_new(x.all, "environment", x.environment);
    json_object_set_new(x.all, "says", x.says);
    return x.all;
}

static const char *text_of(const json_t *all, const char *name)
{
    return json_string_value(json_object_get(all, name));
}

static void tell_environment(json_t *environment)
{
    char text[1024] = "";
    const char *name;
    json_t *value;
    size_t n = 0;

    json_object_foreach(environment, name, value) if (n < sizeof text) n +=
        (size_t)snprintf(text + n, sizeof text - n, " %s=%s", name, json_string_value(value));
    tr_print("> NCCL's environment:%s\n", *text ? text : " nothing");
}

static void tell(json_t *all)
{
    json_t *says = json_object_get(all, "says");

    tr_print("> NCCL %s (built with %s): %s communicators of this rank take %s MiB of its GPU; "
             "calls are %s\n",
             text_of(all, "version"), text_of(all, "built_with"), text_of(all, "communicators"),
             text_of(all, "memory_mib"), text_of(all, "calls"));
    tell_environment(json_object_get(all, "environment"));
    for (size_t i = 0; i < json_array_size(says); i++)
        tr_print("> NCCL says: %s\n", json_string_value(json_array_get(says, i)));
    if (json_array_size(says) == 0)
        tr_print(
            "> NCCL's channels, algorithms, NVLS and SHARP are shown here with NCCL_DEBUG=INFO "
            "NCCL_DEBUG_SUBSYS=INIT,NET,TUNING NCCL_DEBUG_FILE=FILE\n");
}

/* Of rank 0, to all: the one that writes numbers down may be another. */
static char *share(struct tr_comm *world, char *text)
{
    int64_t bytes = text ? (int64_t)strlen(text) + 1 : 0;
    struct tr_tensor t = tr_i64_1(&bytes, 1);
    char *all;

    world->via->broadcast(world, NULL, &t, 0);
    all = calloc(1, (size_t)bytes + 4);
    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for the record of the transport");
    if (text)
        memcpy(all, text, (size_t)bytes);
    t = tr_i32_1((int32_t *)(void *)all, (bytes + 3) / 4);
    world->via->broadcast(world, NULL, &t, 0);
    free(text);
    return all;
}

void tr_transport_tell(struct tr_run *r)
{
    char *text = NULL;

    if (!has_nccl(r))
        return;
    if (r->world->rank == 0) {
        json_t *all = record_of(r);

        tell(all);
        text = json_dumps(all, JSON_SORT_KEYS);
        json_decref(all);
    }
    r->transport_record = share(r->world, text);
}

void tr_transport_register(struct tr_run *r)
{
    if (has_nccl(r))
        tr_comm_nccl_register(r->transport);
}
#else
enum tr_status tr_transport_warm(struct tr_run *r)
{
    (void)r;
    return TR_OK;
}

void tr_transport_report(const struct tr_run *r, FILE *f)
{
    (void)r;
    (void)f;
}

void tr_transport_tell(struct tr_run *r)
{
    (void)r;
}

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
