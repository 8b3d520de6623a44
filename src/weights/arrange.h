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
 * rows of ours are columns.  TAPS: of a convolution, whose taps are a third axis.  RANKS are the tensor-parallel ranks of Megatron-LM, which have rows of ours one rank behind
 * the other; BY_RANK the same, and in a rank [its queries | keys | values]; ACROSS: each has a part of every row,
 * which is taken for a row of its own; MIXED: RANKS, and in each head first of queries, keys and values come one
 * after the other, then the second, and so on.
 */
#define TR_ARRANGEMENT_OF(ARRANGEMENT)              \
    ARRANGEMENT(SAME, ALL, ONE, false)              \
    ARRANGEMENT(TAPS, ALL, ONE, false)              \
    ARRANGEMENT(TURNED, ALL, ONE, true)             \
    ARRANGEMENT(THREE, QKV, EACH, false)            \
    ARRANGEMENT(PACKED, QKV, ONE, false)            \
    ARRANGEMENT(PACKED_TURNED, QKV, ONE, true)      \
    ARRANGEMENT(GATE, PAIR, EACH, false)            \
    ARRANGEMENT(ROWS, RANKS, EACH, false)           \
    ARRANGEMENT(COLUMNS, ACROSS, EACH, false)       \
    ARRANGEMENT(RANKS_PACKED, BY_RANK, RANK, false) \
    ARRANGEMENT(RANKS_MIXED, MIXED, EACH, false)

enum tr_arrangement {
#define ARRANGEMENT(symbol, sections, tensors, turned) TR_ARRANGED_##symbol,
    TR_ARRANGEMENT_OF(ARRANGEMENT)
#undef ARRANGEMENT
};

/* Tensor-parallel ranks and sections at most. */
enum { TR_ARRANGED_RANKS = 64, TR_ARRANGED_SECTIONS = 3 * TR_ARRANGED_RANKS };

/* A parameter of the whole model as others have it. */
struct tr_arranged {
    enum tr_arrangement how;
    const struct tr_dims *dims;
    const struct tr_param *param;
    int ranks;      /* of tensor parallelism, where it is sharded; 1 */
    int64_t padded; /* rows that all ranks have together, at least those of the parameter */
};

int tr_arranged_tensors(const struct tr_arranged *a);
int tr_arranged_sections(const struct tr_arranged *a);
bool tr_arranged_turned(const struct tr_arranged *a);

/* The rows of ours, as the functions below count them, and their width. */
int64_t tr_arranged_height(const struct tr_arranged *a);
int64_t tr_arranged_width(const struct tr_arranged *a);

/* Where row `row` of ours is: the section, and the row in it. */
struct tr_arranged_row {
    int section;
    int64_t row;
};
struct tr_arranged_row tr_arranged_row(const struct tr_arranged *a, int64_t row);

/* Where a section is: number of the tensor (as `section`), and its first row (column, where turned) there. */
struct tr_arranged_row tr_arranged_place(const struct tr_arranged *a, int section);

/* Rows of ours that follow one another are in a section as many rows or fewer beside one another, if this is 0; else
   among as many and this more. */
int64_t tr_arranged_spread(const struct tr_arranged *a);

/* The shape of tensor number `tensor`: `ndim` of the parameter, dim[1] 1 of a vector. */
void tr_arranged_shape(const struct tr_arranged *a, int tensor, int64_t dim[2]);

#endif
