/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_PAGE_FIGURE_H
#define TR_REPORT_PAGE_FIGURE_H

#include "report/draw.h"

/* A plot as a figure of a page of HTML; `number` is another one for each figure of the page, because names of
   elements must differ. */
void tr_page_figure(const struct tr_plot *plot, int number, FILE *f);

#endif
