/* SPDX-License-Identifier: BSD-3-Clause */
#include "telemetry/put.h"

#include <stdarg.h>
#include <stdio.h>

#include "util/status.h"

void tr_put(struct tr_text *t, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(t->buf + t->used, t->size - t->used, fmt, args);
    va_end(args);
    TR_ASSERT(n >= 0 && (size_t)n < t->size - t->used);
    t->used += (size_t)n;
}
