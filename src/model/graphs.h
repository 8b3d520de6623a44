/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_MODEL_GRAPHS_H
#define TR_MODEL_GRAPHS_H

#include <stdint.h>

#include "device/device.h"

/*
 * Passes of a chunk as graphs (tr_backend.capture()): a list of operations that is the same each time is
 * recorded once and then started as a whole.
 *
 * What the host passes by value, and every address, stays in a graph as it was when it was captured.  So a
 * pass is known by all that may differ from one call to the next and is not memory of the device: its key.
 * What changes with each step lies in memory that the graph reads: tokens, bounds of documents, places of
 * samples (which dropout follows), the weight of the loss.
 */
enum tr_pass_kind { TR_PASS_FORWARD, TR_PASS_BACKWARD, TR_PASS_WEIGHTS };
struct tr_pass {
    /* enum tr_pass_kind; with dropout; gradients are added to; logits are computed once more. */
    int32_t kind, training, adds, again;
    /* Which memory: the slot, the place of the pool, and the buffers of messages. */
    int32_t slot, place, output, doutput, dinput;
};

/* The passes that a chunk has met.  Zeros are none. */
struct tr_graphs {
    int count;
    struct tr_met *met; /* [count], owned */
};

/*
 * Queue `work`, which calls operations of `q` and nothing else.  The first time that a pass comes it is
 * called, and libraries choose their algorithms; the second time it is captured; from then on it is not
 * called any more.  Graphs belong to the device and live as long.
 */
void tr_graphs_run(struct tr_graphs *g, struct tr_queue *q, const struct tr_pass *pass,
                   void (*work)(void *ctx), void *ctx);
void tr_graphs_close(struct tr_graphs *g);

#endif
