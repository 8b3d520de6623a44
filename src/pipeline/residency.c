/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/residency.h"

#include <limits.h>
#include <stdlib.h>

#include "model/visits.h"
#include "pipeline/moves.h"

/* A module of a pass, in the order of the step. */
struct access {
    int chunk, module;
    bool writes;
};

/* A chunk comes to a window that is free from access `free` on; access `access` needs it. */
struct coming {
    int part, window, access, free;
};

/* What stands at the place in the list that the builder has come to. */
struct builder {
    const struct tr_residency *how;
    const struct tr_params *ps;
    struct tr_residents of;
    struct tr_sched *s;
    int n, room;
    struct tr_instr *list; /* [room], what is built */

    int accesses, at;      /* of the step; the one that comes next */
    struct access *access; /* [accesses] */
    struct tr_visit *visit;

    /* With chunks: the fetches of a step, and the one that comes next. */
    int coming, came;
    struct coming *come; /* [coming] */

    /* Of each part, or by window: what holds it. */
    int *holder, *writer; /* [parts], by window; -1 */
    bool *reducing;       /* [parts] */
    int *left;            /* [parts] writes to come in this pass */
    bool *here;           /* [parts] acquired in this step, of what has no window */
    bool *complete;       /* [parts], with in_order */
    int next;             /* and the first part that is not */
    int *soon;            /* [parts]: the last look ahead that found it needed */
    int look;
};

static void *need(size_t count, size_t size)
{
    void *p = calloc(count > 0 ? count : 1, size);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the plan of where weights are");
    return p;
}

static void append(struct builder *b, struct tr_instr in)
{
    if (b->n == b->room) {
        b->room = b->room < INT_MAX / 2 ? 2 * b->room + 64 : INT_MAX;
        b->list = realloc(b->list, (size_t)b->room * sizeof *b->list);
        if (!b->list)
            tr_die(TR_ERESOURCE, "no memory left for a step of more than %d instructions", b->n);
    }
    b->list[b->n++] = in;
}

static void append_item(struct builder *b, enum tr_instr_kind kind, struct tr_slot at, int item)
{
    append(b, (struct tr_instr){.kind = kind, .at = {at}, .item = item});
}

static int visits_of(const struct builder *b, int chunk, enum tr_visits_pass pass)
{
    const struct tr_resident_chunk *c = &b->of.chunk[chunk];
    const struct tr_visits_of of = {b->how->activations, c->layers, c->embeds, c->heads};

    return tr_visits(&of, pass, b->visit);
}

static int visits(const struct builder *b, const struct tr_instr *in)
{
    return visits_of(b, in->at[0].chunk, tr_residents_pass(b->s, in));
}

/* Whether the weights of the part must be acquired now: in a window each time, elsewhere once in a step. */
static bool awaited(const struct builder *b, int part)
{
    return b->ps->part[part].values_window >= 0 || (b->how->arrives && !b->here[part]);
}

static bool awaits(const struct builder *b, const struct tr_instr *in)
{
    const int visited = b->how->arrives ? visits(b, in) : 0;

    for (int k = 0; k < visited; k++) {
        int n;
        const int *part = tr_residents_of(&b->of, in->at[0].chunk, b->visit[k].module, &n);

        for (int i = 0; i < n; i++)
            if (awaited(b, part[i]))
                return true;
    }
    return false;
}

/* Whether the gradients of a pass are reduced once they are complete. */
static bool reduces(const struct builder *b, const struct tr_instr *in)
{
    const enum tr_reduce when = b->how->reduce;

    return in->kind != TR_FWD && (when == TR_REDUCE_EACH ||
                                  (when == TR_REDUCE_LAST && in->at[0].micro == b->s->micros - 1));
}

/* Whether anything has to be said about a pass. */
static bool concerned(const struct builder *b, const struct tr_instr *in)
{
    if (b->ps->windows || awaits(b, in))
        return true;
    return reduces(b, in);
}

