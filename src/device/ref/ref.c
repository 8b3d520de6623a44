/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/ref/ref.h"

#include <math.h>
#include <string.h>

#include "device/host.h"
#include "device/ref/ref_element.h"
#include "device/sizes.h"

/* The rows that give the same bits everywhere compute in float. */
static double in_float(double x)
{
    return (double)(float)x;
}

/* ---- memory ---- */

void tr_ref_fill(struct tr_queue *q, const struct tr_tensor *y, float value)
{
    int64_t n = tr_tensor_elems(y);

    (void)q;
    TR_ASSERT(tr_dtype_is_float(y->dtype) || y->dtype == TR_F64);
    for (int64_t i = 0; i < n; i++)
        set(y, i, (double)value);
}

void tr_ref_copy(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x)
{
    int64_t n = tr_sizes_copy(y, x);

    (void)q;
    if (y->dtype == x->dtype)
        memcpy(y->data, x->data, (size_t)tr_tensor_bytes(x));
    else
        for (int64_t i = 0; i < n; i++)
            set(y, i, get(x, i));
}

void tr_ref_add(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x)
{
    int64_t n = tr_sizes_flat(y, x, x, x);

    (void)q;
    for (int64_t i = 0; i < n; i++)
        set(y, i, in_float(get(y, i) + get(x, i)));
}

void tr_ref_scale(struct tr_queue *q, const struct tr_tensor *y, float factor)
{
    int64_t n = tr_sizes_flat(y, y, y, y);

    (void)q;
    for (int64_t i = 0; i < n; i++)
        set(y, i, in_float(get(y, i) * (double)factor));
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
        sum += get(x, i) * get(w, i);
    set(out, 0, get(out, 0) + sum);
}

void tr_ref_count_zeros(struct tr_queue *q, const struct tr_tensor *out, const struct tr_tensor *x)
{
    int64_t n = tr_sizes_flat(x, x, x, x);

    (void)q;
    tr_sizes_scalar(out);
    for (int64_t i = 0; i < n; i++)
        set(out, 0, get(out, 0) + (get(x, i) == 0.0 ? 1.0 : 0.0));
}

/* ---- dense ---- */

static const double gelu_outer = 0.7978845608028654; /* sqrt(2 / pi) */
static const double gelu_inner = 0.044715;

static double act_NONE(double x)
{
    return x;
}

static double slope_NONE(double x)
{
    (void)x;
    return 1.0;
}

static double act_GELU_TANH(double x)
{
    return 0.5 * x * (1.0 + tanh(gelu_outer * (x + gelu_inner * x * x * x)));
}

static double slope_GELU_TANH(double x)
{
    const double t = tanh(gelu_outer * (x + gelu_inner * x * x * x));
    const double inner = gelu_outer * (1.0 + 3.0 * gelu_inner * x * x);

    return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * inner;
}

static double act_GELU(double x)
{
    return 0.5 * x * (1.0 + erf(x * M_SQRT1_2));
}

static double slope_GELU(double x)
{
    return 0.5 * (1.0 + erf(x * M_SQRT1_2)) + x * exp(-0.5 * x * x) * 0.5 * M_SQRT1_2 * M_2_SQRTPI;
}

/* What is not a number stays that. */
static double act_RELU(double x)
{
    return x < 0.0 ? 0.0 : x;
}

static double slope_RELU(double x)
{
    return x > 0.0 ? 1.0 : 0.0;
}

static double act_RELU2(double x)
{
    return x < 0.0 ? 0.0 : x * x;
}

static double slope_RELU2(double x)
{
    return x > 0.0 ? 2.0 * x : 0.0;
}

static double act_SILU(double x)
{
    return x / (1.0 + exp(-x));
}

static double slope_SILU(double x)
{
    const double s = 1.0 / (1.0 + exp(-x));

    return s + x * s * (1.0 - s);
}

/* Those of a gated activation are the functions of its gate. */
static double (*const activations[])(double) = {
#define ACT(symbol, name) act_##symbol,
#define GATED(symbol, name, of) act_##of,
#include "family/acts.def"
};

static double (*const slopes[])(double) = {
#define ACT(symbol, name) slope_##symbol,
#define GATED(symbol, name, of) slope_##of,
#include "family/acts.def"
};

void tr_ref_activate(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                     enum tr_act act)
{
    const int64_t n = tr_sizes_flat(y, x, x, x);

    (void)q;
    TR_ASSERT(!tr_act_gated(act));
    for (int64_t i = 0; i < n; i++)
        set(y, i, activations[act](get(x, i)));
}

