/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CPU_CPU_DNNL_H
#define TR_DEVICE_CPU_CPU_DNNL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/cpu/cpu_product.h"
#include "device/device.h"
#include "util/status.h"

/*
 * GEMMs of bf16 by oneDNN, where configure found it and the processor gains from it: with a matrix
 * unit (AMX), or where vdpbf16ps, which does the work of two fp32 instructions, starts nearly as often
 * as one of them.  Some processors have it and start it a quarter as often; there the kernels of
 * cpu_product.c, which turn bf16 into floats, are the faster ones.  Sums are fp32 either way, in another
 * order, so last bits differ.
 */
struct tr_dnnl;

/*
 * *out is NULL where own kernels multiply: with TR_GEMM_OWN, and with TR_GEMM_AUTO on a processor that
 * does not gain.  TR_GEMM_ONEDNN takes oneDNN without gain, too; TR_ERESOURCE where this build or this
 * processor cannot.  `threads` may call tr_dnnl_multiply() at the same time.  *out is the caller's.
 */
enum tr_status tr_dnnl_open(int threads, enum tr_gemm_by by, struct tr_dnnl **out) TR_MUST_CHECK;
void tr_dnnl_close(struct tr_dnnl *d);

/* "oneDNN 2.6.3"; static storage. */
const char *tr_dnnl_name(const struct tr_dnnl *d);

/* "2.6.3", of the header and of the library; "" without oneDNN. */
void tr_dnnl_versions(char *built, size_t built_size, char *here, size_t here_size);

/*
 * c[m,n] = rows i .. of a times columns j .. of b, over all k, or c += with `add`; a and b are TR_BF16.
 * `thread` is below `threads`.  What a shape needs is made when it first comes, so in the first step.
 */
void tr_dnnl_multiply(struct tr_dnnl *d, int thread, const struct tr_view *a,
                      const struct tr_view *b, int64_t i, int64_t m, int64_t j, int64_t n,
                      int64_t k, float *c, int64_t c_stride, bool add);

#endif