static void list_accesses(struct builder *b)
{
    int most = 0;

    for (int c = 0; c < b->how->layout->k; c++)
        most = b->of.chunk[c].layers > most ? b->of.chunk[c].layers : most;
    b->visit = need(2 * (size_t)most + 2, sizeof *b->visit);
    for (int pass = 0; pass < 2; pass++) {
        b->accesses = 0;
        for (int i = 0; i < b->s->n && b->ps->windows; i++) {
            const struct tr_instr *in = &b->s->list[i];
            const int n = tr_instr_computes(in) ? visits(b, in) : 0;

            for (int k = 0; k < n; k++, b->accesses++)
                if (pass > 0)
                    b->access[b->accesses] =
                        (struct access){in->at[0].chunk, b->visit[k].module, b->visit[k].writes};
        }
        if (pass == 0)
            b->access = need((size_t)b->accesses, sizeof *b->access);
    }
}

/* The part of an access whose weights take a window, or -1. */
static int windowed(const struct builder *b, int access)
{
    int n;
    const int *part =
        tr_residents_of(&b->of, b->access[access].chunk, b->access[access].module, &n);

    return n > 0 && b->ps->part[part[0]].values_window >= 0 ? part[0] : -1;
}

static void fetch_to(struct builder *b, struct tr_slot at, int part, int window)
{
    b->holder[window] = part;
    append(b, (struct tr_instr){.kind = TR_FETCH, .at = {at}, .item = part, .window = window});
}

static void fetch(struct builder *b, struct tr_slot at, int part)
{
    fetch_to(b, at, part, b->ps->part[part].values_window);
}

/* ---- chunks ---- */

/* The chunks of all accesses, into use[] if it is not NULL.  Returns how many. */
static int list_uses(const struct builder *b, struct tr_use *use)
{
    int uses = 0;

    for (int i = 0; i < b->accesses; i++) {
        int n;
        const int *part = tr_residents_of(&b->of, b->access[i].chunk, b->access[i].module, &n);

        for (int k = 0; k < n; k++) {
            if (b->ps->part[part[k]].values_window < 0)
                continue;
            if (use)
                use[uses] = (struct tr_use){.moment = i, .chunk = part[k]};
            uses++;
        }
    }
    return uses;
}

/* A window for each fetch: the one that has been free for longest. */
static void give_windows(struct builder *b, const struct tr_moves *m, const struct tr_use *use)
{
    int *free_at = need(2 * (size_t)b->ps->slots, sizeof *free_at), *held = free_at + b->ps->slots;
    int *last = need((size_t)m->chunks, sizeof *last), u = 0;

    for (int w = 0; w < b->ps->slots; w++)
        held[w] = -1;
    for (int i = 0; i < m->n; i++) {
        const struct tr_move *v = &m->move[i];
        int to = -1;

        for (; u < m->uses && use[u].moment < v->moment; u++)
            last[use[u].chunk] = use[u].moment;
        for (int w = 0; w < b->ps->slots; w++)
            if (held[w] == (v->kind == TR_MOVE_FETCH ? -1 : v->chunk) &&
                (to < 0 || free_at[w] < free_at[to]))
                to = w;
        TR_ASSERT(to >= 0);
        held[to] = v->kind == TR_MOVE_FETCH ? v->chunk : -1;
        if (v->kind == TR_MOVE_FETCH)
            b->come[b->coming++] = (struct coming){v->chunk, to, v->moment, free_at[to]};
        else
            free_at[to] = last[v->chunk] + 1;
    }
    free(last);
    free(free_at);
}

/* Weights change between steps, so none is there when a step begins. */
static enum tr_status plan_chunks(struct builder *b)
{
    struct tr_moves m = {.chunks = b->ps->parts, .moments = b->accesses + 1};
    const int uses = list_uses(b, NULL);
    struct tr_use *use = need((size_t)uses, sizeof *use);
    int *room = need((size_t)m.moments, sizeof *room);
    enum tr_status s;

    m.uses = list_uses(b, use);
    m.use = use;
    m.room = room;
    for (int i = 0; i < b->accesses; i++)
        room[i] = b->ps->slots;
    s = tr_moves_plan(&m);
    if (s == TR_OK) {
        b->come = need((size_t)m.n, sizeof *b->come);
        give_windows(b, &m, use);
    }
    tr_moves_release(&m);
    free(room);
    free(use);
    return s;
}

