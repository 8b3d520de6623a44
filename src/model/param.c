/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/param.h"

#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "model/packing.h"
#include "util/rng.h"

/* Numbers of draws between a layer and the next. */
enum { DRAWS = 16 };

/* One row with the letters of its shape replaced by numbers. */
struct row {
    const char *name;
    int draw;
    int64_t rows, cols;
    int split;
    unsigned place;
    enum tr_param_init init;
    bool decay, adds, by_heads, there;
};

static void rows_of(const struct tr_dims *m, struct row out[TR_PARAM_ROWS])
{
    enum {
        EMBED = TR_PLACE_EMBED,
        LAYER = TR_PLACE_LAYER,
        HEAD = TR_PLACE_HEAD,
        STAGE = TR_PLACE_STAGE
    };
    enum { SETS, ADDS, HEADS };
    const struct tr_family *f = &m->family;
    const bool projected = m->embed != m->hidden,
               relative = f->positions == TR_POSITIONS_DISENTANGLED;
    const int64_t H = m->hidden, E = m->embed, I = m->ffn, F = tr_act_gated(f->act) ? 2 * I : I;
    const int64_t N = m->classes, V = m->vocab, S = m->positions + f->position_offset,
                  D = m->head_dim;
    const int64_t B = 2 * f->position_buckets, T = f->convolution;
    const int64_t A = m->heads * D, C = (m->heads + 2 * m->groups) * D;
    const enum tr_param_init INIT_NORMAL = TR_INIT_NORMAL, INIT_OUTPUT = TR_INIT_OUTPUT,
                             INIT_ZERO = TR_INIT_ZERO,
                             INIT_GAIN = f->one ? TR_INIT_ZERO : TR_INIT_ONE;
    const struct row rows[] = {
#define PARAM(symbol, draw, name, rows, cols, split, place, init, decay, grad, when)            \
    {name, draw, rows, cols, split, place, INIT_##init, decay, (grad) != SETS, (grad) == HEADS, \
     when},
#include "model/param.def"
#undef PARAM
    };

    memcpy(out, rows, sizeof rows);
}

/* Whether its first axis is the vocabulary, which padding makes longer. */
static bool of_words(enum tr_param_row row)
{
    return row == TR_PARAM_WORD_EMBED || row == TR_PARAM_HEAD_WEIGHT || row == TR_PARAM_HEAD_BIAS;
}

static void cut(const struct tr_dims *m, const struct tr_layout *l, int tp, struct tr_param *p)
{
    int64_t whole = p->full[p->split == 1];

    p->local[0] = p->full[0];
    p->local[1] = p->full[1];
    p->real = p->full[0];
    if (p->split < 0)
        return;
    if (of_words(p->row))
        whole = m->vocab_padded;
    p->local[p->split] = whole / l->w;
    p->first = p->local[p->split] * tp;
    p->real = p->full[p->split] - p->first;
    if (p->real > p->local[p->split])
        p->real = p->local[p->split];
    if (p->real < 0)
        p->real = 0;
}

/* What the list of one rank is made from. */
struct maker {
    const struct tr_dims *dims;
    const struct tr_layout *layout;
    int tp;
    bool first, last; /* stage */
    struct row row[TR_PARAM_ROWS];
    struct tr_params *out;
    int64_t unit;    /* a part begins at a multiple of it */
    int64_t size;    /* elements of a chunk; 0: layers are parts */
    unsigned places; /* of the part under way */
};

/* The modules of this stage that use a parameter: the tied embedding may have two. */
static unsigned used_by(const struct maker *k, const struct row *r, bool copy)
{
    unsigned places = r->place;

    if (copy || !k->first)
        places &= ~(unsigned)TR_PLACE_EMBED;
    if (!k->last)
        places &= ~(unsigned)TR_PLACE_HEAD;
    return places;
}

/* Whether --freeze, or the family, names it. */
static bool is_frozen(const struct tr_dims *m, const char *name)
{
    if (m->family.frozen && fnmatch(m->family.frozen, name, 0) == 0)
        return true;
    for (int i = 0; m->freeze && i < m->freeze->count; i++)
        if (fnmatch(m->freeze->word[i], name, 0) == 0)
            return true;
    return false;
}

