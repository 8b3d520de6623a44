/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef TR_BENCH_BLAS
#include <cblas.h>
#endif

#include "util/timer.h"

#ifdef TR_BENCH_BLAS

const char *bench_blas(void)
{
#ifdef OPENBLAS_VERSION
    static char name[128];

    /* On a processor that it does not know it falls back to kernels of 2004; let the line say so. */
    snprintf(name, sizeof name, "OpenBLAS, kernels for %s", openblas_get_corename());
    return name;
#else
    return "cblas";
#endif
}

struct product {
    int64_t n, o, i;
    float *x, *w, *y; /* [n,i] [o,i] [n,o] */
};

static void forward(const struct product *p)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)p->n, (int)p->o, (int)p->i, 1.0f,
                p->x, (int)p->i, p->w, (int)p->i, 0.0f, p->y, (int)p->o);
}

static void dgrad(const struct product *p)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)p->n, (int)p->i, (int)p->o, 1.0f,
                p->y, (int)p->o, p->w, (int)p->i, 0.0f, p->x, (int)p->i);
}

static void wgrad(const struct product *p)
{
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)p->o, (int)p->i, (int)p->n, 1.0f,
                p->y, (int)p->o, p->x, (int)p->i, 1.0f, p->w, (int)p->i);
}

/* Small numbers, none of them denormal, so that no sum of many repetitions overflows. */
static float *numbers(int64_t count)
{
    float *x = bench_memory(count, sizeof *x);

    for (int64_t j = 0; j < count; j++)
        x[j] = 1e-3f * (float)(j % 977 - 488);
    return x;
}

static double rate(const struct product *p, void (*product)(const struct product *), double seconds)
{
    double least = INFINITY, until = tr_now() + seconds;

    for (int i = 0; i < 3 || tr_now() < until; i++) {
        double began = tr_now(), took;

        product(p);
        took = tr_now() - began;
        if (took < least)
            least = took;
    }
    return 2e-9 * (double)p->n * (double)p->o * (double)p->i / least;
}

struct bench_sgemm bench_sgemm(int64_t n, int64_t o, int64_t i, double seconds)
{
    struct product p = {n, o, i, numbers(n * i), numbers(o * i), numbers(n * o)};
    struct bench_sgemm r;

    /* In this order each has operands that no product has written yet, but for y and x. */
    r.wgrad = rate(&p, wgrad, seconds);
    r.forward = rate(&p, forward, seconds);
    r.dgrad = rate(&p, dgrad, seconds);
    free(p.x);
    free(p.w);
    free(p.y);
    return r;
}

#else

const char *bench_blas(void)
{
    return NULL;
}

struct bench_sgemm bench_sgemm(int64_t n, int64_t o, int64_t i, double seconds)
{
    (void)n, (void)o, (void)i, (void)seconds;
    tr_die(TR_ERESOURCE, "this benchmark was built without a BLAS to compare with");
}

#endif
