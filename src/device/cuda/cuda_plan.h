/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CUDA_CUDA_PLAN_H
#define TR_DEVICE_CUDA_CUDA_PLAN_H

#include "device/cuda/cuda_libs.h"
#include "device/cuda/sdpa.h"

/* Between a graph of device/cuda/sdpa.h and cuDNN's backend API, for device/cuda/cuda_sdpa.c alone. */

/* What plans are made for: one of the two. */
struct tr_cuda_plan_on {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t described;
};

enum { TR_CUDA_PLAN_DESCRIPTORS = 160 };

struct tr_cuda_plan {
    bool ready;
    size_t workspace; /* bytes that it needs */
    cudnnBackendDescriptor_t plan;
    int uids; /* operands that a call must give: numbers of tensors */
    int uid[TR_SDPA_NAMES];
    char why[256]; /* if it is not ready: cuDNN's words */

    /* All that was made for it, kept as long as it is. */
    int count;
    cudnnBackendDescriptor_t made[TR_CUDA_PLAN_DESCRIPTORS];
    cudnnStatus_t status; /* of the first call that failed */
};

/* A GPU from JSON. */
enum tr_status tr_cuda_plan_described(const char *json,
                                      cudnnBackendDescriptor_t *out) TR_MUST_CHECK;

/* What a plan must be. */
struct tr_cuda_plan_as {
    enum tr_dtype type; /* of the data */
    size_t room;        /* the most workspace, in bytes */
    bool any_order;     /* it may be one that cuDNN calls non-deterministic */
};

/* The plan that cuDNN expects to be fastest of those that will do.  Look at p->ready. */
void tr_cuda_plan_make(struct tr_cuda_plan *p, const struct tr_cuda_plan_on *on,
                       const struct tr_sdpa_graph *g, const struct tr_cuda_plan_as *as);
void tr_cuda_plan_release(struct tr_cuda_plan *p);

/* Queue it; at[i] is the address of tensor i.  NULL, or what is wrong. */
const char *tr_cuda_plan_run(const struct tr_cuda_plan *p, const struct tr_cuda_plan_on *on,
                             void *const at[TR_SDPA_NAMES], void *workspace) TR_MUST_CHECK;

#endif
