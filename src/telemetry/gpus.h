/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TELEMETRY_GPUS_H
#define TR_TELEMETRY_GPUS_H

/* What the makers of GPUs promise: telemetry/gpus.def. */

/* Peak of a GPU by its name in the table, TFLOP/s of fp16 and bf16 GEMMs, or -1. */
double tr_gpu_peak(const char *name);

/* The name of the GPU that a text of a driver or a log is about, or NULL; static. */
const char *tr_gpu_in(const char *text);

/* The peak of that GPU; 0 where the text names none. */
double tr_gpu_peak_in(const char *text);

/* All names, separated by blanks; owned by the caller. */
char *tr_gpu_names(void);

#endif
