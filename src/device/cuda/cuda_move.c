/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/cuda_move.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RING_BYTES = 32 << 20,
    PIECE_BYTES = 4 << 20, /* of one copy: while the GPU takes one the host fills the next */
    PIECES = 1024,         /* copies under way */
    LINE = 256             /* copies begin on multiples of it */
};

/* A stretch of the ring that the GPU reads until `taken`. */
struct piece {
    size_t end; /* bytes put into the ring up to here, since the beginning */
    cudaEvent_t taken;
};

struct tr_cuda_moves {
    unsigned char *ring, *bounce; /* pinned: RING_BYTES; two pieces for downloads */
    size_t head, tail;            /* bytes put in and taken out since the beginning */
    struct piece piece[PIECES];
    int first, count; /* pieces under way, oldest first */
    cudaEvent_t arrived[2];
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
