/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/model_parts.h"
#include "tp/tp.h"

/*
 * A layer: two branches, attention and MLP, and the norms and residual additions around them in the order of
 * enum tr_norm_place.  Each branch ends in a row-parallel product, whose sum over the tensor ranks, bias,
 * dropout and residual addition are here.
 */

/* A branch of a layer.  `dgrad` leaves the gradient of its input in m->row2, as each tensor rank has it; what
   `wgrad` needs besides its operands stays in the scratch of the model between the two. */
static const struct tr_branch {
    enum tr_stream stream;         /* of the dropout behind it */
    enum tr_param_row bias;        /* of its last product */
    enum tr_param_row gain, shift; /* of the norm that is its own */
    /* From `in`, whole on all tensor ranks, to m->row: this rank's term of the output.  Without `whole` only
       what backward needs. */
    void (*forward)(struct tr_model *m, struct tr_block_kept *k, int layer,
                    const struct tr_tensor *in, const int64_t *sample, bool whole);
    void (*dgrad)(struct tr_model *m, struct tr_block_kept *k, int layer,
                  const struct tr_tensor *dy, const int64_t *sample);
    /* With `bias` also the gradient of the bias of the last product; `dfirst` is that of the output of the
       first, which dgrad leaves in scratch, and which waits in what is kept where backward is split. */
    void (*wgrad)(struct tr_model *m, struct tr_block_kept *k, int layer,
                  const struct tr_tensor *dfirst, const struct tr_tensor *dy,
                  const struct tr_tensor *in, bool bias);
    struct tr_tensor (*dfirst)(const struct tr_model *m);
    struct tr_tensor (*late)(const struct tr_model *m, const struct tr_block_kept *k);
} branches[] = {
    {TR_STREAM_ATTN_OUT_DROPOUT, TR_PARAM_PROJ_BIAS, TR_PARAM_LN1_GAIN, TR_PARAM_LN1_BIAS,
     tr_attention_forward, tr_attention_dgrad, tr_attention_wgrad, tr_attention_dfirst,
     tr_attention_late},
    {TR_STREAM_MLP_OUT_DROPOUT, TR_PARAM_FC2_BIAS, TR_PARAM_LN2_GAIN, TR_PARAM_LN2_BIAS,
     tr_mlp_forward, tr_mlp_dgrad, tr_mlp_wgrad, tr_mlp_dfirst, tr_mlp_late},
};
enum { ATTENTION, MLP };

/* One micro-batch in one layer. */
struct pass {
    struct tr_model *m;
    struct tr_block_kept *k;
    int layer;
    const int64_t *sample;
};

/* ---- norms ---- */

static struct tr_tensor column(struct tr_arena *a, int64_t rows)
{
    return tr_f32_1(tr_arena_floats(a, TR_LABEL_ACTIVATIONS, rows), rows);
}

void tr_norm_plan_rows(struct tr_model *m, struct tr_arena *a, struct tr_norm_kept *k, int64_t rows,
                       bool output)
{
    if (output)
        k->y = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->type, rows, m->dims->hidden);
    if (!m->norm.rms)
        k->mean = column(a, rows);
    k->rstd = column(a, rows);
}

void tr_norm_plan(struct tr_model *m, struct tr_arena *a, struct tr_norm_kept *k, bool output)
{
    tr_norm_plan_rows(m, a, k, tr_model_part_rows(m), output);
}

static const struct tr_tensor *mean_of(const struct tr_norm_kept *k)
{
    return k->mean.data ? &k->mean : NULL;
}

void tr_norm_forward(struct tr_model *m, struct tr_norm_kept *k, const struct tr_tensor *y,
                     const struct tr_tensor *x, enum tr_param_row gain, enum tr_param_row shift,
                     int layer)
{
    struct tr_tensor by = tr_model_value(m, gain, layer), plus;

    m->q->on->norm(m->q, y, mean_of(k), &k->rstd, x, &by, tr_model_bias(m, &plus, shift, layer),
                   m->norm);
}

