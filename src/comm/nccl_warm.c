/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/nccl_group.h"

/* The first calls of all communicators, made before the memory of the GPU is given to anybody else. */

/* From one size to the next: NCCL's choices change at larger steps than this.  And what all operands are a
   multiple of on each rank. */
enum { TIMES = 16, LEAST = 8 };

static bool takes_part(const struct tr_nccl_use *u)
{
    return u->group->size > 1 && u->bytes > 0;
}

/* The most that is tried, the same on all ranks: the choices for larger operands are no others. */
static int64_t most_of(const struct tr_nccl_world *w)
{
    const int64_t most = 256 << 20, part = (int64_t)(w->left / 4);

    return -tr_comm_max(w->inner, -(most < part ? most : part));
}

static int64_t rounded(const struct tr_nccl_use *u, int64_t bytes)
{
    const int64_t unit = (int64_t)LEAST * u->group->size;

    return (bytes + unit - 1) / unit * unit;
}

static void collective(struct tr_queue *q, const struct tr_nccl_use *u, void *room, int64_t bytes)
{
    struct tr_comm *c = u->group;
    const int64_t n = rounded(u, bytes) / tr_dtype_bytes(u->type);
    struct tr_tensor all = tr_tensor_1(room, u->type, n), mine;

    mine = tr_tensor_span(&all, c->rank * (n / c->size), n / c->size);
    if (u->call == TR_NCCL_ALLREDUCE)
        c->via->allreduce(c, q, &all, u->op);
    else if (u->call == TR_NCCL_REDUCE_SCATTER)
        c->via->reduce_scatter(c, q, &mine, &all, u->op);
    else
        c->via->allgather(c, q, &all);
}

/* A message to rank `to`, and one from rank `from`; below 0: none. */
static void message(struct tr_queue *q, const struct tr_nccl_use *u, char *room, int64_t bytes,
                    int to, int from)
{
    struct tr_leg leg[2];
    struct tr_pending p;
    int n = 0;

    if (to >= 0)
        leg[n++] = (struct tr_leg){TR_LEG_SEND, to, room, bytes};
    if (from >= 0)
        leg[n++] = (struct tr_leg){TR_LEG_RECV, from, room + bytes, bytes};
    if (n == 0)
        return;
    u->group->via->exchange_start(u->group, q, leg, n, &p);
    u->group->via->finish(u->group, q, &p);
}

/* Up and then down by one, or up by each distance that there is. */
static void messages(struct tr_queue *q, const struct tr_nccl_use *u, char *room, int64_t bytes)
{
    const int size = u->group->size, rank = u->group->rank;
    const int farthest = u->call == TR_NCCL_ALL_TO_ALL ? size - 1 : 1;
    const bool chain = u->call == TR_NCCL_CHAIN;

    for (int i = 1; i <= farthest; i++) {
        int up = (rank + i) % size, down = (rank + size - i) % size;

        if (chain && rank == size - 1)
            up = -1;
        if (chain && rank == 0)
            down = -1;
        message(q, u, room, bytes, up, down);
        if (u->call != TR_NCCL_ALL_TO_ALL)
            message(q, u, room, bytes, down, up);
    }
}

static void one_use(struct tr_queue *q, const struct tr_nccl_use *u, void *room, int64_t most)
{
    const int64_t bytes = u->bytes < most ? u->bytes : most;

    /* Messages take the same connections whatever their size. */
    if (u->call >= TR_NCCL_CHAIN) {
        messages(q, u, room, LEAST);
        return;
    }
    for (int64_t b = LEAST; b < bytes; b *= TIMES)
        collective(q, u, room, b);
    collective(q, u, room, bytes);
}

/* All operands fit, with what rounding adds to them. */
static int64_t room_for(const struct tr_nccl_use *use, int n, int64_t most)
{
    int64_t bytes = (int64_t)2 * LEAST;

    for (int i = 0; i < n; i++) {
        const int64_t b = use[i].bytes < most ? use[i].bytes : most;

        if (takes_part(&use[i]) && rounded(&use[i], b) > bytes)
            bytes = rounded(&use[i], b);
    }
    return bytes;
}

static enum tr_status open_room(const struct tr_nccl_world *w, int64_t bytes, void **room)
{
    cudaError_t error = cudaMalloc(room, (size_t)bytes);

    if (error == cudaSuccess)
        error = cudaMemsetAsync(*room, 0, (size_t)bytes, w->gpu->compute);
    if (error == cudaSuccess)
        return TR_OK;
    (void)cudaGetLastError();
    return TR_FAIL(TR_ERESOURCE,
                   "GPU %d (%s) has no %.1f MiB to make the first calls of NCCL with (%s): see "
                   "nvidia-smi for who else is there",
                   w->gpu->ordinal, w->gpu->name, (double)bytes / 1048576.0,
                   cudaGetErrorString(error));
}

/* Memory counts when no rank that shares the GPU is on its way, or has gone on to take more. */
static void measure(struct tr_nccl_world *w)
{
    size_t left;

    w->inner->via->barrier(w->inner);
    left = tr_nccl_left(w);
    w->inner->via->barrier(w->inner);
    w->bytes = w->left > left ? (int64_t)(w->left - left) : 0;
    w->gpu->of_nccl = w->bytes;
}

enum tr_status tr_comm_nccl_warm(struct tr_comm *world, const struct tr_nccl_use *use, int n)
{
    struct tr_nccl_group *g = world->state;
    struct tr_nccl_world *w = g->world;
    struct tr_queue q = {.on = &tr_cuda, .device = (struct tr_device *)w->gpu};
    void *room = NULL;
    int64_t most;

    if (world->size == 1)
        return TR_OK;
    most = most_of(w);
    TR_TRY(tr_comm_agree(w->inner, open_room(w, room_for(use, n, most), &room)));
    w->warming = true;
    for (int i = 0; i < n; i++)
        if (takes_part(&use[i]))
            one_use(&q, &use[i], room, most);
    w->warming = false;
    for (g = w->groups; g; g = g->next)
        if (g->comm)
            tr_nccl_drain(g);
    tr_cuda_must(w->gpu, cudaFree(room), "cudaFree");
    measure(w);
    return TR_OK;
}
