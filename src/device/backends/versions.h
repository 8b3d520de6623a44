/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_BACKENDS_VERSIONS_H
#define TR_DEVICE_BACKENDS_VERSIONS_H

/* A library or another part: what this program was built with, and what it meets here; "" where there is
   no such thing. */
struct tr_version {
    const char *name; /* static */
    char built[64], here[96];
};

/* Those of the backends: oneDNN, and CUDA, cuBLAS, NCCL, cuDNN where this binary knows of them.  Opens the
   libraries that it has to ask.  At most `max` of them; returns how many there are. */
int tr_device_versions(struct tr_version *out, int max);

#endif
