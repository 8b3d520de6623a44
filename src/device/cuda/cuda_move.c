/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/cuda_move.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RING_BYTES = 32 << 20,
    PIECE_BYTES = 4 << 20, /* of one copy: while the GPU takes one the host fills the next */
    PIECES = 1024,         /* copies under way */
    COPIES = 64,           /* of a lane that can be waited for one by one */
    LINE = 256             /* copies begin on multiples of it */
};

/* A stretch of the ring that the GPU reads until `taken`. */
struct piece {
    size_t end; /* bytes put into the ring up to here, since the beginning */
    cudaEvent_t taken;
};

/* Copy n of a lane, counted from 1, has the event n % COPIES, which a later one takes over. */
struct lane {
    cudaStream_t stream;
    cudaEvent_t begin, done[COPIES];
    int64_t count;
};

/* Memory of the host that reserve_host() gave. */
struct pinned_block {
    struct pinned_block *next;
    unsigned char *data;
};

struct tr_cuda_moves {
    unsigned char *ring, *bounce; /* pinned: RING_BYTES; two pieces for downloads */
    size_t head, tail;            /* bytes put in and taken out since the beginning */
    struct piece piece[PIECES];
    int first, count; /* pieces under way, oldest first */
    cudaEvent_t arrived[2];
    struct lane lane[TR_LANES];
    struct pinned_block *reserved;
    size_t reserved_bytes;
};

static enum tr_status pinned(size_t bytes, unsigned char **out)
{
    cudaError_t error = cudaMallocHost((void **)out, bytes);

    if (error == cudaSuccess)
        return TR_OK;
    *out = NULL;
    return TR_FAIL(
        TR_ERESOURCE,
        "the system gives no %zu MiB of memory that the GPU can read (%s): see ulimit -l "
        "and the memory limit of the job",
        bytes >> 20, cudaGetErrorString(error));
}

static enum tr_status event(cudaEvent_t *out)
{
    cudaError_t error = cudaEventCreateWithFlags(out, cudaEventDisableTiming);

    if (error == cudaSuccess)
        return TR_OK;
    *out = NULL;
    return TR_FAIL(TR_ERESOURCE, "CUDA has no room for events: %s", cudaGetErrorString(error));
}

static enum tr_status fill(struct tr_cuda_moves *m)
{
    TR_TRY(pinned(RING_BYTES, &m->ring));
    TR_TRY(pinned(2 * PIECE_BYTES, &m->bounce));
    for (int i = 0; i < PIECES; i++)
        TR_TRY(event(&m->piece[i].taken));
    for (int i = 0; i < 2; i++)
        TR_TRY(event(&m->arrived[i]));
    return TR_OK;
}

enum tr_status tr_cuda_moves_open(struct tr_cuda_moves **out)
{
    struct tr_cuda_moves *m = calloc(1, sizeof *m);
    enum tr_status s;

    *out = NULL;
    if (!m)
        return TR_FAIL(TR_ERESOURCE, "no memory left to open a device");
    s = fill(m);
    if (s != TR_OK)
        tr_cuda_moves_close(m);
    else
        *out = m;
    return s;
}

static void close_lane(struct lane *l)
{
    for (int i = 0; i < COPIES; i++)
        if (l->done[i])
            (void)cudaEventDestroy(l->done[i]);
    if (l->begin)
        (void)cudaEventDestroy(l->begin);
    if (l->stream)
        (void)cudaStreamDestroy(l->stream);
}

static void close_reserved(struct tr_cuda_moves *m)
{
    struct pinned_block *next;

    for (struct pinned_block *p = m->reserved; p; p = next) {
        next = p->next;
        (void)cudaFreeHost(p->data);
        free(p);
    }
}

/* What fails here was under way when the device was closed, and has been told. */
void tr_cuda_moves_close(struct tr_cuda_moves *m)
{
    if (!m)
        return;
    for (int i = 0; i < PIECES; i++)
        if (m->piece[i].taken)
            (void)cudaEventDestroy(m->piece[i].taken);
    for (int i = 0; i < 2; i++)
        if (m->arrived[i])
            (void)cudaEventDestroy(m->arrived[i]);
    for (int i = 0; i < TR_LANES; i++)
        close_lane(&m->lane[i]);
    close_reserved(m);
    if (m->bounce)
        (void)cudaFreeHost(m->bounce);
    if (m->ring)
        (void)cudaFreeHost(m->ring);
    free(m);
}

