/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "model/model_parts.h"

void tr_model_open(struct tr_model *m)
{
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
    free(m->again);
    m->again = NULL;
}

/* The rows of this rank in a tensor of all rows. */
static struct tr_tensor part_of(const struct tr_model *m, const struct tr_tensor *x)
{
    int64_t rows = tr_model_part_rows(m), width = x->dim[1];
    struct tr_tensor part = tr_tensor_span(x, tr_model_first_row(m) * width, rows * width);

    return tr_tensor_2(part.data, x->dtype, rows, width);
}

/* Elements of the parameters that are replicated over tensor ranks. */
static int64_t uncut_elems(const struct tr_params *ps)
{
    int64_t n = 0;

    for (int i = 0; i < ps->count; i++)
        if (ps->list[i].split < 0)
            n += ps->list[i].elems;
    return n;
}

static void plan_shared(struct tr_model *m, struct tr_arena *a)
{
    int64_t n = uncut_elems(&m->params);
    enum tr_dtype type = m->params.grads.dtype;

    m->shared = tr_tensor_1(tr_arena_take(a, TR_LABEL_SCRATCH, (size_t)(n * tr_dtype_bytes(type))),
                            type, n);
}

void tr_model_plan(struct tr_model *m, struct tr_arena *a)
{
    int64_t rows = tr_model_rows(m), hidden = m->dims->hidden;
    int64_t inner = m->dims->ffn / m->layout->w, local = m->dims->hidden / m->layout->w;

    m->row = tr_model_take(a, TR_LABEL_SCRATCH, m->type, rows, hidden);
    m->row_part = part_of(m, &m->row);
    m->row2 = tr_model_take(a, TR_LABEL_SCRATCH, m->type, rows, hidden);
    m->row2_part = part_of(m, &m->row2);
    if (m->tp.sequence) {
        m->whole = tr_model_take(a, TR_LABEL_SCRATCH, m->type, rows, hidden);
        plan_shared(m, a);
    }
    m->wide = tr_model_take(a, TR_LABEL_SCRATCH, m->type, rows, inner);
    m->dqkv = tr_model_take(a, TR_LABEL_SCRATCH, m->type, rows, 3 * local);
    m->dctx = tr_model_take(a, TR_LABEL_SCRATCH, m->type, rows, local);
    m->position =
        tr_i32_1(tr_arena_take(a, TR_LABEL_SCRATCH, (size_t)rows * sizeof(int32_t)), rows);
    for (int i = 0; i < m->agains; i++) {
        if (i > 0 || m->activations->distribute_inputs)
            tr_block_plan_input(m, a, &m->again[i]);
        tr_block_plan(m, a, &m->again[i]);
    }
}

void tr_model_prepare(struct tr_model *m)
{
    int64_t rows = tr_model_rows(m);
    int32_t *position = malloc((size_t)rows * sizeof *position);

    if (!position)
        tr_die(TR_ERESOURCE, "no memory left for the positions of a micro-batch");
    for (int64_t n = 0; n < rows; n++)
        position[n] = (int32_t)(n % m->dims->seq);
    m->q->on->upload(m->q, &m->position, position);
    free(position);
}
