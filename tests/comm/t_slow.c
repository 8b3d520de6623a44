/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include "comm/slow.h"
#include "telemetry/timer.h"

/*
 * The model of comm/slow.h: how long transfers take at least, and how many bytes they send.  That
 * data arrive is for t_comm and t_scatter over this transport.  Times have lower bounds only,
 * since a loaded machine may be as slow as it likes; the clocks of stamps and of the test differ,
 * by less than 1 ms in such a time.
 */
static const double MARGIN = 1e-3;

enum { ELEMS = 6 * 4096 };

/* A time before which none of the ranks has begun. */
static double begin(struct tr_comm *c)
{
    double now = tr_now();

    c->via->barrier(c);
    return now;
}

static struct tr_comm slow_world(double rate, double latency, double jitter)
{
    struct tr_comm c;

    tr_comm_slow_open(&world,
                      (struct tr_slow_how){.rate = rate, .latency = latency, .jitter = jitter}, &c);
    return c;
}

static struct tr_tensor vector(int64_t n)
{
    return tr_f32_1(calloc((size_t)n, sizeof(float)), n);
}

/* Half a millisecond per hop, 1 MB/s: each call takes what the ring takes, and counts its bytes. */
static void takes_its_time(void **state)
{
    const double rate = 8e6, latency = 5e-4;
    const int64_t bytes = ELEMS * 4, d = world.size, slice = bytes / d;
    const int hops = world.size - 1;
    struct tr_comm c = slow_world(rate, latency, 0.0);
    struct tr_tensor t = vector(ELEMS), mine = tr_tensor_span(&t, c.rank * (ELEMS / d), ELEMS / d);
    const int64_t want[TR_SLOW_KINDS] = {
        [TR_SLOW_ALLREDUCE] = 2 * slice * hops,
        [TR_SLOW_REDUCE_SCATTER] = slice * hops,
        [TR_SLOW_ALLGATHER] = slice * hops,
        [TR_SLOW_BROADCAST] = world.size > 1 && world.rank + 1 < world.size ? bytes : 0,
    };

    (void)state;
    for (int kind = 0; kind < TR_SLOW_SEND; kind++) {
        double began = begin(&c), most = (double)want[kind];
        struct tr_tensor longest = tr_f64_1(&most, 1);

        if (kind == TR_SLOW_ALLREDUCE)
            c.via->allreduce(&c, NULL, &t, TR_SUM);
        else if (kind == TR_SLOW_REDUCE_SCATTER)
            c.via->reduce_scatter(&c, NULL, &mine, &t, TR_SUM);
        else if (kind == TR_SLOW_ALLGATHER)
            c.via->allgather(&c, NULL, &t);
        else
            c.via->broadcast(&c, NULL, &t, 0);
        began = tr_now() - began;
        world.via->allreduce(&world, NULL, &longest, TR_MAX);
        assert_all(began + MARGIN >=
                   most * 8.0 / rate + (kind == TR_SLOW_ALLREDUCE ? 2 : 1) * hops * latency);
        assert_all(tr_comm_slow_bytes(&c, (enum tr_slow_kind)kind) == want[kind]);
    }
    assert_all(tr_comm_slow_bytes(&c, TR_SLOW_SEND) == 0);
    c.via->release(&c);
    free(t.data);
}

/* The link sends one transfer after the other, of whichever group; they are under way while the
   rank computes; and the last is done when all the bytes have been sent. */
static void queues(void **state)
{
    const double rate = 8e6, one = world.size > 1 ? 2.0 * ELEMS * 4 / world.size * 8 / rate : 0.0;
    struct tr_comm c = slow_world(rate, 0.0, 0.0), other;
    struct tr_tensor t[3];
    struct tr_pending p[3];
    int64_t polls = 0;
    double began;

    (void)state;
    assert_all_ok(c.via->split(&c, 0, c.rank, "other", &other));
    for (int i = 0; i < 3; i++)
        t[i] = vector(ELEMS);
    began = begin(&c);
    for (int i = 0; i < 3; i++) {
        struct tr_comm *group = i == 1 ? &other : &c;

        group->via->allreduce_start(group, NULL, &t[i], TR_SUM, &p[i]);
    }
    while (!other.via->poll(&other, &p[1]))
        polls++;
    assert_all(tr_now() - began + MARGIN >= 2.0 * one * (world.size - 1));
    assert_all(world.size == 1 || polls > 10);
    c.via->finish(&c, NULL, &p[2]);
    assert_all(tr_now() - began + MARGIN >= 3.0 * one * (world.size - 1));
    other.via->finish(&other, NULL, &p[1]);
    c.via->finish(&c, NULL, &p[0]);
    for (int i = 0; i < 3; i++)
        free(t[i].data);
    other.via->release(&other);
    c.via->release(&c);
}

/* A message arrives when the link of its sender has sent it: the receiver waits, though its own
   link is idle, and a rank that has sent much is late in the collective calls of all. */
static void others_wait(void **state)
{
    const double rate = 8e6, latency = 0.02;
    const double sent = ELEMS * 4 * 8 / rate;
    struct tr_comm c = slow_world(rate, latency, 0.0);
    struct tr_tensor t = vector(ELEMS);
    double zero = 0.0, began;
    struct tr_tensor small = tr_f64_1(&zero, 1);
    struct tr_pending p;
    const struct tr_leg leg[2] = {{TR_LEG_SEND, world.size - 1, t.data, ELEMS * 4},
                                  {TR_LEG_RECV, 0, t.data, ELEMS * 4}};
    bool sends = world.rank == 0, receives = world.rank == world.size - 1;

    (void)state;
    if (world.size > 1) {
        began = begin(&c);
        if (sends || receives)
            c.via->exchange_start(&c, NULL, &leg[receives], 1, &p);
        if (receives)
            c.via->finish(&c, NULL, &p);
        assert_all(!receives || tr_now() - began + MARGIN >= sent + latency);
        if (sends)
            c.via->finish(&c, NULL, &p);
        assert_all(tr_comm_slow_bytes(&c, TR_SLOW_SEND) == (sends ? ELEMS * 4 : 0));

        began = begin(&c);
        if (sends || receives)
            c.via->exchange_start(&c, NULL, &leg[receives], 1, &p);
        c.via->allreduce(&c, NULL, &small, TR_SUM);
        assert_all(tr_now() - began + MARGIN >= sent + 2.0 * (world.size - 1) * latency);
        if (sends || receives)
            c.via->finish(&c, NULL, &p);
    }
    c.via->release(&c);
    free(t.data);
}

/* Jitter is added to some transfers more than to others, and averages to its half. */
static void jitters(void **state)
{
    enum { TIMES = 12 };
    struct tr_comm c = slow_world(1e12, 0.0, 0.02);
    double x = 0.0, total = 0.0;
    struct tr_tensor t = tr_f64_1(&x, 1);

    (void)state;
    for (int i = 0; i < TIMES && world.size > 1; i++) {
        double began = begin(&c);

        c.via->allreduce(&c, NULL, &t, TR_SUM);
        total += tr_now() - began;
    }
    /* The mean of the larger of two is 2/3 of 20 ms, with a deviation of 1.4 ms in a mean of 12. */
    assert_all(world.size == 1 || total / TIMES >= 0.008);
    c.via->release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_its_time),
        cmocka_unit_test(queues),
        cmocka_unit_test(others_wait),
        cmocka_unit_test(jitters),
    };
    return run_mpi_tap(tests);
}
