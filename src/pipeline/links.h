/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PIPELINE_LINKS_H
#define TR_PIPELINE_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "codec/codec.h"
#include "comm/grid.h"
#include "config/config.h"
#include "config/shape.h"
#include "launch/launch.h"
#include "pipeline/sched.h"
#include "telemetry/traffic.h"
#include "util/arena.h"

/*
 * Compressed links.  What a stage sends to the next (--forward-compress-method) or to the one
 * before (--backward-compress-method) is encoded before it is sent and decoded when it has come; a
 * codec of codec/codec.h does that, this file has the buffers between, and says which message
 * belongs to which memory.  A rank has one end for each of its chunks and directions, and the end
 * of its neighbour does what this one does.
 *
 * Where all tensor ranks have the same message, each encodes the whole of it and sends a W-th of
 * the bytes, and the receivers put them together before they decode: so the bytes are those that
 * one rank would send, and a few for W that does not divide them.  With sequence parallelism each
 * rank encodes the rows that it has.
 *
 * Without a loss scale gradients are multiplied by a power of two, of about the tokens of a batch, before
 * they are encoded, and divided by it after they are decoded.
 *
 * An evaluation goes over the links as it is and leaves no trace in any memory.  In the epochs of
 * --warmup-epochs nothing is compressed either, and activation caches are filled.
 *
 * The buffers hold as many messages of a direction as can be under way (TR_FLIGHTS), and come from
 * the arena ("compression").
 *
 * Without compression there are no links (the pointer is NULL), and messages take the way that they
 * take in any other run.
 */
struct tr_links;

/* The run that links are of.  All is borrowed until they are closed; `grid`, `world`, `queue` and `traffic`
   are used from tr_links_start() on. */
struct tr_links_of {
    const struct tr_config *config;
    const struct tr_shape *shape;
    const struct tr_launch *launch; /* the names of hosts */
    struct tr_grid *grid;
    struct tr_comm *world;
    struct tr_queue *queue;
    struct tr_traffic *traffic;
    enum tr_dtype dtype; /* of a message */
    bool overlap;        /* messages travel while a stage computes */

    /* The number of training sample `position`, also of one that is still to come, under which activation
       caches keep it; `position` itself where samples have no numbers. */
    int64_t (*sample_id)(void *ctx, int64_t position);
    void *ctx;
};

/* The step, or the evaluation, whose messages come next. */
struct tr_links_step {
    bool training;
    int64_t iteration;    /* that are over */
    int64_t first_sample; /* of its global batch */
    int64_t global_batch; /* samples */
    int micros;
    double gradient_parts; /* of how many micro-batches its gradients are the mean: 1 for a sum */
};

/* Set *out, to NULL if nothing is to be compressed: what a rank works out alone. */
enum tr_status tr_links_open(const struct tr_links_of *of, struct tr_links **out) TR_MUST_CHECK;
void tr_links_close(struct tr_links *l); /* NULL is fine, also below */

/* Take what ends and buffers need from the arena: dry, and then in earnest. */
void tr_links_plan(struct tr_links *l, struct tr_arena *a);

/*
 * Open the memories, and compare what both ends must have alike; then say what is compressed and how.
 * `text` is the fingerprint of the training data (tr_data_print()), which goes into checkpoints; it is read
 * only where tr_links_remember().  Collective over the world.  TR_ECONFIG if the ends of a link that
 * remembers compute on different backends, TR_EIO or TR_ERESOURCE without room for the memories.
 */
enum tr_status tr_links_start(struct tr_links *l, uint64_t text) TR_MUST_CHECK;

/* Whether an end here remembers what it sent, so that checkpoints keep it; false for NULL. */
bool tr_links_remember(const struct tr_links *l);

/* Warn on rank 0 of options for compressed links that were given and change nothing. */
void tr_links_warn(const struct tr_config *c);

/* What comes next; before its first message.  NULL is fine. */
void tr_links_begin(struct tr_links *l, const struct tr_links_step *step);

/*
 * For struct tr_stage, whose calls these are.  The first packs or unpacks `x`, the message of that slot and
 * leg.  What tr_links_message() gives true for travels in *out, and arrives with tr_links_arrived();
 * everything else as if there were no links.  `scattered`: all tensor ranks have the same message, and each
 * sends a part of it.  Ends the job where a memory fails.
 */
void tr_links_pass(struct tr_links *l, struct tr_slot at, enum tr_leg_bit leg,
                   const struct tr_tensor *x);
bool tr_links_message(struct tr_links *l, struct tr_slot at, enum tr_leg_bit leg, bool scattered,
                      struct tr_tensor *out);
bool tr_links_arrived(struct tr_links *l, enum tr_leg_bit leg, bool scattered);

/*
 * The two ends of every link compare fingerprints of what they sent and cached, after `iteration`.
 * Collective over the world, between steps; some bytes for each link.  TR_EDATA, with a sentence that
 * names the link, if they differ.  The second does it when --check-links-interval says so.
 */
enum tr_status tr_links_compare(struct tr_links *l, int64_t iteration) TR_MUST_CHECK;
enum tr_status tr_links_compare_due(struct tr_links *l, int64_t iteration) TR_MUST_CHECK;

/*
 * What a checkpoint keeps of the memories: one file for each end that sends, PREFIX, the rank of the sender
 * in five digits and "-link-" with its chunk.  save() writes those of this rank; TR_EIO.  load() is collective
 * over the world: where a rank finds none, or those of another run, all ranks begin with empty ones and say
 * why.
 */
enum tr_status tr_links_save(struct tr_links *l, const char *prefix) TR_MUST_CHECK;
enum tr_status tr_links_load(struct tr_links *l, const char *prefix) TR_MUST_CHECK;

/* Bytes of those files for all ranks together, and their number, when all samples have been seen; pure. */
int64_t tr_links_saved_bytes(const struct tr_config *c, const struct tr_shape *s, int *files);

/* Of this rank, by the options alone: bytes that its memories take in the host's memory, and in
   files, when all samples have been seen. */
void tr_links_bytes(const struct tr_links *l, int64_t *host, int64_t *files);

#endif
