/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_BENCHMARKS_BENCH_DEVICE_H
#define TR_BENCHMARKS_BENCH_DEVICE_H

#include "bench.h"
#include "device/device.h"

/* A queue on the fastest backend, with threads as tr_backend.open() has it; the caller closes the
   device. */
struct tr_queue bench_queue(int threads);

/* Small numbers in memory of that device, which lives until the device is closed. */
float *bench_floats(struct tr_queue *q, int64_t count);

/* What bench_sgemm() measures of a BLAS, of the linear operations of that backend. */
struct bench_sgemm bench_linear(int threads, int64_t n, int64_t o, int64_t i, double seconds);

#endif
