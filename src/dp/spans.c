/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/spans.h"

#include <stdlib.h>
#include <string.h>

#include "util/status.h"

static void add(struct tr_dp_span *s, const struct tr_region *r)
{
    struct tr_bucket *last = s->pieces > 0 ? &s->piece[s->pieces - 1] : NULL;

    if (last && last->first + last->count == r->first)
        last->count += r->count;
    else
        s->piece[s->pieces++] = (struct tr_bucket){r->first, r->count};
}

static int span_of(const struct tr_region *r)
{
    return r->tied ? 2 : r->alike ? 1 : 0;
}

int tr_dp_spans_of(const struct tr_params *ps, struct tr_dp_span out[TR_DP_SPANS])
{
    int n = 0;

    for (int i = 0; i < TR_DP_SPANS; i++) {
        struct tr_dp_span s = {.id = i};

        s.piece = calloc((size_t)ps->regions, sizeof *s.piece);
        if (!s.piece)
            tr_die(TR_ERESOURCE, "no memory left for the list of what replicas exchange");
        for (int k = 0; k < ps->regions; k++)
            if (span_of(&ps->region[k]) == i)
                add(&s, &ps->region[k]);
        if (s.pieces > 0)
            out[n++] = s;
        else
            free(s.piece);
    }
    return n;
}

void tr_dp_spans_release(struct tr_dp_span *spans, int n)
{
    for (int i = 0; i < n; i++)
        free(spans[i].piece);
}
