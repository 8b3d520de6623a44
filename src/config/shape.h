/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_SHAPE_H
#define TR_CONFIG_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

#include "config/batches.h"
#include "config/config.h"
#include "util/status.h"

/* Samples that one end of a compressed link can cache: TR_STORE_SAMPLES of codec/store.h. */
enum { TR_SHAPE_REMEMBERED = 1 << 30 };

/*
 * All numbers of a run that follow from the options and the number of ranks, and every rule that
 * joins two options.  No rank of its own and no communication; the one file it may read is
 * --vocab-file, to count its entries.  `plan` and `train` ask the same function.
 */
struct tr_shape {
    int world, w, p, d; /* ranks: all, tensor, pipeline, data parallel */
    int k;              /* model chunks per pipeline rank; 1 unless interleaved */
    int schedule;       /* enum tr_sched_kind of pipeline/sched.h, as enums.def spells it */
    int group;          /* N, micro-batches that a chunk takes before the next one; P, or more
                           where the schedule is interleaved */

    int64_t layers, hidden, heads, head_dim, ffn;
    int64_t seq, positions;      /* T, rows of the position table */
    int64_t vocab, vocab_padded; /* true size, and padded to make-vocab-size-divisible-by * W */
    int64_t eod;                 /* token that ends a document, or -1 (config/vocab.h) */
    /* What a stage of the pipeline holds, in layers and what counts as one; K chunks share it. */
    int64_t first_slots, middle_slots, last_slots;
    bool embed_counts, loss_counts; /* the embedding, the head take the place of a layer */

    int64_t micro_batch;       /* B, samples per micro-batch */
    struct tr_batches batches; /* samples of each iteration */
    int64_t global_batch;      /* the most of them: of all but a ramp, and of evaluation */
    int micros;                /* the M of that, global_batch / (B * D): the largest */

    bool half, bf16;     /* weights and activations in half precision: bf16, else fp16 */
    bool grads_fp32;     /* gradients in fp32 though the weights are half */
    bool stream_fp32;    /* the residual stream in fp32 though the weights are half */
    bool sequence;       /* sequence parallelism; false when w is 1 */
    bool sharded;        /* ZeRO-1: optimizer states are sharded over replicas; false when d is 1 */
    bool overlap_gather; /* and fetch each other's weights during the forward pass */
    bool apart;          /* replicas diverge (local SGD), after the warm-up; not when d is 1 */
    double apart_bits;   /* what they then send for a parameter, there and as many back */
    int recompute;       /* TR_RECOMPUTE_NONE, _UNIFORM, _BLOCK of enums.def */
    int64_t recompute_layers; /* per group, or per chunk */
    bool distribute_inputs;   /* of recomputed layers, over tensor ranks */

    /* What stages send each other (--forward-compress-method and its like). */
    bool compressed;                      /* in some direction */
    int forward_bits, backward_bits;      /* of a number; 0: all that it has */
    unsigned forward_over, backward_over; /* dimensions of [B,T,H] that share a scale, as bits */
    int64_t whole_samples; /* that are sent as they are: the first of the run, all replicas */

    unsigned exit_signals; /* exit_signal values of enums.def as bits */
    int64_t train_iters;
    int64_t eval_iters, eval_interval;
    int64_t train_samples, valid_samples, test_samples; /* wanted from the data sets */
    int64_t epochs;                                     /* --n-epochs, or 0: */
    int64_t blocks;                                     /*   samples of the training data, */
    int64_t epoch_samples; /*   and how many of them an epoch takes: whole iterations */
    int64_t epoch_replicas, epoch_seed; /* what their order follows from besides */

    /* The learning rate and the weight decay count samples: Megatron's optimizer scheduler.  What
       the chosen styles do not use is 0, so that it counts for nothing in a comparison. */
    double lr, min_lr, warmup_init;
    double warmup_samples, decay_samples, wsd_samples;
    int decay_style, wsd_style; /* TR_LR_..., TR_WSD_... of enums.def */
    double wd_start, wd_end, wd_samples;
    int wd_style; /* TR_WD_... */
};

