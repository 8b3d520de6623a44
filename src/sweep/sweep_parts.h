/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SWEEP_SWEEP_PARTS_H
#define TR_SWEEP_SWEEP_PARTS_H

#include "sweep/place.h"
#include "sweep/results.h"
#include "sweep/space.h"

/* Seconds that a group of processes has between SIGTERM and SIGKILL, that a run may take to start until one has been
   seen, and that are kept free before the job ends. */
#define TR_SWEEP_GRACE 10.0
#define TR_SWEEP_START 30.0
#define TR_SWEEP_MARGIN 60.0

/* What a shape has. */
struct tr_sweep_state {
    json_t *runs; /* array of those that count, of earlier sweeps too; owned */
    bool ready;   /* there is nothing left to run */
};

/* A sweep under way. */
struct tr_sweep_way {
    const struct tr_sweep *w;
    struct tr_sweep_place place;
    struct tr_machine machine;
    bool has_machine;
    struct tr_sweep_space space;
    struct tr_sweep_results results;
    struct tr_sweep_state *state; /* [space.runs] */
    int ran;                      /* runs of this sweep */
    double took;                  /* seconds of these */
    double start;                 /* seconds of a run besides its iterations, the most so far */
    double iterations; /* seconds of iterations so far, and what was predicted for them */
    double predicted;
    bool stopped, ends; /* a signal came; the job comes to its end */
};

/* ---- state.c ---- */

/* The results that there are, held against others, and the tables of them.  As tr_sweep_results_open(); TR_ECONFIG
   where a shape has a result with other options. */
enum tr_status tr_sweep_open(struct tr_sweep_way *c) TR_MUST_CHECK;

/* Anew, but not of a shape that runs alone. */
enum tr_status tr_sweep_write_tables(const struct tr_sweep_way *c) TR_MUST_CHECK;

/* Shapes with nothing left to run; that trained to their end; whose last run was ended because it was slower than
   the best. */
int tr_sweep_ready(const struct tr_sweep_way *c);
int tr_sweep_good(const struct tr_sweep_way *c);
int tr_sweep_early(const struct tr_sweep_way *c);

/* Runs that shape i has, and those that are left, for all that is known. */
int64_t tr_sweep_runs_of(const struct tr_sweep_way *c, int i);
int64_t tr_sweep_runs_left(const struct tr_sweep_way *c, int i);

/* ---- runs.c ---- */

/* Seconds that a run of the shape may take. */
double tr_sweep_limit(const struct tr_sweep_way *c, const struct tr_sweep_shape *s);

/* All runs that are left and for which there is time and budget; see tr_sweep_run(). */
enum tr_status tr_sweep_run_all(struct tr_sweep_way *c) TR_MUST_CHECK;

#endif
