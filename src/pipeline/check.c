/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/sched.h"

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>

/*
 * The checker knows nothing of how lists are made: it follows messages and buffers.
 */
enum { NONE = -1 };

/* The messages of one leg of one chunk.  They go in the order of micro-batches: counts say all. */
struct link {
    int begun, met, done; /* started, met their other end, waited for */
    double *at;           /* [M], when it was met */
};

/* One chunk of one rank. */
struct chunk {
    int arrived, forwarded, released; /* inputs on their way or here, forwards, backwards */
    int weighed;                      /* gradients of weights, where they are apart */
    struct link link[TR_LEGS];
};

/* A leg that was started, in the order in which the rank runs them. */
struct message {
    unsigned leg;
    struct tr_slot at;
    int group; /* those of one TR_XFER are one group and run together */
    double posted;
    bool met;
};

struct runner {
    int pc;
    double clock, work; /* time gone, time spent on computing */
    int alive;
    bool posted; /* list[pc] is a TR_XFER whose legs have started */
    struct message *queue;
    int first, end, groups; /* queue[first..end-1] has what is not over; groups so far */
    double free, until;     /* when the last group was over, and the one that runs */
    struct chunk *chunk;    /* [K] */
};

struct sim {
    const struct tr_sched *s;
    struct runner *run;  /* [P] */
    struct chunk *chunk; /* [P * K] */
    double *at;          /* [P * K * TR_LEGS * M] */
    /* Seconds of TR_FWD, TR_BWD, TR_WGT of chunk c of rank r at [r * K + c]; NULL: a tick each, and
       the transfers of a rank run one after the other. */
    const double *seconds[TR_WGT + 1];
    double *const *end;
    int live;
    const char *fault;
};

static const char *say(const struct tr_sched *s, int at, const char *fmt, ...) TR_PRINTF(3, 4);

/* The sentence, in static storage as the header promises. */
static const char *say(const struct tr_sched *s, int at, const char *fmt, ...)
{
    static char sentence[256];
    int n = snprintf(sentence, sizeof sentence, "rank %d, instruction %d: ", s->rank, at);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(sentence + n, sizeof sentence - (size_t)n, fmt, ap);
    va_end(ap);
    return sentence;
}

/* ---- the form of a list ---- */

static bool slot_exists(const struct tr_sched *s, struct tr_slot at)
{
    return at.chunk >= 0 && at.chunk < s->chunks && at.micro >= 0 && at.micro < s->micros;
}

/* Whether no message brings the input of a chunk; whether none takes its output away. */
static bool is_first(const struct tr_sched *s, int chunk)
{
    return tr_sched_peer(s, TR_RECV_FWD, chunk) < 0;
}

static bool is_last(const struct tr_sched *s, int chunk)
{
    return tr_sched_peer(s, TR_SEND_FWD, chunk) < 0;
}

static const char *leg_form(const struct tr_sched *s, int i, int k)
{
    struct tr_slot at = s->list[i].at[k];
    unsigned leg = 1U << k;

    if (!slot_exists(s, at))
        return say(s, i, "micro-batch %d of chunk %d does not exist", at.micro, at.chunk);
    if (leg & (TR_SEND_FWD | TR_RECV_BWD) && is_last(s, at.chunk))
        return say(s, i, "no other rank comes after this chunk");
    if (leg & (TR_RECV_FWD | TR_SEND_BWD) && is_first(s, at.chunk))
        return say(s, i, "no other rank comes before this chunk");
    if (leg & (TR_SEND_BWD | TR_RECV_BWD) && s->kind == TR_SCHED_EVAL)
        return say(s, i, "an evaluation has no gradients");
    return NULL;
}

static bool is_transfer(const struct tr_instr *in)
{
    return in->kind == TR_XFER || in->kind == TR_START || in->kind == TR_WAIT;
}

