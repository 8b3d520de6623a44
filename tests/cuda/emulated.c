/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/cuda_attention.h"
#include "device/cuda/cuda_dense.h"
#include "device/cuda/cuda_kernel.h"
#include "device/host.h"
#include "device/ref/ref.h"

#include <stdlib.h>
#include <string.h>

/*
 * The kernels of the cuda backend as a backend of their own, with nothing of CUDA around them:
 * they are emulated (kernels/emulate.h), and memory of the device is memory of the host.  A
 * program linked with this file and some kernels finds it in tr_backends() instead of cpu;
 * operations whose kernels are not linked are NULL.
 *
 * What must not matter differs from call to call: which architecture it is and, in scratch,
 * what was there.  Scratch ends where the kernel said it would.
 */
#define OP(name, tol, params) \
    extern __typeof__(tr_cuda_##name) tr_cuda_##name __attribute__((weak));
#include "device/ops.def"
#undef OP
extern __typeof__(tr_cuda_attention_relative) tr_cuda_attention_relative __attribute__((weak));
extern __typeof__(tr_cuda_attention_relative_bwd) tr_cuda_attention_relative_bwd
    __attribute__((weak));
extern __typeof__(tr_cuda_adam8) tr_cuda_adam8 __attribute__((weak));
extern __typeof__(tr_cuda_activate) tr_cuda_activate __attribute__((weak));
extern __typeof__(tr_cuda_activate_bwd) tr_cuda_activate_bwd __attribute__((weak));

size_t trk_emulated_shared(int arch); /* kernels/emulate.h, which is C++ */

static void *scratch;
static int calls;

void *tr_cuda_scratch(const struct tr_queue *q, size_t bytes)
{
    (void)q;
    TR_ASSERT(bytes <= TR_CUDA_SCRATCH_BYTES);
    free(scratch);
    TR_ASSERT(posix_memalign(&scratch, 256, bytes) == 0);
    memset(scratch, 0xff, bytes);
    return scratch;
}

void *tr_cuda_stream(const struct tr_queue *q)
{
    (void)q;
    return NULL;
}

int tr_cuda_arch(const struct tr_queue *q)
{
    static const int known[] = {75, 80, 90};

    (void)q;
    return known[calls++ % 3];
}

size_t tr_cuda_shared(const struct tr_queue *q)
{
    (void)q;
    return trk_emulated_shared(90);
}

static void close_emulated(struct tr_device *d)
{
    free(scratch);
    scratch = NULL;
    tr_host_close(d);
}

static const char *describe(const struct tr_device *d)
{
    (void)d;
    return "emulated kernels";
}

static const char *kernels_of(const struct tr_device *d, enum tr_dtype type)
{
    (void)type;
    return describe(d);
}

static const struct tr_backend kernels = {
    .name = "kernels",
    .apart = true,
    .open = tr_host_open,
    .close = close_emulated,
    .threads = tr_host_threads,
    .describe = describe,
    .kernels = kernels_of,
    .reserve = tr_host_reserve,
    .reserve_host = tr_host_reserve_host,
    .used = tr_host_used,
    .move = tr_host_move,
    .moved = tr_host_moved,
    .after = tr_host_moved,
    .wait = tr_host_wait,
    .upload = tr_host_upload,
    .download = tr_host_download,
    .mark = tr_host_mark,
    .between = tr_host_between,
    .range = tr_host_range,
    .record = tr_host_record,
    .attention_relative = tr_cuda_attention_relative,
    .attention_relative_bwd = tr_cuda_attention_relative_bwd,
    .adam8 = tr_cuda_adam8,
    .activate = tr_cuda_activate,
    .activate_bwd = tr_cuda_activate_bwd,
#define OP(name, tol, params) .name = tr_cuda_##name,
#include "device/ops.def"
#undef OP
};

const struct tr_backend *const *tr_backends(void)
{
    static const struct tr_backend *const all[] = {&kernels, NULL};

    return all;
}

const struct tr_backend *tr_backend_host(void)
{
    return &tr_ref;
}

const struct tr_backend *tr_backend_find(const char *name)
{
    return strcmp(name, "ref") == 0 ? &tr_ref : strcmp(name, "kernels") == 0 ? &kernels : NULL;
}
