/* SPDX-License-Identifier: BSD-3-Clause */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm.h"
#include "comm/slow.h"
#include "telemetry/timer.h"

/*
 * hung LIMIT TRANSPORT CALL DEED [RANK]: some rounds of a call over mpi or slow, for t_hung.sh; no wait may
 * last LIMIT seconds.  Before the third round that rank (1) stops itself, loops for ever, sleeps for one
 * second, or dies of an error: DEED is stop, loop, sleep or die.  With the call "ask" the others do not
 * wait there, but all tell at once that they have, and ask who is missing.
 */
enum { ROUNDS = 4, ELEMS = 100000 };

static struct tr_comm mpi, over;
static float data[8 * ELEMS];

static void message(struct tr_comm *c)
{
    const int next = (c->rank + 1) % c->size, before = (c->rank + c->size - 1) % c->size;
    const struct tr_leg legs[] = {{TR_LEG_SEND, next, data, ELEMS},
                                  {TR_LEG_RECV, before, data + ELEMS, ELEMS}};
    struct tr_pending p;

    c->via->exchange_start(c, NULL, legs, 2, &p);
    c->via->finish(c, NULL, &p);
}

static void started(struct tr_comm *c, const struct tr_tensor *x)
{
    struct tr_pending p;

    c->via->allreduce_start(c, NULL, x, TR_SUM, &p);
    c->via->finish(c, NULL, &p);
}

static void named(struct tr_comm *c, const struct tr_tensor *x)
{
    struct tr_pending p;

    c->via->allreduce_start(c, NULL, x, TR_SUM, &p);
    strcpy(p.about, "head.weight, norm.bias");
    c->via->finish(c, NULL, &p);
}

static void divide(struct tr_comm *c)
{
    struct tr_comm half;

    if (c->via->split(c, c->rank / 2, 0, "half", &half) != TR_OK)
        tr_die(TR_EINTERNAL, "%s", tr_last_error());
    half.via->release(&half);
}

static void ask(struct tr_comm *c)
{
    const double since = tr_now() - 60.0;

    c->via->alarm(c, "a call is not done", true);
    /* Long enough for each to hear all. */
    sleep(1);
    TR_ASSERT(c->via->alarmed(c));
    c->via->late(c, "call", 7, since);
}

static int once(struct tr_comm *c, const char *call)
{
    struct tr_tensor x = tr_f32_1(data, ELEMS), all = tr_f32_1(data, (int64_t)c->size * ELEMS);
    struct tr_tensor mine = tr_tensor_span(&all, (int64_t)c->rank * ELEMS, ELEMS), few = x;
    int64_t gathered[8];

    few.dim[0] = 3;
    if (strcmp(call, "sum") == 0)
        c->via->allreduce(c, NULL, &x, TR_SUM);
    else if (strcmp(call, "few") == 0)
        c->via->allreduce(c, NULL, &few, TR_SUM);
    else if (strcmp(call, "started") == 0)
        started(c, &x);
    else if (strcmp(call, "named") == 0)
        named(c, &x);
    else if (strcmp(call, "scatter") == 0)
        c->via->reduce_scatter(c, NULL, &mine, &all, TR_SUM);
    else if (strcmp(call, "allgather") == 0)
        c->via->allgather(c, NULL, &all);
    else if (strcmp(call, "broadcast") == 0)
        c->via->broadcast(c, NULL, &x, 1);
    else if (strcmp(call, "message") == 0)
        message(c);
    else if (strcmp(call, "barrier") == 0 || strcmp(call, "ask") == 0)
        c->via->barrier(c);
    else if (strcmp(call, "gather") == 0)
        c->via->gather_all(c, &gathered[7], sizeof gathered[7], gathered);
    else if (strcmp(call, "split") == 0)
        divide(c);
    else
        return 1;
    return 0;
}

static void act(const char *deed)
{
    volatile int turns = 0;

    if (strcmp(deed, "stop") == 0)
        raise(SIGSTOP);
    else if (strcmp(deed, "sleep") == 0)
        sleep(1);
    else if (strcmp(deed, "die") == 0)
        tr_die(TR_EDATA, "this rank dies of an error");
    else
        while (strcmp(deed, "loop") == 0)
            turns = !turns;
}

int main(int argc, char **argv)
{
    const int who = argc > 5 ? (int)strtol(argv[5], NULL, 10) : 1;
    struct tr_comm *c = &mpi;

    if (argc < 5 || tr_comm_mpi_start(&mpi) != TR_OK)
        return 1;
    if (strcmp(argv[2], "slow") == 0) {
        tr_comm_slow_open(&mpi, (struct tr_slow_how){.rate = 1e11, .latency = 1e-6, .jitter = 1e-5},
                          &over);
        c = &over;
    }
    tr_comm_mpi_limit(&mpi, strtod(argv[1], NULL));
    for (int round = 0; round < ROUNDS; round++) {
        if (round == 2 && c->rank == who)
            act(argv[4]);
        if (round == 2 && strcmp(argv[3], "ask") == 0)
            ask(c);
        if (c->size > 8 || once(c, argv[3]) != 0)
            return 1;
    }
    if (c == &over)
        over.via->release(&over);
    printf("rank %d is done\n", mpi.rank);
    tr_comm_mpi_stop(&mpi);
    return 0;
}
