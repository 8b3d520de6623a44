/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_WEIGHTS_NAMES_H
#define TR_WEIGHTS_NAMES_H

#include "config/dims.h"
#include "model/param.h"
#include "util/status.h"
#include "weights/arrange.h"
#include "weights/tensors.h"

/* A way of others to name and arrange parameters: a row of styles.def. */
enum tr_weights_style {
#define STYLE(symbol, prefix) TR_STYLE_##symbol,
#include "weights/styles.def"
    TR_WEIGHTS_STYLES
};

/* One parameter of ours and the tensors that it is in. */
struct tr_weights_item {
    struct tr_arranged arranged;   /* the parameter is borrowed from the list */
    int number;                    /* in that list */
    int tensor[TR_ARRANGED_RANKS]; /* of the table */
};

struct tr_weights_map {
    int count;
    struct tr_weights_item *list; /* owned; in the order of the parameters */
};

/*
 * The tensors that a model of these dims has with others, added to the table and sorted: names, shapes, and the
 * type, which is the same for all.  TR_EINTERNAL if the style has no name for a parameter.
 */
enum tr_status tr_weights_names(enum tr_weights_style style, const struct tr_dims *dims,
                                const struct tr_params *whole, enum tr_weights_type type,
                                struct tr_weights_table *t) TR_MUST_CHECK;

/*
 * For each parameter of `whole` its tensors in the table, which are then used.  TR_EDATA with one sentence that
 * names the tensor if one is missing, has another shape or a type that is not read, or is no part of this model.
 * A parameter of a head of classes may be missing: its tensor is -1, and an output layer that stands in its place is not
 * read.  With `untied` an output layer that is not there has the word embedding's weights.
 */
enum tr_status tr_weights_match(enum tr_weights_style style, const struct tr_dims *dims,
                                const struct tr_params *whole, bool untied,
                                struct tr_weights_table *t,
                                struct tr_weights_map *out) TR_MUST_CHECK;

/* Which of `size` ranks moves item `i`: each a part of the items that follow one another, of about the same number of
   elements. */
int tr_weights_owner(const struct tr_weights_map *m, int i, int size);

/* One more item at the end; valid until the next one. */
struct tr_weights_item *tr_weights_add_item(struct tr_weights_map *m, const struct tr_arranged *a,
                                            int number);

/* In a table by parts that tr_weights_names() made, the tied embedding is in the head as well: an item for it. */
void tr_weights_add_output(enum tr_weights_style style, const struct tr_dims *dims,
                           const struct tr_weights_table *t, struct tr_weights_map *m);

/* TR_EDATA with a sentence if a tensor has another shape than this, of ndim of the parameter, or a type that is not read. */
enum tr_status tr_weights_check(const struct tr_weights_table *t, const struct tr_weights_tensor *x,
                                const struct tr_param *p, const int64_t dim[2]) TR_MUST_CHECK;
void tr_weights_map_release(struct tr_weights_map *m);

#endif
