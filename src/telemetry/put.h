/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TELEMETRY_PUT_H
#define TR_TELEMETRY_PUT_H

#include <stddef.h>

#include "util/attributes.h"

/* A text being written into buf[size]; `used` bytes of it so far, without the final zero. */
struct tr_text {
    char *buf;
    size_t size, used;
};

/* Append; asserts that it fits. */
void tr_put(struct tr_text *t, const char *fmt, ...) TR_PRINTF(2, 3);

#endif
