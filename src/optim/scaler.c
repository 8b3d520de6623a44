/* SPDX-License-Identifier: BSD-3-Clause */
#include "optim/scaler.h"

void tr_scaler_init_dynamic(struct tr_scaler *s, double initial, double min_scale, int window,
                            int hysteresis)
{
    *s = (struct tr_scaler){
        .dynamic = true,
        .scale = initial,
        .min_scale = min_scale,
        .growth = 2.0,
        .backoff = 0.5,
        .window = window,
        .hysteresis = hysteresis,
        .hysteresis_tracker = hysteresis,
    };
}

void tr_scaler_init_static(struct tr_scaler *s, double scale)
{
    *s = (struct tr_scaler){.dynamic = false, .scale = scale};
}

void tr_scaler_update(struct tr_scaler *s, bool overflow)
{
    if (!s->dynamic)
        return;
    if (overflow) {
        s->growth_tracker = 0;
        s->hysteresis_tracker--;
        if (s->hysteresis_tracker <= 0) {
            double lower = s->scale * s->backoff;

            s->scale = lower > s->min_scale ? lower : s->min_scale;
        }
    } else if (++s->growth_tracker == s->window) {
        s->growth_tracker = 0;
        s->hysteresis_tracker = s->hysteresis;
        s->scale *= s->growth;
    }
}
