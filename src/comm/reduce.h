/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_COMM_REDUCE_H
#define TR_COMM_REDUCE_H

#include <stdint.h>

#include "comm/comm.h"

/*
 * The arithmetic of reductions in host memory, for transports; internal to comm/.
 */

/* inout = sum or maximum of inout and in, `n` elements of type `t`, which is TR_F16 or TR_BF16: in
   float, and rounded. */
void tr_reduce_pair(void *inout, const void *in, int64_t n, enum tr_dtype t, enum tr_redop op);

/* out = sum or maximum of `ranks` vectors, each as long as `out`, that lie one after another at
   `slices`: in that order, in double for TR_F64, else in float and, for fp16 and bf16, rounded once
   at the end. */
void tr_reduce_slices(const struct tr_tensor *out, const void *slices, int ranks, enum tr_redop op);

#endif
