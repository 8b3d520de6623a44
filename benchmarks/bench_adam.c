/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_adam [MILLIONS [THREADS]]: AdamW and 8-bit Adam of so many million parameters (64) on the processor, and the rate
 * at which its memory copies.
 *
 * Each row is timed in turn with a copy of as many bytes by the same threads, REPEATS times, and share is the median of
 * these ratios: bytes that AdamW reads and writes (p, m, v and g read; p, m and v written; 2 bytes of the copy in bf16)
 * a second, over bytes that a copy reads and writes a second.  8-bit Adam has blocks of 256, and in place of m and v 2 bytes
 * and 8/256.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench_device.h"
#include "util/clock.h"

enum { REPEATS = 11, MILLION = 1000000 };

/* What is updated. */
enum kind { ADAMW, HALF, EIGHT };
static const char *const names[] = {"adamw", "adamw, weights in bf16", "8-bit adam"};
static const double bytes_each[] = {28.0, 30.0, 12.0 + 2.0 * (2.0 + 8.0 / 256.0)};
static const struct tr_code_blocks blocks = {256, 256};

struct adam {
    struct tr_queue q;
    struct tr_tensor p, m, v, g, half, m8, v8;
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

static double update(struct adam *a, enum kind kind)
{
    const double begin = tr_now();

    if (kind == EIGHT)
        a->q.on->adam8(&a->q, NULL, &a->p, &a->m8, &a->v8, &a->g, tr_bench_adamw, blocks);
    else
        a->q.on->adamw(&a->q, kind == HALF ? &a->half : NULL, &a->p, &a->m, &a->v, &a->g,
                       tr_bench_adamw);
    return tr_now() - begin;
}

static void row(struct adam *a, enum kind kind, int argc, char **argv)
{
    const double moved = bytes_each[kind] * (double)a->n, copied = 2.0 * (double)a->bytes;
    double ours[REPEATS], theirs[REPEATS], share[REPEATS], seconds;
    json_t *line = bench_line("adam", argc, argv);

    for (int i = -1; i < REPEATS; i++) { /* the first warms up */
        const double u = update(a, kind), c = copy(a);

        if (i < 0)
            continue;
        ours[i] = u;
        theirs[i] = c;
        share[i] = moved / u / (copied / c);
    }
    json_object_set_new(line, "what", json_string(names[kind]));
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
    a.m8 = tr_u8_1(bench_memory(tr_code_bytes(blocks, a.n), 1), tr_code_bytes(blocks, a.n));
    a.v8 = tr_u8_1(bench_memory(tr_code_bytes(blocks, a.n), 1), tr_code_bytes(blocks, a.n));
    memset(a.m8.data, 0, (size_t)tr_tensor_bytes(&a.m8));
    memset(a.v8.data, 0, (size_t)tr_tensor_bytes(&a.v8));
    a.from = bench_memory(a.bytes, 1);
    a.to = bench_memory(a.bytes, 1);
    memset(a.from, 1, (size_t)a.bytes);
    for (int kind = ADAMW; kind <= EIGHT; kind++)
        row(&a, (enum kind)kind, argc, argv);
    a.q.on->close(a.q.device);
    free(a.m8.data);
    free(a.v8.data);
    free(a.from);
    free(a.to);
    return 0;
}
