/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdlib.h>

#include "model/visits.h"
#include "pipeline/residency.h"

/*
 * Knows nothing of how lists are made: it follows what windows hold.
 */
struct state {
    bool fetched, acquired, used; /* weights: on their way or there, there, read since they came */
    bool cleared, complete,
        reduces;    /* gradients: may be written, are not written any more, under way */
    int reductions; /* so far */
    int writes;     /* to come in this pass */
};

struct follow {
    const struct tr_residency *how;
    const struct tr_sched *s;
    struct tr_residents of;
    struct state *part; /* [parts] */
    int *holder, *writer;
    struct tr_visit *visit;
    int visits, next;           /* of the pass under way */
    const struct tr_instr *now; /* its computation, or NULL */
    bool spoken;                /* it has instructions of residency */
};

static const char *say(const struct follow *f, int at, const char *fmt, ...) TR_PRINTF(3, 4);

/* The sentence, in static storage as the header promises. */
static const char *say(const struct follow *f, int at, const char *fmt, ...)
{
    static char sentence[256];
    int n = snprintf(sentence, sizeof sentence, "rank %d, instruction %d: ", f->s->rank, at);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(sentence + n, sizeof sentence - (size_t)n, fmt, ap);
    va_end(ap);
    return sentence;
}

static const struct tr_param_part *part_of(const struct follow *f, int part)
{
    return &f->how->params->part[part];
}

/* Windows of chunks are any, and of layers those that parts have. */
static bool is_window(const struct follow *f, int part, int window)
{
    const int own = part_of(f, part)->values_window;

    if (f->how->params->slots > 0)
        return own >= 0 && window >= 0 && window < f->how->params->slots;
    return own >= 0 && window == own;
}

static const char *fetch(struct follow *f, int at, int part, int window)
{
    struct state *before;

    if (!is_window(f, part, window))
        return say(f, at, "part %d is fetched and has no window %d", part, window);
    if (f->part[part].fetched)
        return say(f, at, "part %d is fetched and is there already", part);
    before = f->holder[window] >= 0 ? &f->part[f->holder[window]] : NULL;
    if (before && before->acquired)
        return say(f, at, "part %d takes the window of part %d, which is in use", part,
                   f->holder[window]);
    if (before && !before->used)
        return say(f, at, "part %d takes the window of part %d, which was fetched in vain", part,
                   f->holder[window]);
    if (before)
        before->fetched = false;
    f->holder[window] = part;
    f->part[part].fetched = true;
    f->part[part].used = false;
    return NULL;
}

static const char *acquire(struct follow *f, int at, int part)
{
    struct state *p = &f->part[part];

    if (part_of(f, part)->values_window >= 0 && !p->fetched)
        return say(f, at, "the weights of part %d are waited for and were not fetched", part);
    p->acquired = p->used = true;
    return NULL;
}

static const char *clear(struct follow *f, int at, int part)
{
    const int window = part_of(f, part)->grads_window;
    struct state *p = &f->part[part];

    if (!f->now || f->now->kind != TR_BWD)
        return say(f, at, "there is no backward pass that writes part %d", part);
    if (p->reduces || (window >= 0 && f->writer[window] >= 0 && f->part[f->writer[window]].reduces))
        return say(f, at, "gradients of part %d would overwrite some that are being reduced", part);
    if (window >= 0 && f->writer[window] >= 0)
        f->part[f->writer[window]].cleared = false;
    if (window >= 0)
        f->writer[window] = part;
    p->cleared = true;
    p->complete = false;
    return NULL;
}

static const char *module(struct follow *f, int at, int module)
{
    const struct tr_visit *v;
    const int *part;
    int n;

    if (!f->now || f->next == f->visits || f->visit[f->next].module != module)
        return say(f, at, "module %d computes where another is due", module);
    v = &f->visit[f->next++];
    f->spoken = true;
    part = tr_residents_of(&f->of, f->now->at[0].chunk, module, &n);
    for (int i = 0; i < n; i++) {
        struct state *p = &f->part[part[i]];

        if ((part_of(f, part[i])->values_window >= 0 || f->how->arrives) && !p->acquired)
            return say(f, at, "module %d reads part %d, which was not acquired", module, part[i]);
        if (!v->writes)
            continue;
        if (f->how->reduce == TR_REDUCE_EACH && !p->cleared)
            return say(f, at, "module %d writes gradients of part %d, which were not cleared",
                       module, part[i]);
        p->complete = --p->writes == 0;
    }
    return NULL;
}

static const char *release(struct follow *f, int at, int part)
{
    if (!f->part[part].acquired)
        return say(f, at, "part %d is released and was not acquired", part);
    f->part[part].acquired = false;
    return NULL;
}

static const char *reduce(struct follow *f, int at, int part)
{
    struct state *p = &f->part[part];

    if (!f->now || f->now->kind == TR_FWD || f->how->reduce == TR_REDUCE_AFTER)
        return say(f, at, "part %d is reduced where there are no gradients", part);
    if (f->how->reduce == TR_REDUCE_LAST && f->now->at[0].micro != f->s->micros - 1)
        return say(f, at, "part %d is reduced before the last micro-batch", part);
    if (!p->complete && part_of(f, part)->places)
        return say(f, at, "part %d is reduced and its gradients are not complete", part);
    if (p->reduces)
        return say(f, at, "part %d is reduced while it is being reduced", part);
    for (int i = 0; i < part && f->how->in_order; i++)
        if (f->part[i].reductions == 0)
            return say(f, at, "part %d is reduced before part %d", part, i);
    p->reductions++;
    p->reduces = !f->how->in_order;
    p->complete = p->cleared = false;
    return NULL;
}

