/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_WEIGHTS_ARRANGE_H
#define TR_WEIGHTS_ARRANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "config/dims.h"
#include "model/param.h"

/*
 * How the rows of a parameter of ours, [rows, cols], are in one or several tensors of others.  Pure.
 *
 * The rows of a parameter are in sections: queries, keys and values, or the gate and what it opens.  Ours
 * stand group after group [its queries | key | value], or gate and other in turn; within a section rows
 * keep their order.  ARRANGEMENT(symbol, sections, tensors, turned): `sections` is how rows are divided, and
 * each has a tensor of its own, or all lie one behind the other in a single tensor; in one that is turned
 * rows of ours are columns.
 */
#define TR_ARRANGEMENT_OF(ARRANGEMENT)       \
    ARRANGEMENT(SAME, ALL, 1, false)         \
    ARRANGEMENT(TURNED, ALL, 1, true)        \
    ARRANGEMENT(THREE, QKV, 3, false)        \
    ARRANGEMENT(PACKED, QKV, 1, false)       \
    ARRANGEMENT(PACKED_TURNED, QKV, 1, true) \
    ARRANGEMENT(GATE, PAIR, 2, false)

enum tr_arrangement {
#define ARRANGEMENT(symbol, sections, tensors, turned) TR_ARRANGED_##symbol,
    TR_ARRANGEMENT_OF(ARRANGEMENT)
#undef ARRANGEMENT
};

enum { TR_ARRANGED_TENSORS = 3, TR_ARRANGED_SECTIONS = 3 };

int tr_arranged_tensors(enum tr_arrangement a);
int tr_arranged_sections(enum tr_arrangement a);
bool tr_arranged_turned(enum tr_arrangement a);

/* Rows of section `section` of parameter `p`, of the whole model. */
int64_t tr_arranged_rows(enum tr_arrangement a, const struct tr_dims *dims,
                         const struct tr_param *p, int section);

/* Where row `row` of ours is: the section, and the row in it. */
struct tr_arranged_row {
    int section;
    int64_t row;
};
struct tr_arranged_row tr_arranged_row(enum tr_arrangement a, const struct tr_dims *dims,
                                       int64_t row);

/* Where a section is: number of the tensor, and its first row (column, where turned) there. */
struct tr_arranged_row tr_arranged_place(enum tr_arrangement a, const struct tr_dims *dims,
                                         const struct tr_param *p, int section);

/* The shape of tensor number `tensor`: `ndim` of the parameter, dim[1] 1 of a vector. */
void tr_arranged_shape(enum tr_arrangement a, const struct tr_dims *dims, const struct tr_param *p,
                       int tensor, int64_t dim[2]);

#endif
