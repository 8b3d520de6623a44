/* SPDX-License-Identifier: BSD-3-Clause */
#include "pipeline/exec.h"

#include <time.h>

#include "telemetry/trace.h"

static const double MEANWHILE_SECONDS = 5.0;
enum { POLLS_BEFORE_NAP = 64, NAP_NANOSECONDS = 100000 };

/* The instruction that comes next, if it is one of residency; else NULL. */
static const struct tr_instr *moving(const struct tr_stage *stage)
{
    const struct tr_cursor *c = &stage->cursor;

    return c->s && c->at < c->s->n && c->s->list[c->at].kind >= TR_FETCH ? &c->s->list[c->at]
                                                                         : NULL;
}

static void move(struct tr_stage *stage, const struct tr_instr *in)
{
    const bool about_sums = in->kind == TR_REDUCE || in->kind == TR_SETTLE;

    stage->cursor.at++;
    if (in->kind != TR_MODULE && !(about_sums && stage->idle))
        stage->move(stage->ctx, in);
}

static void move_all(struct tr_stage *stage)
{
    for (const struct tr_instr *in; (in = moving(stage));)
        move(stage, in);
}

void tr_exec_enter(struct tr_stage *stage, int module)
{
    const struct tr_instr *in;

    if (module < 0) {
        move_all(stage);
        return;
    }
    while ((in = moving(stage)) && in->kind != TR_MODULE)
        move(stage, in);
    TR_ASSERT(!in || in->item == module);
    stage->cursor.at += in != NULL;
}

void tr_exec_leave(struct tr_stage *stage)
{
    const struct tr_instr *in;

    while ((in = moving(stage)) && in->kind >= TR_RELEASE)
        move(stage, in);
}

bool tr_exec_whole(const struct tr_stage *stage)
{
    const struct tr_sched *s = stage->cursor.s;

    for (int i = stage->cursor.at; i < s->n && s->list[i].kind >= TR_FETCH; i++)
        if (s->list[i].kind != TR_ACQUIRE && s->list[i].kind != TR_MODULE &&
            (!stage->idle || s->list[i].kind < TR_REDUCE))
            return false;
    return true;
}

static void compute(void (*work)(void *ctx, struct tr_slot at), const struct tr_stage *stage,
                    struct tr_slot at, enum tr_timer timer)
{
    tr_timer_start(timer);
    work(stage->ctx, at);
    tr_timer_stop(timer);
}

/* What walks a list. */
struct walk {
    const struct tr_sched *s;
    struct tr_comm *pp;
    struct tr_queue *q;
    struct tr_stage *stage;
    struct tr_flights *f;
};

static struct tr_leg leg_of(const struct walk *w, const struct tr_instr *in, int k)
{
    const enum tr_leg_bit leg = (enum tr_leg_bit)(1 << k);
    const struct tr_tensor t = w->stage->message(w->stage->ctx, in->at[k], leg);

    return (struct tr_leg){
        .dir = leg & (TR_SEND_FWD | TR_SEND_BWD) ? TR_LEG_SEND : TR_LEG_RECV,
        .peer = tr_sched_peer(w->s, leg, in->at[k].chunk),
        .buf = t.data,
        .bytes = tr_tensor_bytes(&t),
    };
}

/* For each of its messages of those legs. */
static void pass(const struct walk *w, const struct tr_instr *in, unsigned legs,
                 void (*work)(void *ctx, struct tr_slot at, enum tr_leg_bit leg))
{
    for (int k = 0; k < TR_LEGS && work; k++)
        if (in->legs & legs & 1U << k)
            work(w->stage->ctx, in->at[k], (enum tr_leg_bit)(1U << k));
}

static void receive(const struct walk *w, const struct tr_instr *in)
{
    pass(w, in, TR_RECV_FWD | TR_RECV_BWD, w->stage->arrived);
}

/*
 * Where the stage has other things to move on, wait for `p` here; finish() then finds it done.  Not for
 * ever: finish() is what finds out that somebody does not come.  The naps are for those that compute,
 * the thread of a round among them.
 */
static void wait_for(const struct walk *w, struct tr_pending *p)
{
    const struct tr_transport *via = w->pp->via;

    if (w->stage->meanwhile && !via->queues) {
        const double until = tr_now() + MEANWHILE_SECONDS;

        for (int polls = 1; !via->poll(w->pp, p); polls++) {
            if (!w->stage->meanwhile(w->stage->ctx) || tr_now() > until)
                break;
            if (polls > POLLS_BEFORE_NAP)
                nanosleep(&(struct timespec){.tv_nsec = NAP_NANOSECONDS}, NULL);
        }
    }
    via->finish(w->pp, w->q, p);
}

static void transfer(struct walk *w, const struct tr_instr *in)
{
    struct tr_leg legs[TR_LEGS];
    struct tr_pending pending;
    int n = 0;

    for (int k = 0; k < TR_LEGS; k++)
        if (in->legs >> k & 1)
            legs[n++] = leg_of(w, in, k);
    w->pp->via->exchange_start(w->pp, w->q, legs, n, &pending);
    wait_for(w, &pending);
    receive(w, in);
}

static struct tr_leg_flights *flights_of(const struct walk *w, const struct tr_instr *in, int k)
{
    return &w->f->leg[tr_sched_side(w->s, in->at[k].chunk)][k];
}

