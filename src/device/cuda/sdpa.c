/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/sdpa.h"

/*
 * What takes the place of a masked score.  exp() of it, and of it less any score or logarithm of a sum
 * that half precision can give, is 0; an infinity would make NaN of a difference.
 */
static const float MASKED = -0x1p30f;

static int name(struct tr_sdpa_graph *g, enum tr_sdpa_name n, enum tr_sdpa_place place,
                enum tr_sdpa_type type, const int64_t dim[4], const int64_t stride[4])
{
    struct tr_sdpa_tensor *t = &g->tensor[n];

    t->place = place;
    t->type = type;
    for (int i = 0; i < 4; i++) {
        t->dim[i] = dim[i];
        t->stride[i] = stride[i];
    }
    return (int)n;
}

/* A number that comes with each call. */
static int value(struct tr_sdpa_graph *g, enum tr_sdpa_name n)
{
    static const int64_t one[4] = {1, 1, 1, 1};

    return name(g, n, TR_SDPA_VALUE, TR_SDPA_F32, one, one);
}

/* The heads of an operand of which every head has `parts` times d numbers in a row. */
static int heads(struct tr_sdpa_graph *g, struct tr_sdpa_sizes s, enum tr_sdpa_name n, int parts)
{
    int64_t row = s.row_heads * parts * s.d;

    return name(g, n, TR_SDPA_MEMORY, TR_SDPA_DATA, (int64_t[]){s.b, s.heads, s.t, s.d},
                (int64_t[]){s.t * row, parts * s.d, row, 1});
}

/* The same, transposed. */
static int turned(struct tr_sdpa_graph *g, struct tr_sdpa_sizes s, enum tr_sdpa_name n, int parts)
{
    int64_t row = s.row_heads * parts * s.d;

    return name(g, n, TR_SDPA_MEMORY, TR_SDPA_DATA, (int64_t[]){s.b, s.heads, s.d, s.t},
                (int64_t[]){s.t * row, parts * s.d, 1, row});
}

/* One number per query. */
static int rows(struct tr_sdpa_graph *g, struct tr_sdpa_sizes s, enum tr_sdpa_name n)
{
    return name(g, n, TR_SDPA_MEMORY, TR_SDPA_F32, (int64_t[]){s.b, s.heads, s.t, 1},
                (int64_t[]){s.heads * s.t, s.t, 1, 1});
}

/* The sum of dq, without gaps. */
static int dq_sum(struct tr_sdpa_graph *g, struct tr_sdpa_sizes s)
{
    return name(g, TR_SDPA_DQ_SUM, TR_SDPA_MEMORY, TR_SDPA_F32, (int64_t[]){s.b, s.heads, s.t, s.d},
                (int64_t[]){s.heads * s.t * s.d, s.t * s.d, s.d, 1});
}

/* A new tensor of the shape of a graph: [b,heads,t,columns], without gaps. */
static int fresh(struct tr_sdpa_graph *g, enum tr_sdpa_type type, struct tr_sdpa_sizes s,
                 int64_t columns)
{
    TR_ASSERT(g->tensors < TR_SDPA_MAX_TENSORS);
    g->tensor[g->tensors] = (struct tr_sdpa_tensor){
        .place = TR_SDPA_VIRTUAL,
        .type = type,
        .dim = {s.b, s.heads, s.t, columns},
        .stride = {s.heads * s.t * columns, s.t * columns, columns, 1},
    };
    return g->tensors++;
}

static int add(struct tr_sdpa_graph *g, struct tr_sdpa_node n)
{
    TR_ASSERT(g->nodes < TR_SDPA_MAX_NODES);
    g->node[g->nodes++] = n;
    return n.y;
}

static int one(struct tr_sdpa_graph *g, enum tr_sdpa_op op, int x, int y)
{
    return add(g, (struct tr_sdpa_node){op, x, -1, -1, y});
}

static int two(struct tr_sdpa_graph *g, enum tr_sdpa_op op, int x, int b, int y)
{
    return add(g, (struct tr_sdpa_node){op, x, b, -1, y});
}

/* A tensor of rows and columns of x, the other way round; in memory it is the same. */
static int transpose(struct tr_sdpa_graph *g, struct tr_sdpa_sizes s, enum tr_sdpa_type type, int x)
{
    int y = fresh(g, type, s, 1);

    for (int i = 0; i < 4; i++) {
        int from = i == 2 ? 3 : i == 3 ? 2 : i;

        g->tensor[y].dim[i] = g->tensor[x].dim[from];
        g->tensor[y].stride[i] = g->tensor[x].stride[from];
    }
    return one(g, TR_SDPA_TRANSPOSE, x, y);
}

static struct tr_sdpa_graph *begin(struct tr_sdpa_graph *g, struct tr_sdpa_sizes s)
{
    TR_ASSERT(s.heads == s.row_heads || s.b == 1);
    *g = (struct tr_sdpa_graph){.tensors = TR_SDPA_NAMES};
    return g;
}

