/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/cuda_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/text.h"

bool tr_cuda_there(void)
{
    int n = 0;
    cudaError_t error = cudaGetDeviceCount(&n);

    (void)cudaGetLastError();
    return error == cudaSuccess && n > 0;
}

static enum tr_status no_gpu(cudaError_t error)
{
    int runtime = 0, driver = 0;

    (void)cudaGetLastError();
    (void)cudaRuntimeGetVersion(&runtime);
    (void)cudaDriverGetVersion(&driver);
    if (error == cudaErrorInsufficientDriver && driver > 0)
        return TR_FAIL(
            TR_ERESOURCE,
            "no GPU can be used: the driver of this node is for CUDA %d.%d, and this trireme "
            "was built with %d.%d: build it with an older CUDA, or compute with "
            "--backend cpu",
            driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (error == cudaErrorInsufficientDriver || error == cudaErrorNoDevice)
        return TR_FAIL(TR_ERESOURCE,
                       "no GPU is here: %s; start the job on nodes that have GPUs (in Slurm with "
                       "--gpus-per-node), look at CUDA_VISIBLE_DEVICES, or compute with "
                       "--backend cpu",
                       driver == 0 ? "this node has no driver of NVIDIA" : "the driver shows none");
    return TR_FAIL(TR_ERESOURCE,
                   "no GPU can be used: the driver says %s (%s); nvidia-smi may say more, and "
                   "--backend cpu computes without one",
                   cudaGetErrorName(error), cudaGetErrorString(error));
}

/* Launchers that give each rank a GPU of its own say so by showing it that one alone.  Two ranks that
   were given the same one are found when they begin to talk (comm/nccl.h). */
static bool is_given_one(int there)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");

    return there == 1 && visible && *visible && !strchr(visible, ',');
}

static enum tr_status choose(const struct tr_device_how *how, int there, int *out)
{
    const int ranks = how->local_size > 0 ? how->local_size : 1;

    *out = how->local_rank % there;
    if (how->share || ranks == there || is_given_one(there))
        return TR_OK;
    if (ranks > there)
        return TR_FAIL(
            TR_ERESOURCE,
            "this node has %d GPU%s for %d ranks, and each takes one of its own: start fewer "
            "(in Slurm --ntasks-per-node=%d), ask for more (--gpus-per-node=%d), or let "
            "ranks share them with --gpu-oversubscribe, which is slow",
            there, tr_plural(there), ranks, there, ranks);
    return TR_OK;
}

void tr_cuda_list(struct tr_gpus *out)
{
    if (cudaGetDeviceCount(&out->count) != cudaSuccess)
        out->count = 0;
    for (int i = 0; i < out->count; i++) {
        struct cudaDeviceProp prop;

        if (cudaGetDeviceProperties(&prop, i) != cudaSuccess)
            continue;
        if (!out->name[0])
            snprintf(out->name, sizeof out->name, "%.63s", prop.name);
        if (out->bytes == 0 || (int64_t)prop.totalGlobalMem < out->bytes)
            out->bytes = (int64_t)prop.totalGlobalMem;
    }
    (void)cudaGetLastError();
}

/* As nvidia-smi writes it. */
static void write_uuid(const cudaUUID_t *u, char *out, size_t size)
{
    const unsigned char *b = (const unsigned char *)u->bytes;
    size_t n = (size_t)snprintf(out, size, "GPU-");

    for (int i = 0; i < 16; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%02x",
                              i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", b[i]);
}

enum tr_status tr_cuda_find(const struct tr_device_how *how, struct tr_cuda *g, size_t *bytes)
{
    struct cudaDeviceProp prop;
    int there = 0;
    cudaError_t error = cudaGetDeviceCount(&there);

    if (error != cudaSuccess || there == 0)
        return no_gpu(error == cudaSuccess ? cudaErrorNoDevice : error);
    TR_TRY(choose(how, there, &g->ordinal));
    error = cudaGetDeviceProperties(&prop, g->ordinal);
    if (error != cudaSuccess)
        return TR_FAIL(TR_ERESOURCE,
                       "GPU %d of %d does not say what it is (%s): see nvidia-smi, or leave it out "
                       "with CUDA_VISIBLE_DEVICES",
                       g->ordinal, there, cudaGetErrorString(error));
    g->arch = 10 * prop.major + prop.minor;
    g->processors = prop.multiProcessorCount;
    g->shared = prop.sharedMemPerBlockOptin;
    snprintf(g->name, sizeof g->name, "%.63s", prop.name);
    write_uuid(&prop.uuid, g->uuid, sizeof g->uuid);
    *bytes = prop.totalGlobalMem;
    return TR_OK;
}

enum tr_status tr_cuda_find_code(struct tr_cuda *g)
{
    struct cudaFuncAttributes of;
    cudaError_t error = cudaFuncGetAttributes(&of, tr_cuda_any_kernel());

    (void)cudaGetLastError();
    if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction)
        return TR_FAIL(TR_ERESOURCE,
                       "GPU %d (%s) is sm_%d, and this trireme has code for sm_" TR_CUDA_ARCHS
                       " and what is newer: configure it with --with-cuda-arch=%d,..., or compute "
                       "with --backend cpu",
                       g->ordinal, g->name, g->arch, g->arch);
    if (error == cudaErrorUnsupportedPtxVersion)
        return TR_FAIL(TR_ERESOURCE,
                       "GPU %d (%s) is sm_%d, this trireme has code for sm_" TR_CUDA_ARCHS
                       ", and the driver is too old to compile that of the last for a newer GPU: "
                       "configure it with --with-cuda-arch=%d,..., or take a newer driver",
                       g->ordinal, g->name, g->arch, g->arch);
    if (error != cudaSuccess)
        return TR_FAIL(TR_ERESOURCE,
                       "GPU %d (%s, %s) does not take the kernels of this trireme: %s (%s); "
                       "nvidia-smi shows who else uses it and how it is",
                       g->ordinal, g->name, g->uuid, cudaGetErrorName(error),
                       cudaGetErrorString(error));
    g->code = of.ptxVersion;
    return TR_OK;
}
