/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu.h"

#include <string.h>

#include "device/cpu/cpu_half.h"
#include "device/cpu/cpu_product.h"
#include "device/host.h"
#include "device/sizes.h"

enum { CHUNK = 512 };

static bool worth(int threads, struct tr_embed_sizes s)
{
    return tr_cpu_worth(threads, s.n * s.h);
}

void tr_cpu_embed(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *ids,
                  const struct tr_tensor *table, int64_t first)
{
    struct tr_embed_sizes s = tr_sizes_embed(y, ids, table);
    int threads = q->device->threads;
    size_t bytes = (size_t)(s.h * tr_dtype_bytes(y->dtype));

#pragma omp parallel for num_threads(threads) if (worth(threads, s))
    for (int64_t n = 0; n < s.n; n++) {
        int64_t row = tr_i32(ids)[n] - first;

        if (row >= 0 && row < s.r)
            tr_cpu_convert(y, n * s.h, table, row * s.h, s.h);
        else
            memset(tr_cpu_at(y, n * s.h), 0, bytes);
    }
}

/* y's row y_row += x's rows x_row[0 .. count - 1], which are summed in floats and in their
   order. */
static void add_to_row(const struct tr_tensor *y, int64_t y_row, const struct tr_tensor *x,
                       const uint64_t *x_row, int64_t count, int64_t h)
{
    float buffer[2][CHUNK];

    for (int64_t from = 0; from < h; from += CHUNK) {
        int64_t width = h - from < CHUNK ? h - from : CHUNK;
        float *sum = tr_cpu_in(y, y_row * h + from, width, buffer[0]);

        for (int64_t i = 0; i < count; i++) {
            int64_t row = (int64_t)(uint32_t)x_row[i];
            const float *one = tr_cpu_in(x, row * h + from, width, buffer[1]);

#pragma omp simd
            for (int64_t c = 0; c < width; c++)
                sum[c] += one[c];
        }
        tr_cpu_put(y, y_row * h + from, width, sum);
    }
}

/* Shell's sort with Knuth's steps, (3^k - 1) / 2. */
static void sort(uint64_t *key, int64_t n)
{
    int64_t step = 1;

    while (step < n / 3)
        step = 3 * step + 1;
    for (; step > 0; step /= 3)
        for (int64_t i = step; i < n; i++) {
            uint64_t moving = key[i];
            int64_t at = i;

            for (; at >= step && key[at - step] > moving; at -= step)
                key[at] = key[at - step];
            key[at] = moving;
        }
}

/*
 * The rows of dy that go to one row of the table become neighbours, so that one thread adds them in
 * their order and a sum in fp16 or bf16 is rounded once, not once for each time that the id occurs.
 * A key is (row of the table, row of dy), and keys of at most PIECE rows fit the scratch.
 */
void tr_cpu_embed_bwd(struct tr_queue *q, const struct tr_tensor *dtable,
                      const struct tr_tensor *dy, const struct tr_tensor *ids, int64_t first)
{
    enum { PIECE = 1 << 16 };
    _Static_assert(PIECE * sizeof(uint64_t) <= SCRATCH_FLOATS * sizeof(float), "scratch");
    struct tr_embed_sizes s = tr_sizes_embed(dy, ids, dtable);
    int threads = q->device->threads;
    uint64_t *key = (void *)q->device->scratch;

    for (int64_t from = 0; from < s.n; from += PIECE) {
        int64_t to = from + PIECE < s.n ? from + PIECE : s.n, keys = 0;

        for (int64_t n = from; n < to; n++) {
            int64_t row = tr_i32(ids)[n] - first;

            if (row >= 0 && row < s.r)
                key[keys++] = (uint64_t)row << 32 | (uint64_t)n;
        }
        sort(key, keys);
#pragma omp parallel for schedule(dynamic, 16) num_threads(threads) if (worth(threads, s))
        for (int64_t k = 0; k < keys; k++) {
            uint64_t row = key[k] >> 32;
            int64_t count = 1;

            if (k > 0 && key[k - 1] >> 32 == row)
                continue;
            while (k + count < keys && key[k + count] >> 32 == row)
                count++;
            add_to_row(dtable, (int64_t)row, dy, key + k, count, s.h);
        }
    }
}

void tr_cpu_add_rows(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *ids,
                     const struct tr_tensor *table)
{
    struct tr_embed_sizes s = tr_sizes_embed(y, ids, table);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (worth(threads, s))
    for (int64_t n = 0; n < s.n; n++) {
        uint64_t row = (uint64_t)tr_i32(ids)[n];

        TR_ASSERT((int64_t)row >= 0 && (int64_t)row < s.r);
        add_to_row(y, n, table, &row, 1, s.h);
    }
}
