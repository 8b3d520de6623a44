/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DP_DP_H
#define TR_DP_DP_H

#include <stdbool.h>
#include <stdint.h>

#include "comm/grid.h"
#include "config/config.h"
#include "config/shape.h"
#include "dp/buckets.h"
#include "launch/launch.h"
#include "model/param.h"
#include "pipeline/residency.h"
#include "telemetry/traffic.h"
#include "util/arena.h"

/*
 * What a data-parallel group does with gradients, weights and the optimizer's work: one file of this
 * folder for each mode (dp/mode.h), one row of config/modes.def.  A step, the optimizer, checkpoints and
 * plans call what is here, and none of them asks which mode it is: they see which elements this rank
 * updates, whether the gradients of a step are summed over replicas, and what a checkpoint keeps.
 *
 * Gradients are in params->grads, weights in params->values.  Losses are weighted before backward so
 * that a sum over replicas is already the mean.
 */

/* The run that a group is of.  All is borrowed until close; what comes after `iteration` is used from
   tr_dp_reach() on. */
struct tr_dp_of {
    const struct tr_config *config;
    const struct tr_shape *shape;
    const struct tr_launch *launch; /* the names of hosts */
    const struct tr_params *params;
    const int64_t *iteration; /* iterations that are over, as the run counts them */
    struct tr_grid *grid;
    struct tr_comm *world;
    struct tr_comm *const *transport; /* the same ranks, for memory of the device */
    struct tr_queue *queue, *host; /* of the device, which a dry run lacks; of memory of the host */
    struct tr_traffic *traffic;
};

struct tr_dp_mode;

/* Filled by tr_dp_open(); callers read what is above `buckets`. */
struct tr_dp {
    struct tr_dp_of of;
    int owns;
    struct tr_bucket *own; /* [owns] the elements that this rank updates, ascending; owned */
    bool diverged; /* replicas have diverged, or such weights were loaded: a checkpoint has the
                              weights of the first */
    bool
        sided; /* so a checkpoint keeps tr_dp_state() of each rank, as it does of replicas that have diverged */

    int stays; /* with chunks: so many of own[], the first, have their gradients, masters and states with the device
                  while those of the others lie with the host; else 0 */
    struct tr_tensor grads_here, masters_here; /* of the elements that stay, one after the other */
    struct tr_tensor
        grads; /* of the other elements, one after the other, in a step that was finished; without
                               data where they are in params->grads */

    struct tr_tensor
        wire; /* of all gradients, where they are sent in another type; else without data */
    struct tr_buckets *buckets;          /* sums and gathers, or NULL before tr_dp_start() */
    struct tr_bucket_timeline *timeline; /* of rank 0, or NULL */
    const struct tr_dp_mode *mode;
    void *ctx; /* of the mode */
    bool started;
    struct tr_comm
        sums; /* the replicas once more, for gradients and weights alone, since ranks reach a bucket at
                 different times */
    struct tr_comm rounds; /* and for what a mode exchanges besides, where it says so */
    struct tr_comm
        outer; /* with hybrid sharding, when `sums` are the replicas that share one copy: those that own the
                  same elements of different copies; else of size 0 */
    struct tr_comm owners; /* and all ranks that have one copy of the model's states together */
    int micros;            /* of the step */
    struct tr_grads_look
        look; /* of who wants to see this replica's gradients: set between steps, by anyone */
};

/* What it needs, without memory or other ranks.  TR_ECONFIG, TR_ERESOURCE.  Close it also after a failure,
   and when nothing is under way. */
enum tr_status tr_dp_open(const struct tr_dp_of *of, struct tr_dp *x) TR_MUST_CHECK;
void tr_dp_close(struct tr_dp *x);

/* Take memory ("compression", "gradients") of the device and of the host; see util/arena.h. */
void tr_dp_plan(struct tr_dp *x, struct tr_arena *device, struct tr_arena *host);

/* Its groups.  They are made before memory is reserved, since a transport may take memory of the device
   for them.  Collective over the world. */
enum tr_status tr_dp_reach(struct tr_dp *x) TR_MUST_CHECK;

/* The collectives of a step over `sums`, of a flat buffer in buckets of `bucket` elements at most. */
enum tr_dp_use { TR_DP_USE_ALLREDUCE, TR_DP_USE_REDUCE_SCATTER, TR_DP_USE_ALLGATHER };
void tr_dp_uses(const struct tr_dp *x, void (*use)(void *ctx, enum tr_dp_use what, bool weights),
                void *ctx);

/* The type of those sums; and whether numbers that are finite elsewhere may not be so in it. */
enum tr_dtype tr_dp_wire(const struct tr_dp *x);
bool tr_dp_overflows(const struct tr_dp *x);

/* When the memory is there: `masters` are what this rank's optimizer updates first, or with sharded weights what
   is gathered, with --offload-param memory of the host; `here` are those of the elements that stay (above), or without
   data.  Both borrowed until close.  Says in the log what is exchanged.  Collective over the world. */
enum tr_status tr_dp_start(struct tr_dp *x, const struct tr_tensor *masters,
                           const struct tr_tensor *here) TR_MUST_CHECK;

/* Elements of a bucket of gradients: --ddp-bucket-size, --fusion-threshold-mb, or what suits GPUs or hosts. */
int64_t tr_dp_bucket(const struct tr_config *c, bool gpus);

/* The group of ranks that together hold the gradients and the optimizer's state of the model once.  Is this the
   first such group, which saves them? */
struct tr_comm *tr_dp_owners(const struct tr_dp *x);
bool tr_dp_saves(const struct tr_dp *x);