static void start(struct walk *w, const struct tr_instr *in)
{
    for (int i = 0; i < TR_LEGS; i++) {
        const int k = tr_sched_leg(w->s->rank, i);
        struct tr_leg_flights *f;
        struct tr_leg leg;

        if (!(in->legs >> k & 1))
            continue;
        f = flights_of(w, in, k);
        TR_ASSERT(f->begun - f->done < TR_FLIGHTS);
        leg = leg_of(w, in, k);
        w->pp->via->exchange_start(w->pp, w->q, &leg, 1, &f->flight[f->begun++ % TR_FLIGHTS]);
    }
}

static void finish(struct walk *w, const struct tr_instr *in)
{
    for (int k = 0; k < TR_LEGS; k++) {
        struct tr_leg_flights *f;

        if (!(in->legs >> k & 1))
            continue;
        f = flights_of(w, in, k);
        TR_ASSERT(f->done < f->begun);
        wait_for(w, &f->flight[f->done++ % TR_FLIGHTS]);
    }
    receive(w, in);
}

static void timed(struct walk *w, const struct tr_instr *in,
                  void (*pass_on)(struct walk *w, const struct tr_instr *in))
{
    const enum tr_timer timer = tr_timer_for_legs(in->legs);

    tr_timer_start(timer);
    pass_on(w, in);
    tr_timer_stop(timer);
}

static void pack(const struct walk *w, const struct tr_instr *in)
{
    pass(w, in, TR_SEND_FWD | TR_SEND_BWD, w->stage->pack);
}

static void unpack(const struct walk *w, const struct tr_instr *in)
{
    pass(w, in, TR_RECV_FWD | TR_RECV_BWD, w->stage->unpack);
}

/* The operand of a computation, if it is the result of another chunk of this rank. */
static void hand(const struct walk *w, const struct tr_instr *in)
{
    const bool forward = in->kind == TR_FWD;
    const enum tr_leg_bit to = forward ? TR_RECV_FWD : TR_RECV_BWD;
    const int from = tr_sched_local(w->s, to, in->at[0].chunk);

    if (from >= 0)
        w->stage->hand(w->stage->ctx, (struct tr_slot){from, in->at[0].micro},
                       forward ? TR_SEND_FWD : TR_SEND_BWD, in->at[0], to);
}

/* The kinds of instructions and those of spans have one order. */
static void about(const struct tr_instr *in)
{
    struct tr_about a = {.what = (uint8_t)(TR_SPAN_FWD + in->kind), .legs = (uint8_t)in->legs};

    _Static_assert(TR_SPAN_BWD - TR_SPAN_FWD == TR_BWD && TR_SPAN_WGT - TR_SPAN_FWD == TR_WGT &&
                       TR_SPAN_XFER - TR_SPAN_FWD == TR_XFER &&
                       TR_SPAN_START - TR_SPAN_FWD == TR_START &&
                       TR_SPAN_WAIT - TR_SPAN_FWD == TR_WAIT && TR_FWD == 0,
                   "one order");
    for (int k = 0; k < TR_LEGS; k++) {
        a.micro[k] = in->at[k].micro;
        a.chunk[k] = (uint8_t)in->at[k].chunk;
    }
    tr_trace_about(&a);
}

void tr_exec_step(const struct tr_sched *s, struct tr_comm *pp, struct tr_queue *q,
                  struct tr_stage *stage)
{
    struct walk w = {.s = s, .pp = pp, .q = q, .stage = stage, .f = &stage->flights};

    stage->flights = (struct tr_flights){.pp = pp};
    stage->cursor = (struct tr_cursor){.s = s};
    TR_ASSERT(pp->rank == s->rank && pp->size == s->ranks);
    while (stage->cursor.at < s->n) {
        const struct tr_instr *in = &s->list[stage->cursor.at];

        if (in->kind == TR_SETTLE)
            break;
        if (moving(stage)) {
            move(stage, in);
            continue;
        }
        stage->cursor.at++;
        about(in);
        switch (in->kind) {
        case TR_FWD:
            hand(&w, in);
            compute(stage->forward, stage, in->at[0], TR_TIMER_FORWARD_COMPUTE);
            break;
        case TR_BWD:
            hand(&w, in);
            compute(stage->backward, stage, in->at[0], TR_TIMER_BACKWARD_COMPUTE);
            break;
        case TR_WGT:
            compute(stage->weights, stage, in->at[0], TR_TIMER_BACKWARD_COMPUTE);
            break;
        case TR_XFER:
            pack(&w, in);
            timed(&w, in, transfer);
            unpack(&w, in);
            break;
        case TR_START:
            pack(&w, in);
            timed(&w, in, start);
            break;
        case TR_WAIT:
            timed(&w, in, finish);
            unpack(&w, in);
            break;
        default:
            TR_ASSERT(false);
        }
    }
    tr_trace_about(NULL);
}

void tr_exec_settle(struct tr_stage *stage)
{
    move_all(stage);
    TR_ASSERT(stage->cursor.at == stage->cursor.s->n);
}

void tr_exec_poll(struct tr_stage *stage)
{
    struct tr_flights *f = &stage->flights;

    for (int n = 0; n < TR_SIDES * TR_LEGS; n++) {
        struct tr_leg_flights *x = &f->leg[n / TR_LEGS][n % TR_LEGS];

        for (int i = x->done; i < x->begun; i++)
            f->pp->via->poll(f->pp, &x->flight[i % TR_FLIGHTS]);
    }
}
