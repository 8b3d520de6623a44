/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DP_SPANS_H
#define TR_DP_SPANS_H

#include <stdint.h>

#include "dp/buckets.h"
#include "model/param.h"

/*
 * Elements of the flat buffers that a mode compresses together.  What becomes of a number depends on those it is
 * compressed with, so what ranks of other groups hold as well, and must keep equal, stands in spans of its own, the
 * same on all of them:
 *
 *     0  what this rank alone has in its replica
 *     1  what all tensor ranks have
 *     2  the word embedding of the first and the last stage
 */
enum { TR_DP_SPANS = 3 };

struct tr_dp_span {
    int id, pieces;
    struct tr_bucket
        *piece; /* [pieces], ascending; they count as if they lay one behind the other */
};

/* Those that are not empty, in *out; how many.  Their pieces are owned by the caller: release them. */
int tr_dp_spans_of(const struct tr_params *ps, struct tr_dp_span out[TR_DP_SPANS]);
void tr_dp_spans_release(struct tr_dp_span *spans, int n);

#endif
