/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/cuda_product.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/cuda_dense.h"
#include "device/cuda/cuda_libs.h"
#include "util/log.h"

#define uthash_fatal(text) tr_die(TR_ERESOURCE, "no memory left for GEMMs: %s", (text))
#include <uthash.h>

/*
 * cuBLASLt counts in columns: what lies in memory as c[m,n] is its matrix of n rows and m columns, so
 * its A is our b and its B our a, and a bias along our columns is one along its rows.
 */
enum {
    PROPOSALS = 8,   /* asked for and timed */
    TIMED_CALLS = 3, /* after one that warms up */
    WORKSPACE = 32 << 20,
    WORKSPACE_SM90 = 64 << 20,
    MOST_ALIGNED = 256, /* bytes; no algorithm asks for more */
    WIDE = 16,          /* bytes: what epilogues want of every address */
    AUX_COLUMNS = 8     /* and of the rows of aux they want a multiple of this */
};

/* What an algorithm is chosen for; padding is zero, as it is compared as bytes. */
struct key {
    int64_t m, n, k, a_stride, b_stride;
    uint32_t epilogue;
    uint8_t a_turned, b_turned, factor_type, c_type;
    uint16_t aligned[5]; /* bytes: a, b, c, bias, aux */
    uint16_t none;
};

/* One shape with all that a call needs. */
struct plan {
    struct key key;
    bool served;
    cublasLtMatmulDesc_t what;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulAlgo_t algorithm;
    UT_hash_handle hh;
};

struct tr_cuda_product {
    struct tr_cuda *gpu;
    bool tune;
    cublasLtHandle_t handle;
    cublasLtMatmulPreference_t wishes;
    void *workspace; /* of the compute stream */
    size_t workspace_bytes;
    cudaEvent_t before[PROPOSALS], after[PROPOSALS];
    struct plan *plans;
};

/* ---- opening and closing ---- */

static void must(const struct tr_cuda *g, cublasStatus_t s, const char *call)
{
    if (s != CUBLAS_STATUS_SUCCESS)
        tr_cuda_die(g, call, tr_cublas.cublasLtGetStatusString(s));
}

/* The same for a call about one product. */
static void must_for(const struct tr_cuda *g, cublasStatus_t s, const char *call,
                     const struct key *k)
{
    char text[160];

    if (s == CUBLAS_STATUS_SUCCESS)
        return;
    snprintf(text, sizeof text, "%s of [%lld,%lld] times [%lld,%lld] in %s, epilogue %u", call,
             (long long)k->m, (long long)k->k, (long long)k->k, (long long)k->n,
             tr_dtype_name((enum tr_dtype)k->factor_type), (unsigned)k->epilogue);
    tr_cuda_die(g, text, tr_cublas.cublasLtGetStatusString(s));
}

/* The handle and the workspace; both or none. */
static enum tr_status start(struct tr_cuda_product *p)
{
    const char *name = p->gpu->name;
    cublasStatus_t s = tr_cublas.cublasLtCreate(&p->handle);
    cudaError_t e;

    if (s != CUBLAS_STATUS_SUCCESS)
        return TR_FAIL(TR_ERESOURCE,
                       "cuBLASLt does not start on %s: %s; its version must be one for the driver "
                       "of this node, which nvidia-smi shows",
                       name, tr_cublas.cublasLtGetStatusString(s));
    e = cudaMalloc(&p->workspace, p->workspace_bytes);
    if (e == cudaSuccess)
        return TR_OK;
    (void)cudaGetLastError(); /* it is told here, and must not be told again elsewhere */
    must(p->gpu, tr_cublas.cublasLtDestroy(p->handle), "cublasLtDestroy");
    return TR_FAIL(TR_ERESOURCE,
                   "no %zu MiB on %s for the workspace of GEMMs: %s; nvidia-smi shows who holds "
                   "its memory",
                   p->workspace_bytes >> 20, name, cudaGetErrorString(e));
}

enum tr_status tr_cuda_product_open(struct tr_cuda *g, bool tune, struct tr_cuda_product **out)
{
    struct tr_cuda_product *p;
    enum tr_status s;