void tr_ref_activate_bwd(struct tr_queue *q, const struct tr_tensor *dx, const struct tr_tensor *dy,
                         const struct tr_tensor *x, enum tr_act act)
{
    const int64_t n = tr_sizes_flat(dx, dy, x, x);

    (void)q;
    TR_ASSERT(!tr_act_gated(act));
    for (int64_t i = 0; i < n; i++)
        set(dx, i, get(dy, i) * slopes[act](get(x, i)));
}

void tr_ref_linear(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *pre,
                   const struct tr_tensor *x, const struct tr_tensor *w,
                   const struct tr_tensor *bias, enum tr_act act)
{
    struct tr_linear_sizes s = tr_sizes_linear(y, pre, x, w, bias, act);
    double gate = 0.0;

    (void)q;
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t o = 0; o < s.o; o++) {
            double z = bias ? get(bias, o) : 0.0;

            for (int64_t i = 0; i < s.i; i++)
                z += get(x, n * s.i + i) * get(w, o * s.i + i);
            if (pre)
                set(pre, n * s.o + o, z);
            if (!tr_act_gated(act))
                set(y, n * s.o + o, activations[act](z));
            else if (o % 2 == 0)
                gate = activations[act](z);
            else
                set(y, (n * s.o + o) / 2, gate * z);
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
            int64_t at = n * s.i + i;

            for (int64_t o = 0; o < s.o; o++)
                sum += get(dy, n * s.o + o) * get(w, o * s.i + i);
            if (tr_act_gated(act)) {
                double gate = get(pre, 2 * at), other = get(pre, 2 * at + 1);

                set(dx, 2 * at, sum * slopes[act](gate) * other);
                set(dx, 2 * at + 1, sum * activations[act](gate));
            } else {
                set(dx, at, pre ? sum * slopes[act](get(pre, at)) : sum);
            }
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
            double sum = add ? get(dw, o * s.i + i) : 0.0;

            for (int64_t n = 0; n < s.n; n++)
                sum += get(dy, n * s.o + o) * get(x, n * s.i + i);
            set(dw, o * s.i + i, sum);
        }
    for (int64_t o = 0; dbias && o < s.o; o++) {
        double sum = add ? get(dbias, o) : 0.0;

        for (int64_t n = 0; n < s.n; n++)
            sum += get(dy, n * s.o + o);
        set(dbias, o, sum);
    }
}

/* ---- norm, residual, dropout ---- */

/* Element h of the gain. */
static double gain_of(const struct tr_tensor *gain, int64_t h, struct tr_norm_how how)
{
    return get(gain, h) + (how.one ? 1.0 : 0.0);
}

void tr_ref_norm(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *mean,
                 const struct tr_tensor *rstd, const struct tr_tensor *x,
                 const struct tr_tensor *gain, const struct tr_tensor *bias, struct tr_norm_how how)
{
    struct tr_rows_sizes s = tr_sizes_norm(y, mean, rstd, x, gain, bias, how);

    (void)q;
    for (int64_t n = 0; n < s.n; n++) {
        int64_t row = n * s.h;
        double m = 0.0, var = 0.0, r;

        for (int64_t h = 0; h < s.h && !how.rms; h++)
            m += get(x, row + h);
        m /= (double)s.h;
        for (int64_t h = 0; h < s.h; h++)
            var += (get(x, row + h) - m) * (get(x, row + h) - m);
        r = 1.0 / sqrt(var / (double)s.h + (double)how.eps);
        for (int64_t h = 0; h < s.h; h++)
            set(y, row + h,
                (get(x, row + h) - m) * r * gain_of(gain, h, how) + (bias ? get(bias, h) : 0.0));
        if (mean)
            set(mean, n, m);
        set(rstd, n, r);
    }
}

void tr_ref_norm_bwd(struct tr_queue *q, const struct tr_tensor *dx, const struct tr_tensor *dgain,
                     const struct tr_tensor *dbias, const struct tr_tensor *dy,
                     const struct tr_tensor *dskip, const struct tr_tensor *x,
                     const struct tr_tensor *gain, const struct tr_tensor *mean,
                     const struct tr_tensor *rstd, struct tr_norm_how how)
{
    struct tr_rows_sizes s =
        tr_sizes_norm_bwd(dx, dgain, dbias, dy, dskip, x, gain, mean, rstd, how);

    (void)q;
    for (int64_t h = 0; h < s.h; h++) {
        double to_gain = get(dgain, h), to_bias = dbias ? get(dbias, h) : 0.0;

        for (int64_t n = 0; n < s.n; n++) {
            double dyn = get(dy, n * s.h + h), m = mean ? get(mean, n) : 0.0;

            to_gain += dyn * (get(x, n * s.h + h) - m) * get(rstd, n);
            to_bias += dyn;
        }
        set(dgain, h, to_gain);
        if (dbias)
            set(dbias, h, to_bias);
    }
    /* With g = dy * gain and u = (x - mean) * rstd: dx = rstd (g - mean(g) - u mean(g u)), where the term
       mean(g) is the gradient through the mean. */
    for (int64_t n = 0; n < s.n; n++) {
        double m = mean ? get(mean, n) : 0.0, r = get(rstd, n), g_mean = 0.0, gu_mean = 0.0;
        int64_t row = n * s.h;

        for (int64_t h = 0; h < s.h; h++) {
            double g = get(dy, row + h) * gain_of(gain, h, how);

            g_mean += how.rms ? 0.0 : g / (double)s.h;
            gu_mean += g * (get(x, row + h) - m) * r / (double)s.h;
        }
        for (int64_t h = 0; h < s.h; h++) {
            double g = get(dy, row + h) * gain_of(gain, h, how), u = (get(x, row + h) - m) * r;
            double skip = dskip ? get(dskip, row + h) : 0.0;

            set(dx, row + h, skip + r * (g - g_mean - u * gu_mean));
        }
    }
}