void tr_norm_backward(struct tr_model *m, struct tr_norm_kept *k, const struct tr_tensor *dx,
                      const struct tr_tensor *dy, const struct tr_tensor *dskip,
                      const struct tr_tensor *x, enum tr_param_row gain, enum tr_param_row shift,
                      int layer)
{
    struct tr_tensor by = tr_model_value(m, gain, layer), dgain = tr_model_grad(m, gain, layer),
                     dshift;

    m->q->on->norm_bwd(m->q, dx, &dgain, tr_model_dbias(m, &dshift, shift, layer), dy, dskip, x,
                       &by, mean_of(k), &k->rstd, m->norm);
}

/* Of branch `b`, from x. */
static void norm(const struct pass *p, int b, const struct tr_tensor *x)
{
    struct tr_norm_kept *k = &p->k->norm[b];

    tr_norm_forward(p->m, k, &k->y, x, branches[b].gain, branches[b].shift, p->layer);
}

static void norm_bwd(const struct pass *p, int b, const struct tr_tensor *dx,
                     const struct tr_tensor *dy, const struct tr_tensor *dskip,
                     const struct tr_tensor *x)
{
    tr_norm_backward(p->m, &p->k->norm[b], dx, dy, dskip, x, branches[b].gain, branches[b].shift,
                     p->layer);
}

/* ---- residual additions ---- */

static struct tr_dropout dropout_of(const struct pass *p, int b)
{
    return tr_model_dropout(p->m, branches[b].stream, p->layer, p->sample);
}

/* y = x + what branch `b` has left in m->row. */
static void join(const struct pass *p, int b, const struct tr_tensor *y, const struct tr_tensor *x)
{
    struct tr_model *m = p->m;
    struct tr_tensor bias;

    tr_tp_leave_fwd(&m->tp, m->q, &m->row_part, &m->row);
    m->q->on->residual(m->q, y, x, &m->row_part,
                       tr_model_bias(m, &bias, branches[b].bias, p->layer), dropout_of(p, b));
}

/* That, and `normed` = the norm `n` of y, which is still in the cache. */
static void join_norm(const struct pass *p, int b, const struct tr_tensor *y,
                      const struct tr_tensor *x, int n, const struct tr_tensor *normed)
{
    struct tr_model *m = p->m;
    struct tr_norm_kept *k = &p->k->norm[n];
    struct tr_tensor gain = tr_model_value(m, branches[n].gain, p->layer), shift, bias;

    tr_tp_leave_fwd(&m->tp, m->q, &m->row_part, &m->row);
    m->q->on->residual_norm(m->q, y, normed, mean_of(k), &k->rstd, x, &m->row_part,
                            tr_model_bias(m, &bias, branches[b].bias, p->layer), &gain,
                            tr_model_bias(m, &shift, branches[n].shift, p->layer), m->norm,
                            dropout_of(p, b));
}

/* Whether the gradient of the residual is that of the product before it: nothing is dropped, converted or
   gathered.  The bias is then summed beside the gradient of the weights. */
static bool passes_on(const struct tr_model *m, struct tr_dropout drop)
{
    return drop.p == 0.0 && m->stream == m->type && !m->tp.sequence;
}

/* Else: in m->row, on every tensor rank whole, and the bias is done. */
static struct tr_tensor through_residual(const struct pass *p, int b, const struct tr_tensor *dy,
                                         struct tr_dropout drop)
{
    struct tr_model *m = p->m;
    struct tr_tensor dbias;

    m->q->on->residual_bwd(m->q, &m->row_part,
                           tr_model_dbias(m, &dbias, branches[b].bias, p->layer), dy, drop);
    tr_tp_leave_bwd(&m->tp, m->q, &m->row, &m->row_part);
    return m->row;
}

/* ---- branches ---- */

static void forward(const struct pass *p, int b, const struct tr_tensor *in, bool whole)
{
    branches[b].forward(p->m, p->k, p->layer, in, p->sample, whole);
}

