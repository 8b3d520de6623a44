/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_LAUNCH_NODE_H
#define TR_LAUNCH_NODE_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "comm/comm.h"
#include "device/device.h"

/* A host as one of its ranks sees it.  -1 stands for what the kernel does not say, INT64_MAX for no
   limit. */
struct tr_node_facts {
    char host[TR_HOST_BYTES];
    int64_t memory;                    /* bytes */
    int64_t shm_size, shm_free;        /* bytes of /dev/shm; 0 where it is not mounted */
    int64_t open_files, stack, locked; /* soft limits: descriptors, bytes, bytes */
    bool verbs; /* it has a network that registers memory: InfiniBand, Omni-Path */
    struct tr_gpus gpus;
    uint64_t build;     /* of the program that runs here */
    char lacks[64];     /* instruction sets that the program was compiled for and the processor
                           lacks; "" when there are none */
    char networks[128]; /* as tr_node_networks() writes them */
    double clock;       /* seconds since 1970, all read at about the same time */
};

/* All but the clock; not collective.  With `gpus` CUDA starts, where there is any. */
void tr_node_read(bool gpus, uint64_t build, struct tr_node_facts *out);

/* The cores of the hardware threads in `cpus`: of each core its first hardware thread.  Where the
   kernel does not say which threads belong together, each is a core. */
void tr_node_cores(const cpu_set_t *cpus, cpu_set_t *out);

/* Bytes and inodes left for this user in the file system of `folder`, or of the nearest folder above
   it that exists; -1 for what is not known.  Quotas are not seen. */
void tr_node_space(const char *folder, int64_t *bytes, int64_t *files);

/* Instruction sets: what the compiler was allowed to use, and which of those the processor
   lacks; names with blanks between. */
void tr_node_compiled_for(char *out, int size);
void tr_node_lacks(char *out, int size);

/* A name and a speed for each network interface that is up: "eth0 10 Gbit/s, hfi1_0 100 Gb/sec". */
void tr_node_networks(char *out, int size);

#endif
