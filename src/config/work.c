/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/work.h"

#include "config/relative.h"
#include "util/status.h"

/* The widths of a layer, the whole model's and those of one tensor rank. */
struct widths {
    const struct tr_family *f;
    double hidden, embed, words; /* H, E, and V / W */
    double queries, qkv, keys; /* columns of queries, A / W; of queries, keys and values; of keys */
    double products;           /* of the product that makes them: C / W */
    double inner, first;       /* I / W, and F / W */
    double heads, groups;      /* of this rank */
    double rows;               /* of the residual stream on this rank */
    bool gathers;              /* more tensor ranks than groups */
};

static struct widths widths_of(const struct tr_work_how *how)
{
    const struct tr_dims *m = how->dims;
    const double w = how->w, d = (double)m->head_dim, heads = (double)m->heads / w;
    const bool gathers = m->groups < how->w;
    const double groups = gathers ? 1.0 : (double)m->groups / w;
    const double inner = (double)m->ffn / w;

    return (struct widths){
        .f = &m->family,
        .hidden = (double)m->hidden,
        .embed = (double)m->embed,
        .words = (double)m->vocab_padded / w,
        .queries = heads * d,
        .products = ((double)m->heads + 2.0 * (double)m->groups) * d / w,
        .qkv = (heads + 2.0 * groups) * d,
        .keys = groups * d,
        .inner = inner,
        .first = tr_act_gated(m->family.act) ? 2.0 * inner : inner,
        .heads = heads,
        .groups = groups,
        .rows = how->sequence ? how->tokens / w : how->tokens,
        .gathers = gathers,
    };
}

/* ---- one entry ---- */

static void gemm(struct tr_work *x, const char *name, enum tr_work_branch branch, double rows,
                 double inner, double columns)
{
    TR_ASSERT(x->gemms < TR_WORK_GEMMS);
    x->gemm[x->gemms++] = (struct tr_work_gemm){
        .name = name, .branch = branch, .rows = rows, .inner = inner, .columns = columns};
}

static void pass(struct tr_work *x, const char *name, double rows, double forward, double backward)
{
    TR_ASSERT(x->passes < TR_WORK_PASSES);
    x->pass[x->passes++] =
        (struct tr_work_pass){.name = name, .rows = rows, .forward = forward, .backward = backward};
}

static void keep(struct tr_work *x, const char *name, enum tr_work_type type, double rows,
                 double width)
{
    TR_ASSERT(x->keeps < TR_WORK_KEEPS);
    x->kept[x->keeps++] = (struct tr_work_kept){name, type, rows, width};
}

static void message(struct tr_work *x, const char *name, enum tr_work_branch branch,
                    enum tr_work_collective_kind kind, bool backward, bool beside, double bytes)
{
    TR_ASSERT(x->collectives < TR_WORK_COLLECTIVES);
    x->collective[x->collectives++] =
        (struct tr_work_collective){name, branch, kind, backward, beside, bytes};
}

/* ---- what several parts have ---- */

/* The statistics of a norm, and its output where that is an input of what follows. */
static void norm(struct tr_work *x, const struct widths *k, const char *name, bool output,
                 double skips)
{
    pass(x, name, k->rows, 2.0 * k->hidden, (3.0 + skips) * k->hidden);
    if (output)
        keep(x, name, TR_WORK_TYPE, k->rows, k->hidden);
    keep(x, "statistics", TR_WORK_FP32, k->rows, k->f->rms ? 1.0 : 2.0);
}

/* The residual addition at the end of a branch, with bias and dropout. */
static void join(struct tr_work *x, const struct widths *k, const char *name)
{
    pass(x, name, k->rows, 3.5 * k->hidden, 2.5 * k->hidden);
    x->joins += k->rows * k->hidden;
}

/* A branch begins with a column-parallel product of rows that all tensor ranks have, and ends with a
   row-parallel one.  `gathered`: another branch has gathered its input. */
static void enter(struct tr_work *x, const struct tr_work_how *how, enum tr_work_branch branch,
                  double width, bool gathered)
{
    const double bytes = how->elem * how->tokens * width;

    if (how->w == 1)
        return;
    if (!how->sequence) {
        message(x, "input gradient", branch, TR_WORK_ALL_REDUCE, true, true, bytes);
        return;
    }
    if (!gathered)
        message(x, "input", branch, TR_WORK_ALL_GATHER, false, false, bytes);
    message(x, "input again", branch, TR_WORK_ALL_GATHER, true, true, bytes);
    message(x, "input gradient", branch, TR_WORK_REDUCE_SCATTER, true, true, bytes);
}

