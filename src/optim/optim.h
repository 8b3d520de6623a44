/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_OPTIM_OPTIM_H
#define TR_OPTIM_OPTIM_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"
#include "config/config.h"
#include "device/device.h"
#include "dp/buckets.h"
#include "model/param.h"
#include "optim/home.h"
#include "optim/states.h"
#include "util/arena.h"

/*
 * The optimizer: the norm of all gradients, clipping, and AdamW (decoupled decay, Loshchilov and
 * Hutter 2019) over the part of the flat buffers that this rank owns: all of it, or with the
 * distributed optimizer (ZeRO-1, Rajbhandari et al. 2020) its shard of each bucket.
 *
 * The states of optim/states.def, Adam's moments, are fp32, or with --optimizer 8bit-adam those of large matrices blocks of
 * 8 bits (struct tr_states), which their own rule updates (struct tr_adam8).  They are stored without gaps: state element k belongs to the k-th
 * owned element.  So are the master weights, in fp32, which exist when the model's values are fp16 or bf16, or when they
 * lie with the host or in files (struct tr_home); otherwise the values are the masters themselves.
 *
 * What lies with the host is updated there, in tiles: gradients come in one lane of copies, weights go back in the
 * other.  The arithmetic is that of the queue that works there, element by element, so on the cpu and ref backends the
 * bits are those of an update by the device.
 */
struct tr_optim_span {
    int64_t first, count; /* elements of the flat buffers */
    int64_t state;        /* where their state begins */
    bool decay;           /* weight decay applies */
    bool frozen;          /* the update leaves its weights as they are */
    bool counts;          /* part of the norm on this rank; see tr_region_counts() */
};

/* Who works on what: the queue of the device, that of the host, and which part of the masters and states lies with
   the host or, with `folders`, in files.  Borrowed. */
struct tr_optim_places {
    struct tr_queue *device, *host;
    bool weights,
        gradients; /* with all of the former: for others to bring, and those that have come; they lie with
                                the host as well */
    double hosted;       /* fraction of the elements; the last ones that this rank updates */
    int64_t kept;        /* with `weights`: of the first elements, so many stay with the device */
    int64_t tile;        /* elements that the host updates at a time */
    const char *folders; /* with commas between, or NULL */
    int slots;           /* tiles of files in memory, 3 to TR_HOME_SLOTS */
    int stage, stages;   /* with --clip-grad-by-stage this rank's, and how many; else 0 and 1 */
};

struct tr_optim {
    const struct tr_params *params; /* borrowed */
    struct tr_queue *device;        /* borrowed */
    int owns;
    struct tr_bucket *own; /* [owns], ascending, owned */
    int64_t owned;         /* elements in them */
    struct tr_states states;
    int spans;
    struct tr_optim_span *span; /* [spans], owned: what of `own` is parameters */
    int zeros;
    struct tr_bucket *zero; /* [zeros], owned: gradients that a step finds at zero */
    int homes;
    struct tr_home home[2]; /* of all elements, ascending */
    struct tr_home *beside; /* the last of them, if it is not the device's; else NULL */
    struct tr_tensor main;  /* [owned] masters, or no data, as where they are in several places */
    struct tr_tensor
        grads; /* [owned - kept] gradients, borrowed, or no data: they are in params->grads */
    int64_t
        kept; /* so many of the first owned elements have gradients and weights for others with the device, where
                     those of the rest lie with the host; else 0 */
    struct tr_tensor grads_here, shard_here; /* [kept] of these; gradients are borrowed */
    bool apart;  /* the model has no room for all weights (ZeRO-3): others bring masters there */
    bool rounds; /* weights are no fp32 */
    struct tr_tensor
        shard; /* [owned - kept] weights for others to bring, or no data: the masters are it */
    bool shard_hosted, grads_hosted; /* it, and `grads`, are memory of the host */
    struct tr_tensor state
        [TR_STATES]; /* as struct tr_home has them; optim/states.def; or no data, as with main */
    struct tr_tensor came[2],
        going[2];         /* of a tile each: gradients, and weights that are no fp32 */
    int64_t sent[2];      /* copies of weights that are under way */
    int stage, stages;    /* of struct tr_optim_places */
    struct tr_tensor sum; /* TR_F64 [stages] */
    double *found;        /* [stages], owned: it, of all ranks */
    double beta1, beta2, eps, clip;
    int64_t steps; /* executed; the t of the bias corrections */
    void (*before)(void *ctx, int64_t at, int64_t count); /* of tr_optim_warn() */
    void *ctx;
};

/* `tp` is this rank's place in its tensor-parallel group.  `own` (copied) are the elements that this
   rank updates; NULL: all.  `at` is copied. */
void tr_optim_open(struct tr_optim *o, const struct tr_params *params, const struct tr_config *c,
                   int tp, const struct tr_bucket *own, int owns, const struct tr_optim_places *at);

/* When memory is there: make the files, if there are some; `name` tells this rank's from others'.  As
   tr_stripe_open(), and TR_ECONFIG where a backend cannot update what it has. */
enum tr_status tr_optim_start(struct tr_optim *o, const char *name) TR_MUST_CHECK;
void tr_optim_close(struct tr_optim *o);

