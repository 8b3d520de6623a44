/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CODEC_SPARSE_H
#define TR_CODEC_SPARSE_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

/*
 * The compressor of CocktailSGD (Wang et al., ICML 2023): top-k sparsification of n numbers to the
 * `kept` largest, each quantized to a few bits of the largest of its bucket.  Without state; the
 * number of bytes depends on n alone.
 *
 *     kept     (int) (keep * n), at least 1; where that is a bucket or more, rounded down to whole buckets
 *     bucket   as given, but never more than is kept
 *     buckets  kept / bucket; number j that is kept, counted in the order of the n, is in bucket
 *              j mod buckets
 *
 * The message, its parts one behind the other without gaps:
 *
 *     scales   2 bytes for each bucket: fp16
 *     codes    bits for each number that is kept: as the operation fix_encode packs them
 *     mask     one bit for each of the n; left out where all are kept
 *
 * With 32 bits there are no scales, buckets are of one, and the codes are the numbers themselves in fp32.
 * Where a scale or, with 32 bits, a number is not finite, something that was encoded was not: see
 * tr_sparse_finite().
 */
enum { TR_SPARSE_FLOATS = 32 }; /* bits that stand for fp32 */

struct tr_sparse_how {
    int bits;        /* 1 .. 8 or TR_SPARSE_FLOATS */
    int64_t bucket;  /* 1 or more */
    double keep;     /* above 0, at most 1 */
    bool stochastic; /* codes are rounded by draws: tr_sparse_encode_drawn() */
    float distance;  /* as struct tr_fix has it */
};

/* What follows from it for vectors of n numbers. */
struct tr_sparse {
    int bits;
    bool stochastic;
    float distance;
    int64_t n, kept, bucket, buckets;
    int64_t codes_at, mask_at, bytes; /* of the message */
};
void tr_sparse_plan(const struct tr_sparse_how *how, int64_t n, struct tr_sparse *out);

/*
 * `wire` (TR_U8, s->bytes) = the message for y[n], TR_F32 or TR_F16.  Its address is even, or a
 * multiple of 4 with 32 bits.  `scratch` (TR_F32 [kept]) is overwritten, here and below.
 */
void tr_sparse_encode(const struct tr_sparse *s, struct tr_queue *q, const struct tr_tensor *wire,
                      const struct tr_tensor *y, const struct tr_tensor *scratch);

/* The same where codes are rounded by draws: number j that is kept has draw first + j. */
void tr_sparse_encode_drawn(const struct tr_sparse *s, struct tr_queue *q,
                            const struct tr_tensor *wire, const struct tr_tensor *y,
                            const struct tr_tensor *scratch, struct tr_rng draws, uint64_t first);

/* y[n] (TR_F32) = the decoded message, 0 where it has no number; or y += factor times it, with a
   factor of 1 or -1. */
void tr_sparse_decode(const struct tr_sparse *s, struct tr_queue *q, const struct tr_tensor *y,
                      const struct tr_tensor *wire, const struct tr_tensor *scratch);
void tr_sparse_add(const struct tr_sparse *s, struct tr_queue *q, const struct tr_tensor *y,
                   const struct tr_tensor *wire, float factor, const struct tr_tensor *scratch);

/* Whether all numbers of the message are finite, from the first tr_sparse_look() bytes of it, in
   host memory. */
int64_t tr_sparse_look(const struct tr_sparse *s);
bool tr_sparse_finite(const struct tr_sparse *s, const void *wire);

#endif
