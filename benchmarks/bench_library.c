/* SPDX-License-Identifier: BSD-3-Clause */
#include "bench_library.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "util/half.h"
#include "telemetry/timer.h"

const struct bench_library *const *bench_libraries(void)
{
    static const struct bench_library *const all[] = {
#ifdef TR_BENCH_BLAS
        &bench_blas,
#endif
#ifdef TR_BENCH_BLIS
        &bench_blis,
#endif
#ifdef TR_BENCH_DNNL
        &bench_dnnl,
#endif
        NULL};

    return all;
}

const char *bench_library_names(void)
{
    static char line[256];
    size_t used = 0;

    snprintf(line, sizeof line, "none");
    for (const struct bench_library *const *l = bench_libraries(); *l && used < sizeof line; l++)
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%s", used ? ", " : "",
                                 (*l)->name());
    return line;
}

/* Small numbers, none of them denormal, so that no sum of many repetitions overflows. */
static void *numbers(enum tr_dtype type, int64_t count)
{
    void *x = bench_memory(count, tr_dtype_bytes(type));

    for (int64_t j = 0; j < count; j++) {
        float value = 1e-3f * (float)(j % 977 - 488);

        if (type == TR_F32)
            ((float *)x)[j] = value;
        else
            ((uint16_t *)x)[j] = tr_bf16_from_float(value);
    }
    return x;
}

static double rate(const struct bench_library *l, struct bench_product p, double seconds)
{
    double least = INFINITY, until;

    if (l->open)
        l->open(&p);
    until = tr_now() + seconds;
    for (int i = 0; i < 3 || tr_now() < until; i++) {
        double began = tr_now();

        l->run(&p);
        least = fmin(least, tr_now() - began);
    }
    if (l->open)
        l->close(&p);
    return 2e-9 * (double)p.m * (double)p.n * (double)p.k / least;
}

struct bench_rates bench_library_rates(const struct bench_library *l, enum tr_dtype type, int64_t n,
                                       int64_t o, int64_t i, double seconds)
{
    void *x = numbers(type, n * i), *w = numbers(type, o * i), *y = numbers(type, n * o);
    void *dw = numbers(TR_F32, o * i);
    struct bench_rates r = {
        .forward = rate(l, (struct bench_product){n, o, i, false, true, type, type, x, w, y, NULL},
                        seconds),
        .dgrad = rate(l, (struct bench_product){n, i, o, false, false, type, type, y, w, x, NULL},
                      seconds),
        .wgrad = rate(l, (struct bench_product){o, i, n, true, false, type, TR_F32, y, x, dw, NULL},
                      seconds)};

    free(x);
    free(w);
    free(y);
    free(dw);
    return r;
}
