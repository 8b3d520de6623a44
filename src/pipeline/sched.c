/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/sched.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* A computation; nothing where kind is TR_XFER. */
struct work {
    enum tr_instr_kind kind;
    struct tr_slot at;
};

static struct tr_instr *append(struct tr_sched *s, enum tr_instr_kind kind)
{
    struct tr_instr *i = &s->list[s->n++];

    *i = (struct tr_instr){.kind = kind};
    return i;
}

static void append_work(struct tr_sched *s, struct work w)
{
    if (w.kind != TR_XFER)
        append(s, w.kind)->at[0] = w.at;
}

/* Which of at[] belongs to a leg. */
static int index_of(enum tr_leg_bit leg)
{
    int k = 0;

    while (1 << k != (int)leg)
        k++;
    return k;
}

static void add_leg(struct tr_instr *i, enum tr_leg_bit leg, struct tr_slot at)
{
    i->legs |= leg;
    i->at[index_of(leg)] = at;
}

static void append_leg(struct tr_sched *s, unsigned leg, struct tr_slot at)
{
    if (leg)
        add_leg(append(s, TR_XFER), (enum tr_leg_bit)leg, at);
}

/* ---- one chunk per rank: gpipe, 1f1b, eval ---- */

/* Number i in the rank's order of computations: some forwards, pairs, the other backwards. */
static struct work plain_work(const struct tr_sched *s, int i)
{
    int warm = s->micros, pairs;

    if (s->kind == TR_SCHED_1F1B && s->ranks - 1 - s->rank < warm)
        warm = s->ranks - 1 - s->rank;
    pairs = s->micros - warm;
    if (i < warm)
        return (struct work){TR_FWD, {0, i}};
    if (i >= warm + 2 * pairs)
        return (struct work){TR_BWD, {0, i - s->micros}};
    if ((i - warm) % 2 == 0)
        return (struct work){TR_FWD, {0, warm + (i - warm) / 2}};
    return (struct work){TR_BWD, {0, (i - warm) / 2}};
}

static unsigned leg_before(const struct tr_sched *s, struct work w)
{
    if (w.kind == TR_FWD)
        return s->rank > 0 ? TR_RECV_FWD : 0;
    return s->rank < s->ranks - 1 ? TR_RECV_BWD : 0;
}

static unsigned leg_after(const struct tr_sched *s, struct work w)
{
    if (w.kind == TR_FWD)
        return s->rank < s->ranks - 1 ? TR_SEND_FWD : 0;
    return s->rank > 0 ? TR_SEND_BWD : 0;
}

/* Between two computations: one transfer if both legs are with the same neighbour, else two. */
static void append_between(struct tr_sched *s, struct work done, struct work todo)
{
    unsigned send = leg_after(s, done), receive = leg_before(s, todo);

    append_leg(s, send, done.at);
    if (send && receive && done.kind != todo.kind)
        add_leg(&s->list[s->n - 1], (enum tr_leg_bit)receive, todo.at);
    else
        append_leg(s, receive, todo.at);
}

static void build_plain(struct tr_sched *s)
{
    int n = s->kind == TR_SCHED_EVAL ? s->micros : 2 * s->micros;
    struct work now = plain_work(s, 0);

    append_leg(s, leg_before(s, now), now.at);
    for (int i = 1; i < n; i++) {
        struct work next = plain_work(s, i);

        append_work(s, now);
        append_between(s, now, next);
        now = next;
    }
    append_work(s, now);
    append_leg(s, leg_after(s, now), now.at);
}

/* ---- several chunks per rank: interleaved, eval ---- */

/*
 * Time runs in ticks, in each of which a rank does at most one forward and one backward and then
 * hands on what it made; a neighbour needs it in the next tick at the earliest.  Computations are
 * numbered in Megatron's order, P micro-batches through all chunks and then the next P.  Forward
 * number f runs on rank r in tick f + r; backward number b starts on the last rank together with
 * the forward that it follows and moves one rank per tick towards the first.
 */
static struct tr_slot numbered(const struct tr_sched *s, int number)
{
    int p = s->ranks, group = p * s->chunks;

    return (struct tr_slot){number % group / p, number / group * p + number % p};
}

static struct work forward_in(const struct tr_sched *s, int rank, int tick)
{
    int f = tick - rank;

    if (f < 0 || f >= s->chunks * s->micros)
        return (struct work){.kind = TR_XFER};
    return (struct work){TR_FWD, numbered(s, f)};
}

static int backward_delay(const struct tr_sched *s, int rank)
{
    return (s->chunks - 1) * s->ranks + 2 * (s->ranks - 1) - rank;
}

static struct work backward_in(const struct tr_sched *s, int rank, int tick)
{
    int b = tick - backward_delay(s, rank);
    struct work w = {.kind = TR_XFER};

    if (s->kind == TR_SCHED_EVAL || b < 0 || b >= s->chunks * s->micros)
        return w;
    w = (struct work){TR_BWD, numbered(s, b)};
    w.at.chunk = s->chunks - 1 - w.at.chunk;
    return w;
}

/* The chunk of `rank` that comes `step` (1 or -1) after chunk `chunk` of its neighbour in the ring,
   or -1 beyond either end of the model. */
