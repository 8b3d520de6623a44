/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SIM_GOODPUT_H
#define TR_SIM_GOODPUT_H

#include <stdint.h>

/*
 * A run that fails: nodes do so independently, after exponentially distributed times, so that the job has a mean time
 * M between failures.  It computes t seconds, saves for C, and after a failure waits Q in the queue and starts for R,
 * in which it may fail again; what it computed since the last save is lost.  The expected time from one save to the
 * next is then
 *
 *     (M + Q) exp(R / M) (exp((t + C) / M) - 1)
 *
 * (without a queue that of J. T. Daly, "A higher order estimate of the optimum checkpoint interval for restart dumps",
 * 2006), and goodput is t over it.
 *
 * Waits in the queue may vary: lognormal, with the mean Q and a median.  The formula needs the mean alone, since nothing
 * fails in the queue.
 */
struct tr_failures {
    double mtbf, save, restart, queue; /* M, C, R, Q in seconds */
    double median;                     /* of waits, at most Q; 0: all are Q */
};

/* The wait below which a share of them stays that a standard normal number leaves below z; and wait number `number` of a
   month. */
double tr_goodput_wait_at(const struct tr_failures *f, double z);
double tr_goodput_wait(const struct tr_failures *f, uint64_t seed, int month, uint64_t number);

/* Goodput where saves are `interval` seconds of computation apart; and the interval for which it is best, the root of
   1 - t / M = exp(-(t + C) / M), which depends on neither R nor Q. */
double tr_goodput_expected(const struct tr_failures *f, double interval);
double tr_goodput_best(const struct tr_failures *f);

/* Goodput of month number `month`, 30 days that begin when the run does, event by event. */
double tr_goodput_month(const struct tr_failures *f, double interval, uint64_t seed, int month);

enum { TR_GOODPUT_MONTHS = 200 };
struct tr_goodput {
    struct tr_failures failures;          /* mtbf 0: not known, and nothing else is */
    double best, young, daly;             /* intervals, seconds */
    double interval;                      /* of --save-interval, or the best */
    double expected, p10, p50, p90, mean; /* goodput: of the formula, and of months */
};
struct tr_goodput tr_goodput_of(const struct tr_failures *f, double interval, uint64_t seed);

#endif
