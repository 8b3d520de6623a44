/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TELEMETRY_EVENTS_H
#define TR_TELEMETRY_EVENTS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "util/status.h"

/*
 * Event files as TensorBoard reads them: records of TFRecord (the length, its checksum, the bytes,
 * their checksum; checksums are CRC-32C, rotated by 15 bits and moved by a constant) with protocol
 * buffers of type Event (tensorflow/core/util/event.proto) in them.  Of those, the version of the
 * file and scalars: Summary.Value with tag and simple_value.
 *
 * Each record is given to the system at once, so that a viewer sees the newest and a job that is
 * killed loses none.
 */
struct tr_events {
    FILE *f;    /* owned; NULL when closed, or when writing has failed */
    char *path; /* owned */
};

/* Make FOLDER/events.out.tfevents.SECONDS.HOST.PID.0, and the folder: each start of a run has a
   file of its own there, and viewers put them together.  TR_EIO. */
enum tr_status tr_events_open(struct tr_events *e, const char *folder) TR_MUST_CHECK;
void tr_events_close(struct tr_events *e);

/* A value of `tag` at `step`.  The first that cannot be written is output that is lost (util/log.h), and
   the last. */
void tr_events_scalar(struct tr_events *e, const char *tag, double value, int64_t step);

/* CRC-32C (Castagnoli) of n bytes, as RFC 3720 defines it; 0xe3069283 for "123456789". */
uint32_t tr_crc32c(const void *data, size_t n);

#endif