static void leave(struct tr_work *x, const struct tr_work_how *how, enum tr_work_branch branch,
                  double width)
{
    const double bytes = how->elem * how->tokens * width;

    if (how->w == 1)
        return;
    if (!how->sequence) {
        message(x, "output", branch, TR_WORK_ALL_REDUCE, false, false, bytes);
        return;
    }
    message(x, "output", branch, TR_WORK_REDUCE_SCATTER, false, false, bytes);
    message(x, "output gradient", branch, TR_WORK_ALL_GATHER, true, false, bytes);
}

/* ---- a layer ---- */

/* Pairs of a query and a key in a sample of t tokens, each of which sees itself and at most window - 1 others. */
static double pairs_of(double t, double window)
{
    const double n = window > 0.0 && window < t ? window : t;

    return n * (n + 1.0) / 2.0 + (t - n) * n;
}

static struct tr_work_attention scores_of(const struct tr_work_how *how, const struct widths *k)
{
    const double t = (double)how->dims->seq, samples = how->tokens / t;
    const double pairs = k->f->encoder ? t * t : pairs_of(t, (double)k->f->window);

    return (struct tr_work_attention){
        .heads = k->heads,
        .head_dim = (double)how->dims->head_dim,
        .square = samples * t * t,
        .pairs = samples * pairs,
        .share = k->f->encoder ? 1.0 : pairs / pairs_of(t, 0.0),
    };
}

/* Disentangled attention (device/device.h): the table's rows through the first product, and two more products of each
   pair for its score. */
static void relative(struct tr_work *x, const struct tr_work_how *how, const struct widths *k)
{
    double rows;

    if (k->f->positions != TR_POSITIONS_DISENTANGLED)
        return;
    rows = (double)tr_relative_rows(how->dims, how->dims->seq);
    gemm(x, "relative qkv", TR_WORK_ATTENTION, rows, k->hidden, k->products);
    x->gemm[x->gemms - 1].again = true;
    keep(x, "relative qkv", TR_WORK_TYPE, rows, k->qkv);
    pass(x, "relative norm", rows, 2.0 * k->hidden, 2.0 * k->hidden);
    x->attention.pairs *= 2.0;
}

static void attention(struct tr_work *x, const struct tr_work_how *how, const struct widths *k)
{
    const double n = how->tokens, turned = k->queries + k->keys;

    enter(x, how, TR_WORK_ATTENTION, k->hidden, false);
    gemm(x, "qkv", TR_WORK_ATTENTION, n, k->hidden, k->products);
    if (k->gathers) {
        const double bytes = how->elem * n * k->products * how->w;

        message(x, "qkv", TR_WORK_ATTENTION, TR_WORK_ALL_GATHER, false, false, bytes);
        message(x, "qkv gradient", TR_WORK_ATTENTION, TR_WORK_REDUCE_SCATTER, true, false, bytes);
    }
    if (k->f->head_norm) {
        pass(x, "head norm", n, 2.0 * turned, 3.0 * turned);
        keep(x, "qkv before norms", TR_WORK_TYPE, n, k->qkv);
        keep(x, "statistics", TR_WORK_FP32, n, k->heads + k->groups);
    }
    if (k->f->positions == TR_POSITIONS_ROTARY)
        pass(x, "rotary", n, 2.0 * k->f->rotary_fraction * turned,
             2.0 * k->f->rotary_fraction * turned);
    /* Queries, keys and values to an order by heads and their result back; backward also reads the result and
       its gradient for the sum that softmax needs. */
    pass(x, "heads", n, 2.0 * k->qkv + 2.0 * k->queries, 2.0 * k->qkv + 4.0 * k->queries);
    keep(x, "qkv", TR_WORK_TYPE, n, k->qkv);
    keep(x, "softmax", TR_WORK_FP32, n, k->heads);
    keep(x, "context", TR_WORK_TYPE, n, k->queries);
    x->attention = scores_of(how, k);
    relative(x, how, k);
    gemm(x, "projection", TR_WORK_ATTENTION, n, k->queries, k->hidden);
    leave(x, how, TR_WORK_ATTENTION, k->hidden);
}

static void mlp(struct tr_work *x, const struct tr_work_how *how, const struct widths *k)
{
    const double n = how->tokens;

    enter(x, how, TR_WORK_MLP, k->hidden, k->f->place == TR_NORM_SHARED);
    gemm(x, "fc1", TR_WORK_MLP, n, k->hidden, k->first);
    pass(x, "activation", n, k->first + k->inner, 2.0 * k->first + k->inner);
    keep(x, "before activation", TR_WORK_TYPE, n, k->first);
    keep(x, "activation", TR_WORK_TYPE, n, k->inner);
    gemm(x, "fc2", TR_WORK_MLP, n, k->inner, k->hidden);
    leave(x, how, TR_WORK_MLP, k->hidden);
}