/* What element (n, h) of a [N,H] activation is multiplied by. */
static double keep(const struct tr_dropout *drop, int64_t n, int64_t h, int64_t width)
{
    struct tr_rng r;

    if (drop->p == 0.0)
        return 1.0;
    n += drop->first_row;
    r = tr_rng_key(drop->seed, drop->stream, drop->site, drop->sample[n / drop->tokens]);
    if (tr_rng_u32(r, (uint64_t)((n % drop->tokens) * width + h)) < tr_rng_threshold(drop->p))
        return 0.0;
    return in_float(1.0 / (1.0 - drop->p));
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
            double branch = get(a, i) + (bias ? get(bias, h) : 0.0);

            set(y, i, get(x, i) + branch * keep(&drop, n, h, s.h));
        }
}

void tr_ref_residual_norm(struct tr_queue *q, const struct tr_tensor *y,
                          const struct tr_tensor *norm, const struct tr_tensor *mean,
                          const struct tr_tensor *rstd, const struct tr_tensor *x,
                          const struct tr_tensor *a, const struct tr_tensor *bias,
                          const struct tr_tensor *gain, const struct tr_tensor *shift,
                          struct tr_norm_how how, struct tr_dropout drop)
{
    tr_ref_residual(q, y, x, a, bias, drop);
    tr_ref_norm(q, norm, mean, rstd, y, gain, shift, how);
}

void tr_ref_residual_bwd(struct tr_queue *q, const struct tr_tensor *da,
                         const struct tr_tensor *dbias, const struct tr_tensor *dy,
                         struct tr_dropout drop)
{
    struct tr_rows_sizes s = tr_sizes_residual_bwd(da, dbias, dy, &drop);

    (void)q;
    for (int64_t h = 0; h < s.h; h++) {
        double sum = dbias ? get(dbias, h) : 0.0;

        for (int64_t n = 0; n < s.n; n++) {
            int64_t i = n * s.h + h;

            set(da, i, in_float(get(dy, i) * keep(&drop, n, h, s.h)));
            sum += get(da, i);
        }
        if (dbias)
            set(dbias, h, sum);
    }
}

void tr_ref_dropout(struct tr_queue *q, const struct tr_tensor *y, struct tr_dropout drop)
{
    struct tr_rows_sizes s = tr_sizes_dropout(y, &drop);

    (void)q;
    for (int64_t n = 0; n < s.n; n++)
        for (int64_t h = 0; h < s.h; h++)
            set(y, n * s.h + h, in_float(get(y, n * s.h + h) * keep(&drop, n, h, s.h)));
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
            set(y, n * s.h + h, row >= 0 && row < s.r ? get(table, row * s.h + h) : 0.0);
    }
}

/* Whether an earlier row has the same id. */
static bool seen_before(const struct tr_tensor *ids, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (tr_i32(ids)[i] == tr_i32(ids)[n])
            return true;
    return false;
}

void tr_ref_embed_bwd(struct tr_queue *q, const struct tr_tensor *dtable,
                      const struct tr_tensor *dy, const struct tr_tensor *ids, int64_t first)
{
    struct tr_embed_sizes s = tr_sizes_embed(dy, ids, dtable);

    (void)q;
    for (int64_t n = 0; n < s.n; n++) {
        int64_t row = tr_i32(ids)[n] - first;

        if (row < 0 || row >= s.r || seen_before(ids, n))
            continue;
        for (int64_t h = 0; h < s.h; h++) {
            double sum = get(dtable, row * s.h + h);

            for (int64_t i = n; i < s.n; i++)
                if (tr_i32(ids)[i] == tr_i32(ids)[n])
                    sum += get(dy, i * s.h + h);
            set(dtable, row * s.h + h, sum);
        }
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
            set(y, n * s.h + h, in_float(get(y, n * s.h + h) + get(table, row * s.h + h)));
    }
}

