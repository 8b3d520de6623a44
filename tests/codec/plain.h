/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_CODEC_PLAIN_H
#define TR_TESTS_CODEC_PLAIN_H

#include "codec/codec.h"

/*
 * What codecs are to do, in plain loops over plain numbers: one bit at a time, no operation of a
 * device.  Floats are values that the type in question has.
 */
enum { MAX_NUMBERS = 512, MAX_WIRE = 4096, MAX_SAMPLES = 8, MAX_IDS = 64 };

/* One end of a delta link. */
struct plain {
    struct tr_codec_how how;
    bool keeps_few_bits;
    bool seen[MAX_IDS];
    float m[MAX_IDS][MAX_NUMBERS]; /* [T,H] of each sample */
};

/* x rounded to `type` and back. */
float rounded_to(enum tr_dtype type, float x);

/* x[d0,T,H] in bytes as fixpoint has them, and back, or added and rounded to fp16; how many
   bytes. */
int64_t plain_put(struct tr_fix fix, const int64_t dim[3], const float *x, unsigned char *wire);
void plain_get(struct tr_fix fix, const int64_t dim[3], const unsigned char *wire, bool add,
               float *y);

/* The block x of these samples: the bytes on the wire and what the receiver has, before it is
   rounded to the type of the block.  How many bytes. */
int64_t plain_delta(struct plain *p, const int64_t *sample, const float *x, unsigned char *wire,
                    float *y);

#endif
