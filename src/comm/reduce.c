/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/reduce.h"

#include <string.h>

#include "device/cpu/cpu_half.h"

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

/* The address of element `first` of n numbers of a float type. */
static void *at(const void *numbers, int64_t first, enum tr_dtype t)
{
    return (unsigned char *)numbers + first * tr_dtype_bytes(t);
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

        tr_cpu_widen(t, at(inout, first, t), count, sum);
        tr_cpu_widen(t, at(in, first, t), count, x);
        join_f32(sum, x, count, op);
        tr_cpu_narrow(t, sum, count, at(inout, first, t));
    }
}

static void slices_f32(const struct tr_tensor *out, const void *slices, int ranks, enum tr_redop op)
{
    int64_t n = tr_tensor_elems(out);
    float sum[BLOCK], x[BLOCK];

    for (int64_t first = 0; first < n; first += BLOCK) {
        int count = block(n - first);

        tr_cpu_widen(out->dtype, at(slices, first, out->dtype), count, sum);
        for (int r = 1; r < ranks; r++) {
            tr_cpu_widen(out->dtype, at(slices, r * n + first, out->dtype), count, x);
            join_f32(sum, x, count, op);
        }
        tr_cpu_narrow(out->dtype, sum, count, at(out->data, first, out->dtype));
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