/* The gradients of weights. */
static void own(const struct pass *p, int b, const struct tr_tensor *row,
                const struct tr_tensor *normed, bool bias)
{
    const struct tr_tensor dfirst = branches[b].dfirst(p->m);

    branches[b].wgrad(p->m, p->k, p->layer, &dfirst, row, normed, bias);
}

/* Or what they are made of, as far as it is scratch: the gradient of the first product here, and that of the branch,
   in m->row, when its place is free. */
static void leave_first(const struct pass *p, int b, const struct tr_tensor *row)
{
    const struct tr_tensor from = branches[b].dfirst(p->m), to = branches[b].late(p->m, p->k);
    struct tr_queue *q = p->m->q;

    q->on->copy(q, &to, &from);
    if (row->data != p->m->row.data)
        q->on->copy(q, &p->m->row, row);
}

static void leave_row(const struct pass *p, int b)
{
    if (p->m->split)
        p->m->q->on->copy(p->m->q, &p->k->late[b], &p->m->row_part);
}

/* From dy, the gradient behind the residual addition of branch `b`, to that of its input `in`, in
   m->row2_part.  The sum of that over the tensor ranks goes on while the gradients of weights are made. */
static void backward(const struct pass *p, int b, const struct tr_tensor *dy,
                     const struct tr_tensor *in)
{
    struct tr_model *m = p->m;
    const struct tr_dropout drop = dropout_of(p, b);
    const bool same = passes_on(m, drop);
    const struct tr_tensor row = same ? *dy : through_residual(p, b, dy, drop);
    const struct tr_tensor *normed = NULL;
    struct tr_pending gather = {.call = NULL}, sum;

    if (!m->split)
        normed = tr_model_whole_start(m, in, &gather);
    branches[b].dgrad(m, p->k, p->layer, &row, p->sample);
    tr_tp_finish(&m->tp, m->q, &gather);
    tr_tp_enter_bwd_start(&m->tp, m->q, &m->row2_part, &m->row2, &sum);
    if (m->split)
        leave_first(p, b, &row);
    else
        own(p, b, &row, normed, same);
    tr_tp_finish(&m->tp, m->q, &sum);
}

/* What backward() has left: `in` is its. */
static void weights(const struct pass *p, int b, const struct tr_tensor *in)
{
    struct tr_model *m = p->m;
    const struct tr_tensor dfirst = branches[b].late(m, p->k);
    struct tr_tensor row = p->k->late[b];

    if (m->tp.sequence) {
        m->q->on->copy(m->q, &m->row_part, &row);
        tr_tp_leave_bwd(&m->tp, m->q, &m->row, &m->row_part);
        row = m->row;
    }
    branches[b].wgrad(m, p->k, p->layer, &dfirst, &row, tr_model_whole(m, in),
                      passes_on(m, dropout_of(p, b)));
}

/* ---- norms before ---- */

/* A row of the stream has the type of activations or a larger one. */
static struct tr_tensor in_memory_of(const struct tr_model *m, const struct tr_tensor *x)
{
    return tr_tensor_2(x->data, m->type, x->dim[0], x->dim[1]);
}

static void before_plan(struct tr_model *m, struct tr_arena *a, struct tr_block_kept *k)
{
    tr_norm_plan(m, a, &k->norm[ATTENTION], true);
    tr_attention_plan(m, a, &k->attention);
    tr_block_plan_row(m, a, &k->s);
    tr_norm_plan(m, a, &k->norm[MLP], true);
    tr_mlp_plan(m, a, &k->mlp);
    k->late[ATTENTION] = in_memory_of(m, &k->x);
    k->late[MLP] = in_memory_of(m, &k->s);
}

