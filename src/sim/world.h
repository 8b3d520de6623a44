/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SIM_WORLD_H
#define TR_SIM_WORLD_H

#include <stdbool.h>

#include "pipeline/sched.h"
#include "plan/cost.h"
#include "plan/plan.h"
#include "sim/collective.h"
#include "sim/curve.h"
#include "sim/fabric.h"
#include "sim/net.h"
#include "telemetry/timer.h"

/*
 * Everything that happens in an iteration, before it is simulated: groups of tensor ranks, which move together since
 * each layer ends in a sum over them; what each does, in the order of the list of work that pipeline/sched.h builds; and
 * the exchanges between groups with the links that they share.
 */

/* What a group posts and waits for: the four legs of each side of pipeline/sched.h, by their index, and these. */
enum tr_sim_slot {
    TR_SIM_REPLICAS = TR_SIDES * TR_LEGS,
    TR_SIM_TIED,
    TR_SIM_NORM,
    TR_SIM_SUMS,
    TR_SIM_SLOTS
};

enum tr_sim_cause {
#define CAUSE(symbol, name, what) TR_SIM_##symbol,
#include "sim/causes.def"
    TR_SIM_CAUSES
};
const char *tr_sim_cause_name(enum tr_sim_cause cause);

enum tr_sim_step_kind { TR_SIM_PASS, TR_SIM_POST, TR_SIM_AWAIT, TR_SIM_DELAY };

struct tr_sim_step {
    enum tr_sim_step_kind kind;
    int slot;                /* of post and await */
    int chunk, micro;        /* of a pass */
    enum tr_instr_kind pass; /* TR_FWD, TR_BWD, TR_WGT */
    enum tr_sim_cause cause; /* of a delay */
    double
        seconds; /* of a delay; of a pass what is computed; of sums without others on their links */
    double tensor; /* of a pass: the sums over tensor ranks that follow it */
};
struct tr_sim_program {
    int steps, passes;
    struct tr_sim_step *step;
};

/* A group of tensor ranks, or many that are alike. */
struct tr_sim_unit {
    int stage, replica, rank; /* of the first of them; its first rank */
    double members;
    double slowest, mean; /* times as long as the plan says: the slowest of its ranks, their mean */
    int flow[TR_SIM_SLOTS]; /* -1: none */
    bool shares; /* its sums go over links that others can hold up; else they take their time */
};

/*
 * What goes over flow i of the net, in order: message j has volume[j], and those behind the last one as much as that.
 * Phases of a collective are channels one behind the other: a message begins in the first one, which is what units post,
 * and is there when it has gone through the last.
 */
enum { TR_SIM_VOLUMES = 3 };
struct tr_sim_channel {
    int parties;     /* posts that it needs to begin */
    int first, next; /* channel of the first phase; of the next one, or -1 */
    int volumes;     /* 0: a message has so many times volume[0] as was posted with it */
    double latency[TR_SIM_VOLUMES], volume[TR_SIM_VOLUMES]; /* seconds; bytes */
};

/* Speeds of ranks: `rank` takes `factor` times as long to compute. */
struct tr_sim_speed {
    int first, last;
    double factor;
};

struct tr_sim_world {
    int units, stages;
    struct tr_sim_unit *unit;
    struct tr_sim_channel *channel; /* [net.flows] */
    struct tr_sim_program *program; /* [stages] */
    bool borrowed;                  /* the programs are another's */
    struct tr_net net;              /* indexed */
    int w;
    double *factor; /* [units * w]: of each rank; NULL of classes */
    int *class_of;  /* [units of the whole]: NULL of the whole */
    /* What replicas take, those of the last stage, and sums of a layer; PLANNED also where there are none. */
    enum tr_sim_algorithm replicas_by, tensor_by;
};

/* What a world is like besides the plan; borrowed while it is opened. */
struct tr_sim_like {
    struct tr_sim_fabric fabric;
    enum tr_sim_algorithm algorithm;
    const struct tr_sim_curve *curve; /* measured times of a group, with PLANNED; or NULL */
    int speeds;
    struct tr_sim_speed *speed;
};

/* Of a plan with a machine; nothing is borrowed. */
void tr_sim_world_open(const struct tr_plan *p, const struct tr_sim_like *like,
                       struct tr_sim_world *out);

/* Whether the replicas exchange what these algorithms do, and the curve is of a group of that run: TR_ECONFIG if not. */
enum tr_status tr_sim_world_check(const struct tr_plan *p,
                                  const struct tr_sim_like *like) TR_MUST_CHECK;
void tr_sim_world_release(struct tr_sim_world *v);

/*
 * The same iteration with one unit, flow and link for all that are alike: the coarsest partition in which alike ones
 * use alike ones equally often (colour refinement: Paige and Tarjan, "Three partition refinement algorithms", 1987), so
 * that they do the same at the same time.  `full` must outlive `out`.
 */
void tr_sim_classes(const struct tr_sim_world *full, struct tr_sim_world *out);

#endif