/* The chunks that access `at` needs come, and behind it in the order of the plan those whose windows are free. */
static void bring(struct builder *b, struct tr_slot at, bool ahead)
{
    for (; b->came < b->coming; b->came++) {
        const struct coming *c = &b->come[b->came];

        if (ahead ? c->free > b->at : c->access > b->at)
            return;
        fetch_to(b, at, c->part, c->window);
    }
}

/* ---- layers ---- */

/* From access `from` on, fetch what the next layers need, unless its window is needed before. */
static void look_ahead(struct builder *b, struct tr_slot at, int from, int in_use)
{
    int found = 0;

    b->look++;
    if (in_use >= 0)
        b->soon[in_use] = b->look;
    for (int i = from; i < b->accesses && found < b->how->ahead; i++) {
        const int part = windowed(b, i);
        int held;

        if (part < 0 || b->soon[part] == b->look)
            continue;
        held = b->holder[b->ps->part[part].values_window];
        if (held != part && held >= 0 && b->soon[held] == b->look)
            return;
        if (held != part)
            fetch(b, at, part);
        b->soon[part] = b->look;
        found++;
    }
}

static void settle(struct builder *b, struct tr_slot at, int part)
{
    if (part < 0 || !b->reducing[part])
        return;
    b->reducing[part] = false;
    append_item(b, TR_SETTLE, at, part);
}

static void clear(struct builder *b, struct tr_slot at, int part)
{
    const int window = b->ps->part[part].grads_window;

    settle(b, at, part);
    if (window >= 0) {
        settle(b, at, b->writer[window]);
        b->writer[window] = part;
    }
    append_item(b, TR_CLEAR, at, part);
}

static void reduce(struct builder *b, struct tr_slot at, int part)
{
    append_item(b, TR_REDUCE, at, part);
    if (b->how->in_order)
        return;
    b->reducing[part] = true;
    if (b->how->at_once)
        settle(b, at, part);
}

/* Gradients of the part are complete; in order, those before it may not be. */
static void completed(struct builder *b, struct tr_slot at, int part)
{
    if (!b->how->in_order) {
        reduce(b, at, part);
        return;
    }
    b->complete[part] = true;
    while (b->next < b->ps->parts && b->complete[b->next])
        reduce(b, at, b->next++);
}

/* Add up how often the modules of a pass write each part, or with `anew` begin to. */
static void count_writes(struct builder *b, int chunk, enum tr_visits_pass pass, bool anew)
{
    const int n = visits_of(b, chunk, pass);

    for (int k = 0; k < n; k++) {
        int parts;
        const int *part = tr_residents_of(&b->of, chunk, b->visit[k].module, &parts);

        for (int i = 0; i < parts; i++)
            b->left[part[i]] = anew ? 0 : b->left[part[i]] + b->visit[k].writes;
    }
}

static void expect_writes(struct builder *b, const struct tr_instr *in)
{
    const enum tr_visits_pass pass = tr_residents_pass(b->s, in);
    const int chunk = in->at[0].chunk;

    count_writes(b, chunk, pass, true);
    count_writes(b, chunk, pass, false);
    if (pass == TR_VISITS_SPLIT)
        count_writes(b, chunk, TR_VISITS_WEIGHTS, false);
}

/* Before a module: its weights, and room for its gradients where it is the first of the pass to write them. */
static void before(struct builder *b, const struct tr_instr *in, struct tr_visit v, bool *cleared)
{
    int n;
    const int *part = tr_residents_of(&b->of, in->at[0].chunk, v.module, &n);

    bring(b, in->at[0], false);
    for (int i = 0; i < n && b->ps->slots == 0; i++) {
        const int window = b->ps->part[part[i]].values_window;

        if (window >= 0 && b->holder[window] != part[i])
            fetch(b, in->at[0], part[i]);
    }
    for (int i = 0; i < n && b->how->reduce == TR_REDUCE_EACH && v.writes; i++)
        if (!cleared[part[i]]) {
            cleared[part[i]] = true;
            clear(b, in->at[0], part[i]);
        }
    for (int i = 0; i < n; i++)
        if (awaited(b, part[i])) {
            append_item(b, TR_ACQUIRE, in->at[0], part[i]);
            b->here[part[i]] = true;
        }
    bring(b, in->at[0], true);
    if (b->ps->windows && b->ps->slots == 0)
        look_ahead(b, in->at[0], b->at + 1,
                   n > 0 && b->ps->part[part[0]].values_window >= 0 ? part[0] : -1);
    b->at++;
}

