/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CPU_CPU_ATTN_H
#define TR_DEVICE_CPU_CPU_ATTN_H

#include "device/cpu/cpu.h"
#include "device/cpu/cpu_bf16.h"
#include "device/cpu/cpu_blocks.h"

/*
 * Attention in blocks of queries and keys.  The scores of one pair of blocks, at most, exist at any
 * time, in the scratch of the thread.  cpu_attn.c multiplies blocks in float, cpu_attn_bf16.c by
 * bf16 instructions; what is between the products is the same code.
 */
enum {
    KEYS = 64,
    QUERIES = 128, /* forward */
    QUERIES_BWD = 64,
    WIDEST = (TR_MAX_HEAD_DIM + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS,
    /* Forward, a packed block of keys serves up to SHARE blocks of queries of its head.  What these
       sum has 640 KiB of the scratch, whatever the head's width is. */
    SHARE = 8,
    SUM_FLOATS = 4 * QUERIES * WIDEST,
};

/* What one head of one sample has of an operand: row t begins at element first + t * stride. */
struct slice {
    const struct tr_tensor *of;
    int64_t first, stride;
};

struct head {
    struct slice q, k, v;
    const int32_t *from;  /* first key that each query sees, or NULL */
    int64_t t, d, window; /* window 0: no bound */
    float scale, slope;   /* slope * (key - query) is added to the score */
    struct tr_rng rng;
    uint64_t draws;     /* draw of (query 0, key 0) */
    uint32_t threshold; /* 0 without dropout */
    float kept;
};

/* Rows of sums in float. */
struct sums {
    float *p;
    int64_t stride;
};

/* What one head reads and writes besides q, k and v.  Its group's dk and dv are sums over the heads
   of the group, which are cut into runs that different threads may have.  The heads of a run follow
   each other.  They sum in place, or in room[2][rows,d] where there are several runs, or several
   heads and fp16 or bf16. */
struct gradients {
    struct slice dq, dk, dv, dctx;
    const float *lse, *delta; /* [t]: delta is dctx . ctx of each query */
    float *room;
    float *dq_room; /* [rows,d], for dq in fp16 or bf16 with several runs */
    int64_t rows;   /* of each part of the room */
    bool first,
        last; /* of all that sum where this head does; `last` stores the sums in dk and dv */
};

/* Row `row` of x becomes from[d]. */
void tr_cpu_put_row(struct slice x, int64_t row, int64_t d, const float *from);

/* The block of keys, by its first one, before which none of the queries query .. query + n - 1 sees
   a key. */
int64_t tr_cpu_first_block(const struct head *a, int64_t query, int64_t n);

static inline int64_t up_to(int64_t n, int64_t multiple)
{
    return (n + multiple - 1) / multiple * multiple;
}

/* The first block of queries that sees keys from j0 on, of blocks from `begin` on. */
static inline int64_t first_queries(int64_t begin, int64_t j0)
{
    return j0 > begin ? begin + (j0 - begin) / QUERIES * QUERIES : begin;
}

/* One behind the last query that may see key `key`. */
static inline int64_t end_of_window(const struct head *a, int64_t key)
{
    return a->window > 0 ? smaller(a->t, key + a->window) : a->t;
}

/* What a query has summed over the keys so far: sum[d], by weights e^(score - max), which add up to
   `total`. */
struct online {
    float *sum, *max, *total;
};

/* score[count], dot products of a query with keys from `key` on, become the weights of the values.
   What was summed before is rescaled to the new maximum.  Milakov and Gimelshein, "Online
   normalizer calculation for softmax" (2018). */
void tr_cpu_weigh(const struct head *a, float *score, struct online so_far, int64_t query,
                  int64_t key, int64_t count);

/* What query r of several has summed, whose rows are `stride` apart. */
static inline struct online online_at(struct online x, int64_t stride, int64_t r)
{
    return (struct online){x.sum + r * stride, x.max + r, x.total + r};
}

/* The same before any key. */
void tr_cpu_begin_queries(struct online x, int64_t stride, int64_t n);

/* The sums of n queries from i0 on become rows of ctx, and lse[i0 .. i0 + n - 1]. */
void tr_cpu_end_queries(const struct head *a, int64_t i0, int64_t n, struct online x,
                        int64_t stride, struct slice ctx, float *lse);

/* One query: scores in p and dctx . v in dp become m p and scale p (m dp - dctx . ctx), where m is
   what dropout multiplies by. */
void tr_cpu_weigh_bwd(const struct head *a, const struct gradients *g, float *p, float *dp,
                      int64_t query, int64_t key, int64_t count);

/* Where dk (which 0) or dv (1) of the keys from j0 on is summed: in place, in the room, or, for
   fp16 and bf16, in to_keys[2][KEYS][d]. */
struct sums tr_cpu_key_sums(const struct head *a, const struct gradients *g, int which, int64_t j0,
                            float *to_keys);

/* The sums of `count` keys from j0 on become rows of dk and dv, where this head is the last. */
void tr_cpu_end_keys(const struct head *a, const struct gradients *g, int64_t j0, int64_t count,
                     struct sums dk, struct sums dv);

/* Where dq of queries i0 .. i0 + n - 1 is summed over all blocks of keys; dq[n,d] is scratch for
   fp16 and bf16. With `add` it holds what was summed before.  tr_cpu_end_dq() keeps it, and stores
   it when no more will be added. */
struct sums tr_cpu_begin_dq(const struct head *a, const struct gradients *g, int64_t i0, int64_t n,
                            bool add, float *dq);
void tr_cpu_end_dq(const struct head *a, const struct gradients *g, int64_t i0, int64_t n,
                   bool last, struct sums dq);

/* The bf16 instructions that multiply heads of that width, or NULL: they are multiplied in float.
   The next two functions take what is not NULL: blocks of queries of a head, begin .. end - 1, and
   all of it backward. */
const struct tr_bf16 *tr_cpu_attends_bf16(const struct tr_device *d, const struct tr_tensor *qkv,
                                          const struct tr_tensor *ctx, int64_t width);
void tr_cpu_attend_bf16(const struct tr_bf16 *by, const struct head *a, int64_t begin, int64_t end,
                        struct slice ctx, float *lse, void *scratch);
void tr_cpu_attend_bwd_bf16(const struct tr_bf16 *by, const struct head *a,
                            const struct gradients *g, void *scratch);

#endif