static void before_forward(const struct pass *p, const struct tr_tensor *y)
{
    struct tr_block_kept *k = p->k;
    struct tr_norm_kept *second = &k->norm[MLP];

    norm(p, ATTENTION, &k->x);
    forward(p, ATTENTION, tr_model_whole(p->m, &k->norm[ATTENTION].y), true);
    join_norm(p, ATTENTION, &k->s, &k->x, MLP, &second->y);
    forward(p, MLP, tr_model_whole(p->m, &second->y), y != NULL);
    if (y)
        join(p, MLP, y, &k->s);
}

static void before_backward(const struct pass *p, const struct tr_tensor *dx,
                            const struct tr_tensor *dy)
{
    struct tr_block_kept *k = p->k;

    backward(p, MLP, dy, &k->norm[MLP].y);
    norm_bwd(p, MLP, dx, &p->m->row2_part, dy, &k->s);
    leave_row(p, MLP);
    backward(p, ATTENTION, dx, &k->norm[ATTENTION].y);
    norm_bwd(p, ATTENTION, dx, &p->m->row2_part, dx, &k->x);
    leave_row(p, ATTENTION);
}

static void before_weights(const struct pass *p)
{
    weights(p, MLP, &p->k->norm[MLP].y);
    weights(p, ATTENTION, &p->k->norm[ATTENTION].y);
}

/* ---- norms after: the norm of the second sum is the output, which is not kept ---- */

static void after_plan(struct tr_model *m, struct tr_arena *a, struct tr_block_kept *k)
{
    tr_attention_plan(m, a, &k->attention);
    tr_block_plan_row(m, a, &k->s);
    tr_norm_plan(m, a, &k->norm[ATTENTION], true);
    tr_mlp_plan(m, a, &k->mlp);
    tr_block_plan_row(m, a, &k->s2);
    tr_norm_plan(m, a, &k->norm[MLP], false);
}

static void after_forward(const struct pass *p, const struct tr_tensor *y)
{
    struct tr_block_kept *k = p->k;
    struct tr_norm_kept *first = &k->norm[ATTENTION];

    forward(p, ATTENTION, tr_model_whole(p->m, &k->x), true);
    join_norm(p, ATTENTION, &k->s, &k->x, ATTENTION, &first->y);
    forward(p, MLP, tr_model_whole(p->m, &first->y), true);
    join_norm(p, MLP, &k->s2, &first->y, MLP, y ? y : &p->m->row2_part);
}

static void after_backward(const struct pass *p, const struct tr_tensor *dx,
                           const struct tr_tensor *dy)
{
    struct tr_block_kept *k = p->k;
    struct tr_model *m = p->m;
    const struct tr_dropout none = {.p = 0.0};

    norm_bwd(p, MLP, &m->between, dy, NULL, &k->s2);
    backward(p, MLP, &m->between, &k->norm[ATTENTION].y);
    m->q->on->residual(m->q, dx, &m->between, &m->row2_part, NULL, none);
    norm_bwd(p, ATTENTION, &m->between, dx, NULL, &k->s);
    backward(p, ATTENTION, &m->between, &k->x);
    m->q->on->residual(m->q, dx, &m->between, &m->row2_part, NULL, none);
}

/* ---- both branches from x, behind a norm each or behind one ---- */

static void parallel_plan(struct tr_model *m, struct tr_arena *a, struct tr_block_kept *k)
{
    tr_norm_plan(m, a, &k->norm[ATTENTION], true);
    tr_attention_plan(m, a, &k->attention);
    tr_norm_plan(m, a, &k->norm[MLP], true);
    tr_mlp_plan(m, a, &k->mlp);
}

static void parallel_forward(const struct pass *p, const struct tr_tensor *y)
{
    struct tr_block_kept *k = p->k;

    norm(p, ATTENTION, &k->x);
    norm(p, MLP, &k->x);
    forward(p, ATTENTION, tr_model_whole(p->m, &k->norm[ATTENTION].y), y != NULL);
    if (y)
        join(p, ATTENTION, y, &k->x);
    forward(p, MLP, tr_model_whole(p->m, &k->norm[MLP].y), y != NULL);
    if (y)
        join(p, MLP, y, y);
}

