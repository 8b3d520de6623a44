/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_REDUCE_H
#define TR_COMM_REDUCE_H

#include <stdint.h>

#include "comm/comm.h"

/*
 * The arithmetic of reductions in host memory, for transports; internal to comm/.
 */

/* out = sum or maximum of `ranks` vectors, each as long as `out`, that lie one after another at
   `slices`: in that order, in double for TR_F64, else in float and rounded once at the end. */
void tr_reduce_slices(const struct tr_tensor *out, const void *slices, int ranks, enum tr_redop op);

#endif
