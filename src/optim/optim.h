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
#include "optim/states.h"
#include "util/arena.h"

/*
 * The optimizer: the norm of all gradients, clipping, and AdamW (decoupled decay, Loshchilov and
 * Hutter 2019) over the part of the flat buffers that this rank owns: all of it, or with the
 * distributed optimizer (ZeRO-1, Rajbhandari et al. 2020) its shard of each bucket.
 *
 * The states of optim/states.def, AdamW's moments, are stored without gaps: state element k belongs to the k-th
 * owned element.  So are the master weights, in fp32, which exist when the model's values are fp16 or bf16; otherwise the
 * values are the masters themselves.
 */
struct tr_optim_span {
    int64_t first, count; /* elements of the flat buffers */
    int64_t state;        /* where their state begins */
    bool decay;           /* weight decay applies */
    bool counts;          /* part of the norm on this rank; see tr_region_counts() */
};

struct tr_optim {
    const struct tr_params *params; /* borrowed */
    int owns;
    struct tr_bucket *own; /* [owns], ascending, owned */
    int64_t owned;         /* elements in them */
    int spans;
    struct tr_optim_span *span; /* [spans], owned: what of `own` is parameters */
    int zeros;
    struct tr_bucket *zero; /* [zeros], owned: gradients that a step finds at zero */
    struct tr_tensor main;  /* [owned] masters, or no data */
    struct tr_tensor grads; /* [owned] gradients, borrowed, or no data: they are in params->grads */
    bool apart; /* the model has no room for all weights (ZeRO-3): others bring masters there */
    struct tr_tensor state[TR_STATES]; /* [owned] each, in the arena; optim/states.def */
    struct tr_tensor sum;              /* TR_F64 [1] */
    double beta1, beta2, eps, clip;
    int64_t steps; /* executed; the t of the bias corrections */
};

/* `tp` is this rank's place in its tensor-parallel group.  `own` (copied) are the elements that this
   rank updates; NULL: all. */
void tr_optim_open(struct tr_optim *o, const struct tr_params *params, const struct tr_config *c,
                   int tp, const struct tr_bucket *own, int owns);
void tr_optim_close(struct tr_optim *o);

/* Take masters and moments from the arena (TR_LABEL_OPTIMIZER); `values` is the type of the weights.
   Without `steps` it only keeps weights: no moments. */
void tr_optim_plan(struct tr_optim *o, struct tr_arena *a, enum tr_dtype values, bool steps);

/* Where the masters of own[i] lie: own[i].count of TR_F32, memory of the device. */
struct tr_tensor tr_optim_masters(const struct tr_optim *o, int i);

/* Round the masters into the model's values, where they are two: after the masters were drawn or
   loaded.  Owned elements only. */
void tr_optim_publish(struct tr_optim *o, struct tr_queue *q);

/* An operation that adds what it finds in x to a TR_F64. */
typedef void tr_optim_adds(struct tr_queue *q, const struct tr_tensor *out,
                           const struct tr_tensor *x);

/* What `add` adds up over the gradients, or the weights, that count (struct tr_optim_span), on all ranks of
   `group`.  Waits for the queue.  Collective over `group`. */
double tr_optim_sum_grads(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q,
                          tr_optim_adds *add);
double tr_optim_sum_values(struct tr_optim *o, struct tr_comm *group, struct tr_queue *q,
                           tr_optim_adds *add);

struct tr_optim_how {
    double lr, decay;  /* learning rate; weight decay where it applies */
    double loss_scale; /* what the gradients were multiplied by; 1 without */
    bool check;        /* find out if the gradients are finite even without clipping */
};

struct tr_optim_result {
    double norm;  /* of the gradients, unscaled, before clipping; 0 if not computed */
    bool skipped; /* the norm is not finite, so nothing was updated */
};

/*
 * One step, in two halves.  The norm is that of all parameters of the model; it is computed when
 * --clip-grad is not 0 or `check` is set.  When it is larger than --clip-grad, gradients are scaled by
 * clip / (norm + 1e-6), as Megatron does.  When it is not finite, nothing is updated: a gradient
 * overflowed, and the weights stay what the last good step made them.  A sum of squares in double
 * is finite exactly when all fp16, bf16 and fp32 gradients in it are, so there is no second pass
 * that looks for them, and unscaling is a factor of the update.
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

#endif