static void after(struct builder *b, const struct tr_instr *in, struct tr_visit v, bool last)
{
    int n;
    const int *part = tr_residents_of(&b->of, in->at[0].chunk, v.module, &n);

    for (int i = 0; i < n; i++)
        if (b->ps->part[part[i]].values_window >= 0)
            append_item(b, TR_RELEASE, in->at[0], part[i]);
    for (int i = 0; i < n && v.writes; i++)
        if (--b->left[part[i]] == 0 && last)
            completed(b, in->at[0], part[i]);
}

static void add_pass(struct builder *b, const struct tr_instr *in)
{
    bool *cleared = need((size_t)b->ps->parts, sizeof *cleared);
    int n;

    if (in->kind != TR_FWD)
        expect_writes(b, in);
    n = visits(b, in);
    for (int k = 0; k < n; k++) {
        before(b, in, b->visit[k], cleared);
        append_item(b, TR_MODULE, in->at[0], b->visit[k].module);
        after(b, in, b->visit[k], reduces(b, in));
    }
    free(cleared);
}

static void add_all(struct builder *b)
{
    struct tr_slot at = {0, 0};

    bring(b, at, true);
    if (b->ps->slots == 0)
        look_ahead(b, at, 0, -1);
    for (int i = 0; i < b->s->n; i++) {
        append(b, b->s->list[i]);
        if (!tr_instr_computes(&b->s->list[i]) || !concerned(b, &b->s->list[i]))
            continue;
        add_pass(b, &b->s->list[i]);
        at = b->s->list[i].at[0];
    }
    for (int i = 0; i < b->ps->parts; i++)
        settle(b, at, i);
}

static bool needed(const struct tr_residency *how, const struct tr_sched *s)
{
    return how->params->windows || how->arrives ||
           (how->reduce != TR_REDUCE_AFTER && s->kind != TR_SCHED_EVAL);
}

enum tr_status tr_residency_add(const struct tr_residency *how, struct tr_sched *s)
{
    const size_t parts = (size_t)how->params->parts;
    struct builder b = {.how = how, .ps = how->params, .s = s};
    enum tr_status status = TR_OK;

    if (!needed(how, s))
        return TR_OK;
    tr_residents_open(how, &b.of);
    b.holder = need(3 * parts, sizeof *b.holder);
    b.writer = b.holder + parts;
    b.left = b.writer + parts;
    b.soon = need(parts, sizeof *b.soon);
    b.reducing = need(3 * parts, sizeof *b.reducing);
    b.complete = b.reducing + parts;
    b.here = b.complete + parts;
    for (size_t i = 0; i < parts; i++)
        b.complete[i] = how->params->part[i].places == 0; /* padding */
    for (size_t i = 0; i < 2 * parts; i++)
        b.holder[i] = -1;
    list_accesses(&b);
    if (b.ps->slots > 0)
        status = plan_chunks(&b);
    if (status == TR_OK) {
        add_all(&b);
        free(s->list);
        s->list = b.list;
        s->n = b.n;
    }
    free(b.come);
    free(b.holder);
    free(b.soon);
    free(b.reducing);
    free(b.access);
    free(b.visit);
    tr_residents_close(&b.of);
    return status;
}

struct tr_residency_count tr_residency_count(const struct tr_params *ps, const struct tr_sched *s,
                                             int from)
{
    struct tr_residency_count n = {0};

    for (int i = 0; i < s->n; i++) {
        const struct tr_instr *in = &s->list[i];

        if (in->kind < TR_FETCH || in->kind == TR_MODULE || in->item < from)
            continue;
        n.fetches += in->kind == TR_FETCH;
        n.fetched += in->kind == TR_FETCH ? ps->part[in->item].count : 0;
        n.reduced += in->kind == TR_REDUCE ? ps->part[in->item].count : 0;
        n.reductions += in->kind == TR_REDUCE && ps->part[in->item].grads_window >= 0;
    }
    return n;
}
