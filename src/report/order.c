/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/order.h"

#include <math.h>
#include <stdlib.h>

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The values that are numbers, sorted, in front; how many. */
static int64_t sort_numbers(double *x, int64_t n)
{
    int64_t kept = 0;

    for (int64_t i = 0; i < n; i++)
        if (!isnan(x[i]))
            x[kept++] = x[i];
    if (kept > 0)
        qsort(x, (size_t)kept, sizeof *x, ascending);
    return kept;
}

/* The probability that exactly k of n values are below the median. */
static double chance(int64_t n, int64_t k)
{
    return exp(lgamma((double)n + 1.0) - lgamma((double)k + 1.0) - lgamma((double)(n - k) + 1.0) -
               (double)n * log(2.0));
}

/* The median lies outside of [x[k], x[n-1-k]] when at most k values are below it, or above it. */
static void find_interval(const double *x, struct tr_order *o)
{
    int64_t n = o->count, k = 0;
    double outside = 2.0 * chance(n, 0);

    for (; 2 * (k + 1) < n; k++) {
        double more = outside + 2.0 * chance(n, k + 1);

        if (more > 0.05)
            break;
        outside = more;
    }
    o->low = x[k];
    o->high = x[n - 1 - k];
    o->sure = fmax(1.0 - outside, 0.0);
}

struct tr_order tr_order_of(double *x, int64_t n)
{
    struct tr_order o = {0, NAN, NAN, NAN, NAN, NAN, NAN, 0.0};
    double sum = 0.0;

    o.count = sort_numbers(x, n);
    if (o.count == 0)
        return o;
    for (int64_t i = 0; i < o.count; i++)
        sum += x[i];
    o.mean = sum / (double)o.count;
    o.min = x[0];
    o.max = x[o.count - 1];
    o.median = 0.5 * (x[(o.count - 1) / 2] + x[o.count / 2]);
    find_interval(x, &o);
    return o;
}