static const char *instr_form(const struct tr_sched *s, int i)
{
    const struct tr_instr *in = &s->list[i];
    const char *fault = NULL;

    if (is_transfer(in)) {
        if (in->legs == 0 || in->legs >> TR_LEGS)
            return say(s, i, "a transfer has legs %u", in->legs);
        for (int k = 0; k < TR_LEGS && !fault; k++)
            if (in->legs >> k & 1)
                fault = leg_form(s, i, k);
        return fault;
    }
    if (in->kind >= TR_FETCH && in->kind <= TR_SETTLE)
        return NULL;
    if (!tr_instr_computes(in))
        return say(s, i, "there is no instruction of kind %d", (int)in->kind);
    if (!slot_exists(s, in->at[0]))
        return say(s, i, "micro-batch %d of chunk %d does not exist", in->at[0].micro,
                   in->at[0].chunk);
    if (in->kind != TR_FWD && s->kind == TR_SCHED_EVAL)
        return say(s, i, "an evaluation has no backward");
    if (in->kind == TR_WGT && !s->split)
        return say(s, i, "the backward pass is not split");
    return NULL;
}

static const char *list_form(const struct tr_sched *all, int rank)
{
    const struct tr_sched *s = &all[rank];
    const char *fault = NULL;

    if (s->rank != rank || s->kind != all->kind || s->split != all->split ||
        s->ranks != all->ranks || s->vee != all->vee || s->chunks != all->chunks ||
        s->micros != all->micros)
        return say(s, 0, "the list belongs to another schedule");
    if (s->outputs < 1 || s->dinputs < 1 || s->doutputs < 1)
        return say(s, 0, "a chunk needs a buffer for each kind of message");
    for (int i = 0; i < s->n && !fault; i++)
        fault = instr_form(s, i);
    return fault;
}

/* ---- the order of messages between two ranks ---- */

/* The other end of a leg. */
static unsigned partner_of(unsigned leg)
{
    return leg & (TR_SEND_FWD | TR_SEND_BWD) ? leg << 1 : leg >> 1;
}

/* What the receiver calls the chunk of a message. */
static struct tr_slot received_as(const struct tr_sched *s, unsigned leg, struct tr_slot at)
{
    const struct tr_route route = tr_sched_route(s);
    const int number = tr_route_number(route, (struct tr_vstage){s->rank, at.chunk});

    at.chunk = tr_route_at(route, number + (leg == TR_SEND_FWD ? 1 : -1)).chunk;
    return at;
}

/* A place in a list between legs. */
struct cursor {
    const struct tr_sched *s;
    int i, k;
};

/* Step to the next of the `wanted` legs that is shared with `peer`; 0 at the end of the list. */
static unsigned next_leg(struct cursor *c, unsigned wanted, int peer)
{
    for (; c->i < c->s->n; c->i++, c->k = NONE) {
        const struct tr_instr *in = &c->s->list[c->i];

        while ((in->kind == TR_XFER || in->kind == TR_START) && ++c->k < TR_LEGS) {
            unsigned leg = in->legs & wanted & 1U << c->k;

            if (leg && tr_sched_peer(c->s, (enum tr_leg_bit)leg, in->at[c->k].chunk) == peer)
                return leg;
        }
    }
    return 0;
}

static const char *link_order(const struct tr_sched *from, const struct tr_sched *to)
{
    struct cursor out = {from, 0, NONE}, in = {to, 0, NONE};

    for (;;) {
        unsigned sent = next_leg(&out, TR_SEND_FWD | TR_SEND_BWD, to->rank);
        unsigned got = next_leg(&in, TR_RECV_FWD | TR_RECV_BWD, from->rank);
        struct tr_slot a, b;

        if (!sent && !got)
            return NULL;
        if (!got)
            return say(from, out.i, "rank %d does not receive this message", to->rank);
        if (!sent)
            return say(to, in.i, "rank %d does not send this message", from->rank);
        a = received_as(from, sent, from->list[out.i].at[out.k]);
        b = to->list[in.i].at[in.k];
        if (partner_of(sent) != got || a.chunk != b.chunk || a.micro != b.micro)
            return say(to, in.i, "the message that comes from rank %d is another", from->rank);
    }
}

static const char *links_order(const struct tr_sched *all)
{
    const char *fault = NULL;

    for (int r = 0; r < all->ranks && !fault; r++) {
        const struct tr_sched *next = &all[(r + 1) % all->ranks];

        fault = link_order(&all[r], next);
        if (!fault)
            fault = link_order(next, &all[r]);
    }
    return fault;
}

