/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_BENCHMARKS_BENCH_LIBRARY_H
#define TR_BENCHMARKS_BENCH_LIBRARY_H

#include "bench.h"
#include "tensor/tensor.h"

/*
 * GEMMs by the libraries that configure found, for comparison.  Each runs with the given number of
 * threads, if that can be set.
 */

/* c[m,n] = a[m,k] b[k,n].  With a_turned, a lies in memory as [k,m]; with b_turned, b as [n,k]. */
struct bench_product {
    int64_t m, n, k;
    bool a_turned, b_turned;
    enum tr_dtype type, c_type; /* of a and b, of c */
    void *a, *b, *c;
    void *made; /* the library's own */
};

struct bench_library {
    const char *(*name)(void);             /* with version or kernels; static storage */
    bool bf16;                             /* whether it takes TR_BF16, and not TR_F32 alone */
    int (*threads)(int wanted);            /* takes as many, and says how many; 0: it cannot say */
    void (*open)(struct bench_product *p); /* may be NULL, and then close is, too */
    void (*run)(struct bench_product *p);
    void (*close)(struct bench_product *p);
};

/* Those in this program, NULL at the end, and their names in one line ("none" without any). */
const struct bench_library *const *bench_libraries(void);
const char *bench_library_names(void);

/* GFLOP/s in the three GEMMs of a linear layer of n rows, o outputs and i inputs, with gradients of
   weights in fp32.  Each runs for `seconds` and at least three times, and its fastest time counts. */
struct bench_rates bench_library_rates(const struct bench_library *l, enum tr_dtype type, int64_t n,
                                       int64_t o, int64_t i, double seconds);

extern const struct bench_library bench_blas, bench_blis, bench_dnnl;

#endif
