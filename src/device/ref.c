/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/ref.h"

#include <math.h>
#include <string.h>

#include "device/host.h"
#include "device/sizes.h"
#include "util/half.h"

/* ---- memory ---- */

void tr_ref_fill(struct tr_queue *q, const struct tr_tensor *y, float value)
{
    int64_t n = tr_tensor_elems(y);

    (void)q;
    TR_ASSERT(y->dtype == TR_F32 || y->dtype == TR_F64);
    for (int64_t i = 0; i < n; i++)
        if (y->dtype == TR_F32)
            tr_f32(y)[i] = value;
        else
            tr_f64(y)[i] = (double)value;
}

void tr_ref_copy(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x)
{
    (void)q;
    TR_ASSERT(y->dtype == x->dtype && tr_tensor_elems(y) == tr_tensor_elems(x));
    memcpy(y->data, x->data, (size_t)tr_tensor_bytes(x));
}

void tr_ref_add(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x)
{
    int64_t n = tr_sizes_flat(y, x, x, x);

    (void)q;
    for (int64_t i = 0; i < n; i++)
        tr_f32(y)[i] += tr_f32(x)[i];
}

void tr_ref_scale(struct tr_queue *q, const struct tr_tensor *y, float factor)
{
    int64_t n = tr_sizes_flat(y, y, y, y);

    (void)q;
    for (int64_t i = 0; i < n; i++)
        tr_f32(y)[i] *= factor;
}

void tr_ref_sumsq(struct tr_queue *q, const struct tr_tensor *out, const struct tr_tensor *x)
{
    tr_ref_weighted_sum(q, out, x, x);
}

void tr_ref_weighted_sum(struct tr_queue *q, const struct tr_tensor *out, const struct tr_tensor *x,
                         const struct tr_tensor *w)
{
    int64_t n = tr_sizes_flat(x, w, w, w);
    double sum = 0.0;

    (void)q;
    tr_sizes_scalar(out);
    for (int64_t i = 0; i < n; i++)
        sum += (double)tr_f32(x)[i] * (double)tr_f32(w)[i];
    tr_f64(out)[0] += sum;
}

void tr_ref_count_zeros(struct tr_queue *q, const struct tr_tensor *out, const struct tr_tensor *x)
{
    int64_t n = tr_sizes_flat(x, x, x, x);

    (void)q;
    tr_sizes_scalar(out);
    for (int64_t i = 0; i < n; i++)
        tr_f64(out)[0] += tr_f32(x)[i] == 0.0f ? 1.0 : 0.0;
}

/* ---- dense ---- */

static const double gelu_outer = 0.7978845608028654; /* sqrt(2 / pi) */
static const double gelu_inner = 0.044715;

static double activate(enum tr_act act, double x)
{
    if (act == TR_ACT_NONE)
        return x;
    return 0.5 * x * (1.0 + tanh(gelu_outer * (x + gelu_inner * x * x * x)));
}

static double slope(enum tr_act act, double x)
{
    double t, inner;

    if (act == TR_ACT_NONE)
        return 1.0;
    t = tanh(gelu_outer * (x + gelu_inner * x * x * x));
    inner = gelu_outer * (1.0 + 3.0 * gelu_inner * x * x);
    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner;
}

void tr_ref_linear(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *pre,
                   const struct tr_tensor *x, const struct tr_tensor *w,
                   const struct tr_tensor *bias, enum tr_act act)
{
    struct tr_linear_sizes s = tr_sizes_linear(y, pre, x, w, bias);

    (void)q;
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t o = 0; o < s.o; o++) {
            double z = bias ? (double)tr_f32(bias)[o] : 0.0;

            for (int64_t i = 0; i < s.i; i++)
                z += (double)tr_f32(x)[n * s.i + i] * (double)tr_f32(w)[o * s.i + i];
            if (pre)
                tr_f32(pre)[n * s.o + o] = (float)z;
            tr_f32(y)[n * s.o + o] = (float)activate(act, z);
        }
}

void tr_ref_linear_dgrad(struct tr_queue *q, const struct tr_tensor *dx, const struct tr_tensor *dy,
                         const struct tr_tensor *w, const struct tr_tensor *pre, enum tr_act act)
{
    struct tr_linear_sizes s = tr_sizes_linear_dgrad(dx, dy, w, pre, act);

    (void)q;
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t i = 0; i < s.i; i++) {
            double sum = 0.0;

            for (int64_t o = 0; o < s.o; o++)
                sum += (double)tr_f32(dy)[n * s.o + o] * (double)tr_f32(w)[o * s.i + i];
            if (pre)
                sum *= slope(act, (double)tr_f32(pre)[n * s.i + i]);
            tr_f32(dx)[n * s.i + i] = (float)sum;
        }
}

