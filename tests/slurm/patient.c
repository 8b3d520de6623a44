/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into what runs on a virtual cluster or by tests/mpirun, where ranks are many more than cores.
 * A rank that waits for a message calls sched_yield(2) without end.  Linux 6.18 pushes a task that does so
 * far back, and a dozen of them keep each other, and all else on the machine, from running for up to a
 * minute.  Ranks that sleep a moment instead leave the cores to those that have something to do.
 */
#include <sched.h>
#include <time.h>

int sched_yield(void)
{
    const struct timespec moment = {.tv_nsec = 20000};
    nanosleep(&moment, NULL);
    return 0;
}
