/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_OFFLOAD_H
#define TR_CONFIG_OFFLOAD_H

#include <stdint.h>

#include "config/config.h"
#include "config/data_parallel.h"
#include "util/status.h"

/* How much memory of a device a rank may use, and what of it lies elsewhere.  Source: --device-memory,
   --offload-optimizer and its options, --offload-param, --chunk-memory, --chunk-size. */
struct tr_offload {
    int64_t device_memory; /* bytes; 0: as much as there is */
    double
        hosted; /* fraction of the optimizer's elements whose masters and states the host has, or files */
    int64_t tile; /* elements of them that are updated at a time */
    const char *
        folders; /* of the files, with commas between; NULL: memory of the host.  Borrowed of the options */
    int slots;                        /* tiles of files in memory */
    bool weights;                     /* those of layers lie with the host */
    int64_t chunk_memory, chunk_size; /* of struct tr_chunking */
    bool gradients; /* and so do those that a rank has added up for what it updates */
};

/* From the options and what replicas do.  TR_ECONFIG as tr_shape_of(). */
enum tr_status tr_offload_of(const struct tr_config *c, const struct tr_data_parallel *dp,
                             struct tr_offload *out) TR_MUST_CHECK;

#endif
