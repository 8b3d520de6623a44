/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TESTS_DEVICE_EACH_H
#define TR_TESTS_DEVICE_EACH_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Cases that are reported one by one, on a device that may end the process: they run one after the other in a
 * child, and when that ends before the last, another child goes on with the case after the one it died in.
 * Each case is a line of TAP, and what is wrong with it stands in lines below.
 */
struct each {
    int count;
    /* Called first in each child; ends it where the device cannot be opened. */
    void (*open)(void *ctx);
    /* Case i.  Writes what it is into `name` as soon as it knows; NULL when all is well, else a sentence. */
    const char *(*run)(void *ctx, int i, char *name, size_t size);
    void (*close)(void *ctx);
    void *ctx;
};

/* A case may take `seconds`, and EACH_DEATHS children may die; with `here` there is no child, and the first
   case that ends the process is the last.  0 when no case failed, else 1. */
enum { EACH_DEATHS = 8 };
int run_each(const struct each *e, unsigned seconds, bool here);

#endif
