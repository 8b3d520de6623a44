/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/names.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 160 };

static const char *const prefixes[] = {
#define STYLE(symbol, prefix) prefix,
#include "weights/styles.def"
};

/* The row of a parameter, or NULL. */
struct names {
    enum tr_arrangement how;
    const char *parts; /* NULL: there is no row */
};

static struct names row_of(enum tr_weights_style style, enum tr_param_row row,
                           const struct tr_family *f)
{
#define MAP(style_, param, arrangement, when, parts_)                    \
    if (style == TR_STYLE_##style_ && row == TR_PARAM_##param && (when)) \
        return (struct names){TR_ARRANGED_##arrangement, parts_};
#include "weights/styles.def"
    return (struct names){TR_ARRANGED_SAME, NULL};
}

/* Other names of a parameter of one tensor. */
static const struct {
    enum tr_weights_style style;
    enum tr_param_row row;
    const char *name;
} also[] = {
#define ALSO(style, param, name) {TR_STYLE_##style, TR_PARAM_##param, name},
#include "weights/styles.def"
};
enum { ALSOS = sizeof also / sizeof *also };

static const struct {
    enum tr_weights_style style;
    const char *pattern;
} skipped[] = {
#define SKIP(style, name) {TR_STYLE_##style, name},
#include "weights/styles.def"
};
enum { SKIPPED = sizeof skipped / sizeof *skipped };

/* Part number `part` of the names, with the layer put in: %d is the only thing in them that is no letter. */
static void name_of(const char *parts, int part, int layer, char out[NAME])
{
    const char *end, *at;
    int before;

    for (; part > 0; part--)
        parts = strchr(parts, '|') + 1;
    end = parts + strcspn(parts, "|");
    at = strstr(parts, "%d");
    before = (int)((at && at < end ? at : end) - parts);
    if (at && at < end)
        snprintf(out, NAME, "%.*s%d%.*s", before, parts, layer, (int)(end - at - 2), at + 2);
    else
        snprintf(out, NAME, "%.*s", before, parts);
}

static const char *without_prefix(enum tr_weights_style style, const char *name)
{
    const size_t n = strlen(prefixes[style]);

    return strncmp(name, prefixes[style], n) == 0 ? name + n : name;
}

/* The name within its part of the model: behind the number of the layer, or the last two words. */
static void part_name(const struct tr_param *p, const char *pattern, char out[NAME])
{
    const size_t n = strcspn(pattern, "|");
    const char *at = p->layer >= 0 ? strstr(pattern, "%d.") + 3 : pattern + n;
    int dots = p->layer >= 0 ? 2 : 0;

    while (dots < 2 && at > pattern && (at[-1] != '.' || ++dots < 2))
        at--;
    if (p->layer >= 0)
        snprintf(out, NAME, "%d/%.*s", p->layer, (int)(pattern + n - at), at);
    else
        snprintf(out, NAME, "%s/%.*s", p->embeds ? "embs" : "head", (int)(pattern + n - at), at);
}

/* Part number `part` of the names of a parameter, as the table has them. */
static void their_name(const struct tr_weights_table *t, const struct tr_param *p,
                       const char *parts, int part, char out[NAME])
{
    name_of(parts, part, p->layer, out);
    for (; part > 0; part--)
        parts = strchr(parts, '|') + 1;
    if (t->by_parts)
        part_name(p, parts, out);
}

/* The output layer, which has a name also where it is tied. */
static void output_name(enum tr_weights_style style, const struct tr_dims *dims,
                        const struct tr_weights_table *t, char out[NAME])
{
    const struct tr_param output = {.layer = -1};

    their_name(t, &output, row_of(style, TR_PARAM_HEAD_WEIGHT, &dims->family).parts, 0, out);
}

/* The axes of tensor number `part`: how many, and how long. */
static int axes_of(const struct tr_arranged *a, int part, int64_t dim[3])
{
    tr_arranged_shape(a, part, dim);
    if (a->how != TR_ARRANGED_TAPS)
        return a->param->ndim;
    dim[2] = a->dims->family.convolution;
    dim[1] /= dim[2];
    return 3;
}

static void add_name(struct tr_weights_table *t, const struct tr_arranged *a, int part,
                     enum tr_weights_type type, const char *name)
{
    struct tr_weights_tensor *x = tr_weights_add(t, name);

    x->type = type;
    x->dim[2] = 1;
    x->ndim = axes_of(a, part, x->dim);
    x->elems = x->dim[0] * x->dim[1] * x->dim[2];
}

enum tr_status tr_weights_names(enum tr_weights_style style, const struct tr_dims *dims,
                                const struct tr_params *whole, enum tr_weights_type type,
                                struct tr_weights_table *t)
{
    for (int i = 0; i < whole->count; i++) {
        const struct tr_param *p = &whole->list[i];
        const struct names n = row_of(style, p->row, &dims->family);

        if (!n.parts)
            return TR_FAIL(TR_EINTERNAL, "there is no name for %s; please report it", p->name);
        const struct tr_arranged a = {n.how, dims, p, 1, p->full[0]};

        char name[NAME];

        for (int part = 0; part < tr_arranged_tensors(&a); part++) {
            their_name(t, p, n.parts, part, name);
            add_name(t, &a, part, type, name);
        }
        if (t->by_parts && p->row == TR_PARAM_WORD_EMBED && dims->family.tied) {
            output_name(style, dims, t, name);
            add_name(t, &a, 0, type, name);
        }
    }
    return tr_weights_sort(t);
}

/* ---- finding them ---- */

static int find(const struct tr_weights_table *t, enum tr_weights_style style, const char *name)
{
    const int at = tr_weights_find(t, name);

    return at >= 0 ? at : tr_weights_find(t, without_prefix(style, name));
}

static int find_part(const struct tr_weights_table *t, enum tr_weights_style style,
                     const struct tr_param *p, const struct names *n, int part, char name[NAME])
{
    int at;

    their_name(t, p, n->parts, part, name);
    at = find(t, style, name);
    for (int i = 0; i < ALSOS && at < 0; i++)
        if (also[i].style == style && also[i].row == p->row) {
            char other[NAME];

            snprintf(other, sizeof other, "%s", also[i].name);
            if (t->by_parts)
                part_name(p, also[i].name, other);
            at = find(t, style, other);
        }
    return at;
}

static enum tr_status check(const struct tr_weights_table *t, const struct tr_weights_tensor *x,
                            int ndim, const int64_t *dim)
{
    char theirs[TR_WEIGHTS_SHAPE], ours[TR_WEIGHTS_SHAPE];

    if (x->ndim != ndim || memcmp(x->dim, dim, (size_t)ndim * sizeof *dim) != 0)
        return TR_FAIL(TR_EDATA,
                       "%s in %s has the shape %s, and with these sizes of the model it is %s",
                       x->name, t->file[x->file].path, tr_weights_shape(x->ndim, x->dim, theirs),
                       tr_weights_shape(ndim, dim, ours));
    if (x->type == TR_WEIGHTS_OTHER)
        return TR_FAIL(TR_EDATA,
                       "%s in %s is of type %s: weights of types F32, F16 and BF16 are read, and "
                       "quantized ones are not",
                       x->name, t->file[x->file].path, x->type_name);
    return TR_OK;
}

enum tr_status tr_weights_check(const struct tr_weights_table *t, const struct tr_weights_tensor *x,
                                const struct tr_param *p, const int64_t dim[2])
{
    return check(t, x, p->ndim, dim);
}

/* Of a head of classes, which weights that were published before their task do not have. */
static bool may_lack(const struct tr_param *p)
{
    return p->row == TR_PARAM_POOLER_WEIGHT || p->row == TR_PARAM_POOLER_BIAS ||
           p->row == TR_PARAM_CLASS_WEIGHT || p->row == TR_PARAM_CLASS_BIAS;
}

static enum tr_status match_one(enum tr_weights_style style, const struct tr_dims *dims,
                                bool untied, struct tr_weights_table *t, struct tr_weights_item *m)
{
    const struct tr_param *p = m->arranged.param;
    const struct names n = row_of(style, p->row, &dims->family);

    if (!n.parts && may_lack(p)) {
        m->tensor[0] = -1;
        return TR_OK;
    }
    if (!n.parts)
        return TR_FAIL(TR_EINTERNAL, "there is no name for %s; please report it", p->name);
    m->arranged.how = n.how;
    for (int part = 0; part < tr_arranged_tensors(&m->arranged); part++) {
        char name[NAME], embedding[NAME];
        int64_t dim[3];
        int at = find_part(t, style, p, &n, part, name);

        if (at < 0 && untied && p->row == TR_PARAM_HEAD_WEIGHT) {
            const struct tr_param word = {.layer = -1, .embeds = true};
            const struct names w = row_of(style, TR_PARAM_WORD_EMBED, &dims->family);

            at = find_part(t, style, &word, &w, 0, embedding);
        }
        if (at < 0 && may_lack(p)) {
            m->tensor[0] = -1;
            return TR_OK;
        }
        if (at < 0)
            return TR_FAIL(TR_EDATA, "%s has no tensor %s, which is %s here", t->folder, name,
                           p->name);
        TR_TRY(check(t, &t->list[at], axes_of(&m->arranged, part, dim), dim));
        t->list[at].used = true;
        m->tensor[part] = at;
    }
    return TR_OK;
}

/* Whether a name is of a buffer. */
static bool is_buffer(enum tr_weights_style style, bool by_parts, const char *name)
{
    for (int i = 0; i < SKIPPED; i++) {
        const char *pattern = skipped[i].pattern, *star = strstr(pattern, "*.");

        if (skipped[i].style != style)
            continue;
        if (!by_parts && fnmatch(pattern, without_prefix(style, name), 0) == 0)
            return true;
        if (by_parts && star && strchr(name, '/') && strcmp(strchr(name, '/') + 1, star + 2) == 0)
            return true;
    }
    return false;
}

/* A tensor that need not be read: a buffer, or the copy that a tied output layer has. */
static bool is_spare(enum tr_weights_style style, const struct tr_dims *dims,
                     const struct tr_weights_table *t, const char *name)
{
    char head[NAME];

    if (is_buffer(style, t->by_parts, name))
        return true;
    if ((!dims->family.tied && dims->head == TR_HEAD_LANGUAGE) ||
        !row_of(style, TR_PARAM_HEAD_WEIGHT, &dims->family).parts)
        return false;
    output_name(style, dims, t, head);
    return strcmp(head, name) == 0;
}

static enum tr_status check_rest(enum tr_weights_style style, const struct tr_dims *dims,
                                 const struct tr_weights_table *t)
{
    for (int i = 0; i < t->count; i++)
        if (!t->list[i].used && !is_spare(style, dims, t, t->list[i].name))
            return TR_FAIL(
                TR_EDATA,
                "%s has the tensor %s, which is no part of such a model: its config.json "
                "does not fit, or the model has parts that are not supported",
                t->folder, t->list[i].name);
    return TR_OK;
}

enum tr_status tr_weights_match(enum tr_weights_style style, const struct tr_dims *dims,
                                const struct tr_params *whole, bool untied,
                                struct tr_weights_table *t, struct tr_weights_map *out)
{
    *out = (struct tr_weights_map){whole->count, calloc((size_t)whole->count, sizeof *out->list)};
    if (!out->list)
        tr_die(TR_ERESOURCE, "no memory left for a list of tensors");
    for (int i = 0; i < whole->count; i++) {
        out->list[i].arranged =
            (struct tr_arranged){.dims = dims, .param = &whole->list[i], .ranks = 1};
        out->list[i].arranged.padded = whole->list[i].full[0];
        out->list[i].number = i;
        TR_TRY(match_one(style, dims, untied, t, &out->list[i]));
    }
    return check_rest(style, dims, t);
}

int tr_weights_owner(const struct tr_weights_map *m, int i, int size)
{
    int64_t before = 0, all = 0;

    for (int k = 0; k < m->count; k++) {
        before += k < i ? m->list[k].arranged.param->elems : 0;
        all += m->list[k].arranged.param->elems;
    }
    return (int)((double)before / (double)all * size);
}

struct tr_weights_item *tr_weights_add_item(struct tr_weights_map *m, const struct tr_arranged *a,
                                            int number)
{
    m->list = realloc(m->list, ((size_t)m->count + 1) * sizeof *m->list);
    if (!m->list)
        tr_die(TR_ERESOURCE, "no memory left for a list of tensors");
    m->list[m->count] = (struct tr_weights_item){.arranged = *a, .number = number};
    return &m->list[m->count++];
}

void tr_weights_add_output(enum tr_weights_style style, const struct tr_dims *dims,
                           const struct tr_weights_table *t, struct tr_weights_map *m)
{
    char name[NAME];

    if (!t->by_parts || !dims->family.tied)
        return;
    for (int i = 0; i < m->count; i++)
        if (m->list[i].arranged.param->row == TR_PARAM_WORD_EMBED) {
            const struct tr_weights_item word = m->list[i];
            struct tr_weights_item *copy = tr_weights_add_item(m, &word.arranged, word.number);

            output_name(style, dims, t, name);
            copy->tensor[0] = tr_weights_find(t, name);
            return;
        }
}

void tr_weights_map_release(struct tr_weights_map *m)
{
    free(m->list);
    *m = (struct tr_weights_map){0, NULL};
}
