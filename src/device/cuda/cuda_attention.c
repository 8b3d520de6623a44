/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/cuda_attention.h"

#include <stdio.h>
#include <string.h>

#include "device/cuda/cuda.h"
#include "device/cuda/cuda_sdpa.h"
#include "device/sizes.h"
#include "util/log.h"

enum tr_status tr_cuda_attention_open(struct tr_cuda *g, enum tr_attention_by by, size_t *scratch)
{
    struct tr_cuda_sdpa_how how = {.arch = g->arch,
                                   .room = tr_cuda_scratch_reserved(true, g->any_order),
                                   .wanted = by == TR_ATTENTION_FUSED,
                                   .stream = g->compute};
    enum tr_status s;

    *scratch = 0;
    if (by == TR_ATTENTION_FLASH) {
        snprintf(g->no_cudnn, sizeof g->no_cudnn, "--attention-backend flash asks for them");
        return TR_OK;
    }
    s = tr_cuda_sdpa_open(&how, &g->sdpa);
    if (s == TR_OK)
        *scratch = how.room;
    if (s == TR_OK || by == TR_ATTENTION_FUSED)
        return s;
    tr_log_rank0(s == TR_ERESOURCE ? TR_LOG_WARNING : TR_LOG_INFO,
                 "attention is computed by kernels of this program: %s", tr_last_error());
    /* What would do comes behind a colon. */
    snprintf(g->no_cudnn, sizeof g->no_cudnn, "%s", tr_last_error());
    g->no_cudnn[strcspn(g->no_cudnn, ":")] = '\0';
    return TR_OK;
}

void tr_cuda_attention_close(struct tr_cuda *g)
{
    if (g->sdpa)
        tr_cuda_sdpa_close(g->sdpa);
    g->sdpa = NULL;
}

const char *tr_cuda_attention_describe(const struct tr_cuda *g)
{
    static char text[64];

    if (!g->sdpa)
        return "own kernels";
    snprintf(text, sizeof text, "%s or own kernels", tr_cuda_sdpa_name());
    return text;
}

static bool aligned(const struct tr_tensor *t)
{
    return (uintptr_t)t->data % 16 == 0;
}

/* dqkv and dctx are NULL forward. */
static struct tr_cuda_sdpa_call call_of(const struct tr_cuda *g, struct tr_attention_sizes s,
                                        const struct tr_tensor *ctx, const struct tr_tensor *lse,
                                        const struct tr_tensor *qkv, const struct tr_tensor *dctx,
                                        const struct tr_tensor *dqkv, float scale)
{
    return (struct tr_cuda_sdpa_call){
        .backward = dqkv != NULL,
        .sizes = {.b = s.b,
                  .heads = s.heads,
                  .t = s.t,
                  .d = s.d,
                  .row_heads = s.heads,
                  .any_order = dqkv && g->any_order},
        .type = qkv->dtype,
        .scale = scale,
        .qkv = qkv->data,
        .ctx = ctx->data,
        .lse = lse->data,
        .dctx = dctx ? dctx->data : NULL,
        .dqkv = dqkv ? dqkv->data : NULL,
    };
}

static bool alike(const struct tr_tensor *a, const struct tr_tensor *b)
{
    return a->dtype == b->dtype && aligned(a) && aligned(b);
}

static const char drops[] =
    "cuDNN draws other numbers for --attention-dropout than this program does";

const char *tr_cuda_attention_unsaid(struct tr_attention_sizes s, bool bounds,
                                     struct tr_attention_how how, const struct tr_dropout *drop)
{
    if (s.groups != s.heads)
        return "the graph that this program gives to cuDNN has as many keys as queries "
               "(--num-query-groups)";
    if (how.window > 0 && how.window < s.t)
        return "the graph that this program gives to cuDNN has no window (--window-size)";
    if (how.slopes)
        return "the graph that this program gives to cuDNN has no slopes of ALiBi "
               "(--position-embedding-type)";
    if (bounds)
        return "cuDNN's graph has no bounds of documents (--reset-attention-mask)";
    return drop->p > 0.0 ? drops : NULL;
}