static int chunk_from(const struct tr_sched *s, int rank, int chunk, int step)
{
    if (step > 0 && rank == 0)
        chunk++;
    if (step < 0 && rank == s->ranks - 1)
        chunk--;
    return chunk < s->chunks ? chunk : -1;
}

static void add_ring_leg(struct tr_instr *x, enum tr_leg_bit leg, struct work w, int to, int at)
{
    if (w.kind != TR_XFER && to >= 0)
        add_leg(x, leg, (struct tr_slot){at, w.at.micro});
}

/* What this rank and its neighbours made in the tick, handed on. */
static void append_tick_transfer(struct tr_sched *s, int tick)
{
    int next = (s->rank + 1) % s->ranks, prev = (s->rank + s->ranks - 1) % s->ranks;
    struct work f = forward_in(s, s->rank, tick), b = backward_in(s, s->rank, tick);
    struct work from_prev = forward_in(s, prev, tick), from_next = backward_in(s, next, tick);
    struct tr_instr x = {.kind = TR_XFER};
    int here;

    add_ring_leg(&x, TR_SEND_FWD, f, chunk_from(s, next, f.at.chunk, 1), f.at.chunk);
    here = chunk_from(s, s->rank, from_prev.at.chunk, 1);
    add_ring_leg(&x, TR_RECV_FWD, from_prev, here, here);
    add_ring_leg(&x, TR_SEND_BWD, b, chunk_from(s, prev, b.at.chunk, -1), b.at.chunk);
    here = chunk_from(s, s->rank, from_next.at.chunk, -1);
    add_ring_leg(&x, TR_RECV_BWD, from_next, here, here);
    if (x.legs)
        s->list[s->n++] = x;
}

static void build_interleaved(struct tr_sched *s)
{
    int ticks = s->chunks * s->micros + backward_delay(s, 0);

    for (int tick = 0; tick < ticks; tick++) {
        append_work(s, forward_in(s, s->rank, tick));
        append_work(s, backward_in(s, s->rank, tick));
        append_tick_transfer(s, tick);
    }
}

/* ---- what callers see ---- */

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
    if (s->chunks > 1 && (s->kind == TR_SCHED_GPIPE || s->kind == TR_SCHED_1F1B))
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
    if (s->chunks > 1 && s->micros % s->ranks != 0)
        return TR_FAIL(TR_ECONFIG,
                       "with several chunks of layers per rank the %d micro-batches must be a "
                       "multiple of the %d pipeline ranks, such as %d; change --global-batch-size",
                       s->micros, s->ranks, (s->micros / s->ranks + 1) * s->ranks);
    return TR_OK;
}

enum tr_status tr_sched_build(struct tr_sched *s, enum tr_sched_kind kind, int ranks, int rank,
                              int chunks, int micros)
{
    int64_t most;

    *s = (struct tr_sched){
        .kind = kind, .ranks = ranks, .rank = rank, .chunks = chunks, .micros = micros};
    TR_TRY(check_numbers(s));
    /* Each computation stands between at most two transfers of its own; and interleaved ticks. */
    most = 3 * (2 * (int64_t)chunks * micros + ((int64_t)chunks + 2) * ranks);
    if (most > INT_MAX)
        return TR_FAIL(TR_ECONFIG, "%d micro-batches in %d chunks are more than a schedule counts",
                       micros, chunks);
    s->list = malloc((size_t)most * sizeof *s->list);
    if (!s->list)
        return TR_FAIL(TR_ERESOURCE, "no memory left for a schedule of %d micro-batches", micros);
    if (chunks == 1)
        build_plain(s);
    else
        build_interleaved(s);
    TR_ASSERT(s->n <= most);
    return TR_OK;
}

void tr_sched_release(struct tr_sched *s)
{
    free(s->list);
    *s = (struct tr_sched){.list = NULL};
}

/* Does the input of a micro-batch of `chunk` come into being with this instruction? */
static bool input_comes(const struct tr_sched *s, const struct tr_instr *in, int chunk)
{
    if (s->rank == 0 && chunk == 0)
        return in->kind == TR_FWD && in->at[0].chunk == chunk;
    return in->kind == TR_XFER && in->legs & TR_RECV_FWD &&
           in->at[index_of(TR_RECV_FWD)].chunk == chunk;
}

int tr_sched_slots(const struct tr_sched *s, int chunk)
{
    const enum tr_instr_kind last = s->kind == TR_SCHED_EVAL ? TR_FWD : TR_BWD;
    int alive = 0, most = 1;

    for (int i = 0; i < s->n; i++) {
        const struct tr_instr *in = &s->list[i];

        alive += input_comes(s, in, chunk);
        most = alive > most ? alive : most;
        alive -= in->kind == last && in->at[0].chunk == chunk;
    }
    return most;
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

    fprintf(f, "rank %d:", s->rank);
    for (int i = 0; i < s->n; i++) {
        const struct tr_instr *in = &s->list[i];
        const char *before = "{";

        fputc(' ', f);
        if (in->kind != TR_XFER) {
            print_slot(s, in->kind == TR_FWD ? "F" : "B", in->at[0], f);
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
