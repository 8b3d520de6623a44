/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_WEIGHTS_SOURCE_H
#define TR_WEIGHTS_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "config/config.h"
#include "weights/names.h"

/*
 * A folder with weights of others, of any format that is known here: which model it is, and where in its files each of
 * our parameters is.  Nothing here is collective, and no number of a tensor is read.
 */

/* --seq-length of a model that is read, unless told, and unless it has fewer positions. */
#define TR_WEIGHTS_SEQ_LENGTH 4096

struct tr_weights_ask {
    int64_t labels; /* a head of so many classes in place of the output layer; 0: none */
    const char *from;
    const char *config; /* a config.json, or the folder of one; NULL: that of `from` */
    int64_t seq_length; /* --seq-length of the model's options at most */
    int64_t
        vocab_size; /* true size of the vocabulary, for formats that pad it; 0: what the folder says */
    bool untied;    /* the output layer gets weights of its own */
};

struct tr_weights_source {
    char *text;                /* where the weights come from, one line; owned */
    struct tr_config config;   /* the options that describe the model */
    struct tr_dims dims;       /* of one rank */
    struct tr_params whole;    /* in the order of a checkpoint */
    struct tr_weights_map map; /* item i is of parameter i */
    struct tr_weights_table table;
    bool padded; /* the format pads the vocabulary, so `vocab_size` counted */
};

/* Whether `folder` looks like one: it has a file that one of the formats begins with. */
bool tr_weights_is(const char *folder);

/* The model of a config.json, or of the folder of one, without weights: the options that describe it are set in *c,
   which was at its defaults, and *dims is that of one rank.  TR_EIO, TR_EDATA, TR_ECONFIG in one sentence. */
enum tr_status tr_weights_describe(const char *config, struct tr_config *c,
                                   struct tr_dims *dims) TR_MUST_CHECK;

/* Read it.  TR_EIO, TR_EDATA, TR_ECONFIG in one sentence.  *out must not be moved; release it also after a failure. */
enum tr_status tr_weights_source_open(const struct tr_weights_ask *ask,
                                      struct tr_weights_source *out) TR_MUST_CHECK;
void tr_weights_source_release(struct tr_weights_source *s);

#endif
