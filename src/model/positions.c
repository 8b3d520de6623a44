/* SPDX-License-Identifier: BSD-3-Clause */
#include "model/positions.h"

#include <math.h>

#include "config/model_family.h"

int64_t tr_rotary_width(const struct tr_dims *d)
{
    return tr_family_rotary(&d->family, d->head_dim);
}

/* Radians for each token. */
static double scaled(const struct tr_rotary_scaling *s, double speed)
{
    const double wave = 2.0 * M_PI / speed, most = (double)s->original;
    double mix;

    if (s->factor <= 0.0 || wave < most / s->high)
        return speed;
    if (wave > most / s->low)
        return speed / s->factor;
    mix = (most / wave - s->low) / (s->high - s->low);
    return (1.0 - mix) * speed / s->factor + mix * speed;
}

void tr_rotary_table(const struct tr_dims *d, int64_t tokens, float *out)
{
    const int64_t width = tr_rotary_width(d), half = width / 2;

    for (int64_t i = 0; i < half; i++) {
        const double speed = scaled(&d->family.rotary_scaling,
                                    pow(d->family.rotary_base, -2.0 * (double)i / (double)width));

        for (int64_t t = 0; t < tokens; t++) {
            out[t * width + i] = (float)cos((double)t * speed);
            out[t * width + half + i] = (float)sin((double)t * speed);
        }
    }
}

void tr_alibi_slopes(int64_t heads, float *out)
{
    int64_t power = 1;

    while (2 * power <= heads)
        power *= 2;
    for (int64_t i = 0; i < power; i++)
        out[i] = (float)pow(2.0, -8.0 * (double)(i + 1) / (double)power);
    /* The rest: every other one of twice as many. */
    for (int64_t i = power; i < heads; i++)
        out[i] = (float)pow(2.0, -4.0 * (double)(2 * (i - power) + 1) / (double)power);
}

void tr_sine_table(int64_t tokens, int64_t hidden, float *out)
{
    for (int64_t t = 0; t < tokens; t++)
        for (int64_t i = 0; i < hidden; i++) {
            const double speed = pow(10000.0, -(double)(i / 2 * 2) / (double)hidden);
            const double angle = (double)t * speed;

            out[t * hidden + i] = (float)(i % 2 == 0 ? sin(angle) : cos(angle));
        }
}