/* Why cuDNN is not even asked, or NULL. */
static const char *kept_from_cudnn(const struct tr_cuda *g, struct tr_attention_sizes s,
                                   const struct tr_tensor *from, struct tr_attention_how how,
                                   const struct tr_dropout *drop, bool alike)
{
    const char *why = g->sdpa ? tr_cuda_attention_unsaid(s, from != NULL, how, drop) : g->no_cudnn;

    return why || alike ? why : "cuDNN takes operands of one type";
}

/* NULL when cuDNN has done it, or why it has not. */
static const char *by_cudnn(struct tr_cuda *g, const struct tr_cuda_sdpa_call *call)
{
    const char *why;

    if (!tr_cuda_sdpa_served(g->sdpa, call, &why))
        return why;
    for (int64_t i = 0; i < tr_cuda_sdpa_parts(g->sdpa, call); i++) {
        tr_cuda_pace(g, &g->pace, TR_CUDA_LAUNCHES_ATTENTION);
        why = tr_cuda_sdpa_run(g->sdpa, call, i, g->scratch);
        if (why)
            tr_cuda_die(g, call->backward ? "cuDNN's attention, backward" : "cuDNN's attention",
                        why);
    }
    return NULL;
}

static void tell(struct tr_cuda *g, const struct tr_cuda_sdpa_call *call,
                 const struct tr_dropout *drop, enum tr_cuda_way way, const char *why)
{
    const struct tr_cuda_met met = {
        .backward = call->backward,
        .way = way,
        .type = call->type,
        .head = call->sizes.d,
        .dropout = why == drops ? drop->p : 0.0,
        .any_order = call->sizes.any_order,
        .cudnn = g->sdpa ? tr_cuda_sdpa_name() : NULL,
        .why = why ? why : "",
    };

    tr_cuda_tell(&g->told, &met);
}

void tr_cuda_attention(struct tr_queue *q, const struct tr_tensor *ctx, const struct tr_tensor *lse,
                       const struct tr_tensor *qkv, const struct tr_tensor *from,
                       struct tr_attention_how how, struct tr_dropout drop)
{
    struct tr_cuda *g = tr_cuda_of(q->device);
    const struct tr_attention_sizes s = tr_sizes_attention(ctx, lse, qkv, from, how, &drop);
    const struct tr_cuda_sdpa_call call = call_of(g, s, ctx, lse, qkv, NULL, NULL, how.scale);
    const char *why = kept_from_cudnn(g, s, from, how, &drop, alike(ctx, qkv));
    enum tr_cuda_way way = TR_CUDA_BY_CUDNN;

    if (!why)
        why = by_cudnn(g, &call);
    if (why)
        way = tr_cuda_attention_own(q, ctx, lse, qkv, from, how, drop) ? TR_CUDA_BY_TILES
                                                                       : TR_CUDA_BY_PLAIN;
    tell(g, &call, &drop, way, why);
}

void tr_cuda_attention_bwd(struct tr_queue *q, const struct tr_tensor *dqkv,
                           const struct tr_tensor *dctx, const struct tr_tensor *ctx,
                           const struct tr_tensor *lse, const struct tr_tensor *qkv,
                           const struct tr_tensor *from, struct tr_attention_how how,
                           struct tr_dropout drop)
{
    struct tr_cuda *g = tr_cuda_of(q->device);
    const struct tr_attention_sizes s = tr_sizes_attention(ctx, lse, qkv, from, how, &drop);
    const struct tr_cuda_sdpa_call call = call_of(g, s, ctx, lse, qkv, dctx, dqkv, how.scale);
    const char *why = kept_from_cudnn(g, s, from, how, &drop,
                                      alike(ctx, qkv) && alike(dctx, qkv) && alike(dqkv, qkv));
    enum tr_cuda_way way = TR_CUDA_BY_CUDNN;

    tr_sizes_attention(dctx, lse, dqkv, from, how, &drop);
    if (!why)
        why = by_cudnn(g, &call);
    if (why)
        way = tr_cuda_attention_own_bwd(q, dqkv, dctx, ctx, lse, qkv, from, how, drop)
                  ? TR_CUDA_BY_TILES
                  : TR_CUDA_BY_PLAIN;
    tell(g, &call, &drop, way, why);
}