/* ---- a run of all lists against one another ---- */

static void input_comes(struct sim *m, struct runner *x, struct chunk *c)
{
    c->arrived++;
    x->alive++;
    if (x->alive > m->live)
        m->live = x->alive;
}

static struct link *link_of(struct chunk *c, unsigned leg)
{
    int k = 0;

    while (1U << k != leg)
        k++;
    return &c->link[k];
}

/* How many results of a pass of a chunk have left their buffers, and how many operands have come; where the other
   chunk is on this rank, it takes and gives them as it computes. */
static int gone(const struct tr_sched *s, const struct runner *x, enum tr_leg_bit leg, int chunk)
{
    const int to = tr_sched_local(s, leg, chunk);

    if (to < 0 && tr_sched_peer(s, leg, chunk) < 0)
        return INT_MAX;
    if (to < 0)
        return link_of(&x->chunk[chunk], leg)->done;
    return leg == TR_SEND_FWD ? x->chunk[to].forwarded : x->chunk[to].released;
}

static int come(const struct tr_sched *s, const struct runner *x, enum tr_leg_bit leg, int chunk)
{
    const int from = tr_sched_local(s, leg, chunk);

    if (from < 0 && tr_sched_peer(s, leg, chunk) < 0)
        return INT_MAX;
    if (from < 0)
        return link_of(&x->chunk[chunk], leg)->done;
    return leg == TR_RECV_FWD ? x->chunk[from].forwarded : x->chunk[from].released;
}

static const char *forward(struct sim *m, int r, struct tr_slot at)
{
    const struct tr_sched *s = &m->s[r];
    struct runner *x = &m->run[r];
    struct chunk *c = &x->chunk[at.chunk];

    if (at.micro != c->forwarded)
        return say(s, x->pc, "forward %d comes where %d is due", at.micro, c->forwarded);
    if (is_first(s, at.chunk) || s->inputs > 0)
        input_comes(m, x, c);
    if (come(s, x, TR_RECV_FWD, at.chunk) <= at.micro)
        return say(s, x->pc, "forward %d runs before its input has come", at.micro);
    if (gone(s, x, TR_SEND_FWD, at.chunk) <= at.micro - s->outputs)
        return say(s, x->pc, "forward %d overwrites output %d, which was not sent", at.micro,
                   at.micro - s->outputs);
    c->forwarded++;
    if (s->kind == TR_SCHED_EVAL) {
        c->released++;
        x->alive--;
    }
    return NULL;
}

static const char *backward(struct sim *m, int r, struct tr_slot at)
{
    const struct tr_sched *s = &m->s[r];
    struct runner *x = &m->run[r];
    struct chunk *c = &x->chunk[at.chunk];

    if (at.micro != c->released)
        return say(s, x->pc, "backward %d comes where %d is due", at.micro, c->released);
    if (c->forwarded <= at.micro)
        return say(s, x->pc, "backward %d runs before its forward", at.micro);
    if (come(s, x, TR_RECV_BWD, at.chunk) <= at.micro)
        return say(s, x->pc, "backward %d runs before its gradient has come", at.micro);
    if (gone(s, x, TR_SEND_BWD, at.chunk) <= at.micro - s->dinputs)
        return say(s, x->pc, "backward %d overwrites gradient %d, which was not sent", at.micro,
                   at.micro - s->dinputs);
    c->released++;
    x->alive -= !s->split;
    return NULL;
}

/* What the gradients of weights are made of is kept until then. */
static const char *weights(struct sim *m, int r, struct tr_slot at)
{
    const struct tr_sched *s = &m->s[r];
    struct runner *x = &m->run[r];
    struct chunk *c = &x->chunk[at.chunk];

    if (at.micro != c->weighed)
        return say(s, x->pc, "weights %d come where %d are due", at.micro, c->weighed);
    if (c->released <= at.micro)
        return say(s, x->pc, "weights %d come before their backward", at.micro);
    c->weighed++;
    x->alive--;
    return NULL;
}

