/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_CKPT_H
#define TR_CKPT_CKPT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "comm/grid.h"
#include "config/shape.h"
#include "dp/buckets.h"
#include "model/param.h"
#include "optim/states.h"
#include "util/file.h"
#include "util/status.h"

/*
 * Checkpoints: SAVE/iter_0000100/model_optim_rng.h5, one HDF5 file that all ranks write together,
 * and SAVE/latest_checkpointed_iteration.txt, both named as Megatron names them.
 *
 * Every parameter is stored unsharded, without vocabulary padding and independent of the layout:
 * one group per kind ("model", and those of optim/states.def), one contiguous dataset per parameter.  So
 * a run resumes in any other layout, and the same model gives the same tensors in the file whatever
 * layout saves it.  Rank 0 lays the file out, then all ranks write their shards to their places at
 * the same time; the data-parallel replicas divide the work, or each writes its optimizer shard.
 * Each dataset carries a checksum of its elements that can be summed over ranks; loading and
 * `trireme ckpt verify` compare it.  docs/formats.md describes the file; ckpt/schema.h holds every
 * name in it.
 *
 * A save is complete or absent: a temporary folder, fsync of the file, rename, fsync of the
 * parent, the tracker last, and only then are older checkpoints removed.  Whatever moment kills
 * it, the tracker names a whole checkpoint.
 */

/* What a run resumes from besides tensors. */
struct tr_ckpt_state {
    int64_t iteration;
    int64_t consumed_train_samples, consumed_valid_samples;
    int64_t lr_samples; /* samples of executed steps: what the learning rate counts */
    int64_t adam_steps; /* executed steps: t of the bias corrections */
    double loss_scale;  /* of the dynamic scaler; 0: none, and its trackers mean nothing */
    int growth_tracker, hysteresis_tracker;
};

/*
 * The tensors: always fp32, so the file does not tell in which precision or with which optimizer a
 * run trains.  A rank holds the elements of its spans of the flat buffers that model/param.h lays
 * out, which ascend; a buffer is compact, its element k is the k-th element of the spans.  What
 * belongs to no parameter is padding, neither saved nor loaded.
 *
 * Not sharded: each replica holds the same, one span with all.  Sharded: the spans of the replicas
 * together cover every element once, and loading fills those of this rank and no others.
 */
struct tr_ckpt_tensors {
    const struct tr_params *params;
    struct tr_queue *q; /* of the device that has them, with nothing under way; NULL: they
                               are host memory */
    /* Or they are neither: how `count` elements from `at` on of a compact buffer come to memory of the host, or
       with `put` from there; kind 0 are weights, 1 + i states i, which there are with `states`.  Then q and the tensors
       are not read. */
    void (*access)(void *ctx, int kind, int64_t at, int64_t count, float *x, bool put);
    /* With it: the same to memory of the host, on any thread, while others work on other elements; NULL: they are not at
       hand there. */
    void (*peek)(void *ctx, int kind, int64_t at, int64_t count, float *to);
    /* Or those that are not at hand come to the host in tiles, to be changed: the end of that of element `at`.  NULL: they
       do not. */
    int64_t (*tile_end)(void *ctx, int64_t at);
    void *ctx;
    bool states;
    struct tr_tensor value;            /* weights: fp32 masters where there are some */
    struct tr_tensor state[TR_STATES]; /* of the optimizer; all without data for weights only */
    bool value_flat;                   /* `value` is the whole flat buffer after all, not compact */
    bool sharded;                      /* the same on all ranks */
    bool claimed; /* whoever changes them calls tr_ckpt_async_claim() before (ckpt/async.h) */
    struct tr_comm *once,
        *shards; /* sharded: ranks that hold every element once together, and those of
                                          them at one tensor rank and stage; NULL: the world, the replicas */
    int spans;
    const struct tr_bucket *span;
};

