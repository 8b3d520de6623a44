/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SWEEP_RESULTS_H
#define TR_SWEEP_RESULTS_H

#include <jansson.h>

#include "report/agree.h"
#include "sweep/guard.h"
#include "sweep/place.h"
#include "sweep/space.h"

/* What a run did, by its log and by how it ended. */
struct tr_sweep_seen {
    char *log; /* name in the folder; owned */
    struct tr_guard_result end;
    int64_t last; /* iteration; 0 if there is none */
    bool whole;   /* it trained to its end, and ended well */
    bool left;    /* it left early, because the job ends: that says nothing of the shape */
    bool
        early; /* it left because it was slower than the best shape: `why` is for the caller to say */
    char *why;       /* it did none of these; owned */
    double *seconds; /* [count] of the iterations that count; owned */
    int64_t count;
    double mib;           /* what the fullest rank held; NAN if the log does not say */
    struct tr_loss *loss; /* [losses], ascending; owned */
    int64_t losses;
};

/* Look at a run that has ended.  `limit` is the time it had. */
void tr_sweep_look(const struct tr_sweep *w, const char *log, const struct tr_guard_result *end,
                   double limit, struct tr_sweep_seen *out);
void tr_sweep_seen_release(struct tr_sweep_seen *s);

/* What a record has of that run, a new reference; see `runs` below.  Sorts its seconds. */
json_t *tr_sweep_run_record(const struct tr_sweep_seen *run);

/*
 * The record of a shape, a new reference, after the runs of an array, tr_sweep_run_record() of each, in their
 * order; there is one at least.  `command` are the words of trireme, beginning with "train".  Numbers that are not
 * known have no member.
 *
 *   schema     1
 *   shape      its name; logs are SHAPE.0.log, SHAPE.1.log, ...
 *   ok         the first run trained to its end;  error  of the last run that did not;  early  that run was
 *              ended because it was slower than the best shape
 *   date, node_list, job
 *   ranks, nodes, tp, pp, dp, chunks, mbs, gbs, micro_batches, seq, zero_stage, recompute, offload,
 *   rank_order, parameters, stage_layers (of --sweep-split)
 *   options    of --sweep, by name: values as typed
 *   warmup     iterations of each run that do not count
 *   predicted  mem_mib, and with a profile seconds_per_it, seconds_low, seconds_high,
 *              machine
 *   measured   iterations that count, runs that have some, seconds_per_it (the median of the runs' medians),
 *              seconds_min, seconds_max, seconds_low, seconds_high and sure (an interval that has the
 *              median with that probability, report/order.h: of the runs, and of the iterations where there
 *              is one run), samples_per_second, tflops (of a rank, sc21), tflops_model (2024), mem_mib
 *   runs       of each log, ok, error, early, exit_code or signal, last_iteration, seconds_per_it (median), seconds
 *              (of each iteration that counts, ascending),
 *              losses ([iteration before, iteration, loss] of each line, at most 1000), mem_mib, seconds_in_all
 *   command, built
 */
json_t *tr_sweep_result(const struct tr_sweep *w, const struct tr_sweep_place *place,
                        const struct tr_sweep_space *space, const struct tr_sweep_shape *s,
                        const json_t *command, const json_t *runs);

/* results.jsonl: a record a line, the newest of a shape counts.  Of a sweep of one shape alone (--sweep-only), such as
   an array task, shapes/NAME.json: one record, written and renamed, so that any number of them share a folder. */
struct tr_sweep_results {
    int fd; /* what is locked */
    char *path, *parts;
    bool alone;
    json_t *newest; /* array, one of each shape */
};

/*
 * Open it, or begin one, and hold it against other sweeps as long as it is open, in this process and in
 * guards that outlive it.  A last line without an end, of a sweep that was killed, is removed.  Records of
 * shapes/ are taken over, and their files removed where no sweep has them open.  With `only`, the name of a shape,
 * its file is held instead, and all others are read and left as they are.
 * TR_ERESOURCE if another sweep has it; TR_EDATA names a line that is no record; TR_EIO.
 */
enum tr_status tr_sweep_results_open(const char *folder, const char *only, double patience,
                                     struct tr_sweep_results *out) TR_MUST_CHECK;
void tr_sweep_results_close(struct tr_sweep_results *r);

/* The record of that shape, borrowed, or NULL. */
const json_t *tr_sweep_results_find(const struct tr_sweep_results *r, const char *shape);

/* Takes `record` over; it is on the disk when this returns.  TR_EIO. */
enum tr_status tr_sweep_results_add(struct tr_sweep_results *r, json_t *record) TR_MUST_CHECK;

/* Did the first run of this record, or this run, train to its end? */
bool tr_sweep_is_good(const json_t *record);

#endif
