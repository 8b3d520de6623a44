/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_DEVICE_H
#define TR_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/block_code.h"
#include "family/family.h"
#include "tensor/tensor.h"
#include "util/rng.h"
#include "util/status.h"

/*
 * A device runs operations; a queue is an ordered list of operations on it.  Operations on one queue
 * happen in order.  On the host a call returns when the work is done, on a GPU when it is queued;
 * code above this layer is right in both cases because it only reads results after wait().
 *
 * Errors.  Opening a device and reserving memory can fail for reasons that the user must hear, so
 * they return a status.  An operation returns nothing: a wrong shape is a bug of the caller and
 * asserted.
 *
 * The operations are the rows of device/ops.def, which is the one declaration of each.  "ref" is
 * their plain meaning; "cpu" and "cuda" are fast; tests/device/t_ops.c holds every backend against
 * ref.
 */
struct tr_device; /* the CPU cores or the GPU given to this rank */

/* The widest head that attention takes, and the widest row of a norm, residual or dropout. */
enum { TR_MAX_HEAD_DIM = 320, TR_MAX_WIDTH = 32768 };

enum { TR_MARKS = 1024 }; /* for timing: tr_backend.mark() */

/* Of tr_backend.move(): copies of a lane are made in order, and lanes do not wait for each other. */
enum tr_lane { TR_LANE_OUT, TR_LANE_IN, TR_LANES }; /* to the host, from the host */

/* Bytes that a device gave: of its memory, and of the host's with reserve_host().  Nothing is given back before
   close(), so these are the high-water marks. */
struct tr_device_used {
    size_t device, host;
};

struct tr_backend;
struct tr_graph; /* recorded operations: tr_backend.capture() */

/* In CUDA terms a stream.  Operations are called as q->on->norm(q, ...). */
struct tr_queue {
    const struct tr_backend *on;
    struct tr_device *device;
};

/* How a norm is done: layer norm, or with `rms` the root mean square alone, which has no mean and no bias
   (Zhang and Sennrich, "Root Mean Square Layer Normalization", 2019).  With `one` the gain is 1 plus the
   parameter, so that weight decay draws it to 1. */
struct tr_norm_how {
    float eps;
    bool rms, one;
};

/*
 * How attention is done.  Scores are scale q k^T.  With `window` > 0 token t sees no key before
 * t - window + 1 (Jiang et al., "Mistral 7B", 2023).  With `slopes`, which are [heads] (TR_F32, memory of the
 * device, borrowed), the score of (t, key) has slope (key - t) added: ALiBi (Press et al. 2022).
 */
struct tr_attention_how {
    int first_head; /* of this rank's, in the whole model: names the draws of dropout */
    float scale;
    int64_t window;                 /* 0: no bound */
    const struct tr_tensor *slopes; /* NULL: none */
};

/* What tokens know of their distance, and how many there are: operands of tr_backend.attention_relative(). */
struct tr_relative {
    const struct tr_tensor *rel, *bucket, *lengths; /* lengths may be NULL */
};

/*
 * How rows of queries, keys and values are laid out: for each group its heads / groups queries, then its key,
 * then its value, each `width` numbers (Megatron's, as for attention below).  `rotary`, even, is how many of the
 * first numbers of queries and keys are rotated; in pairs (2 i, 2 i + 1) with `pairs`, else (i, i + rotary / 2).
 */
struct tr_heads_how {
    int heads, groups, width;
};
struct tr_rotary_how {
    struct tr_heads_how heads;
    int rotary;
    bool pairs, back; /* back: by the negative angle, which is the gradient */
};

/*
 * Which elements of an activation are dropped.  Nothing is stored: the mask is a function of the seed
 * and of where the element stands in the whole model and in the whole run (util/rng.h), so forward,
 * backward and every layout agree on it.  p == 0 switches it off, and then the rest is not read.
 */
struct tr_dropout {
    double p; /* in [0, 1) */
    uint64_t seed;
    enum tr_stream stream;
    int site;              /* layer in the whole model */
    const int64_t *sample; /* [B] places in the order of samples; borrowed, device memory */
    int64_t tokens;        /* T */
    int64_t first_row;     /* row n of the operand is row first_row + n of the micro-batch */
};

