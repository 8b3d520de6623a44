/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/codec_trial.h"
#include "device/each.h"
#include "device/sizes.h"
#include "device/trial.h"

/*
 * Every row of ops.def on every backend, against ref, with every mix of element types.  A row NAME
 * has a function NAME_trial here or in codec_trial.c, or this file does not compile.  The function
 * draws sizes and operands from the trial's own random numbers and calls the operation, so running
 * it again with another backend repeats it exactly.
 */
enum { TRIALS = 24, TRIALS_HALF = 8 };

/* ---- one function per row ---- */

static void fill_trial(struct trial *t)
{
    int64_t n = size(t, draw(t) % 8 == 0 ? 1300001 : 20000);
    const struct tr_tensor *y = floats(t, OUT, GRADIENT, 1, n, 1.0);
    float value = coin(t) ? 0.0f : -3.1f;

    ready(t)->fill(&t->q, y, value);
}

static void copy_trial(struct trial *t)
{
    int64_t n = size(t, 20000);

    if (coin(t)) {
        const struct tr_tensor *y = floats(t, OUT, RESIDUAL, 1, n, 1.0);
        const struct tr_tensor *x = floats(t, IN, ACTIVATION, n, 1, 1.0);

        spoil(t);
        ready(t)->copy(&t->q, y, x);
    } else if (coin(t)) {
        struct operand *o = place(t, INOUT, tr_f64_1(NULL, 1));
        const struct tr_tensor *x = one_double(t);

        tr_f64(&o->t)[0] = 0.0;
        seal(o);
        ready(t)->copy(&t->q, &o->t, x);
    } else {
        struct operand *o = place(t, OUT, tr_i32_1(NULL, n));
        const struct tr_tensor *x = ints(t, n, -100000, 100000);

        memset(o->t.data, 0, (size_t)tr_tensor_bytes(&o->t));
        seal(o);
        ready(t)->copy(&t->q, &o->t, x);
    }
}

static void add_trial(struct trial *t)
{
    int64_t n = size(t, 20000);
    const struct tr_tensor *y = floats(t, INOUT, GRADIENT, 1, n, 1.0), *x;

    spoil(t);
    x = floats(t, IN, RESIDUAL, 1, n, 1.0);
    spoil(t);
    ready(t)->add(&t->q, y, x);
}

static void scale_trial(struct trial *t)
{
    const struct tr_tensor *y = floats(t, INOUT, GRADIENT, 1, size(t, 20000), 1.0);
    float factor = coin(t) ? 0.0f : 0.3f;

    spoil(t);
    ready(t)->scale(&t->q, y, factor);
}

static void sumsq_trial(struct trial *t)
{
    const struct tr_tensor *out = one_double(t), *x;

    /* Squares that float cannot hold; in fp16 it is the numbers. */
    x = floats(t, IN, GRADIENT, 1, size(t, 60000), coin(t) ? 1e22 : 1.0);
    spoil(t);
    ready(t)->sumsq(&t->q, out, x);
}

static void weighted_sum_trial(struct trial *t)
{
    int64_t n = size(t, 60000);
    const struct tr_tensor *out = one_double(t), *x = floats(t, IN, ACTIVATION, 1, n, 1.0), *w;

    spoil(t);
    w = floats(t, IN, WEIGHT, 1, n, 1.0);
    ready(t)->weighted_sum(&t->q, out, x, w);
}

/* Both zeros, and a number that is none in any format, if subnormal in one. */
static void count_zeros_trial(struct trial *t)
{
    int64_t n = size(t, 60000);
    const struct tr_tensor *out = one_double(t), *x = floats(t, IN, GRADIENT, 1, n, 1.0);

    for (int64_t i = 0; i < n; i++)
        if (draw(t) % 4 == 0)
            put(x, i, coin(t) ? 0.0f : coin(t) ? -0.0f : 1e-7f);
    seal(&t->operand[1]);
    ready(t)->count_zeros(&t->q, out, x);
}

/* Sizes of a GEMM: small and odd, or beyond one tile of any kernel in one direction.  Of a handful
   of sums all might cancel, and then their relative error is large. */
static void product_sizes(struct trial *t, int64_t size_of[3])
{
    int longest = (int)(draw(t) % 3);

    for (int i = 0; i < 3; i++)
        size_of[i] = size(t, i == longest ? 600 : 40);
    if (size_of[0] * size_of[1] < 9)
        size_of[1] = 9;
}

static enum tr_act some_act(struct trial *t)
{
    return (enum tr_act)(draw(t) % TR_ACTS);
}

static void linear_trial(struct trial *t)
{
    int64_t s[3], columns;
    enum tr_act act = some_act(t);
    const struct tr_tensor *y, *pre, *x, *w, *bias;

    product_sizes(t, s);
    columns = tr_act_gated(act) ? 2 * s[1] : s[1];
    y = floats(t, OUT, ACTIVATION, s[0], s[1], 1.0);
    pre = coin(t) ? floats(t, OUT, ACTIVATION, s[0], columns, 1.0) : NULL;
    x = floats(t, IN, ACTIVATION, s[0], s[2], 1.0);
    w = floats(t, IN, WEIGHT, columns, s[2], 1.0 / sqrt((double)s[2]));
    bias = coin(t) ? floats(t, IN, WEIGHT, 1, columns, 2.0) : NULL;
    t->rounds = t->q.on->apart && linear_rounds(y, pre, act);
    ready(t)->linear(&t->q, y, pre, x, w, bias, act);
}

