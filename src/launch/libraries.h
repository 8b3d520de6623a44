/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_LAUNCH_LIBRARIES_H
#define TR_LAUNCH_LIBRARIES_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#include "device/backends/versions.h"

/* "trireme 0.1.0 (commit)"; static storage. */
const char *tr_version_text(void);

/*
 * What this program consists of: compiler, instruction sets, MPI, PMIx, HDF5 and the rest, each as it was
 * built and as it is met here.  Static storage; *out is theirs, the result how many there are.  MPI need
 * not have started.
 */
int tr_libraries(const struct tr_version **out);

/* "  MPI       Open MPI 4.1.4" a line; where the two differ, both. */
void tr_libraries_print(FILE *f);

/* {"version": ..., "commit": ..., "libraries": [{"name", "built", "here"}]}; owned by the caller. */
json_t *tr_libraries_json(void);

/* A checksum of the commit and of the libraries that are linked: the same on all nodes when all is
   well.  Opens nothing. */
uint64_t tr_build_sum(void);

#endif
