/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu.h"

#include <stdio.h>
#ifdef _OPENMP
#include <omp.h>
#endif

#include "device/cpu/cpu_bf16.h"
#include "device/cpu/cpu_dnnl.h"
#include "device/cpu/cpu_product.h"
#include "device/host.h"
#include "util/text.h"

struct tr_cpu_alone tr_cpu_alone = {.elements = 1 << 16, .multiplications = 1 << 21};

int tr_cpu_thread(void)
{
#ifdef _OPENMP
    return omp_get_thread_num();
#else
    return 0;
#endif
}

float *tr_cpu_scratch(const struct tr_queue *q)
{
    return q->device->scratch + (int64_t)tr_cpu_thread() * SCRATCH_FLOATS;
}

/* Whether vec_mul_add() rounds once. */
static bool fuses(void)
{
#if defined(__AVX512F__) || (defined(__AVX__) && defined(__FMA__))
    return true;
#else
    return false;
#endif
}

static enum tr_status cpu_open(const struct tr_device_how *how, struct tr_device **out)
{
    struct tr_device *d;
    enum tr_status s;
    void *scratch = NULL;

    *out = NULL;
    TR_TRY(tr_host_open(how, &d));
    s = tr_host_reserve(d, (size_t)d->threads * SCRATCH_FLOATS * sizeof(float), &scratch);
    if (s == TR_OK)
        s = tr_dnnl_open(d->threads, how->gemm, &d->dnnl);
    if (s != TR_OK) {
        tr_host_close(d);
        return s;
    }
    d->scratch = scratch;
    d->bf16 = tr_bf16_choose(how->gemm);
    snprintf(d->vectors, sizeof d->vectors, "vectors of %d floats%s", (int)LANES,
             fuses() ? " with FMA" : "");
    snprintf(d->kernels, sizeof d->kernels, "%s, bf16 GEMMs by %s, attention by %s", d->vectors,
             d->dnnl ? tr_dnnl_name(d->dnnl) : "own kernels",
             d->bf16 ? d->bf16->name : "own kernels");
    snprintf(d->line, sizeof d->line, "cpu: %d thread%s, %s", d->threads, tr_plural(d->threads),
             d->kernels);
    *out = d;
    return TR_OK;
}

static void cpu_close(struct tr_device *d)
{
    tr_dnnl_close(d->dnnl);
    tr_host_close(d);
}

static const char *describe(const struct tr_device *d)
{
    return d->line;
}

static const char *kernels(const struct tr_device *d, enum tr_dtype type)
{
    return type == TR_BF16 ? d->kernels : d->vectors;
}

const struct tr_backend tr_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .threads = tr_host_threads,
    .describe = describe,
    .kernels = kernels,
    .reserve = tr_host_reserve,
    .reserve_host = tr_host_reserve_host,
    .used = tr_host_used,
    .move = tr_host_move,
    .moved = tr_host_moved,
    .after = tr_host_moved,
    .wait = tr_host_wait,
    .upload = tr_cpu_upload,
    .download = tr_cpu_download,
    .mark = tr_host_mark,
    .between = tr_host_between,
    .range = tr_host_range,
    .record = tr_host_record,
    .attention_cached = tr_cpu_attention_cached,
    .attention_relative = tr_cpu_attention_relative,
    .attention_relative_bwd = tr_cpu_attention_relative_bwd,
    .adam8 = tr_cpu_adam8,
    .activate = tr_cpu_activate,
    .activate_bwd = tr_cpu_activate_bwd,
#define OP(name, tol, params) .name = tr_cpu_##name,
#include "device/ops.def"
#undef OP
};
