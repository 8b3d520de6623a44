/* SPDX-License-Identifier: BSD-3-Clause */
#include "attention_mma_bwd.cuh"

/* Heads of more than 160. */
TR_BACKWARD_OF(224);
TR_BACKWARD_OF(320);
