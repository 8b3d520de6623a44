/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_BENCHMARKS_BENCH_DEVICE_H
#define TR_BENCHMARKS_BENCH_DEVICE_H

#include "bench.h"
#include "device/device.h"

/* A queue on the processor, whose memory the benchmarks fill themselves, with threads as
   tr_backend.open() has it; the caller closes the device. */
struct tr_queue bench_queue(int threads);

/* Fill a tensor of a float type, on any device, with numbers of either sign as a model has them: what
   multiplies zeros draws less power and runs faster. */
void bench_random(struct tr_queue *q, const struct tr_tensor *t);

/* Small numbers in memory of that device, which lives until the device is closed. */
float *bench_floats(struct tr_queue *q, int64_t count);
struct tr_tensor bench_matrix(struct tr_queue *q, enum tr_dtype type, int64_t rows,
                              int64_t columns);

/* What bench_library_rates() measures of a library, of the linear operations of that backend. */
struct bench_rates bench_linear(int threads, enum tr_dtype type, int64_t n, int64_t o, int64_t i,
                                double seconds);

#endif
