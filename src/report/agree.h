/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_AGREE_H
#define TR_REPORT_AGREE_H

#include "report/record.h"

/*
 * Do runs in other layouts train the same?  Their losses at the same iterations say it.  A line of a log has the
 * mean over the iterations since the line before it, so that two lines are compared when they end and begin at the
 * same iterations.
 */
struct tr_loss {
    int64_t after, iteration; /* the mean over iterations after + 1 to iteration */
    double loss;              /* NAN: there is none */
};

/* Those of a run, ascending; owned by the caller. */
struct tr_loss *tr_record_losses(const struct tr_record *r, int64_t *count);

/* The largest |a - b| / |b|: infinite where one alone is a number, NAN where nothing is in common. */
double tr_losses_differ(const struct tr_loss *a, int64_t na, const struct tr_loss *b, int64_t nb);

/* The power of ten that such a difference is not above, "1e-5"; "equal" for 0, "no" for infinity, "" for NAN.
   Returns `text`. */
enum { TR_AGREE_BYTES = 16 };
const char *tr_agree_text(double difference, char text[TR_AGREE_BYTES]);

/* The difference of run `r` of `all` to the first one with the same model, seed, data and global batch size, by facts and by
   the arguments that name them; NAN where `r` is that one, or its log does not say the model and the batch. */
double tr_agree(const struct tr_records *all, const struct tr_record *r);

#endif
