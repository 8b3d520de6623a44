/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_MODEL_MODEL_H
#define TR_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "config/shape.h"
#include "device/device.h"
#include "model/family.h"
#include "model/param.h"
#include "tp/tp.h"
#include "util/arena.h"

/*
 * What the parts of a rank's model share: sizes, parameters, the tensor-parallel group, the queue,
 * and scratch memory that is dead between two calls.  The parts (embed.c, block.c, head.c) hold no
 * memory of their own; what backward needs lies in the slot of a micro-batch (chunk.h).
 */
struct tr_model {
    const struct tr_shape *shape;       /* borrowed */
    const struct tr_family *family;
    struct tr_params params;
    struct tr_tp tp;
    struct tr_queue *q;                 /* borrowed */
    uint64_t seed;                      /* of dropout */
    double attention_dropout, hidden_dropout;
    float eps;                          /* of the norms */
    bool training;                      /* dropout is on */

    /* Scratch.  Letters as in tensor.h; one rank's part. */
    struct tr_tensor row;               /* [N,H] output of a sublayer, or the gradient of one */
    struct tr_tensor row2;              /* [N,H] gradient of a normed input */
    struct tr_tensor wide;              /* [N,F/W] gradient inside the MLP */
    struct tr_tensor dqkv;              /* [N,3H/W] */
    struct tr_tensor dctx;              /* [N,H/W] */
    struct tr_tensor position;          /* [N] (TR_I32) n % T */
};

/* Take the scratch memory from the arena ("scratch").  The first run of the two in which it is not
   dry also fills `position`. */
void tr_model_plan(struct tr_model *m, struct tr_arena *a);

/* The dropout of the hidden state at `stream` of layer `site`, off outside training.  `sample` is
   [B], borrowed. */
struct tr_dropout tr_model_dropout(const struct tr_model *m, enum tr_stream stream, int site,
                                   const int64_t *sample);

/* Value and gradient of a parameter that this rank must have. */
struct tr_tensor tr_model_value(const struct tr_model *m, enum tr_param_row row, int layer);
struct tr_tensor tr_model_grad(const struct tr_model *m, enum tr_param_row row, int layer);

#endif
