/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/param.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/rng.h"

/* One row with the letters of its shape replaced by numbers. */
struct row {
    const char *name;
    int64_t rows, cols;
    int split;
    unsigned place;
    enum tr_param_init init;
    bool decay;
};

static void rows_of(const struct tr_shape *s, struct row out[TR_PARAM_ROWS])
{
    enum { EMBED = TR_PLACE_EMBED, LAYER = TR_PLACE_LAYER, HEAD = TR_PLACE_HEAD };
    const int64_t H = s->hidden, F = s->ffn, V = s->vocab, S = s->positions;
    const struct row rows[] = {
#define PARAM(symbol, name, rows, cols, split, place, init, decay) \
    {name, rows, cols, split, place, TR_INIT_##init, decay},
#include "model/param.def"
#undef PARAM
    };

    memcpy(out, rows, sizeof rows);
}

static void cut(const struct tr_shape *s, int tp, struct tr_param *p)
{
    int64_t whole = p->full[p->split == 1];

    p->local[0] = p->full[0];
    p->local[1] = p->full[1];
    p->real = p->full[0];
    if (p->split < 0)
        return;
    if (p->row == TR_PARAM_WORD_EMBED)
        whole = s->vocab_padded;
    p->local[p->split] = whole / s->w;
    p->first = p->local[p->split] * tp;
    p->real = p->full[p->split] - p->first;
    if (p->real > p->local[p->split])
        p->real = p->local[p->split];
    if (p->real < 0)
        p->real = 0;
}

static void add(struct tr_params *out, const struct tr_shape *s, int tp, const struct row *rows,
                enum tr_param_row row, int chunk, int layer, bool copy)
{
    const struct row *r = &rows[row];
    struct tr_param *p = &out->list[out->count++];

    memset(p, 0, sizeof *p);
    p->row = row;
    p->layer = layer;
    p->chunk = chunk;
    p->ndim = r->cols > 0 ? 2 : 1;
    p->full[0] = r->rows;
    p->full[1] = r->cols > 0 ? r->cols : 1;
    p->split = r->split;
    p->decay = r->decay;
    p->init = r->init;
    p->copy = copy;
    /* The format is a literal of param.def; it has one %d exactly when the row is of a layer. */
    if (layer >= 0) {
        const char *at = strstr(r->name, "%d");
        snprintf(p->name, sizeof p->name, "%.*s%d%s", (int)(at - r->name), r->name, layer, at + 2);
    } else {
        snprintf(p->name, sizeof p->name, "%s", r->name);
    }
    cut(s, tp, p);
    p->elems = p->local[0] * p->local[1];
    p->offset = out->elems;
    out->elems += p->elems;
}

void tr_params_list(const struct tr_shape *s, int tp, int pp, struct tr_params *out)
{
    struct row rows[TR_PARAM_ROWS];
    bool first = pp == 0, last = pp == s->p - 1;
    int64_t most = (s->layers_per_chunk * s->k + 2) * TR_PARAM_ROWS;

    memset(out, 0, sizeof *out);
    rows_of(s, rows);
    out->list = calloc((size_t)most, sizeof *out->list);
    if (!out->list)
        tr_die(TR_ERESOURCE, "no memory left for the list of parameters");
    for (int chunk = s->k - 1; chunk >= 0; chunk--) {
        int64_t begin = tr_shape_first_layer(s, pp, chunk);

        for (int r = TR_PARAM_ROWS - 1; last && chunk == s->k - 1 && r >= 0; r--)
            if ((rows[r].place & TR_PLACE_HEAD) && !(first && (rows[r].place & TR_PLACE_EMBED)))
                add(out, s, tp, rows, (enum tr_param_row)r, chunk, -1,
                    (rows[r].place & TR_PLACE_EMBED) != 0);
        for (int64_t layer = begin + s->layers_per_chunk - 1; layer >= begin; layer--)
            for (int r = TR_PARAM_ROWS - 1; r >= 0; r--)
                if (rows[r].place & TR_PLACE_LAYER)
                    add(out, s, tp, rows, (enum tr_param_row)r, chunk, (int)layer, false);
        for (int r = TR_PARAM_ROWS - 1; first && chunk == 0 && r >= 0; r--)
            if (rows[r].place & TR_PLACE_EMBED)
                add(out, s, tp, rows, (enum tr_param_row)r, chunk, -1, false);
    }
}

void tr_params_release(struct tr_params *ps)
{
    free(ps->list);
    memset(ps, 0, sizeof *ps);
}

void tr_params_plan(struct tr_params *ps, struct tr_arena *a)
{
    ps->values = tr_f32_1(tr_arena_floats(a, "weights", ps->elems), ps->elems);
    ps->grads = tr_f32_1(tr_arena_floats(a, "gradients", ps->elems), ps->elems);
}

int64_t tr_params_number(const struct tr_params *ps)
{
    return ps->elems;
}

static void fill(float *x, int64_t n, float value)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = value;
}

