/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_group.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "comm/reduce.h"

/*
 * An all-reduce of SLICED bytes or more goes as reduce-scatters and all-gathers of pieces.  What is started
 * and polled by MPI itself is slower there than what blocks, which would not let a rank see that another
 * one is lost; this is as fast.  Below SLICED, or SLICE for each rank, the number of messages counts: each
 * rank sends one to each.  Between nodes pieces are larger: where links are slow, each one ends with a wait for
 * the last of all ranks.
 */
enum { SLICED = 4096, SLICE = 512, PIECE = 1 << 20, PIECE_SPREAD = 1 << 24 };

/* What large transfers need, kept for the next ones. */
struct tr_mpi_scratch {
    struct tr_mpi_scratch *next; /* that is idle, too, or belongs to the same transfer */
    int64_t bytes;               /* of its contents: the addends */
    struct tr_tensor out;        /* where the sum goes, */
    enum tr_redop op;            /*   the operation; */
    struct tr_tensor all;        /* of an all-reduce: what is gathered then */
    bool added;
    struct tr_mpi_slices slices; /* of size 0 where one call of MPI moves all */
};
/* Bytes from a scratch to its contents, which are aligned. */
enum {
    ALIGNED = 64,
    SCRATCH_HEAD = (sizeof(struct tr_mpi_scratch) + ALIGNED - 1) / ALIGNED * ALIGNED
};

static MPI_Datatype type_of(const struct tr_tensor *t)
{
    TR_ASSERT(tr_dtype_is_float(t->dtype) || t->dtype == TR_F64);
    return t->dtype == TR_F32 ? MPI_FLOAT : t->dtype == TR_F64 ? MPI_DOUBLE : MPI_UINT16_T;
}

static MPI_Op op_of(const struct tr_comm *c, enum tr_dtype t, enum tr_redop op)
{
    if (t == TR_F16 || t == TR_BF16)
        return tr_mpi_group(c)->half[t == TR_BF16][op == TR_MAX];
    return op == TR_SUM ? MPI_SUM : MPI_MAX;
}

void tr_mpi_free_scratch(struct tr_mpi_group *g)
{
    for (int i = 0; i < 2; i++)
        for (struct tr_mpi_scratch *x = g->idle[i], *next; x; x = next) {
            next = x->next;
            free(x);
        }
}

/* MPI adds up what is left of `inout` from `first` on. */
static void start_rest(struct tr_comm *c, const struct tr_tensor *inout, int64_t first,
                       enum tr_redop op, struct tr_pending *p)
{
    const int64_t bytes = tr_dtype_bytes(inout->dtype);
    unsigned char *at = inout->data;

    tr_mpi_begin(c, p);
    for (int64_t all = tr_tensor_elems(inout); first < all;) {
        const int n = all - first < TR_MPI_WHOLE ? (int)(all - first) : TR_MPI_WHOLE;
        MPI_Request request;

        tr_mpi_check(c, p,
                     MPI_Iallreduce(MPI_IN_PLACE, at + first * bytes, n, type_of(inout),
                                    op_of(c, inout->dtype, op), tr_mpi_group(c)->comm, &request));
        tr_mpi_put(c, p, request);
        first += n;
    }
    tr_mpi_leave(c);
}

/* ---- room ---- */

/* Those with contents and those without are kept separately. */
static struct tr_mpi_scratch **idle_for(struct tr_comm *c, int64_t bytes)
{
    return &tr_mpi_group(c)->idle[bytes > 0];
}

/* The first idle one that is large enough; the others are of a size that is perhaps never asked for
   again. */
static struct tr_mpi_scratch *take_scratch(struct tr_comm *c, int64_t bytes)
{
    struct tr_mpi_scratch **idle = idle_for(c, bytes), *x;

