/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_cublaslt.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cublasLt.h>

#include "fake_cudart.h"
#include "fake_product.h"

using namespace fake_lt;

namespace
{

[[noreturn]] void __attribute__((format(printf, 1, 2))) stop(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    std::fputs("fake cuBLASLt: ", stderr);
    std::vfprintf(stderr, format, args);
    std::fputc('\n', stderr);
    va_end(args);
    std::abort();
}

int asked, multiplied, alive, last_compute;
unsigned last_epilogue;
fake_cublaslt_refusal refusal = FAKE_REFUSE_NOTHING;

/* ---- objects ---- */

template <class T> T *made(kind is)
{
    T *o = new T();

    o->is = is;
    alive++;
    return o;
}

template <class T> T *known(const void *p, kind is, const char *call)
{
    if (!p || static_cast<const object *>(p)->is != is)
        stop("%s was given something else, or what was destroyed", call);
    return static_cast<T *>(const_cast<void *>(p));
}

template <class T> cublasStatus_t destroyed(const void *p, kind is, const char *call)
{
    T *o = known<T>(p, is, call);

    o->is = kind();
    alive--;
    delete o;
    return CUBLAS_STATUS_SUCCESS;
}

template <class T> cublasStatus_t stored(T *to, const void *from, size_t bytes)
{
    if (!from || bytes != sizeof *to)
        return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(to, from, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

bool planted(const char *call, cublasStatus_t *s)
{
    int error = 0;

    if (!fake_cuda_planted(call, &error))
        return false;
    *s = static_cast<cublasStatus_t>(error);
    return true;
}

/* ---- what a call is about ---- */

/* As a number, so that an algorithm belongs to what it was asked for. */
uint64_t number_of(const call &c)
{
    uint64_t h = 14695981039346656037U;
    auto mix = [&h](uint64_t x) { h = (h ^ x) * 1099511628211U; };

    for (const layout &l : c.l) {
        mix(static_cast<uint64_t>(l.type));
        mix(static_cast<uint64_t>(l.rows));
        mix(static_cast<uint64_t>(l.columns));
        mix(static_cast<uint64_t>(l.stride));
    }
    mix(static_cast<uint64_t>(c.w.compute));
    mix(static_cast<uint64_t>(c.w.turn_a * 2 + c.w.turn_b));
    mix(c.w.epilogue);
    mix(static_cast<uint64_t>(c.w.aux_stride));
    return h;
}

call call_of(cublasLtMatmulDesc_t w, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
             cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, const char *name)
{
    call it = {*known<what>(w, WHAT, name), {}, 0};
    const void *given[] = {a, b, c, d};

    for (int i = A; i <= D; i++) {
        it.l[i] = *known<layout>(given[i], LAYOUT, name);
        if (it.l[i].stride < it.l[i].rows)
            stop("%s: columns of matrix %c overlap", name, "ABCD"[i]);
    }
    bool ta = it.w.turn_a != CUBLAS_OP_N, tb = it.w.turn_b != CUBLAS_OP_N;
    int64_t rows = ta ? it.l[A].columns : it.l[A].rows, k = ta ? it.l[A].rows : it.l[A].columns;
    int64_t columns = tb ? it.l[B].rows : it.l[B].columns;
    if (k != (tb ? it.l[B].columns : it.l[B].rows) || rows != it.l[D].rows ||
        columns != it.l[D].columns || it.l[C].rows != it.l[D].rows ||
        it.l[C].columns != it.l[D].columns || it.l[C].type != it.l[D].type)
        stop("%s: the matrices do not fit together", name);
    it.k = k;
    return it;
}

bool aligned_to(const void *p, uintptr_t bytes)
{
    return reinterpret_cast<uintptr_t>(p) % bytes == 0;
}

/* The rules of the tables of types in the manual of cublasLtMatmul(). */
bool types_served(const call &c)
{
    cudaDataType t = c.l[A].type, d = c.l[D].type;

    if (t != c.l[B].type || (d != t && d != CUDA_R_32F) || c.w.scale != CUDA_R_32F)
        return false;
    if (c.w.compute == CUBLAS_COMPUTE_32F_FAST_TF32)
        return t == CUDA_R_32F;
    return c.w.compute == CUBLAS_COMPUTE_32F;
}

bool known_epilogue(uint32_t e)
{
    return e == CUBLASLT_EPILOGUE_DEFAULT || e == CUBLASLT_EPILOGUE_BIAS ||
           e == CUBLASLT_EPILOGUE_GELU || e == CUBLASLT_EPILOGUE_GELU_BIAS ||
           e == CUBLASLT_EPILOGUE_GELU_AUX || e == CUBLASLT_EPILOGUE_GELU_AUX_BIAS ||
           e == CUBLASLT_EPILOGUE_DGELU || sums_b(e);
}

bool epilogue_served(const call &c)
{
    uint32_t e = c.w.epilogue;

    if (!known_epilogue(e))
        return false;
    if ((has_bias(e) || sums_b(e)) && !c.w.bias)
        stop("an epilogue with a bias has no address of it");
    if (has_aux(e) && !c.w.aux)
        stop("an epilogue with an auxiliary matrix has no address of it");
    if ((has_bias(e) || sums_b(e)) &&
        (!aligned_to(c.w.bias, 16) || (c.w.bias_type >= 0 && c.w.bias_type != c.l[D].type)))
        return false;
    if (has_aux(e) && c.w.aux_type >= 0 && c.w.aux_type != c.l[D].type)
        return false;
    if (has_aux(e) && (c.w.aux_stride % 8 != 0 || c.w.aux_stride < c.l[D].rows))
        stop("the leading dimension of the auxiliary matrix is none that it takes");
    return !has_aux(e) || aligned_to(c.w.aux, 16);
}

/* Halves lie on 4 bytes, and on 16 where an epilogue computes: tensor cores are fed so. */
uint32_t needed(const call &c, int matrix)
{
    uint32_t e = c.w.epilogue;

    if (c.l[matrix].type == CUDA_R_32F)
        return 4;
    return e == CUBLASLT_EPILOGUE_DEFAULT || e == CUBLASLT_EPILOGUE_BIAS ? 4 : 16;
}

bool layouts_served(const call &c, const uint32_t *aligned)
{
    for (int i = A; i <= D; i++) {
        uint32_t bytes = needed(c, i);

        if (aligned[i] < bytes || c.l[i].stride * bytes_of(c.l[i].type) % bytes != 0)
            return false;
    }
    return true;
}

bool served(const call &c, const wishes &w)
{
    if (refusal == FAKE_REFUSE_ALL || (refusal == FAKE_REFUSE_NARROW && c.l[D].columns < 1000) ||
        (refusal != FAKE_REFUSE_NOTHING && c.w.epilogue != CUBLASLT_EPILOGUE_DEFAULT))
        return false;
    return types_served(c) && epilogue_served(c) && layouts_served(c, w.aligned);
}

std::vector<algorithm> algorithms(const call &c, const wishes &w)
{
    std::vector<algorithm> all;

    if (w.schemes & CUBLASLT_REDUCTION_SCHEME_INPLACE)
        all.push_back(RACING);
    if ((w.schemes & CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE) && c.l[D].type != CUDA_R_32F)
        all.push_back(ROUNDING);
    if ((w.schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) && w.workspace >= SPLIT_WORKSPACE)
        all.push_back(TWO_HALVES);
    all.push_back(IN_ORDER);
    all.push_back(BACKWARDS);
    return all;
}

/* ---- memory ---- */

size_t extent(const layout &l)
{
    return static_cast<size_t>(((l.columns - 1) * l.stride + l.rows) * bytes_of(l.type));
}

void must_be_device(const void *p, size_t bytes, const char *name)
{
    if (!fake_cuda_is_device(p, bytes))
        stop("cublasLtMatmul: %s is not memory of the device", name);
}

void must_lie_apart(const void *p, size_t bytes, const void *q, size_t others, const char *names)
{
    const char *a = static_cast<const char *>(p), *b = static_cast<const char *>(q);

    if (a < b + others && b < a + bytes)
        stop("cublasLtMatmul: %s overlap", names);
}

void check_memory(const work &w, size_t workspace_bytes)
{
    const call &c = w.c;
    size_t d = extent(c.l[D]);
    size_t bias = static_cast<size_t>(c.l[D].rows * bytes_of(c.l[D].type));

    must_be_device(w.a, extent(c.l[A]), "A");
    must_be_device(w.b, extent(c.l[B]), "B");
    must_be_device(w.d, d, "D");
    must_lie_apart(w.a, extent(c.l[A]), w.d, d, "A and D");
    must_lie_apart(w.b, extent(c.l[B]), w.d, d, "B and D");
    if (w.beta != 0.0f)
        must_be_device(w.old, extent(c.l[C]), "C");
    if (has_bias(c.w.epilogue))
        must_be_device(c.w.bias, bias, "the bias");
    if (sums_b(c.w.epilogue)) {
        size_t sums = static_cast<size_t>(c.l[D].columns * bytes_of(c.l[D].type));

        must_be_device(c.w.bias, sums, "the gradient of the bias");
        must_lie_apart(c.w.bias, sums, w.d, d, "the gradient of the bias and D");
    }
    if (has_aux(c.w.epilogue)) {
        layout aux = c.l[D];

        aux.stride = c.w.aux_stride;
        must_be_device(c.w.aux, extent(aux), "the auxiliary matrix");
        must_lie_apart(c.w.aux, extent(aux), w.d, d, "the auxiliary matrix and D");
    }
    if (workspace_bytes > 0) {
        must_be_device(w.workspace, workspace_bytes, "the workspace");
        must_lie_apart(w.workspace, workspace_bytes, w.d, d, "the workspace and D");
    }
}

/* An algorithm as the caller holds it. */
struct held {
    uint64_t shape, how, workspace;
    uint32_t aligned[4];
};
static_assert(sizeof(held) <= sizeof(cublasLtMatmulAlgo_t), "it fits");

void check_algorithm(const held &h, const work &w, size_t workspace_bytes)
{
    const void *at[] = {w.a, w.b, w.old, w.d};

    if (h.shape != number_of(w.c))
        stop("cublasLtMatmul: the algorithm was chosen for another product");
    if (workspace_bytes < h.workspace || (h.workspace > 0 && !aligned_to(w.workspace, 256)))
        stop("cublasLtMatmul: less workspace than the algorithm needs");
    for (int i = A; i <= D; i++)
        if ((i != C || w.beta != 0.0f) && !aligned_to(at[i], h.aligned[i]))
            stop("cublasLtMatmul: matrix %c lies where the algorithm cannot take it", "ABCD"[i]);
    if (!epilogue_served(w.c))
        stop("cublasLtMatmul: bias or auxiliary matrix lie where the algorithm cannot take them");
}

} // namespace

/* ---- what trireme calls ---- */

extern "C" {

int fake_cublaslt_asked(void)
{
    return asked;
}

int fake_cublaslt_multiplied(void)
{
    return multiplied;
}

unsigned fake_cublaslt_epilogue(void)
{
    return last_epilogue;
}

int fake_cublaslt_compute(void)
{
    return last_compute;
}

int fake_cublaslt_alive(void)
{
    return alive;
}

void fake_cublaslt_refuse(enum fake_cublaslt_refusal what)
{
    refusal = what;
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

const char *cublasLtGetStatusString(cublasStatus_t s)
{
    switch (s) {
    case CUBLAS_STATUS_SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
        return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    default:
        return "another status of the fake cuBLASLt";
    }
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *to)
{
    cublasStatus_t s;

    if (planted("cublasLtCreate", &s))
        return s;
    *to = reinterpret_cast<cublasLtHandle_t>(made<handle>(HANDLE));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t h)
{
    return destroyed<handle>(h, HANDLE, "cublasLtDestroy");
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *to, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    what *w = made<what>(WHAT);

    w->compute = compute;
    w->scale = scale;
    *to = reinterpret_cast<cublasLtMatmulDesc_t>(w);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t w)
{
    return destroyed<what>(w, WHAT, "cublasLtMatmulDescDestroy");
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t which,
                                              const void *value, size_t bytes)
{
    what *w = known<what>(desc, WHAT, "cublasLtMatmulDescSetAttribute");

    switch (which) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return stored(&w->turn_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return stored(&w->turn_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return stored(&w->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return stored(&w->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return stored(&w->bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
        return stored(&w->aux, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
        return stored(&w->aux_stride, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
        return stored(&w->aux_type, value, bytes);
    default:
        stop("attribute %d of a product is none that it knows", static_cast<int>(which));
    }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *to, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t stride)
{
    layout *l;

    if (type != CUDA_R_32F && type != CUDA_R_16F && type != CUDA_R_16BF)
        stop("a layout of type %d is none that it knows", static_cast<int>(type));
    l = made<layout>(LAYOUT);
    l->type = type;
    l->rows = static_cast<int64_t>(rows);
    l->columns = static_cast<int64_t>(columns);
    l->stride = stride;
    *to = reinterpret_cast<cublasLtMatrixLayout_t>(l);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    return destroyed<layout>(l, LAYOUT, "cublasLtMatrixLayoutDestroy");
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *to)
{
    *to = reinterpret_cast<cublasLtMatmulPreference_t>(made<wishes>(WISHES));
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t w)
{
    return destroyed<wishes>(w, WISHES, "cublasLtMatmulPreferenceDestroy");
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t which,
                                                    const void *value, size_t bytes)
{
    wishes *w = known<wishes>(pref, WISHES, "cublasLtMatmulPreferenceSetAttribute");

    switch (which) {
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return stored(&w->schemes, value, bytes);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return stored(&w->workspace, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        return stored(&w->aligned[A], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        return stored(&w->aligned[B], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        return stored(&w->aligned[C], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return stored(&w->aligned[D], value, bytes);
    default:
        stop("preference %d is none that it knows", static_cast<int>(which));
    }
}

/* The second proposal is one that turned out not to run. */
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t h, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t *results, int *count)
{
    const char *name = "cublasLtMatmulAlgoGetHeuristic";
    call it = call_of(desc, a, b, c, d, name);
    const wishes &w = *known<wishes>(preference, WISHES, name);

    known<handle>(h, HANDLE, name);
    asked++;
    *count = 0;
    if (most <= 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!served(it, w))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    for (algorithm how : algorithms(it, w)) {
        held one = {number_of(it), how, how == TWO_HALVES ? uint64_t(SPLIT_WORKSPACE) : 0, {}};

        if (*count >= most)
            break;
        for (int i = A; i <= D; i++)
            one.aligned[i] = w.aligned[i] < 16 ? w.aligned[i] : 16;
        results[*count] = cublasLtMatmulHeuristicResult_t();
        std::memcpy(&results[*count].algo, &one, sizeof one);
        results[*count].workspaceSize = one.workspace;
        results[*count].state = CUBLAS_STATUS_SUCCESS;
        if (++*count == 1 && most > 1) {
            std::memset(&results[1], 0xff, sizeof results[1]);
            results[1].state = CUBLAS_STATUS_NOT_SUPPORTED;
            ++*count;
        }
    }
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t h, cublasLtMatmulDesc_t desc, const void *alpha,
                              const void *a, cublasLtMatrixLayout_t la, const void *b,
                              cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                              cublasLtMatrixLayout_t lc, void *d, cublasLtMatrixLayout_t ld,
                              const cublasLtMatmulAlgo_t *algorithm_given, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    const char *name = "cublasLtMatmul";
    work w = {call_of(desc, la, lb, lc, ld, name), a, b, c, d, 0.0f, 0.0f, workspace, IN_ORDER, 0};
    cublasStatus_t s;
    held how;

    known<handle>(h, HANDLE, name);
    if (planted(name, &s))
        return s;
    if (!algorithm_given)
        stop("cublasLtMatmul: no algorithm was given, so it would ask for one in each call");
    std::memcpy(&how, algorithm_given, sizeof how);
    std::memcpy(&w.alpha, alpha, sizeof w.alpha);
    std::memcpy(&w.beta, beta, sizeof w.beta);
    w.how = static_cast<algorithm>(how.how);
    w.turn = multiplied++;
    last_compute = w.c.w.compute;
    last_epilogue = w.c.w.epilogue;
    check_algorithm(how, w, workspace_bytes);
    check_memory(w, workspace_bytes);
    fake_cuda_enqueue(stream, name, [w] { multiply(w); });
    return CUBLAS_STATUS_SUCCESS;
}

} /* extern "C" */
