/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/sched.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

#include "pipeline/sched_parts.h"

static struct tr_instr *append(struct tr_sched *s, enum tr_instr_kind kind)
{
    struct tr_instr *i = &s->list[s->n++];

    *i = (struct tr_instr){.kind = kind};
    return i;
}

void tr_list_work(struct tr_sched *s, struct tr_work_item w)
{
    if (w.kind != TR_XFER)
        append(s, w.kind)->at[0] = w.at;
}

struct tr_route tr_sched_route(const struct tr_sched *s)
{
    return (struct tr_route){.ranks = s->ranks, .chunks = s->chunks, .vee = s->vee};
}

int tr_sched_peer(const struct tr_sched *s, enum tr_leg_bit leg, int chunk)
{
    const int step = leg & (TR_SEND_FWD | TR_RECV_BWD) ? 1 : -1;

    const int rank = tr_route_peer(tr_sched_route(s), (struct tr_vstage){s->rank, chunk}, step);

    return rank == s->rank ? -1 : rank;
}

int tr_sched_local(const struct tr_sched *s, enum tr_leg_bit leg, int chunk)
{
    const int step = leg & (TR_SEND_FWD | TR_RECV_BWD) ? 1 : -1;
    const struct tr_vstage at = {s->rank, chunk};
    const struct tr_route route = tr_sched_route(s);

    if (tr_route_peer(route, at, step) != s->rank)
        return -1;
    return tr_route_at(route, tr_route_number(route, at) + step).chunk;
}

int tr_sched_side(const struct tr_sched *s, int chunk)
{
    return s->vee ? chunk : 0;
}

/* Which of at[] belongs to a leg. */
static int index_of(enum tr_leg_bit leg)
{
    int k = 0;

    while (1 << k != (int)leg)
        k++;
    return k;
}

void tr_list_leg(struct tr_instr *i, enum tr_leg_bit leg, struct tr_slot at)
{
    i->legs |= leg;
    i->at[index_of(leg)] = at;
}

static void append_leg(struct tr_sched *s, unsigned leg, struct tr_slot at)
{
    if (leg)
        tr_list_leg(append(s, TR_XFER), (enum tr_leg_bit)leg, at);
}

/* ---- one chunk per rank: gpipe, 1f1b, eval ---- */

int tr_list_warm(const struct tr_sched *s, int rank)
{
    const bool all = s->kind == TR_SCHED_GPIPE || s->kind == TR_SCHED_EVAL;

    return all || s->ranks - 1 - rank > s->micros ? s->micros : s->ranks - 1 - rank;
}

struct tr_work_item tr_list_plain(const struct tr_sched *s, int i)
{
    const int warm = tr_list_warm(s, s->rank), pairs = s->micros - warm;

    if (i < warm)
        return (struct tr_work_item){TR_FWD, {0, i}};
    if (i >= warm + 2 * pairs)
        return (struct tr_work_item){TR_BWD, {0, i - s->micros}};
    if ((i - warm) % 2 == 0)
        return (struct tr_work_item){TR_FWD, {0, warm + (i - warm) / 2}};
    return (struct tr_work_item){TR_BWD, {0, (i - warm) / 2}};
}

unsigned tr_list_leg_before(const struct tr_sched *s, struct tr_work_item w)
{
    const enum tr_leg_bit leg = w.kind == TR_FWD ? TR_RECV_FWD : TR_RECV_BWD;

    return tr_sched_peer(s, leg, w.at.chunk) >= 0 ? leg : 0;
}

unsigned tr_list_leg_after(const struct tr_sched *s, struct tr_work_item w)
{
    const enum tr_leg_bit leg = w.kind == TR_FWD ? TR_SEND_FWD : TR_SEND_BWD;

    return tr_sched_peer(s, leg, w.at.chunk) >= 0 ? leg : 0;
}

/* Between two computations: one transfer if both legs are with the same neighbour, else two. */
static void append_between(struct tr_sched *s, struct tr_work_item done, struct tr_work_item todo)
{
    unsigned send = tr_list_leg_after(s, done), receive = tr_list_leg_before(s, todo);

    append_leg(s, send, done.at);
    if (send && receive && done.kind != todo.kind)
        tr_list_leg(&s->list[s->n - 1], (enum tr_leg_bit)receive, todo.at);
    else
        append_leg(s, receive, todo.at);
}

