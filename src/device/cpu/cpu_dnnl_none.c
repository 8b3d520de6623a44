/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu_dnnl.h"

#include "util/status.h"

/* A build without oneDNN. */

enum tr_status tr_dnnl_open(int threads, enum tr_gemm_by by, struct tr_dnnl **out)
{
    (void)threads;
    *out = NULL;
    if (by == TR_GEMM_ONEDNN)
        return TR_FAIL(
            TR_ERESOURCE,
            "--cpu-gemm onednn needs oneDNN, and this trireme was built without it: configure "
            "--with-dnnl=DIR, or use auto or own");
    return TR_OK;
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

void tr_dnnl_multiply(struct tr_dnnl *d, int thread, const struct tr_view *a,
                      const struct tr_view *b, int64_t i, int64_t m, int64_t j, int64_t n,
                      int64_t k, float *c, int64_t c_stride, bool add)
{
    (void)thread, (void)a, (void)b, (void)i, (void)m, (void)j, (void)n, (void)k, (void)c;
    (void)c_stride, (void)add;
    TR_ASSERT(d);
}
