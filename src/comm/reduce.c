/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/reduce.h"

#include <string.h>

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

static void slices_f32(float *out, const float *x, int64_t n, int ranks, enum tr_redop op)
{
    float sum[BLOCK];

    for (int64_t first = 0; first < n; first += BLOCK) {
        int count = (int)(n - first < BLOCK ? n - first : BLOCK);

        memcpy(sum, x + first, (size_t)count * sizeof *sum);
        for (int r = 1; r < ranks; r++)
            join_f32(sum, x + r * n + first, count, op);
        memcpy(out + first, sum, (size_t)count * sizeof *sum);
    }
}

static void slices_f64(double *out, const double *x, int64_t n, int ranks, enum tr_redop op)
{
    double sum[BLOCK];

    for (int64_t first = 0; first < n; first += BLOCK) {
        int count = (int)(n - first < BLOCK ? n - first : BLOCK);

        memcpy(sum, x + first, (size_t)count * sizeof *sum);
        for (int r = 1; r < ranks; r++)
            join_f64(sum, x + r * n + first, count, op);
        memcpy(out + first, sum, (size_t)count * sizeof *sum);
    }
}

void tr_reduce_slices(const struct tr_tensor *out, const void *slices, int ranks, enum tr_redop op)
{
    int64_t n = tr_tensor_elems(out);

    if (out->dtype == TR_F64)
        slices_f64(tr_f64(out), slices, n, ranks, op);
    else
        slices_f32(tr_f32(out), slices, n, ranks, op);
}