/* One AdamW step, Loshchilov and Hutter 2019, as Megatron's fused version computes it:
   g' = g * grad_scale; m, v as usual; p -= lr * (m / bias1 / (sqrt(v / bias2) + eps) + decay * p). */
struct tr_adamw {
    float lr, beta1, beta2, eps, decay;
    float bias1, bias2; /* 1 - beta^t, t the steps executed including this one */
    float grad_scale;   /* clipping and unscaling in one factor */
};

/*
 * Quantization (fix_scale, fix_encode and fix_decode in ops.def).  The operand is [D0,D1,D2];
 * elements that differ only in the dimensions named by `over` have one scale, so the scales are the
 * elements of the operand with those dimensions 1, row-major.  over = 2 on [1,B,J] makes strided
 * buckets, B rows with one scale per column; over = 3 on [B,T,H] one scale per channel; over = 6
 * one per sample.
 */
enum tr_scale { TR_SCALE_MAX, TR_SCALE_L2 };

struct tr_fix {
    int bits;            /* 1 .. 8 */
    unsigned over;       /* bit i: dimension i; 0 .. 7 */
    enum tr_scale scale; /* largest |x|, or 2 * root mean square; with 1 bit always the root
                            mean square */
    /* Stochastic rounding in fix_encode, which GPUs do not have: element i has draw first + i of `draws`. */
    bool stochastic;
    float distance; /* what is nearer than this to a whole number goes there, 0 to 0.5 */
    struct tr_rng draws;
    uint64_t first;
};

/* Which elements of a flat operand take part: element i of those is index[i] (TR_I32; below 0:
   absent) or, where `index` is NULL, first + i * step, step > 0.  No two are the same element. */
struct tr_select {
    const struct tr_tensor *index; /* borrowed; its elements are device memory */
    int64_t first, step;
};

/* Whose attention a GPU computes with: cuDNN's for what it serves, else kernels of this program; those
   alone; or cuDNN's, which must be there. */
enum tr_attention_by { TR_ATTENTION_AUTO, TR_ATTENTION_FLASH, TR_ATTENTION_FUSED };

/* What multiplies bf16 matrices on CPUs: oneDNN where the kind of processor gains from it, which no clock
   decides, else kernels of this program; those alone; or oneDNN, which must be there. */
enum tr_gemm_by { TR_GEMM_AUTO, TR_GEMM_OWN, TR_GEMM_ONEDNN };

/* Which device, and how it is used.  A backend that does not know of a field ignores it. */
struct tr_device_how {
    size_t memory;  /* most bytes that it may give of its memory; 0: what there is */
    int threads;    /* 0: OMP_NUM_THREADS where it is set, else the cores in the affinity
                       mask of the process */
    int local_rank; /* of this rank among those of its node: the GPU that it takes */
    int local_size; /* how many there are */
    bool share;     /* ranks of a node may share a GPU */
    bool tf32;      /* fp32 GEMMs may round their operands to 10 bits of mantissa */
    bool tune;      /* the first GEMM of a shape may be timed to choose its algorithm, which can
                       be another one in each run */
    enum tr_attention_by attention;
    bool any_order; /* cuDNN's attention may add to gradients in any order, which can be another one
                       in each run */
    enum tr_gemm_by gemm;
    int given;        /* GPUs that the job has on this node; 0 where the launcher does not say */
    const char *bind; /* how the launcher binds ranks to them, as --gpu-bind has it; NULL where it
                         does not say; borrowed for the call */
};

struct tr_backend {
    const char *name; /* "ref", "cpu" or "cuda": a value of --backend */

    /* The host cannot read or write memory of this device: upload() and download() move what it
       needs.  Where it is false they are copies. */
    bool apart;

    /* TR_ECONFIG if `how` asks for what cannot be; TR_ERESOURCE when the machine has no such device,
       or none is left for this rank. */
    enum tr_status (*open)(const struct tr_device_how *how, struct tr_device **out) TR_MUST_CHECK;
    void (*close)(struct tr_device *d);

