/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_SCALING_H
#define TR_REPORT_SCALING_H

#include "report/breakdown.h"

/*
 * Scaling efficiency of runs on more GPUs, and its factors.
 *
 * Efficiency is work per GPU and second against the fastest run with the fewest GPUs: tokens where the
 * model is the same, its operations where it grows.  The same batch makes it strong scaling, a
 * batch in proportion to the GPUs weak scaling.
 *
 * The factors of a run multiply to the operations that its GPUs do, in TFLOP/s of one, by formula
 * sc21:
 *
 *   busy      1 - bubble:  (elapsed - fill - drain) / elapsed
 *   hidden    1 - exposed: what then remains without transfers and gradient reductions
 *   step      what then remains without optimizer, data and other: the computing part
 *   balance   mean work of the ranks over that of the last stage, whose time this is; by counting
 * operations, logits included, unless the log has the times of all ranks gemm      TFLOP/s while
 * computing; over the peak it is the GEMM efficiency
 */
enum tr_scaling_kind { TR_SCALING_BASE, TR_SCALING_STRONG, TR_SCALING_WEAK, TR_SCALING_OTHER };

struct tr_scaling {
    enum tr_scaling_kind kind;
    double gpus, speed_up; /* of the work per second */
    double efficiency;
    /* The speed-up's interval by the run's own median (order.h), against the median of the smallest, and
       how sure it is: 0, and no interval but the speed-up itself, where one line counts. */
    double speed_up_low, speed_up_high, sure;
    bool has_factors; /* else the log has no timers, and what follows is NAN */
    double busy, hidden, step, balance, gemm;
    double total; /* their product, TFLOP/s of a GPU */
};

/* One run against the smallest.  NAN where the logs lack what is needed. */
void tr_scale(const struct tr_record *r, const struct tr_record *smallest, int64_t warmup,
              struct tr_scaling *out);

/* The run with the fewest GPUs among those of r[count] that are from `origin` and have lines that count, of several with
   one model the fastest; NULL if none does.  What was measured is compared with what was measured, plans with plans. */
const struct tr_record *tr_scale_base(const struct tr_record *r, int count,
                                      enum tr_run_origin origin, int64_t warmup);

const char *tr_scaling_text(enum tr_scaling_kind k);

#endif
