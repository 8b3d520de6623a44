/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "pipeline/moves.h"

/*
 * Knows nothing of how lists are made: it follows where chunks are.
 */
struct chunk {
    bool there, changed;
    bool idle; /* came in this list and was not used */
};

struct follow {
    const struct tr_moves *m;
    struct chunk *chunk; /* [chunks] */
    int there;           /* chunks */
    int next;            /* of the list */
};

static const char *say(int moment, const char *fmt, ...) TR_PRINTF(2, 3);

/* The sentence, in static storage as the header promises. */
static const char *say(int moment, const char *fmt, ...)
{
    static char sentence[128];
    int n = snprintf(sentence, sizeof sentence, "moment %d: ", moment);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(sentence + n, sizeof sentence - (size_t)n, fmt, ap);
    va_end(ap);
    return sentence;
}

static const char *come(struct follow *f, const struct tr_move *v)
{
    struct chunk *c = &f->chunk[v->chunk];

    if (c->there)
        return say(v->moment, "chunk %d comes and is there", v->chunk);
    if (f->there >= f->m->room[v->moment % f->m->moments])
        return say(v->moment, "chunk %d comes and there is no room for it", v->chunk);
    *c = (struct chunk){.there = true, .idle = true};
    f->there++;
    return NULL;
}

static const char *leave(struct follow *f, const struct tr_move *v)
{
    struct chunk *c = &f->chunk[v->chunk];

    if (!c->there)
        return say(v->moment, "chunk %d leaves and is not there", v->chunk);
    if (c->idle)
        return say(v->moment, "chunk %d leaves and was not used", v->chunk);
    if (c->changed != (v->kind == TR_MOVE_WRITE))
        return say(v->moment, "chunk %d %s", v->chunk,
                   c->changed ? "was changed and is dropped" : "is written back without a change");
    c->there = c->changed = false;
    f->there--;
    return NULL;
}

static const char *move_all(struct follow *f, int moment)
{
    const char *fault = NULL;

    for (; !fault && f->next < f->m->n && f->m->move[f->next].moment == moment; f->next++) {
        const struct tr_move *v = &f->m->move[f->next];

        if (v->chunk < 0 || v->chunk >= f->m->chunks)
            return say(moment, "there is no chunk %d", v->chunk);
        fault = v->kind == TR_MOVE_FETCH ? come(f, v) : leave(f, v);
    }
    return fault;
}

/* Use `i` of the step. */
static const char *use(struct follow *f, int moment, int i)
{
    const struct tr_use *u = &f->m->use[i];
    struct chunk *c = &f->chunk[u->chunk];

    if (!c->there)
        return say(moment, "chunk %d is used and is not there", u->chunk);
    c->idle = false;
    c->changed = c->changed || u->changes;
    return NULL;
}

static const char *follow_step(struct follow *f, int from)
{
    const struct tr_moves *m = f->m;
    const char *fault = NULL;

    for (int moment = 0, i = 0; moment < m->moments && !fault; moment++) {
        fault = move_all(f, from + moment);
        if (!fault && f->there > m->room[moment])
            fault = say(from + moment, "%d chunks are there, and room is for %d", f->there,
                        m->room[moment]);
        for (; !fault && i < m->uses && m->use[i].moment == moment; i++)
            fault = use(f, from + moment, i);
    }
    return fault;
}

static const char *ends(const struct follow *f)
{
    const struct tr_moves *m = f->m;

    if (f->next < m->n)
        return say(m->move[f->next].moment, "there is no such moment, or it is over");
    for (int c = 0; c < m->chunks; c++)
        if (f->chunk[c].there != m->there[c] || f->chunk[c].changed != m->changed[c])
            return say(m->steps * m->moments, "chunk %d does not end as it began", c);
    return NULL;
}

const char *tr_moves_check(const struct tr_moves *m)
{
    struct follow f = {.m = m, .chunk = calloc((size_t)m->chunks + 1, sizeof *f.chunk)};
    const char *fault = NULL;

    if (!f.chunk)
        tr_die(TR_ERESOURCE, "no memory left to check moves of chunks");
    for (int c = 0; c < m->chunks; c++) {
        f.chunk[c] = (struct chunk){.there = m->there[c], .changed = m->changed[c]};
        f.there += m->there[c];
    }
    for (int s = 0; s < m->steps && !fault; s++)
        fault = follow_step(&f, s * m->moments);
    if (!fault)
        fault = ends(&f);
    free(f.chunk);
    return fault;
}