/* The oldest piece has been taken: its room is free. */
static void retire(struct tr_cuda *g, struct tr_cuda_moves *m)
{
    struct piece *oldest = &m->piece[m->first];

    tr_cuda_wait_event(g, oldest->taken);
    m->tail = oldest->end;
    m->first = (m->first + 1) % PIECES;
    m->count--;
}

/* Room for one piece, in one stretch: what is left at the end of the ring is passed over. */
static unsigned char *room(struct tr_cuda *g, struct tr_cuda_moves *m, size_t bytes)
{
    const size_t lines = (bytes + LINE - 1) / LINE * LINE, at = m->head % RING_BYTES;

    if (at + lines > RING_BYTES)
        m->head += RING_BYTES - at;
    while (m->count == PIECES || (m->count > 0 && m->head + lines - m->tail > RING_BYTES))
        retire(g, m);
    if (m->count == 0)
        m->tail = m->head;
    m->head += lines;
    return m->ring + (m->head - lines) % RING_BYTES;
}

static void must_copy(struct tr_cuda *g, void *to, const void *from, size_t bytes,
                      enum cudaMemcpyKind kind)
{
    char call[80];
    cudaError_t error;

    TR_ASSERT(!g->capturing);     /* the ring is in host memory that changes */
    tr_cuda_pace(g, &g->pace, 2); /* with the event after it */
    error = cudaMemcpyAsync(to, from, bytes, kind, g->compute);
    if (error == cudaSuccess)
        return;
    snprintf(call, sizeof call, "cudaMemcpyAsync of %zu bytes %s the GPU", bytes,
             kind == cudaMemcpyHostToDevice ? "to" : "from");
    tr_cuda_must(g, error, call);
}

static void put(struct tr_cuda *g, struct tr_cuda_moves *m, void *to, const void *from,
                size_t bytes)
{
    unsigned char *at = room(g, m, bytes);
    struct piece *newest = &m->piece[(m->first + m->count) % PIECES];

    memcpy(at, from, bytes);
    must_copy(g, to, at, bytes, cudaMemcpyHostToDevice);
    tr_cuda_must(g, cudaEventRecord(newest->taken, g->compute), "cudaEventRecord");
    newest->end = m->head;
    m->count++;
}

/* Piece i of n bytes; the last one may be shorter. */
static size_t piece_bytes(size_t n, size_t i)
{
    size_t rest = n - i * PIECE_BYTES;

    return rest < PIECE_BYTES ? rest : PIECE_BYTES;
}

void tr_cuda_upload(struct tr_queue *q, const struct tr_tensor *to, const void *from)
{
    struct tr_cuda *g = tr_cuda_of(q->device);
    const size_t bytes = (size_t)tr_tensor_bytes(to);

    for (size_t i = 0, at = 0; at < bytes; i++, at += PIECE_BYTES)
        put(g, g->moves, (char *)to->data + at, (const char *)from + at, piece_bytes(bytes, i));
}

static void ask(struct tr_cuda *g, struct tr_cuda_moves *m, const struct tr_tensor *from, size_t i)
{
    must_copy(g, m->bounce + i % 2 * PIECE_BYTES, (const char *)from->data + i * PIECE_BYTES,
              piece_bytes((size_t)tr_tensor_bytes(from), i), cudaMemcpyDeviceToHost);
    tr_cuda_must(g, cudaEventRecord(m->arrived[i % 2], g->compute), "cudaEventRecord");
}

/* While the host empties one piece the GPU fills the other. */
void tr_cuda_download(struct tr_queue *q, void *to, const struct tr_tensor *from)
{
    struct tr_cuda *g = tr_cuda_of(q->device);
    struct tr_cuda_moves *m = g->moves;
    const size_t bytes = (size_t)tr_tensor_bytes(from);
    const size_t pieces = (bytes + PIECE_BYTES - 1) / PIECE_BYTES;

    for (size_t i = 0; i < 2 && i < pieces; i++)
        ask(g, m, from, i);
    for (size_t i = 0; i < pieces; i++) {
        tr_cuda_wait_event(g, m->arrived[i % 2]);
        memcpy((char *)to + i * PIECE_BYTES, m->bounce + i % 2 * PIECE_BYTES,
               piece_bytes(bytes, i));
        if (i + 2 < pieces)
            ask(g, m, from, i + 2);
    }
}

