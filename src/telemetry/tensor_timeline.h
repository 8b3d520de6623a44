/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TELEMETRY_TENSOR_TIMELINE_H
#define TR_TELEMETRY_TENSOR_TIMELINE_H

#include "util/status.h"

/*
 * Horovod's timeline: a JSON array of Chrome's trace events in which what is reduced together is a process.  The file
 * is an array whenever it is read: events are written over its closing bracket, with a new one behind them.  Times
 * are those of tr_now(); in the file, microseconds since it was opened.  Of one process; not collective.
 *
 * A file that can no longer be written is output that is lost (util/log.h), and then nothing is.
 */
struct tr_tensor_timeline;

/* An empty file.  TR_EIO, TR_ERESOURCE with a sentence; *out is NULL then. */
enum tr_status tr_tensor_timeline_open(const char *path,
                                       struct tr_tensor_timeline **out) TR_MUST_CHECK;
void tr_tensor_timeline_close(struct tr_tensor_timeline *t);

/* Process `pid`, 1 or more, has this name, of printable characters without quotes. */
void tr_tensor_timeline_process(struct tr_tensor_timeline *t, int pid, const char *name);

/* An activity begins, the last one that began ends, and something happens without taking time. */
void tr_tensor_timeline_begin(struct tr_tensor_timeline *t, int pid, const char *name, double at);
void tr_tensor_timeline_end(struct tr_tensor_timeline *t, int pid, double at);
void tr_tensor_timeline_mark(struct tr_tensor_timeline *t, int pid, const char *name, double at);

/* A mark across all processes. */
void tr_tensor_timeline_cycle(struct tr_tensor_timeline *t, double at);

/* What was added since the last call stands in the file. */
void tr_tensor_timeline_flush(struct tr_tensor_timeline *t);

#endif
