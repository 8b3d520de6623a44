/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PLAN_FORMULAS_H
#define TR_PLAN_FORMULAS_H

#include "config/config.h"
#include "config/machine.h"
#include "config/shape.h"
#include "pipeline/sched.h"

/* Formulas of a plan besides the durations of plan/cost.h. */

/* The list of work of stage `rank` with so many micro-batches, not built yet; its messages overlap nothing. */
struct tr_sched tr_plan_list(const struct tr_shape *s, int rank, int micros);

/* Whether messages between stages overlap computation, as those of the interleaved schedule do. */
bool tr_plan_messages_beside(const struct tr_config *c, const struct tr_shape *s);

/*
 * Of an exchange of gradients or weights of `params` parameters that takes `seconds`: its last bucket; what goes on
 * beside `overlapped` seconds of computation, which is all but that bucket at most; and what a step takes longer for it.
 */
double tr_plan_last_bucket(const struct tr_config *c, double seconds, double params);
double tr_plan_hidden(const struct tr_config *c, double seconds, double overlapped, double params);
double tr_plan_exposed(const struct tr_config *c, const struct tr_machine *m, double seconds,
                       double overlapped, double params);

/* The interval between saves that wastes least, where a save takes `save` seconds: J. W. Young, "A first order
   approximation to the optimum checkpoint interval", 1974; J. T. Daly, "A higher order estimate of the optimum checkpoint
   interval for restart dumps", 2006. */
double tr_plan_daly(double save, double mtbf);

#endif
