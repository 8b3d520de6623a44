/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CODEC_POOL_H
#define TR_CODEC_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "codec/store.h"

/*
 * Records in a file, behind a pool of buffers; internal to codec/, see codec/store.h for what it is
 * for.  Records have numbers 0 .. capacity - 1.  All functions are called by one thread; another,
 * the pool's own, reads and writes.
 *
 * A buffer belongs to one record from the moment it is chosen for it until it is chosen for
 * another, and a record has one buffer at most.  So the newest bytes of a record are in its buffer
 * or, if it has none, in the file.  While a record is read, written or held by the caller, its
 * buffer is that one's alone.
 *
 *     free -> reading -> clean <-> held (by the caller) -> dirty -> writing -> clean
 */
struct tr_pool;

/* `buffers` of them, at least 2, of `stride` bytes.  TR_EIO, TR_ERESOURCE. */
enum tr_status tr_pool_open(const char *folder, int64_t capacity, int64_t stride, int64_t buffers,
                            struct tr_pool **out) TR_MUST_CHECK;
void tr_pool_close(struct tr_pool *p);

/* Bytes of host memory that such a pool takes. */
int64_t tr_pool_bytes(int64_t capacity, int64_t stride, int64_t buffers);

/* As tr_store_take() and tr_store_give().  A record that is taken without `anew` was given as new
   before. */
enum tr_status tr_pool_take(struct tr_pool *p, int64_t record, bool anew, void **out) TR_MUST_CHECK;
void tr_pool_give(struct tr_pool *p, int64_t record, enum tr_store_fate fate);

/* Read these `count` records ahead, in this order, and forget what was wanted before. */
enum tr_status tr_pool_want(struct tr_pool *p, const int64_t *record, int64_t count) TR_MUST_CHECK;
struct tr_store_reads tr_pool_reads(struct tr_pool *p);
enum tr_status tr_pool_flush(struct tr_pool *p) TR_MUST_CHECK;

#endif
