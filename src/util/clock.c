/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/clock.h"

#include <time.h>

double tr_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
