/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/packing.h"

#include <math.h>
#include <stdlib.h>

#include "model/param.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void tr_packing_begins(const int64_t *elems, int rows, int64_t layers, int64_t size, bool *begins)
{
    int64_t used = 0;

    for (int64_t i = 0; i < layers * rows; i++) {
        const int64_t n = elems[i % rows];

        begins[i] = i == 0 || (size > 0 ? used + n > size : i % rows == 0);
        used = begins[i] ? n : used + n;
    }
}

/* Of a layer. */
struct row_sizes {
    int rows;
    int64_t elems[TR_PARAM_ROWS];
    int64_t sum, largest;
};

static struct row_sizes sizes_of(const struct tr_dims *dims, const struct tr_layout *l)
{
    struct row_sizes s = {.rows = 0};

    s.rows = tr_params_layer(dims, l, s.elems);
    for (int i = 0; i < s.rows; i++) {
        s.sum += s.elems[i];
        s.largest = larger(s.largest, s.elems[i]);
    }
    return s;
}

static int64_t padded(const struct tr_layout *l, int64_t elems)
{
    const int64_t unit = (int64_t)TR_PARAM_UNIT * l->d;

    return (elems + unit - 1) / unit * unit;
}

/* The chunks of `layers` layers. */
static void pack(const struct row_sizes *s, const struct tr_layout *l, int64_t layers,
                 struct tr_packing *p)
{
    bool *begins = calloc((size_t)(layers * s->rows) + 1, sizeof *begins);
    int64_t used = 0;
    int in_layer = 0;

    if (!begins)
        tr_die(TR_ERESOURCE, "no memory left for a plan of chunks");
    tr_packing_begins(s->elems, s->rows, layers, p->size, begins);
    for (int64_t i = 0; i < layers * s->rows; i++) {
        in_layer = i % s->rows == 0 ? 1 : in_layer + begins[i];
        used = begins[i] ? s->elems[i % s->rows] : used + s->elems[i % s->rows];
        p->chunks += begins[i];
        p->elems += s->elems[i % s->rows];
        p->at_once = (int)larger(p->at_once, in_layer);
        p->largest = larger(p->largest, padded(l, used));
    }
    free(begins);
}

static int64_t slots_in(int64_t bytes, const struct tr_packing *p, const struct tr_chunking *c)
{
    return bytes > 0 && p->largest > 0 ? smaller(bytes / (p->largest * c->value_bytes), p->chunks)
                                       : 0;
}

void tr_packing_of(const struct tr_dims *dims, const struct tr_layout *l, int stage, int64_t size,
                   struct tr_packing *out)
{
    const struct row_sizes s = sizes_of(dims, l);
    const struct tr_chunking *c = &l->chunks;

    *out = (struct tr_packing){.size = size};
    for (int k = 0; k < l->k; k++)
        pack(&s, l, tr_layout_layers(l, stage, k), out);
    out->gradient_slots = (int)smaller(out->at_once + 1, out->chunks);
    out->slots =
        (int)slots_in(c->memory - out->gradient_slots * out->largest * c->grad_bytes, out, c);
}

/* Of an element that stays: masters and two moments in fp32, summed gradients, and the weights that masters are rounded
   to. */
static int64_t stays_bytes(const struct tr_chunking *c)
{
    return 12 + c->grad_bytes + (c->value_bytes < 4 ? c->value_bytes : 0);
}

int tr_packing_stays(const struct tr_params *ps, const struct tr_layout *l, int shards)
{
    const struct tr_chunking *c = &l->chunks;
    int64_t left = c->memory - ps->slots * ps->window * c->value_bytes;
    int windows = 0, chunks = 0, n = 0;

    for (int i = 0; i < ps->parts; i++) {
        const struct tr_param_part *p = &ps->part[i];

        chunks += p->layer >= 0;
        if (p->grads_window >= windows)
            windows = p->grads_window + 1;
    }
    left -= windows * ps->window * c->grad_bytes;
    if (c->memory == 0 || ps->slots < chunks)
        return 0;
    for (; n < ps->parts - 1; n++) {
        left -= ps->part[n].count / shards * stays_bytes(c);
        if (left < 0)
            return n;
    }
    return n;
}