static void build_plain(struct tr_sched *s)
{
    int n = s->kind == TR_SCHED_EVAL ? s->micros : 2 * s->micros;
    struct tr_work_item now = tr_list_plain(s, 0);

    append_leg(s, tr_list_leg_before(s, now), now.at);
    for (int i = 1; i < n; i++) {
        struct tr_work_item next = tr_list_plain(s, i);

        tr_list_work(s, now);
        append_between(s, now, next);
        now = next;
    }
    tr_list_work(s, now);
    append_leg(s, tr_list_leg_after(s, now), now.at);
}

/* ---- several chunks per rank: interleaved, eval ---- */

/*
 * Time runs in ticks, in each of which a rank does at most one forward and one backward and then
 * hands on what it made; a neighbour needs it in the next tick at the earliest.  Computations are
 * numbered in Megatron's order, N micro-batches through all chunks and then the next N.  Forward
 * number f runs on rank r in tick f + r; backward number b starts on the last rank together with
 * the forward that it follows and moves one rank per tick towards the first.  A group of fewer than
 * P micro-batches would come round the ring too late for its next chunk.
 */
static struct tr_slot numbered(const struct tr_sched *s, int number)
{
    int first = number / (s->group * s->chunks) * s->group, left = s->micros - first;
    int size = s->group < left ? s->group : left;
    int i = number - first * s->chunks;

    return (struct tr_slot){i / size, first + i % size};
}

static struct tr_work_item forward_in(const struct tr_sched *s, int rank, int tick)
{
    int f = tick - rank;

    if (f < 0 || f >= s->chunks * s->micros)
        return (struct tr_work_item){.kind = TR_XFER};
    return (struct tr_work_item){TR_FWD, numbered(s, f)};
}

static int backward_delay(const struct tr_sched *s, int rank)
{
    return (s->chunks - 1) * s->group + 2 * (s->ranks - 1) - rank;
}

static struct tr_work_item backward_in(const struct tr_sched *s, int rank, int tick)
{
    int b = tick - backward_delay(s, rank);
    struct tr_work_item w = {.kind = TR_XFER};

    if (s->kind == TR_SCHED_EVAL || b < 0 || b >= s->chunks * s->micros)
        return w;
    w = (struct tr_work_item){TR_BWD, numbered(s, b)};
    w.at.chunk = s->chunks - 1 - w.at.chunk;
    return w;
}

/* The chunk that comes `step` (1 or -1) after chunk `chunk` of `rank`, or -1 beyond either end of the model. */
static int chunk_from(const struct tr_sched *s, int rank, int chunk, int step)
{
    const struct tr_route route = tr_sched_route(s);
    const struct tr_vstage at = {rank, chunk};

    if (tr_route_peer(route, at, step) < 0)
        return -1;
    return tr_route_at(route, tr_route_number(route, at) + step).chunk;
}

static void add_ring_leg(struct tr_instr *x, enum tr_leg_bit leg, struct tr_work_item w, int to,
                         int at)
{
    if (w.kind != TR_XFER && to >= 0)
        tr_list_leg(x, leg, (struct tr_slot){at, w.at.micro});
}

/* What this rank and its neighbours made in the tick, handed on. */
static struct tr_instr tick_transfer(const struct tr_sched *s, int tick)
{
    int next = (s->rank + 1) % s->ranks, prev = (s->rank + s->ranks - 1) % s->ranks;
    struct tr_work_item f = forward_in(s, s->rank, tick), b = backward_in(s, s->rank, tick);
    struct tr_work_item from_prev = forward_in(s, prev, tick),
                        from_next = backward_in(s, next, tick);
    struct tr_instr x = {.kind = TR_XFER};
    int here;

    add_ring_leg(&x, TR_SEND_FWD, f, chunk_from(s, s->rank, f.at.chunk, 1), f.at.chunk);
    here = chunk_from(s, prev, from_prev.at.chunk, 1);
    add_ring_leg(&x, TR_RECV_FWD, from_prev, here, here);
    add_ring_leg(&x, TR_SEND_BWD, b, chunk_from(s, s->rank, b.at.chunk, -1), b.at.chunk);
    here = chunk_from(s, next, from_next.at.chunk, -1);
    add_ring_leg(&x, TR_RECV_BWD, from_next, here, here);
    return x;
}

static int ticks_of(const struct tr_sched *s)
{
    return s->chunks * s->micros + backward_delay(s, 0);
}

static void build_interleaved(struct tr_sched *s)
{
    for (int tick = 0; tick < ticks_of(s); tick++) {
        struct tr_instr x = tick_transfer(s, tick);

        tr_list_work(s, forward_in(s, s->rank, tick));
        tr_list_work(s, backward_in(s, s->rank, tick));
        if (x.legs)
            s->list[s->n++] = x;
    }
}

/* ---- the same, with transfers under way during computations ---- */

