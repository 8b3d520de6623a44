/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CPU_CPU_H
#define TR_DEVICE_CPU_CPU_H

#include "device/device.h"

/*
 * The cores given to this rank.  Every operation divides its output among them, in a way in which
 * no sum crosses from one part to another, so that results do not depend on how many there are.
 */
#define OP(name, tol, params) void tr_cpu_##name params;
#include "device/ops.def"
#undef OP

/* Of struct tr_backend, no row of the table. */
void tr_cpu_attention_cached(struct tr_queue *q, const struct tr_tensor *ctx,
                             const struct tr_tensor *cache, const struct tr_tensor *qkv,
                             const struct tr_tensor *place, struct tr_attention_how how);

/* Of struct tr_backend, no rows of the table. */
void tr_cpu_upload(struct tr_queue *q, const struct tr_tensor *to, const void *from);
void tr_cpu_download(struct tr_queue *q, void *to, const struct tr_tensor *from);
void tr_cpu_attention_relative(struct tr_queue *q, const struct tr_tensor *ctx,
                               const struct tr_tensor *lse, const struct tr_tensor *qkv,
                               const struct tr_relative *to, struct tr_attention_how how,
                               struct tr_dropout drop);
void tr_cpu_attention_relative_bwd(struct tr_queue *q, const struct tr_tensor *dqkv,
                                   const struct tr_tensor *drel, const struct tr_tensor *dctx,
                                   const struct tr_tensor *ctx, const struct tr_tensor *lse,
                                   const struct tr_tensor *qkv, const struct tr_relative *to,
                                   struct tr_attention_how how, struct tr_dropout drop);
void tr_cpu_adam8(struct tr_queue *q, const struct tr_tensor *half, const struct tr_tensor *p,
                  const struct tr_tensor *m, const struct tr_tensor *v, const struct tr_tensor *g,
                  struct tr_adamw how, struct tr_code_blocks blocks);
void tr_cpu_activate(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                     enum tr_act act);
void tr_cpu_activate_bwd(struct tr_queue *q, const struct tr_tensor *dx, const struct tr_tensor *dy,
                         const struct tr_tensor *x, enum tr_act act);

extern const struct tr_backend tr_cpu;

/* ---- for the files of this backend ---- */

/*
 * Work up to which one thread is faster than two of which one has to be woken, which takes 30 to 45
 * µs.  Found with GEMMs of 0.3 to 67 million multiplications, the second thread asleep before each:
 * both ways are even at 2.5 million, 60 µs (AMD EPYC with AVX-512, 2 cores).  Elements are those of
 * a loop like GELU; one whose elements cost several times as much counts them as often.  Sizes
 * alone decide.
 */
struct tr_cpu_alone {
    int64_t elements;
    int64_t multiplications; /* of GEMMs and attention */
};

/* Nobody but tests writes it: their trials are small. */
extern struct tr_cpu_alone tr_cpu_alone;

static inline bool tr_cpu_worth(int threads, int64_t elements)
{
    return threads > 1 && elements > tr_cpu_alone.elements;
}

static inline bool tr_cpu_worth_product(int threads, int64_t multiplications)
{
    return threads > 1 && multiplications > tr_cpu_alone.multiplications;
}

enum { TR_CPU_PIECE = 1 << 14 }; /* elements of a long vector that a thread takes at a time */
enum { TR_CPU_LONG = 1 << 20 };  /* more are gone from the caches before anything reads them */

/* The number of the calling thread within its team. */
int tr_cpu_thread(void);

/* Its scratch: SCRATCH_FLOATS (device/cpu/cpu_product.h) on a 64-byte boundary. */
float *tr_cpu_scratch(const struct tr_queue *q);

/* Room for `floats` floats, the same memory in each call.  It grows, and lives as long as the
   device. */
float *tr_cpu_room(struct tr_queue *q, int64_t floats);

/* to[h] = (or, with `add`, +=) the sum of column h of x[n,h], in double and in the order of
   rows. */
void tr_cpu_column_sums(int threads, const struct tr_tensor *to, const struct tr_tensor *x,
                        bool add);

/* What draws first .. first + count - 1 of `r` multiply by: 0 below `threshold`, else `kept`. */
void tr_cpu_mask(struct tr_rng r, uint64_t first, int64_t count, uint32_t threshold, float kept,
                 float *out);

/* A mask for row n of an activation of that width; p > 0. */
void tr_cpu_mask_row(const struct tr_dropout *drop, int64_t n, int64_t width, float *out);

#endif