static void linear_dgrad_trial(struct trial *t)
{
    int64_t s[3], columns;
    enum tr_act act = some_act(t);
    const struct tr_tensor *dx, *dy, *w, *pre;

    product_sizes(t, s);
    columns = tr_act_gated(act) ? 2 * s[1] : s[1];
    dx = floats(t, OUT, ACTIVATION, s[0], columns, 1.0);
    dy = floats(t, IN, ACTIVATION, s[0], s[2], 1.0);
    w = floats(t, IN, WEIGHT, s[2], s[1], 1.0);
    pre = act == TR_ACT_NONE ? NULL : floats(t, IN, ACTIVATION, s[0], columns, 2.0);
    ready(t)->linear_dgrad(&t->q, dx, dy, w, pre, act);
}

static void linear_wgrad_trial(struct trial *t)
{
    int64_t s[3];
    bool add = coin(t);
    enum role role = add ? INOUT : OUT;
    const struct tr_tensor *dw, *dbias, *dy, *x;

    product_sizes(t, s);
    dw = floats(t, role, GRADIENT, s[0], s[1], 3.0);
    dbias = coin(t) ? floats(t, role, GRADIENT, 1, s[0], 3.0) : NULL;
    dy = floats(t, IN, ACTIVATION, s[2], s[0], 1.0);
    x = floats(t, IN, ACTIVATION, s[2], s[1], 1.0);
    ready(t)->linear_wgrad(&t->q, dw, dbias, dy, x, add);
}

/* Rows of a norm: a few of any width in one trial of four. */
static struct tr_rows_sizes rows_of(struct trial *t)
{
    struct tr_rows_sizes s = {size(t, 70), width(t, 900)};

    if (t->number % 4 == 3)
        s = (struct tr_rows_sizes){size(t, 3), width(t, TR_MAX_WIDTH)};
    return s;
}

static struct tr_norm_how norm_how(struct trial *t)
{
    return (struct tr_norm_how){.eps = 1e-5f, .rms = coin(t), .one = coin(t)};
}

static void norm_trial(struct trial *t)
{
    struct tr_rows_sizes s = rows_of(t);
    struct tr_norm_how how = norm_how(t);
    /* A row of one number, and one of zeros, have no variance. */
    double scale = coin(t) ? 5.0 : draw(t) % 8 == 0 ? 0.0 : 0.01;
    const struct tr_tensor *y = floats(t, OUT, ACTIVATION, s.n, s.h, 1.0);
    const struct tr_tensor *mean = how.rms ? NULL : floats(t, OUT, STATISTIC, 1, s.n, 1.0);
    const struct tr_tensor *rstd = floats(t, OUT, STATISTIC, 1, s.n, 1.0);
    const struct tr_tensor *x = floats(t, IN, RESIDUAL, s.n, s.h, scale);
    const struct tr_tensor *gain = floats(t, IN, WEIGHT, 1, s.h, 1.0);
    const struct tr_tensor *bias = how.rms ? NULL : floats(t, IN, WEIGHT, 1, s.h, 1.0);

    ready(t)->norm(&t->q, y, mean, rstd, x, gain, bias, how);
}

static void norm_bwd_trial(struct trial *t)
{
    struct tr_rows_sizes s = rows_of(t);
    struct tr_norm_how how = norm_how(t);
    bool in_place = coin(t);
    const struct tr_tensor *dx = floats(t, in_place ? INOUT : OUT, RESIDUAL, s.n, s.h, 1.0);
    const struct tr_tensor *dgain = floats(t, INOUT, GRADIENT, 1, s.h, 1.0);
    const struct tr_tensor *dbias = how.rms ? NULL : floats(t, INOUT, GRADIENT, 1, s.h, 1.0);
    const struct tr_tensor *dy = floats(t, IN, ACTIVATION, s.n, s.h, 1.0);
    const struct tr_tensor *dskip = in_place  ? dx
                                    : coin(t) ? floats(t, IN, RESIDUAL, s.n, s.h, 1.0)
                                              : NULL;
    const struct tr_tensor *x = floats(t, IN, RESIDUAL, s.n, s.h, 1.0);
    const struct tr_tensor *gain = floats(t, IN, WEIGHT, 1, s.h, 1.0);
    const struct tr_tensor *mean = how.rms ? NULL : floats(t, IN, STATISTIC, 1, s.n, 0.1);
    const struct tr_tensor *rstd = floats(t, IN, STATISTIC, 1, s.n, 1.0);

    ready(t)->norm_bwd(&t->q, dx, dgain, dbias, dy, dskip, x, gain, mean, rstd, how);
}

/* Rows first .. first + n - 1 of samples of some tokens: all of them, or what one rank has. */
struct part {
    int64_t samples, tokens, first, n, h;
};

static struct part part_of(struct trial *t)
{
    bool wide = t->number % 4 == 3;
    struct part s = {.samples = size(t, wide ? 2 : 5),
                     .tokens = size(t, wide ? 3 : 9),
                     .h = width(t, wide ? 9000 : 301)};
    int64_t all = s.samples * s.tokens;

    s.n = coin(t) ? all : size(t, all);
    s.first = (int64_t)(draw(t) % (uint32_t)(all - s.n + 1));
    return s;
}

static struct tr_dropout dropping_part(struct trial *t, struct part s)
{
    struct tr_dropout d = dropping(t, s.samples, s.tokens);

    d.first_row = s.first;
    return d;
}

