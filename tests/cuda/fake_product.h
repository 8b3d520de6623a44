/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef FAKE_PRODUCT_H
#define FAKE_PRODUCT_H

#include <cstddef>
#include <cstdint>

#include <cublasLt.h>

/* What the fake cuBLASLt (fake_cublaslt.h) knows of its objects, and the product itself, which
   fake_product.cc makes.  As in cuBLASLt, matrices lie column by column. */
namespace fake_lt
{

enum kind : uint32_t { HANDLE = 0x4c740001, WHAT, LAYOUT, WISHES };

struct object {
    kind is;
};

struct handle : object {
};

struct what : object {
    int32_t compute, scale, turn_a = CUBLAS_OP_N, turn_b = CUBLAS_OP_N;
    uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    const void *bias = nullptr;
    void *aux = nullptr;
    int64_t aux_stride = 0;
    int32_t bias_type = -1, aux_type = -1;
};

struct layout : object {
    cudaDataType type;
    int64_t rows, columns, stride;
};

struct wishes : object {
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
    uint64_t workspace = 0;
    uint32_t aligned[4] = {256, 256, 256, 256}; /* A, B, C, D */
};

enum { A, B, C, D };
enum algorithm : uint64_t { IN_ORDER, BACKWARDS, TWO_HALVES, RACING, ROUNDING };

struct call {
    what w;
    layout l[4];
    int64_t k;
};

enum { SPLIT_WORKSPACE = 64 << 10 };

struct work {
    call c;
    const void *a, *b;
    const void *old;
    void *d;
    float alpha, beta;
    void *workspace;
    algorithm how;
    int turn; /* how many products came before */
};

int64_t bytes_of(cudaDataType t);

inline bool has_aux(uint32_t epilogue)
{
    return (epilogue & 128) != 0;
}

inline bool has_bias(uint32_t epilogue)
{
    return (epilogue & CUBLASLT_EPILOGUE_BIAS) != 0;
}

/* The gradient of a bias: the sums of op(B) over k, a number for each column of D. */
inline bool sums_b(uint32_t epilogue)
{
    return epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

/* D = finish(alpha op(A) op(B) + beta C). */
void multiply(const work &w);

} // namespace fake_lt

#endif
