/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "device/device.h"
#ifdef HAVE_CUDA
#include "device/cuda/cuda_find.h"
#endif

void tr_gpus_list(struct tr_gpus *out)
{
    memset(out, 0, sizeof *out);
#ifdef HAVE_CUDA
    tr_cuda_list(out);
#endif
}