/* Norms, residual additions and what the residual stream keeps, in the order of enum tr_norm_place. */
static void around(struct tr_work *x, const struct widths *k)
{
    const enum tr_norm_place place = k->f->place;
    const bool after = place == TR_NORM_AFTER;

    keep(x, "input", TR_WORK_STREAM, k->rows, k->hidden);
    norm(x, k, "norm 1", true, after ? 0.0 : 1.0);
    join(x, k, "addition 1");
    if (place == TR_NORM_BEFORE || after)
        keep(x, "sum 1", TR_WORK_STREAM, k->rows, k->hidden);
    if (after)
        keep(x, "sum 2", TR_WORK_STREAM, k->rows, k->hidden);
    if (place != TR_NORM_SHARED)
        norm(x, k, "norm 2", !after, after ? 0.0 : 1.0);
    join(x, k, "addition 2");
    /* Where a branch's input is no norm of its own, gradients meet in an operation by itself. */
    if (after)
        pass(x, "gradients", k->rows, 0.0, 6.0 * k->hidden);
    if (place == TR_NORM_SHARED)
        pass(x, "gradients", k->rows, 0.0, 5.0 * k->hidden);
}

/* ---- the ends ---- */

/* What zeroes padding, and the convolution beside the first layer, of which the sum over the taps is one product
   (model/convolution.c). */
static void encoder(struct tr_work *x, const struct tr_work_how *how, const struct widths *k)
{
    const double n = how->tokens, taps = (double)k->f->convolution;

    keep(x, "rows of taps", TR_WORK_INT32, n, taps > 0.0 ? taps : 1.0);
    if (taps == 0.0)
        return;
    pass(x, "rows side by side", n, 4.0 * taps * k->hidden, 6.0 * taps * k->hidden);
    gemm(x, "convolution", TR_WORK_END, n, taps * k->hidden, k->hidden);
    keep(x, "before activation", TR_WORK_TYPE, n, k->hidden);
    keep(x, "sum", TR_WORK_STREAM, n, k->hidden);
    norm(x, k, "convolution norm", false, 0.0);
    join(x, k, "convolution");
}

/* The look-up itself is left out: a row is read and written once, less than a thousandth of a layer's time. */
static void embedding(struct tr_work *x, const struct tr_work_how *how, const struct widths *k)
{
    keep(x, "tokens", TR_WORK_INT32, how->tokens, 1.0);
    leave(x, how, TR_WORK_END, k->embed);
    if (how->dims->embed != how->dims->hidden) {
        gemm(x, "project-in", TR_WORK_END, k->rows, k->embed, k->hidden);
        keep(x, "words", TR_WORK_TYPE, k->rows, k->embed);
    }
    if (k->f->embed_norm) {
        keep(x, "sum", TR_WORK_STREAM, k->rows, k->hidden);
        norm(x, k, "embedding norm", false, 0.0);
    }
    if (k->f->encoder)
        encoder(x, how, k);
}

/* Passes over the logits, in numbers of 4 bytes: a copy, maximum, sum; their gradient. */
static const double LOSS_FORWARD = 6.0, LOSS_BACKWARD = 2.5;

static void head(struct tr_work *x, const struct tr_work_how *how, const struct widths *k)
{
    const double n = how->tokens;

    keep(x, "input", TR_WORK_STREAM, k->rows, k->hidden);
    keep(x, "normed", TR_WORK_TYPE, k->rows, k->hidden);
    if (k->f->final_norm)
        keep(x, "statistics", TR_WORK_FP32, k->rows, k->f->rms ? 1.0 : 2.0);
    if (how->dims->embed != how->dims->hidden) {
        gemm(x, "project-out", TR_WORK_END, k->rows, k->hidden, k->embed);
        keep(x, "projected", TR_WORK_TYPE, k->rows, k->embed);
    }
    enter(x, how, TR_WORK_END, k->embed, false);
    gemm(x, "head", TR_WORK_END, n, k->embed, k->words);
    pass(x, "loss", n, LOSS_FORWARD * k->words, LOSS_BACKWARD * k->words);
    x->pass[x->passes - 1].wide = true;
    keep(x, "labels", TR_WORK_INT32, n, 1.0);
    keep(x, "maxima and sums", TR_WORK_FP32, n, 3.0);
}