    for (struct tr_mpi_scratch **at = idle; *at; at = &(*at)->next)
        if ((*at)->bytes >= bytes) {
            x = *at;
            *at = x->next;
            return x;
        }
    if (*idle) {
        x = *idle;
        *idle = x->next;
        free(x);
    }
    bytes = (bytes + ALIGNED - 1) / ALIGNED * ALIGNED;
    x = aligned_alloc(ALIGNED, (size_t)(SCRATCH_HEAD + bytes));
    if (!x)
        tr_die(TR_ERESOURCE,
               "no memory left for a reduce-scatter of %lld bytes in group \"%s\"; make buckets "
               "(--ddp-bucket-size) or micro-batches smaller",
               (long long)bytes, c->name);
    x->bytes = bytes;
    return x;
}

static void *contents(struct tr_mpi_scratch *x)
{
    return (unsigned char *)x + SCRATCH_HEAD;
}

/* All slices have arrived. */
static void add_up(struct tr_mpi_scratch *x, int ranks)
{
    tr_reduce_slices(&x->out, contents(x), ranks, x->op);
    x->added = true;
}

static void make_idle(struct tr_comm *c, struct tr_mpi_scratch *x)
{
    struct tr_mpi_scratch **idle = idle_for(c, x->bytes);

    x->next = *idle;
    *idle = x;
}

void tr_mpi_put_back(struct tr_comm *c, struct tr_pending *p)
{
    for (struct tr_mpi_scratch *x = p->scratch, *next; x; x = next) {
        next = x->next;
        if (x->bytes > 0 && !x->added)
            add_up(x, c->size);
        make_idle(c, x);
    }
    p->scratch = NULL;
}

struct tr_mpi_slices *tr_mpi_room(struct tr_comm *c, struct tr_pending *p)
{
    struct tr_mpi_scratch *x = take_scratch(c, 0);

    x->next = p->scratch;
    p->scratch = x;
    return &x->slices;
}

void tr_mpi_move(struct tr_comm *c, const struct tr_pending *p, struct tr_mpi_slices *x)
{
    if (!p->blocking)
        tr_progress_thread_count(tr_mpi_group(c)->progress, 1);
    tr_mpi_slices_start(x);
}

int tr_mpi_moving(const struct tr_pending *p)
{
    int n = 0;

    for (const struct tr_mpi_scratch *x = p->scratch; x; x = x->next)
        n += x->slices.size > 0;
    return n;
}

bool tr_mpi_moved(const struct tr_comm *c, const struct tr_pending *p)
{
    for (const struct tr_mpi_scratch *x = p->scratch; x; x = x->next) {
        if (x->slices.size == 0)
            continue;
        if (!tr_mpi_slices_done(&x->slices))
            return false;
        tr_mpi_check(c, p, x->slices.error);
    }
    return true;
}

/* ---- slices ---- */

static int64_t segment_of(const struct tr_comm *c)
{
    return tr_mpi_group(c)->spread ? TR_MPI_SEGMENT : TR_MPI_SEGMENT_NODE;
}

/* A slice for each rank and one from each, between enter() and leave(). */
static void move_slices(struct tr_comm *c, const struct tr_pending *p, struct tr_mpi_slices *x,
                        const unsigned char *from, int64_t from_step, unsigned char *to,
                        int64_t bytes, void (*over)(struct tr_mpi_slices *x))
{
    struct tr_mpi_group *g = tr_mpi_group(c);

    *x = (struct tr_mpi_slices){.comm = g->comm,
                                .size = c->size,
                                .tag = TR_MPI_TAG_SLICES + (int)(p->seq % TR_MPI_TAGS),
                                .lanes = c->size - 1,
                                .give_to = (c->rank + 1) % c->size,
                                .take_from = (c->rank + c->size - 1) % c->size,
                                .from = from,
                                .to = to,
                                .from_step = from_step,
                                .to_step = bytes,
                                .bytes = bytes,
                                .segment = segment_of(c),
                                .pace = g->spread ? &g->pace : NULL,
                                .over = over};
    tr_mpi_move(c, p, x);
}

