/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CODEC_STORE_PARTS_H
#define TR_CODEC_STORE_PARTS_H

#include "codec/pool.h"
#include "codec/store.h"

/* A store; internal to codec/.  Records have numbers in the order in which their samples came. */
struct tr_store {
    struct tr_store_how how;
    int64_t stride;
    int64_t known, count;  /* samples with a number; those that have a record */
    int64_t held;          /* the number of the record that the caller has, or -1 */
    int64_t places;        /* of the table, a power of two */
    int32_t *table;        /* numbers by a hash of the sample; -1: none */
    int64_t *sample;       /* by number */
    bool *has;             /* by number */
    int64_t *wanted;       /* for prefetch, as many as there would be buffers */
    unsigned char *memory; /* one of these two */
    struct tr_pool *pool;
};

/* Forget every sample.  The caller has no record. */
void tr_store_clear(struct tr_store *s);

#endif
