/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_CHECK_H
#define TR_TRAIN_CHECK_H

#include <stdint.h>

#include "comm/comm.h"
#include "config/config.h"

/*
 * Look at the nodes and at how the ranks were started (launch/checks.h), knowing what they are to train:
 * warn of what is slow, refuse what cannot work.  Options that do not fit together are left for
 * tr_train() to refuse.  `build`: a checksum of this program.  Collective; the same on all ranks.
 */
enum tr_status tr_train_check(const struct tr_config *c, uint64_t build,
                              struct tr_comm *world) TR_MUST_CHECK;

#endif
