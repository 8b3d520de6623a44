/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/cuda_told.h"

#include <stdio.h>

#include "util/log.h"

static const char *name_of(const struct tr_cuda_met *m)
{
    if (m->way == TR_CUDA_BY_CUDNN)
        return m->cudnn;
    return m->way == TR_CUDA_BY_TILES ? "kernels of this program on tensor cores"
                                      : "the plain fp32 kernels of this program";
}

/* Halves have faster kernels than the plain ones, and where cuDNN is here dropout is what keeps it out. */
static void warn(const struct tr_cuda_met *m)
{
    if (m->way == TR_CUDA_BY_PLAIN && m->type != TR_F32)
        tr_log_rank0(TR_LOG_WARNING,
                     "attention with heads of %lld in %s is computed by the plain fp32 kernels of "
                     "this program, many times slower than those on tensor cores: "
                     "choose --num-attention-heads such that a head has 64 or 128",
                     (long long)m->head, tr_dtype_name(m->type));
    else if (m->cudnn && m->dropout > 0.0)
        tr_log_rank0(TR_LOG_WARNING,
                     "--attention-dropout %g keeps attention out of %s, which is faster than the "
                     "kernels of this program: give --attention-dropout 0 if the model can do "
                     "without",
                     m->dropout, m->cudnn);
}

/* What follows from --no-deterministic-mode. */
static const char *order_of(const struct tr_cuda_met *m)
{
    if (!m->backward || !m->any_order)
        return "";
    return m->way == TR_CUDA_BY_CUDNN ? ", non-deterministic: last bits differ from run to run"
                                      : ", deterministic though --no-deterministic-mode is given";
}

void tr_cuda_tell(struct tr_cuda_told *t, const struct tr_cuda_met *m)
{
    if (t->of[m->backward][m->way])
        return;
    t->of[m->backward][m->way] = true;
    snprintf(t->line[t->lines++], sizeof t->line[0],
             "attention, %s, heads of %lld in %s: %s%s%s%.300s",
             m->backward ? "backward" : "forward", (long long)m->head, tr_dtype_name(m->type),
             name_of(m), order_of(m), *m->why ? ", since " : "", m->why);
    if (!t->warned[m->way])
        warn(m);
    t->warned[m->way] = true;
}

const char *tr_cuda_told_next(struct tr_cuda_told *t)
{
    return t->given < t->lines ? t->line[t->given++] : NULL;
}
