/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/lr.h"

#include <math.h>

/* From 1 at r = 0 to 0 at r = 1. */
static double cosine(double r)
{
    return 0.5 * (cos(M_PI * r) + 1.0);
}

static double wsd_part(const struct tr_lr_schedule *s, double samples)
{
    double r = (samples - (s->decay_samples - s->wsd_samples)) / s->wsd_samples;

    if (r <= 0.0)
        return 1.0;
    switch (s->wsd_style) {
    case TR_WSD_LINEAR:
        return 1.0 - r;
    case TR_WSD_COSINE:
        return cosine(r);
    case TR_WSD_MINUS_ROOT:
        return 1.0 - sqrt(r);
    default:
        return 2.0 * exp2(-r) - 1.0;
    }
}

static double part_left(const struct tr_lr_schedule *s, double samples)
{
    double r;

    if (s->decay_style == TR_LR_WSD)
        return wsd_part(s, samples);
    r = (samples - s->warmup_samples) / (s->decay_samples - s->warmup_samples);
    return s->decay_style == TR_LR_LINEAR ? 1.0 - r : cosine(r);
}

double tr_lr_at(const struct tr_lr_schedule *s, double samples)
{
    if (s->warmup_samples > 0.0 && samples <= s->warmup_samples)
        return s->warmup_init + (s->lr - s->warmup_init) * samples / s->warmup_samples;
    if (s->decay_style == TR_LR_CONSTANT)
        return s->lr;
    if (s->decay_style == TR_LR_INVERSE_ROOT && samples <= s->decay_samples)
        return fmax(s->min_lr, s->lr * sqrt(fmax(s->warmup_samples, 1.0) / fmax(samples, 1.0)));
    /* At n = D every other curve has reached min; saying so keeps D = W out of the division. */
    if (samples >= s->decay_samples)
        return s->min_lr;
    return s->min_lr + part_left(s, samples) * (s->lr - s->min_lr);
}

double tr_wd_at(const struct tr_lr_schedule *s, double samples)
{
    double part = samples / s->wd_samples;

    if (s->wd_style == TR_WD_CONSTANT || samples >= s->wd_samples)
        return s->wd_end;
    if (s->wd_style == TR_WD_COSINE)
        part = cosine(1.0 - part);
    return s->wd_start + part * (s->wd_end - s->wd_start);
}
