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
 * The block x, floats of values that its type has, goes from one end to the other: `wire` gets what
 * was sent and y what came out of it.  Fails the test where the promises are broken: bytes that the
 * ends do not foresee, bytes written beyond them, a block that encoding changed, fingerprints that
 * differ.  The bytes sent.
 */
int64_t send_block(struct pair *p, const struct tr_codec_key *key, const float *x,
                   unsigned char *wire, float *y);

/* The block went over as it is, and both ends learn it. */
void learn_block(struct pair *p, const struct tr_codec_key *key, const float *x);

void check_prints(struct pair *p);

/* ---- what is drawn: the same in each run ---- */

int64_t below(int64_t n);

/* Parameters: HOWS of them are all types, bits, sets of dimensions and kinds of scales. */
enum { HOWS = 3 * 8 * 8 * 2 };
struct tr_codec_how draw_how(int number);

/* Numbers around 0 that the type has, of a size that differs between channels; with `wild` some are
   not finite, or too large for a half. */
void draw_block(const struct tr_codec_how *how, bool wild, float *x);

/* A device for codecs whose memory the host can neither read nor write: as far away as a GPU's. */
const struct tr_backend *far_backend(void);

/* One of the backends that this machine has, or that. */
const struct tr_backend *backend(int number);

/* What came out is what is wanted, rounded to the type: to the bit, but any NaN is as good as
   another, and so is any sign of zero. */
void check_block(const struct tr_codec_how *how, const float *got, const float *want);

#endif
