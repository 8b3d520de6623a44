/* SPDX-License-Identifier: BSD-3-Clause */
#include "attention_mma_bwd.cuh"

/* Heads of up to 96. */
TR_BACKWARD_OF(64);
TR_BACKWARD_OF(80);
TR_BACKWARD_OF(96);