/* Take masters and moments from the arenas (TR_LABEL_OPTIMIZER); `values` is the type of the weights.
   Without `steps` it only keeps weights: no moments. */
void tr_optim_plan(struct tr_optim *o, struct tr_arena *device, struct tr_arena *host,
                   enum tr_dtype values, bool steps);

/* Bytes of the files of a plan. */
int64_t tr_optim_file_bytes(const struct tr_optim *o);

/* Whether masters or states are elsewhere than in one place of fp32 numbers in memory of the device: they are read and
   written with the next two. */
bool tr_optim_apart(const struct tr_optim *o);

/* Elements at .. at + count - 1 of those that this rank updates, of a row (optim/home.h), to memory of the host or
   from there.  Where masters are the model's weights themselves, row TR_ROW_MASTER has none.  Waits. */
void tr_optim_get(struct tr_optim *o, int row, int64_t at, int64_t count, float *to);
void tr_optim_put(struct tr_optim *o, int row, int64_t at, int64_t count, const float *from);

/* Whether all of them are in memory of the host.  Then peek() is the same as get() without waiting, on any thread and by it
   alone, whatever others do that does not change these elements. */
bool tr_optim_at_hand(const struct tr_optim *o);
void tr_optim_peek(struct tr_optim *o, int row, int64_t at, int64_t count, float *to);

/* Whether some are in files; and the end of the elements that come to memory together with element `at`, and are there
   when tr_optim_warn() tells of some of them. */
bool tr_optim_in_files(const struct tr_optim *o);
int64_t tr_optim_tile_end(const struct tr_optim *o, int64_t at);

/* Call `before` on the calling thread before masters and states of elements at .. at + count - 1 of those that this rank
   updates change in an update, each time; NULL: no more. */
void tr_optim_warn(struct tr_optim *o, void (*before)(void *ctx, int64_t at, int64_t count),
                   void *ctx);

/* Where the masters of own[i] lie: own[i].count of TR_F32, in one place. */
struct tr_tensor tr_optim_masters(const struct tr_optim *o, int i);

/* Round the masters into the model's values, where they are two: after the masters were drawn or
   loaded.  Owned elements only. */
void tr_optim_publish(struct tr_optim *o, struct tr_queue *q);

/* Adds what it finds in x to a TR_F64, on any queue. */
typedef void tr_optim_adds(struct tr_queue *q, const struct tr_tensor *out,
                           const struct tr_tensor *x);

/* What `add` adds up over the gradients that count (struct tr_optim_span), on all ranks of
   `group`; and the squares of the weights that do, or of the masters where the model has no room for all weights.
   Waits for the queue.  Collective over `group`. */
double tr_optim_sum_grads(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q,
                          tr_optim_adds *add);
double tr_optim_squares(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q);

struct tr_optim_how {
    double lr, decay;  /* learning rate; weight decay where it applies */
    double loss_scale; /* what the gradients were multiplied by; 1 without */
    bool check;        /* find out if the gradients are finite even without clipping */
    void (*average)(void *ctx, const struct tr_tensor *moments); /* or NULL; see below */
    void *ctx;
};

struct tr_optim_result {
    double norm; /* of the gradients, unscaled, before clipping; 0 if not computed */
    double
        part; /* the norm that clips: the same, or with --clip-grad-by-stage that of this stage */
    bool skipped; /* the norm is not finite */
    bool idle;    /* so this rank updates nothing */
    bool all;     /* and no other one does */
};

/*
 * One step, in two halves.  The norm is that of all parameters of the model; it is computed when
 * --clip-grad is not 0 or `check` is set.  When it is larger than --clip-grad, gradients are scaled by
 * clip / (norm + 1e-6), as Megatron does.  When it is not finite, nothing is updated: a gradient
 * overflowed, and the weights stay what the last good step made them.  A sum of squares in double
 * is finite exactly when all fp16, bf16 and fp32 gradients in it are, so there is no second pass
 * that looks for them, and unscaling is a factor of the update.
 *
 * With --clip-grad-by-stage a stage clips by the norm of its own parameters, and updates nothing when that is not
 * finite, whatever others do.  A step counts for the bias corrections of all when one of them makes an update.
 *
 * With `average` the update is that of AC-SGD's QuantizedAdam.  Gradients are added to the first moments m alone;
 * `average` gets these, TR_F32 [owned] in one place, and changes them; second ones v stay as they are, and t steps in
 *     p -= lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + eps), then p -= lr decay p
 *
 * The norm waits for the queue, since the host decides by it; collective over `group`: the
 * model-parallel group, or all ranks when replicas own different parts.  Between the halves the queue is
 * idle, and other numbers of the step can be read without another wait.  The update is queued and no
 * more; afterwards the gradients that a step adds to are zero.  Charged to "optimizer"; inside it the
 * norm to "optimizer-unscale-and-check-inf" (check) or "optimizer-clip-main-grad".
 */
struct tr_optim_result tr_optim_norm(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q,
                                     const struct tr_optim_how *how);
void tr_optim_update(struct tr_optim *o, struct tr_queue *q, const struct tr_optim_how *how,
                     const struct tr_optim_result *found);

/* The gradients that a step adds to become zero, after gradients that no update follows.  Queued. */
void tr_optim_clear(struct tr_optim *o, struct tr_queue *q);

#endif