    /* How many threads the device works with, and a line that says what it is and which libraries
       it uses (static storage); for the log. */
    int (*threads)(const struct tr_device *d);
    const char *(*describe)(const struct tr_device *d);

    /* Which of the node's devices it is, for people: "GPU 3 (GPU-1b2c...)".  Borrowed.  NULL itself where the device
       is the processor. */
    const char *(*which)(const struct tr_device *d);

    /* The UUID of a GPU, as its driver has it.  Borrowed.  NULL itself where the device is the processor. */
    const char *(*uuid)(const struct tr_device *d);

    /* The kernels that decide the last bits of results with weights of `type`: devices with the
       same text compute the same bits.  Static storage. */
    const char *(*kernels)(const struct tr_device *d, enum tr_dtype type);

    /* What has become clear of this device since the last call, a line for the log, or NULL: which kernels were chosen,
       say, and why.  Borrowed.  May be NULL itself, where there is nothing to tell. */
    const char *(*news)(struct tr_device *d);

    /* `bytes` of zeroed memory on a 256-byte boundary.  Lives until close(); TR_ERESOURCE with a
       sentence that says how much was asked for and how much there is. */
    enum tr_status (*reserve)(struct tr_device *d, size_t bytes, void **out) TR_MUST_CHECK;

    /* The same of the host's memory, on a page boundary: pinned, where the device copies by itself.  NULL where
       a device has no use of it. */
    enum tr_status (*reserve_host)(struct tr_device *d, size_t bytes, void **out) TR_MUST_CHECK;
    void (*used)(const struct tr_device *d, struct tr_device_used *out);

    /* Return when everything on the queue is done. */
    void (*wait)(struct tr_queue *q);

    /* `to` gets the bytes at `from`, which is host memory and free again when the call returns.  The
       copy keeps its place among the operations of the queue; no wait for it. */
    void (*upload)(struct tr_queue *q, const struct tr_tensor *to, const void *from);
    /* The bytes of `from` to host memory; waits for the queue. */
    void (*download)(struct tr_queue *q, void *to, const struct tr_tensor *from);

    /*
     * Copies between memory of reserve() and of reserve_host(), either way, of one type.  A copy begins when what
     * is on the queue by now is done, and those before it in its lane; the queue goes on meanwhile.  What move()
     * returns names it: moved() returns when it is done, and what comes on the queue behind after() waits for
     * it.  On the host a copy is done at once.  0 names none.
     */
    int64_t (*move)(struct tr_queue *q, enum tr_lane lane, const struct tr_tensor *to,
                    const struct tr_tensor *from);
    void (*moved)(struct tr_queue *q, int64_t copy);
    void (*after)(struct tr_queue *q, int64_t copy);

    /* Mark 0 .. TR_MARKS - 1 is made anew at the place that the queue has come to; seconds between two
       marks that the queue has passed, which wait() makes sure of. */
    void (*mark)(struct tr_queue *q, int i);
    double (*between)(struct tr_queue *q, int from, int to);

    /* For profilers: a named range of the host's calls begins (nested), or with NULL ends; recording
       starts or stops. */
    void (*range)(struct tr_queue *q, const char *name);
    void (*record)(struct tr_queue *q, bool on);

    /*
     * Graphs.  Between capture() and captured() operations are recorded instead of queued, and nothing but
     * operations may be called.  replay() queues what was recorded: with the same operands in memory, and
     * with the numbers that it was given then.  A graph belongs to the device and lives until close().
     * NULL, all three, where there are no graphs.
     */
    void (*capture)(struct tr_queue *q);
    struct tr_graph *(*captured)(struct tr_queue *q);
    void (*replay)(struct tr_queue *q, struct tr_graph *graph);

