/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into what runs on a virtual cluster or by tests/mpirun, where ranks are many more than
 * cores. A rank that waits for a message calls sched_yield(2) without end.  Linux 6.18 pushes a
 * task that does so far back, and a dozen of them keep each other, and all else on the machine,
 * from running for up to a minute.  Ranks that sleep a moment instead leave the cores to those that
 * have something to do.
 *
 * A thread beside that of main() looks after messages while it holds a lock that main() may wait
 * for (src/comm/progress_thread.c), and MPI yields in each of its looks.  It sleeps by itself
 * between them, so here it goes on at once.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <time.h>
#include <unistd.h>

int sched_yield(void)
{
    static _Thread_local enum { UNKNOWN, MAIN, OTHER } kind;
    const struct timespec moment = {.tv_nsec = 20000};

    if (kind == UNKNOWN)
        kind = gettid() == getpid() ? MAIN : OTHER;
    if (kind == OTHER)
        return 0;
    nanosleep(&moment, NULL);
    return 0;
}