static struct tr_flight *flight_of(const struct tr_sched *s, struct tr_flight *flight,
                                   enum tr_leg_bit leg, int chunk)
{
    return &flight[tr_sched_side(s, chunk) * TR_LEGS + index_of(leg)];
}

/* Add the oldest message of a leg to what a TR_WAIT waits for. */
static void land(struct tr_flight *f, enum tr_leg_bit leg, struct tr_instr *wait)
{
    tr_list_leg(wait, leg, f->at[0]);
    f->n--;
    for (int i = 0; i < f->n; i++)
        f->at[i] = f->at[i + 1];
}

static void append_wait(struct tr_sched *s, const struct tr_instr *wait)
{
    if (wait->legs)
        s->list[s->n++] = *wait;
}

static bool under_way(const struct tr_flight *f, struct tr_slot at)
{
    for (int i = 0; i < f->n; i++)
        if (f->at[i].chunk == at.chunk && f->at[i].micro == at.micro)
            return true;
    return false;
}

void tr_list_ready(struct tr_sched *s, struct tr_flight *flight, struct tr_work_item w)
{
    const enum tr_leg_bit in = w.kind == TR_FWD ? TR_RECV_FWD : TR_RECV_BWD;
    const enum tr_leg_bit out = w.kind == TR_FWD ? TR_SEND_FWD : TR_SEND_BWD;
    struct tr_flight *sent = flight_of(s, flight, out, w.at.chunk);
    struct tr_flight *received = flight_of(s, flight, in, w.at.chunk);
    struct tr_instr wait = {.kind = TR_WAIT};

    if (w.kind == TR_XFER)
        return;
    if (sent->n == TR_FLIGHTS)
        land(sent, out, &wait);
    while (under_way(received, w.at)) {
        if (wait.legs & in) {
            append_wait(s, &wait);
            wait.legs = 0;
        }
        land(received, in, &wait);
    }
    append_wait(s, &wait);
}

void tr_list_start(struct tr_sched *s, struct tr_flight *flight, const struct tr_instr *x,
                   unsigned legs)
{
    struct tr_instr wait = {.kind = TR_WAIT}, start = {.kind = TR_START};

    for (int k = 0; k < TR_LEGS; k++) {
        const enum tr_leg_bit leg = (enum tr_leg_bit)(1 << k);
        struct tr_flight *f;

        if (!(x->legs & legs & leg))
            continue;
        f = flight_of(s, flight, leg, x->at[k].chunk);
        if (f->n == TR_FLIGHTS)
            land(f, leg, &wait);
        f->at[f->n++] = x->at[k];
        tr_list_leg(&start, leg, x->at[k]);
    }
    append_wait(s, &wait);
    if (start.legs)
        s->list[s->n++] = start;
}

static void land_side(struct tr_sched *s, struct tr_flight *flight)
{
    struct tr_instr wait;

    do {
        wait = (struct tr_instr){.kind = TR_WAIT};
        for (int k = 0; k < TR_LEGS; k++)
            if (flight[k].n > 0)
                land(&flight[k], (enum tr_leg_bit)(1 << k), &wait);
        append_wait(s, &wait);
    } while (wait.legs);
}

void tr_list_landing(struct tr_sched *s, struct tr_flight *flight)
{
    for (int side = 0; side < TR_SIDES; side++)
        land_side(s, flight + (size_t)side * TR_LEGS);
}

static void build_overlapped(struct tr_sched *s)
{
    struct tr_flight flight[TR_SIDES * TR_LEGS] = {{.n = 0}};

    for (int tick = 0; tick < ticks_of(s); tick++) {
        struct tr_work_item f = forward_in(s, s->rank, tick), b = backward_in(s, s->rank, tick);
        struct tr_instr x = tick_transfer(s, tick);

        tr_list_ready(s, flight, f);
        tr_list_work(s, f);
        tr_list_start(s, flight, &x, TR_SEND_FWD | TR_RECV_FWD);
        tr_list_ready(s, flight, b);
        tr_list_work(s, b);
        tr_list_start(s, flight, &x, TR_SEND_BWD | TR_RECV_BWD);
    }
    tr_list_landing(s, flight);
}

/* ---- what callers see ---- */

