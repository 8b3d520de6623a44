/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_ORDER_H
#define TR_REPORT_ORDER_H

#include <stdint.h>

/*
 * Medians and what is known of them.  Times of iterations have outliers on one side, when something
 * else ran on a node, so that a median says more than a mean, and an interval that assumes nothing
 * of their distribution more than a standard deviation.
 */
struct tr_order {
    int64_t count;
    double median, mean, min, max; /* NAN when count is 0 */
    double low, high; /* an interval that has the median of all iterations there could be in it */
    double sure;      /* with this probability, 0.95 or more; less when there are fewer than 6 */
};

/* Sorts x[n]; values that are NAN do not count.  The interval lies between two of the values, by
   the binomial distribution of how many of them are below the median. */
struct tr_order tr_order_of(double *x, int64_t n);

#endif
