/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/memory.h"

#include <stddef.h>

#include "data/epochs.h"
#include "device/cuda/cuda_kernel.h"
#include "pipeline/links.h"
#include "train/run.h"

static const double MIB = 1048576.0;

static const char *const parts[] = {
#define LABEL(symbol, name) name,
    TR_LABELS_OF(LABEL)
#undef LABEL
#define PART(symbol, name) name,
        TR_MEMORY_PARTS_OF(PART)
#undef PART
};

const char *tr_memory_part_name(int part)
{
    return parts[part];
}

static double nccl_of(const struct tr_machine *m, int world)
{
    return world > 1 ? m->nccl * MIB : 0.0;
}

double tr_memory_libraries(const struct tr_machine *m, int world)
{
    return m->context * MIB + nccl_of(m, world);
}

/* Ranks on CPUs need none of these, whatever the machine.  cuDNN's attention is for GPUs with
   bf16. */
static void of_machine(const struct tr_run *r, const struct tr_machine *m, struct tr_memory *x)
{
    const int world = r->shape.layout.world;

    if (tr_processor_of_run(r->config, m) == TR_PROCESSOR_CPU)
        return;
    if (!m) {
        x->unknown[TR_MEMORY_KERNELS] = x->unknown[TR_MEMORY_CONTEXT] = true;
        x->unknown[TR_MEMORY_NCCL] = world > 1;
        return;
    }
    x->part[TR_MEMORY_KERNELS] = (double)tr_cuda_scratch_reserved(
        m->peak_bf16 > 0.0 && r->config->attention_backend != TR_ATTN_FLASH,
        !r->config->deterministic_mode);
    x->part[TR_MEMORY_CONTEXT] = m->context * MIB;
    x->part[TR_MEMORY_NCCL] = nccl_of(m, world);
}

void tr_memory_of(const struct tr_run *r, const struct tr_machine *m, struct tr_memory *out)
{
    int64_t host, files;

    *out = (struct tr_memory){.total = 0.0};
    for (int i = 0; i < TR_LABELS; i++)
        out->part[i] = (double)r->arena.bytes[i];
    for (int i = 0; i < TR_LABELS; i++)
        out->host_part[i] = (double)r->host.bytes[i];
    out->optimizer_files = (double)tr_optim_file_bytes(&r->optim);
    out->host_total = (double)r->host.used_bytes;
    of_machine(r, m, out);
    for (int i = 0; i < TR_MEMORY_PARTS; i++)
        out->total += out->part[i];
    tr_links_bytes(r->links, &host, &files);
    out->host = (double)(host + tr_epochs_bytes(&r->shape.epochs));
    out->files = (double)files;
}

const char *tr_memory_lacks(const struct tr_memory *x)
{
    for (int i = 0; i < TR_MEMORY_PARTS; i++)
        if (x->unknown[i])
            return "what is unknown depends on the machine and is not in the total: "
                   "`trireme plan --machine NAME|FILE` counts it";
    return NULL;
}