static void residual_trial(struct trial *t)
{
    struct part s = part_of(t);
    int64_t n = s.n, h = s.h;
    const struct tr_tensor *y = floats(t, OUT, RESIDUAL, n, h, 1.0);
    const struct tr_tensor *x = floats(t, IN, RESIDUAL, n, h, 1.0),
                           *a = floats(t, IN, ACTIVATION, n, h, 1.0);
    const struct tr_tensor *bias = coin(t) ? floats(t, IN, WEIGHT, 1, h, 1.0) : NULL;
    struct tr_dropout drop = dropping_part(t, s);

    ready(t)->residual(&t->q, y, x, a, bias, drop);
}

/* The norm of adjacent numbers in fp16 or bf16 is far off the tolerance: y has to have the same
   bits. And a row of few numbers may have next to no variance, which magnifies what the roundings
   of y leave. */
static void residual_norm_trial(struct trial *t)
{
    struct part s = part_of(t);
    int64_t n = s.n, h = s.h > 1 && s.h < 16 ? 16 : s.h;
    const struct tr_tensor *y = floats(t, OUT, RESIDUAL, n, h, 1.0);
    const struct tr_tensor *norm = floats(t, OUT, ACTIVATION, n, h, 1.0);
    struct tr_norm_how how = norm_how(t);
    const struct tr_tensor *mean = how.rms ? NULL : floats(t, OUT, STATISTIC, 1, n, 1.0);
    const struct tr_tensor *rstd = floats(t, OUT, STATISTIC, 1, n, 1.0), *x, *a, *bias;
    const struct tr_tensor *gain = floats(t, IN, WEIGHT, 1, h, 1.0);
    const struct tr_tensor *shift = how.rms ? NULL : floats(t, IN, WEIGHT, 1, h, 1.0);
    struct tr_dropout drop = dropping_part(t, s);

    x = floats(t, IN, RESIDUAL, n, h, 1.0);
    if (y->dtype != TR_F32)
        coarsen(t);
    a = floats(t, IN, ACTIVATION, n, h, 1.0);
    if (y->dtype != TR_F32)
        coarsen(t);
    bias = coin(t) ? floats(t, IN, WEIGHT, 1, h, 1.0) : NULL;
    if (bias && y->dtype != TR_F32)
        coarsen(t);
    if (y->dtype != TR_F32 && drop.p > 0.0)
        drop.p = 0.5;
    ready(t)->residual_norm(&t->q, y, norm, mean, rstd, x, a, bias, gain, shift, how, drop);
}

static void residual_bwd_trial(struct trial *t)
{
    struct part s = part_of(t);
    int64_t n = s.n, h = s.h;
    const struct tr_tensor *da = floats(t, OUT, ACTIVATION, n, h, 1.0);
    const struct tr_tensor *dbias = coin(t) ? floats(t, INOUT, GRADIENT, 1, h, 1.0) : NULL;
    const struct tr_tensor *dy = floats(t, IN, RESIDUAL, n, h, 1.0);
    struct tr_dropout drop = dropping_part(t, s);

    ready(t)->residual_bwd(&t->q, da, dbias, dy, drop);
}

static void dropout_trial(struct trial *t)
{
    struct part s = part_of(t);
    const struct tr_tensor *y = floats(t, INOUT, RESIDUAL, s.n, s.h, 1.0);
    struct tr_dropout drop;

    spoil(t);
    drop = dropping_part(t, s);
    ready(t)->dropout(&t->q, y, drop);
}

static void embed_trial(struct trial *t)
{
    int64_t n = size(t, 100), h = width(t, 200), r = size(t, 50);
    const struct tr_tensor *y = floats(t, OUT, RESIDUAL, n, h, 1.0);
    const struct tr_tensor *ids = ints(t, n, 0, 100);

    const struct tr_tensor *table = floats(t, IN, WEIGHT, r, h, 1.0);
    int64_t first = draw(t) % 80;

    ready(t)->embed(&t->q, y, ids, table, first);
}

static void embed_bwd_trial(struct trial *t)
{
    int64_t n = size(t, 100), h = width(t, 200), r = size(t, 50);
    const struct tr_tensor *dtable = floats(t, INOUT, GRADIENT, r, h, 1.0);
    const struct tr_tensor *dy = floats(t, IN, RESIDUAL, n, h, 1.0);
    bool often = coin(t);
    const struct tr_tensor *ids = often ? ints(t, n, 20, 24) : ints(t, n, 0, 100);

    /* Few ids, each many times, or many of which some lie elsewhere. */
    int64_t first = often ? 20 : draw(t) % 80;

    ready(t)->embed_bwd(&t->q, dtable, dy, ids, first);
}

static void add_rows_trial(struct trial *t)
{
    int64_t n = size(t, 100), h = width(t, 200), r = size(t, 50);
    const struct tr_tensor *y = floats(t, INOUT, RESIDUAL, n, h, 1.0);
    const struct tr_tensor *ids = ints(t, n, 0, (int32_t)r);
    const struct tr_tensor *table = floats(t, IN, WEIGHT, r, h, 1.0);

    ready(t)->add_rows(&t->q, y, ids, table);
}

struct heads {
    int64_t b, heads, groups, t, d;
    struct tr_attention_how how;
};

/* Lengths around and beyond the tiles that a fast kernel would use; windows from one token to more
   than all. */
static struct heads heads_of(struct trial *t)
{
    struct heads s = {.b = size(t, 2), .groups = size(t, 3), .t = size(t, 140), .d = size(t, 70)};
    uint32_t kind;

