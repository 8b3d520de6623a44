/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/flight.h"
#include "comm/nccl_group.h"
#include "util/log.h"

/* Ranks that meet at one id: the more there are, the longer they queue at the rank that made it. */
enum { RANKS_OF_ONE_ROOT = 256 };

#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
#define SCALABLE 1
#endif

static struct tr_nccl_group *group_of(const struct tr_comm *c)
{
    return c->state;
}

/* ---- groups ---- */

static struct tr_nccl_group *add_group(struct tr_nccl_world *w, const char *name)
{
    struct tr_nccl_group *g = calloc(1, sizeof *g);

    if (!g)
        tr_die(TR_ERESOURCE, "no memory left for the communication group \"%s\"", name);
    g->world = w;
    g->name = name;
    tr_comm_self(&g->alone);
    g->next = w->groups;
    w->groups = g;
    return g;
}

static void open_streams(struct tr_nccl_group *g)
{
    const struct tr_cuda *gpu = g->world->gpu;
    int least, greatest;

    /* Transfers are few blocks, and other ranks wait for them: they go before what computes. */
    tr_cuda_must(gpu, cudaDeviceGetStreamPriorityRange(&least, &greatest),
                 "cudaDeviceGetStreamPriorityRange");
    tr_cuda_must(gpu, cudaStreamCreateWithPriority(&g->stream, cudaStreamNonBlocking, greatest),
                 "cudaStreamCreateWithPriority");
    tr_cuda_must(gpu, cudaEventCreateWithFlags(&g->ready, cudaEventDisableTiming),
                 "cudaEventCreateWithFlags");
    if (tr_cuda_pace_open(&g->pace, g->stream) != TR_OK)
        tr_die(TR_ERESOURCE, "%s", tr_last_error());
}

static ncclConfig_t config_of(const char *name, bool blocks)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

    config.blocking = blocks;
    config.splitShare = 0;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    config.commName = name;
#else
    (void)name;
#endif
    return config;
}

/* The status of setting up `g`, whose communicator failed with `result`. */
static enum tr_status failure(struct tr_nccl_group *g, ncclResult_t result, const char *heard)
{
    struct tr_nccl_world *w = g->world;

    if (heard)
        return TR_FAIL(TR_ETEMP, "%s", heard);
    if (result == ncclInProgress)
        TR_FAIL(
            TR_ERESOURCE,
            "NCCL did not connect the GPUs of group \"%s\" within %g minutes; look for the reason "
            "with NCCL_DEBUG=INFO",
            g->name, w->how.timeout_s / 60.0);
    else
        TR_FAIL(TR_ERESOURCE,
                "NCCL cannot connect the GPUs of group \"%s\": %s; look for the reason with "
                "NCCL_DEBUG=INFO",
                g->name, tr_nccl_words(g->comm, result));
    /* Those that wait for this rank in NCCL stop. */
    w->inner->via->alarm(w->inner, tr_last_error(), false);
    return TR_ERESOURCE;
}

/* The call that makes g->comm gave `result` and goes on in `on`. */
static enum tr_status connected(struct tr_nccl_group *g, ncclComm_t on, ncclResult_t result)
{
    const char *heard = NULL;

    result = tr_nccl_settle(g->world, on, result, &heard);
    if (result == ncclSuccess && g->comm && g->comm != on)
        result = tr_nccl_settle(g->world, g->comm, ncclInProgress, &heard);
    if (result == ncclSuccess)
        return TR_OK;
    return failure(g, result, heard);
}

static void register_memory(struct tr_nccl_group *g)
{
    const struct tr_cuda *gpu = g->world->gpu;
    ncclResult_t result;

    if (!g->comm || g->registration || !gpu->base)
        return;
    result = tr_nccl.ncclCommRegister(g->comm, gpu->base, gpu->base_bytes, &g->registration);
    if (result == ncclSuccess)
        return;
    g->registration = NULL;
    tr_log(
        TR_LOG_WARNING,
        "NCCL cannot register the memory of this GPU for group \"%s\" (%s): transfers go through "
        "buffers of its own and may be slower",
        g->name, tr_nccl_words(g->comm, result));
}

static void close_comm(struct tr_nccl_group *g)
{
    struct tr_nccl_world *w = g->world;
    const char *heard = NULL;
    ncclResult_t result;

    if (w->broken) {
        tr_nccl.ncclCommAbort(g->comm);
        return;
    }
    tr_nccl_drain(g);
    if (g->registration)
        tr_nccl.ncclCommDeregister(g->comm, g->registration);
    tr_nccl_enter(g, "end", 0);
    result = tr_nccl.ncclCommFinalize(g->comm);
    tr_nccl_leave(w);
    result = tr_nccl_settle(w, g->comm, result, &heard);
    if (result == ncclSuccess)
        result = tr_nccl.ncclCommDestroy(g->comm);
    if (result != ncclSuccess && result != ncclInProgress)
        tr_log(TR_LOG_WARNING, "NCCL did not leave group \"%s\" in good order: %s", g->name,
               tr_nccl_words(NULL, result));
}

