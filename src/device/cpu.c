/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu.h"

#include <stdio.h>

#include "device/host.h"
#include "device/ref.h"

static enum tr_status cpu_open(int threads, struct tr_device **out)
{
    TR_TRY(tr_host_open(threads, out));
    snprintf((*out)->line, sizeof(*out)->line, "cpu: %d threads", (*out)->threads);
    return TR_OK;
}

static const char *describe(const struct tr_device *d)
{
    return d->line;
}

const struct tr_backend tr_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = tr_host_close,
    .threads = tr_host_threads,
    .describe = describe,
    .reserve = tr_host_reserve,
    .wait = tr_host_wait,
#define OP(name, tol, params) .name = tr_ref_##name,
#include "device/ops.def"
#undef OP
};