    s.heads = s.groups * size(t, 4 / s.groups);
    kind = draw(t) % 10;
    if (kind == 0)
        s = (struct heads){
            .b = 1, .heads = 2, .groups = 1 + coin(t), .t = 40, .d = TR_MAX_HEAD_DIM};
    /* Few groups of many heads, and groups enough for all threads. */
    if (kind == 1)
        s = (struct heads){.b = 1, .heads = 18, .groups = 2, .t = 66, .d = 9};
    if (kind == 2)
        s = (struct heads){.b = 2, .heads = 16, .groups = 8, .t = 66, .d = 9};
    /* Blocks of queries that share a block of keys, more or fewer by the number of threads. */
    if (kind == 3)
        s = (struct heads){.b = 1, .heads = 8, .groups = 4, .t = 300, .d = 16};
    /* Widths that bf16 instructions multiply. */
    if (kind > 5)
        s.d = 16 * (1 + draw(t) % 5);
    s.how.first_head = (int)(draw(t) % 20);
    /* Scores up to about 3, or up to about 300, where exp() without its maximum would overflow. */
    s.how.scale = (float)((coin(t) ? 1.0 : 100.0) / sqrt((double)s.d));
    s.how.window = coin(t) ? 0 : size(t, s.t + s.t / 2);
    return s;
}

/* Of either sign, though those of ALiBi are positive; or none. */
static const struct tr_tensor *slopes_of(struct trial *t, struct heads s)
{
    return coin(t) ? floats(t, IN, STATISTIC, 1, s.heads, 0.2) : NULL;
}

static void attention_trial(struct trial *t)
{
    struct heads s = heads_of(t);
    const int64_t n = s.b * s.t, all = s.heads + 2 * s.groups;
    const struct tr_tensor *ctx = floats(t, OUT, ACTIVATION, n, s.heads * s.d, 1.0);
    const struct tr_tensor *lse = floats3(t, OUT, s.b, s.heads, s.t);
    const struct tr_tensor *qkv = floats(t, IN, ACTIVATION, n, all * s.d, 1.0);
    const struct tr_tensor *from = first_tokens(t, s.b, s.t);
    struct tr_dropout drop = dropping(t, s.b, s.t);

    s.how.slopes = slopes_of(t, s);
    ready(t)->attention(&t->q, ctx, lse, qkv, from, s.how, drop);
}

static void attention_bwd_trial(struct trial *t)
{
    /* What the forward operation kept is the same for all. */
    struct tr_queue before = {.on = tr_backend_find("ref")};
    struct heads s = heads_of(t);
    const int64_t n = s.b * s.t, width = s.heads * s.d, all = s.heads + 2 * s.groups;
    const struct tr_tensor *dqkv = floats(t, OUT, ACTIVATION, n, all * s.d, 1.0);
    const struct tr_tensor *dctx = floats(t, IN, ACTIVATION, n, width, 1.0);
    const struct tr_tensor *ctx = floats(t, OUT, ACTIVATION, n, width, 1.0);
    const struct tr_tensor *lse = floats3(t, OUT, s.b, s.heads, s.t);
    const struct tr_tensor *qkv = floats(t, IN, ACTIVATION, n, all * s.d, 1.0);
    const struct tr_tensor *from = first_tokens(t, s.b, s.t);
    struct tr_dropout drop = dropping(t, s.b, s.t), drop_here = drop;

    drop_here.sample = t->sample;
    /*
     * A score s is a sum of D products in fp32, off by about sqrt(D) u times its size, and exp()
     * makes of that the same error of p, relative: of the gradient a squared error that grows as
     * the square of scale D. Scores with a deviation of 8 at most leave an error that grows as D,
     * of 2e-11 at 320.
     */
    s.how.scale = fminf(s.how.scale, fminf(1.0f, 8.0f / sqrtf((float)s.d)));
    s.how.slopes = slopes_of(t, s);
    before.on->attention(&before, ctx, lse, qkv, from, s.how, drop_here);
    for (int i = 2; i < 4; i++) {
        t->operand[i].role = IN;
        seal(&t->operand[i]);
    }
    ready(t)->attention_bwd(&t->q, dqkv, dctx, ctx, lse, qkv, from, s.how, drop);
}

/* Queries and keys of `width` numbers in n rows. */
static struct tr_heads_how vectors_of(struct trial *t, int64_t *n, int64_t *columns)
{
    struct tr_heads_how how = {.groups = (int)size(t, 3), .width = (int)width(t, 100)};

    *n = size(t, 150);
    how.heads = how.groups * (int)size(t, 4);
    if (draw(t) % 10 == 0)
        how.width = TR_MAX_HEAD_DIM;
    *columns = (int64_t)(how.heads + 2 * how.groups) * how.width;
    return how;
}

/* Cosines and sines of any angles. */
static const struct tr_tensor *angles(struct trial *t, int64_t rows, int64_t rotary)
{
    struct operand *o = place(t, IN, tr_f32_2(NULL, rows, rotary));

    for (int64_t i = 0; i < rows * rotary; i++)
        if (i % rotary < rotary / 2) {
            double angle = (double)(draw(t) % 10000) / 1000.0;

            tr_f32(&o->t)[i] = (float)cos(angle);
            tr_f32(&o->t)[i + rotary / 2] = (float)sin(angle);
        }
    return seal(o);
}

static void rotary_trial(struct trial *t)
{
    int64_t n, columns, rows = size(t, 200);
    struct tr_rotary_how how = {.heads = vectors_of(t, &n, &columns)};
    bool in_place;
    const struct tr_tensor *y, *x, *table, *position;

    if (how.heads.width == 1) {
        how.heads.width = 2;
        columns *= 2;
    }
    how.rotary = 2 * (int)size(t, how.heads.width / 2);
    how.pairs = coin(t);
    how.back = coin(t);
    in_place = coin(t);
    y = floats(t, in_place ? INOUT : OUT, ACTIVATION, n, columns, 1.0);
    x = in_place ? y : floats(t, IN, ACTIVATION, n, columns, 1.0);
    table = angles(t, rows, how.rotary);
    position = ints(t, n, 0, (int32_t)rows);
    ready(t)->rotary(&t->q, y, x, table, position, how);
}