/* What it holds may be half of a group that could not be made. */
static void remove_group(struct tr_nccl_group *g)
{
    struct tr_nccl_group **at = &g->world->groups;

    if (g->comm)
        close_comm(g);
    TR_ASSERT(!g->first);
    tr_cuda_pace_close(&g->pace);
    if (g->ready)
        cudaEventDestroy(g->ready);
    if (g->stream)
        cudaStreamDestroy(g->stream);
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    if (g->own.via)
        g->own.via->release(&g->own);
    free(g);
}

static void fill(struct tr_comm *out, struct tr_nccl_group *g)
{
    *out = (struct tr_comm){.via = tr_flight_over(&tr_nccl_transport),
                            .name = g->name,
                            .rank = g->inner->rank,
                            .size = g->inner->size,
                            .state = g};
    g->rank = out->rank;
    g->size = out->size;
}

/* NCCL wants nothing under way on the communicator that is split, and every rank of it to come. */
static enum tr_status split_comm(struct tr_nccl_group *from, int color, int key,
                                 struct tr_nccl_group *g)
{
    ncclConfig_t config = config_of(g->name, g->world->guard);
    bool any = tr_comm_max(from->inner, g->own.size) > 1;
    ncclResult_t made;
    enum tr_status s;

    if (!any)
        return TR_OK;
    tr_nccl_drain(from);
    if (g->own.size < 2)
        color = NCCL_SPLIT_NOCOLOR;
    tr_nccl_enter(from, "split", 0);
    made = tr_nccl.ncclCommSplit(from->comm, color, key, &g->comm, &config);
    tr_nccl_leave(g->world);
    s = tr_comm_agree(from->inner, connected(g, from->comm, made));
    if (s != TR_OK)
        g->world->broken = true;
    if (s != TR_OK || !g->comm)
        return s;
    open_streams(g);
    if (g->world->registers)
        register_memory(g);
    return TR_OK;
}

enum tr_status tr_nccl_split(struct tr_comm *from, int color, int key, const char *name,
                             struct tr_comm *out)
{
    struct tr_nccl_group *parent = group_of(from);
    struct tr_comm *inner = parent->inner;
    struct tr_nccl_group *g = add_group(parent->world, name);
    enum tr_status s;

    from->seq++;
    *out = (struct tr_comm){.via = from->via, .name = name};
    s = inner->via->split(inner, color, key, name, &g->own);
    g->inner = &g->own;
    if (s == TR_OK)
        s = split_comm(parent, color, key, g);
    if (s != TR_OK || g->own.size == 0) {
        remove_group(g);
        return s;
    }
    fill(out, g);
    return TR_OK;
}

/* ---- the world ---- */

static void set(const char *name, const char *value)
{
    setenv(name, value, 0);
}

