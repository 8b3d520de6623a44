/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PLAN_CALIBRATE_H
#define TR_PLAN_CALIBRATE_H

#include "config/config.h"
#include "config/machine.h"
#include "config/shape.h"

/*
 * A machine profile from runs whose time is known: the constants of calibrate.def, moved from those of a profile as
 * far as the runs say so.
 *
 * What is minimized, by Levenberg and Marquardt, is
 *
 *     sum over runs of rho(log(planned / measured) / error) + sum over constants of (log(x / profile's x) / spread)^2
 *
 * with rho of Huber, a square up to 2 and a line beyond, so that one slow day does not decide.  `error` is what a plan
 * is usually off by: 5 % of an iteration, 10 % of a part that a timer has; where the middle one of the residuals says
 * that it is more, all is done again with as much more.  A constant is kept if its standard
 * deviation at the minimum (Laplace's approximation) is at most half of `spread`; otherwise the runs do not determine it, it
 * stays what it was, and the others are fitted again.  With fewer than three different shapes, or where no constant is
 * determined, one factor on all times is fitted instead, their mean of measured over planned.
 *
 * The error on runs that it has not seen is that of folds, up to ten: each is predicted by the same procedure from the
 * others.  All runs of one shape are in one fold, and count as one.  No clock, no random number: the same runs give
 * the same profile.
 */
struct tr_measured {
    const char *name;        /* for people; borrowed */
    struct tr_config config; /* borrows the texts of the caller's */
    struct tr_shape shape;
    int64_t params; /* of the largest stage */
    double seconds; /* of an iteration */
    double
        compute; /* of its computing, forward and backward, and waiting for tensor ranks; NAN: not known */
    double optimizer; /* of its optimizer step; NAN: not known */
    int group; /* its shape: runs that a plan cannot tell apart have the same number, from 0 */
    double was, now; /* seconds planned with the profile, and with what was fitted */
    double held;     /* seconds planned without its shape; NAN: there were too few */
};

enum {
#define CONSTANT(field, way, spread, from) TR_CALIBRATE_##field,
#include "plan/calibrate.def"
    TR_CALIBRATE_CONSTANTS
};

struct tr_calibration {
    struct tr_machine
        machine; /* fitted; its time-low and time-high are the interval, 0 where there is none */
    int runs, shapes;
    bool scaled;   /* one factor was fitted, */
    double factor; /* this one; else 1 */
    struct tr_calibrated {
        const char *key;
        double was, now;
        bool fitted;
        double
            error; /* standard deviation of its logarithm; of one that was not fitted, what it would have been */
    } constant[TR_CALIBRATE_CONSTANTS];
    int constants; /* those with a spread, the first in the list */
    double error_was, error_now,
        error_held; /* means of |planned / measured - 1| over shapes; NAN: no held-out error */
};

/* A run of these options that took `seconds` for an iteration.  What tr_plan_itself() refuses. */
enum tr_status tr_measured_open(const struct tr_config *c, const struct tr_machine *m,
                                const char *name, double seconds,
                                struct tr_measured *out) TR_MUST_CHECK;

/*
 * Fit `m` to run[runs], whose was, now, held and group are set.  TR_EDATA where there is none, or where there are
 * several and all have one shape.
 */
enum tr_status tr_calibrate(const struct tr_machine *m, struct tr_measured *run, int runs,
                            struct tr_calibration *out) TR_MUST_CHECK;

/*
 * Between which a further value lies in eight of ten cases, given x[n], n >= 2, sorted here.  From nine on, two of
 * them, the k-th from either end with k = floor((n + 1) / 10): of n + 1 values that are equally likely to come in any
 * order, at least 8 in 10 lie between.  With fewer no two of them are far enough apart, so it is Student's
 * interval for a further value, mean +- t s sqrt(1 + 1/n), and no less than all of them.
 */
void tr_calibrate_interval(double *x, int n, double *low, double *high);

#endif
