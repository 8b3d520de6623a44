/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/lr.h"

#include <math.h>

double tr_lr_at(const struct tr_shape *s, double samples)
{
    double done, part;

    if (s->warmup_samples > 0.0 && samples <= s->warmup_samples)
        return s->lr * samples / s->warmup_samples;
    if (s->decay_style == TR_LR_CONSTANT)
        return s->lr;
    /* At n = D both curves have reached min; saying so here keeps D = W out of the division. */
    if (samples >= s->decay_samples)
        return s->min_lr;
    done = (samples - s->warmup_samples) / (s->decay_samples - s->warmup_samples);
    if (s->decay_style == TR_LR_LINEAR)
        part = 1.0 - done;
    else
        part = 0.5 * (cos(M_PI * done) + 1.0);
    return s->min_lr + part * (s->lr - s->min_lr);
}