/* Of classes (model/head_classes.c): one row of each sample, the same on all tensor ranks. */
static void head_classes(struct tr_work *x, const struct tr_work_how *how, const struct widths *k)
{
    const double n = how->tokens / (double)how->dims->seq, classes = (double)how->dims->classes;
    const bool projects = how->dims->embed != how->dims->hidden;

    keep(x, "input", TR_WORK_STREAM, k->rows, k->hidden);
    keep(x, "row", TR_WORK_STREAM, n, k->hidden);
    keep(x, "normed", TR_WORK_TYPE, n, k->hidden);
    if (k->f->final_norm)
        keep(x, "statistics", TR_WORK_FP32, n, k->f->rms ? 1.0 : 2.0);
    if (how->sequence)
        message(x, "row", TR_WORK_END, TR_WORK_ALL_REDUCE, false, false,
                how->stream * n * k->hidden);
    if (projects) {
        gemm(x, "project-out", TR_WORK_END, n, k->hidden, k->embed);
        keep(x, "projected", TR_WORK_TYPE, n, k->embed);
    }
    if (k->f->pooler) {
        gemm(x, "pooler", TR_WORK_END, n, k->hidden, k->hidden);
        keep(x, "pooled", TR_WORK_TYPE, n, 2.0 * k->hidden);
    }
    gemm(x, "classes", TR_WORK_END, n, k->embed, classes);
    keep(x, "places and labels", TR_WORK_INT32, n, 2.0);
    keep(x, "weights, maxima and sums", TR_WORK_FP32, n, 4.0);
}

struct tr_work_how tr_work_how_of(const struct tr_shape *s)
{
    const double elem = s->precision.half ? 2.0 : 4.0;

    return (struct tr_work_how){
        .dims = &s->dims,
        .tokens = (double)s->batches.micro_batch * (double)s->dims.seq,
        .w = s->layout.w,
        .sequence = s->activations.sequence,
        .elem = elem,
        .stream = s->precision.stream_fp32 ? 4.0 : elem,
    };
}

struct tr_work_how tr_work_how_whole(const struct tr_dims *dims)
{
    return (struct tr_work_how){.dims = dims, .tokens = 1.0, .w = 1, .elem = 4.0, .stream = 4.0};
}

void tr_work_of(const struct tr_work_how *how, enum tr_work_part part, struct tr_work *out)
{
    const struct widths k = widths_of(how);

    *out = (struct tr_work){.gemms = 0};
    if (part == TR_WORK_EMBED) {
        embedding(out, how, &k);
    } else if (part == TR_WORK_HEAD && how->dims->head == TR_HEAD_CLASSES) {
        head_classes(out, how, &k);
    } else if (part == TR_WORK_HEAD) {
        head(out, how, &k);
    } else {
        attention(out, how, &k);
        mlp(out, how, &k);
        around(out, &k);
    }
}

double tr_work_weights(const struct tr_work *x)
{
    double sum = 0.0;

    for (int i = 0; i < x->gemms; i++)
        sum += x->gemm[i].again ? 0.0 : x->gemm[i].inner * x->gemm[i].columns;
    return sum;
}

double tr_work_largest(const struct tr_work *x)
{
    double most = 0.0;

    for (int i = 0; i < x->gemms; i++) {
        const double elems = x->gemm[i].inner * x->gemm[i].columns;

        most = elems > most ? elems : most;
    }
    return most;
}

static double bytes_of(enum tr_work_type type, const struct tr_work_how *how)
{
    return type == TR_WORK_STREAM ? how->stream : type == TR_WORK_TYPE ? how->elem : 4.0;
}

double tr_work_kept_bytes(const struct tr_work *x, const struct tr_work_how *how)
{
    double sum = 0.0;

    for (int i = 0; i < x->keeps; i++) {
        const struct tr_work_kept *t = &x->kept[i];

        sum += bytes_of(t->type, how) * t->rows * t->width;
    }
    return sum;
}

double tr_work_cache_bytes(const struct tr_work_how *how, double texts, double keys)
{
    return 2.0 * texts * keys * widths_of(how).keys * how->elem;
}

double tr_work_megatron_bytes(const struct tr_work *x, const struct tr_work_how *how)
{
    double sum = x->joins;

    for (int i = 0; i < x->keeps; i++)
        if (x->kept[i].type == TR_WORK_STREAM || x->kept[i].type == TR_WORK_TYPE)
            sum += how->elem * x->kept[i].rows * x->kept[i].width;
    return sum;
}