/* ---- copies beside the queue ---- */

static enum tr_status open_lane(struct lane *l)
{
    cudaError_t error;

    if (l->stream)
        return TR_OK;
    TR_TRY(event(&l->begin));
    for (int i = 0; i < COPIES; i++)
        TR_TRY(event(&l->done[i]));
    error = cudaStreamCreateWithFlags(&l->stream, cudaStreamNonBlocking);
    if (error == cudaSuccess)
        return TR_OK;
    l->stream = NULL;
    return TR_FAIL(TR_ERESOURCE, "CUDA has no room for streams: %s", cudaGetErrorString(error));
}

enum tr_status tr_cuda_reserve_host(struct tr_device *d, size_t bytes, void **out)
{
    struct tr_cuda_moves *m = tr_cuda_of(d)->moves;
    struct pinned_block *p;
    enum tr_status s;

    *out = NULL;
    for (int i = 0; i < TR_LANES; i++)
        TR_TRY(open_lane(&m->lane[i]));
    p = calloc(1, sizeof *p);
    if (!p)
        return TR_FAIL(TR_ERESOURCE, "no memory left for the list of reservations");
    s = pinned(bytes, &p->data);
    if (s != TR_OK) {
        free(p);
        return s;
    }
    memset(p->data, 0, bytes);
    p->next = m->reserved;
    m->reserved = p;
    m->reserved_bytes += bytes;
    *out = p->data;
    return TR_OK;
}

size_t tr_cuda_host_bytes(const struct tr_cuda_moves *m)
{
    return m->reserved_bytes;
}

int64_t tr_cuda_move(struct tr_queue *q, enum tr_lane lane, const struct tr_tensor *to,
                     const struct tr_tensor *from)
{
    struct tr_cuda *g = tr_cuda_of(q->device);
    struct lane *l = &g->moves->lane[lane];
    const size_t bytes = (size_t)tr_tensor_bytes(to);

    TR_ASSERT(!g->capturing && l->stream && to->dtype == from->dtype &&
              tr_tensor_elems(to) == tr_tensor_elems(from));
    /* No lane is queued without end: its copies before the last COPIES are done. */
    l->count++;
    if (l->count > COPIES)
        tr_cuda_wait_event(g, l->done[l->count % COPIES]);
    tr_cuda_pace(g, &g->pace, 1);
    tr_cuda_must(g, cudaEventRecord(l->begin, g->compute), "cudaEventRecord");
    tr_cuda_must(g, cudaStreamWaitEvent(l->stream, l->begin, 0), "cudaStreamWaitEvent");
    tr_cuda_must(
        g,
        cudaMemcpyAsync(to->data, from->data, bytes,
                        lane == TR_LANE_IN ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
                        l->stream),
        "cudaMemcpyAsync between host and GPU");
    tr_cuda_must(g, cudaEventRecord(l->done[l->count % COPIES], l->stream), "cudaEventRecord");
    return l->count * TR_LANES + (int64_t)lane;
}

/* The event of that copy, or of a later one that has taken it over. */
static cudaEvent_t event_of(const struct tr_cuda *g, int64_t copy)
{
    return g->moves->lane[copy % TR_LANES].done[copy / TR_LANES % COPIES];
}

void tr_cuda_moved(struct tr_queue *q, int64_t copy)
{
    struct tr_cuda *g = tr_cuda_of(q->device);

    if (copy > 0)
        tr_cuda_wait_event(g, event_of(g, copy));
}

void tr_cuda_after(struct tr_queue *q, int64_t copy)
{
    struct tr_cuda *g = tr_cuda_of(q->device);

    if (copy <= 0)
        return;
    tr_cuda_pace(g, &g->pace, 1);
    tr_cuda_must(g, cudaStreamWaitEvent(g->compute, event_of(g, copy), 0), "cudaStreamWaitEvent");
}
