/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/device.h"

#include <string.h>

#include "device/cpu/cpu.h"
#ifdef HAVE_CUDA
#include "device/cuda/cuda.h"
#endif
#include "device/ref/ref.h"

static const struct tr_backend *const all[] = {
#ifdef HAVE_CUDA
    &tr_cuda,
#endif
    &tr_cpu, &tr_ref, NULL};

const struct tr_backend *const *tr_backends(void)
{
#ifdef HAVE_CUDA
    if (!tr_cuda_there())
        return all + 1;
#endif
    return all;
}

const struct tr_backend *tr_backend_find(const char *name)
{
    if (strcmp(name, "auto") == 0)
        return tr_backends()[0];
    for (int i = 0; all[i]; i++)
        if (strcmp(name, all[i]->name) == 0)
            return all[i];
    return NULL;
}

const struct tr_backend *tr_backend_host(void)
{
    return &tr_cpu;
}

const char *tr_backend_missing(const struct tr_backend *b)
{
#define OP(name, tol, params) \
    if (!b->name)             \
        return #name;
#include "device/ops.def"
#undef OP
    return NULL;
}