void tr_ref_linear_wgrad(struct tr_queue *q, const struct tr_tensor *dw,
                         const struct tr_tensor *dbias, const struct tr_tensor *dy,
                         const struct tr_tensor *x, bool add)
{
    struct tr_linear_sizes s = tr_sizes_linear_wgrad(dw, dbias, dy, x);

    (void)q;
    for (int64_t o = 0; o < s.o; o++)
        for (int64_t i = 0; i < s.i; i++) {
            double sum = add ? (double)tr_f32(dw)[o * s.i + i] : 0.0;

            for (int64_t n = 0; n < s.n; n++)
                sum += (double)tr_f32(dy)[n * s.o + o] * (double)tr_f32(x)[n * s.i + i];
            tr_f32(dw)[o * s.i + i] = (float)sum;
        }
    for (int64_t o = 0; dbias && o < s.o; o++) {
        double sum = add ? (double)tr_f32(dbias)[o] : 0.0;

        for (int64_t n = 0; n < s.n; n++)
            sum += (double)tr_f32(dy)[n * s.o + o];
        tr_f32(dbias)[o] = (float)sum;
    }
}

/* ---- norm, residual, dropout ---- */

void tr_ref_layernorm(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *mean,
                      const struct tr_tensor *rstd, const struct tr_tensor *x,
                      const struct tr_tensor *gain, const struct tr_tensor *bias, float eps)
{
    struct tr_rows_sizes s = tr_sizes_layernorm(y, mean, rstd, x, gain, bias);

    (void)q;
    for (int64_t n = 0; n < s.n; n++) {
        const float *row = tr_f32(x) + n * s.h;
        double m = 0.0, var = 0.0, r;

        for (int64_t h = 0; h < s.h; h++)
            m += (double)row[h];
        m /= (double)s.h;
        for (int64_t h = 0; h < s.h; h++)
            var += ((double)row[h] - m) * ((double)row[h] - m);
        r = 1.0 / sqrt(var / (double)s.h + (double)eps);
        for (int64_t h = 0; h < s.h; h++)
            tr_f32(y)[n * s.h + h] = (float)(((double)row[h] - m) * r * (double)tr_f32(gain)[h] +
                                             (double)tr_f32(bias)[h]);
        tr_f32(mean)[n] = (float)m;
        tr_f32(rstd)[n] = (float)r;
    }
}

void tr_ref_layernorm_bwd(struct tr_queue *q, const struct tr_tensor *dx,
                          const struct tr_tensor *dgain, const struct tr_tensor *dbias,
                          const struct tr_tensor *dy, const struct tr_tensor *dskip,
                          const struct tr_tensor *x, const struct tr_tensor *gain,
                          const struct tr_tensor *mean, const struct tr_tensor *rstd)
{
    struct tr_rows_sizes s =
        tr_sizes_layernorm_bwd(dx, dgain, dbias, dy, dskip, x, gain, mean, rstd);

    (void)q;
    for (int64_t h = 0; h < s.h; h++) {
        double to_gain = (double)tr_f32(dgain)[h], to_bias = (double)tr_f32(dbias)[h];

        for (int64_t n = 0; n < s.n; n++) {
            double dyn = (double)tr_f32(dy)[n * s.h + h];

            to_gain += dyn * ((double)tr_f32(x)[n * s.h + h] - (double)tr_f32(mean)[n]) *
                       (double)tr_f32(rstd)[n];
            to_bias += dyn;
        }
        tr_f32(dgain)[h] = (float)to_gain;
        tr_f32(dbias)[h] = (float)to_bias;
    }
    /* With g = dy * gain and u = (x - mean) * rstd: dx = rstd (g - mean(g) - u mean(g u)). */
    for (int64_t n = 0; n < s.n; n++) {
        const float *xn = tr_f32(x) + n * s.h, *dyn = tr_f32(dy) + n * s.h;
        double m = (double)tr_f32(mean)[n], r = (double)tr_f32(rstd)[n], g_mean = 0.0,
               gu_mean = 0.0;

        for (int64_t h = 0; h < s.h; h++) {
            double g = (double)dyn[h] * (double)tr_f32(gain)[h];

            g_mean += g / (double)s.h;
            gu_mean += g * ((double)xn[h] - m) * r / (double)s.h;
        }
        for (int64_t h = 0; h < s.h; h++) {
            double g = (double)dyn[h] * (double)tr_f32(gain)[h];
            double skip = dskip ? (double)tr_f32(dskip)[n * s.h + h] : 0.0;

            tr_f32(dx)[n * s.h + h] =
                (float)(skip + r * (g - g_mean - ((double)xn[h] - m) * r * gu_mean));
        }
    }
}

