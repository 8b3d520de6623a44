/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_TIMELINE_H
#define TR_TRAIN_TIMELINE_H

#include "train/run.h"
#include "telemetry/trace.h"

/*
 * --trace PATH: what all ranks did in some iterations, in one file and on one clock: JSON of Chrome's trace viewer,
 * which ui.perfetto.dev reads too (train/trace_file.h).
 *
 * What comes after iteration --trace-step-start up to the end of --trace-step-end is recorded, as
 * --profile-step-start and -end count.  It is written when that is over, or when the run ends
 * before. Times are those of the host.  Where a GPU computes and --timing is sync, it has caught up
 * with the host at each of them; with --timing events they say when the host queued the work.
 *
 * The room is taken at the start, for what these iterations need but no more than 64 MiB; beyond
 * that a rank keeps the newest spans, and the file says how many are missing.  A file that cannot be
 * written is output that is lost (util/log.h).
 */
struct tr_timeline {
    struct tr_run *run;   /* borrowed */
    struct tr_span *span; /* [most] owned; span number i is in i % most */
    int64_t most, added;
    double error; /* seconds: of the common clock, at most */
    char *path;   /* of --trace, or NULL; owned */
    bool waits;   /* spans separate waits from transfers */
    bool over;    /* nothing is recorded any more */
};

/* Whether an option asks for one. */
bool tr_timeline_wanted(const struct tr_config *c);

/* `most`: spans of an iteration, at most.  `waits`: they will separate waits from transfers.  On
   all ranks TR_ERESOURCE, or TR_EIO if rank 0 cannot write to the file of --trace.  Collective over
   the world.  Close it also after a failure. */
enum tr_status tr_timeline_open(struct tr_timeline *t, struct tr_run *run, int64_t most,
                                bool waits) TR_MUST_CHECK;
void tr_timeline_close(struct tr_timeline *t);

/* Must the spans until the end of this iteration be added before the next one begins? */
bool tr_timeline_due(const struct tr_timeline *t, int64_t iteration);

/* The spans of iterations up to run->iteration, on the common clock, which is off by at most
   `error`; kept if they are to be recorded.  Not collective. */
void tr_timeline_add(struct tr_timeline *t, const struct tr_span *span, int64_t count,
                     double error);

/* Write what there is if recording is over, or in any case: `now`.  Collective. */
void tr_timeline_write(struct tr_timeline *t, bool now);

#endif
