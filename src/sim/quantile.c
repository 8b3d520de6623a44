/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/quantile.h"

#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double tr_quantile(double *x, int n, double q)
{
    const double at = q * (n - 1);
    const int below = (int)at;

    qsort(x, (size_t)n, sizeof *x, ascending);
    return below + 1 < n ? x[below] + (at - below) * (x[below + 1] - x[below]) : x[n - 1];
}
