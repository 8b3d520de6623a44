/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_LOGGING_PARTS_H
#define TR_TRAIN_LOGGING_PARTS_H

#include "train/logging.h"

/* What train/logging.c and train/logging_terminal.c share.  Collective over the world, all of it. */

/* Bring what the last rank wrote into text[TR_REPORT_BYTES] to rank 0, into its `text`. */
void tr_logging_fetch(struct tr_run *r, char *text);

/* The lines of --log-format terminal (telemetry/terminal.h), for the functions of train/logging.h that end
   alike. */
void tr_logging_brief_start(const struct tr_run *r);
void tr_logging_brief_iteration(struct tr_logging *t, const struct tr_iteration_line *line);
void tr_logging_brief_validation(struct tr_run *r, const char *where, double loss);
void tr_logging_brief_done(const struct tr_logging *t);

#endif