static void add(struct maker *k, int row, int chunk, int layer, bool copy)
{
    const struct row *r = &k->row[row];
    struct tr_param *p = &k->out->list[k->out->count++];

    memset(p, 0, sizeof *p);
    p->row = (enum tr_param_row)row;
    p->layer = layer;
    p->chunk = chunk;
    p->ndim = r->cols > 0 ? 2 : 1;
    p->full[0] = r->rows;
    p->full[1] = r->cols > 0 ? r->cols : 1;
    p->split = r->split;
    p->decay = r->decay;
    /* The tied embedding is set by the head, where there is one, and added to by the embedding. */
    p->adds = r->adds || ((r->place & TR_PLACE_HEAD) && !k->last);
    p->by_heads = r->by_heads;
    p->init = r->init;
    p->draw = r->draw;
    p->copy = copy;
    p->embeds = r->place & TR_PLACE_EMBED;
    p->table = row == TR_PARAM_WORD_EMBED || row == TR_PARAM_POS_EMBED;
    /* The format is a literal of param.def; it has one %d exactly when the row is of a layer. */
    if (layer >= 0) {
        const char *at = strstr(r->name, "%d");
        snprintf(p->name, sizeof p->name, "%.*s%d%s", (int)(at - r->name), r->name, layer, at + 2);
    } else {
        snprintf(p->name, sizeof p->name, "%s", r->name);
    }
    p->frozen = is_frozen(k->dims, p->name);
    k->places |= used_by(k, r, copy);
    cut(k->dims, k->layout, k->tp, p);
    p->elems = p->local[0] * p->local[1];
    p->offset = k->out->size;
    p->part = k->out->parts;
    k->out->size += p->elems;
    k->out->elems += p->elems;
}

