/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_CUDA_CUDA_FIND_H
#define TR_DEVICE_CUDA_CUDA_FIND_H

#include "device/cuda/cuda.h"

/*
 * Which GPU a rank takes: number how->local_rank of those that it sees, and with how->share they are
 * dealt out in turn.  A rank that sees one alone takes that: a launcher that gives each rank its own
 * GPU shows it no other.
 *
 * Fills what `g` says of the GPU; *bytes is its memory.  TR_ERESOURCE where there is no GPU or no
 * driver, or where there are fewer than ranks.
 */
enum tr_status tr_cuda_find(const struct tr_device_how *how, struct tr_cuda *g,
                            size_t *bytes) TR_MUST_CHECK;

/*
 * Fills g->code: which of the architectures of this program's code the driver has taken for the GPU,
 * which is the current one.  TR_ERESOURCE where there is none for it, or none that this driver compiles.
 */
enum tr_status tr_cuda_find_code(struct tr_cuda *g) TR_MUST_CHECK;

/* As tr_gpus_list(). */
void tr_cuda_list(struct tr_gpus *out);

#endif