/* What element (n, h) of a [N,H] activation is multiplied by. */
static float keep(const struct tr_dropout *drop, int64_t n, int64_t h, int64_t width)
{
    struct tr_rng r;

    if (drop->p == 0.0)
        return 1.0f;
    n += drop->first_row;
    r = tr_rng_key(drop->seed, drop->stream, drop->site, drop->sample[n / drop->tokens]);
    if (tr_rng_u32(r, (uint64_t)((n % drop->tokens) * width + h)) < tr_rng_threshold(drop->p))
        return 0.0f;
    return (float)(1.0 / (1.0 - drop->p));
}

void tr_ref_residual(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                     const struct tr_tensor *a, const struct tr_tensor *bias,
                     struct tr_dropout drop)
{
    struct tr_rows_sizes s = tr_sizes_residual(y, x, a, bias, &drop);

    (void)q;
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t h = 0; h < s.h; h++) {
            int64_t i = n * s.h + h;
            double branch = (double)tr_f32(a)[i] + (double)tr_f32(bias)[h];

            tr_f32(y)[i] = (float)((double)tr_f32(x)[i] + branch * (double)keep(&drop, n, h, s.h));
        }
}

void tr_ref_residual_bwd(struct tr_queue *q, const struct tr_tensor *da,
                         const struct tr_tensor *dbias, const struct tr_tensor *dy,
                         struct tr_dropout drop)
{
    struct tr_rows_sizes s = tr_sizes_residual_bwd(da, dbias, dy, &drop);

    (void)q;
    for (int64_t h = 0; h < s.h; h++) {
        double sum = (double)tr_f32(dbias)[h];

        for (int64_t n = 0; n < s.n; n++) {
            tr_f32(da)[n * s.h + h] = tr_f32(dy)[n * s.h + h] * keep(&drop, n, h, s.h);
            sum += (double)tr_f32(da)[n * s.h + h];
        }
        tr_f32(dbias)[h] = (float)sum;
    }
}

void tr_ref_dropout(struct tr_queue *q, const struct tr_tensor *y, struct tr_dropout drop)
{
    struct tr_rows_sizes s = tr_sizes_dropout(y, &drop);

    (void)q;
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t h = 0; h < s.h; h++)
            tr_f32(y)[n * s.h + h] *= keep(&drop, n, h, s.h);
}

/* ---- embedding ---- */

void tr_ref_embed(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *ids,
                  const struct tr_tensor *table, int64_t first)
{
    struct tr_embed_sizes s = tr_sizes_embed(y, ids, table);

    (void)q;
    for (int64_t n = 0; n < s.n; n++) {
        int64_t row = tr_i32(ids)[n] - first;

        for (int64_t h = 0; h < s.h; h++)
            tr_f32(y)[n * s.h + h] = row >= 0 && row < s.r ? tr_f32(table)[row * s.h + h] : 0.0f;
    }
}

void tr_ref_embed_bwd(struct tr_queue *q, const struct tr_tensor *dtable,
                      const struct tr_tensor *dy, const struct tr_tensor *ids, int64_t first)
{
    struct tr_embed_sizes s = tr_sizes_embed(dy, ids, dtable);

    (void)q;
    for (int64_t n = 0; n < s.n; n++) {
        int64_t row = tr_i32(ids)[n] - first;

        for (int64_t h = 0; row >= 0 && row < s.r && h < s.h; h++)
            tr_f32(dtable)[row * s.h + h] += tr_f32(dy)[n * s.h + h];
    }
}

void tr_ref_add_rows(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *ids,
                     const struct tr_tensor *table)
{
    struct tr_embed_sizes s = tr_sizes_embed(y, ids, table);

    (void)q;
    for (int64_t n = 0; n < s.n; n++) {
        int64_t row = tr_i32(ids)[n];

        TR_ASSERT(row >= 0 && row < s.r);
        for (int64_t h = 0; h < s.h; h++)
            tr_f32(y)[n * s.h + h] += tr_f32(table)[row * s.h + h];
    }
}

/* ---- loss ---- */

void tr_ref_xent_max(struct tr_queue *q, const struct tr_tensor *max,
                     const struct tr_tensor *logits, int64_t valid)
{
    struct tr_xent_sizes s = tr_sizes_xent(logits, max, NULL, NULL, NULL, valid);

    (void)q;
    for (int64_t n = 0; n < s.n; n++) {
        float largest = -INFINITY;

        for (int64_t r = 0; r < valid; r++)
            if (tr_f32(logits)[n * s.r + r] > largest)
                largest = tr_f32(logits)[n * s.r + r];
        tr_f32(max)[n] = largest;
    }
}