    *out = NULL;
    TR_TRY(tr_cublas_open());
    p = calloc(1, sizeof *p);
    if (!p)
        return TR_FAIL(TR_ERESOURCE, "no memory left for the GEMMs of the GPU");
    p->gpu = g;
    p->tune = tune;
    p->workspace_bytes = g->arch >= 90 ? WORKSPACE_SM90 : WORKSPACE;
    s = start(p);
    if (s != TR_OK) {
        free(p);
        return s;
    }
    must(g, tr_cublas.cublasLtMatmulPreferenceCreate(&p->wishes), "cublasLtMatmulPreferenceCreate");
    for (int i = 0; i < PROPOSALS; i++) {
        tr_cuda_must(g, cudaEventCreate(&p->before[i]), "cudaEventCreate");
        tr_cuda_must(g, cudaEventCreate(&p->after[i]), "cudaEventCreate");
    }
    *out = p;
    return TR_OK;
}

static void forget(struct tr_cuda_product *p, struct plan *plan)
{
    const struct tr_cuda *g = p->gpu;

    must(g, tr_cublas.cublasLtMatmulDescDestroy(plan->what), "cublasLtMatmulDescDestroy");
    must(g, tr_cublas.cublasLtMatrixLayoutDestroy(plan->a), "cublasLtMatrixLayoutDestroy");
    must(g, tr_cublas.cublasLtMatrixLayoutDestroy(plan->b), "cublasLtMatrixLayoutDestroy");
    must(g, tr_cublas.cublasLtMatrixLayoutDestroy(plan->c), "cublasLtMatrixLayoutDestroy");
    HASH_DEL(p->plans, plan);
    free(plan);
}

void tr_cuda_product_close(struct tr_cuda_product *p)
{
    struct plan *plan, *next;

    if (!p)
        return;
    HASH_ITER(hh, p->plans, plan, next)
    forget(p, plan);
    for (int i = 0; i < PROPOSALS; i++) {
        tr_cuda_must(p->gpu, cudaEventDestroy(p->before[i]), "cudaEventDestroy");
        tr_cuda_must(p->gpu, cudaEventDestroy(p->after[i]), "cudaEventDestroy");
    }
    must(p->gpu, tr_cublas.cublasLtMatmulPreferenceDestroy(p->wishes),
         "cublasLtMatmulPreferenceDestroy");
    tr_cuda_must(p->gpu, cudaFree(p->workspace), "cudaFree");
    must(p->gpu, tr_cublas.cublasLtDestroy(p->handle), "cublasLtDestroy");
    free(p);
}

/* ---- what one call can do ---- */

static uint16_t aligned(const void *p)
{
    uintptr_t a = (uintptr_t)p | MOST_ALIGNED;

    return (uint16_t)(a & -a);
}

static bool half(enum tr_dtype t)
{
    return t == TR_F16 || t == TR_BF16;
}

/* Whether an operand can take part in an epilogue: of c's type, which is what cuBLASLt takes it for, and
   such that 16 bytes can be moved at a time. */
static bool fits(const struct tr_tensor *t, const struct tr_cuda_finish *f)
{
    return !t || (t->dtype == f->c->dtype && aligned(t->data) >= WIDE);
}

/* cuBLASLt's epilogues for an activation: alone, with what it is of kept, and its derivative; 0 where it
   has none.  Of ReLU it keeps a bit mask, which is not what ops.def does. */
static const struct {
    uint32_t forward, keeping, backward;
} epilogues[TR_ACTS] = {
    [TR_ACT_GELU_TANH] = {CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_AUX,
                          CUBLASLT_EPILOGUE_DGELU},
};

bool tr_cuda_matmul_knows(enum tr_act act)
{
    return epilogues[act].forward != 0;
}

/*
 * The epilogue that finishes the sums, or 0 when there is none.  An activation in it is for halves alone:
 * its tanh may be the approximation of the special function unit, whose error halves do not show and
 * fp32 does.
 */