static void head_norm_trial(struct trial *t)
{
    int64_t n, columns;
    struct tr_heads_how heads = vectors_of(t, &n, &columns);
    struct tr_norm_how how = {.eps = 1e-5f, .rms = true, .one = coin(t)};
    double scale = coin(t) ? 5.0 : draw(t) % 8 == 0 ? 0.0 : 0.01;
    const struct tr_tensor *y = floats(t, OUT, ACTIVATION, n, columns, 1.0);
    const struct tr_tensor *rstd = floats(t, OUT, STATISTIC, n, heads.heads + heads.groups, 1.0);
    const struct tr_tensor *x = floats(t, IN, ACTIVATION, n, columns, scale);
    const struct tr_tensor *q_gain = floats(t, IN, WEIGHT, 1, heads.width, 1.0);
    const struct tr_tensor *k_gain = floats(t, IN, WEIGHT, 1, heads.width, 1.0);

    ready(t)->head_norm(&t->q, y, rstd, x, q_gain, k_gain, heads, how);
}

static void head_norm_bwd_trial(struct trial *t)
{
    int64_t n, columns;
    struct tr_heads_how heads = vectors_of(t, &n, &columns);
    struct tr_norm_how how = {.eps = 1e-5f, .rms = true, .one = coin(t)};
    bool in_place = coin(t);
    const struct tr_tensor *dx = floats(t, in_place ? INOUT : OUT, ACTIVATION, n, columns, 1.0);
    const struct tr_tensor *dq_gain = floats(t, INOUT, GRADIENT, 1, heads.width, 1.0);
    const struct tr_tensor *dk_gain = floats(t, INOUT, GRADIENT, 1, heads.width, 1.0);
    const struct tr_tensor *dy = in_place ? dx : floats(t, IN, ACTIVATION, n, columns, 1.0);
    const struct tr_tensor *x = floats(t, IN, ACTIVATION, n, columns, 1.0);
    const struct tr_tensor *q_gain = floats(t, IN, WEIGHT, 1, heads.width, 1.0);
    const struct tr_tensor *k_gain = floats(t, IN, WEIGHT, 1, heads.width, 1.0);
    const struct tr_tensor *rstd = floats(t, IN, STATISTIC, n, heads.heads + heads.groups, 1.0);

    ready(t)->head_norm_bwd(&t->q, dx, dq_gain, dk_gain, dy, x, q_gain, k_gain, rstd, heads, how);
}

static void columns_trial(struct trial *t)
{
    int64_t n = size(t, 100), count = width(t, 300), to = size(t, 40) - 1, from = size(t, 40) - 1;
    int64_t x_width = from + count + size(t, 30) - 1;
    const struct tr_tensor *y = floats(t, INOUT, ACTIVATION, n, to + count + size(t, 30) - 1, 1.0);
    struct operand *x = place(t, IN, tr_tensor_2(NULL, y->dtype, n, x_width));

    for (int64_t i = 0; i < n * x_width; i++)
        put(&x->t, i, (float)(draw(t) % 1000));
    seal(x);
    spoil(t);
    ready(t)->columns(&t->q, y, &x->t, to, from, count);
}

struct slice {
    int64_t n, r, first, valid;
    const struct tr_tensor *labels;
};

/* A slice of the vocabulary: all of it, the last one with padding, or only padding. */
static struct slice slice_of(struct trial *t)
{
    struct slice s = {.n = size(t, 12), .r = width(t, 5000)};

    s.valid = draw(t) % 8 == 0 ? 0 : coin(t) ? s.r : size(t, s.r);
    s.first = s.r * (int64_t)(draw(t) % 3);
    s.labels = ints(t, s.n, -1, (int32_t)(s.first + (s.valid > 0 ? s.valid : 1)));
    return s;
}

/* Logits are those of this trial's rank; the sums over ranks are arbitrary. */
static const struct tr_tensor *logits_of(struct trial *t, enum role role, struct slice s)
{
    return floats(t, role, ACTIVATION, s.n, s.r, draw(t) % 4 == 0 ? 40.0 : 2.0);
}

static const struct tr_tensor *max_of(struct trial *t, const struct tr_tensor *logits,
                                      struct slice s)
{
    struct operand *o = place(t, IN, tr_f32_1(NULL, s.n));

    for (int64_t n = 0; n < s.n; n++) {
        tr_f32(&o->t)[n] = 0.5f;
        for (int64_t r = 0; r < s.r; r++)
            tr_f32(&o->t)[n] = fmaxf(tr_f32(&o->t)[n], (float)element(logits, n * s.r + r));
    }
    return seal(o);
}

static void xent_max_trial(struct trial *t)
{
    struct slice s = slice_of(t);
    const struct tr_tensor *max = floats(t, OUT, STATISTIC, 1, s.n, 1.0);
    const struct tr_tensor *logits = logits_of(t, IN, s);

    ready(t)->xent_max(&t->q, max, logits, s.valid);
}

static void xent_sum_trial(struct trial *t)
{
    struct slice s = slice_of(t);
    const struct tr_tensor *stats = floats(t, OUT, STATISTIC, 2, s.n, 1.0),
                           *logits = logits_of(t, IN, s), *max = max_of(t, logits, s);

    ready(t)->xent_sum(&t->q, stats, logits, max, s.labels, s.first, s.valid);
}

