/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_STUDY_TIMELINE_H
#define TR_STUDY_TIMELINE_H

#include <stdint.h>
#include <stdio.h>

#include "util/status.h"

/*
 * One iteration of all ranks as a picture, out of the trace that `trireme train --trace` wrote
 * (docs/timelines.md): a row for each rank, in it the forward and backward passes with the numbers of their
 * micro-batches, below them what was sent, in grey the part of it that was waiting for the other end, then
 * the sums of gradients and the optimizer.
 */
struct tr_timeline; /* a trace that was read */

/* TR_EIO if the file cannot be read; TR_EDATA, with the line, if it is no JSON, or no trace of this
   program's.  Release also after a failure. */
enum tr_status tr_timeline_read(const char *path, struct tr_timeline **out) TR_MUST_CHECK;
void tr_timeline_release(struct tr_timeline *t);

/* Iteration `iteration`, or the first with a negative number, as SVG.  TR_ECONFIG if the trace does not have
   it. */
enum tr_status tr_timeline_svg(const struct tr_timeline *t, int64_t iteration,
                               FILE *f) TR_MUST_CHECK;

#endif
