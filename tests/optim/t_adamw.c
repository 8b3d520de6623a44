/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device/device.h"
#include "golden/golden.h"

enum { N = 48, APART = 64 };

static struct {
    float p[N], m[N], v[N], g[N];
} at;

static float *there; /* [4 * APART] the same on the device */

/*
 * The rule for step `t`, counted from 1.  The corrections are made from the betas as the operation
 * has them: 0.999 as a float is 1.3e-8 more, which is 1.3e-5 of 1 - beta2, and v carries that
 * error; divided by a correction that carries it too, it is gone.
 */
static struct tr_adamw rule(int t, double decay, double grad_scale)
{
    struct tr_adamw how = {
        .lr = (float)GOLDEN_LR,
        .beta1 = (float)GOLDEN_BETA1,
        .beta2 = (float)GOLDEN_BETA2,
        .eps = (float)GOLDEN_EPS,
        .decay = (float)decay,
        .grad_scale = (float)grad_scale,
    };

    how.bias1 = (float)(1.0 - pow((double)how.beta1, t));
    how.bias2 = (float)(1.0 - pow((double)how.beta2, t));
    return how;
}

static void step(struct tr_queue *q, struct tr_adamw how)
{
    struct tr_tensor p = tr_f32_1(there, N), m = tr_f32_1(there + APART, N);
    struct tr_tensor v = tr_f32_1(there + 2 * APART, N), g = tr_f32_1(there + 3 * APART, N);

    q->on->upload(q, &p, at.p);
    q->on->upload(q, &m, at.m);
    q->on->upload(q, &v, at.v);
    q->on->upload(q, &g, at.g);
    q->on->adamw(q, NULL, &p, &m, &v, &g, how);
    q->on->download(q, at.p, &p);
    q->on->download(q, at.m, &m);
    q->on->download(q, at.v, &v);
}

static void fill(const char *name, float *out)
{
    for (int i = 0; i < N; i++)
        out[i] = tr_golden_weight(name, i);
}

static void near(const char *backend, const char *what, int i, double value, double wanted,
                 double bound)
{
    if (!(fabs(value - wanted) <= bound))
        fail_msg("%s: %s[%d] is %.9g, wanted %.9g within %.2g", backend, what, i, value, wanted,
                 bound);
}

/*
 * Ten steps with gradients from 0.1 down to 1e-8 and zero, so that eps counts for some and not for
 * others, as torch.optim.AdamW takes them in double.
 * A float p below 1/2 is rounded by up to 2^-26 in each step, and each step, 0.01 long at most,
 * comes from moments that are right to a few 2^-24.  Each moment is a sum of ten terms that may
 * cancel, each right to a few 2^-24 of its size.
 */
static void trajectory(struct tr_queue *q, const struct tr_golden *golden)
{
    const float *p = tr_golden_get(golden, "adamw/p", GOLDEN_STEPS * N);
    const float *m = tr_golden_get(golden, "adamw/m", N);
    const float *v = tr_golden_get(golden, "adamw/v", N);
    const char *name = q->on->name;
    struct tr_adamw how;
    char text[64];

    memset(&at, 0, sizeof at);
    fill("adamw.value", at.p);
    for (int t = 1; t <= GOLDEN_STEPS; t++) {
        snprintf(text, sizeof text, "adamw.gradient.%d", t - 1);
        fill(text, at.g);
        for (int i = 0; i < N; i++)
            at.g[i] *= i % 24 == 23 ? 0.0f : ldexpf(1.0f, -(i % 24));
        how = rule(t, GOLDEN_DECAY, 0.5);
        step(q, how);
        for (int i = 0; i < N; i++)
            near(name, "p", i, (double)at.p[i], (double)p[(t - 1) * N + i],
                 t * (0x1p-26 + 0.01 * 0x1p-20));
    }
    for (int i = 0; i < N; i++) {
        double size = i % 24 == 23 ? 0.0 : 0.125 * ldexp(1.0, -(i % 24));

        near(name, "m", i, (double)at.m[i] / (double)how.bias1, (double)m[i], size * 0x1p-20);
        near(name, "v", i, (double)at.v[i] / (double)how.bias2, (double)v[i],
             size * size * 0x1p-20);
    }
}

/*
 * Under a constant gradient both corrected moments are that gradient and its square from the first
 * step, so with s = lr g / (|g| + eps) and c = 1 - lr decay, p_t = c^t p_0 - s (1 - c^t) / (1 - c).
 * p stays below 2, where a float is rounded by up to 2^-24.
 */
static void constant_gradient(struct tr_queue *q, double decay)
{
    enum { STEPS = 100 };
    double c = 1.0 - GOLDEN_LR * decay, left = pow(c, STEPS);
    double steps = decay > 0.0 ? (1.0 - left) / (1.0 - c) : STEPS;

    memset(&at, 0, sizeof at);
    fill("adamw.value", at.p);
    fill("adamw.gradient.0", at.g);
    for (int t = 1; t <= STEPS; t++)
        step(q, rule(t, decay, 4.0));
    for (int i = 0; i < N; i++) {
        double g = 4.0 * (double)at.g[i];
        double s = GOLDEN_LR * g / (fabs(g) + GOLDEN_EPS);
        double wanted = left * (double)tr_golden_weight("adamw.value", i) - s * steps;

        near(q->on->name, "p", i, (double)at.p[i], wanted, STEPS * (0x1p-24 + GOLDEN_LR * 0x1p-20));
    }
}

static void every_backend(void **state)
{
    const struct tr_backend *const *all = tr_backends();
    struct tr_golden *golden = tr_golden_open("gpt2_tiny");

    (void)state;
    for (int i = 0; all[i]; i++) {
        struct tr_queue q = {.on = all[i]};

        void *memory;

        /* A machine may lack the device. */
        if (all[i]->open(&(struct tr_device_how){.threads = 1}, &q.device) != TR_OK)
            continue;
        assert_ok(all[i]->reserve(q.device, 4 * APART * sizeof *there, &memory));
        there = memory;
        trajectory(&q, golden);
        constant_gradient(&q, 0.0);
        constant_gradient(&q, 0.5);
        all[i]->close(q.device);
    }
    tr_golden_close(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_backend),
    };

    return run_tap(tests);
}
