/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "launch/spin.h"

/*
 * A thread that has nothing to do sleeps soon: 100 times all threads have work for a moment, and
 * then all but one none for 10 ms.  What they use is counted in seconds of the processor, which
 * other programs change little.
 */
enum { TIMES = 100, NANOSECONDS = 10000000 };

static double used(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleeps(void **state)
{
    const struct timespec moment = {.tv_nsec = NANOSECONDS};
    volatile int work[4] = {0};
    double before;

    (void)state;
#ifdef _OPENMP
    if (omp_get_num_procs() < 2)
        skip();
#else
    skip();
#endif
#ifndef __clang__
    assert_non_null(getenv("GOMP_SPINCOUNT"));
#endif
    before = used();
    for (int i = 0; i < TIMES; i++) {
#pragma omp parallel for num_threads(2)
        for (int k = 0; k < 4; k++)
            work[k]++;
        nanosleep(&moment, NULL);
    }
    before = used() - before;
    /* Libgomp's own bound of 6 ms and more makes 0.6 s of it, spinning without end 1 s. */
    if (before > 0.1)
        fail_msg("threads that wait used %.3f s of %.1f", before, TIMES * 1e-9 * NANOSECONDS);
}

/* What the user said stands. */
static void obeys(void **state)
{
    (void)state;
    assert_int_equal(setenv("OMP_WAIT_POLICY", "active", 1), 0);
    assert_int_equal(unsetenv("GOMP_SPINCOUNT"), 0);
    tr_spin_briefly(); /* returns */
    assert_null(getenv("GOMP_SPINCOUNT"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sleeps), cmocka_unit_test(obeys)};

    /* Tests are told to wait passively, which libgomp knows by now: it forgets when the program is
       executed again. */
    if (getenv("OMP_WAIT_POLICY")) {
        unsetenv("OMP_WAIT_POLICY");
        unsetenv("GOMP_SPINCOUNT");
        unsetenv("KMP_BLOCKTIME");
        tr_spin_briefly();
        puts("# not executed again");
    }
    return run_tap(tests);
}