static enum tr_status check_groups(const struct tr_sched *s)
{
    if (s->group < s->ranks || (s->group > s->micros && s->group != s->ranks))
        return TR_FAIL(TR_ECONFIG,
                       "--microbatch-group-size-per-virtual-pipeline-stage %d must be at least the "
                       "%d pipeline ranks and at most the %d micro-batches",
                       s->group, s->ranks, s->micros);
    if (s->micros % s->group == 0 || s->micros % s->group >= s->ranks)
        return TR_OK;
    if (s->group == s->ranks)
        return TR_FAIL(TR_ECONFIG,
                       "with several chunks of layers per rank the %d micro-batches must be a "
                       "multiple of the %d pipeline ranks, such as %d; change --global-batch-size",
                       s->micros, s->ranks, (s->micros / s->ranks + 1) * s->ranks);
    return TR_FAIL(TR_ECONFIG,
                   "in groups of --microbatch-group-size-per-virtual-pipeline-stage %d the last %d "
                   "of %d micro-batches are fewer than the %d pipeline ranks; take another size",
                   s->group, s->micros % s->group, s->micros, s->ranks);
}

static enum tr_status check_numbers(const struct tr_sched *s)
{
    if (s->ranks < 1 || s->chunks < 1 || s->micros < 1)
        return TR_FAIL(TR_ECONFIG,
                       "a pipeline of %d ranks with %d chunks each cannot run %d micro-batches; "
                       "there must be at least one of each",
                       s->ranks, s->chunks, s->micros);
    if (s->rank < 0 || s->rank >= s->ranks)
        return TR_FAIL(TR_ECONFIG, "there is no rank %d in a pipeline of %d ranks", s->rank,
                       s->ranks);
    if (s->vee && s->chunks != 2)
        return TR_FAIL(TR_ECONFIG, "on a vee each rank has 2 chunks of layers, not %d", s->chunks);
    if (s->chunks > 1 && !s->vee && s->kind != TR_SCHED_INTERLEAVED && s->kind != TR_SCHED_EVAL)
        return TR_FAIL(TR_ECONFIG,
                       "this pipeline schedule runs one chunk of layers per rank, not %d; use "
                       "--pipeline-schedule interleaved",
                       s->chunks);
    if (s->chunks == 1 && s->kind == TR_SCHED_INTERLEAVED)
        return TR_FAIL(TR_ECONFIG,
                       "the interleaved schedule needs at least 2 chunks of layers per rank; set "
                       "--num-layers-per-virtual-pipeline-stage, or use --pipeline-schedule 1f1b");
    if (s->chunks > 1 && s->ranks == 1)
        return TR_FAIL(TR_ECONFIG,
                       "several chunks of layers per rank need at least 2 pipeline ranks; use "
                       "--pipeline-schedule 1f1b");
    return s->chunks > 1 && !s->vee ? check_groups(s) : TR_OK;
}

/* On the last rank a gradient comes from the first one N - P ticks before its turn. */
static void set_buffers(struct tr_sched *s)
{
    s->outputs = s->dinputs = s->overlap ? TR_FLIGHTS : 1;
    s->doutputs = 1;
    s->inputs = s->vee ? TR_FLIGHTS : 0;
    if (s->chunks > 1 && s->rank == s->ranks - 1)
        s->doutputs = s->group - s->ranks + 1;
}

bool tr_sched_splits(enum tr_sched_kind kind)
{
    return kind == TR_SCHED_ZB_H1 || kind == TR_SCHED_ZB_V;
}

enum tr_status tr_sched_build(struct tr_sched *s)
{
    int64_t most;

    s->n = 0;
    s->list = NULL;
    s->vee |= s->kind == TR_SCHED_ZB_V;
    if (s->group == 0 || s->chunks == 1 || s->vee)
        s->group = s->ranks;
    s->split = tr_sched_splits(s->kind);
    s->overlap = s->split || s->vee || (s->overlap && s->chunks > 1);
    TR_TRY(check_numbers(s));
    set_buffers(s);
    /* A computation stands between two transfers, or has messages in and out to start and to wait
       for; and there are ticks without one. */
    most =
        4 * ((2 + s->split) * (int64_t)s->chunks * s->micros + ((int64_t)s->chunks + 2) * s->group);
    if (most > INT_MAX)
        return TR_FAIL(TR_ECONFIG, "%d micro-batches in %d chunks are more than a schedule counts",
                       s->micros, s->chunks);
    s->list = malloc((size_t)most * sizeof *s->list);
    if (!s->list)
        return TR_FAIL(TR_ERESOURCE, "no memory left for a schedule of %d micro-batches",
                       s->micros);
    if (s->vee)
        tr_sched_build_vee(s);
    else if (s->split)
        tr_sched_build_zb(s);
    else if (s->chunks == 1)
        build_plain(s);
    else if (s->overlap)
        build_overlapped(s);
    else
        build_interleaved(s);
    TR_ASSERT(s->n <= most);
    return TR_OK;
}