static const char *compute(struct sim *m, int r, const struct tr_instr *in)
{
    return in->kind == TR_FWD   ? forward(m, r, in->at[0])
           : in->kind == TR_BWD ? backward(m, r, in->at[0])
                                : weights(m, r, in->at[0]);
}

/* A leg uses its buffer from the start of the transfer on. */
static const char *claim(struct sim *m, int r, unsigned leg, struct tr_slot at)
{
    const struct tr_sched *s = &m->s[r];
    struct runner *x = &m->run[r];
    struct chunk *c = &x->chunk[at.chunk];
    struct link *l = link_of(c, leg);

    if (at.micro != l->begun)
        return say(s, x->pc, "%s %d comes where %d is due",
                   leg == TR_RECV_FWD ? "input" : "message", at.micro, l->begun);
    if (leg == TR_RECV_FWD && s->inputs == 0)
        input_comes(m, x, c);
    if (leg == TR_RECV_FWD && s->inputs > 0 && c->forwarded <= at.micro - s->inputs)
        return say(s, x->pc, "input %d overwrites %d, which was not used", at.micro,
                   at.micro - s->inputs);
    if ((leg == TR_SEND_FWD && c->forwarded <= at.micro) ||
        (leg == TR_SEND_BWD && c->released <= at.micro))
        return say(s, x->pc, "message %d is sent while it is not in its buffer", at.micro);
    if (leg == TR_RECV_BWD && c->released <= at.micro - s->doutputs)
        return say(s, x->pc, "gradient %d overwrites %d, which was not used", at.micro,
                   at.micro - s->doutputs);
    l->begun++;
    return NULL;
}

static int under_way(const struct tr_sched *s, const struct runner *x, unsigned leg, int side)
{
    int n = 0;

    for (int c = 0; c < s->chunks; c++)
        if (tr_sched_side(s, c) == side)
            n += link_of(&x->chunk[c], leg)->begun - link_of(&x->chunk[c], leg)->done;
    return n;
}

/* Start a leg, as one of group number x->groups. */
static const char *begin(struct sim *m, int r, unsigned leg, struct tr_slot at)
{
    struct runner *x = &m->run[r];
    const char *fault = claim(m, r, leg, at);

    if (!fault && under_way(&m->s[r], x, leg, tr_sched_side(&m->s[r], at.chunk)) > TR_FLIGHTS)
        fault = say(&m->s[r], x->pc, "more than %d messages of a leg are under way", TR_FLIGHTS);
    x->queue[x->end++] = (struct message){leg, at, x->groups, x->clock, false};
    return fault;
}

static void post(struct sim *m, int r)
{
    struct runner *x = &m->run[r];
    const struct tr_instr *in = &m->s[r].list[x->pc];

    for (int i = 0; i < TR_LEGS && !m->fault; i++) {
        int k = tr_sched_leg(r, i);

        if (in->legs >> k & 1)
            m->fault = begin(m, r, 1U << k, in->at[k]);
        x->groups += in->kind == TR_START;
    }
    x->groups++;
}

/* The leg of rank r to another, if it runs now: one of the oldest group that is not over. */
static struct message *running(const struct sim *m, int r, int peer, unsigned leg)
{
    struct runner *x = &m->run[r];
    const bool serial = !m->seconds[0];

    for (int i = x->first; i < x->end; i++) {
        if (serial && x->queue[i].group != x->queue[x->first].group)
            return NULL;
        if (x->queue[i].leg == leg && !x->queue[i].met &&
            tr_sched_peer(&m->s[r], (enum tr_leg_bit)leg, x->queue[i].at.chunk) == peer)
            return &x->queue[i];
    }
    return NULL;
}

static double later(double a, double b)
{
    return a > b ? a : b;
}

/* A leg has met its other end at `time`; where it was the last of its group, the next may run. */
static void close_leg(struct runner *x, struct message *message, double time)
{
    struct link *l = link_of(&x->chunk[message->at.chunk], message->leg);

    message->met = true;
    l->at[l->met++] = time;
    x->until = later(x->until, time);
    while (x->first < x->end && x->queue[x->first].met)
        x->first++;
    if (x->first == x->end || x->queue[x->first].group != message->group)
        x->free = x->until;
}

