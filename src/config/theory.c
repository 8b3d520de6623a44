/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/theory.h"

double tr_theory_weights(const struct tr_precision *p, int64_t params, int shards)
{
    double weights = p->half ? 2.0 : 4.0, grads = p->half && !p->grads_fp32 ? 2.0 : 4.0;
    double state = p->half ? 12.0 : 8.0;

    return (double)params * (weights + grads + state / shards);
}

double tr_theory_activations(const struct tr_shape *s)
{
    double b = (double)s->batches.micro_batch, t = (double)s->dims.seq, h = (double)s->dims.hidden,
           p = s->layout.p;
    double f = (double)s->dims.ffn, v = (double)s->dims.vocab_padded,
           part = (double)s->batches.micros / p, bytes;

    if (!s->precision.half || !s->activations.sequence ||
        s->activations.recompute != TR_RECOMPUTE_NONE)
        return -1.0;
    bytes =
        t * b * h * (18.0 + 4.0 * f / h) * (double)s->dims.layers + 8.0 * t * b * p + t * b * h * p;
    if (s->layout.k > 1)
        bytes *= 1.0 + (p - 1.0) / (p * s->layout.k);
    else if (part < 1.0)
        bytes *= part;
    if (s->layout.p == 1)
        bytes += 4.0 * t * b * h * (1.0 + v / h);
    return bytes / s->layout.w;
}