    /*
     * Attention of new tokens with those before them, whose keys and values are in a cache; forward only.
     * qkv[N,(heads + 2 groups) D] is laid out as for `attention`, and row n = b T + t is the token at place[n]
     * (TR_I32) of sample b; the rows of a sample ascend.  cache[B groups 2,K,D], of any float type, has for each sample and group K
     * keys and then K values, those of place p at p % K.  Keys and values of all rows are put there; then ctx[N,heads D]
     * is what `attention` makes of the keys at the last K places up to the row's own, or fewer with a window.
     * A row whose place is below 0 is no token: nothing of it is kept, and its ctx is zero.  A key that a row sees
     * must not be overwritten by one of a later row of the same call: K >= the keys seen + T - 1, or no place
     * reaches K.  The error is that of `attention`.  NULL where it is not done.
     */
    void (*attention_cached)(struct tr_queue *q, const struct tr_tensor *ctx,
                             const struct tr_tensor *cache, const struct tr_tensor *qkv,
                             const struct tr_tensor *place, struct tr_attention_how how);

    /*
     * Disentangled attention (He et al., "DeBERTa", 2021), of encoders: every token sees all of its sample, those
     * behind it too.  qkv, ctx and lse are those of `attention` with as many groups as heads.  rel[R,3 heads D],
     * laid out as qkv is, has queries and keys of relative positions; its values are not read.
     * bucket[2 T - 1] (TR_I32) says which row belongs to a distance: with c = bucket[T - 1 + i - j] the score of
     * (query i, key j) is scale (q_i . k_j + q_i . rel_k_c + rel_q_c . k_j); `bucket` ascends by 0 or 1 a step.
     * lengths[B] (TR_I32) are the tokens of each sample: what follows is padding, which nobody sees, and whose ctx
     * and lse are zero; NULL: all.  Probabilities have the draws that those of `attention` have.  how.window is
     * 0, how.slopes NULL.  The gradient overwrites dqkv and drel, whose values are zero.  Errors are those of
     * `attention`.
     */
    void (*attention_relative)(struct tr_queue *q, const struct tr_tensor *ctx,
                               const struct tr_tensor *lse, const struct tr_tensor *qkv,
                               const struct tr_relative *to, struct tr_attention_how how,
                               struct tr_dropout drop);
    void (*attention_relative_bwd)(struct tr_queue *q, const struct tr_tensor *dqkv,
                                   const struct tr_tensor *drel, const struct tr_tensor *dctx,
                                   const struct tr_tensor *ctx, const struct tr_tensor *lse,
                                   const struct tr_tensor *qkv, const struct tr_relative *to,
                                   struct tr_attention_how how, struct tr_dropout drop);

    /* As adamw (ops.def) with m and v in blocks of 8 bits (TR_U8, device/block_code.h: m of TR_BOOK_SIGNED, v of
       TR_BOOK_UNSIGNED), by the rule of struct tr_adam8: the same bits on every backend. */
    void (*adam8)(struct tr_queue *q, const struct tr_tensor *half, const struct tr_tensor *p,
                  const struct tr_tensor *m, const struct tr_tensor *v, const struct tr_tensor *g,
                  struct tr_adamw how, struct tr_code_blocks blocks);

    /* y = act(x), and dx = dy act'(x), which may be dy; `act` is not gated. */
    void (*activate)(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                     enum tr_act act);
    void (*activate_bwd)(struct tr_queue *q, const struct tr_tensor *dx, const struct tr_tensor *dy,
                         const struct tr_tensor *x, enum tr_act act);

#define OP(name, tol, params) void(*name) params;
#include "device/ops.def"
#undef OP
};

/* Every backend that has a device here, best first, NULL at the end: "cuda" where this process sees a
   GPU, and always "cpu" and "ref". */
const struct tr_backend *const *tr_backends(void);

/* The backend of that name, also where it has no device, or NULL when this binary has none; "auto" is
   the first of tr_backends(). */
const struct tr_backend *tr_backend_find(const char *name);

/* The one that works on memory of the host, for a device whose memory is apart. */
const struct tr_backend *tr_backend_host(void);

/* The GPUs that this process sees: how many, the name of the first and the bytes of the smallest.  None
   where this binary was built without CUDA. */
struct tr_gpus {
    int count;
    int64_t bytes;
    char name[64];
};
void tr_gpus_list(struct tr_gpus *out);

/* The first operation that `b` lacks, or NULL.  t_ops fails unless it is NULL for every backend. */
const char *tr_backend_missing(const struct tr_backend *b);

#endif
