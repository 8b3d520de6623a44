/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_PROFILE_H
#define TR_TRAIN_PROFILE_H

#include "train/run.h"

/*
 * How a run looks at its device: the clock of the timers (--timing), their names as ranges for profilers,
 * and which iterations a profiler records (--profile).
 *
 * On a device that computes in host memory nothing is queued, so `sync` has nothing to wait for, and its
 * profilers are those of the host, which need no help.
 */

/* TR_ECONFIG, the same on all ranks, if --profile asks for what the backend cannot do.  The device is
   open. */
enum tr_status tr_profile_check(const struct tr_run *r) TR_MUST_CHECK;

/* From now on timers go by the clock of --timing and the device of `r`; until close, which comes before
   the device is closed. */
void tr_profile_open(struct tr_run *r);
void tr_profile_close(struct tr_run *r);

/* Around each iteration.  --profile-step-start N begins before the iteration that is number N + 1, and
   --profile-step-end N ends after the one that is number N, as in Megatron-LM.  stop() is for a run that
   ends earlier. */
void tr_profile_before(struct tr_run *r);
void tr_profile_after(struct tr_run *r);
void tr_profile_stop(struct tr_run *r);

/* What the log says of the clock, or NULL where it is the host's and nothing is waited for. */
const char *tr_profile_clock(const struct tr_run *r);

#endif