static const char *settle(struct follow *f, int at, int part)
{
    if (!f->part[part].reduces)
        return say(f, at, "part %d is settled and is not being reduced", part);
    f->part[part].reduces = false;
    return NULL;
}

/* A pass ends with all its modules done, one by one if nothing was said of it. */
static const char *end_pass(struct follow *f, int at)
{
    const char *fault = NULL;

    if (f->spoken && f->next < f->visits)
        return say(f, at, "a pass ends before its module %d", f->visit[f->next].module);
    while (f->now && f->next < f->visits && !fault)
        fault = module(f, at, f->visit[f->next].module);
    return fault;
}

/* Add up what the modules of a pass will write, or with `anew` begin to. */
static void expect(struct follow *f, int chunk, enum tr_visits_pass pass, bool anew)
{
    const struct tr_resident_chunk *c = &f->of.chunk[chunk];
    const struct tr_visits_of of = {f->how->activations, c->layers, c->embeds, c->heads};

    f->visits = tr_visits(&of, pass, f->visit);
    for (int k = 0; k < f->visits; k++) {
        int n;
        const int *part = tr_residents_of(&f->of, chunk, f->visit[k].module, &n);

        for (int i = 0; i < n; i++) {
            struct state *p = &f->part[part[i]];

            p->writes = anew ? 0 : p->writes + f->visit[k].writes;
            p->complete = p->complete && !f->visit[k].writes;
        }
    }
}

/* Where the backward pass is split, gradients of layers are not complete when its first half ends. */
static void begin_pass(struct follow *f, const struct tr_instr *in)
{
    const enum tr_visits_pass pass = tr_residents_pass(f->s, in);

    f->now = in;
    f->next = 0;
    f->spoken = false;
    expect(f, in->at[0].chunk, pass, true);
    if (pass == TR_VISITS_SPLIT)
        expect(f, in->at[0].chunk, TR_VISITS_WEIGHTS, false);
    expect(f, in->at[0].chunk, pass, false);
}

static const char *step(struct follow *f, int i)
{
    const struct tr_instr *in = &f->s->list[i];

    switch (in->kind) {
    case TR_FETCH:
        return fetch(f, i, in->item, in->window);
    case TR_ACQUIRE:
        return acquire(f, i, in->item);
    case TR_CLEAR:
        return clear(f, i, in->item);
    case TR_MODULE:
        return module(f, i, in->item);
    case TR_RELEASE:
        return release(f, i, in->item);
    case TR_REDUCE:
        return reduce(f, i, in->item);
    case TR_SETTLE:
        return settle(f, i, in->item);
    case TR_FWD:
    case TR_BWD:
    case TR_WGT: {
        const char *fault = end_pass(f, i);

        begin_pass(f, in);
        return fault;
    }
    default:
        return NULL;
    }
}

static const char *ends(const struct follow *f)
{
    const int wanted = f->s->kind == TR_SCHED_EVAL        ? 0
                       : f->how->reduce == TR_REDUCE_EACH ? f->s->micros
                       : f->how->reduce == TR_REDUCE_LAST ? 1
                                                          : 0;

    for (int i = 0; i < f->how->params->parts; i++) {
        const struct state *p = &f->part[i];

        if (p->reductions != wanted)
            return say(f, f->s->n, "part %d is reduced %d times instead of %d", i, p->reductions,
                       wanted);
        if (p->reduces)
            return say(f, f->s->n, "part %d is never settled", i);
        if (p->fetched && !p->used)
            return say(f, f->s->n, "part %d is fetched in vain", i);
    }
    return NULL;
}

static void *need(size_t count, size_t size)
{
    void *p = calloc(count > 0 ? count : 1, size);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left to check where weights are");
    return p;
}

const char *tr_residency_check(const struct tr_residency *how, const struct tr_sched *s)
{
    const size_t parts = (size_t)how->params->parts;
    struct follow f = {.how = how, .s = s};
    const char *fault = NULL;
    int most = 0;

    tr_residents_open(how, &f.of);
    for (int c = 0; c < how->layout->k; c++)
        most = f.of.chunk[c].layers > most ? f.of.chunk[c].layers : most;
    f.visit = need(2 * (size_t)most + 2, sizeof *f.visit);
    f.part = need(parts, sizeof *f.part);
    f.holder = need(2 * parts, sizeof *f.holder);
    f.writer = f.holder + parts;
    for (size_t i = 0; i < 2 * parts; i++)
        f.holder[i] = -1;
    for (int i = 0; i < s->n && !fault; i++) {
        const struct tr_instr *in = &s->list[i];

        if (in->kind >= TR_FETCH && in->kind != TR_MODULE &&
            (in->item < 0 || in->item >= how->params->parts))
            fault = say(&f, i, "there is no part %d", in->item);
        else
            fault = step(&f, i);
    }
    if (!fault)
        fault = end_pass(&f, s->n);
    if (!fault)
        fault = ends(&f);
    free(f.visit);
    free(f.part);
    free(f.holder);
    tr_residents_close(&f.of);
    return fault;
}
