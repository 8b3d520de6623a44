/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/compute.h"

#include "util/log.h"

_Static_assert((int)TR_CPU_GEMM_OWN == (int)TR_GEMM_OWN &&
                   (int)TR_CPU_GEMM_ONEDNN == (int)TR_GEMM_ONEDNN,
               "choices of --cpu-gemm");

/* What operations keep in their scratch has a limit, far above the published models. */
static enum tr_status check_widths(const struct tr_dims *m)
{
    if (m->head_dim > TR_MAX_HEAD_DIM)
        return TR_FAIL(
            TR_ECONFIG,
            "--hidden-size %lld over --num-attention-heads %lld makes heads of %lld, and "
            "attention takes %d at most: use more heads",
            (long long)m->hidden, (long long)m->heads, (long long)m->head_dim, TR_MAX_HEAD_DIM);
    if (m->hidden > TR_MAX_WIDTH)
        return TR_FAIL(TR_ECONFIG,
                       "--hidden-size %lld is more than the %d that norms take: use a smaller one",
                       (long long)m->hidden, TR_MAX_WIDTH);
    return TR_OK;
}

/* What --backend stands for.  With auto, nodes with GPUs and nodes without would take different ones. */
static enum tr_status choose_backend(struct tr_run *r, const struct tr_backend **out)
{
    const char *name = tr_config_spelling("backend", r->config->backend);
    bool some;

    *out = tr_backend_find(name);
    if (!*out)
        return TR_FAIL(TR_ERESOURCE,
                       "this trireme was built without CUDA, so there is no --backend %s: build it "
                       "where nvcc is (./configure --with-cuda=DIR), or compute with --backend cpu",
                       name);
    some = tr_comm_max(r->world, (*out)->apart) > 0;
    if (tr_comm_max(r->world, some != (*out)->apart) > 0)
        return TR_FAIL(TR_ERESOURCE,
                       "some nodes have GPUs and others have none, so ranks would not "
                       "compute with the same: take out the others, or use "
                       "--backend cpu");
    return TR_OK;
}

/* Options of GPUs are refused where the user chose another backend; otherwise a line says that they
   have no effect. */
static enum tr_status check_gpu_option(struct tr_run *r, bool given, const char *name,
                                       const char *what)
{
    if (!given || r->queue.on->apart)
        return TR_OK;
    if (r->config->backend != TR_BACKEND_AUTO)
        return TR_FAIL(TR_ECONFIG, "%s %s, and --backend %s has none: leave one of them out", name,
                       what, r->queue.on->name);
    tr_log_rank0(TR_LOG_WARNING, "%s has no effect here: it %s, and there are none", name, what);
    return TR_OK;
}

/* The other way round. */
static enum tr_status check_cpu_option(struct tr_run *r, bool given, const char *name,
                                       const char *what)
{
    if (!given || r->queue.on == tr_backend_find("cpu"))
        return TR_OK;
    if (r->config->backend != TR_BACKEND_AUTO)
        return TR_FAIL(TR_ECONFIG, "%s %s, and this run has --backend %s: leave one of them out",
                       name, what, r->queue.on->name);
    tr_log_rank0(TR_LOG_WARNING, "%s has no effect here: it %s, and this run computes with %s",
                 name, what, r->queue.on->name);
    return TR_OK;
}

static enum tr_status check_options(struct tr_run *r)
{
    TR_TRY(check_gpu_option(r, r->config->tf32, "--tf32", "is about GEMMs on GPUs"));
    TR_TRY(
        check_gpu_option(r, r->config->tune_products, "--tune-products", "is about GEMMs on GPUs"));
    TR_TRY(check_gpu_option(r, r->config->attention_backend != TR_ATTN_AUTO, "--attention-backend",
                            "is about kernels of GPUs"));
    TR_TRY(check_gpu_option(r, !r->config->deterministic_mode, "--no-deterministic-mode",
                            "is about cuDNN's attention on GPUs"));
    TR_TRY(check_gpu_option(r, r->config->gpu_oversubscribe, "--gpu-oversubscribe",
                            "is about the GPUs of a node"));
    TR_TRY(check_gpu_option(r, r->config->cuda_graph_impl != TR_GRAPHS_NONE, "--cuda-graph-impl",
                            "is about launches on GPUs"));
    if (r->config->quant_stochastic && r->queue.on->apart)
        return TR_FAIL(TR_ECONFIG, "--quant-stochastic rounds by draws, which no kernel of GPUs "
                                   "does: leave it out, and numbers "
                                   "are rounded to nearest, or add --backend cpu");
    if (r->shape.offload.device_memory > 0 && r->queue.on->apart)
        return TR_FAIL(
            TR_ECONFIG,
            "--device-memory is a limit for ranks that compute in the memory of the host, "
            "and a GPU has its own: leave it out, or add --backend cpu");
    return check_cpu_option(r, r->config->cpu_gemm != TR_CPU_GEMM_AUTO, "--cpu-gemm",
                            "is about the cpu backend");
}

/* A device of its own, since the host works beside a device that is apart. */
static enum tr_status open_host(struct tr_run *r, const struct tr_device_how *how)
{
    r->host_queue = r->queue;
    if (!r->queue.on->apart)
        return TR_OK;
    r->host_queue.on = tr_backend_host();
    TR_TRY(r->host_queue.on->open(how, &r->host_device));
    r->host_queue.device = r->host_device;
    return TR_OK;
}

enum tr_status tr_compute_open(struct tr_run *r)
{
    struct tr_device_how how = {
        .memory = (size_t)r->shape.offload.device_memory,
        .threads = (int)r->config->threads,
        .local_rank = r->launch.local_rank,
        .local_size = r->launch.local_size,
        .share = r->config->gpu_oversubscribe,
        .given = r->launch.gpus_given,
        .bind = r->launch.gpu_bind,
        .tf32 = r->config->tf32,
        .tune = r->config->tune_products,
        .attention = (enum tr_attention_by)r->config->attention_backend,
        .any_order = !r->config->deterministic_mode,
        .gemm = (enum tr_gemm_by)r->config->cpu_gemm,
    };
    enum tr_status s;

    TR_TRY(check_widths(&r->shape.dims));
    TR_TRY(choose_backend(r, &r->queue.on));
    TR_TRY(check_options(r));
    if (how.threads == 0)
        how.threads = tr_launch_threads(&r->launch);
    s = r->queue.on->open(&how, &r->device);
    r->queue.device = r->device;
    if (s == TR_OK)
        s = open_host(r, &how);
    return tr_comm_agree(r->world, s);
}