int tr_packing_used(const struct tr_packing *p)
{
    if (p->chunks == 0)
        return 1000;
    return (int)lround(1000.0 * (double)p->elems / ((double)p->chunks * (double)p->largest));
}

int64_t tr_packing_least(const struct tr_packing *p, const struct tr_chunking *c)
{
    return p->largest * (p->at_once * c->value_bytes + p->gradient_slots * c->grad_bytes);
}

int tr_packing_sizes(const struct tr_dims *dims, const struct tr_layout *l,
                     int64_t out[TR_PACKING_SIZES])
{
    const struct row_sizes s = sizes_of(dims, l);
    const int64_t most = tr_layout_most_layers(l);
    int n = 0;

    for (int quarter = 1; quarter <= 16 && quarter <= 4 * most; quarter++) {
        const int64_t size = (s.sum * quarter + 3) / 4;

        if (size >= s.largest)
            out[n++] = size;
    }
    for (int64_t layers = 8; layers < 2 * most && n < TR_PACKING_SIZES; layers *= 2)
        out[n++] = s.sum * smaller(layers, most);
    return n;
}

/* All stages with chunks of one size. */
struct whole {
    bool fits;     /* each has room for a chunk more than a layer needs, or for all */
    int used;      /* thousandths */
    int64_t least; /* bytes of the stage that needs most */
};

static struct whole pack_all(const struct tr_dims *dims, const struct tr_layout *l, int64_t size)
{
    struct whole w = {.fits = true};
    struct tr_packing sum = {.largest = 1};

    for (int stage = 0; stage < l->p; stage++) {
        struct tr_packing p;

        tr_packing_of(dims, l, stage, size, &p);
        w.fits = w.fits && p.slots >= smaller(p.at_once + 1, p.chunks);
        w.least = larger(w.least, tr_packing_least(&p, &l->chunks));
        sum.elems += p.elems;
        sum.largest = larger(sum.largest, p.largest);
        sum.chunks += p.chunks;
    }
    w.used = tr_packing_used(&sum);
    return w;
}

/* Whether a size is better than the best so far. */
static bool is_better(const struct whole *a, const struct whole *best)
{
    if (a->fits != best->fits)
        return a->fits;
    return a->fits ? a->used > best->used : a->least < best->least;
}

int64_t tr_packing_size(const struct tr_dims *dims, const struct tr_layout *l)
{
    int64_t sizes[TR_PACKING_SIZES];
    const int n = l->chunks.size > 0 ? 0 : tr_packing_sizes(dims, l, sizes);
    struct whole best = {.least = INT64_MAX};
    int64_t found = l->chunks.size;

    for (int i = 0; i < n; i++) {
        const struct whole w = pack_all(dims, l, sizes[i]);

        if (is_better(&w, &best)) {
            best = w;
            found = sizes[i];
        }
    }
    return found;
}

/* The least memory that works: with the size that is given, or with any. */
static int64_t least_memory(const struct tr_dims *dims, const struct tr_layout *l)
{
    int64_t sizes[TR_PACKING_SIZES] = {l->chunks.size}, least = INT64_MAX;
    const int n = l->chunks.size > 0 ? 1 : tr_packing_sizes(dims, l, sizes);

    for (int i = 0; i < n; i++)
        least = smaller(least, pack_all(dims, l, sizes[i]).least);
    return least;
}

enum tr_status tr_packing_check(const struct tr_dims *dims, const struct tr_layout *l)
{
    const struct row_sizes s = sizes_of(dims, l);
    const struct tr_chunking *c = &l->chunks;
    int64_t least;

    if (c->memory == 0)
        return TR_OK;
    if (c->size > 0 && c->size < s.largest)
        return TR_FAIL(
            TR_ECONFIG,
            "--chunk-size %lld: a parameter lies in one chunk, and the largest of a layer "
            "has %lld elements on a rank: give --chunk-size %lld or more, or auto",
            (long long)c->size, (long long)s.largest, (long long)s.largest);
    least = least_memory(dims, l);
    if (least > c->memory)
        return TR_FAIL(
            TR_ECONFIG,
            "--chunk-memory %lld: the chunks of weights and gradients that one layer needs "
            "at one time take %lld bytes of the device: give --chunk-memory %lld or more",
            (long long)c->memory, (long long)least, (long long)least);
    return TR_OK;
}
