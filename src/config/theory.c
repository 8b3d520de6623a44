/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/theory.h"

#include "config/work.h"

double tr_theory_weights(const struct tr_precision *p, int64_t params, int shards)
{
    double weights = p->half ? 2.0 : 4.0, grads = p->half && !p->grads_fp32 ? 2.0 : 4.0;
    double state = (p->half ? 4.0 : 0.0) + 2.0 * tr_state_bytes(p->state_block);

    return (double)params * (weights + grads + state / shards);
}

double tr_theory_activations(const struct tr_shape *s)
{
    const struct tr_work_how how = tr_work_how_of(s);
    const double n = how.tokens, h = (double)s->dims.hidden, p = s->layout.p, w = s->layout.w;
    const double logits = s->dims.head == TR_HEAD_LANGUAGE ? (double)s->dims.vocab_padded : 0.0;
    const double part = (double)s->batches.micros / p;
    struct tr_work layer;
    double bytes;

    if (!s->precision.half || !s->activations.sequence ||
        s->activations.recompute != TR_RECOMPUTE_NONE)
        return -1.0;
    tr_work_of(&how, TR_WORK_LAYER, &layer);
    bytes = tr_work_megatron_bytes(&layer, &how) * (double)s->dims.layers + 8.0 * n * p / w +
            n * h * p / w;
    if (s->layout.k > 1 && !s->layout.vee)
        bytes *= 1.0 + (p - 1.0) / (p * s->layout.k);
    else if (part < 1.0)
        bytes *= part;
    if (s->layout.p == 1)
        bytes += 4.0 * n * (h + logits) / w;
    return bytes;
}
