/* SPDX-License-Identifier: BSD-3-Clause */
#include "attention_mma_bwd.cuh"

/* Heads of 97 to 160. */
TR_BACKWARD_OF(128);
TR_BACKWARD_OF(160);
