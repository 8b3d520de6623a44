/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_PRESENT_PARTS_H
#define TR_REPORT_PRESENT_PARTS_H

#include "report/present.h"

/* What files that fill tables of report/present.h share. */

/* tr_summarize() with the warm-up, formula and peak of the report. */
void tr_present_summarize(const struct tr_present *p, const struct tr_record *r,
                          struct tr_summary *s);

/* The note on lines that were left out, of all tables of times. */
void tr_present_note_warmup(const struct tr_present *p, struct tr_table *t);

#endif
