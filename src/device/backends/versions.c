/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/backends/versions.h"

#include <stdio.h>
#include <string.h>

#include "device/cpu/cpu_dnnl.h"
#ifdef HAVE_CUDA
#include "device/cuda/cuda_libs.h"
#endif

static struct tr_version *add(struct tr_version *out, int max, int *count, const char *name)
{
    static struct tr_version spare;
    struct tr_version *v = *count < max ? &out[*count] : &spare;

    memset(v, 0, sizeof *v);
    v->name = name;
    *count += *count < max;
    return v;
}

#ifdef HAVE_CUDA
#define GIVE(text, ...) snprintf(text, sizeof text, __VA_ARGS__)
static const char absent[] = "not to be opened here";

static void add_cuda(struct tr_version *out, int max, int *count)
{
    struct tr_version *v = add(out, max, count, "CUDA");
    int driver = 0;

    GIVE(v->built, "%d.%d for sm_" TR_CUDA_ARCHS, CUDART_VERSION / 1000,
         CUDART_VERSION % 1000 / 10);
    (void)cudaDriverGetVersion(&driver);
    (void)cudaGetLastError();
    if (driver > 0)
        GIVE(v->here, "a driver for %d.%d", driver / 1000, driver % 1000 / 10);
    else
        GIVE(v->here, "no driver");

    v = add(out, max, count, "cuBLAS");
    GIVE(v->built, "%d.%d.%d", CUBLAS_VER_MAJOR, CUBLAS_VER_MINOR, CUBLAS_VER_PATCH);
    if (tr_cublas_open() == TR_OK) {
        const long n = (long)tr_cublas.cublasLtGetVersion();

        GIVE(v->here, "%ld.%ld.%ld", n / 10000, n / 100 % 100, n % 100);
    } else {
        GIVE(v->here, "%s", absent);
    }
}

#ifdef HAVE_NCCL
static void add_nccl(struct tr_version *out, int max, int *count)
{
    struct tr_version *v = add(out, max, count, "NCCL");
    int n = 0;

    GIVE(v->built, "%d.%d.%d", NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH);
    if (tr_nccl_open() == TR_OK && tr_nccl.ncclGetVersion(&n) == ncclSuccess)
        GIVE(v->here, "%d.%d.%d", n / 10000, n / 100 % 100, n % 100);
    else
        GIVE(v->here, "%s", absent);
}
#endif

#ifdef HAVE_CUDNN
static void add_cudnn(struct tr_version *out, int max, int *count)
{
    struct tr_version *v = add(out, max, count, "cuDNN");

    GIVE(v->built, "%d.%d.%d", CUDNN_MAJOR, CUDNN_MINOR, CUDNN_PATCHLEVEL);
    if (tr_cudnn_open() == TR_OK) {
        const int n = (int)tr_cudnn.cudnnGetVersion();

        GIVE(v->here, "%d.%d.%d", n / 10000, n / 100 % 100, n % 100);
    } else {
        GIVE(v->here, "%s", absent);
    }
}
#endif
#undef GIVE
#endif

int tr_device_versions(struct tr_version *out, int max)
{
    int count = 0;
    struct tr_version *v = add(out, max, &count, "oneDNN");

    tr_dnnl_versions(v->built, sizeof v->built, v->here, sizeof v->here);
    if (!v->built[0])
        count--;
#ifdef HAVE_CUDA
    add_cuda(out, max, &count);
#ifdef HAVE_NCCL
    add_nccl(out, max, &count);
#endif
#ifdef HAVE_CUDNN
    add_cudnn(out, max, &count);
#endif
#endif
    return count;
}
