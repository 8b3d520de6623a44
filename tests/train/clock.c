/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Preloaded into ranks: the processor time of a thread is not that of the machine, but the number of times that it
 * was asked for, each 500 ms.  So what a rank is told that it computed follows from its work alone, on any machine.
 * Each look whether a message has come takes another 500 ms, as waiting takes processor time: a rank that counted
 * that as computing would count something else in each run.
 *
 *   TR_SLOW_RANK=R      of this rank of MPI's world each is 20 % longer
 *   TR_SLOW_UNTIL=N     for the first N of them; unless given, for ever
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static long number(const char *name, long otherwise)
{
    const char *text = getenv(name);

    return text ? strtol(text, NULL, 10) : otherwise;
}

/* Open MPI's launcher says it, or else srun does. */
static long rank_of_world(void)
{
    return number("OMPI_COMM_WORLD_RANK", number("SLURM_PROCID", 0));
}

enum { TICK = 500000000, SLOW_TICK = 600000000 };
static _Thread_local long long now;

int PMPI_Testall(int count, void *requests, int *done, void *statuses);

int MPI_Testall(int count, void *requests, int *done, void *statuses)
{
    now += TICK;
    return PMPI_Testall(count, requests, done, statuses);
}

static long long thread_nanoseconds(void)
{
    static _Thread_local long asked;

    if (rank_of_world() == number("TR_SLOW_RANK", -1) && asked < number("TR_SLOW_UNTIL", 1L << 30))
        now += SLOW_TICK;
    else
        now += TICK;
    asked++;
    return now;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    static int (*real)(clockid_t, struct timespec *);
    long long t;

    if (clock == CLOCK_THREAD_CPUTIME_ID) {
        t = thread_nanoseconds();
        *out = (struct timespec){.tv_sec = t / 1000000000, .tv_nsec = t % 1000000000};
        return 0;
    }
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    return real(clock, out);
}