/* ---- loss ---- */

void tr_ref_xent_max(struct tr_queue *q, const struct tr_tensor *max,
                     const struct tr_tensor *logits, int64_t valid)
{
    struct tr_xent_sizes s = tr_sizes_xent(logits, max, NULL, NULL, NULL, valid);

    (void)q;
    for (int64_t n = 0; n < s.n; n++) {
        double largest = -INFINITY;

        for (int64_t r = 0; r < valid; r++)
            if (get(logits, n * s.r + r) > largest)
                largest = get(logits, n * s.r + r);
        set(max, n, largest);
    }
}

void tr_ref_xent_sum(struct tr_queue *q, const struct tr_tensor *stats,
                     const struct tr_tensor *logits, const struct tr_tensor *max,
                     const struct tr_tensor *labels, int64_t first, int64_t valid)
{
    struct tr_xent_sizes s = tr_sizes_xent(logits, max, stats, labels, NULL, valid);

    (void)q;
    for (int64_t n = 0; n < s.n; n++) {
        int64_t label = tr_i32(labels)[n] - first;
        double sum = 0.0, m = get(max, n);

        for (int64_t r = 0; r < valid; r++)
            sum += exp(get(logits, n * s.r + r) - m);
        set(stats, n, sum);
        set(stats, s.n + n, label >= 0 && label < s.r ? get(logits, n * s.r + label) - m : 0.0);
    }
}

void tr_ref_xent_loss(struct tr_queue *q, const struct tr_tensor *loss,
                      const struct tr_tensor *stats)
{
    int64_t n = tr_sizes_xent_loss(loss, stats);

    (void)q;
    for (int64_t i = 0; i < n; i++)
        set(loss, i, log(get(stats, i)) - get(stats, n + i));
}

void tr_ref_xent_bwd(struct tr_queue *q, const struct tr_tensor *logits,
                     const struct tr_tensor *max, const struct tr_tensor *stats,
                     const struct tr_tensor *labels, const struct tr_tensor *weight, int64_t first,
                     int64_t valid)
{
    struct tr_xent_sizes s = tr_sizes_xent(logits, max, stats, labels, weight, valid);

    (void)q;
    for (int64_t n = 0; n < s.n; n++) {
        double m = get(max, n), sum = get(stats, n);

        for (int64_t r = 0; r < s.r; r++) {
            double p = r < valid ? exp(get(logits, n * s.r + r) - m) / sum : 0.0;

            if (r < valid && r + first == tr_i32(labels)[n])
                p -= 1.0;
            set(logits, n * s.r + r, get(weight, n) * p);
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
        double grad = get(g, i) * (double)how.grad_scale;
        double mi = b1 * get(m, i) + (1.0 - b1) * grad;
        double vi = b2 * get(v, i) + (1.0 - b2) * grad * grad;
        double step = mi / (double)how.bias1 / (sqrt(vi / (double)how.bias2) + (double)how.eps);
        double pi = get(p, i);

        set(m, i, mi);
        set(v, i, vi);
        set(p, i, pi - (double)how.lr * (step + (double)how.decay * pi));
        if (half)
            set(half, i, get(p, i));
    }
}

static enum tr_status ref_open(const struct tr_device_how *how, struct tr_device **out)
{
    TR_TRY(tr_host_open(how, out));
    (*out)->threads = 1;
    return TR_OK;
}

static const char *describe(const struct tr_device *d)
{
    (void)d;
    return "ref: 1 thread, plain loops";
}

static const char *kernels(const struct tr_device *d, enum tr_dtype type)
{
    (void)d;
    (void)type;
    return "plain loops";
}

const struct tr_backend tr_ref = {
    .name = "ref",
    .open = ref_open,
    .close = tr_host_close,
    .threads = tr_host_threads,
    .describe = describe,
    .kernels = kernels,
    .reserve = tr_host_reserve,
    .reserve_host = tr_host_reserve_host,
    .used = tr_host_used,
    .move = tr_host_move,
    .moved = tr_host_moved,
    .after = tr_host_moved,
    .wait = tr_host_wait,
    .upload = tr_host_upload,
    .download = tr_host_download,
    .mark = tr_host_mark,
    .between = tr_host_between,
    .range = tr_host_range,
    .record = tr_host_record,
    .attention_cached = tr_ref_attention_cached,
    .attention_relative = tr_ref_attention_relative,
    .attention_relative_bwd = tr_ref_attention_relative_bwd,
    .adam8 = tr_ref_adam8,
    .activate = tr_ref_activate,
    .activate_bwd = tr_ref_activate_bwd,
#define OP(name, tol, params) .name = tr_ref_##name,
#include "device/ops.def"
#undef OP
};
