/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/arrange.h"

enum sections { ALL, QKV, PAIR, RANKS, ACROSS, BY_RANK, MIXED };
enum tensors { ONE, EACH, RANK }; /* for all sections, for each, for those of a rank */

static const struct {
    enum sections sections;
    enum tensors tensors;
    bool turned;
} arrangements[] = {
#define ARRANGEMENT(symbol, sections, tensors, turned) {sections, tensors, turned},
    TR_ARRANGEMENT_OF(ARRANGEMENT)
#undef ARRANGEMENT
};

enum { THREE = 3, TWO = 2 };

int tr_arranged_sections(const struct tr_arranged *a)
{
    switch (arrangements[a->how].sections) {
    case QKV:
        return THREE;
    case PAIR:
        return TWO;
    case RANKS:
    case MIXED:
    case ACROSS:
        return a->ranks;
    case BY_RANK:
        return THREE * a->ranks;
    default:
        return 1;
    }
}

int tr_arranged_tensors(const struct tr_arranged *a)
{
    switch (arrangements[a->how].tensors) {
    case EACH:
        return tr_arranged_sections(a);
    case RANK:
        return a->ranks;
    default:
        return 1;
    }
}

bool tr_arranged_turned(const struct tr_arranged *a)
{
    return arrangements[a->how].turned;
}

int64_t tr_arranged_height(const struct tr_arranged *a)
{
    return a->param->full[0] * (arrangements[a->how].sections == ACROSS ? a->ranks : 1);
}

int64_t tr_arranged_width(const struct tr_arranged *a)
{
    return a->param->full[1] / (arrangements[a->how].sections == ACROSS ? a->ranks : 1);
}

/* Rows of a section in its tensor. */
static int64_t rows_of(const struct tr_arranged *a, int section)
{
    const struct tr_dims *dims = a->dims;

    switch (arrangements[a->how].sections) {
    case QKV:
        return (section == 0 ? dims->heads : dims->groups) * dims->head_dim;
    case PAIR:
        return a->param->full[0] / TWO;
    case RANKS:
    case MIXED:
        return a->padded / a->ranks;
    case BY_RANK:
        return dims->heads / a->ranks * dims->head_dim;
    default:
        return a->param->full[0];
    }
}

/* Of a group: the rows of its queries, then those of its key and of its value. */
static struct tr_arranged_row row_of_group(const struct tr_dims *dims, int64_t row)
{
    const int64_t d = dims->head_dim, queries = dims->heads / dims->groups * d;
    const int64_t group = row / (queries + 2 * d), in = row % (queries + 2 * d);

    if (in < queries)
        return (struct tr_arranged_row){0, group * queries + in};
    return (struct tr_arranged_row){in < queries + d ? 1 : 2, group * d + (in - queries) % d};
}

/* Each head has its query, key and value; a rank has heads, and of these all queries first. */
static struct tr_arranged_row row_of_rank(const struct tr_arranged *a, int64_t row)
{
    const int64_t d = a->dims->head_dim, head = row / (THREE * d), in = row % (THREE * d);
    const int64_t heads = a->dims->heads / a->ranks;

    return (struct tr_arranged_row){(int)(head / heads * THREE + in / d),
                                    head % heads * d + in % d};
}

/* Of each head the first query, key and value, then the second. */
static struct tr_arranged_row row_of_mixed(const struct tr_arranged *a, int64_t row)
{
    const int64_t d = a->dims->head_dim, each = rows_of(a, 0), in = row % (THREE * d);

    return (struct tr_arranged_row){(int)(row / each), row % each - in + in % d * THREE + in / d};
}

struct tr_arranged_row tr_arranged_row(const struct tr_arranged *a, int64_t row)
{
    switch (arrangements[a->how].sections) {
    case QKV:
        return row_of_group(a->dims, row);
    case PAIR:
        return (struct tr_arranged_row){(int)(row % TWO), row / TWO};
    case RANKS:
        return (struct tr_arranged_row){(int)(row / rows_of(a, 0)), row % rows_of(a, 0)};
    case ACROSS:
        return (struct tr_arranged_row){(int)(row % a->ranks), row / a->ranks};
    case BY_RANK:
        return row_of_rank(a, row);
    case MIXED:
        return row_of_mixed(a, row);
    default:
        return (struct tr_arranged_row){0, row};
    }
}

struct tr_arranged_row tr_arranged_place(const struct tr_arranged *a, int section)
{
    struct tr_arranged_row at = {0, 0};
    int first = 0;

    if (arrangements[a->how].tensors == EACH)
        return (struct tr_arranged_row){section, 0};
    if (arrangements[a->how].tensors == RANK) {
        at.section = section / THREE;
        first = section - section % THREE;
    }
    for (int i = first; i < section; i++)
        at.row += rows_of(a, i);
    return at;
}

/* A head at each end. */
int64_t tr_arranged_spread(const struct tr_arranged *a)
{
    return arrangements[a->how].sections == MIXED ? 2 * THREE * a->dims->head_dim : 0;
}

void tr_arranged_shape(const struct tr_arranged *a, int tensor, int64_t dim[2])
{
    const bool turned = arrangements[a->how].turned;
    const int64_t width = tr_arranged_width(a);
    int64_t rows = 0;

    for (int i = 0; i < tr_arranged_sections(a); i++)
        if (tr_arranged_place(a, i).section == tensor)
            rows += rows_of(a, i);
    dim[0] = turned ? width : rows;
    dim[1] = turned ? rows : width;
}