/* ---- a step ---- */

/* Does the current step sum gradients over replicas?  If not, those of a replica are the mean over its own
   micro-batches. */
bool tr_dp_reduces(const struct tr_dp *x);

/* Are the gradients of the current step, when it is finished, made of those of several replicas? */
bool tr_dp_mixes(const struct tr_dp *x);

/* What replicas exchange while timer `t` runs, as a profile has it (dp/events.def), or NULL: nothing, as where there
   is one replica.  An enum tr_timer. */
struct tr_dp_event {
    const char *track, *name, *colour, *para;
};
const struct tr_dp_event *tr_dp_event(const struct tr_dp *x, int t);

/* Before the first of `micros` micro-batches. */
void tr_dp_begin(struct tr_dp *x, int micros);

/* What a step says about weights and gradients, of stage `stage` (pipeline/residency.h), and one instruction of
   that. */
void tr_dp_residency(const struct tr_dp *x, struct tr_residency *out);
void tr_dp_move(struct tr_dp *x, const struct tr_instr *in);

/* Between the parts of the model and while the rank waits for other stages: what is under way goes on.
   Whether calling it is of use. */
bool tr_dp_poll(struct tr_dp *x);

/* Weights that are under way arrive, but for those of windows. */
void tr_dp_arrive(struct tr_dp *x);

/* The gradients of own[i]. */
struct tr_tensor tr_dp_grads(const struct tr_dp *x, int i);

/* After the last micro-batch: the gradients of the elements that this rank updates are there.  Whether
   masters were changed, which then differ from the weights until the next update.  Collective over the
   replicas.  The caller charges it to backward-params-all-reduce. */
bool tr_dp_finish(struct tr_dp *x);

/* When the norm is known: all ranks agree on whether the step is skipped.  Returns the largest norm of a
   replica; *skipped says before whether this one's gradients are not finite.  Charged to "optimizer" where
   it takes part in it. */
double tr_dp_settle(struct tr_dp *x, double norm, bool *skipped);

/* After an update: fetch the weights that other replicas updated, or, with --overlap-param-gather, start to.
   Charged to params-all-gather.  And after weights were drawn or loaded: fetch them all.  Collective over
   the replicas. */
void tr_dp_publish(struct tr_dp *x);
void tr_dp_gather(struct tr_dp *x);

/* Whether the update of this step is by first moments that tr_dp_share_moments() makes of those of replicas: the mean, in
   their place, TR_F32, of all elements.  Collective over the replicas.  Charged to backward-params-all-reduce, and not
   to "optimizer", in which it is called. */
bool tr_dp_shares_moments(const struct tr_dp *x);
void tr_dp_share_moments(struct tr_dp *x, const struct tr_tensor *moments);

/* Whether a checkpoint keeps tr_dp_state(). */
bool tr_dp_keeps_state(const struct tr_dp *x);

/* A checkpoint with tr_dp_state() was loaded, with this number of it. */
void tr_dp_resume(struct tr_dp *x, int64_t number);

/* ---- between steps ---- */

/* Compare fingerprints of what is equal on all replicas between steps, where there is such a thing in a mode
   whose replicas differ: TR_EDATA on all ranks with a sentence that names the first rank that differs.  The
   second does so after every --check-replicas-interval iterations.  Collective over the world. */
enum tr_status tr_dp_compare(struct tr_dp *x) TR_MUST_CHECK;
enum tr_status tr_dp_compare_due(struct tr_dp *x) TR_MUST_CHECK;

/* What a rank alone holds besides weights and the optimizer's state, and needs to go on with the same bits:
   a checkpoint keeps it in sidecar files, where replicas diverged with their weights and optimizer states. */
enum { TR_DP_PARTS = 4 };
struct tr_dp_state {
    int parts;
    struct {
        const char *name;
        struct tr_tensor at;
    } part[TR_DP_PARTS];
    int64_t *number;  /* one number, or NULL */
    const char *note; /* what a file must agree on besides the mode's name; "" */
};
struct tr_dp_state tr_dp_state(struct tr_dp *x);

/* Bytes of those parts for each element of the model, of `d` replicas together.  Pure. */
int64_t tr_dp_state_bytes(const struct tr_config *c, const struct tr_data_parallel *dp, int d);

/* ---- plans ---- */

/* What a step moves between replicas for a rank with `params` parameters, whose gradients have `grad` bytes
   each and weights `elem`.  An all-reduce passes its bytes around the ring twice, a reduce-scatter or an
   all-gather once.  `outer` are sums between groups that each have one copy.  Pure. */
enum tr_dp_leg_kind {
    TR_DP_LEG_OTHER,
    TR_DP_LEG_ALLREDUCE,
    TR_DP_LEG_REDUCE_SCATTER,
    TR_DP_LEG_ALLGATHER
};
struct tr_dp_cost {
    struct tr_dp_leg {
        enum tr_dp_leg_kind
            kind; /* the collective that it is, or another exchange that costs as much */
        double bytes,
            passes; /* what a rank sends, on average, is (D - 1)/D of bytes, so many times */
        double
            busiest; /* passes on the link of the rank that has most of them; 0: all have as many */
        double
            during; /* backward passes of micro-batches, or forward passes, in which it may go on; 0: in
                          none */
        int group, step; /* the ring is of `group` replicas, each the `step`-th; 0: of all */
    } reduce, gather, outer;
};
struct tr_dp_cost tr_dp_cost(const struct tr_shape *s, double params, double grad, double elem);

#endif