static void parallel_backward(const struct pass *p, const struct tr_tensor *dx,
                              const struct tr_tensor *dy)
{
    struct tr_block_kept *k = p->k;
    struct tr_model *m = p->m;

    backward(p, MLP, dy, &k->norm[MLP].y);
    norm_bwd(p, MLP, &m->between, &m->row2_part, dy, &k->x);
    backward(p, ATTENTION, dy, &k->norm[ATTENTION].y);
    norm_bwd(p, ATTENTION, dx, &m->row2_part, &m->between, &k->x);
}

static void shared_plan(struct tr_model *m, struct tr_arena *a, struct tr_block_kept *k)
{
    tr_norm_plan(m, a, &k->norm[ATTENTION], true);
    tr_attention_plan(m, a, &k->attention);
    tr_mlp_plan(m, a, &k->mlp);
}

static void shared_forward(const struct pass *p, const struct tr_tensor *y)
{
    struct tr_block_kept *k = p->k;
    const struct tr_tensor *in;

    norm(p, ATTENTION, &k->x);
    in = tr_model_whole(p->m, &k->norm[ATTENTION].y);
    forward(p, ATTENTION, in, y != NULL);
    if (y)
        join(p, ATTENTION, y, &k->x);
    forward(p, MLP, in, y != NULL);
    if (y)
        join(p, MLP, y, y);
}

static void shared_backward(const struct pass *p, const struct tr_tensor *dx,
                            const struct tr_tensor *dy)
{
    struct tr_block_kept *k = p->k;
    struct tr_model *m = p->m;

    backward(p, MLP, dy, &k->norm[ATTENTION].y);
    m->q->on->copy(m->q, &m->between, &m->row2_part);
    backward(p, ATTENTION, dy, &k->norm[ATTENTION].y);
    m->q->on->add(m->q, &m->row2_part, &m->between);
    norm_bwd(p, ATTENTION, dx, &m->row2_part, dy, &k->x);
}

/* ---- by the family's row ---- */

static const struct {
    void (*plan)(struct tr_model *m, struct tr_arena *a, struct tr_block_kept *k);
    void (*forward)(const struct pass *p, const struct tr_tensor *y);
    void (*backward)(const struct pass *p, const struct tr_tensor *dx, const struct tr_tensor *dy);
    void (*weights)(const struct pass *p); /* NULL: backward cannot be split */
} places[] = {
    [TR_NORM_BEFORE] = {before_plan, before_forward, before_backward, before_weights},
    [TR_NORM_AFTER] = {after_plan, after_forward, after_backward, NULL},
    [TR_NORM_SHARED] = {shared_plan, shared_forward, shared_backward, NULL},
    [TR_NORM_PARALLEL] = {parallel_plan, parallel_forward, parallel_backward, NULL},
};

void tr_block_plan_row(struct tr_model *m, struct tr_arena *a, struct tr_tensor *x)
{
    *x = tr_model_take(a, TR_LABEL_ACTIVATIONS, m->stream, tr_model_part_rows(m), m->dims->hidden);
}

void tr_block_plan(struct tr_model *m, struct tr_arena *a, struct tr_block_kept *k)
{
    places[m->dims->family.place].plan(m, a, k);
}

void tr_block_forward(struct tr_model *m, struct tr_block_kept *k, int layer,
                      const struct tr_tensor *y, const int64_t *sample)
{
    const struct pass p = {m, k, layer, sample};

    places[m->dims->family.place].forward(&p, y);
}

void tr_block_backward(struct tr_model *m, struct tr_block_kept *k, int layer,
                       const struct tr_tensor *dx, const struct tr_tensor *dy,
                       const int64_t *sample)
{
    const struct pass p = {m, k, layer, sample};

    places[m->dims->family.place].backward(&p, dx, dy);
}

void tr_block_weights(struct tr_model *m, struct tr_block_kept *k, int layer)
{
    const struct pass p = {.m = m, .k = k, .layer = layer};

    places[m->dims->family.place].weights(&p);
}
