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

void tr_residents_open(const struct tr_residency *how, struct tr_residents *x)
{
    const struct tr_layout *l = how->layout;

    *x = (struct tr_residents){.how = how};
    x->chunk = need((size_t)l->k, sizeof *x->chunk);
    for (int i = 0; i < l->k; i++) {
        struct tr_resident_chunk *c = &x->chunk[i];

        c->layers = (int)tr_layout_layers(l, how->stage, i);
        c->first_layer = (int)tr_layout_first_layer(l, how->stage, i);
        c->embeds = how->stage == 0 && i == 0;
        c->heads = how->stage == l->p - 1 && i == l->k - 1;
        c->part = need((size_t)c->layers, sizeof *c->part);
        memset(c->part, -1, (size_t)c->layers * sizeof *c->part);
        list_ends(x, i);
    }
    for (int i = 0; i < how->params->parts; i++) {
        const struct tr_param_part *p = &how->params->part[i];

        if (p->layer >= 0)
            x->chunk[p->chunk].part[p->layer - x->chunk[p->chunk].first_layer] = i;
    }
}

void tr_residents_close(struct tr_residents *x)
{
    for (int i = 0; x->chunk && i < x->how->layout->k; i++) {
        free(x->chunk[i].part);
        free(x->chunk[i].end[0]);
        free(x->chunk[i].end[1]);
    }
    free(x->chunk);
    x->chunk = NULL;
}

const int *tr_residents_of(const struct tr_residents *x, int chunk, int module, int *n)
{
    const struct tr_resident_chunk *c = &x->chunk[chunk];

    if (module > 0 && module <= c->layers) {
        *n = c->part[module - 1] >= 0;
        return &c->part[module - 1];
    }
    *n = c->ends[module > 0];
    return c->end[module > 0];
}