bool tr_instr_computes(const struct tr_instr *in)
{
    return in->kind == TR_FWD || in->kind == TR_BWD || in->kind == TR_WGT;
}

int tr_sched_leg(int rank, int i)
{
    return i ^ (rank & 1);
}

void tr_sched_release(struct tr_sched *s)
{
    free(s->list);
    *s = (struct tr_sched){.list = NULL};
}

/* The chunk whose micro-batch has its input from this instruction on, or -1. */
static int input_comes(const struct tr_sched *s, const struct tr_instr *in)
{
    const int chunk = in->at[0].chunk;

    if (in->kind == TR_FWD)
        return s->inputs > 0 || tr_sched_peer(s, TR_RECV_FWD, chunk) < 0 ? chunk : -1;
    if (s->inputs > 0)
        return -1;
    if ((in->kind != TR_XFER && in->kind != TR_START) || !(in->legs & TR_RECV_FWD))
        return -1;
    return in->at[index_of(TR_RECV_FWD)].chunk;
}

static void raise_to(int *most, int count)
{
    *most = count > *most ? count : *most;
}

void tr_sched_room(const struct tr_sched *s, const int *kind, int *slots, int *pool)
{
    const enum tr_instr_kind last = s->kind == TR_SCHED_EVAL ? TR_FWD : TR_BWD;
    int *alive = calloc(2 * (size_t)s->chunks, sizeof *alive), *pooled = alive + s->chunks;

    if (!alive)
        tr_die(TR_ERESOURCE, "no memory left to count what a schedule keeps");
    for (int c = 0; c < s->chunks; c++) {
        raise_to(&slots[c], 1);
        raise_to(&pool[kind[c]], 1);
    }
    for (int i = 0; i < s->n; i++) {
        const struct tr_instr *in = &s->list[i];
        const int comes = input_comes(s, in), c = in->at[0].chunk;

        if (comes >= 0) {
            raise_to(&slots[comes], ++alive[comes]);
            raise_to(&pool[kind[comes]], ++pooled[kind[comes]]);
        }
        if (in->kind == last)
            alive[c]--;
        if (in->kind == (s->split ? TR_WGT : last))
            pooled[kind[c]]--;
    }
    free(alive);
}

int tr_sched_slots(const struct tr_sched *s, int chunk)
{
    int *room = calloc(3 * (size_t)s->chunks, sizeof *room), slots;

    if (!room)
        tr_die(TR_ERESOURCE, "no memory left to count what a schedule keeps");
    tr_sched_room(s, room, room + s->chunks, room + 2 * s->chunks);
    slots = room[s->chunks + chunk];
    free(room);
    return slots;
}

int tr_sched_repeats(const struct tr_sched *s)
{
    return s->group > s->ranks ? s->group : s->ranks;
}

int tr_sched_short(const struct tr_sched *s)
{
    const int group = tr_sched_repeats(s);
    const int64_t enough = 4 * (int64_t)group;

    if (s->kind == TR_SCHED_GPIPE || s->micros <= enough)
        return s->micros;
    return (int)(enough + (s->micros - enough) % group);
}

static void print_slot(const struct tr_sched *s, const char *what, struct tr_slot at, FILE *f)
{
    if (s->chunks > 1)
        fprintf(f, "%s%d.%d", what, at.micro, at.chunk);
    else
        fprintf(f, "%s%d", what, at.micro);
}

void tr_sched_print(const struct tr_sched *s, FILE *f)
{
    static const char *const names[TR_LEGS] = {"sf", "rf", "sb", "rb"};
    static const char *const passes[] = {[TR_FWD] = "F", [TR_BWD] = "B", [TR_WGT] = "W"};
    static const char *const moves[] = {"fetch",   "acquire", "clear", "module",
                                        "release", "reduce",  "settle"};

    fprintf(f, "rank %d:", s->rank);
    for (int i = 0; i < s->n; i++) {
        const struct tr_instr *in = &s->list[i];
        const char *before = in->kind == TR_START ? "+{" : in->kind == TR_WAIT ? "-{" : "{";

        fputc(' ', f);
        if (in->kind >= TR_FETCH) {
            fprintf(f, "%s%d", moves[in->kind - TR_FETCH], in->item);
            continue;
        }
        if (tr_instr_computes(in)) {
            print_slot(s, passes[in->kind], in->at[0], f);
            continue;
        }
        for (int k = 0; k < TR_LEGS; k++)
            if (in->legs >> k & 1) {
                fputs(before, f);
                print_slot(s, names[k], in->at[k], f);
                before = " ";
            }
        fputc('}', f);
    }
    fputc('\n', f);
}
