/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_MODEL_CHUNK_H
#define TR_MODEL_CHUNK_H

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"

/*
 * A chunk is what one pipeline slot computes: some consecutive layers, with the embedding before
 * the first layer of the model and the head after the last.  It keeps the activations of up to
 * `slots` micro-batches between their forward and their backward (pipeline/sched.h says how many
 * that takes). Those of layers are in a pool of places, common to the chunks of a stage with as
 * many layers: a micro-batch takes a place when its input arrives, and frees it after its backward,
 * where that is split after tr_chunk_weights(), or in an evaluation after its forward.  The rest of micro-batch i, which is little, is in slot i
 * % slots.
 *
 * With --recompute-granularity full (activation recomputation, also called activation
 * checkpointing) it keeps only the input of each group of layers, and backward recomputes the rest
 * (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016).  All draws are functions of
 * place, so the second forward has the bits of the first.
 *
 * With graphs (model.h) a pass is captured and replayed as a whole.  What is done between layers otherwise is
 * then done before it (waiting for values) or after it (moving messages on).
 *
 * Messages between chunks are [n,H] numbers of the residual stream (model.h), and each has its place:
 * the input of micro-batch i in its slot, or where there are `inputs` in one of these until its forward, and the output, the gradient of the output, and the gradient
 * of the input in buffer i % count.
 */
struct tr_chunk;

/* How many micro-batches there is room for, in slots and in each kind of buffer, and places of the pool
   where it is this chunk's: 0 is as many as slots. */
struct tr_chunk_room {
    int slots, outputs, dinputs, doutputs, pool;
    int inputs; /* 0: an input comes to the slot of its micro-batch */
};

/* Chunk `index` of pipeline stage `stage`; owned by the caller.  `m` is borrowed, and so is the pool of
   `with`, a chunk with as many layers that is planned before and closed after; NULL: its own. */
struct tr_chunk *tr_chunk_open(struct tr_model *m, int stage, int index, struct tr_chunk_room room,
                               struct tr_chunk *with);
void tr_chunk_close(struct tr_chunk *c);

/* Take its memory from the arena (TR_LABEL_ACTIVATIONS, TR_LABEL_MESSAGES, TR_LABEL_LOGITS). */
void tr_chunk_plan(struct tr_chunk *c, struct tr_arena *a);

/* Take memory of the host (TR_LABEL_ACTIVATIONS) for layers that are offloaded, after tr_model_plan(). */
void tr_chunk_plan_host(struct tr_chunk *c, struct tr_arena *host);

/* Whether it reads tokens (has the embedding or the head, attention that documents bound, rotary
   positions that they begin anew, or samples that are padded) and whether it makes a loss. */
bool tr_chunk_reads_text(const struct tr_chunk *c);
bool tr_chunk_has_loss(const struct tr_chunk *c);

/*
 * Where the tokens of the next micro-batch go before its forward: [B, T + 1] numbers, and the places of
 * its samples in the order of samples, [B].  Host memory, owned by the chunk; forward takes them to the
 * device, and then they are free for the next.  text is NULL if the chunk does not read text.
 *
 * With a head of classes the last number of a sample is its class, and numbers below 0 follow on its last token:
 * padding, at least one token before it.  Every chunk reads these, so that attention knows the lengths
 * (m->mask->lengths) on every stage.
 */
void tr_chunk_batch(struct tr_chunk *c, int32_t **text, int64_t **sample);

/* With a key-value cache (m->keys): take it from the arena (TR_LABEL_CACHE), of `micros` micro-batches, before
   tr_chunk_plan(); and where the position of each token of the next micro-batch goes, and its place in the cache or, for what is no
   token, -1: [B, T] each.  NULL without a cache.  As for the tokens. */
void tr_chunk_plan_cache(struct tr_chunk *c, struct tr_arena *a, int micros);
void tr_chunk_places(struct tr_chunk *c, int32_t **position, int32_t **place);

/* Of a chunk with a head, of a model that computes forward only: where the tokens of each sample of the next micro-batch go
   whose logits are made, [B]; with m->picks one of each at most.  The rows of what follows are theirs, R of them,
   one sample after the other.  Else NULL: of all. */
struct tr_wanted *tr_chunk_wanted(struct tr_chunk *c);

/* Compute.  Collective over the tensor-parallel group.  Backward weights the loss by `factor`.  Both call
   m->enter and m->leave at each module, in the order of model/visits.h; `whole` permits a graph, which calls
   m->enter once, with TR_MODULE_ALL. */
void tr_chunk_forward(struct tr_chunk *c, int micro, bool whole);
void tr_chunk_backward(struct tr_chunk *c, int micro, double factor, bool whole);

/* With m->split, once behind each backward, in the order of micro-batches: the gradients of the weights of layers.
   Those of the embedding, of the head, of norms, and of biases where dropout stands behind, are backward's.  The
   place of the micro-batch are kept until then; what is needed lies in the memory of activations that
   backward has read for the last time. */
void tr_chunk_weights(struct tr_chunk *c, int micro, bool whole);

/* The [n,H] messages of a micro-batch: input, output, gradient of the output (to be received),
   gradient of the input (to be sent). */
struct tr_tensor tr_chunk_input(struct tr_chunk *c, int micro);
struct tr_tensor tr_chunk_output(struct tr_chunk *c, int micro);
struct tr_tensor tr_chunk_doutput(struct tr_chunk *c, int micro);
struct tr_tensor tr_chunk_dinput(struct tr_chunk *c, int micro);

/* The sum of the mean losses of the micro-batches since the last call of the second (TR_F64 [1], memory of
   the device), for ranks to add up; and what it has become, which is zero then.  The second waits for
   the queue. */
struct tr_tensor tr_chunk_loss(struct tr_chunk *c);
double tr_chunk_take_loss(struct tr_chunk *c);

/* Of the last forward, of a chunk with a head and without m->picks: the loss of each row's label, TR_F32 [R]; and
   TR_F32 [2,R], of which the second row has the label's logit less the largest one: 0 where the label is the
   most likely token.  The same on all tensor ranks. */
struct tr_tensor tr_chunk_losses(struct tr_chunk *c);
struct tr_tensor tr_chunk_margins(struct tr_chunk *c);

/* Of the last forward, of a chunk with a head of classes: the class of each sample, TR_I32 [B]. */
struct tr_tensor tr_chunk_labels(struct tr_chunk *c);

/* The logits [R,V/W] of the last forward, for tests and for generation; empty without a head. */
struct tr_tensor tr_chunk_logits(struct tr_chunk *c);

#endif
