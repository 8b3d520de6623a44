/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CPU_DNNL_H
#define TR_DEVICE_CPU_DNNL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cpu_product.h"

/*
 * Products of bf16 by oneDNN, where configure found it and the processor gains from it: with a matrix
 * unit (AMX), or where vdpbf16ps, which does the work of two fp32 instructions, starts nearly as often
 * as one of them.  Some processors have it and start it a quarter as often; there the kernels of
 * cpu_product.c, which turn bf16 into floats, are the faster ones.  Sums are fp32 either way.
 */
struct tr_dnnl;

/* NULL where there is no oneDNN, no bf16 in the processor, or no gain; `always` asks for it without
   gain, for tests.  `threads` may call tr_dnnl_multiply() at the same time.  Owned by the caller. */
struct tr_dnnl *tr_dnnl_open(int threads, bool always);
void tr_dnnl_close(struct tr_dnnl *d);

/* "oneDNN 2.6.3"; static storage. */
const char *tr_dnnl_name(const struct tr_dnnl *d);

/* "2.6.3", of the header and of the library; "" without oneDNN. */
void tr_dnnl_versions(char *built, size_t built_size, char *here, size_t here_size);

/*
 * c[m,n] = rows i .. of a times columns j .. of b, over all k, or c += with `add`; a and b are TR_BF16.
 * `thread` is below `threads`.  What a shape needs is made when it first comes, so in the first step.
 */
void tr_dnnl_multiply(struct tr_dnnl *d, int thread, const struct tr_view *a, const struct tr_view *b,
                      int64_t i, int64_t m, int64_t j, int64_t n, int64_t k, float *c,
                      int64_t c_stride, bool add);

#endif
