/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_adam [MILLIONS [THREADS]]: AdamW of so many million parameters (64) on the processor, and the rate at which its
 * memory copies.
 *
 * Each row is timed in turn with a copy of as many bytes by the same threads, REPEATS times, and share is the median of
 * these ratios: bytes that AdamW reads and writes (p, m, v and g read; p, m and v written; 2 bytes of the copy in bf16)
 * a second, over bytes that a copy reads and writes a second.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench_device.h"
#include "util/clock.h"

enum { REPEATS = 11, MILLION = 1000000 };

struct adam {
    struct tr_queue q;
    struct tr_tensor p, m, v, g, half;
    char *from, *to;
    int64_t n, bytes;
    int threads;
};

static double copy(struct adam *a)
{
    const double begin = tr_now();
    const int64_t piece = 1 << 20;

#pragma omp parallel for num_threads(a->threads)
    for (int64_t i = 0; i < a->bytes; i += piece)
        memcpy(a->to + i, a->from + i, (size_t)(a->bytes - i < piece ? a->bytes - i : piece));
    return tr_now() - begin;
}

static double update(struct adam *a, bool half)
{
    const double begin = tr_now();

    a->q.on->adamw(&a->q, half ? &a->half : NULL, &a->p, &a->m, &a->v, &a->g,
                   (struct tr_adamw){.lr = 1e-4f,
                                     .beta1 = 0.9f,
                                     .beta2 = 0.999f,
                                     .eps = 1e-8f,
                                     .decay = 0.01f,
                                     .bias1 = 0.1f,
                                     .bias2 = 1e-3f,
                                     .grad_scale = 1.0f});
    return tr_now() - begin;
}

static void row(struct adam *a, bool half, int argc, char **argv)
{
    const double moved = (half ? 30.0 : 28.0) * (double)a->n, copied = 2.0 * (double)a->bytes;
    double ours[REPEATS], theirs[REPEATS], share[REPEATS], seconds;
    json_t *line = bench_line("adam", argc, argv);

    for (int i = -1; i < REPEATS; i++) { /* the first warms up */
        const double u = update(a, half), c = copy(a);

        if (i < 0)
            continue;
        ours[i] = u;
        theirs[i] = c;
        share[i] = moved / u / (copied / c);
    }
    json_object_set_new(line, "what", json_string(half ? "adamw, weights in bf16" : "adamw"));
    bench_add_side(line, a->threads, "fp32", "trireme's");
    json_object_set_new(line, "parameters", json_integer(a->n));
    seconds = tr_bench_times_of(ours, REPEATS).median;
    json_object_set_new(line, "seconds_median", json_real(seconds));
    json_object_set_new(line, "gbytes_per_second", json_real(moved / seconds / 1e9));
    json_object_set_new(line, "copy_gbytes_per_second",
                        json_real(copied / tr_bench_times_of(theirs, REPEATS).median / 1e9));
    json_object_set_new(line, "share", json_real(tr_bench_times_of(share, REPEATS).median));
    bench_print(line);
}

int main(int argc, char **argv)
{
    const long millions = argc > 1 ? strtol(argv[1], NULL, 10) : 64;
    const long threads = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
    struct adam a = {0};

    if (argc > 3 || millions < 1 || millions > 10000 || threads < 0 || threads > 4096) {
        fprintf(stderr, "usage: bench_adam [MILLIONS [THREADS]]\n");
        return 64;
    }
    a.q = bench_queue((int)threads);
    a.threads = a.q.on->threads(a.q.device);
    a.n = millions * MILLION;
    a.bytes = 8 * a.n;
    a.p = bench_matrix(&a.q, TR_F32, 1, a.n);
    a.m = bench_matrix(&a.q, TR_F32, 1, a.n);
    a.v = bench_matrix(&a.q, TR_F32, 1, a.n);
    a.g = bench_matrix(&a.q, TR_F32, 1, a.n);
    a.half = bench_matrix(&a.q, TR_BF16, 1, a.n);
    a.q.on->fill(&a.q, &a.v, 0.5f);
    a.from = bench_memory(a.bytes, 1);
    a.to = bench_memory(a.bytes, 1);
    memset(a.from, 1, (size_t)a.bytes);
    row(&a, false, argc, argv);
    row(&a, true, argc, argv);
    a.q.on->close(a.q.device);
    free(a.from);
    free(a.to);
    return 0;
}