static int64_t up(int64_t n, int64_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* What was added since the last part is one, with padding behind it. */
static void end_part(struct maker *k, int chunk, int layer)
{
    struct tr_params *ps = k->out;
    const struct tr_param_part *last = ps->parts > 0 ? &ps->part[ps->parts - 1] : NULL;
    const int64_t first = last ? last->first + last->count : 0;

    ps->size = up(ps->size, k->unit);
    if (ps->size > first)
        ps->part[ps->parts++] = (struct tr_param_part){.first = first,
                                                       .count = ps->size - first,
                                                       .layer = layer,
                                                       .chunk = chunk,
                                                       .places = k->places};
    k->places = 0;
}

/* The rows of a layer, in the order of the model, and how large they are. */
static int layer_rows(const struct maker *k, int out[TR_PARAM_ROWS], int64_t elems[TR_PARAM_ROWS])
{
    int n = 0;

    for (int r = 0; r < TR_PARAM_ROWS; r++) {
        struct tr_param p = {.row = (enum tr_param_row)r,
                             .full = {k->row[r].rows, k->row[r].cols > 0 ? k->row[r].cols : 1},
                             .split = k->row[r].split};

        if (!k->row[r].there || !(k->row[r].place & TR_PLACE_LAYER))
            continue;
        cut(k->dims, k->layout, k->tp, &p);
        out[n] = r;
        elems[n++] = p.local[0] * p.local[1];
    }
    return n;
}

int tr_params_layer(const struct tr_dims *dims, const struct tr_layout *l,
                    int64_t out[TR_PARAM_ROWS])
{
    struct maker k = {.dims = dims, .layout = l};
    int rows[TR_PARAM_ROWS];

    rows_of(dims, k.row);
    return layer_rows(&k, rows, out);
}

/* The last layer first, and in each the last row.  Parts are found in the order of the model. */
static void add_layers(struct maker *k, int64_t begin, int64_t end, int chunk)
{
    int row[TR_PARAM_ROWS];
    int64_t elems[TR_PARAM_ROWS];
    const int rows = layer_rows(k, row, elems);
    bool *begins = calloc((size_t)((end - begin) * rows) + 1, sizeof *begins);

    if (!begins)
        tr_die(TR_ERESOURCE, "no memory left for the list of parts");
    tr_packing_begins(elems, rows, end - begin, k->size, begins);
    for (int64_t i = (end - begin) * rows - 1; i >= 0; i--) {
        const int layer = (int)(begin + i / rows);

        add(k, row[i % rows], chunk, layer, false);
        if (begins[i])
            end_part(k, chunk, layer);
    }
    free(begins);
}

/* The rows of the head or of the embeddings; `tied` chooses between what both have and the rest. */
static void add_end(struct maker *k, unsigned place, int chunk, bool tied)
{
    const unsigned both = TR_PLACE_EMBED | TR_PLACE_HEAD;

    for (int r = TR_PARAM_ROWS - 1; r >= 0; r--)
        if (k->row[r].there && (k->row[r].place & place) &&
            ((k->row[r].place & both) == both) == tied)
            add(k, r, chunk, -1, tied && place == TR_PLACE_HEAD);
}

/* What each stage has. */
static void add_stage(struct maker *k)
{
    for (int r = TR_PARAM_ROWS - 1; r >= 0; r--)
        if (k->row[r].there && (k->row[r].place & TR_PLACE_STAGE))
            add(k, r, 0, -1, !k->first);
}

/* Where the parts of `ps` lie: layers in `windows` in turn, if there are some; how much room that takes. */
static int64_t place(struct tr_params *ps, int windows, bool values)
{
    int64_t largest = 0, at;
    int layers = 0;

    for (int i = 0; i < ps->parts; i++) {
        const struct tr_param_part *p = &ps->part[i];

        layers += p->layer >= 0;
        if (p->layer >= 0 && p->count > largest)
            largest = p->count;
    }
    if (windows > layers)
        windows = layers;
    at = windows * largest;
    for (int i = 0, n = 0; i < ps->parts; i++) {
        struct tr_param_part *p = &ps->part[i];
        const int window = windows > 0 && p->layer >= 0 ? n++ % windows : -1;
        const int64_t there = window < 0 ? at : window * largest;

        at += window < 0 ? p->count : 0;
        *(values ? &p->values_window : &p->grads_window) = window;
        *(values ? &p->values_at : &p->grads_at) = there;
    }
    return at;
}

/* Until a plan says otherwise chunks take slots in turn. */
static void place_chunks(struct tr_params *ps, const struct tr_dims *dims,
                         const struct tr_layout *l, int stage)
{
    struct tr_packing p;

    tr_packing_of(dims, l, stage, tr_packing_size(dims, l), &p);
    ps->windows = true;
    ps->window = p.largest;
    ps->slots = p.slots > p.at_once ? p.slots : p.at_once;
    ps->values_room = place(ps, ps->slots, true);
    ps->grads_room = place(ps, p.gradient_slots, false);
}

static void place_parts(struct tr_params *ps, const struct tr_dims *dims, const struct tr_layout *l,
                        int stage)
{
    if (l->chunks.memory > 0) {
        place_chunks(ps, dims, l, stage);
        return;
    }
    ps->windows = l->weight_windows > 0;
    ps->values_room = place(ps, l->weight_windows, true);
    ps->grads_room = place(ps, l->gradient_windows, false);
}

static bool alike(const struct tr_region *a, const struct tr_region *b)
{
    return a->padding == b->padding && a->alike == b->alike && a->by_heads == b->by_heads &&
           a->tied == b->tied && a->copy == b->copy && a->decay == b->decay &&
           a->frozen == b->frozen && a->adds == b->adds;
}

static void add_region(struct tr_params *ps, struct tr_region r)
{
    struct tr_region *last = ps->regions > 0 ? &ps->region[ps->regions - 1] : NULL;

    if (r.count <= 0)
        return;
    if (last && alike(last, &r))
        last->count += r.count;
    else
        ps->region[ps->regions++] = r;
}

/* From the end of the last region to `at`, if that is beyond it, there is padding. */
static void pad_to(struct tr_params *ps, int64_t at, bool tied)
{
    const struct tr_region *last = ps->regions > 0 ? &ps->region[ps->regions - 1] : NULL;
    const int64_t end = last ? last->first + last->count : 0;

    add_region(ps,
               (struct tr_region){.first = end, .count = at - end, .padding = true, .tied = tied});
}

/* On one of `w` tensor ranks; elements from `tied` on are those of the first and the last stage. */
static void list_regions(struct tr_params *ps, int w, int64_t tied)
{
    /* A parameter may be followed by padding, and so may the last one before `tied`. */
    ps->region = calloc((size_t)ps->count * 2 + 2, sizeof *ps->region);
    if (!ps->region)
        tr_die(TR_ERESOURCE, "no memory left for the list of regions of parameters");
    for (int i = 0; i < ps->count; i++) {
        const struct tr_param *p = &ps->list[i];

        pad_to(ps, p->offset < tied ? p->offset : tied, false);
        pad_to(ps, p->offset, true);
        add_region(ps, (struct tr_region){
                           .first = p->offset,
                           .count = p->elems,
                           .alike = w > 1 && p->split<0, .by_heads = w> 1 && p->by_heads,
                           .tied = p->offset >= tied,
                           .copy = p->copy,
                           .decay = p->decay,
                           .frozen = p->frozen,
                           .adds = p->adds,
                       });
    }
    pad_to(ps, tied, false);
    pad_to(ps, ps->size, true);
}

void tr_params_list(const struct tr_dims *dims, const struct tr_layout *l, int tp, int pp,
                    struct tr_params *out)
{
    struct maker k = {.dims = dims,
                      .layout = l,
                      .tp = tp,
                      .first = tr_layout_has_embedding(l, pp),
                      .last = tr_layout_has_head(l, pp),
                      .out = out};
    const bool apart = tr_layout_ends_apart(l);
    int64_t most = 2 * TR_PARAM_ROWS;
    int64_t unit = (int64_t)TR_PARAM_UNIT * l->d, tied;

    memset(out, 0, sizeof *out);
    rows_of(dims, k.row);
    for (int chunk = 0; chunk < l->k; chunk++)
        most += tr_layout_layers(l, pp, chunk) * TR_PARAM_ROWS;
    out->list = calloc((size_t)most, sizeof *out->list);
    if (!out->list)
        tr_die(TR_ERESOURCE, "no memory left for the list of parameters");
    out->part = calloc((size_t)most, sizeof *out->part);
    if (!out->part)
        tr_die(TR_ERESOURCE, "no memory left for the list of parts");
    k.unit = l->part_shards ? unit : 1;
    k.size = l->chunks.memory > 0 ? tr_packing_size(dims, l) : 0;
    for (int chunk = l->k - 1; chunk >= 0; chunk--) {
        int64_t begin = tr_layout_first_layer(l, pp, chunk);
        int64_t end = begin + tr_layout_layers(l, pp, chunk);

        if (tr_layout_is_last(l, pp, chunk))
            add_end(&k, TR_PLACE_HEAD, chunk, false);
        end_part(&k, chunk, -1);
        add_layers(&k, begin, end, chunk);
    }
    if (k.first)
        add_end(&k, TR_PLACE_EMBED, 0, false);
    end_part(&k, 0, -1);
    add_stage(&k);
    end_part(&k, 0, -1);
    if (apart)
        out->size = up(out->size, unit);
    tied = out->size;
    if (k.first)
        add_end(&k, TR_PLACE_EMBED, 0, true);
    else if (k.last)
        add_end(&k, TR_PLACE_HEAD, l->k - 1, true);
    out->size = up(out->size, unit);
    end_part(&k, k.first ? 0 : l->k - 1, -1);
    list_regions(out, l->w, apart ? tied : out->size);
    place_parts(out, dims, l, pp);
}

void tr_params_list_whole(const struct tr_dims *dims, struct tr_params *out)
{
    const struct tr_layout single = tr_layout_single(dims->layers);
    struct tr_dims bare = *dims;

    bare.vocab_padded = bare.vocab;
    tr_params_list(&bare, &single, 0, 0, out);
}

void tr_params_seat(struct tr_params *ps, int part, int window)
{
    ps->part[part].values_window = window;
    ps->part[part].values_at = window * ps->window;
}

enum tr_status tr_params_check_freeze(const struct tr_dims *dims)
{
    struct tr_params whole;
    enum tr_status s = TR_OK;

    if (!dims->freeze)
        return TR_OK;
    tr_params_list_whole(dims, &whole);
    for (int i = 0; i < dims->freeze->count && s == TR_OK; i++) {
        int k = 0;

        while (k < whole.count && fnmatch(dims->freeze->word[i], whole.list[k].name, 0) != 0)
            k++;
        if (k == whole.count)
            s = TR_FAIL(TR_ECONFIG,
                        "--freeze %s is the name of no parameter of this model; they are named as "
                        "%s is",
                        dims->freeze->word[i], whole.list[0].name);
    }
    tr_params_release(&whole);
    return s;
}

void tr_params_release(struct tr_params *ps)
{
    free(ps->list);
    free(ps->region);
    free(ps->part);
    memset(ps, 0, sizeof *ps);
}

void tr_params_plan(struct tr_params *ps, struct tr_arena *a, enum tr_dtype values,
                    enum tr_dtype grads, bool backward)
{
    size_t v = (size_t)(ps->values_room * tr_dtype_bytes(values));
    size_t g = backward ? (size_t)(ps->grads_room * tr_dtype_bytes(grads)) : 0;

    ps->values = tr_tensor_1(tr_arena_take(a, TR_LABEL_WEIGHTS, v), values, ps->values_room);
    ps->grads = tr_tensor_1(tr_arena_take(a, TR_LABEL_GRADIENTS, g), grads, ps->grads_room);
}

int tr_params_from(const struct tr_params *ps, int64_t at)
{
    int first = 0, end = ps->count;

    while (first < end) {
        const int middle = first + (end - first) / 2;

        if (ps->list[middle].offset + ps->list[middle].elems <= at)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

int tr_param_part_at(const struct tr_params *ps, int64_t at)
{
    int first = 0, end = ps->parts - 1;

    TR_ASSERT(at >= 0 && at < ps->size);
    while (first < end) {
        const int middle = first + (end - first) / 2;

        if (ps->part[middle].first + ps->part[middle].count <= at)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

void tr_params_names(const struct tr_params *ps, int64_t first, int64_t count, char *text,
                     size_t bytes)
{
    enum { MOST = 5 };
    size_t at = 0;
    int n = 0;

    text[0] = '\0';
    for (int i = tr_params_from(ps, first);
         i < ps->count && ps->list[i].offset < first + count && n <= MOST && at < bytes; i++, n++)
        at += (size_t)snprintf(text + at, bytes - at, "%s%s", n > 0 ? ", " : "",
                               n < MOST ? ps->list[i].name : "...");
}

int tr_regions_from(const struct tr_params *ps, int64_t at)
{
    int first = 0, end = ps->regions;

    while (first < end) {
        const int middle = first + (end - first) / 2;

        if (ps->region[middle].first + ps->region[middle].count <= at)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

int64_t tr_params_tied(const struct tr_params *ps)
{
    for (int i = 0; i < ps->regions; i++)
        if (ps->region[i].tied)
            return ps->region[i].first;
    return ps->size;
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

int64_t tr_param_item(int draw, int layer)
{
    return ((int64_t)(draw / DRAWS) << 32) + DRAWS * (int64_t)(layer + 1) + draw % DRAWS;
}

/* How the elements of a parameter are drawn, or 0: they all are `value`. */
struct spread {
    enum { ALIKE, NORMAL, UNIFORM } kind;
    double size; /* standard deviation, or the largest */
    float value;
};

static struct spread by_rows(const struct tr_param *p, const struct tr_dims *dims, double std)
{
    switch (p->init) {
    case TR_INIT_NORMAL:
        return (struct spread){.kind = NORMAL, .size = std};
    case TR_INIT_OUTPUT:
        return (struct spread){.kind = NORMAL, .size = std / sqrt(2.0 * (double)dims->layers)};
    case TR_INIT_ZERO:
        break;
    case TR_INIT_ONE:
        return (struct spread){.value = 1.0F};
    }
    return (struct spread){.value = 0.0F};
}

/* Inputs of the product that a bias is added to, or 0 for one that begins at 0. */
static int64_t inputs_of_bias(enum tr_param_row row, const struct tr_dims *dims)
{
    return row == TR_PARAM_FC1_BIAS    ? dims->hidden
           : row == TR_PARAM_FC2_BIAS  ? dims->ffn
           : row == TR_PARAM_HEAD_BIAS ? dims->embed
                                       : 0;
}

static struct spread by_torch(const struct tr_param *p, const struct tr_dims *dims)
{
    const int64_t inputs = p->ndim > 1 ? p->full[1] : inputs_of_bias(p->row, dims);

    if (p->row == TR_PARAM_QKV_WEIGHT)
        return (struct spread){UNIFORM, sqrt(6.0 / (double)(p->full[0] + p->full[1])), 0.0F};
    if (inputs == 0)
        return by_rows(p, dims, 0.0);
    return (struct spread){UNIFORM, 1.0 / sqrt((double)inputs), 0.0F};
}

static struct spread spread_of(const struct tr_param *p, const struct tr_dims *dims, double std,
                               int init)
{
    if (init == TR_WEIGHTS_SCALED || (p->ndim == 1 && init == TR_WEIGHTS_MODULES))
        return by_rows(p, dims, std);
    if (p->embeds && p->init == TR_INIT_NORMAL && p->row != TR_PARAM_PROJECT_IN)
        return (struct spread){NORMAL, 1.0, 0.0F};
    if (init == TR_WEIGHTS_MODULES && p->row != TR_PARAM_HEAD_WEIGHT)
        return (struct spread){NORMAL, std, 0.0F};
    return by_torch(p, dims);
}

/* Elements from .. to - 1 of local row `r`, where there is something to draw. */
static void draw_row(const struct tr_param *p, struct tr_rng rng, const struct spread *s, int64_t r,
                     int64_t from, int64_t to, float *out)
{
    int64_t row = p->split == 0 ? p->first + r : r;
    int64_t col = p->split == 1 ? p->first + from : from;

    if (p->split == 0 && r >= p->real) {
        fill(out, to - from, 0.0F);
        return;
    }
    if (s->kind == NORMAL)
        tr_rng_normal(rng, (uint64_t)(row * p->full[1] + col), to - from, out);
    else
        tr_rng_uniform(rng, (uint64_t)(row * p->full[1] + col), to - from, out);
    for (int64_t c = 0; c < to - from; c++)
        out[c] = (float)(s->size * (double)out[c]);
}

/* Elements first .. end - 1 of the local part.  Row by row, because sharding along axis 1 leaves
   gaps in the order of the full tensor; each row by one thread, because a draw does not depend on
   the one before it. */
static void draw(const struct tr_param *p, uint64_t seed, const struct spread *s, int threads,
                 int64_t first, int64_t end, float *out)
{
    const int64_t cols = p->local[1];
    struct tr_rng rng = tr_rng_key(seed, TR_STREAM_INIT, 0, tr_param_item(p->draw, p->layer));

    (void)threads; /* where there is no OpenMP */
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t r = first / cols; r <= (end - 1) / cols; r++) {
        int64_t from = r * cols < first ? first - r * cols : 0;
        int64_t to = (r + 1) * cols > end ? end - r * cols : cols;

        draw_row(p, rng, s, r, from, to, out + r * cols + from - first);
    }
}

void tr_params_draw(const struct tr_params *ps, const struct tr_dims *dims, uint64_t seed,
                    double std, int init, int threads, int64_t first, int64_t count, float *out)
{
    fill(out, count, 0.0F);
    for (int i = tr_params_from(ps, first); i < ps->count && ps->list[i].offset < first + count;
         i++) {
        const struct tr_param *p = &ps->list[i];
        const struct spread s = spread_of(p, dims, std, init);
        int64_t from = first > p->offset ? first - p->offset : 0;
        int64_t to = first + count - p->offset < p->elems ? first + count - p->offset : p->elems;
        float *x = out + p->offset + from - first;

        if (s.kind == ALIKE)
            fill(x, to - from, s.value);
        else
            draw(p, seed, &s, threads, from, to, x);
    }
}

/* Layers are in descending order, between parameters outside of layers.  Where layer `layer`
   begins, or would, in [first, end). */
static int begin_of(const struct tr_params *ps, int first, int end, int layer)
{
    while (first < end) {
        const int middle = first + (end - first) / 2;

        if (ps->list[middle].layer > layer)
            first = middle + 1;
        else
            end = middle;
    }
    return first;
}

struct tr_param *tr_param_find(const struct tr_params *ps, enum tr_param_row row, int layer)
{
    int first = 0, end = ps->count, i;

    for (; first < end && ps->list[first].layer < 0; first++)
        if (layer < 0 && ps->list[first].row == row)
            return &ps->list[first];
    for (; end > first && ps->list[end - 1].layer < 0; end--)
        if (layer < 0 && ps->list[end - 1].row == row)
            return &ps->list[end - 1];
    for (i = begin_of(ps, first, end, layer); i < end && ps->list[i].layer == layer; i++)
        if (ps->list[i].row == row)
            return &ps->list[i];
    return NULL;
}

/* Of a parameter whose part begins at `at`. */
static struct tr_tensor view(const struct tr_params *ps, const struct tr_tensor *all, int64_t at,
                             const struct tr_param *p)
{
    struct tr_tensor x = tr_tensor_span(all, at + p->offset - ps->part[p->part].first, p->elems);

    x.ndim = p->ndim;
    for (int i = 0; i < p->ndim; i++)
        x.dim[i] = p->local[i];
    return x;
}

struct tr_tensor tr_param_value(const struct tr_params *ps, const struct tr_param *p)
{
    return view(ps, &ps->values, ps->part[p->part].values_at, p);
}

struct tr_tensor tr_param_grad(const struct tr_params *ps, const struct tr_param *p)
{
    return view(ps, &ps->grads, ps->part[p->part].grads_at, p);
}

bool tr_region_counts(const struct tr_region *r, int tp)
{
    return !r->padding && !r->copy && !r->frozen && (!r->alike || tp == 0);
}

bool tr_param_counts(const struct tr_param *p, int tp)
{
    return !p->copy && (p->split >= 0 || tp == 0);
}