/* Row by row, because a cut along axis 1 leaves gaps in the order of the whole tensor; each row by
   one thread, because a draw does not know the one before it. */
static void draw(const struct tr_param *p, float *x, uint64_t seed, double std, int threads)
{
    int64_t cols = p->local[1];
    int64_t row0 = p->split == 0 ? p->first : 0, col0 = p->split == 1 ? p->first : 0;
    int64_t rows = p->split == 1 ? p->local[0] : p->real;
    /* Names the draws: the row and the layer, which are the same in every layout. */
    int64_t item = (int64_t)p->row + TR_PARAM_ROWS * (int64_t)(p->layer + 1);
    struct tr_rng rng = tr_rng_key(seed, TR_STREAM_INIT, 0, item);

#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t r = 0; r < rows; r++) {
        tr_rng_normal(rng, (uint64_t)((row0 + r) * p->full[1] + col0), cols, x + r * cols);
        for (int64_t c = 0; c < cols; c++)
            x[r * cols + c] = (float)(std * (double)x[r * cols + c]);
    }
    fill(x + rows * cols, p->elems - rows * cols, 0.0F);
}

void tr_params_init(struct tr_params *ps, const struct tr_shape *s, uint64_t seed, double std,
                    int threads)
{
    double output_std = std / sqrt(2.0 * (double)s->layers);

    for (int i = 0; i < ps->count; i++) {
        const struct tr_param *p = &ps->list[i];
        float *x = tr_f32(&ps->values) + p->offset;

        switch (p->init) {
        case TR_INIT_NORMAL:
            draw(p, x, seed, std, threads);
            break;
        case TR_INIT_OUTPUT:
            draw(p, x, seed, output_std, threads);
            break;
        case TR_INIT_ZERO:
            fill(x, p->elems, 0.0F);
            break;
        case TR_INIT_ONE:
            fill(x, p->elems, 1.0F);
            break;
        }
    }
}

struct tr_param *tr_param_find(const struct tr_params *ps, enum tr_param_row row, int layer)
{
    for (int i = 0; i < ps->count; i++)
        if (ps->list[i].row == row && ps->list[i].layer == layer)
            return &ps->list[i];
    return NULL;
}

static struct tr_tensor view(const struct tr_tensor *flat, const struct tr_param *p)
{
    float *data = flat->data ? tr_f32(flat) + p->offset : NULL;

    return p->ndim == 1 ? tr_f32_1(data, p->local[0]) : tr_f32_2(data, p->local[0], p->local[1]);
}

struct tr_tensor tr_param_value(const struct tr_params *ps, const struct tr_param *p)
{
    return view(&ps->values, p);
}

struct tr_tensor tr_param_grad(const struct tr_params *ps, const struct tr_param *p)
{
    return view(&ps->grads, p);
}

bool tr_param_counts(const struct tr_param *p, int tp)
{
    return !p->copy && (p->split >= 0 || tp == 0);
}