/* scale q k^T. */
static int scores(struct tr_sdpa_graph *g, struct tr_sdpa_sizes s, int q, int k, int scale)
{
    int raw = two(g, TR_SDPA_MATMUL, q, k, fresh(g, TR_SDPA_F32, s, s.t));

    return two(g, TR_SDPA_MUL, raw, scale, fresh(g, TR_SDPA_F32, s, s.t));
}

/* x where the query comes no earlier than the key. */
static int causal(struct tr_sdpa_graph *g, struct tr_sdpa_sizes s, int x)
{
    int row = one(g, TR_SDPA_ROW, x, fresh(g, TR_SDPA_I32, s, s.t));
    int column = one(g, TR_SDPA_COLUMN, x, fresh(g, TR_SDPA_I32, s, s.t));
    int seen = two(g, TR_SDPA_NOT_LESS, row, column, fresh(g, TR_SDPA_BOOL, s, s.t));
    int masked = value(g, TR_SDPA_MASKED), y = fresh(g, TR_SDPA_F32, s, s.t);

    return add(g, (struct tr_sdpa_node){TR_SDPA_SELECT, x, masked, seen, y});
}

void tr_sdpa_forward(struct tr_sdpa_sizes s, struct tr_sdpa_graph *out)
{
    struct tr_sdpa_graph *g = begin(out, s);
    int q = heads(g, s, TR_SDPA_Q, 3), k = turned(g, s, TR_SDPA_K, 3);
    int v = heads(g, s, TR_SDPA_V, 3), ctx = heads(g, s, TR_SDPA_CTX, 1);
    int lse = rows(g, s, TR_SDPA_LSE), scale = value(g, TR_SDPA_SCALE);
    int x = causal(g, s, scores(g, s, q, k, scale));
    int max = one(g, TR_SDPA_ROW_MAX, x, fresh(g, TR_SDPA_F32, s, 1));
    int below = two(g, TR_SDPA_SUB, x, max, fresh(g, TR_SDPA_F32, s, s.t));
    int e = one(g, TR_SDPA_EXP, below, fresh(g, TR_SDPA_F32, s, s.t));
    int sum = one(g, TR_SDPA_ROW_SUM, e, fresh(g, TR_SDPA_F32, s, 1));
    int log = one(g, TR_SDPA_LOG, sum, fresh(g, TR_SDPA_F32, s, 1)), p;

    two(g, TR_SDPA_ADD, max, log, lse);
    p = two(g, TR_SDPA_DIV, e, sum, fresh(g, TR_SDPA_DATA, s, s.t));
    two(g, TR_SDPA_MATMUL, p, v, ctx);
}

/* The sum of dctx * ctx in each row.  The factor of 1 stands where dropout would have its own; without
   it cuDNN takes the graph for another and keeps three such matrices. */
static int row_sums(struct tr_sdpa_graph *g, struct tr_sdpa_sizes s, int dctx, int ctx)
{
    int unit = value(g, TR_SDPA_ONE), into = rows(g, s, TR_SDPA_ROWSUM);
    int product = two(g, TR_SDPA_MUL, dctx, ctx, fresh(g, TR_SDPA_F32, s, s.d));
    int sum = one(g, TR_SDPA_ROW_SUM, product, fresh(g, TR_SDPA_F32, s, 1));

    return two(g, TR_SDPA_MUL, sum, unit, into);
}

void tr_sdpa_backward(struct tr_sdpa_sizes s, struct tr_sdpa_graph *out)
{
    struct tr_sdpa_graph *g = begin(out, s);
    int q = heads(g, s, TR_SDPA_Q, 3), k = turned(g, s, TR_SDPA_K, 3);
    int v = turned(g, s, TR_SDPA_V, 3), ctx = heads(g, s, TR_SDPA_CTX, 1);
    int dctx = heads(g, s, TR_SDPA_DCTX, 1), lse = rows(g, s, TR_SDPA_LSE);
    int dq = heads(g, s, TR_SDPA_DQ, 3), dk = heads(g, s, TR_SDPA_DK, 3);
    int dv = heads(g, s, TR_SDPA_DV, 3), scale = value(g, TR_SDPA_SCALE);
    int sums = row_sums(g, s, dctx, ctx), x = scores(g, s, q, k, scale);
    int below = two(g, TR_SDPA_SUB, x, lse, fresh(g, TR_SDPA_F32, s, s.t));
    int p = one(g, TR_SDPA_EXP, causal(g, s, below), fresh(g, TR_SDPA_F32, s, s.t));
    int dp, centred, ds;

    two(g, TR_SDPA_MATMUL, transpose(g, s, TR_SDPA_DATA, p), dctx, dv);
    dp = two(g, TR_SDPA_MATMUL, dctx, v, fresh(g, TR_SDPA_F32, s, s.t));
    centred = two(g, TR_SDPA_SUB, dp, sums, fresh(g, TR_SDPA_F32, s, s.t));
    ds = two(g, TR_SDPA_MUL, centred, p, fresh(g, TR_SDPA_F32, s, s.t));
    ds = two(g, TR_SDPA_MUL, ds, scale, fresh(g, TR_SDPA_F32, s, s.t));
    two(g, TR_SDPA_MATMUL, transpose(g, s, TR_SDPA_DATA, ds), q, dk);
    k = transpose(g, s, TR_SDPA_DATA, k);
    if (s.any_order)
        one(g, TR_SDPA_COPY, two(g, TR_SDPA_MATMUL, ds, k, dq_sum(g, s)), dq);
    else
        two(g, TR_SDPA_MATMUL, ds, k, dq);
}

