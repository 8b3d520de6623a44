/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PLAN_PARETO_H
#define TR_PLAN_PARETO_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "plan/plan.h"

/*
 * `trireme plan --search`: all options that change memory or speed, and what remains of them: the runs that no other
 * beats in time, memory and GPU-hours at once (Pareto), and why the neighbours of the fastest were rejected.
 *
 * Every combination of pareto.def is looked at.  Those that training would refuse are, those whose parameters alone
 * are too much for a GPU are left out, and all others have a time in closed form.  In the order of that time memory is
 * counted as it would be allocated, but for those whose parameters alone take as much as the least so far.
 */
enum tr_pareto_dim {
#define DIM(name, option, others) TR_PARETO_##name,
#include "plan/pareto.def"
    TR_PARETO_DIMS
};

enum {
    TR_PARETO_NUMBERS = 16,
    TR_PARETO_MOST = 24,
    TR_PARETO_REJECTED = 64,
    TR_PARETO_WORDS = 512
};

struct tr_pareto_ask {
    bool fixed[TR_PARETO_DIMS]; /* what the options say stays */
    int gpu_counts, batch_counts;
    int64_t gpus[TR_PARETO_NUMBERS], batches[TR_PARETO_NUMBERS]; /* none: those of the options */
    bool everything; /* leave nothing out before its memory is counted: for tests */
};

/* A run: what it changes of the options that were given, "no --x" for one to leave out, and what is planned for it. */
struct tr_pareto_run {
    int64_t value[TR_PARETO_DIMS];
    int world;
    int64_t batch;
    double seconds, bytes; /* of an iteration; of its largest rank */
    double gpu_hours;      /* of the whole run, or of 10^9 tokens where its length is not known */
    char options[TR_PARETO_WORDS];
};

struct tr_pareto {
    double looked, refused, too_large, counted,
        left;     /* combinations: all, refused by training, with too many
                                                         parameters, whose memory was counted, beyond its limit */
    double least; /* bytes of the smallest that was counted; INFINITY for none */
    bool whole;   /* GPU-hours are of the whole run */
    int runs;
    struct tr_pareto_run run[TR_PARETO_MOST]; /* the fastest per sample first */
    int rejected;
    struct tr_pareto_rejected {
        char options[64], why[480];
    } reject[TR_PARETO_REJECTED]; /* neighbours of the first */
};

/* Whether an option of training is one of the dimension, or says what it does. */
bool tr_pareto_says(int dim, const char *option);

/* Search around `base`, a plan with a machine.  TR_ERESOURCE if nothing fits, with the least that was found. */
enum tr_status tr_pareto_search(const struct tr_plan *base, const struct tr_pareto_ask *ask,
                                struct tr_pareto *out) TR_MUST_CHECK;

void tr_pareto_text(const struct tr_plan *base, const struct tr_pareto *x, FILE *f);
/* A new reference. */
json_t *tr_pareto_json(const struct tr_plan *base, const struct tr_pareto *x);

#endif
