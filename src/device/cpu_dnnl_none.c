/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu_dnnl.h"

#include "util/status.h"

/* A build without oneDNN. */

struct tr_dnnl *tr_dnnl_open(int threads, bool always)
{
    (void)threads;
    (void)always;
    return NULL;
}

void tr_dnnl_close(struct tr_dnnl *d)
{
    TR_ASSERT(!d);
}

const char *tr_dnnl_name(const struct tr_dnnl *d)
{
    (void)d;
    return "none";
}

void tr_dnnl_versions(char *built, size_t built_size, char *here, size_t here_size)
{
    if (built_size > 0)
        built[0] = 0;
    if (here_size > 0)
        here[0] = 0;
}

void tr_dnnl_multiply(struct tr_dnnl *d, int thread, const struct tr_view *a, const struct tr_view *b,
                      int64_t i, int64_t m, int64_t j, int64_t n, int64_t k, float *c,
                      int64_t c_stride, bool add)
{
    (void)thread, (void)a, (void)b, (void)i, (void)m, (void)j, (void)n, (void)k, (void)c;
    (void)c_stride, (void)add;
    TR_ASSERT(d);
}
