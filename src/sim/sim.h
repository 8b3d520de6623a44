/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SIM_SIM_H
#define TR_SIM_SIM_H

#include <jansson.h>
#include <stdio.h>

#include "sim/goodput.h"
#include "sim/engine.h"
#include "util/status.h"

/* `trireme sim`: an iteration of a planned run, as often as there are draws, and a month of them. */

struct tr_sim_ask {
    struct tr_sim_like like; /* its speeds are owned */
    struct tr_sim_curve curve;
    double jitter; /* deviation of the logarithm of a pass's time, from 0 */
    int draws;     /* at least 1; without jitter all are alike, and one is made */
    uint64_t seed;
    bool every_rank;             /* do not look for ranks that are alike */
    double restart, queue, save; /* seconds; save < 0: as the plan has it */
    double queue_median;         /* seconds; 0: all waits are `queue` */
    int watched;
    int *watch; /* ranks to trace, owned */
};
void tr_sim_ask_release(struct tr_sim_ask *a);

/* "RANK:SPEED,FIRST-LAST:SPEED,..." into `a`: the speed at which ranks compute, 1 being that of the others; and
   "RANK,RANK,..." of those to trace.  TR_ECONFIG. */
enum tr_status tr_sim_parse_speeds(const char *text, int world, struct tr_sim_ask *a) TR_MUST_CHECK;
enum tr_status tr_sim_parse_ranks(const char *text, int world, struct tr_sim_ask *a) TR_MUST_CHECK;

/* Seconds of a cause of a rank: the mean of all, of the rank with least and of that with most. */
struct tr_sim_spent {
    double mean, least, most;
};

/* Of the capacity of links of a kind, the share that an iteration uses: the busiest of them, and the mean. */
struct tr_sim_use {
    int links;
    double gbs, busiest, mean;
};

struct tr_sim_report {
    double planned, p10, p50, p90; /* seconds of an iteration */
    int draws;
    double ranks;  /* all, and */
    int units, of; /* groups of tensor ranks that were simulated, of how many */
    enum tr_sim_algorithm replicas_by, tensor_by;
    int64_t events; /* of the first draw, as are the following */
    struct tr_sim_spent spent[TR_SIM_CAUSES];
    struct tr_sim_use use[TR_NET_KINDS];
    struct tr_goodput goodput;
    int spans; /* of the ranks to trace, owned; `unit` is the rank */
    struct tr_sim_span *span;
};

/* Of a plan with a machine.  TR_ECONFIG if it is too large, or fails all the time.  Release also after a failure. */
enum tr_status tr_sim_make(const struct tr_plan *p, const struct tr_sim_ask *a,
                           struct tr_sim_report *out) TR_MUST_CHECK;
void tr_sim_release(struct tr_sim_report *r);

/*
 * "KEY=VALUE,KEY=2x,...": keys of the machine profile (config/machine.def), with a new value or a multiple of what they
 * are.  TR_ECONFIG names the key, or the range.
 */
enum tr_status tr_sim_change(struct tr_machine *m, const char *text) TR_MUST_CHECK;

/* The median iteration with one constant of the machine a tenth lower and a tenth higher, where that is in its range
   and changes it; `rows` of them. */
enum { TR_SIM_SENSITIVITIES = 40 };
struct tr_sim_sensitivity {
    const char *key;
    double lower, higher; /* of the time, relative: 0.02 is 2 % more */
};
enum tr_status tr_sim_sensitivities(const struct tr_config *c, const struct tr_machine *m,
                                    const struct tr_sim_ask *a, double seconds,
                                    struct tr_sim_sensitivity row[TR_SIM_SENSITIVITIES],
                                    int *rows) TR_MUST_CHECK;

void tr_sim_text(const struct tr_plan *p, const struct tr_sim_report *r, FILE *f);
json_t *tr_sim_json(const struct tr_plan *p, const struct tr_sim_report *r);

/* The watched ranks in the form of `trireme train --trace` (train/trace_file.h).  Sums inside
   layers belong to their pass; `wait` is waiting for another stage or replica. */
void tr_sim_trace(const struct tr_plan *p, const struct tr_sim_report *r, FILE *f);

#endif
