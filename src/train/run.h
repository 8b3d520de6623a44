/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_RUN_H
#define TR_TRAIN_RUN_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/grid.h"
#include "launch/launch.h"
#include "comm/share.h"
#include "config/config.h"
#include "config/shape.h"
#include "data/batch.h"
#include "device/device.h"
#include "dp/dp.h"
#include "model/chunk.h"
#include "optim/optim.h"
#include "optim/scaler.h"
#include "pipeline/exec.h"
#include "util/arena.h"
#include "telemetry/traffic.h"

struct tr_links;
struct tr_origin;

/* What a run without a backward pass is for: evaluation, or generation. */
struct tr_forward_only {
    int64_t
        block; /* with a key-value cache: new tokens of a sample in a pass, at most; 0: there is none */
    int64_t keys; /* how many keys it keeps of a sample */
    bool picks;   /* tokens are chosen: tr_run.picked and tr_run.chosen */
};

/*
 * Everything that one rank of a training run holds, built in the order of the layers and torn down in
 * reverse.  Made once in `trireme train`; passed down as a pointer.
 */
struct tr_run {
    const struct tr_config *config;     /* borrowed */
    const struct tr_forward_only *only; /* borrowed; NULL: it trains */
    struct tr_shape shape;
    struct tr_comm *world;        /* borrowed; for host memory */
    struct tr_comm *transport;    /* the same ranks, for memory of the device: train/transport.h */
    struct tr_comm own_transport; /* what it points to where that is not the world */
    char *transport_record;       /* what rank 0 knows of it, as JSON; NULL where that is nothing */
    struct tr_launch launch;
    struct tr_share share; /* files that set-up opens once per node */
    struct tr_grid grid;
    struct tr_device *device;
    struct tr_queue queue;
    struct tr_arena arena;
    struct tr_device
        *host_device; /* the cpu backend's, where that of the run is apart; else NULL */
    struct tr_queue
        host_queue; /* works on memory of the host: the same as `queue` unless that is apart */
    struct tr_arena
        host;        /* memory of the host beside that of the device, which copies from and to it */
    float *snapshot; /* of what this rank saves, for --async-save; NULL without */
    int64_t snapshot_elems;
    struct tr_arena fixed; /* the arena before what depends on the tokens of a pass */
    struct tr_model model;
    struct tr_chunk **chunk; /* [K], owned */
    struct tr_sched train_list, eval_list;
    struct tr_stage stage;  /* what the executor drives: this run's chunks */
    struct tr_links *links; /* what compresses its messages, or NULL; pipeline/links.h */
    struct tr_dp dp;
    struct tr_optim optim;
    struct tr_scaler scaler;
    struct tr_data *data; /* NULL until tr_run_data() */
    char *
        source; /* of weights of others with which this run or one before it began, or NULL; checkpoints keep it */

    /* Sample `position` of a split, T + 1 tokens into `text`; tr_run_data() sets it to read the
       datasets, tests to generate tokens. */
    enum tr_status (*sample)(struct tr_run *r, enum tr_split split, int64_t position,
                             int32_t *text);

    /* Called after the forward of a micro-batch on a rank with the head, or NULL; its first sample is
       `position`. */
    void (*scored)(struct tr_run *r, int micro, int64_t position);
    /* With a key-value cache: position and place of each token of that sample (tr_chunk_places()), [T] each. */
    void (*placed)(struct tr_run *r, int64_t position, int32_t *at, int32_t *place);
    /* Forward only, on a rank with the head: the tokens of that sample whose logits are made; NULL: all. */
    struct tr_wanted (*wanted)(struct tr_run *r, int64_t position);
    void *reader; /* of the four: theirs */
    struct tr_tensor
        picked; /* TR_F32 [W, samples, V/W]: logits of one row of each, on ranks with the head */
    struct tr_tensor
        chosen; /* TR_I32 [samples] the tokens that follow; both where `only` says so */

    /* The number of that sample, for activation caches: tr_data_sample_id(), also
       of positions that are still to come. */
    int64_t (*sample_id)(struct tr_run *r, enum tr_split split, int64_t position);
    struct tr_traffic traffic;    /* what this rank sends */
    struct tr_arena_list buffers; /* blocks of the arena, with --memory-tracker */

