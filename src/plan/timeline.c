/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "comm/grid.h"
#include "pipeline/sched.h"
#include "plan/formulas.h"
#include "plan/plan_parts.h"
#include "train/trace_file.h"

/* Of all stages: a file of some hundred MB. */
static const double MOST_PASSES = 1e6;

/* The schedule that a plan runs, with its times. */
struct drawn {
    const struct tr_plan *p;
    struct tr_plan_pipe bare;
    double message;        /* seconds that a message adds to its pass */
    struct tr_sched *list; /* [stages] */
    double **end;          /* [stages][n] of the instructions that compute */
    double passes;         /* seconds until all stages are done */
};

static void *need(size_t count, size_t bytes)
{
    void *p = calloc(count, bytes);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the timeline of a plan");
    return p;
}

static void drawn_open(const struct tr_plan *p, struct drawn *d)
{
    const int stages = p->shape.layout.p;
    struct tr_plan_pipe sent;

    *d = (struct drawn){.p = p,
                        .list = need((size_t)stages, sizeof *d->list),
                        .end = need((size_t)stages, sizeof *d->end)};
    d->message = tr_plan_pipe_open(&p->config, &p->shape, &p->machine, &d->bare);
    tr_plan_pipe_open(&p->config, &p->shape, &p->machine, &sent);
    tr_plan_add_transfers(&sent, d->message);
    for (int stage = 0; stage < stages; stage++) {
        d->list[stage] = tr_plan_list(&p->shape, stage, p->shape.batches.micros);
        if (tr_sched_build(&d->list[stage]) != TR_OK)
            tr_die(TR_ERESOURCE, "%s", tr_last_error());
        d->end[stage] = need((size_t)d->list[stage].n + 1, sizeof *d->end[stage]);
    }
    d->passes = tr_sched_ends(d->list, sent.forward, sent.backward, sent.weights, d->end);
    tr_plan_pipe_close(&sent);
}

static void drawn_close(struct drawn *d)
{
    for (int stage = 0; stage < d->p->shape.layout.p; stage++) {
        tr_sched_release(&d->list[stage]);
        free(d->end[stage]);
    }
    free(d->list);
    free(d->end);
    tr_plan_pipe_close(&d->bare);
}

static struct tr_span span_of(enum tr_timer timer, double begin, double seconds)
{
    return (struct tr_span){
        .begin = begin, .end = begin + seconds, .wait = -1.0, .timer = (uint8_t)timer};
}

/* From `free` on the stage waits for a message; what has no message to wait for is no wait. */
static int put_wait(const struct tr_instr *in, double free, double until, struct tr_span *span)
{
    if (until - free < 1e-9 || in->kind == TR_WGT)
        return 0;
    *span = tr_trace_message(in->kind == TR_FWD ? 1 : 3, in->at[0], free, until);
    span->wait = until - free;
    return 1;
}

/* The pass and the message that it sends; returns how many spans. */
static int put_pass(const struct drawn *d, int stage, int i, struct tr_span *span)
{
    const struct tr_layout *l = &d->p->shape.layout;
    const struct tr_instr *in = &d->list[stage].list[i];
    const int chunk = in->at[0].chunk;
    const double *seconds = in->kind == TR_FWD   ? d->bare.forward
                            : in->kind == TR_BWD ? d->bare.backward
                                                 : d->bare.weights;
    const bool sends = d->message > 0.0 && in->kind != TR_WGT &&
                       tr_plan_sends(l, stage, chunk, in->kind == TR_FWD ? 1 : -1);
    const double end = d->end[stage][i], done = sends ? end - d->message : end;

    span[0] = tr_trace_pass(in->kind, in->at[0], done - seconds[stage * l->k + chunk], done);
    if (sends)
        span[1] = tr_trace_message(in->kind == TR_FWD ? 0 : 2, in->at[0], done, end);
    return sends ? 2 : 1;
}

static void put_stage(const struct drawn *d, int stage, struct tr_trace_head *head, FILE *f)
{
    const struct tr_plan *p = d->p;
    const struct tr_sched *list = &d->list[stage];
    struct tr_span *span = need(3 * (size_t)list->n + 3, sizeof *span);
    struct tr_trace_rank about = {.rank = p->stage[stage].rank};
    const double update = d->passes + p->time.reduce;
    double free_from = 0.0;
    int n = 0;

    about.at = tr_grid_place(&p->shape.layout, about.rank);
    snprintf(about.host, sizeof about.host, "%.*s", (int)sizeof about.host - 1, p->machine.name);
    span[n++] = span_of(TR_TIMER_FORWARD_BACKWARD, 0.0, d->passes);
    for (int i = 0; i < list->n; i++) {
        struct tr_span pass[2];
        int count;

        if (!tr_instr_computes(&list->list[i]))
            continue;
        count = put_pass(d, stage, i, pass);
        n += put_wait(&list->list[i], free_from, pass[0].begin, &span[n]);
        for (int k = 0; k < count; k++)
            span[n++] = pass[k];
        free_from = d->end[stage][i];
    }
    span[n] = span_of(TR_TIMER_PARAMS_ALL_REDUCE, free_from, update - free_from);
    span[n++].wait = d->passes - free_from;
    span[n++] = span_of(TR_TIMER_OPTIMIZER, update, p->time.optimizer);
    about.count = n;
    tr_trace_put(f, head, &about, span);
    free(span);
}

enum tr_status tr_plan_trace(const struct tr_plan *p, FILE *f)
{
    const struct tr_layout *l = &p->shape.layout;
    struct tr_trace_head head = {
        .ranks = l->world, .first = 1, .last = 1, .from = "planned", .length = p->time.total};
    struct drawn d;

    if (2.0 * l->p * l->k * p->shape.batches.micros > MOST_PASSES)
        return TR_FAIL(TR_ECONFIG,
                       "%d stages of %d chunks with %d micro-batches have more passes than the "
                       "%.0f of a timeline: take a smaller --global-batch-size, or leave "
                       "--plan-trace out",
                       l->p, l->k, p->shape.batches.micros, MOST_PASSES);
    drawn_open(p, &d);
    tr_trace_begin(f, &head);
    for (int stage = 0; stage < l->p; stage++)
        put_stage(&d, stage, &head, f);
    tr_trace_end(f);
    drawn_close(&d);
    return TR_OK;
}
