/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CUDA_CUDA_TOLD_H
#define TR_DEVICE_CUDA_CUDA_TOLD_H

#include <stdbool.h>
#include <stdint.h>

#include "tensor/tensor.h"

/*
 * What is said of attention: which kernels compute it and its gradient, and why, once for each kind of
 * kernel that a run meets, since all layers are alike.  What is slow, and need not be, is a warning as
 * well.
 */
enum tr_cuda_way { TR_CUDA_BY_CUDNN, TR_CUDA_BY_TILES, TR_CUDA_BY_PLAIN, TR_CUDA_WAYS };

struct tr_cuda_told {
    bool of[2][TR_CUDA_WAYS]; /* [backward] */
    bool warned[TR_CUDA_WAYS];
    int lines, given;
    char line[2 * TR_CUDA_WAYS][512];
};

struct tr_cuda_met {
    bool backward;
    enum tr_cuda_way way;
    enum tr_dtype type;
    int64_t head;      /* its width */
    double dropout;    /* of probabilities, where that alone keeps cuDNN out */
    bool any_order;    /* cuDNN may add to gradients in any order */
    const char *cudnn; /* "cuDNN 9.19.0", or NULL where it is not open */
    const char *why;   /* it was not cuDNN: a sentence without its end; "" if it was */
};

void tr_cuda_tell(struct tr_cuda_told *t, const struct tr_cuda_met *m);

/* The next line that nobody has had, or NULL; borrowed. */
const char *tr_cuda_told_next(struct tr_cuda_told *t);

#endif
