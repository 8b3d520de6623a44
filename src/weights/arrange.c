/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/arrange.h"

enum sections { ALL, QKV, PAIR };

static const struct {
    enum sections sections;
    int tensors;
    bool turned;
} arrangements[] = {
#define ARRANGEMENT(symbol, sections, tensors, turned) {sections, tensors, turned},
    TR_ARRANGEMENT_OF(ARRANGEMENT)
#undef ARRANGEMENT
};

int tr_arranged_tensors(enum tr_arrangement a)
{
    return arrangements[a].tensors;
}

int tr_arranged_sections(enum tr_arrangement a)
{
    static const int number[] = {[ALL] = 1, [QKV] = 3, [PAIR] = 2};

    return number[arrangements[a].sections];
}

bool tr_arranged_turned(enum tr_arrangement a)
{
    return arrangements[a].turned;
}

int64_t tr_arranged_rows(enum tr_arrangement a, const struct tr_dims *dims,
                         const struct tr_param *p, int section)
{
    switch (arrangements[a].sections) {
    case QKV:
        return (section == 0 ? dims->heads : dims->groups) * dims->head_dim;
    case PAIR:
        return p->full[0] / 2;
    default:
        return p->full[0];
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

struct tr_arranged_row tr_arranged_row(enum tr_arrangement a, const struct tr_dims *dims,
                                       int64_t row)
{
    switch (arrangements[a].sections) {
    case QKV:
        return row_of_group(dims, row);
    case PAIR:
        return (struct tr_arranged_row){(int)(row % 2), row / 2};
    default:
        return (struct tr_arranged_row){0, row};
    }
}

struct tr_arranged_row tr_arranged_place(enum tr_arrangement a, const struct tr_dims *dims,
                                         const struct tr_param *p, int section)
{
    struct tr_arranged_row at = {0, 0};

    if (arrangements[a].tensors > 1)
        at.section = section;
    else
        for (int i = 0; i < section; i++)
            at.row += tr_arranged_rows(a, dims, p, i);
    return at;
}

void tr_arranged_shape(enum tr_arrangement a, const struct tr_dims *dims, const struct tr_param *p,
                       int tensor, int64_t dim[2])
{
    const bool turned = arrangements[a].turned;
    const int64_t rows =
        arrangements[a].tensors > 1 ? tr_arranged_rows(a, dims, p, tensor) : p->full[0];

    dim[0] = turned ? p->full[1] : rows;
    dim[1] = turned ? rows : p->full[1];
}
