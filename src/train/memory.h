/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_MEMORY_H
#define TR_TRAIN_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "config/machine.h"
#include "util/arena.h"

/*
 * The parts of a rank's memory, as `trireme plan` and `trireme train --dry-run` both name them and
 * in this order: the labels of the arena, then PART(symbol, "name"), which no arena holds and which
 * only a machine profile tells.
 */
#define TR_MEMORY_PARTS_OF(PART)    \
    PART(KERNELS, "kernel scratch") \
    PART(CONTEXT, "context")        \
    PART(NCCL, "nccl")

enum tr_memory_part {
    TR_MEMORY_ARENA = TR_LABELS - 1,
#define PART(symbol, name) TR_MEMORY_##symbol,
    TR_MEMORY_PARTS_OF(PART)
#undef PART
        TR_MEMORY_PARTS
};

const char *tr_memory_part_name(int part);

/* In bytes; of the device where nothing else is said. */
struct tr_memory {
    double part[TR_MEMORY_PARTS];
    bool unknown[TR_MEMORY_PARTS]; /* for want of a machine; such a part is 0 in `part` */
    double total;                  /* of the parts that are known */
    double optimizer_files;        /* of files of an offloaded optimizer */
    double host_part[TR_LABELS],
        host_total; /* of the host's memory, in the arena beside the device's */
    /* What samples cost besides all that: of the host's memory, of the activation caches of
       compressed links (pipeline/links.h) and of the orders of --n-epochs (data/epochs.h), and of
       files, when all samples have been seen. */
    double host, files;
};

/* Of the rank of a tr_run_dry(); `m` may be NULL. */
struct tr_run;
void tr_memory_of(const struct tr_run *r, const struct tr_machine *m, struct tr_memory *out);

/* Bytes of a GPU that the context takes, and NCCL where there are several ranks. */
double tr_memory_libraries(const struct tr_machine *m, int world);

/* The sentence that belongs below a total that lacks what is unknown, without a newline; NULL where
   all is known. */
const char *tr_memory_lacks(const struct tr_memory *x);

#endif