/*
 * The learning-rate schedule: every number that the learning rate depends on besides the samples
 * done, and whatever else changes with them.  A checkpoint keeps them, and a run that resumes must
 * have the same ones or be told which to follow, so a field that joins the schedule above gets a
 * row here.
 *
 * NUMBER(type, field, "attribute", "options")
 *      type         REAL double, CHOICE int
 *      field        of struct tr_shape
 *      "attribute"  its name in a checkpoint
 *      "options"    what to type to change it; for a CHOICE the option that spells it, and no more
 */
#define TR_COURSE_OF(NUMBER)                                                                     \
    NUMBER(REAL, lr, "max_lr", "--lr")                                                           \
    NUMBER(REAL, min_lr, "min_lr", "--min-lr")                                                   \
    NUMBER(REAL, warmup_init, "lr_warmup_init", "--lr-warmup-init")                              \
    NUMBER(REAL, warmup_samples, "lr_warmup_samples", "--lr-warmup-fraction, --lr-warmup-iters") \
    NUMBER(REAL, decay_samples, "lr_decay_samples",                                              \
           "--lr-decay-iters or else --train-iters, times --global-batch-size")                  \
    NUMBER(CHOICE, decay_style, "lr_decay_style", "--lr-decay-style")                            \
    NUMBER(REAL, wsd_samples, "lr_wsd_decay_samples",                                            \
           "--lr-wsd-decay-iters, times --global-batch-size")                                    \
    NUMBER(CHOICE, wsd_style, "lr_wsd_decay_style", "--lr-wsd-decay-style")                      \
    NUMBER(REAL, wd_start, "start_weight_decay", "--start-weight-decay, or --weight-decay")      \
    NUMBER(REAL, wd_end, "end_weight_decay", "--end-weight-decay, or --weight-decay")            \
    NUMBER(REAL, wd_samples, "weight_decay_incr_samples",                                        \
           "--train-iters, times --global-batch-size")                                           \
    NUMBER(CHOICE, wd_style, "weight_decay_incr_style", "--weight-decay-incr-style")

/*
 * What the order of the samples follows from with --n-epochs; all 0 without.  A checkpoint keeps these
 * too, since a run that resumed within an epoch with another order would take samples twice.
 *
 * NUMBER(field, "attribute", "options"), as above
 */
#define TR_ORDER_OF(NUMBER)                                                  \
    NUMBER(blocks, "data_blocks", "the data, --seq-length or --data-blocks") \
    NUMBER(epoch_samples, "epoch_samples", "--global-batch-size")            \
    NUMBER(epoch_replicas, "epoch_replicas",                                 \
           "ranks over --tensor- and --pipeline-model-parallel-size")        \
    NUMBER(epoch_seed, "epoch_seed", "--seed")

/*
 * Derive.  TR_ECONFIG with one sentence that names the options, the rule and the nearest values that
 * would do: heads not divisible by W, layers by P * K, global batch by B * D, sequence longer than
 * the positions, a world that is not W * P * D, interleaving with M not divisible by P, options that
 * exclude one another, required ones that are missing.  TR_EIO or TR_EDATA for a bad --vocab-file.
 * --data-path is not asked for here: a plan needs none.
 */
enum tr_status tr_shape_of(const struct tr_config *c, int world,
                           struct tr_shape *out) TR_MUST_CHECK;

/* How many layers chunk `chunk` of pipeline stage `stage` holds, none only where the embedding or the head
   counts as one and stands alone, and the first of them
   (0-based, in the whole model).  The order is chunk 0 of all stages, then chunk 1 of all: with
   equal stages chunk c of stage r holds L / (P K) and starts at c * (L / K) + r * (L / (P K)). */
int64_t tr_shape_layers(const struct tr_shape *s, int stage, int chunk);
int64_t tr_shape_first_layer(const struct tr_shape *s, int stage, int chunk);

/* How many the largest chunk of all holds. */
int64_t tr_shape_most_layers(const struct tr_shape *s);

/*
 * With --n-epochs: the samples of the training data that replica `replica` takes in every epoch, and no
 * other does: *count of them from *first on.  Shares differ by one at most; an epoch takes as many samples
 * of each as make whole iterations of the smallest.  Without --n-epochs both are 0.
 */
void tr_shape_share(const struct tr_shape *s, int replica, int64_t *first, int64_t *count);

/* The same model on one rank, its vocabulary not padded: the order and sizes of a checkpoint. */
struct tr_shape tr_shape_whole(const struct tr_shape *s);

#endif