static uint32_t epilogue_of(const struct tr_cuda_dense *d)
{
    const struct tr_cuda_finish *f = &d->finish;
    uint32_t e = 0;

    if (!fits(f->bias, f) || !fits(f->pre, f) || !fits(f->slope_of, f) || !fits(f->rows, f))
        return 0;
    if (f->rows)
        return CUBLASLT_EPILOGUE_BGRADB;
    if (f->act == TR_ACT_NONE) {
        if (f->pre || f->slope_of)
            return 0;
        return f->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    }
    if (!half(f->c->dtype) || f->add || d->n % AUX_COLUMNS != 0)
        return 0;
    if (f->slope_of)
        return f->bias || f->pre ? 0 : epilogues[f->act].backward;
    e = f->pre ? epilogues[f->act].keeping : epilogues[f->act].forward;
    return f->bias && e ? e | CUBLASLT_EPILOGUE_BIAS : e;
}

static const struct tr_tensor *aux_of(const struct tr_cuda_finish *f)
{
    return f->pre ? f->pre : f->slope_of;
}

/* What the epilogue reads as a bias, or writes as the gradient of one. */
static const struct tr_tensor *bias_of(const struct tr_cuda_finish *f)
{
    return f->rows ? f->rows : f->bias;
}

/* False when no algorithm can be for it. */
static bool make_key(struct key *key, const struct tr_cuda_dense *d)
{
    const struct tr_cuda_finish *f = &d->finish;
    const struct tr_tensor *aux = aux_of(f), *bias = bias_of(f);

    memset(key, 0, sizeof *key);
    key->m = d->m;
    key->n = d->n;
    key->k = d->k;
    key->a_stride = d->a.stride;
    key->b_stride = d->b.stride;
    key->a_turned = d->a.turned;
    key->b_turned = d->b.turned;
    key->factor_type = (uint8_t)d->a.type;
    key->c_type = (uint8_t)f->c->dtype;
    key->aligned[0] = aligned(d->a.p);
    key->aligned[1] = aligned(d->b.p);
    key->aligned[2] = aligned(f->c->data);
    key->aligned[3] = bias ? aligned(bias->data) : 0;
    key->aligned[4] = aux ? aligned(aux->data) : 0;
    key->epilogue = epilogue_of(d);
    return key->epilogue != 0 && d->a.type == d->b.type &&
           (f->c->dtype == d->a.type || f->c->dtype == TR_F32);
}

/* ---- a plan ---- */