float tr_sdpa_value(enum tr_sdpa_name n, float scale)
{
    return n == TR_SDPA_SCALE ? scale : n == TR_SDPA_MASKED ? MASKED : 1.0f;
}

/* fp32 numbers, so many for each query, in a multiple of 256 bytes. */
static size_t room_of(struct tr_sdpa_sizes s, int64_t numbers)
{
    return ((size_t)(s.b * s.heads * s.t * numbers) * sizeof(float) + 255) / 256 * 256;
}

size_t tr_sdpa_rowsum_bytes(struct tr_sdpa_sizes s)
{
    return room_of(s, 1);
}

size_t tr_sdpa_sums_bytes(struct tr_sdpa_sizes s)
{
    return tr_sdpa_rowsum_bytes(s) + (s.any_order ? room_of(s, s.d) : 0);
}

/* The matrix is one of 128 by 128 blocks.  In any order the kernels of cuDNN 9.19 for GPUs of compute capability 8
   have another sum of dq, for a length in multiples of 8 (those for 9 have none).  Plans want up to 256 bytes
   more than that, and here they have 4096. */
size_t tr_sdpa_backward_bytes(struct tr_sdpa_sizes s)
{
    size_t t = (size_t)(s.t + 127) / 128 * 128;
    size_t row = s.any_order ? (size_t)s.d * sizeof(float) : t * 2;

    return tr_sdpa_sums_bytes(s) + (size_t)(s.b * s.heads) * t * row + 4096;
}

static bool fits(struct tr_sdpa_sizes s, int64_t b, int64_t n, size_t room)
{
    s.b = b;
    s.heads = n;
    return tr_sdpa_backward_bytes(s) <= room;
}

/* The fewest parts of `total` that all fit. */
static int64_t fewest(struct tr_sdpa_sizes s, int64_t total, bool samples, size_t room)
{
    for (int64_t parts = 1; parts <= total; parts++) {
        int64_t most = (total + parts - 1) / parts;

        if (samples ? fits(s, most, s.heads, room) : fits(s, 1, most, room))
            return parts;
    }
    return 0;
}

struct tr_sdpa_parts tr_sdpa_share(struct tr_sdpa_sizes all, size_t room)
{
    struct tr_sdpa_parts p = {.b = all.b, .heads = all.heads, .per_sample = 1};

    p.count = fewest(all, all.b, true, room);
    if (p.count == 0) {
        p.per_sample = fewest(all, all.heads, false, room);
        p.count = all.b * p.per_sample;
    }
    return p;
}

/* Share i of `total` in n: first and length. */
static int64_t share(int64_t total, int64_t n, int64_t i, int64_t *length)
{
    int64_t first = total * i / n;

    *length = total * (i + 1) / n - first;
    return first;
}

struct tr_sdpa_part tr_sdpa_part(struct tr_sdpa_parts p, int64_t i)
{
    struct tr_sdpa_part part = {.b = 1, .heads = p.heads};

    TR_ASSERT(i >= 0 && i < p.count);
    if (p.per_sample == 1) {
        part.first_b = share(p.b, p.count, i, &part.b);
        return part;
    }
    part.first_b = i / p.per_sample;
    part.first_head = share(p.heads, p.per_sample, i % p.per_sample, &part.heads);
    return part;
}

int64_t tr_sdpa_offset(struct tr_sdpa_sizes all, struct tr_sdpa_part part, enum tr_sdpa_name n)
{
    int64_t head = part.first_head, row = part.first_b * all.t * all.row_heads;

    switch (n) {
    case TR_SDPA_Q:
    case TR_SDPA_DQ:
        return (row + head) * 3 * all.d;
    case TR_SDPA_K:
    case TR_SDPA_DK:
        return (row + head) * 3 * all.d + all.d;
    case TR_SDPA_V:
    case TR_SDPA_DV:
        return (row + head) * 3 * all.d + 2 * all.d;
    case TR_SDPA_CTX:
    case TR_SDPA_DCTX:
        return (row + head) * all.d;
    case TR_SDPA_LSE:
        return (part.first_b * all.row_heads + head) * all.t;
    default:
        return 0;
    }
}