/* Room for the slices of `in` that go to this rank. */
static struct tr_mpi_scratch *take_sum(struct tr_comm *c, const struct tr_tensor *out,
                                       const struct tr_tensor *in, enum tr_redop op)
{
    struct tr_mpi_scratch *x;

    TR_ASSERT(out->dtype == in->dtype);
    TR_ASSERT(tr_dtype_is_float(out->dtype) || out->dtype == TR_F64);
    TR_ASSERT(tr_tensor_bytes(in) == tr_tensor_bytes(out) * c->size);
    x = take_scratch(c, tr_tensor_bytes(in));
    x->next = NULL;
    x->out = *out;
    x->op = op;
    x->added = false;
    x->slices.size = 0;
    return x;
}

/* Of a sum, the rank's own slice, which is not sent. */
static void keep_own(struct tr_comm *c, struct tr_mpi_scratch *x, const struct tr_tensor *in)
{
    const int64_t bytes = tr_tensor_bytes(&x->out), own = c->rank * bytes;

    memcpy((unsigned char *)contents(x) + own, (const unsigned char *)in->data + own,
           (size_t)bytes);
}

static struct tr_mpi_scratch *scratch_of(struct tr_mpi_slices *x)
{
    return (void *)((unsigned char *)x - offsetof(struct tr_mpi_scratch, slices));
}

static void then_add_up(struct tr_mpi_slices *x)
{
    add_up(scratch_of(x), x->size);
}

/*
 * Every rank sends slice r of its data to rank r, which sums what it receives: as many bytes as a
 * ring sends, in the order of ranks, and fp16 and bf16 are rounded once.
 */
static void start_slices(struct tr_comm *c, const struct tr_tensor *out, const struct tr_tensor *in,
                         enum tr_redop op, struct tr_pending *p)
{
    const int64_t bytes = tr_tensor_bytes(out);
    struct tr_mpi_scratch *x = p->scratch = take_sum(c, out, in, op);
    MPI_Request request;

    tr_mpi_begin(c, p);
    if (bytes > segment_of(c)) {
        keep_own(c, x, in);
        move_slices(c, p, &x->slices, in->data, bytes, contents(x), bytes, then_add_up);
    } else {
        tr_mpi_check(c, p,
                     MPI_Ialltoall(in->data, (int)bytes, MPI_BYTE, contents(x), (int)bytes,
                                   MPI_BYTE, tr_mpi_group(c)->comm, &request));
        tr_mpi_put(c, p, request);
    }
    tr_mpi_leave(c);
}

void tr_mpi_reduce_scatter_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *out,
                                 const struct tr_tensor *in, enum tr_redop op, struct tr_pending *p)
{
    tr_mpi_settle(q);
    *p = (struct tr_pending){.call = "reduce-scatter", .seq = ++c->seq};
    start_slices(c, out, in, op, p);
}

static void start_gather(struct tr_comm *c, const struct tr_tensor *inout, struct tr_pending *p)
{
    const int64_t bytes = tr_tensor_bytes(inout) / c->size;
    unsigned char *all = inout->data;
    MPI_Request request;

    TR_ASSERT(tr_tensor_elems(inout) % c->size == 0);
    tr_mpi_begin(c, p);
    if (bytes > segment_of(c)) {
        move_slices(c, p, tr_mpi_room(c, p), all + c->rank * bytes, 0, all, bytes, NULL);
    } else {
        tr_mpi_check(c, p,
                     MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, (int)bytes, MPI_BYTE,
                                    tr_mpi_group(c)->comm, &request));
        tr_mpi_put(c, p, request);
    }
    tr_mpi_leave(c);
}

void tr_mpi_allgather_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            struct tr_pending *p)
{
    tr_mpi_settle(q);
    *p = (struct tr_pending){.call = "all-gather", .seq = ++c->seq};
    start_gather(c, inout, p);
}