static cudaDataType_t type_of(int t)
{
    return t == TR_F16 ? CUDA_R_16F : t == TR_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static void set(const struct tr_cuda *g, struct plan *p, cublasLtMatmulDescAttributes_t which,
                const void *value, size_t bytes)
{
    must_for(g, tr_cublas.cublasLtMatmulDescSetAttribute(p->what, which, value, bytes),
             "cublasLtMatmulDescSetAttribute", &p->key);
}

/* The addresses of this call's bias and aux.  They are set before the choice, too, which looks at how
   they are aligned. */
static void point(const struct tr_cuda *g, struct plan *p, const struct tr_cuda_finish *f)
{
    const struct tr_tensor *aux = aux_of(f), *bias = bias_of(f);

    if (bias)
        set(g, p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias->data, sizeof bias->data);
    if (aux)
        set(g, p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &aux->data, sizeof aux->data);
}

static cublasLtMatrixLayout_t layout(const struct tr_cuda *g, const struct plan *p, int type,
                                     int64_t rows, int64_t columns, int64_t stride)
{
    cublasLtMatrixLayout_t made;

    must_for(g,
             tr_cublas.cublasLtMatrixLayoutCreate(&made, type_of(type), (uint64_t)rows,
                                                  (uint64_t)columns, stride),
             "cublasLtMatrixLayoutCreate", &p->key);
    return made;
}

/* Types of bias and aux are left at their default, which is c's. */
static void describe(const struct tr_cuda *g, struct plan *p, const struct tr_cuda_dense *d)
{
    const struct key *k = &p->key;
    bool tf32 = g->tf32 && k->factor_type == TR_F32;
    cublasComputeType_t compute = tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    int32_t turn_a = k->b_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    int32_t turn_b = k->a_turned ? CUBLAS_OP_T : CUBLAS_OP_N;

    must_for(g, tr_cublas.cublasLtMatmulDescCreate(&p->what, compute, CUDA_R_32F),
             "cublasLtMatmulDescCreate", k);
    set(g, p, CUBLASLT_MATMUL_DESC_TRANSA, &turn_a, sizeof turn_a);
    set(g, p, CUBLASLT_MATMUL_DESC_TRANSB, &turn_b, sizeof turn_b);
    set(g, p, CUBLASLT_MATMUL_DESC_EPILOGUE, &k->epilogue, sizeof k->epilogue);
    if (aux_of(&d->finish))
        set(g, p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &k->n, sizeof k->n);
    point(g, p, &d->finish);
    p->a = layout(g, p, k->factor_type, k->b_turned ? k->k : k->n, k->b_turned ? k->n : k->k,
                  k->b_stride);
    p->b = layout(g, p, k->factor_type, k->a_turned ? k->m : k->k, k->a_turned ? k->k : k->m,
                  k->a_stride);
    p->c = layout(g, p, k->c_type, k->n, k->m, k->n);
}

static void wish(struct tr_cuda_product *p, cublasLtMatmulPreferenceAttributes_t which,
                 const void *value, size_t bytes)
{
    must(p->gpu, tr_cublas.cublasLtMatmulPreferenceSetAttribute(p->wishes, which, value, bytes),
         "cublasLtMatmulPreferenceSetAttribute");
}

static void wish_aligned(struct tr_cuda_product *p, cublasLtMatmulPreferenceAttributes_t which,
                         uint32_t bytes)
{
    wish(p, which, &bytes, sizeof bytes);
}

/*
 * Up to PROPOSALS algorithms, best first by its estimate; returns how many, 0 when it serves no such
 * product.  Where k is split the pieces are summed in a step of their own: in c itself (INPLACE) the order
 * would follow from who comes first; and pieces in c's type (OUTPUT_TYPE) would round halves twice.
 */
static int propose(struct tr_cuda_product *p, struct plan *plan,
                   cublasLtMatmulHeuristicResult_t *found)
{
    const struct key *k = &plan->key;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint64_t workspace = p->workspace_bytes;
    int count = 0, good = 0;
    cublasStatus_t s;

    wish(p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes);
    wish(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
    wish_aligned(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, k->aligned[1]);
    wish_aligned(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, k->aligned[0]);
    wish_aligned(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, k->aligned[2]);
    wish_aligned(p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, k->aligned[2]);
    s = tr_cublas.cublasLtMatmulAlgoGetHeuristic(p->handle, plan->what, plan->a, plan->b, plan->c,
                                                 plan->c, p->wishes, PROPOSALS, found, &count);
    if (s == CUBLAS_STATUS_NOT_SUPPORTED || s == CUBLAS_STATUS_ARCH_MISMATCH ||
        s == CUBLAS_STATUS_INVALID_VALUE)
        return 0;
    must_for(p->gpu, s, "cublasLtMatmulAlgoGetHeuristic", k);
    for (int i = 0; i < count; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS)
            found[good++] = found[i];
    return good;
}

static cublasStatus_t call(const struct tr_cuda_product *p, const struct plan *plan,
                           const cublasLtMatmulAlgo_t *algorithm, const struct tr_cuda_dense *d,
                           void *to)
{
    float alpha = 1.0f, beta = d->finish.add ? 1.0f : 0.0f;

    tr_cuda_pace(p->gpu, &p->gpu->pace, TR_CUDA_LAUNCHES_PRODUCT);
    return tr_cublas.cublasLtMatmul(p->handle, plan->what, &alpha, d->b.p, plan->a, d->a.p, plan->b,
                                    &beta, d->finish.c->data, plan->c, to, plan->c, algorithm,
                                    p->workspace, p->workspace_bytes, p->gpu->compute);
}

/* ---- tuning ---- */

/* Where a product may go that is only timed, or NULL.  What is overwritten in the end may be
   overwritten before. */
static void *aside(const struct tr_cuda_dense *d)
{
    if (!d->finish.add)
        return d->finish.c->data;
    return (size_t)tr_tensor_bytes(d->finish.c) <= d->spare_bytes ? d->spare : NULL;
}

/* Queue the timing of one proposal; false when it does not run. */
static bool queue_timed(struct tr_cuda_product *p, const struct plan *plan,
                        const cublasLtMatmulAlgo_t *algorithm, const struct tr_cuda_dense *d, int i)
{
    cudaStream_t s = p->gpu->compute;
    void *to = aside(d);

    if (call(p, plan, algorithm, d, to) != CUBLAS_STATUS_SUCCESS)
        return false;
    tr_cuda_must(p->gpu, cudaEventRecord(p->before[i], s), "cudaEventRecord");
    for (int n = 0; n < TIMED_CALLS; n++)
        must_for(p->gpu, call(p, plan, algorithm, d, to), "cublasLtMatmul", &plan->key);
    tr_cuda_must(p->gpu, cudaEventRecord(p->after[i], s), "cudaEventRecord");
    return true;
}

/* The number of the fastest. */
static int fastest(struct tr_cuda_product *p, const struct plan *plan,
                   const cublasLtMatmulHeuristicResult_t *found, int count,
                   const struct tr_cuda_dense *d)
{
    bool timed[PROPOSALS] = {false};
    float least = 0.0f, ms;
    int best = -1;

    for (int i = 0; i < count; i++)
        timed[i] = queue_timed(p, plan, &found[i].algo, d, i);
    tr_cuda_wait_stream(p->gpu, p->gpu->compute);
    for (int i = 0; i < count; i++) {
        if (!timed[i])
            continue;
        tr_cuda_must(p->gpu, cudaEventElapsedTime(&ms, p->before[i], p->after[i]),
                     "cudaEventElapsedTime");
        if (best < 0 || ms < least) {
            best = i;
            least = ms;
        }
    }
    if (best >= 0)
        tr_log(TR_LOG_DEBUG,
               "a GEMM [%lld,%lld] times [%lld,%lld], epilogue %u: proposal %d of %d, %.1f us",
               (long long)d->m, (long long)d->k, (long long)d->k, (long long)d->n,
               (unsigned)plan->key.epilogue, best + 1, count,
               1e3 * (double)least / (double)TIMED_CALLS);
    return best < 0 ? 0 : best;
}

/* ---- choosing and multiplying ---- */

static struct plan *new_plan(struct tr_cuda_product *p, const struct key *key,
                             const struct tr_cuda_dense *d)
{
    cublasLtMatmulHeuristicResult_t found[PROPOSALS];
    struct plan *plan = calloc(1, sizeof *plan);
    int count, best = 0;

    if (!plan)
        tr_die(TR_ERESOURCE, "no memory left for the GEMMs of the GPU");
    plan->key = *key;
    HASH_ADD(hh, p->plans, key, sizeof plan->key, plan);
    describe(p->gpu, plan, d);
    count = propose(p, plan, found);
    plan->served = count > 0;
    if (!plan->served)
        tr_log(TR_LOG_DEBUG, "cuBLASLt does not serve [%lld,%lld] times [%lld,%lld], epilogue %u",
               (long long)d->m, (long long)d->k, (long long)d->k, (long long)d->n,
               (unsigned)key->epilogue);
    if (p->tune && count > 1 && aside(d))
        best = fastest(p, plan, found, count, d);
    if (plan->served)
        plan->algorithm = found[best].algo;
    return plan;
}

bool tr_cuda_matmul(struct tr_queue *q, const struct tr_cuda_dense *d)
{
    struct tr_cuda *g = tr_cuda_of(q->device);
    struct tr_cuda_product *p = g->product;
    struct plan *plan;
    struct key key;

    if (!make_key(&key, d))
        return false;
    HASH_FIND(hh, p->plans, &key, sizeof key, plan);
    if (!plan)
        plan = new_plan(p, &key, d);
    if (!plan->served)
        return false;
    point(g, plan, &d->finish);
    must_for(g, call(p, plan, &plan->algorithm, d, d->finish.c->data), "cublasLtMatmul", &key);
    return true;
}