void tr_ref_xent_sum(struct tr_queue *q, const struct tr_tensor *stats,
                     const struct tr_tensor *logits, const struct tr_tensor *max,
                     const struct tr_tensor *labels, int64_t first, int64_t valid)
{
    struct tr_xent_sizes s = tr_sizes_xent(logits, max, stats, labels, NULL, valid);

    (void)q;
    for (int64_t n = 0; n < s.n; n++) {
        const float *row = tr_f32(logits) + n * s.r;
        int64_t label = tr_i32(labels)[n] - first;
        double sum = 0.0, m = (double)tr_f32(max)[n];

        for (int64_t r = 0; r < valid; r++)
            sum += exp((double)row[r] - m);
        tr_f32(stats)[n] = (float)sum;
        tr_f32(stats)[s.n + n] = label >= 0 && label < s.r ? (float)((double)row[label] - m) : 0.0f;
    }
}

void tr_ref_xent_loss(struct tr_queue *q, const struct tr_tensor *loss,
                      const struct tr_tensor *stats)
{
    int64_t n = tr_sizes_xent_loss(loss, stats);

    (void)q;
    for (int64_t i = 0; i < n; i++)
        tr_f32(loss)[i] = (float)(log((double)tr_f32(stats)[i]) - (double)tr_f32(stats)[n + i]);
}

void tr_ref_xent_bwd(struct tr_queue *q, const struct tr_tensor *logits,
                     const struct tr_tensor *max, const struct tr_tensor *stats,
                     const struct tr_tensor *labels, const struct tr_tensor *weight, int64_t first,
                     int64_t valid)
{
    struct tr_xent_sizes s = tr_sizes_xent(logits, max, stats, labels, weight, valid);

    (void)q;
    for (int64_t n = 0; n < s.n; n++) {
        float *row = tr_f32(logits) + n * s.r;
        double m = (double)tr_f32(max)[n], sum = (double)tr_f32(stats)[n];

        for (int64_t r = 0; r < s.r; r++) {
            double p = r < valid ? exp((double)row[r] - m) / sum : 0.0;

            if (r < valid && r + first == tr_i32(labels)[n])
                p -= 1.0;
            row[r] = (float)((double)tr_f32(weight)[n] * p);
        }
    }
}

/* ---- optimizer ---- */

void tr_ref_adamw(struct tr_queue *q, const struct tr_tensor *half, const struct tr_tensor *p,
                  const struct tr_tensor *m, const struct tr_tensor *v, const struct tr_tensor *g,
                  struct tr_adamw how)
{
    int64_t n = tr_sizes_adamw(half, p, m, v, g);
    double b1 = (double)how.beta1, b2 = (double)how.beta2;

    (void)q;
    for (int64_t i = 0; i < n; i++) {
        double grad = (double)tr_f32(g)[i] * (double)how.grad_scale;
        double mi = b1 * (double)tr_f32(m)[i] + (1.0 - b1) * grad;
        double vi = b2 * (double)tr_f32(v)[i] + (1.0 - b2) * grad * grad;
        double step = mi / (double)how.bias1 / (sqrt(vi / (double)how.bias2) + (double)how.eps);
        double pi = (double)tr_f32(p)[i];

        tr_f32(m)[i] = (float)mi;
        tr_f32(v)[i] = (float)vi;
        tr_f32(p)[i] = (float)(pi - (double)how.lr * (step + (double)how.decay * pi));
        if (half)
            tr_half(half)[i] = half->dtype == TR_F16 ? tr_f16_from_float(tr_f32(p)[i])
                                                     : tr_bf16_from_float(tr_f32(p)[i]);
    }
}

static enum tr_status ref_open(int threads, struct tr_device **out)
{
    TR_TRY(tr_host_open(threads, out));
    (*out)->threads = 1;
    return TR_OK;
}

static const char *describe(const struct tr_device *d)
{
    (void)d;
    return "ref: 1 thread, plain loops";
}

const struct tr_backend tr_ref = {
    .name = "ref",
    .open = ref_open,
    .close = tr_host_close,
    .threads = tr_host_threads,
    .describe = describe,
    .reserve = tr_host_reserve,
    .wait = tr_host_wait,
#define OP(name, tol, params) .name = tr_ref_##name,
#include "device/ops.def"
#undef OP
};