/* When a leg that runs could begin. */
static double begins(const struct sim *m, const struct runner *x, const struct message *message)
{
    return m->seconds[0] ? message->posted : later(message->posted, x->free);
}

/* Close the legs of rank r to `peer` whose other end runs, too; both then know the later of the two times.
   That the other end carries the same message is known from links_order(). */
static bool meet(struct sim *m, int r, int peer)
{
    struct runner *x = &m->run[r], *y = &m->run[peer];
    bool moved = false;

    for (unsigned leg = 1; leg < 1U << TR_LEGS; leg <<= 1) {
        struct message *a = running(m, r, peer, leg), *b = running(m, peer, r, partner_of(leg));

        if (a && b) {
            double time = later(begins(m, x, a), begins(m, y, b));

            close_leg(x, a, time);
            close_leg(y, b, time);
            moved = true;
        }
    }
    return moved;
}

static bool meet_both(struct sim *m, int r)
{
    const int ranks = m->s->ranks, next = (r + 1) % ranks, previous = (r + ranks - 1) % ranks;
    const bool moved = meet(m, r, next);

    return meet(m, r, previous) || moved;
}

/* Whether all legs of an instruction are over; the rank goes on at the latest of their times. */
static bool waited(struct sim *m, int r, const struct tr_instr *in)
{
    struct runner *x = &m->run[r];

    for (int k = 0; k < TR_LEGS; k++)
        if (in->legs >> k & 1 && x->chunk[in->at[k].chunk].link[k].met <= in->at[k].micro)
            return false;
    for (int k = 0; k < TR_LEGS; k++)
        if (in->legs >> k & 1) {
            struct link *l = &x->chunk[in->at[k].chunk].link[k];

            x->clock = later(x->clock, l->at[in->at[k].micro]);
            l->done++;
        }
    return true;
}

static const char *wait_form(const struct sim *m, int r, const struct tr_instr *in)
{
    const struct runner *x = &m->run[r];

    for (int k = 0; k < TR_LEGS; k++) {
        const struct link *l = &x->chunk[in->at[k].chunk].link[k];

        if (in->legs >> k & 1 && (in->at[k].micro != l->done || l->begun == l->done))
            return say(&m->s[r], x->pc, "message %d is not the oldest that is under way",
                       in->at[k].micro);
    }
    return NULL;
}

static double duration(const struct sim *m, int r, const struct tr_instr *in)
{
    const double *seconds = m->seconds[in->kind];

    return seconds ? seconds[r * m->s->chunks + in->at[0].chunk] : 1.0;
}

/* Try to run one instruction of rank r; true if anything moved. */
static bool step(struct sim *m, int r)
{
    struct runner *x = &m->run[r];
    const struct tr_instr *in = &m->s[r].list[x->pc];
    bool moved = false;

    if (in->kind >= TR_FETCH) {
        x->pc++;
        return true;
    }
    if (!is_transfer(in)) {
        m->fault = compute(m, r, in);
        x->clock += duration(m, r, in);
        x->work += duration(m, r, in);
        if (m->end)
            m->end[r][x->pc] = x->clock;
        x->pc++;
        return true;
    }
    if (in->kind != TR_WAIT && !x->posted) {
        post(m, r);
        x->posted = moved = true;
    }
    if (in->kind == TR_WAIT)
        m->fault = wait_form(m, r, in);
    if (m->fault || (in->kind != TR_START && !waited(m, r, in)))
        return moved;
    x->posted = false;
    x->pc++;
    return true;
}

static void run_all(struct sim *m)
{
    bool moved = true;

    while (moved && !m->fault) {
        moved = false;
        for (int r = 0; r < m->s->ranks; r++) {
            while (!m->fault && m->run[r].pc < m->s[r].n && step(m, r))
                moved = true;
            moved = meet_both(m, r) || moved;
        }
    }
}