static void xent_loss_trial(struct trial *t)
{
    int64_t n = size(t, 200);
    const struct tr_tensor *loss = floats(t, OUT, STATISTIC, 1, n, 1.0),
                           *stats = floats(t, IN, STATISTIC, 2, n, 1.0);

    /* Sums of exponentials are positive. */
    for (int64_t i = 0; i < n; i++)
        tr_f32(stats)[i] = 1.0f + 1000.0f * fabsf(tr_f32(stats)[i]);
    seal(&t->operand[1]);
    ready(t)->xent_loss(&t->q, loss, stats);
}

static void xent_bwd_trial(struct trial *t)
{
    struct slice s = slice_of(t);
    const struct tr_tensor *logits = logits_of(t, INOUT, s), *max = max_of(t, logits, s);
    const struct tr_tensor *stats = floats(t, IN, STATISTIC, 2, s.n, 1.0), *weight;

    for (int64_t i = 0; i < s.n; i++)
        tr_f32(stats)[i] = 1.0f + fabsf(tr_f32(stats)[i]);
    seal(&t->operand[t->operands - 1]);
    weight = floats(t, IN, STATISTIC, 1, s.n, 0.1);
    ready(t)->xent_bwd(&t->q, logits, max, stats, s.labels, weight, s.first, s.valid);
}

static void adamw_trial(struct trial *t)
{
    int64_t n = size(t, 5000), step = size(t, 1000);
    const struct tr_tensor *p = floats(t, INOUT, STATISTIC, 1, n, 1.0),
                           *m = floats(t, INOUT, STATISTIC, 1, n, 1.0);
    const struct tr_tensor *v = floats(t, INOUT, STATISTIC, 1, n, 1.0),
                           *g = floats(t, IN, GRADIENT, 1, n, 1.0);
    const struct tr_tensor *half = coin(t) ? halves(t, coin(t) ? TR_F16 : TR_BF16, n) : NULL;
    struct tr_adamw how = {.lr = 0.01f,
                           .beta1 = 0.9f,
                           .beta2 = 0.95f,
                           .eps = 1e-8f,
                           .decay = coin(t) ? 0.1f : 0.0f,
                           .grad_scale = coin(t) ? 1.0f : 0.01f};

    how.bias1 = (float)(1.0 - pow(0.9, (double)step));
    how.bias2 = (float)(1.0 - pow(0.95, (double)step));
    for (int64_t i = 0; i < n; i++)
        tr_f32(v)[i] *= tr_f32(v)[i];
    seal(&t->operand[2]);
    ready(t)->adamw(&t->q, half, p, m, v, g, how);
}

/* ---- running and comparing ---- */

static const struct row {
    const char *name;
    double tol;
    void (*trial)(struct trial *t);
} rows[] = {
#define OP(name, tol, params) {#name, tol, name##_trial},
#include "device/ops.def"
#undef OP
};

enum { ROWS = sizeof rows / sizeof rows[0] };

/* Names of the rows to look at, from the command line, NULL at the end; NULL: all of them. */
static char *const *only_rows;

/* Emulated kernels (kernels/emulate.h) run their threads in an order drawn from a seed. */
void trk_emulate_seed(uint64_t seed) __attribute__((weak));

/* Another order in every run, now and then that without a seed. */
static void vary_order(void)
{
    static uint64_t runs;

    if (trk_emulate_seed)
        trk_emulate_seed(runs % 5 == 0 ? 0 : runs);
    runs++;
}

static void run(struct trial *t, const struct row *row, const struct mix *mix, int number,
                struct tr_device *d, const struct tr_backend *b)
{
    *t = (struct trial){.q = {b, d}, .row = row->name, .mix = mix, .number = number};
    vary_order();
    row->trial(t);
    finish(t);
}

/* The same trial twice: right, nothing else written, and the same bits.  NULL, or what is wrong;
   `shapes`, of `size` bytes, says what the operands are before the device sees them. */
static const char *try_trial(const struct row *row, const struct mix *mix, int number,
                             const struct tr_backend *b, struct tr_device *d,
                             struct tr_device *plain, char *shapes, size_t size)
{
    struct trial want, got, again;
    const char *wrong;

    run(&want, row, mix, number, plain, tr_backend_find("ref"));
    describe_operands(&want, shapes, size);
    run(&got, row, mix, number, d, b);
    run(&again, row, mix, number, d, b);
    if (!(wrong = touched(&want)) && !(wrong = touched(&got)) &&
        !(wrong = difference(&got, &want, row->tol)))
        wrong = difference(&again, &got, 0.0);
    release(&want);
    release(&got);
    release(&again);
    return wrong;
}

static void check_trial(const struct row *row, const struct mix *mix, int number,
                        const struct tr_backend *b, struct tr_device *d, struct tr_device *plain)
{
    char shapes[512];
    const char *wrong = try_trial(row, mix, number, b, d, plain, shapes, sizeof shapes);

    if (wrong)
        fail_msg("%s; operands: %s", wrong, shapes);
}

static bool few_trials;

/* Emulated kernels are slow: a third of their trials, where not TR_TEST_ALL asks for all. */
static int trials_of(const struct mix *mix)
{
    const int all = mix == mixes ? TRIALS : TRIALS_HALF;
    bool some = check_short() || few_trials;

#ifdef TR_TEST_KERNELS
    some = !getenv("TR_TEST_ALL");
#endif
    return some ? (all + 2) / 3 : all;
}