    /* The batch of the step under way, or of the last one; it changes while the batch size ramps up,
       and train_list with it. */
    int micros;
    int64_t global_batch;

    int64_t passed_train; /* samples that this process skipped */

    /* Where the run stands; a checkpoint keeps these. */
    int64_t iteration;
    int64_t
        loaded; /* of the checkpoint that was loaded, also where the run begins at 0 (--finetune) */
    int64_t consumed_train, consumed_valid; /* samples */
    int64_t lr_samples;                     /* samples of steps that were executed, not skipped */

    struct tr_origin
        *origin; /* of the forward pass under way that looks for one: train/origin.h; else NULL */

    bool masters_changed; /* in the step under way, by what replicas exchanged: tr_dp_finish() */
    bool recording;       /* a profiler records this rank */
    bool count_zeros;     /* the next step counts the zeros of its gradients */

    /* The step under way, read by the executor's calls: which samples, and from which split. */
    enum tr_split split;
    int64_t first_sample;
};

/*
 * Build a run from its options: groups, device, memory (planned, then reserved at once), and without
 * --load weights from the seed; with it they come with tr_run_load().  Prints Megatron's start-up lines.  Collective over `world`; on failure all ranks return
 * the same status and sentence, and what was built is torn down.  `config` and `world` are borrowed
 * until close.
 */
enum tr_status tr_run_open(struct tr_run *r, const struct tr_config *config,
                           struct tr_comm *world) TR_MUST_CHECK;
void tr_run_close(struct tr_run *r);

/* The same for a run that computes forward only: without gradients, moments and sums over replicas, and with the
   activations of one layer at a time.  Of a config with --recompute-granularity full, uniform, of one layer. */
enum tr_status tr_run_open_forward(struct tr_run *r, const struct tr_config *config,
                                   const struct tr_forward_only *only,
                                   struct tr_comm *world) TR_MUST_CHECK;

/* Of such a run with a key-value cache: passes have `tokens` new tokens of a sample from here on, `block` at most. */
void tr_run_tokens(struct tr_run *r, int64_t tokens);

/* Of weights and activations: TR_F32, TR_F16 or TR_BF16. */
enum tr_dtype tr_run_dtype(const struct tr_precision *p);

/* The same without a model: shape, device, transport and groups, for measuring them.  Prints nothing;
   closed like any other run, and nothing else here can be done with it. */
enum tr_status tr_run_reach(struct tr_run *r, const struct tr_config *config,
                            struct tr_comm *world) TR_MUST_CHECK;

/*
 * What rank `rank` of a run of that shape, which is copied, would hold, and with `only` of one that computes forward
 * only, without a device, memory or other ranks: up to the dry run of the arena, so that r->arena says what each label would take,
 * r->model.params the parameters.  Not collective.  Close it; nothing else can be done with it.
 */
enum tr_status tr_run_dry(struct tr_run *r, const struct tr_config *config,
                          const struct tr_forward_only *only, const struct tr_shape *shape,
                          int rank) TR_MUST_CHECK;

/* Resume from the newest checkpoint of --load, if the option is given, or begin with the weights of others that it
   leads to, or with weights from the seed if there is neither.  Collective; the run may be closed, but not used, after a failure. */
enum tr_status tr_run_load(struct tr_run *r) TR_MUST_CHECK;

/* Open the datasets.  Collective; see tr_data_open(). */
enum tr_status tr_run_data(struct tr_run *r) TR_MUST_CHECK;

/* Write a checkpoint of the run as it stands to --save; collective. */
enum tr_status tr_run_save(struct tr_run *r) TR_MUST_CHECK;

/* The same with --async-save: *out is under way (ckpt/async.h); and its end. */
struct tr_ckpt_async;
enum tr_status tr_run_save_async(struct tr_run *r, struct tr_ckpt_async **out) TR_MUST_CHECK;
enum tr_status tr_run_end_async(struct tr_run *r, struct tr_ckpt_async *a) TR_MUST_CHECK;

/* Whether every tensor rank has the same message `t`, so that each sends but a part of it. */
bool tr_run_scatters(const struct tr_run *r, const struct tr_tensor *t);

/* Of how many micro-batches the gradients of the step under way are the mean: 1 where they are sums. */
double tr_run_gradient_parts(const struct tr_run *r);

#endif