/* NCCL reads its variables when it is first used. */
static void set_environment(const struct tr_nccl_how *how, int rank, int version)
{
    char host[32];

    set("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
    if (!how->share)
        return;
    set("NCCL_MAX_CTAS", "2");
    if (version >= NCCL_VERSION(2, 30, 0)) {
        set("NCCL_MULTI_RANK_GPU_ENABLE", "1");
        return;
    }
    snprintf(host, sizeof host, "rank%d", rank);
    set("NCCL_HOSTID", host);
    set("NCCL_NET", "Socket");
    set("NCCL_IB_DISABLE", "1");
    set("NCCL_SOCKET_IFNAME", "lo");
    set("NCCL_SOCKET_FAMILY", "AF_INET");
    set("NCCL_MNNVL_ENABLE", "0");
    set("NCCL_NVLS_ENABLE", "0");
    set("NCCL_ALGO", "Ring");
    set("NCCL_PROTO", "Simple");
    set("NCCL_RAS_ENABLE", "0");
}

struct kind {
    char gpu[64], uuid[48], host[64];
};

/* The same on all ranks: the first that differs from rank 0. */
static enum tr_status compare_kinds(struct tr_comm *inner, const struct kind *all, bool mixed)
{
    for (int rank = 1; rank < inner->size && !mixed; rank++)
        if (strcmp(all[rank].gpu, all[0].gpu) != 0)
            return TR_FAIL(TR_ECONFIG,
                           "rank 0 on %s computes on an %s and rank %d on %s on an %s, and in each "
                           "step all wait for the slower: ask for GPUs of one kind, or give "
                           "--allow-mixed-gpus",
                           all[0].host, all[0].gpu, rank, all[rank].host, all[rank].gpu);
    return TR_OK;
}

/* Also where each rank sees one GPU alone, all may have been given the same. */
static enum tr_status compare_gpus(struct tr_comm *inner, const struct kind *all, bool share)
{
    for (int rank = 1; rank < inner->size && !share; rank++)
        for (int other = 0; other < rank; other++)
            if (strcmp(all[rank].uuid, all[other].uuid) == 0)
                return TR_FAIL(
                    TR_ERESOURCE,
                    "ranks %d and %d on %s were given the same GPU (%s): give each its own "
                    "(in Slurm --gpus-per-node, without --gpus-per-task), or let ranks share "
                    "them with --gpu-oversubscribe, which is slow",
                    other, rank, all[rank].host, all[rank].uuid);
    return TR_OK;
}

static enum tr_status check_kinds(const struct tr_nccl_world *w)
{
    struct kind mine = {0}, *all = calloc((size_t)w->inner->size, sizeof *all);
    enum tr_status s;

    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for the list of GPUs");
    snprintf(mine.gpu, sizeof mine.gpu, "%s", w->gpu->name);
    snprintf(mine.uuid, sizeof mine.uuid, "%s", w->gpu->uuid);
    gethostname(mine.host, sizeof mine.host - 1);
    w->inner->via->gather_all(w->inner, &mine, sizeof mine, all);
    s = compare_kinds(w->inner, all, w->how.mixed);
    if (s == TR_OK)
        s = compare_gpus(w->inner, all, w->how.share);
    free(all);
    return s;
}

/* Ids at which the ranks of the world meet: one where NCCL is too old for more. */
static int count_ids(const struct tr_nccl_world *w)
{
    const int most = w->how.ranks_of_id > 0 ? w->how.ranks_of_id : RANKS_OF_ONE_ROOT;
    const int ids = (w->inner->size + most - 1) / most;

#ifdef SCALABLE
    if (tr_nccl.ncclCommInitRankScalable)
        return ids;
#endif
    if (ids > 1)
        tr_log_rank0(TR_LOG_DEBUG, "all of them meet at rank 0, %d at a time", most);
    return 1;
}

/* The first of the ranks that meet at an id.  NCCL cuts the ranks into as many parts as there are ids,
   the longer ones first, and its port is opened by who makes the id: so that is a rank of the part. */
static int first_of(int id, int ids, int ranks)
{
    const int longer = ranks % ids;

    return id * (ranks / ids) + (id < longer ? id : longer);
}

static enum tr_status make_id(const struct tr_nccl_world *w, ncclUniqueId *ids, int count)
{
    ncclResult_t result = ncclSuccess;

    for (int i = 0; i < count; i++)
        if (w->inner->rank == first_of(i, count, w->inner->size))
            result = tr_nccl.ncclGetUniqueId(&ids[i]);
    if (result == ncclSuccess)
        return TR_OK;
    return TR_FAIL(
        TR_ERESOURCE,
        "NCCL cannot open the port at which ranks meet: %s; NCCL_SOCKET_IFNAME names the "
        "network to use",
        tr_nccl_words(NULL, result));
}

/* Afterwards all ranks have all ids. */
static enum tr_status share_ids(struct tr_nccl_world *w, ncclUniqueId *ids, int count)
{
    struct tr_comm *inner = w->inner;

    TR_TRY(tr_comm_agree(inner, make_id(w, ids, count)));
    for (int i = 0; i < count; i++) {
        int32_t words[sizeof *ids / sizeof(int32_t)];
        struct tr_tensor t = tr_i32_1(words, sizeof *ids / sizeof(int32_t));

        memcpy(words, &ids[i], sizeof *ids);
        inner->via->broadcast(inner, NULL, &t, first_of(i, count, inner->size));
        memcpy(&ids[i], words, sizeof *ids);
    }
    return TR_OK;
}

static ncclResult_t meet(struct tr_nccl_group *g, ncclUniqueId *ids, int count)
{
    struct tr_comm *inner = g->world->inner;
    ncclConfig_t config = config_of(g->name, false);

#ifdef SCALABLE
    if (count > 1)
        return tr_nccl.ncclCommInitRankScalable(&g->comm, inner->size, inner->rank, count, ids,
                                                &config);
#endif
    (void)count;
    return tr_nccl.ncclCommInitRankConfig(&g->comm, inner->size, ids[0], inner->rank, &config);
}

static enum tr_status meet_at_ids(struct tr_nccl_group *g)
{
    const int count = count_ids(g->world);
    ncclUniqueId *ids = calloc((size_t)count, sizeof *ids);
    enum tr_status s;

    if (!ids)
        tr_die(TR_ERESOURCE, "no memory left for the places at which ranks meet");
    s = share_ids(g->world, ids, count);
    if (s == TR_OK) {
        /* meet() sets the communicator, which a compiler may read before it calls that in one call. */
        const ncclResult_t met = meet(g, ids, count);

        s = tr_comm_agree(g->world->inner, connected(g, g->comm, met));
    }
    free(ids);
    return s;
}

/*
 * From 2.24 on NCCL starts a thread for each call on a communicator that does not block, which takes 30
 * to 100 microseconds of a host that makes some calls per layer; before, only for what makes
 * connections.  So from then on the groups of a step block.  That of the world does not: it is made
 * while ranks may be missing, and has few calls.  A thread looks after the rank while it is in a call,
 * for which the wrapped transport must have an ear.
 */
static enum tr_status choose_calls(struct tr_nccl_world *w, int version)
{
    struct tr_comm *inner = w->inner;
    const bool hears = inner->via->hears && inner->via->hears(inner);

    if (version < NCCL_VERSION(2, 24, 0) || tr_comm_max(inner, !hears) > 0)
        return TR_OK;
    return tr_comm_agree(inner, tr_nccl_guard_open(w));
}

static enum tr_status connect_world(struct tr_nccl_group *g)
{
    struct tr_nccl_world *w = g->world;
    enum tr_status s;
    int version = 0;

    TR_TRY(tr_comm_agree(w->inner, tr_nccl_open()));
    tr_nccl.ncclGetVersion(&version);
    tr_log_rank0(TR_LOG_DEBUG, "NCCL %d for %d ranks", version, w->inner->size);
    set_environment(&w->how, w->inner->rank, version);
    w->left = tr_nccl_left(w);
    TR_TRY(choose_calls(w, version));
    s = meet_at_ids(g);
    if (s != TR_OK) {
        w->broken = true;
        return s;
    }
    open_streams(g);
    w->gpu->watch = tr_nccl_watch;
    w->gpu->watch_ctx = w;
    return TR_OK;
}

static void close_world(struct tr_nccl_world *w)
{
    if (w->gpu->watch_ctx == w) {
        w->gpu->watch = NULL;
        w->gpu->watch_ctx = NULL;
    }
    TR_ASSERT(!w->groups);
    tr_nccl_guard_close(w);
    for (struct tr_nccl_call *x = w->idle, *next; x; x = next) {
        next = x->next;
        cudaEventDestroy(x->done);
        free(x);
    }
    free(w);
}

void tr_nccl_release(struct tr_comm *c)
{
    struct tr_nccl_group *g = group_of(c);
    struct tr_nccl_world *w = g ? g->world : NULL;
    bool whole = g && g->inner == w->inner;

    c->state = NULL;
    c->size = 0;
    if (g)
        remove_group(g);
    if (whole)
        close_world(w);
}

enum tr_status tr_comm_nccl_open(struct tr_comm *inner, struct tr_queue *q,
                                 const struct tr_nccl_how *how, struct tr_comm *out)
{
    struct tr_nccl_world *w = calloc(1, sizeof *w);
    struct tr_nccl_group *g;
    enum tr_status s = TR_OK;

    TR_ASSERT(q->on == &tr_cuda && how->timeout_s > 0.0);
    *out = (struct tr_comm){0};
    if (!w)
        tr_die(TR_ERESOURCE, "no memory left for the transport between GPUs");
    *w = (struct tr_nccl_world){.inner = inner, .gpu = tr_cuda_of(q->device), .how = *how};
    g = add_group(w, inner->name);
    g->inner = inner;
    fill(out, g);
    if (inner->size > 1) {
        s = check_kinds(w);
        if (s == TR_OK)
            s = connect_world(g);
    }
    if (s == TR_OK)
        tr_flight_world(out);
    else
        tr_nccl_release(out);
    return s;
}

size_t tr_nccl_left(const struct tr_nccl_world *w)
{
    size_t left = 0, all = 0;

    tr_cuda_must(w->gpu, cudaMemGetInfo(&left, &all), "cudaMemGetInfo");
    return left;
}

int64_t tr_comm_nccl_bytes(const struct tr_comm *world)
{
    return group_of(world)->world->bytes;
}

void tr_comm_nccl_register(struct tr_comm *world)
{
    struct tr_nccl_world *w = group_of(world)->world;

    w->registers = true;
    for (struct tr_nccl_group *g = w->groups; g; g = g->next)
        register_memory(g);
}
