/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "comm/comm.h"
#include "comm/slow.h"
#include "util/status.h"

/*
 * late TRANSPORT: rank 1 comes to each of some calls half a second late, over mpi or slow.  Rank 0
 * prints the share of a core that it used while it waited, all its threads together.
 */
enum { ELEMS = 1000, NANOSECONDS = 500000000 };

static float data[2 * ELEMS];

static void message(struct tr_comm *c)
{
    const int64_t bytes = ELEMS * (int64_t)sizeof *data;
    const struct tr_leg legs[] = {{TR_LEG_SEND, 1 - c->rank, data, bytes},
                                  {TR_LEG_RECV, 1 - c->rank, data + ELEMS, bytes}};
    struct tr_pending p;

    c->via->exchange_start(c, NULL, legs, 2, &p);
    c->via->finish(c, NULL, &p);
}

static void sum(struct tr_comm *c)
{
    const struct tr_tensor x = tr_tensor_1(data, TR_F32, ELEMS);

    c->via->allreduce(c, NULL, &x, TR_SUM);
}

static void gather(struct tr_comm *c)
{
    int all[2];

    c->via->gather_all(c, &c->rank, sizeof c->rank, all);
}

static void barrier(struct tr_comm *c)
{
    c->via->barrier(c);
}

static double used(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    static void (*const calls[])(struct tr_comm *) = {barrier, sum, gather, message};
    const struct timespec moment = {.tv_nsec = NANOSECONDS};
    const int count = sizeof calls / sizeof *calls;
    struct tr_comm world, over, *c = &world;
    double before;

    if (tr_comm_mpi_start(&world) != TR_OK || world.size != 2)
        tr_die(TR_EINTERNAL, "two ranks, please");
    if (argc > 1 && strcmp(argv[1], "slow") == 0) {
        tr_comm_slow_open(&world, (struct tr_slow_how){.rate = 1e11, .latency = 1e-6}, &over);
        c = &over;
    }
    barrier(c);
    before = used();
    for (int i = 0; i < count; i++) {
        if (c->rank == 1)
            nanosleep(&moment, NULL);
        calls[i](c);
    }
    if (c->rank == 0)
        printf("%.3f\n", (used() - before) / (1e-9 * NANOSECONDS * count));
    fflush(stdout);
    barrier(c);
    if (c != &world)
        c->via->release(c);
    tr_comm_mpi_stop(&world);
    return 0;
}