bool tr_ckpt_has_states(const struct tr_ckpt_tensors *tensors);

/*
 * Sidecar files of a rank, next to the one that all write together: state that belongs to one
 * layout, and that a run can do without.  Their names begin with TR_CKPT_SIDECAR.  write() puts
 * those of this rank into `folder`, where they are named once all ranks have written theirs; it
 * flushes them to the disk, and is not collective.  Whoever wrote them finds them in the folder of
 * which tr_ckpt_how.also() hears, and tells whether they are whole.
 */
#define TR_CKPT_SIDECAR "rank-"
struct tr_ckpt_sidecar {
    enum tr_status (*write)(void *ctx, const char *folder);
    void *ctx;
    int64_t bytes; /* about how much that is, of all ranks; for sentences */
    int files;     /* how many, of all ranks; the checkpoint keeps their number */
    const struct tr_ckpt_sidecar *next; /* others, or NULL */
};

/*
 * Save.  Collective over the grid's world.  `dir` is made where it is missing, and must be the same
 * folder on every node.  `config_json` (tr_config_get_json()) is stored to describe the run, and on rank 0 `source`, one
 * line or NULL, where the weights came from with which it began.  A
 * checkpoint of the same iteration is replaced.  keep_last > 0 then removes older ones beyond that
 * many; what cannot be removed costs a warning and no more.  `sidecars` may be NULL.
 *
 * On failure (no room, a quota, no permission, a rank that cannot write) TR_EIO on all ranks with
 * one sentence that has the path, the bytes needed and those free; what was begun is removed, and
 * the previous checkpoint stays the latest.  TR_ERESOURCE when HDF5 runs out of memory.
 */
enum tr_status tr_ckpt_save(struct tr_grid *grid, const char *dir,
                            const struct tr_ckpt_state *state,
                            const struct tr_ckpt_tensors *tensors, const struct tr_shape *shape,
                            const char *config_json, const char *source, int keep_last,
                            const struct tr_ckpt_sidecar *sidecars) TR_MUST_CHECK;

/* Which checkpoint, and what of it. */
struct tr_ckpt_how {
    int64_t step;    /* the iteration to load; -1 for the newest that is whole */
    int64_t *loaded; /* where the iteration that was loaded goes, on all ranks; or NULL */
    bool must;       /* that there is none is an error */
    bool finetune;   /* weights only, and *state is set to zeros: iteration 0 */
    bool any_order;  /* no sample of training will be taken, so their order is not compared
                       (TR_EPOCH_ORDER_OF in config/amounts.h) */
    /* Where the learning-rate schedule (config/lr_schedule.h) is not the file's: an error, or the
       command line counts, or the file.  Not asked where only weights are loaded,
       since then the learning rate begins anew. */
    enum { TR_SCHEDULE_SAME, TR_SCHEDULE_GIVEN, TR_SCHEDULE_STORED } schedule;
    const struct tr_opener *by; /* how ranks open the file; NULL: each for itself */
    char **config; /* if not NULL, rank 0 gets what tr_ckpt_save() was given to describe the
                      run, which the caller owns; untouched elsewhere and without a load */
    char **
        source; /* the same: where the weights came from with which the run began, one line or NULL */
    bool begins; /* `dir` is where this run saves: that it is empty is no surprise */
    /* What belongs to the checkpoint in `folder` besides, or NULL: called when its tensors are
       there, collective, and with the same outcome on all ranks.  TR_EDATA or TR_EIO: the checkpoint
       cannot be used, and an older one is tried, with which it is called again. */
    enum tr_status (*also)(void *ctx, const char *folder, const struct tr_ckpt_state *state);
    void *ctx;
};

/* Where `--load` leads: a folder of checkpoints, and one of them, or -1 for the newest. */
struct tr_ckpt_where {
    int64_t step;
    char dir[4096];
};

