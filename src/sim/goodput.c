/* SPDX-License-Identifier: BSD-3-Clause */
#include "sim/goodput.h"

#include <math.h>
#include <stdlib.h>

#include "plan/formulas.h"
#include "sim/quantile.h"
#include "util/rng.h"

double tr_goodput_expected(const struct tr_failures *f, double interval)
{
    const double m = f->mtbf;

    return interval / ((m + f->queue) * exp(f->restart / m) * expm1((interval + f->save) / m));
}

double tr_goodput_best(const struct tr_failures *f)
{
    double low = 0.0, high = f->mtbf;

    for (int i = 0; i < 200; i++) {
        const double t = 0.5 * (low + high);

        if (-expm1(-(t + f->save) / f->mtbf) > t / f->mtbf)
            low = t;
        else
            high = t;
    }
    return low;
}

/* The mean of a lognormal is median exp(s^2 / 2). */
double tr_goodput_wait_at(const struct tr_failures *f, double z)
{
    if (f->median <= 0.0 || f->median >= f->queue)
        return f->queue;
    return f->median * exp(z * sqrt(2.0 * log(f->queue / f->median)));
}

double tr_goodput_wait(const struct tr_failures *f, uint64_t seed, int month, uint64_t number)
{
    float z;

    tr_rng_normal(tr_rng_key(seed, TR_STREAM_SIM_QUEUE, 0, month), number, 1, &z);
    return tr_goodput_wait_at(f, (double)z);
}

struct month {
    const struct tr_failures *f;
    struct tr_rng key;
    uint64_t seed, draws, waits;
    int number;
    double now, fails; /* seconds since the beginning; when the next failure is */
};

static void next_failure(struct month *m)
{
    const double u = ((double)tr_rng_u32(m->key, m->draws++) + 0.5) / 4294967296.0;

    m->fails = m->now - m->f->mtbf * log(u);
}

/* It fails now, and waits in the queue. */
static void fail(struct month *m)
{
    m->now = m->fails + tr_goodput_wait(m->f, m->seed, m->number, m->waits++);
    next_failure(m);
}

/* Computes and saves until it fails, or the month ends.  Returns the seconds of computation that were saved. */
static double work(struct month *m, double interval, double end)
{
    const double until = fmin(m->fails, end), segment = interval + m->f->save;
    const double saved = floor((until - m->now) / segment);

    m->now = end;
    if (m->fails < end)
        fail(m);
    return saved * interval;
}

static void restart(struct month *m, double end)
{
    while (m->now < end && m->now + m->f->restart > m->fails)
        fail(m);
    m->now += m->f->restart;
}

double tr_goodput_month(const struct tr_failures *f, double interval, uint64_t seed, int month)
{
    const double end = 30.0 * 86400.0;
    struct month m = {.f = f,
                      .key = tr_rng_key(seed, TR_STREAM_SIM_FAILURE, 0, month),
                      .seed = seed,
                      .number = month};
    double useful = 0.0;

    next_failure(&m);
    while (m.now < end) {
        useful += work(&m, interval, end);
        restart(&m, end);
    }
    return useful / end;
}

struct tr_goodput tr_goodput_of(const struct tr_failures *f, double interval, uint64_t seed)
{
    struct tr_goodput g = {.failures = *f};
    double month[TR_GOODPUT_MONTHS];

    if (f->mtbf <= 0.0 || f->save <= 0.0)
        return (struct tr_goodput){.best = 0.0};
    g.best = tr_goodput_best(f);
    g.young = sqrt(2.0 * f->save * f->mtbf);
    g.daly = tr_plan_daly(f->save, f->mtbf);
    g.interval = interval > 0.0 ? interval : g.best;
    g.expected = tr_goodput_expected(f, g.interval);
    for (int i = 0; i < TR_GOODPUT_MONTHS; i++) {
        month[i] = tr_goodput_month(f, g.interval, seed, i);
        g.mean += month[i] / TR_GOODPUT_MONTHS;
    }
    g.p10 = tr_quantile(month, TR_GOODPUT_MONTHS, 0.1);
    g.p50 = tr_quantile(month, TR_GOODPUT_MONTHS, 0.5);
    g.p90 = tr_quantile(month, TR_GOODPUT_MONTHS, 0.9);
    return g;
}
