/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/graphs.h"

#include <stdlib.h>
#include <string.h>

#include "util/log.h"

struct tr_met {
    struct tr_pass pass;
    struct tr_graph *graph; /* NULL until the pass comes again; of the device */
};

static struct tr_met *find(const struct tr_graphs *g, const struct tr_pass *pass)
{
    for (int i = 0; i < g->count; i++)
        if (memcmp(&g->met[i].pass, pass, sizeof *pass) == 0)
            return &g->met[i];
    return NULL;
}

static void add(struct tr_graphs *g, const struct tr_pass *pass)
{
    g->met = realloc(g->met, ((size_t)g->count + 1) * sizeof *g->met);
    if (!g->met)
        tr_die(TR_ERESOURCE, "no memory left for the list of CUDA graphs");
    g->met[g->count++] = (struct tr_met){.pass = *pass};
}

void tr_graphs_run(struct tr_graphs *g, struct tr_queue *q, const struct tr_pass *pass,
                   void (*work)(void *ctx), void *ctx)
{
    struct tr_met *met = find(g, pass);

    if (!met) {
        add(g, pass);
        work(ctx);
        return;
    }
    if (!met->graph) {
        q->on->capture(q);
        work(ctx);
        met->graph = q->on->captured(q);
    }
    q->on->replay(q, met->graph);
}

void tr_graphs_close(struct tr_graphs *g)
{
    free(g->met);
    *g = (struct tr_graphs){0};
}
