/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/cuda_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"
#include "util/text.h"

bool tr_cuda_there(void)
{
    int n = 0;
    cudaError_t error = cudaGetDeviceCount(&n);

    (void)cudaGetLastError();
    return error == cudaSuccess && n > 0;
}

/* What the list of GPUs that CUDA may see says, at most so many characters of it; "" where there is none. */
enum { LIST_SHOWN = 120 };
static const char *visible_list(void)
{
    const char *list = getenv("CUDA_VISIBLE_DEVICES");

    return list ? list : "";
}

/* GPUs that it names, by number, UUID or the name of a MIG instance. */
static int count_names(const char *list)
{
    int n = *list != '\0';

    for (; *list; list++)
        n += *list == ',';
    return n;
}

/* The driver left out all that CUDA_VISIBLE_DEVICES names. */
static enum tr_status none_visible(void)
{
    const char *list = visible_list();

    if (!*list)
        return TR_FAIL(TR_ERESOURCE,
                       "no GPU is here: CUDA_VISIBLE_DEVICES is set and empty, which hides all of "
                       "them; in Slurm ask for some with --gpus-per-node, elsewhere unset it, or "
                       "compute with --backend cpu");
    return TR_FAIL(TR_ERESOURCE,
                   "no GPU is here: CUDA_VISIBLE_DEVICES=%.*s, and the first name in it is that of "
                   "no GPU which this process may use; nvidia-smi -L shows their numbers and "
                   "UUIDs, those of MIG instances too; or compute with --backend cpu",
                   LIST_SHOWN, list);
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
    if (error == cudaErrorNoDevice && driver > 0 && getenv("CUDA_VISIBLE_DEVICES"))
        return none_visible();
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
    return there == 1 && count_names(visible_list()) == 1;
}

/* Whether the driver calls it "... MIG 1g.10gb": an instance, a part of a GPU. */
static bool is_instance(int ordinal)
{
    struct cudaDeviceProp prop;

    return cudaGetDeviceProperties(&prop, ordinal) == cudaSuccess && strstr(prop.name, " MIG ");
}

/* Why a rank sees fewer GPUs than the node has ranks, as far as its surroundings tell. */
static enum tr_status too_few(const struct tr_device_how *how, int there, int ranks)
{
    const char *list = visible_list(), *bind = how->bind;
    const int named = count_names(list);

    if (there == 1 && is_instance(0))
        return TR_FAIL(
            TR_ERESOURCE,
            "this rank sees one MIG instance, and this node has %d ranks: CUDA shows a process "
            "one instance at most, the first of CUDA_VISIBLE_DEVICES=%.*s; give each rank one of "
            "its own (in Slurm --gpus-per-task=1), or let all share this one with "
            "--gpu-oversubscribe, which is slow",
            ranks, LIST_SHOWN, list);
    if (named > there)
        return TR_FAIL(
            TR_ERESOURCE,
            "CUDA_VISIBLE_DEVICES=%.*s names %d GPUs for %d ranks, and the driver shows %d: it "
            "leaves out the first name that is no GPU which this process may use, and all after "
            "it; nvidia-smi -L shows their numbers and UUIDs",
            LIST_SHOWN, list, named, ranks, there);
    if (how->given > there)
        return TR_FAIL(
            TR_ERESOURCE,
            "this rank sees %d of the %d GPUs that the job has on this node, and the node has %d "
            "ranks: ranks are bound to GPUs with %s%s, so start them with --gpu-bind=none "
            "and without --gpus-per-task, and rank r takes GPU r",
            there, how->given, ranks, bind ? "--gpu-bind=" : "--gpu-bind or --gpus-per-task",
            bind ? bind : "");
    if (named > 0 && how->given == 0)
        return TR_FAIL(
            TR_ERESOURCE,
            "CUDA_VISIBLE_DEVICES=%.*s shows %d GPU%s for %d ranks, and each takes one "
            "of its own: name more there, start fewer ranks, or let them share GPUs with "
            "--gpu-oversubscribe, which is slow",
            LIST_SHOWN, list, there, tr_plural(there), ranks);
    return TR_FAIL(
        TR_ERESOURCE,
        "this node has %d GPU%s for %d ranks, and each takes one of its own: start fewer "
        "(in Slurm --ntasks-per-node=%d), ask for more (--gpus-per-node=%d), or let "
        "ranks share them with --gpu-oversubscribe, which is slow",
        there, tr_plural(there), ranks, there, ranks);
}

static enum tr_status choose(const struct tr_device_how *how, int there, int *out)
{
    const int ranks = how->local_size > 0 ? how->local_size : 1;

    *out = how->local_rank % there;
    if (how->share || ranks <= there || is_given_one(there))
        return TR_OK;
    return too_few(how, there, ranks);
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

/* NCCL knows a GPU by its place on the bus, which instances have in common. */
static void warn_of_instances(const struct tr_device_how *how, const char *name)
{
    if (how->local_rank == 0 && how->local_size > 1 && !how->share && strstr(name, " MIG "))
        tr_log(TR_LOG_WARNING,
               "this node's ranks compute on MIG instances (%s), and NCCL takes instances of one "
               "GPU for the same GPU twice and refuses them: let ranks be on one GPU with "
               "--gpu-oversubscribe, or ask for whole GPUs",
               name);
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
    warn_of_instances(how, g->name);
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