static const char *chunk_end(const struct tr_sched *s, int chunk, const struct chunk *c)
{
    if (c->forwarded != s->micros || c->released != s->micros ||
        c->weighed != (s->split ? s->micros : 0))
        return say(s, s->n, "the list ends with micro-batches left to do");
    for (int k = 0; k < TR_LEGS; k++)
        if (c->link[k].begun != c->link[k].done)
            return say(s, s->n, "the list ends with a message that was not waited for");
    if ((!is_last(s, chunk) && c->link[0].done != s->micros) ||
        (!is_first(s, chunk) && s->kind != TR_SCHED_EVAL && c->link[2].done != s->micros))
        return say(s, s->n, "the list ends with a message that was not sent");
    return NULL;
}

static const char *ends(const struct sim *m)
{
    const char *fault = NULL;

    for (int r = 0; r < m->s->ranks && !fault; r++)
        if (m->run[r].pc < m->s[r].n)
            fault = say(&m->s[r], m->run[r].pc, "the ranks wait for one another for ever");
    for (int r = 0; r < m->s->ranks && !fault; r++)
        for (int c = 0; c < m->s->chunks && !fault; c++)
            fault = chunk_end(&m->s[r], c, &m->run[r].chunk[c]);
    return fault;
}

static double length_of(const struct sim *m)
{
    double length = 0.0;

    for (int r = 0; r < m->s->ranks; r++)
        length = later(length, m->run[r].clock);
    return length;
}

static void price(const struct sim *m, struct tr_sched_cost *cost)
{
    *cost = (struct tr_sched_cost){.ticks = (int)length_of(m), .live = m->live};
    for (int r = 0; r < m->s->ranks; r++)
        cost->idle += cost->ticks - (int)m->run[r].work;
}

static void *need(size_t count, size_t size)
{
    void *p = calloc(count, size);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left to check a pipeline schedule");
    return p;
}

static void sim_open(struct sim *m, const struct tr_sched *s)
{
    const size_t ranks = (size_t)s->ranks, chunks = (size_t)s->chunks, micros = (size_t)s->micros;

    *m = (struct sim){.s = s, .run = need(ranks, sizeof *m->run)};
    m->chunk = need(ranks * chunks, sizeof *m->chunk);
    m->at = need(ranks * chunks * TR_LEGS * micros, sizeof *m->at);
    for (size_t i = 0; i < ranks * chunks * TR_LEGS; i++)
        m->chunk[i / TR_LEGS].link[i % TR_LEGS].at = m->at + i * micros;
    for (size_t r = 0; r < ranks; r++) {
        m->run[r].chunk = m->chunk + r * chunks;
        m->run[r].queue = need((size_t)s[r].n * TR_LEGS + 1, sizeof *m->run[r].queue);
    }
}

static void sim_close(struct sim *m)
{
    for (int r = 0; r < m->s->ranks; r++)
        free(m->run[r].queue);
    free(m->at);
    free(m->chunk);
    free(m->run);
}

static const char *simulate(const struct tr_sched *s, struct tr_sched_cost *cost)
{
    const char *fault;
    struct sim m;

    sim_open(&m, s);
    run_all(&m);
    fault = m.fault ? m.fault : ends(&m);
    if (!fault && cost)
        price(&m, cost);
    sim_close(&m);
    return fault;
}

const char *tr_sched_check(const struct tr_sched *s, struct tr_sched_cost *cost)
{
    const char *fault = NULL;

    for (int r = 0; r < s->ranks && !fault; r++)
        fault = list_form(s, r);
    if (!fault)
        fault = links_order(s);
    if (!fault)
        fault = simulate(s, cost);
    return fault;
}

double tr_sched_ends(const struct tr_sched *s, const double *forward, const double *backward,
                     const double *weights, double *const *end)
{
    struct sim m;
    double length;

    sim_open(&m, s);
    m.seconds[TR_FWD] = forward;
    m.seconds[TR_BWD] = backward;
    m.seconds[TR_WGT] = weights;
    m.end = end;
    run_all(&m);
    TR_ASSERT(!m.fault && !ends(&m));
    length = length_of(&m);
    sim_close(&m);
    return length;
}

double tr_sched_seconds(const struct tr_sched *s, const double *forward, const double *backward,
                        const double *weights)
{
    return tr_sched_ends(s, forward, backward, weights, NULL);
}
