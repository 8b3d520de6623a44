/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/theory.h"

double tr_theory_weights(const struct tr_shape *s, int64_t params, int shards)
{
    double weights = s->half ? 2.0 : 4.0, grads = s->half && !s->grads_fp32 ? 2.0 : 4.0;
    double state = s->half ? 12.0 : 8.0;

    return (double)params * (weights + grads + state / shards);
}

double tr_theory_activations(const struct tr_shape *s)
{
    double b = (double)s->micro_batch, t = (double)s->seq, h = (double)s->hidden, p = s->p;
    double f = (double)s->ffn, v = (double)s->vocab_padded, part = (double)s->micros / p, bytes;

    if (!s->half || !s->sequence || s->recompute != TR_RECOMPUTE_NONE)
        return -1.0;
    bytes = t * b * h * (18.0 + 4.0 * f / h) * (double)s->layers + 8.0 * t * b * p + t * b * h * p;
    if (s->k > 1)
        bytes *= 1.0 + (p - 1.0) / (p * s->k);
    else if (part < 1.0)
        bytes *= part;
    if (s->p == 1)
        bytes += 4.0 * t * b * h * (1.0 + v / h);
    return bytes / s->w;
}
