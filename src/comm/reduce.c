/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/reduce.h"

#include <string.h>

#include "util/half.h"

/* Elements that are worked on at once: they stay in the nearest cache. */
enum { BLOCK = 1024 };

static void join_f32(float *restrict to, const float *restrict x, int n, enum tr_redop op)
{
    if (op == TR_SUM)
        for (int i = 0; i < n; i++)
            to[i] += x[i];
    else
        for (int i = 0; i < n; i++)
            to[i] = x[i] > to[i] ? x[i] : to[i];
}

static void join_f64(double *restrict to, const double *restrict x, int n, enum tr_redop op)
{
    if (op == TR_SUM)
        for (int i = 0; i < n; i++)
            to[i] += x[i];
    else
        for (int i = 0; i < n; i++)
            to[i] = x[i] > to[i] ? x[i] : to[i];
}

static void load(float *restrict to, const void *from, int64_t first, int n, enum tr_dtype t)
{
    const uint16_t *half = (const uint16_t *)from + first;

    if (t == TR_F16)
        for (int i = 0; i < n; i++)
            to[i] = tr_f16_to_float(half[i]);
    else if (t == TR_BF16)
        for (int i = 0; i < n; i++)
            to[i] = tr_bf16_to_float(half[i]);
    else
        memcpy(to, (const float *)from + first, (size_t)n * sizeof *to);
}

static void store(void *to, int64_t first, const float *restrict from, int n, enum tr_dtype t)
{
    uint16_t *half = (uint16_t *)to + first;

    if (t == TR_F16)
        for (int i = 0; i < n; i++)
            half[i] = tr_f16_from_float(from[i]);
    else if (t == TR_BF16)
        for (int i = 0; i < n; i++)
            half[i] = tr_bf16_from_float(from[i]);
    else
        memcpy((float *)to + first, from, (size_t)n * sizeof *from);
}

static int block(int64_t left)
{
    return (int)(left < BLOCK ? left : BLOCK);
}

void tr_reduce_pair(void *inout, const void *in, int64_t n, enum tr_dtype t, enum tr_redop op)
{
    float sum[BLOCK], x[BLOCK];

    for (int64_t first = 0; first < n; first += BLOCK) {
        int count = block(n - first);

        load(sum, inout, first, count, t);
        load(x, in, first, count, t);
        join_f32(sum, x, count, op);
        store(inout, first, sum, count, t);
    }
}

static void slices_f32(const struct tr_tensor *out, const void *slices, int ranks, enum tr_redop op)
{
    int64_t n = tr_tensor_elems(out);
    float sum[BLOCK], x[BLOCK];

    for (int64_t first = 0; first < n; first += BLOCK) {
        int count = block(n - first);

        load(sum, slices, first, count, out->dtype);
        for (int r = 1; r < ranks; r++) {
            load(x, slices, r * n + first, count, out->dtype);
            join_f32(sum, x, count, op);
        }
        store(out->data, first, sum, count, out->dtype);
    }
}

static void slices_f64(double *out, const double *slices, int64_t n, int ranks, enum tr_redop op)
{
    double sum[BLOCK];

    for (int64_t first = 0; first < n; first += BLOCK) {
        int count = block(n - first);

        memcpy(sum, slices + first, (size_t)count * sizeof *sum);
        for (int r = 1; r < ranks; r++)
            join_f64(sum, slices + r * n + first, count, op);
        memcpy(out + first, sum, (size_t)count * sizeof *sum);
    }
}

void tr_reduce_slices(const struct tr_tensor *out, const void *slices, int ranks, enum tr_redop op)
{
    if (out->dtype == TR_F64)
        slices_f64(tr_f64(out), slices, tr_tensor_elems(out), ranks, op);
    else
        slices_f32(out, slices, ranks, op);
}
