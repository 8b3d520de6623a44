/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_MODEL_HOST_LAYERS_H
#define TR_MODEL_HOST_LAYERS_H

#include <stdbool.h>
#include <stdint.h>

#include "config/activations.h"
#include "model/model.h"

/*
 * Layers whose activations lie with the host between their forward and their backward (--cpu-offloading; Megatron
 * Core and TransformerEngine call it CPU offloading, vDNN (Rhu et al. 2016) first did it).  The first layers of each
 * chunk take turns in a few windows of the device, since theirs are needed last.  What a layer keeps goes to the host
 * when its forward is done, and comes back while the backward of the layer behind it is computed.  The input of the
 * first layer of a chunk is a message, and stays.
 */
/* A layer of a micro-batch with the host. */
struct tr_host_layer {
    struct tr_tensor at; /* as `all` of a window; without data where the layer stays */
    int64_t sent;
};

/* Whether layer `i` of a chunk is one of them; and its window. */
bool tr_host_layer_has(const struct tr_activations *a, int i);
int tr_host_layer_window(int i);

/* Room for windows, and their memory (TR_LABEL_ACTIVATIONS); that of a layer with the host. */
void tr_host_layer_open(struct tr_model *m);
void tr_host_layer_close(struct tr_model *m);
void tr_host_layer_plan(struct tr_model *m, struct tr_arena *a);
void tr_host_layer_place(const struct tr_model *m, struct tr_arena *host, struct tr_host_layer *x);

/*
 * To be called for layer `i` of a chunk: before its forward, which writes its window and the input of the next layer;
 * after it, to send what it keeps; ahead of its backward, to bring that back; and right before its backward.
 */
void tr_host_layer_before(struct tr_model *m, int i);
void tr_host_layer_send(struct tr_model *m, int i, struct tr_host_layer *x);
void tr_host_layer_bring(struct tr_model *m, int i, const struct tr_host_layer *x);
void tr_host_layer_await(struct tr_model *m, int i);

#endif