/* One row on one device: right, and the same bits when repeated. */
static void check_row(const struct row *row, const struct tr_backend *b, struct tr_device *d)
{
    const struct tr_backend *ref = tr_backend_find("ref");
    struct tr_device *plain;

    plain = open_device(ref, 1);
    /* Of ref itself the first shows that a trial can be repeated. */
    for (int m = 0; m < (b == ref ? 1 : MIXES); m++)
        for (int i = 0; i < trials_of(&mixes[m]); i++)
            check_trial(row, &mixes[m], i, b, d, plain);
    close_device(ref, plain);
}

static bool is_row(const char *name)
{
    for (int i = 0; i < ROWS; i++)
        if (strcmp(name, rows[i].name) == 0)
            return true;
    return false;
}

/* Whether a test of some rows (only_rows) leaves this one out. */
static bool left_out(const struct tr_backend *b, int i)
{
    const bool there[] = {
#define OP(name, tol, params) b->name != NULL,
#include "device/ops.def"
#undef OP
    };

    for (char *const *name = only_rows; name && *name; name++)
        if (strcmp(*name, rows[i].name) == 0)
            return false;
    return only_rows ? true : !there[i];
}

static void every_row(const char *backend, int threads)
{
    const struct tr_backend *b = tr_backend_find(backend);
    struct tr_device *d;

    assert_non_null(b);
    d = open_device(b, threads);
    for (int i = 0; i < ROWS; i++)
        if (!left_out(b, i))
            check_row(&rows[i], b, d);
    close_device(b, d);
}

#ifndef TR_TEST_FAKES
/* Threads of this process; 1 where the system does not say. */
static int threads_now(void)
{
    DIR *d = opendir("/proc/self/task");
    struct dirent *e;
    int n = 0;

    if (!d)
        return 1;
    while ((e = readdir(d)) != NULL)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}
#endif

/* Asked for one thread, no backend of the host starts another: many ranks may share few cores.  The
   OpenMP of clang has one of its own from the first region on, which never computes. */
static void every_backend(void **state)
{
    (void)state;
#ifndef TR_TEST_FAKES
    int before = 0;

#pragma omp parallel num_threads(1)
    before = threads_now();
    for (int i = 0; tr_backends()[i]; i++) {
        if (tr_backends()[i]->apart)
            continue;
        every_row(tr_backends()[i]->name, 1);
        assert_int_equal(threads_now(), before);
    }
#else
    few_trials = !getenv("TR_TEST_ALL");
#endif
    for (int i = 0; tr_backends()[i]; i++) {
        const struct tr_backend *b = tr_backends()[i];

        if (!b->apart)
            continue;
        if (is_there(b))
            every_row(b->name, 1);
        else
            print_message("# %s is not here: %s\n", b->name, tr_last_error());
#ifdef TR_TEST_FAKES
        assert_true(is_there(b));
#endif
    }
    few_trials = false;
}

#ifndef TR_TEST_KERNELS
static void no_row_is_missing(void **state)
{
    struct tr_backend holed = *tr_backend_find("ref");

    (void)state;
    for (int i = 0; tr_backends()[i]; i++)
        assert_null(tr_backend_missing(tr_backends()[i]));
    holed.attention_bwd = NULL;
    assert_string_equal(tr_backend_missing(&holed), "attention_bwd");
}
#endif

#if !defined TR_TEST_KERNELS && !defined TR_TEST_FAKES
/* One thread is right in all trials, and others compute the same bits as that one
   (threads_do_not_matter): few trials, where not TR_TEST_ALL asks for all. */
static void with_threads(void **state)
{
    (void)state;
    few_trials = !getenv("TR_TEST_ALL");
    every_row("cpu", 2);
    if (!few_trials)
        every_row("cpu", 3);
    few_trials = false;
}

/* The sum of squares decides by how much gradients are clipped: it may not depend on threads in any
   backend of the host.  In cpu nothing does. */
static void threads_do_not_matter(void **state)
{
    (void)state;
    for (int i = 0; tr_backends()[i]; i++) {
        const struct tr_backend *b = tr_backends()[i];
        struct tr_device *one, *three;

        if (b->apart)
            continue;
        one = open_device(b, 1);
        three = open_device(b, 3);
        for (int k = 0; k < ROWS * TRIALS; k++) {
            const struct row *row = &rows[k / TRIALS];
            const struct mix *mix = &mixes[k % MIXES];
            struct trial x, y;

            if (strcmp(b->name, "cpu") != 0 && strcmp(row->name, "sumsq") != 0)
                continue;
            run(&x, row, mix, k % TRIALS, one, b);
            run(&y, row, mix, k % TRIALS, three, b);
            compare(&x, &y, 0.0);
            release(&x);
            release(&y);
        }
        close_device(b, one);
        close_device(b, three);
    }
}

#endif

static void residual_then_norm(struct tr_queue *q, const struct tr_tensor *y,
                               const struct tr_tensor *norm, const struct tr_tensor *mean,
                               const struct tr_tensor *rstd, const struct tr_tensor *x,
                               const struct tr_tensor *a, const struct tr_tensor *bias,
                               const struct tr_tensor *gain, const struct tr_tensor *shift,
                               struct tr_norm_how how, struct tr_dropout drop)
{
    q->on->residual(q, y, x, a, bias, drop);
    q->on->norm(q, norm, mean, rstd, y, gain, shift, how);
}

