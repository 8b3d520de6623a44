/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/host_layers.h"

#include <stdlib.h>

#include "model/model_parts.h"

bool tr_host_layer_has(const struct tr_activations *a, int i)
{
    return i < a->offload_layers;
}

int tr_host_layer_window(int i)
{
    return i % TR_HOST_WINDOWS;
}

void tr_host_layer_open(struct tr_model *m)
{
    if (m->activations->offload_layers == 0)
        return;
    m->hosted.kept = calloc(TR_HOST_WINDOWS, sizeof *m->hosted.kept);
    if (!m->hosted.kept)
        tr_die(TR_ERESOURCE, "no memory left for the layout of offloaded layers");
}

void tr_host_layer_close(struct tr_model *m)
{
    free(m->hosted.kept);
    m->hosted.kept = NULL;
}

void tr_host_layer_plan(struct tr_model *m, struct tr_arena *a)
{
    for (int i = 0; i < TR_HOST_WINDOWS && m->hosted.kept; i++) {
        const size_t first = a->used_bytes;
        int64_t floats;

        tr_block_plan_row(m, a, &m->hosted.kept[i].x);
        tr_block_plan(m, a, &m->hosted.kept[i]);
        floats = (int64_t)((a->used_bytes - first) / sizeof(float));
        m->hosted.all[i] = tr_tensor_1(a->base ? a->base + first : NULL, TR_F32, floats);
    }
}

void tr_host_layer_place(const struct tr_model *m, struct tr_arena *host, struct tr_host_layer *x)
{
    const int64_t floats = tr_tensor_elems(&m->hosted.all[0]);

    x->at = tr_tensor_1(tr_arena_floats(host, TR_LABEL_ACTIVATIONS, floats), TR_F32, floats);
}

void tr_host_layer_before(struct tr_model *m, int i)
{
    for (int k = i; k <= i + 1; k++)
        if (tr_host_layer_has(m->activations, k))
            m->q->on->after(m->q, m->hosted.sent[tr_host_layer_window(k)]);
}

void tr_host_layer_send(struct tr_model *m, int i, struct tr_host_layer *x)
{
    const int w = tr_host_layer_window(i);

    x->sent = m->q->on->move(m->q, TR_LANE_OUT, &x->at, &m->hosted.all[w]);
    m->hosted.sent[w] = x->sent;
}

/* Not before it is there, and not over what is still on its way from there. */
void tr_host_layer_bring(struct tr_model *m, int i, const struct tr_host_layer *x)
{
    const int w = tr_host_layer_window(i);

    m->q->on->after(m->q, m->hosted.sent[w]);
    m->q->on->after(m->q, x->sent);
    m->hosted.came[w] = m->q->on->move(m->q, TR_LANE_IN, &m->hosted.all[w], &x->at);
}

void tr_host_layer_await(struct tr_model *m, int i)
{
    m->q->on->after(m->q, m->hosted.came[tr_host_layer_window(i)]);
}
