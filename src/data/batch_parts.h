/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DATA_BATCH_PARTS_H
#define TR_DATA_BATCH_PARTS_H

#include <stdbool.h>

#include "comm/comm.h"
#include "data/batch.h"
#include "data/blend.h"
#include "data/blocks.h"
#include "data/classes.h"
#include "data/cyclic.h"
#include "data/epochs.h"
#include "data/indexed.h"
#include "data/mock.h"
#include "data/samples.h"
#include "data/task.h"

/* Common parts of the files of data/batch.h: batch.c, and batch_blocks.c for --n-epochs. */

/* One dataset of a blend. */
struct tr_data_part {
    char *prefix;
    double weight; /* of a sum of 1 */
    struct tr_index index;
    int64_t bound[TR_SPLITS + 1];
    int32_t *row; /* of --split-at-random: the order of the documents, owned; or NULL */
    struct tr_samples samples[TR_SPLITS];
    struct tr_blocks blocks[TR_SPLITS]; /* in their place, with --n-epochs */
};

/* The blend that a split is made of. */
struct tr_data_mixture {
    struct tr_data_part
        *part; /* [parts] of those in tr_data; the same for all three splits, or for none */
    int parts;
    int64_t wanted, size;
    struct tr_blend blend;   /* of more than one part */
    struct tr_cyclic cyclic; /* if that order was asked for and there are samples */
};

struct tr_data {
    int parts;
    struct tr_data_part *part;
    struct tr_data_mixture of[TR_SPLITS];
    struct tr_mock *mock;              /* instead of parts */
    struct tr_tasks *tasks[TR_SPLITS]; /* or these, of --task-name and --evaluation-data */
    int64_t
        evaluated; /* samples of an evaluation, which takes the same ones of --evaluation-data each time */
    struct tr_classes *classes[TR_SPLITS]; /* or these, of a task of classification */
    int64_t labels;                        /* classes of the head, or 0 */
    struct tr_tokenizer *tokenizer;        /* with which they are tokenized */
    struct tr_epochs epochs;               /* the order of training, with --n-epochs */
    bool mock_again;                       /* validation has the mock samples of training */
    bool by_epochs, by_documents;          /* --n-epochs; --document-samples without */
    int64_t vocab, seq;
    bool warned; /* that index maps cannot be saved */
};

extern const char *const tr_split_names[TR_SPLITS]; /* "train", "validation", "test" */

/* The datasets that the options name, and which splits take from them; TR_ECONFIG. */
enum tr_status tr_data_read_paths(const struct tr_config *c, struct tr_data *x) TR_MUST_CHECK;

/* Whether samples of this split are taken from that part. */
bool tr_data_takes_from(const struct tr_data *x, int split, const struct tr_data_part *p);

/* Map a part and say which of its sequences are for which split; the second, of a mapped one, alone. */
enum tr_status tr_data_open_index(const struct tr_config *c, const struct tr_data *x,
                                  struct tr_data_part *p, const struct tr_opener *by) TR_MUST_CHECK;
enum tr_status tr_data_bound_part(const struct tr_config *c, const struct tr_data *x,
                                  struct tr_data_part *p) TR_MUST_CHECK;

/* A sample of mock data; with a head of classes its last number is one. */
void tr_data_mock(struct tr_data *x, int split, int64_t position, int32_t *text);

/* The tokenizer, which must be that of the model.  TR_ECONFIG, or as tr_tokenizer_open(). */
enum tr_status tr_data_open_tokenizer(const struct tr_config *c, int64_t vocab,
                                      struct tr_tokenizer **out) TR_MUST_CHECK;

/* A task of classification: open all splits, collectively; how many rows they have; and the rows of training alone,
   whose number is in m->size then. */
enum tr_status tr_data_open_classes(const struct tr_config *c, const struct tr_dims *dims,
                                    const struct tr_epoch_plan *epochs, struct tr_data *x,
                                    struct tr_comm *world) TR_MUST_CHECK;
enum tr_status tr_data_count_classes(const struct tr_config *c,
                                     struct tr_blocks_known *out) TR_MUST_CHECK;
enum tr_status tr_data_read_classes(const struct tr_config *c, const struct tr_dims *dims,
                                    const struct tr_epoch_plan *epochs, int split,
                                    struct tr_data *x) TR_MUST_CHECK;

/* --task-name: open the tokenizer and all tasks, collectively; and close those of a split,
   which says how often a sample was not there yet. */
enum tr_status tr_data_open_tasks(const struct tr_config *c, const struct tr_shape *s,
                                  struct tr_data *x, struct tr_comm *world) TR_MUST_CHECK;

void tr_data_close_tasks(struct tr_data *x, int split);

/* --n-epochs: open all parts as blocks, collectively, as tr_data_open(); and say how long an epoch is. */
enum tr_status tr_data_open_blocks(const struct tr_config *c, const struct tr_epoch_plan *epochs,
                                   struct tr_data *x, struct tr_comm *world,
                                   const struct tr_opener *by) TR_MUST_CHECK;
void tr_data_print_epochs(const struct tr_epoch_plan *e);

#endif
