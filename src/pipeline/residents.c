/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>
#include <string.h>

#include "pipeline/residency.h"

static void *need(size_t count, size_t size)
{
    void *p = calloc(count > 0 ? count : 1, size);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the plan of where weights are");
    return p;
}

static bool used_in(const struct tr_param_part *p, const struct tr_residents *x, int chunk,
                    enum tr_param_place place)
{
    const struct tr_resident_chunk *c = &x->chunk[chunk];

    return p->layer < 0 && p->places & (unsigned)place &&
           (place == TR_PLACE_EMBED ? c->embeds : c->heads);
}

static void list_ends(struct tr_residents *x, int chunk)
{
    static const enum tr_param_place places[] = {TR_PLACE_EMBED, TR_PLACE_HEAD};
    const struct tr_params *ps = x->how->params;
    struct tr_resident_chunk *c = &x->chunk[chunk];

    for (int e = 0; e < 2; e++) {
        if (e == 0 ? !c->embeds : !c->heads)
            continue;
        c->end[e] = need((size_t)ps->parts, sizeof *c->end[e]);
        for (int i = 0; i < ps->parts; i++)
            if (used_in(&ps->part[i], x, chunk, places[e]))
                c->end[e][c->ends[e]++] = i;
    }
}

/* The parameters of a layer stand together, and so do the parts that they are in. */
static void list_layers(struct tr_residents *x)
{
    const struct tr_params *ps = x->how->params;

    for (int i = 0; i < ps->count; i++) {
        const struct tr_param *p = &ps->list[i];
        struct tr_resident_chunk *c = &x->chunk[p->chunk];
        const int k = p->layer - c->first_layer;

        if (p->layer < 0)
            continue;
        if (c->count[k] == 0)
            c->first[k] = p->part;
        c->count[k] = p->part - c->first[k] + 1;
    }
}

void tr_residents_open(const struct tr_residency *how, struct tr_residents *x)
{
    const struct tr_layout *l = how->layout;

    *x = (struct tr_residents){.how = how};
    x->chunk = need((size_t)l->k, sizeof *x->chunk);
    for (int i = 0; i < l->k; i++) {
        struct tr_resident_chunk *c = &x->chunk[i];

        c->layers = (int)tr_layout_layers(l, how->stage, i);
        c->first_layer = (int)tr_layout_first_layer(l, how->stage, i);
        c->embeds = tr_layout_is_first(l, how->stage, i);
        c->heads = tr_layout_is_last(l, how->stage, i);
        c->first = need((size_t)c->layers, sizeof *c->first);
        c->count = need((size_t)c->layers, sizeof *c->count);
        list_ends(x, i);
    }
    x->every = need((size_t)how->params->parts, sizeof *x->every);
    for (int i = 0; i < how->params->parts; i++)
        x->every[i] = i;
    list_layers(x);
}

void tr_residents_close(struct tr_residents *x)
{
    for (int i = 0; x->chunk && i < x->how->layout->k; i++) {
        free(x->chunk[i].first);
        free(x->chunk[i].count);
        free(x->chunk[i].end[0]);
        free(x->chunk[i].end[1]);
    }
    free(x->chunk);
    free(x->every);
    x->chunk = NULL;
    x->every = NULL;
}

const int *tr_residents_of(const struct tr_residents *x, int chunk, int module, int *n)
{
    const struct tr_resident_chunk *c = &x->chunk[chunk];

    if (module > 0 && module <= c->layers) {
        *n = c->count[module - 1];
        return &x->every[c->first[module - 1]];
    }
    *n = c->ends[module > 0];
    return c->end[module > 0];
}

enum tr_visits_pass tr_residents_pass(const struct tr_sched *s, const struct tr_instr *in)
{
    return in->kind == TR_FWD   ? TR_VISITS_FORWARD
           : in->kind == TR_WGT ? TR_VISITS_WEIGHTS
           : s->split           ? TR_VISITS_SPLIT
                                : TR_VISITS_BACKWARD;
}