/* The operation that joins two has the bits of the two: NULL, or what differs. */
static const char *try_as_two(const struct mix *mix, int number, const struct tr_backend *b,
                              struct tr_device *d)
{
    const struct row row = {"residual_norm", 0.0, residual_norm_trial};
    struct tr_backend parts = *b;
    struct trial one, two;
    const char *wrong;

    parts.residual_norm = residual_then_norm;
    run(&one, &row, mix, number, d, b);
    run(&two, &row, mix, number, d, &parts);
    wrong = difference(&one, &two, 0.0);
    release(&one);
    release(&two);
    return wrong;
}

static void one_or_two(void **state)
{
    (void)state;
    for (int i = 0; tr_backends()[i]; i++) {
        const struct tr_backend *b = tr_backends()[i];
        struct tr_device *d;

        if (!is_there(b))
            continue;
        d = open_device(b, 2);
        for (int k = 0; k < MIXES * trials_of(mixes); k++) {
            const char *wrong = try_as_two(&mixes[k % MIXES], k, b, d);

            if (wrong)
                fail_msg("%s", wrong);
        }
        close_device(b, d);
    }
}

/* ---- each trial by itself ---- */

struct trials {
    const struct tr_backend *b;
    struct tr_device *d, *plain;
    int rows, row[ROWS]; /* which of them */
    int most;            /* trials of a mix */
};

static int trials_here(const struct trials *x, int mix)
{
    return x->most < trials_of(&mixes[mix]) ? x->most : trials_of(&mixes[mix]);
}

static int trials_of_row(const struct trials *x)
{
    int n = 0;

    for (int m = 0; m < MIXES; m++)
        n += trials_here(x, m);
    return n;
}

static void open_trials(void *ctx)
{
    struct trials *x = ctx;

    x->d = open_device(x->b, 1);
    x->plain = open_device(tr_backend_find("ref"), 1);
}

static void close_trials(void *ctx)
{
    struct trials *x = ctx;

    close_device(x->b, x->d);
    close_device(tr_backend_find("ref"), x->plain);
}

static const char *run_one(void *ctx, int i, char *name, size_t size)
{
    struct trials *x = ctx;
    const struct row *row = &rows[x->row[i / trials_of_row(x)]];
    int number = i % trials_of_row(x), m = 0, n;
    const char *wrong;

    while (number >= trials_here(x, m))
        number -= trials_here(x, m++);
    n = snprintf(name, size, "%s in %s, trial %d: ", row->name, mixes[m].name, number);
    wrong = try_trial(row, &mixes[m], number, x->b, x->d, x->plain, name + n, size - (size_t)n);
    if (!wrong && strcmp(row->name, "residual_norm") == 0)
        wrong = try_as_two(&mixes[m], number, x->b, x->d);
    return wrong;
}

/* t_ops --each BACKEND [--trials N] [--seconds N] [--here] [ROW...]: a line of TAP for each trial
   of these rows, or of all: at most N for each mix of types, each in at most N seconds (30); in
   this process with
   --here.  A backend that is not here is a failure. */
struct each_words {
    const char *backend;
    int trials, seconds, words; /* of the command line, up to the rows */
    bool here;
};

static struct each_words read_words(int argc, char **argv)
{
    struct each_words w = {.backend = argv[2], .trials = TRIALS, .seconds = 30, .words = 3};

    for (; w.words < argc && argv[w.words][0] == '-'; w.words++)
        if (strcmp(argv[w.words], "--here") == 0)
            w.here = true;
        else if (w.words + 1 < argc && strcmp(argv[w.words], "--trials") == 0)
            w.trials = atoi(argv[++w.words]);
        else if (w.words + 1 < argc && strcmp(argv[w.words], "--seconds") == 0)
            w.seconds = atoi(argv[++w.words]);
        else
            break;
    return w;
}

static int each_trial(const struct each_words *w)
{
    struct trials x = {.b = tr_backend_find(w->backend), .most = w->trials};
    struct each all = {.open = open_trials, .run = run_one, .close = close_trials, .ctx = &x};

    for (int i = 0; x.b && i < ROWS; i++)
        if (!left_out(x.b, i))
            x.row[x.rows++] = i;
    all.count = x.rows * trials_of_row(&x);
    if (all.count > 0 && w->seconds > 0)
        return run_each(&all, (unsigned)w->seconds, w->here);
    printf("1..1\nnot ok 1 - this program has a backend %s, and something is to be tried\n",
           w->backend);
    return 1;
}

/* t_ops [ROW...]: all tests, or these rows alone. */
int main(int argc, char **argv)
{
    const bool each = argc > 2 && strcmp(argv[1], "--each") == 0;
    const struct each_words w = each ? read_words(argc, argv) : (struct each_words){.words = 1};
    const struct CMUnitTest some[] = {cmocka_unit_test(every_backend)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_backend),     cmocka_unit_test(one_or_two),
#ifndef TR_TEST_KERNELS /* the backend of tests/cuda/emulated.c, which may have holes */
        cmocka_unit_test(no_row_is_missing),
#ifndef TR_TEST_FAKES /* the cuda backend over the fakes, which is what this is about */
        cmocka_unit_test(with_threads),      cmocka_unit_test(threads_do_not_matter),
#endif
#endif
    };

    if (argc == 1)
        return run_tap(tests);
    for (int i = w.words; i < argc; i++)
        if (!is_row(argv[i])) {
            printf("Bail out! %s is no row of ops.def\n", argv[i]);
            return 1;
        }
    only_rows = w.words < argc ? argv + w.words : NULL;
    if (each)
        return each_trial(&w);
    return only_rows ? run_tap(some) : run_tap(tests);
}
