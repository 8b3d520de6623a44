/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/device.h"

#include <string.h>

#include "device/cpu.h"
#ifdef HAVE_CUDA
#include "device/cuda.h"
#endif
#include "device/ref.h"

const struct tr_backend *const *tr_backends(void)
{
    static const struct tr_backend *const all[] = {
#ifdef HAVE_CUDA
        &tr_cuda,
#endif
        &tr_cpu, &tr_ref, NULL};

    return all;
}

/* A GPU where there is one. */
static const struct tr_backend *best(void)
{
#ifdef HAVE_CUDA
    if (tr_cuda_there())
        return &tr_cuda;
#endif
    return &tr_cpu;
}

const struct tr_backend *tr_backend_find(const char *name)
{
    const struct tr_backend *const *all = tr_backends();

    if (strcmp(name, "auto") == 0)
        return best();
    for (int i = 0; all[i]; i++)
        if (strcmp(name, all[i]->name) == 0)
            return all[i];
    return NULL;
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
