/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CODEC_PARTS_H
#define TR_CODEC_PARTS_H

#include "codec/codec.h"

/* Common parts of the codecs; internal to codec/. */

extern const struct tr_codec tr_codec_fixpoint, tr_codec_delta, tr_codec_delta_lowbits;

/* The fields of every end.  `bytes` of its own type, which begins with them; zeroed. */
enum tr_status tr_end_open(const struct tr_codec *on, const struct tr_codec_how *how, size_t bytes,
                           struct tr_codec_end **out) TR_MUST_CHECK;
void tr_end_plan(struct tr_codec_end *e, struct tr_arena *a);
enum tr_status tr_end_start(struct tr_codec_end *e) TR_MUST_CHECK;
void tr_end_close(struct tr_codec_end *e);
int64_t tr_end_no_bytes(const struct tr_codec_how *how);

/* For codecs without a memory: nothing happens. */
enum tr_status tr_end_learn(struct tr_codec_end *e, struct tr_queue *q,
                            const struct tr_codec_key *key,
                            const struct tr_tensor *x) TR_MUST_CHECK;
enum tr_status tr_end_prefetch(struct tr_codec_end *e,
                               const struct tr_codec_key *next) TR_MUST_CHECK;

/* Block `key` has come by: its name enters the fingerprint; and so do the bytes of x. */
void tr_end_note_key(struct tr_codec_end *e, const struct tr_codec_key *key);
void tr_end_note(struct tr_codec_end *e, struct tr_queue *q, const struct tr_tensor *x);
uint64_t tr_end_fingerprint(struct tr_codec_end *e, struct tr_queue *q);

/* Numbers in the block of an end; asserts that x is one. */
int64_t tr_end_numbers(const struct tr_codec_end *e);
void tr_end_check(const struct tr_codec_end *e, const struct tr_codec_key *key,
                  const struct tr_tensor *x);

/* x, a block of the end, as [B,T,H]; and one sample of it as [1,T,H]. */
struct tr_tensor tr_end_block(const struct tr_codec_end *e, const struct tr_tensor *x);
struct tr_tensor tr_end_sample(const struct tr_codec_end *e, const struct tr_tensor *x, int b);

/* The layout of the quantized numbers of [d0,T,H]: codes, a byte if that is odd, scales. */
struct tr_fix_bytes {
    int64_t codes, scales_at, scales; /* bytes, offset in bytes, elements */
    int64_t total;                    /* bytes, even; 0 for no samples */
};
struct tr_fix_bytes tr_fix_bytes(struct tr_fix fix, int64_t d0, int64_t tokens, int64_t width);

/* Their two parts of memory that begins at `data`. */
struct tr_tensor tr_fix_codes(struct tr_fix_bytes at, void *data);
struct tr_tensor tr_fix_scales(struct tr_fix_bytes at, void *data);

/* x[D0,T,H] quantized into `data`, which holds total bytes; and y dequantized from there, or added
   to y. */
void tr_fix_put(struct tr_queue *q, struct tr_fix fix, void *data, const struct tr_tensor *x);
void tr_fix_get(struct tr_queue *q, struct tr_fix fix, const struct tr_tensor *y, void *data,
                bool add);

#endif
