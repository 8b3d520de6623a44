/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_TRAIN_WEIGHTS_H
#define TR_TESTS_TRAIN_WEIGHTS_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "train/run.h"
#include "util/half.h"

/* The weights and gradients of a run whose memory is the host's, element by element. */

/* Index in the whole parameter of element `i` of the part held here, or -1 for padding. */
static inline int64_t weights_whole_index(const struct tr_param *p, int64_t i)
{
    int64_t row = i / p->local[1], col = i % p->local[1];

    row += p->split == 0 ? p->first : 0;
    col += p->split == 1 ? p->first : 0;
    return row < p->full[0] ? row * p->full[1] + col : -1;
}

static inline double weights_element(const struct tr_tensor *t, int64_t i)
{
    if (t->dtype == TR_F32)
        return (double)tr_f32(t)[i];
    return (double)(t->dtype == TR_F16 ? tr_f16_to_float(((const uint16_t *)t->data)[i])
                                       : tr_bf16_to_float(((const uint16_t *)t->data)[i]));
}

static inline void weights_set_element(const struct tr_tensor *t, int64_t i, float x)
{
    if (t->dtype == TR_F32)
        tr_f32(t)[i] = x;
    else
        ((uint16_t *)t->data)[i] =
            t->dtype == TR_F16 ? tr_f16_from_float(x) : tr_bf16_from_float(x);
}

/* Whether element `i` of the flat buffers is among those that this rank updates. */
static inline bool weights_owned(const struct tr_run *r, int64_t i)
{
    for (int k = 0; k < r->optim.owns; k++)
        if (i >= r->optim.own[k].first && i < r->optim.own[k].first + r->optim.own[k].count)
            return true;
    return false;
}

/* Element `index` of the parameter `name` becomes of(name, index), and so does its master where this
   rank owns it.  Weights that are sharded come from the masters.  Collective over the replicas. */
static inline void weights_set(struct tr_run *r, float (*of)(const char *name, int64_t index))
{
    const struct tr_params *ps = &r->model.params;
    const bool whole = !ps->windows;
    float *all = calloc((size_t)ps->size, sizeof *all);
    int64_t at = 0; /* of the elements that this rank updates */

    for (int i = 0; i < ps->count; i++)
        for (int64_t e = 0; e < ps->list[i].elems; e++) {
            int64_t from = weights_whole_index(&ps->list[i], e), flat = ps->list[i].offset + e;

            all[flat] = from < 0 ? 0.0F : of(ps->list[i].name, from);
            if (whole)
                weights_set_element(&ps->values, flat, all[flat]);
        }
    for (int i = 0; i < r->optim.owns; i++) {
        const struct tr_bucket *own = &r->optim.own[i];

        if (tr_optim_apart(&r->optim))
            tr_optim_put(&r->optim, TR_ROW_MASTER, at, own->count, all + own->first);
        else
            memcpy(tr_optim_masters(&r->optim, i).data, all + own->first,
                   (size_t)own->count * sizeof *all);
        at += own->count;
    }
    free(all);
    tr_dp_gather(&r->dp);
}

#endif
