/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/epochs.h"

#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "util/rng.h"

enum { ORDERS = 2, DRAWS = 4 /* of a block of the generator */ };

int64_t tr_epochs_bytes(const struct tr_epoch_plan *plan)
{
    const struct tr_epoch_order *o = NULL;
    int64_t first, most;

    tr_epoch_share(plan, 0, &first, &most);
    return plan->count > 0 ? ORDERS * most * (int64_t)sizeof *o->order : 0;
}

void tr_epochs_open(struct tr_epochs *x, const struct tr_epoch_plan *plan, int64_t micro_batch)
{
    int64_t first, most;

    memset(x, 0, sizeof *x);
    x->plan = *plan;
    x->micro_batch = micro_batch;
    tr_epoch_share(plan, 0, &first, &most);
    for (int i = 0; i < ORDERS; i++) {
        x->made[i].epoch = x->made[i].replica = -1;
        x->made[i].order = malloc((size_t)most * sizeof *x->made[i].order);
        if (!x->made[i].order)
            tr_die(TR_ERESOURCE, "no memory left for the order of %lld samples", (long long)most);
    }
}

void tr_epochs_close(struct tr_epochs *x)
{
    for (int i = 0; i < ORDERS; i++)
        free(x->made[i].order);
    memset(x, 0, sizeof *x);
}

static void make(struct tr_epochs *x, struct tr_epoch_order *o, int64_t count)
{
    const struct tr_rng rng =
        tr_rng_key((uint64_t)x->plan.seed, TR_STREAM_EPOCH, (int)o->replica, o->epoch);
    uint32_t draw[DRAWS];
    int64_t block = -1;

    for (int64_t i = 0; i < count; i++)
        o->order[i] = (int32_t)i;
    if (x->plan.order == TR_EPOCH_TEXT)
        return;
    for (int64_t i = count - 1; i > 0; i--) {
        int64_t j;
        int32_t was = o->order[i];

        if (i / DRAWS != block)
            tr_rng_block(rng, (uint64_t)i / DRAWS, draw);
        block = i / DRAWS;
        j = (int64_t)((uint64_t)draw[i % DRAWS] * (uint64_t)(i + 1) >> 32);
        o->order[i] = o->order[j];
        o->order[j] = was;
    }
}

static const int32_t *order_of(struct tr_epochs *x, int64_t epoch, int64_t replica, int64_t count)
{
    struct tr_epoch_order *o;

    for (int i = 0; i < ORDERS; i++) {
        o = &x->made[i];
        if (o->epoch == epoch && o->replica == replica) {
            x->next = 1 - i; /* keep the one that was used last */
            return o->order;
        }
    }
    o = &x->made[x->next];
    o->epoch = epoch;
    o->replica = replica;
    make(x, o, count);
    x->next = 1 - x->next;
    return o->order;
}

int64_t tr_epochs_at(struct tr_epochs *x, int64_t position)
{
    const int64_t batch = x->micro_batch, unit = batch * x->plan.replicas;
    const int64_t in = position % x->plan.samples, replica = in % unit / batch;
    int64_t first, count;

    TR_ASSERT(position >= 0);
    tr_epoch_share(&x->plan, (int)replica, &first, &count);
    return first +
           order_of(x, position / x->plan.samples, replica, count)[in / unit * batch + in % batch];
}
