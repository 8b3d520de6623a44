/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_LINKS_H
#define TR_TRAIN_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "ckpt/ckpt.h"
#include "codec/codec.h"
#include "pipeline/exec.h"
#include "train/run.h"

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
 * Without compression there are no links here (run->links is NULL), and messages take the way that
 * they take in any other run.
 */
struct tr_links;

/* Set run->links, if something is to be compressed: what a rank works out alone.  The chunks are
   open. */
enum tr_status tr_links_open(struct tr_run *r) TR_MUST_CHECK;
void tr_links_close(struct tr_links *l); /* NULL is fine, also below */

/* Take what ends and buffers need from the arena: dry, and then in earnest. */
void tr_links_plan(struct tr_links *l, struct tr_arena *a);

/*
 * The memories, where checkpoints are saved or loaded the text that they are of, and what both ends
 * must have alike; then says what is compressed and how, and which options change nothing.
 * Collective over the world; without links only the latter.  TR_ECONFIG if the ends of a link that
 * remembers compute on different backends, TR_EIO or TR_ERESOURCE without room for the memories,
 * TR_EIO or TR_EDATA for a data set.
 */
enum tr_status tr_links_start(struct tr_run *r) TR_MUST_CHECK;

/* For struct tr_stage, whose calls these are: `x` is the message of that slot and leg, which the first
   packs or unpacks.  What tr_links_message() gives true for travels in *out, and arrives with
   tr_links_arrived(); everything else as if there were no links.  Ends the job where a memory
   fails. */
void tr_links_pass(struct tr_links *l, struct tr_slot at, enum tr_leg_bit leg,
                   const struct tr_tensor *x);
bool tr_links_message(struct tr_links *l, struct tr_slot at, enum tr_leg_bit leg,
                      const struct tr_tensor *x, struct tr_tensor *out);
bool tr_links_arrived(struct tr_links *l, enum tr_leg_bit leg, const struct tr_tensor *x);

/*
 * The two ends of every link compare fingerprints of what they sent and cached.  Collective over
 * the world, between steps; some bytes for each link.  TR_EDATA, with a sentence that names the
 * link, if they differ.  The second does it when --check-links-interval says so.
 */
enum tr_status tr_links_compare(struct tr_links *l) TR_MUST_CHECK;
enum tr_status tr_links_compare_due(struct tr_links *l) TR_MUST_CHECK;

/* What a checkpoint keeps of the memories; NULL if they are none.  Borrowed until the next call. */
const struct tr_ckpt_sidecar *tr_links_sidecar(struct tr_links *l);

/* Bytes of that for all ranks together, and in how many files, when all samples have been seen;
   pure. */
int64_t tr_links_sidecar_bytes(const struct tr_config *c, const struct tr_shape *s, int *files);

/* Read them from the folder of the checkpoint that was loaded.  Where a rank finds none, or those
   of another run, all ranks begin with empty ones and say why.  Collective over the world. */
enum tr_status tr_links_load(struct tr_links *l, const char *folder) TR_MUST_CHECK;

/* Of this rank, by the options alone: bytes that its memories take in the host's memory, and in
   files, when all samples have been seen. */
void tr_links_bytes(const struct tr_links *l, int64_t *host, int64_t *files);

#endif
