/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "config/relative.h"
#include "model/host_layers.h"
#include "model/model_parts.h"
#include "model/positions.h"

void tr_model_open(struct tr_model *m)
{
    tr_host_layer_open(m);
    if (m->activations->recompute == TR_RECOMPUTE_NONE)
        return;
    m->agains = m->activations->recompute == TR_RECOMPUTE_UNIFORM
                    ? (int)m->activations->recompute_layers
                    : 1;
    m->again = calloc((size_t)m->agains, sizeof *m->again);
    if (!m->again)
        tr_die(TR_ERESOURCE, "no memory left for the layout of recomputed layers");
}

void tr_model_close(struct tr_model *m)
{
    tr_params_release(&m->params);
    tr_host_layer_close(m);
    free(m->again);
    m->again = NULL;
}

/* Elements of the parameters whose gradients are summed over the tensor ranks. */
static int64_t summed_elems(const struct tr_model *m)
{
    int64_t n = 0;

    for (int i = 0; i < m->params.regions; i++)
        if (tr_model_sums(m, &m->params.region[i]))
            n += m->params.region[i].count;
    return n;
}

static void plan_shared(struct tr_model *m, struct tr_arena *a)
{
    int64_t n = m->layout->w > 1 ? summed_elems(m) : 0;
    enum tr_dtype type = m->params.grads.dtype;

    if (n > 0)
        m->shared = tr_tensor_1(
            tr_arena_take(a, TR_LABEL_SCRATCH, (size_t)(n * tr_dtype_bytes(type))), type, n);
}

/* The columns of the product of all tensor ranks, where they are more than the key-value groups. */
static void plan_gathered(struct tr_model *m, struct tr_arena *a)
{
    const int64_t rows = tr_model_rows(m), w = m->layout->w;
    const int64_t width = tr_model_gathered_width(m) / w;

    if (width == 0)
        return;
    m->gathered = tr_model_take(a, TR_LABEL_SCRATCH, m->type, w * rows, width);
    if (!m->forward_only)
        m->dproduct = tr_model_take(a, TR_LABEL_SCRATCH, m->type, rows, width);
}

/* Where the gradients of activations inside a layer lie. */
static void plan_gradients(struct tr_model *m, struct tr_arena *a)
{
    const int64_t rows = tr_model_rows(m);

    m->wide = tr_model_take(a, TR_LABEL_SCRATCH, m->type, rows, tr_model_mlp_width(m));
    m->dqkv = tr_model_take(a, TR_LABEL_SCRATCH, m->type, rows, tr_model_qkv_width(m));
    m->dctx = tr_model_take(a, TR_LABEL_SCRATCH, m->type, rows,
                            m->dims->heads / m->layout->w * m->dims->head_dim);
}

void tr_model_plan_tables(struct tr_model *m, struct tr_arena *a)
{
    const int64_t rows = tr_model_rows(m), seq = m->dims->seq,
                  heads = m->dims->heads / m->layout->w;
    const enum tr_positions kind = m->dims->family.positions;

    m->position =
        tr_i32_1(tr_arena_take(a, TR_LABEL_SCRATCH, (size_t)rows * sizeof(int32_t)), rows);
    if (kind == TR_POSITIONS_ROTARY)
        m->angles = tr_model_take(a, TR_LABEL_SCRATCH, TR_F32, seq, tr_rotary_width(m->dims));
    if (kind == TR_POSITIONS_SINUSOIDAL)
        m->sines = tr_model_take(a, TR_LABEL_SCRATCH, TR_F32, seq, m->dims->hidden);
    if (kind == TR_POSITIONS_DISENTANGLED)
        m->bucket = tr_i32_1(
            tr_arena_take(a, TR_LABEL_SCRATCH, (size_t)(2 * m->tokens - 1) * sizeof(int32_t)),
            2 * m->tokens - 1);
    if (kind == TR_POSITIONS_ALIBI)
        m->slopes = tr_f32_1(tr_arena_floats(a, TR_LABEL_SCRATCH, heads), heads);
}

void tr_model_plan(struct tr_model *m, struct tr_arena *a)
{
    int64_t rows = tr_model_rows(m), hidden = m->dims->hidden;

    m->row = tr_model_take(a, TR_LABEL_SCRATCH, m->type, rows, hidden);
    m->row_part = tr_model_part(m, &m->row);
    m->row2 = tr_model_take(a, TR_LABEL_SCRATCH, m->type, rows, hidden);
    m->row2_part = tr_model_part(m, &m->row2);
    if (m->tp.sequence)
        m->whole = tr_model_take(a, TR_LABEL_SCRATCH, m->type, rows, hidden);
    if (!m->forward_only)
        plan_shared(m, a);
    if (m->dims->family.place != TR_NORM_BEFORE || m->dims->family.embed_norm)
        m->between = tr_model_take(a, TR_LABEL_SCRATCH, m->stream, tr_model_part_rows(m), hidden);
    if (tr_relative_is(m))
        tr_relative_plan_scratch(m, a);
    if (tr_param_find(&m->params, TR_PARAM_CONV_WEIGHT, -1))
        tr_conv_plan_scratch(m, a);
    if (!m->forward_only)
        plan_gradients(m, a);
    plan_gathered(m, a);
    for (int i = 0; i < m->agains; i++) {
        if (i > 0 || m->activations->distribute_inputs)
            tr_block_plan_row(m, a, &m->again[i].x);
        tr_block_plan(m, a, &m->again[i]);
    }
    tr_host_layer_plan(m, a);
}

static void *host(int64_t count, size_t size)
{
    void *p = malloc((size_t)count * size);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the positions of a micro-batch");
    return p;
}

static void prepare_tables(struct tr_model *m)
{
    const int64_t most = m->angles.data  ? tr_tensor_elems(&m->angles)
                         : m->sines.data ? tr_tensor_elems(&m->sines)
                                         : m->dims->heads;
    float *table = host(most, sizeof *table);

    if (m->angles.data) {
        tr_rotary_table(m->dims, m->dims->seq, table);
        m->q->on->upload(m->q, &m->angles, table);
    }
    if (m->sines.data) {
        tr_sine_table(m->dims->seq, m->dims->hidden, table);
        m->q->on->upload(m->q, &m->sines, table);
    }
    if (m->slopes.data) {
        tr_alibi_slopes(m->dims->heads, table);
        m->q->on->upload(m->q, &m->slopes, table + m->tp.comm->rank * tr_tensor_elems(&m->slopes));
    }
    free(table);
}

void tr_model_prepare(struct tr_model *m)
{
    int64_t rows = tr_model_rows(m);
    int32_t *position = host(rows, sizeof *position);

    for (int64_t n = 0; n < rows; n++)
        position[n] = (int32_t)(n % m->tokens);
    m->q->on->upload(m->q, &m->position, position);
    free(position);
    prepare_tables(m);
    if (m->bucket.data) {
        int32_t *bucket = host(2 * m->tokens - 1, sizeof *bucket);

        tr_relative_table(m->dims, m->tokens, bucket);
        m->q->on->upload(m->q, &m->bucket, bucket);
        free(bucket);
    }
}
