/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/cuda_graph.h"

#include <stdio.h>
#include <stdlib.h>

#include "util/log.h"

struct tr_graph {
    struct tr_graph *next;
    cudaGraphExec_t exec;
    int nodes;
};

/* The same as tr_cuda_must(), and how to do without. */
static void must(const struct tr_cuda *g, cudaError_t error, const char *call)
{
    if (error == cudaSuccess)
        return;
    tr_die(error == cudaErrorMemoryAllocation ? TR_ERESOURCE : TR_EINTERNAL,
           "GPU %d (%s, %s): %s failed with %s: %s; without --cuda-graph-impl local there are no "
           "CUDA graphs, and the run needs less memory",
           g->ordinal, g->name, g->uuid, call, cudaGetErrorName(error), cudaGetErrorString(error));
}

static size_t memory_left(const struct tr_cuda *g)
{
    size_t left = 0, all = 0;

    must(g, cudaMemGetInfo(&left, &all), "cudaMemGetInfo");
    return left;
}

void tr_cuda_capture(struct tr_queue *q)
{
    struct tr_cuda *g = tr_cuda_of(q->device);

    TR_ASSERT(!g->capturing);
    if (!g->graphs.list)
        g->graphs.left_before = memory_left(g);
    g->capturing = true;
    must(g, cudaStreamBeginCapture(g->compute, cudaStreamCaptureModeThreadLocal),
         "cudaStreamBeginCapture");
}

/* The graph itself is a description that what is instantiated does not need. */
static void instantiate(const struct tr_cuda *g, struct tr_graph *made, cudaGraph_t graph)
{
    size_t nodes = 0;

    must(g, cudaGraphGetNodes(graph, NULL, &nodes), "cudaGraphGetNodes");
    must(g, cudaGraphInstantiateWithFlags(&made->exec, graph, 0), "cudaGraphInstantiateWithFlags");
    must(g, cudaGraphDestroy(graph), "cudaGraphDestroy");
    made->nodes = (int)nodes;
}

struct tr_graph *tr_cuda_captured(struct tr_queue *q)
{
    struct tr_cuda *g = tr_cuda_of(q->device);
    struct tr_graph *made = calloc(1, sizeof *made);
    cudaGraph_t graph = NULL;

    TR_ASSERT(g->capturing);
    if (!made)
        tr_die(TR_ERESOURCE, "no memory left for the list of CUDA graphs");
    must(g, cudaStreamEndCapture(g->compute, &graph), "cudaStreamEndCapture");
    g->capturing = false;
    instantiate(g, made, graph);
    made->next = g->graphs.list;
    g->graphs.list = made;
    g->graphs.count++;
    g->graphs.nodes += made->nodes;
    return made;
}

void tr_cuda_replay(struct tr_queue *q, struct tr_graph *graph)
{
    struct tr_cuda *g = tr_cuda_of(q->device);

    TR_ASSERT(!g->capturing);
    tr_cuda_pace(g, &g->pace, graph->nodes + 1);
    must(g, cudaGraphLaunch(graph->exec, g->compute), "cudaGraphLaunch");
}

void tr_cuda_graphs_close(struct tr_cuda *g)
{
    struct tr_graph *next;

    for (struct tr_graph *x = g->graphs.list; x; x = next) {
        next = x->next;
        (void)cudaGraphExecDestroy(x->exec);
        free(x);
    }
    g->graphs.list = NULL;
}

const char *tr_cuda_graphs_news(struct tr_cuda *g)
{
    struct tr_cuda_graphs *x = &g->graphs;
    size_t left;

    if (x->count == x->told)
        return NULL;
    x->told = x->count;
    left = memory_left(g);
    snprintf(
        x->line, sizeof x->line,
        "CUDA graphs: %d captured, %lld operations; since the first the GPU has %.1f MiB of memory "
        "less",
        x->count, (long long)x->nodes,
        left < x->left_before ? (double)(x->left_before - left) / 1048576.0 : 0.0);
    return x->line;
}
