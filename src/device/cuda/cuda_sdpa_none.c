/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cuda/cuda_sdpa.h"

/* A program built without cuDNN. */
#ifndef HAVE_CUDNN

enum tr_status tr_cuda_sdpa_open(const struct tr_cuda_sdpa_how *how, struct tr_cuda_sdpa **out)
{
    (void)how;
    *out = NULL;
    return TR_FAIL(TR_ECONFIG, "this program was built without cuDNN: use --attention-backend "
                               "flash, or build it again with ./configure --with-cudnn");
}

void tr_cuda_sdpa_close(struct tr_cuda_sdpa *c)
{
    (void)c;
}

const char *tr_cuda_sdpa_name(void)
{
    return "no cuDNN";
}

bool tr_cuda_sdpa_served(struct tr_cuda_sdpa *c, const struct tr_cuda_sdpa_call *call,
                         const char **why)
{
    (void)c;
    (void)call;
    *why = "this program was built without it";
    return false;
}

int64_t tr_cuda_sdpa_parts(const struct tr_cuda_sdpa *c, const struct tr_cuda_sdpa_call *call)
{
    (void)c;
    (void)call;
    return 0;
}

const char *tr_cuda_sdpa_run(struct tr_cuda_sdpa *c, const struct tr_cuda_sdpa_call *call,
                             int64_t part, void *scratch)
{
    (void)c;
    (void)call;
    (void)part;
    (void)scratch;
    return "this program was built without it";
}

#endif
