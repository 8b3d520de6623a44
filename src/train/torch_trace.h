/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_TORCH_TRACE_H
#define TR_TRAIN_TORCH_TRACE_H

#include <stdio.h>

#include "telemetry/trace.h"
#include "train/run.h"

/*
 * --profiling pytorch_profiling: the trace of a rank in the form that torch.profiler exports, for programs that read
 * these: an object with "schemaVersion", "distributedInfo" and "traceEvents", complete events of category
 * "user_annotation", which are PyTorch's record_function ranges: here each timer, by its name, within the one that it is
 * part of.  Times count from "baseTimeNanoseconds", `base` seconds since 1970.  There are no operators and kernels, because nothing here measures these one by one.
 */
void tr_torch_trace_begin(FILE *f, const struct tr_run *r, int64_t base);

/* `events` counts those that were written, from 0; `wall` is added for seconds since `base`. */
void tr_torch_trace_put(FILE *f, int64_t *events, const struct tr_span *span, int64_t count,
                        double wall);
void tr_torch_trace_end(FILE *f, const char *name);

#endif
