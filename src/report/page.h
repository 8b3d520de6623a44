/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_PAGE_H
#define TR_REPORT_PAGE_H

#include <stdio.h>

#include "report/present.h"

/*
 * A study as one page: its tables, with figures behind those that they are of, and the arguments of each run,
 * folded up; of `searches`, files of `trireme plan --search --json`, their front.  It needs no other file, no network and no script to be read, and is XML as well as HTML 5.  gnuplot draws
 * the figures, as SVG in the page; where it cannot, a sentence and the figure as text take their place.  What comes out of
 * logs is text everywhere.
 */
void tr_page_write(const char *title, const struct tr_table *t, int count,
                   const struct tr_present *p, const struct tr_words *searches, FILE *f);

#endif
