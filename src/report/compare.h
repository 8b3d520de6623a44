/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_COMPARE_H
#define TR_REPORT_COMPARE_H

#include "report/summary.h"

/*
 * Two runs, phase by phase: the elapsed time and every timer that both have, milliseconds.  Medians
 * with intervals from order statistics (report/order.h), 95 % or what so few lines allow.  Where the
 * intervals overlap the difference is within the noise.
 */
enum tr_verdict { TR_WITHIN_NOISE, TR_FASTER, TR_SLOWER, TR_TOO_FEW };

struct tr_phase {
    const char *name; /* "elapsed" or a timer of the first run; borrowed from it */
    struct tr_order a, b;
    enum tr_verdict
        verdict; /* on the second against the first; too few: a run has one line alone */
};

struct tr_comparison {
    struct tr_phase *phase; /* [count], owned */
    int count;
    double sure; /* the least probability of any interval */
};

/* TR_EDATA if one of them has no line that counts. */
enum tr_status tr_compare(const struct tr_record *a, const struct tr_record *b, int64_t warmup,
                          struct tr_comparison *out) TR_MUST_CHECK;
void tr_comparison_release(struct tr_comparison *c);

const char *tr_verdict_text(enum tr_verdict v);

#endif
