/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_CODEC_PAIR_H
#define TR_TESTS_CODEC_PAIR_H

#include "codec/codec.h"
#include "codec/plain.h"

/* One end of a link with a device, an arena and a wire of its own. */
struct end {
    struct tr_queue q;
    struct tr_arena arena;
    struct tr_codec_end *e;
    struct tr_tensor x, wire; /* the wire has room for MAX_WIRE bytes */
};

/* Both ends of a link of this process, which may be of different backends. */
struct pair {
    struct end from, to;
};

void open_pair(struct pair *p, const char *codec, const struct tr_codec_how *how,
               const struct tr_backend *from, const struct tr_backend *to);
void close_pair(struct pair *p);

/*
 * The block x, floats of values that its type has, goes from one end to the other: `wire` gets what was
 * sent and y what came out of it.  Fails the test where the promises are broken: bytes that the ends
 * do not foresee, bytes written beyond them, a block that encoding changed, fingerprints that
 * differ.  The bytes sent.
 */
int64_t send_block(struct pair *p, const struct tr_codec_key *key, const float *x,
                   unsigned char *wire, float *y);

/* The block went over as it is, and both ends learn it. */
void learn_block(struct pair *p, const struct tr_codec_key *key, const float *x);

void check_prints(struct pair *p);

#endif
