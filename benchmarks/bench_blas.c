/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench_library.h"

#include <stdio.h>

#include <cblas.h>

static const char *name(void)
{
#ifdef OPENBLAS_VERSION
    static char text[128];

    /* On a processor that it does not know it falls back to kernels of 2004; let the line say so. */
    snprintf(text, sizeof text, "OpenBLAS (%s)", openblas_get_corename());
    return text;
#else
    return "cblas";
#endif
}

static int threads(int wanted)
{
#ifdef OPENBLAS_VERSION
    openblas_set_num_threads(wanted);
    return openblas_get_num_threads();
#else
    (void)wanted;
    return 0;
#endif
}

static void run(struct bench_product *p)
{
    cblas_sgemm(CblasRowMajor, p->a_turned ? CblasTrans : CblasNoTrans,
                p->b_turned ? CblasTrans : CblasNoTrans, (int)p->m, (int)p->n, (int)p->k, 1.0f,
                p->a, (int)(p->a_turned ? p->m : p->k), p->b, (int)(p->b_turned ? p->k : p->n),
                0.0f, p->c, (int)p->n);
}

const struct bench_library bench_blas = {.name = name, .threads = threads, .run = run};