/*
 * What the user means with --load `load`, where --ckpt-step says `step` (-1: nothing) and --save is
 * `save` (may be NULL).  Collective over `world`; call it before `save` is made.  The folder of one
 * checkpoint stands for that one.  TR_EIO if there is no such folder, since a run would begin from
 * random weights, unless it is that of --save, as in the first start of a chain; TR_ECONFIG if the
 * folder and `step` contradict each other.
 */
enum tr_status tr_ckpt_locate(struct tr_comm *world, const char *load, const char *save,
                              int64_t step, struct tr_ckpt_where *out) TR_MUST_CHECK;

/*
 * Load the newest checkpoint of `dir` that is whole: the one that the tracker names, or where the tracker
 * is damaged the one of the newest folder, with a warning; and when that
 * one, or what belongs to it, is damaged or cannot be read, the next older one, saying so on stderr; or the one of
 * how->step and no other.  Collective over the grid's world, and the same outcome on all ranks.
 * *found is false, and TR_OK, when there is no tracker (Megatron: start from random), and a warning says
 * so; TR_EIO when there must be one, or none of how->step: the sentence says which there are.  TR_EDATA when none can be used, or, without trying an older one, when the
 * model differs (names each number that does), the order of the samples or the schedule
 * differ, or moments are wanted of a checkpoint without them.  Padding rows of the vocabulary are
 * zero afterwards.  With TR_SCHEDULE_STORED `shape` gets the schedule of the file.  After a failure
 * the buffers hold anything, and *state and *shape are untouched.
 */
enum tr_status tr_ckpt_load(struct tr_grid *grid, const char *dir, const struct tr_ckpt_how *how,
                            struct tr_shape *shape, const struct tr_ckpt_tensors *tensors,
                            struct tr_ckpt_state *state, bool *found) TR_MUST_CHECK;

/*
 * The options of the run that wrote a checkpoint, as JSON for tr_config_load_model(), and its true
 * vocabulary: of iteration `step`, or of the newest whose index is whole (-1).  Collective over
 * `world`.  *json is owned by the caller, and NULL, with TR_OK, when there is no tracker or
 * the file does not say.
 * TR_EDATA, TR_EIO as for a load.
 */
enum tr_status tr_ckpt_options(struct tr_comm *world, const char *dir, int64_t step, char **json,
                               int64_t *vocab) TR_MUST_CHECK;

/* Whether there is any checkpoint in `dir`, or `dir` is the folder of one.  Not collective. */
bool tr_ckpt_any(const char *dir);

/* Where the weights came from with which the run began that wrote the newest checkpoint of `dir`: one line, owned by
   the caller, or NULL if it does not say.  Not collective; TR_EDATA, TR_EIO as for a load. */
enum tr_status tr_ckpt_source(const char *dir, char **source) TR_MUST_CHECK;

/* The iteration that the tracker of `dir` names; *iteration is -1 if there is no tracker.
   TR_EDATA if its content is not a number.  Not collective. */
enum tr_status tr_ckpt_latest(const char *dir, int64_t *iteration) TR_MUST_CHECK;

/*
 * For `trireme ckpt show` and `verify`, without MPI.  `path` is a checkpoint folder, its parent
 * (the latest one is taken) or the file.  TR_EIO if there is nothing or it cannot be read,
 * TR_EDATA if it is damaged.
 *
 * show() prints every attribute, the names and shapes of the tensors, and the sidecar files with
 * their bytes.  verify() reads every tensor and every sidecar file in bounded memory, prints a line
 * for each fault, or one that says that all is whole.  `progress` (may be NULL) gets the bytes done
 * so far, and -1 before each line that is printed.
 */
enum tr_status tr_ckpt_show(const char *path, FILE *out) TR_MUST_CHECK;
enum tr_status tr_ckpt_verify(const char *path, FILE *out,
                              void (*progress)(void *arg, int64_t done, int64_t total),
                              void *arg) TR_MUST_CHECK;

#endif
