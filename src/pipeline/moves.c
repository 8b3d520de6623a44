/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/moves.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum state { AWAY, CLEAN, CHANGED };

struct planner {
    struct tr_moves *m;
    int *due;    /* [chunks] the moment of the next use, of what is there */
    int *next;   /* [uses] moments from a use to the next one of its chunk */
    char *state; /* [chunks] enum state */
    int room;    /* of m->move */
    int steps;
    char *past; /* [steps][chunks] the states that steps began with */
    int *began; /* [steps] moves before it */
};

static void *more(void *p, int count, size_t size)
{
    p = realloc(p, (size_t)(count > 0 ? count : 1) * size);
    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the plan of moves of chunks");
    return p;
}

static void append(struct planner *p, enum tr_move_kind kind, int moment, int chunk)
{
    struct tr_moves *m = p->m;

    if (m->n == p->room) {
        p->room = p->room < INT_MAX / 2 ? 2 * p->room + 64 : INT_MAX;
        m->move = more(m->move, p->room, sizeof *m->move);
    }
    m->move[m->n++] = (struct tr_move){kind, moment, chunk};
}

/* From each use to the next one of the same chunk, in this step or the one after it. */
static void find_next(struct planner *p)
{
    const struct tr_moves *m = p->m;
    int *seen = more(NULL, m->chunks, sizeof *seen);

    for (int c = 0; c < m->chunks; c++)
        seen[c] = -1;
    for (int i = 2 * m->uses - 1; i >= 0; i--) {
        const struct tr_use *u = &m->use[i % m->uses];
        const int moment = u->moment + i / m->uses * m->moments;

        if (i < m->uses)
            p->next[i] = seen[u->chunk] - moment;
        seen[u->chunk] = moment;
    }
    free(seen);
}

static int resident(const struct planner *p)
{
    int n = 0;

    for (int c = 0; c < p->m->chunks; c++)
        n += p->state[c] != AWAY;
    return n;
}

/* What is there and not used in moment `now`, and is needed last of all; or -1. */
static int victim(const struct planner *p, int now)
{
    int found = -1;

    for (int c = 0; c < p->m->chunks; c++)
        if (p->state[c] != AWAY && p->due[c] != now && (found < 0 || p->due[c] > p->due[found]))
            found = c;
    return found;
}

static void leave(struct planner *p, int now, int chunk)
{
    append(p, p->state[chunk] == CHANGED ? TR_MOVE_WRITE : TR_MOVE_DROP, now, chunk);
    p->state[chunk] = AWAY;
}

/* Uses first .. end - 1 are those of moment `now`, for which there is `room`. */
static enum tr_status pass(struct planner *p, int now, int room, int first, int end)
{
    const struct tr_moves *m = p->m;
    int excess = resident(p) - room;

    for (int i = first; i < end; i++)
        excess += p->state[m->use[i].chunk] == AWAY;
    for (; excess > 0; excess--) {
        const int out = victim(p, now);

        if (out < 0)
            return TR_FAIL(TR_ECONFIG,
                           "%d chunks are used at one time, and there is room for %d: give more "
                           "memory",
                           end - first, room);
        leave(p, now, out);
    }
    for (int i = first; i < end; i++) {
        const struct tr_use *u = &m->use[i];

        if (p->state[u->chunk] == AWAY) {
            append(p, TR_MOVE_FETCH, now, u->chunk);
            p->state[u->chunk] = CLEAN;
        }
        if (u->changes)
            p->state[u->chunk] = CHANGED;
        p->due[u->chunk] = now + p->next[i];
    }
    return TR_OK;
}

static enum tr_status pass_step(struct planner *p, int from)
{
    const struct tr_moves *m = p->m;

    for (int moment = 0, i = 0; moment < m->moments; moment++) {
        const int first = i;

        while (i < m->uses && m->use[i].moment == moment)
            i++;
        TR_TRY(pass(p, from + moment, m->room[moment], first, i));
    }
    return TR_OK;
}

/* The step that began as the next one would, or -1; and the next one begins. */
static int recall(struct planner *p)
{
    const size_t chunks = (size_t)p->m->chunks;

    for (int s = 0; s < p->steps; s++)
        if (memcmp(p->past + (size_t)s * chunks, p->state, chunks) == 0)
            return s;
    p->past = more(p->past, (p->steps + 1) * p->m->chunks, 1);
    p->began = more(p->began, p->steps + 1, sizeof *p->began);
    memcpy(p->past + (size_t)p->steps * chunks, p->state, chunks);
    p->began[p->steps++] = p->m->n;
    return -1;
}

/* What steps `first` and those behind it did is the list. */
static void keep(struct planner *p, int first)
{
    struct tr_moves *m = p->m;
    const int from = p->began[first];

    m->steps = p->steps - first;
    m->n -= from;
    m->there = more(NULL, m->chunks, sizeof *m->there);
    m->changed = more(NULL, m->chunks, sizeof *m->changed);
    for (int c = 0; c < m->chunks; c++) {
        m->there[c] = p->state[c] != AWAY;
        m->changed[c] = p->state[c] == CHANGED;
    }
    for (int i = 0; i < m->n; i++) {
        m->move[i] = m->move[from + i];
        m->move[i].moment -= first * m->moments;
        m->count[m->move[i].kind]++;
    }
}

enum tr_status tr_moves_plan(struct tr_moves *m)
{
    struct planner p = {.m = m};
    enum tr_status s = TR_OK;
    int same;

    m->n = 0;
    m->move = NULL;
    m->there = m->changed = NULL;
    memset(m->count, 0, sizeof m->count);
    p.due = more(NULL, m->chunks, sizeof *p.due);
    p.next = more(NULL, m->uses, sizeof *p.next);
    p.state = more(NULL, m->chunks, 1);
    memset(p.state, AWAY, (size_t)m->chunks);
    find_next(&p);
    for (; (same = recall(&p)) < 0 && s == TR_OK;)
        s = pass_step(&p, (p.steps - 1) * m->moments);
    if (s == TR_OK)
        keep(&p, same);
    free(p.due);
    free(p.next);
    free(p.state);
    free(p.past);
    free(p.began);
    return s;
}

void tr_moves_release(struct tr_moves *m)
{
    free(m->move);
    free(m->there);
    free(m->changed);
    m->move = NULL;
    m->there = m->changed = NULL;
}