/* How many elements of `x` go in slices of one length: none, or all but fewer than there are ranks. */
static int64_t in_slices(const struct tr_comm *c, const struct tr_tensor *x)
{
    const int64_t least = SLICE * (int64_t)c->size;

    if (c->size == 1 || tr_tensor_bytes(x) < (least > SLICED ? least : SLICED))
        return 0;
    return tr_tensor_elems(x) / c->size * c->size;
}

static struct tr_tensor own_slice(const struct tr_comm *c, const struct tr_tensor *all)
{
    const int64_t n = tr_tensor_elems(all) / c->size;

    return tr_tensor_span(all, c->rank * n, n);
}

/* `all` (slices of one length) = the sum or maximum: each rank adds up a slice, and all have it. */
static void sum_by_slices(struct tr_comm *c, const struct tr_tensor *all, enum tr_redop op,
                          struct tr_pending *p)
{
    const struct tr_tensor mine = own_slice(c, all);

    start_slices(c, &mine, all, op, p);
    tr_mpi_finish(c, NULL, p);
    start_gather(c, all, p);
    tr_mpi_finish(c, NULL, p);
}

void tr_mpi_allreduce(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                      enum tr_redop op)
{
    const int64_t room = tr_mpi_group(c)->spread ? PIECE_SPREAD : PIECE;
    const int64_t most = room / tr_dtype_bytes(inout->dtype) / c->size * c->size;
    const int64_t all = tr_tensor_elems(inout), sliced = most > 0 ? in_slices(c, inout) : 0;
    struct tr_pending p = {.call = "all-reduce", .seq = ++c->seq, .blocking = true};

    tr_mpi_settle(q);
    for (int64_t done = 0; done < sliced; done += most) {
        const int64_t n = sliced - done < most ? sliced - done : most;
        const struct tr_tensor piece = tr_tensor_span(inout, done, n);

        sum_by_slices(c, &piece, op, &p);
    }
    if (c->size == 1 || sliced == all)
        return;
    start_rest(c, inout, sliced, op, &p);
    tr_mpi_finish(c, NULL, &p);
}

/* The slice of this rank is here from all. */
static void then_gather(struct tr_mpi_slices *x)
{
    struct tr_mpi_scratch *s = scratch_of(x);

    add_up(s, x->size);
    x->from = s->out.data;
    x->from_step = 0;
    x->to = s->all.data;
    tr_mpi_slices_again(x);
}

/* Start an all-reduce; polls move it from the reduce-scatter to the all-gather. */
static void start_sliced(struct tr_comm *c, const struct tr_tensor *all, enum tr_redop op,
                         struct tr_pending *p)
{
    const struct tr_tensor mine = own_slice(c, all);
    const int64_t bytes = tr_tensor_bytes(&mine);
    struct tr_mpi_scratch *x = p->scratch = take_sum(c, &mine, all, op);

    x->all = *all;
    keep_own(c, x, all);
    tr_mpi_begin(c, p);
    move_slices(c, p, &x->slices, all->data, bytes, contents(x), bytes, then_gather);
    tr_mpi_leave(c);
}

/* The same bits as a blocking call, on any nodes: all but the rest is summed in the order of
   ranks. */
void tr_mpi_allreduce_start(struct tr_comm *c, struct tr_queue *q, const struct tr_tensor *inout,
                            enum tr_redop op, struct tr_pending *p)
{
    const int64_t sliced = in_slices(c, inout);

    tr_mpi_settle(q);
    *p = (struct tr_pending){.call = "all-reduce", .seq = ++c->seq};
    if (sliced > 0) {
        const struct tr_tensor piece = tr_tensor_span(inout, 0, sliced);

        start_sliced(c, &piece, op, p);
    }
    if (sliced < tr_tensor_elems(inout))
        start_rest(c, inout, sliced, op, p);
}
