/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CODEC_CODEC_H
#define TR_CODEC_CODEC_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "util/arena.h"
#include "util/status.h"

/*
 * Codecs compress a block of numbers by quantization or delta compression, and decompress it.  A
 * codec never communicates: one end of a link encodes a block into bytes (the wire), the other
 * decodes them, and the caller sends them.
 *
 * A block is the message of a micro-batch between pipeline stages, x[B,T,H] of TR_F32, TR_F16 or
 * TR_BF16 in memory of the device: T rows for each of B samples.  (What is called a sample here may
 * also be a part of one that has a number of its own, as long as all parts have T rows.)
 *
 * Two promises:
 *   1. Both ends know how many bytes a block takes on the wire before it is encoded: that follows
 *      from the shape, the parameters and which samples both have seen.
 *   2. The activation caches of both ends change alike: after the same blocks their fingerprints
 *      are equal.  All arithmetic is that of rows of device/ops.def with a tolerance of zero.
 *
 * The codecs, by name; n = B T H, b bits, s scales (those of fix_scale, a half each):
 *
 *   none          the numbers as they are
 *   fixpoint      Quantization: ceil(n b / 8) bytes of codes, a byte of zero if that is odd, 2 s
 *                 bytes of scales.  With scales over dimensions 0 and 1 s is H.
 *   delta         Delta compression (AC-SGD): both ends cache a message m (TR_F16) for each sample.
 *                 The wire has the codes and scales of x - m, as fixpoint has them, and both add
 *                 what they mean to m; the receiver's block is m.  The sender's block stays as it
 *                 is.  Samples for which there is no m are not part of that: B above is how many
 *                 have one, in the order of the block (none: nothing is sent of them), and behind
 *                 the scales the others stand uncompressed, 2 T H bytes each: x rounded to TR_F16,
 *                 which becomes m.
 *   delta-lowbits The same wire; what is cached is m in `keep_bits` bits, with a scale (the
 *                 largest) for each channel of each sample.  The next delta is taken from that; the
 *                 receiver's block is m before it was squeezed.
 *
 * Numbers that are not finite make a scale NaN: fixpoint gives NaN for all numbers that share it,
 * and delta leaves their m as it was.  An m that is not finite (numbers beyond 65504 on first
 * sight, or a sum of deltas) is dropped, so that the sample is sent uncompressed the next time; the
 * receiver's block is what it is.
 */

struct tr_codec_how {
    int64_t samples, tokens, width; /* B, T, H */
    enum tr_dtype dtype;            /* of the blocks */
    bool sends;                     /* this end encodes; otherwise it decodes */
    struct tr_fix fix;              /* bits 1..8, dimensions with a common scale, which */

    /* For codecs with an activation cache. */
    int keep_bits;      /* delta-lowbits: 2, 4 or 8 */
    int64_t capacity;   /* samples: of --max-activation-cache-size */
    const char *folder; /* where the memory's file is; NULL: host memory (codec/store.h);
                           borrowed until start() */
    int64_t ahead;      /* samples of a step, which prefetch() takes */
};

/* Which block it is.  The samples of a block differ, and none is negative.  Blocks under way at the
   same time, sent but not yet decoded, have no sample in common. */
struct tr_codec_key {
    int64_t step;
    const int64_t *sample; /* [B] host memory, borrowed during the call */
    int samples;
};

struct tr_codec;

/* One end of one direction of a link: its parameters, memory and fingerprint.  Codecs have fields
   of their own behind these; users read `on` and `how`. */
struct tr_codec_end {
    const struct tr_codec *on;
    struct tr_codec_how how;
    struct tr_tensor print; /* TR_I64 [1] on the device */
    uint64_t keys;          /* a hash of the keys so far */
};

/* Functions are called as end->on->encode(end, ...).  None is collective; all work goes to one
   queue per end.  Errors of encode, decode, learn and prefetch come from the memory: a full disk,
   more samples than its capacity (TR_EIO, TR_EDATA, TR_ECONFIG with a sentence); the ends of a link
   cannot go on after one. */
struct tr_codec {
    const char *name; /* a value of --forward-compress-method */
    bool remembers;   /* has an activation cache: save and load are for these only */

    /* An end, owned by the caller, that has neither memory nor files yet: enough to plan.
       Parameters out of range are asserted. */
    enum tr_status (*open)(const struct tr_codec_how *how, struct tr_codec_end **out) TR_MUST_CHECK;
    /* Take what it computes in from the arena (TR_LABEL_COMPRESSION), in a dry run and then for
       real. */
    void (*plan)(struct tr_codec_end *e, struct tr_arena *a);
    /* Its memory: once, after the second plan() and before what follows.  TR_ERESOURCE, TR_EIO. */
    enum tr_status (*start)(struct tr_codec_end *e) TR_MUST_CHECK;
    void (*close)(struct tr_codec_end *e);

    /* Bytes of host memory when all samples are cached, tables and all; and of the record of a
       sample, there or in a file; both 0 without a memory.  Functions of the parameters only. */
    int64_t (*host_bytes)(const struct tr_codec_how *how);
    int64_t (*sample_bytes)(const struct tr_codec_how *how);

    /* Bytes on the wire: of any block at most; and of the block `key` at this point.  Both even. */
    int64_t (*wire_limit)(const struct tr_codec_end *e);
    int64_t (*wire_bytes)(const struct tr_codec_end *e, const struct tr_codec_key *key);

    /* `wire` (TR_U8, wire_bytes() of them on an even address) from the block x, which is not
       changed; and x from `wire`.  Work is queued; where the device has its own memory and the
       codec an activation cache, the calls wait for the queue. */
    enum tr_status (*encode)(struct tr_codec_end *e, struct tr_queue *q,
                             const struct tr_codec_key *key, const struct tr_tensor *wire,
                             const struct tr_tensor *x) TR_MUST_CHECK;
    enum tr_status (*decode)(struct tr_codec_end *e, struct tr_queue *q,
                             const struct tr_codec_key *key, const struct tr_tensor *x,
                             const struct tr_tensor *wire) TR_MUST_CHECK;

    /* The block x went over the link uncompressed: both ends call this, to cache it as on first
       sight (rounded to TR_F16). */
    enum tr_status (*learn)(struct tr_codec_end *e, struct tr_queue *q,
                            const struct tr_codec_key *key,
                            const struct tr_tensor *x) TR_MUST_CHECK;

    /* The samples of the next step, of all its blocks: the memory gets ready for them meanwhile. */
    enum tr_status (*prefetch)(struct tr_codec_end *e,
                               const struct tr_codec_key *next) TR_MUST_CHECK;

    /* A hash of all keys, of everything sent (none and fixpoint) and of everything cached, in
       the order of the blocks: equal at both ends or something is wrong.  Waits for the queue. */
    uint64_t (*fingerprint)(struct tr_codec_end *e, struct tr_queue *q);

    /* The memory and the fingerprint, to and from a file (codec/store.h says how it is sealed).
       `title` says which run and which end it is of, in at most 200 bytes, and is compared; the
       parameters of the codec are added.  An end that was loaded continues with the same bits as
       the one that was saved.  load() comes after start(), before the first block; TR_EDATA if the
       file is of something else or not whole. */
    enum tr_status (*save)(struct tr_codec_end *e, struct tr_queue *q, const char *path,
                           const char *title) TR_MUST_CHECK;
    enum tr_status (*load)(struct tr_codec_end *e, struct tr_queue *q, const char *path,
                           const char *title) TR_MUST_CHECK;
};

/* The codec of that name, or NULL. */
const struct tr_codec *tr_codec_find(const char *name);

#endif
