/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu.h"

#include "device/cpu/cpu_half.h"
#include "device/cpu/cpu_math.h"
#include "device/host.h"
#include "device/sizes.h"

/*
 * Attention of few queries with many keys: what it costs is reading keys and values, once per query of a head.
 * Scores are made for KEYS keys at a time, with the sums of those before scaled where a larger score appears
 * (Dao et al., "FlashAttention", 2022, algorithm 1).
 */
enum { KEYS = 128 };

struct call {
    struct tr_cached_sizes s;
    const struct tr_tensor *ctx, *cache, *qkv;
    const int32_t *place;
    struct tr_attention_how how;
};

/* The first element of keys (part 0) or values (1) of a group of a sample. */
static int64_t first_of(const struct call *c, int64_t b, int64_t group, int64_t part)
{
    return ((b * c->s.groups + group) * 2 + part) * c->s.keys * c->s.d;
}

static void keep_row(const struct call *c, int64_t n)
{
    const int64_t each = c->s.heads / c->s.groups, d = c->s.d, slot = c->place[n] % c->s.keys;
    float row[TR_MAX_HEAD_DIM];

    for (int64_t group = 0; group < c->s.groups; group++)
        for (int64_t part = 0; part < 2; part++) {
            const int64_t from =
                n * (c->s.heads + 2 * c->s.groups) * d + (group * (each + 2) + each + part) * d;
            const float *x = tr_cpu_in(c->qkv, from, d, row);
            const int64_t to = first_of(c, n / c->s.t, group, part) + slot * d;

            if (c->cache->dtype == TR_F32)
                memcpy(tr_f32(c->cache) + to, x, (size_t)d * sizeof *x);
            else {
                memmove(row, x, (size_t)d * sizeof *x);
                tr_cpu_put(c->cache, to, d, row);
            }
        }
}

static float dot(const float *x, const float *y, int64_t n)
{
    float sum = 0.0f;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* What is summed up over the keys so far. */
struct sums {
    float max, sum, acc[TR_MAX_HEAD_DIM];
};

/* Keys first .. end - 1, at most KEYS of them. */
static void add_keys(const struct call *c, struct sums *a, const float *query, int64_t b,
                     int64_t group, float slope, int64_t first, int64_t end, int64_t place)
{
    const int64_t d = c->s.d, keys = first_of(c, b, group, 0), values = first_of(c, b, group, 1);
    float score[KEYS], row[TR_MAX_HEAD_DIM], max = a->max, shrink;

    for (int64_t j = first; j < end; j++) {
        const float *key = tr_cpu_in(c->cache, keys + j % c->s.keys * d, d, row);
        const float x = c->how.scale * dot(query, key, d) + slope * (float)(j - place);

        score[j - first] = x;
        max = x > max ? x : max;
    }
    shrink = exp_fast(a->max - max);
    a->max = max;
    a->sum *= shrink;
    for (int64_t i = 0; i < d; i++)
        a->acc[i] *= shrink;
    for (int64_t j = first; j < end; j++) {
        const float p = exp_fast(score[j - first] - max);
        const float *value = tr_cpu_in(c->cache, values + j % c->s.keys * d, d, row);

        a->sum += p;
#pragma omp simd
        for (int64_t i = 0; i < d; i++)
            a->acc[i] += p * value[i];
    }
}

static void put(const struct call *c, int64_t n, int64_t h, const float *x)
{
    const int64_t to = (n * c->s.heads + h) * c->s.d;

    if (c->ctx->dtype == TR_F32)
        memcpy(tr_f32(c->ctx) + to, x, (size_t)c->s.d * sizeof *x);
    else
        tr_cpu_put(c->ctx, to, c->s.d, x);
}

static void attend(const struct call *c, int64_t n, int64_t h)
{
    const int64_t each = c->s.heads / c->s.groups, group = h / each, d = c->s.d;
    const int64_t place = c->place[n], window = c->how.window;
    const int64_t seen = window > 0 && window < c->s.keys ? window : c->s.keys;
    const int64_t first = place - seen + 1 > 0 ? place - seen + 1 : 0;
    const int64_t from =
        n * (c->s.heads + 2 * c->s.groups) * d + (group * (each + 2) + h % each) * d;
    const float slope = c->how.slopes ? tr_f32(c->how.slopes)[h] : 0.0f;
    struct sums a = {.max = -INFINITY};
    float row[TR_MAX_HEAD_DIM];
    const float *query = tr_cpu_in(c->qkv, from, d, row);

    for (int64_t j = first; place >= 0 && j <= place; j += KEYS)
        add_keys(c, &a, query, n / c->s.t, group, slope, j,
                 j + KEYS <= place ? j + KEYS : place + 1, place);
    for (int64_t i = 0; i < d; i++)
        a.acc[i] = place >= 0 ? a.acc[i] / a.sum : 0.0f;
    put(c, n, h, a.acc);
}

static bool worth(int threads, const struct call *c)
{
    const int64_t window = c->how.window;
    const int64_t most = window > 0 && window < c->s.keys ? window : c->s.keys;
    int64_t keys = 0;

    for (int64_t n = 0; n < c->s.b * c->s.t; n++)
        keys += c->place[n] < most ? c->place[n] + 1 : most;
    return tr_cpu_worth_product(threads, keys * c->s.heads * c->s.d);
}

void tr_cpu_attention_cached(struct tr_queue *q, const struct tr_tensor *ctx,
                             const struct tr_tensor *cache, const struct tr_tensor *qkv,
                             const struct tr_tensor *place, struct tr_attention_how how)
{
    const struct call c = {.s = tr_sizes_cached(ctx, cache, qkv, place, how),
                           .ctx = ctx,
                           .cache = cache,
                           .qkv = qkv,
                           .place = tr_i32(place),
                           .how = how};
    const int64_t rows = c.s.b * c.s.t;
    int threads = q->device->threads;

#pragma omp parallel num_threads(threads) if (worth(threads, &c))
    {
#pragma omp for
        for (int64_t n = 0; n < rows; n++)
            if (c.place[n] >= 0)
                keep_row(&c, n);
#pragma omp for collapse(2)
        for (int64_t n = 0; n < rows; n++)
            for (int64_t h = 0; h < c.s.heads; h++)
                attend(&c, n, h);
    }
}
