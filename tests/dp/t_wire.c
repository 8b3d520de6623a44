/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <math.h>

#include "config/config.h"
#include "device/cpu/cpu.h"
#include "dp/buckets.h"
#include "util/file.h"

/*
 * Gradients in fp32 whose sums are taken in fp16 or bf16 (--dp-wire): those of two replicas are the numbers that numpy has
 * (tests/golden/make_wire.py), to the bit, all-reduced and scattered, while the backward pass goes on and after it.
 */
enum { N = 192 };

static float gradient(int replica, int i)
{
    const float mantissa = (float)((i * 7919 + replica * 104729) % 4093 - 2046) / 2048.0F;

    return mantissa * exp2f((float)(i % 43 - 25));
}

/* The sum of element `i` of the file. */
static bool find_sum(const char *text, int i, bool brain, double *sum)
{
    char start[32];
    const char *at;
    double half, bf16;

    snprintf(start, sizeof start, "\n%d ", i);
    at = strstr(text, start);
    if (!at || sscanf(at + strlen(start), "%lf %lf", &half, &bf16) != 2)
        return false;
    *sum = brain ? bf16 : half;
    return true;
}

struct sums {
    float grads[N], values[N];
    uint16_t wire[N];
};

/* In three buckets, of which a first call finds one complete. */
static void run(struct sums *s, enum tr_dtype type, bool sharded, bool overlap)
{
    const struct tr_tensor grads = tr_f32_1(s->grads, N), values = tr_f32_1(s->values, N);
    const int64_t end = N;
    struct tr_queue q = {.on = &tr_cpu};
    const struct tr_buckets_how how = {
        .overlap_reduce = overlap, .sharded = sharded, .wire = tr_tensor_1(s->wire, type, N)};
    struct tr_bucket *bucket;
    struct tr_buckets *x;
    struct tr_comm group;
    const int n = tr_buckets_plan(&end, 1, 64, 64, &bucket);

    for (int i = 0; i < N; i++)
        s->grads[i] = gradient(world.rank, i);
    assert_all_ok(tr_cpu.open(&(struct tr_device_how){.threads = 1}, &q.device));
    assert_all_ok(world.via->split(&world, 0, world.rank, "dp", &group));
    assert_all_ok(tr_buckets_open(&group, &grads, &values, bucket, n, how, &x));
    assert_all(n == 3);
    tr_buckets_ready(x, &q, 64);
    tr_buckets_finish(x, &q);
    tr_buckets_close(x);
    group.via->release(&group);
    tr_cpu.close(q.device);
    free(bucket);
}

static bool as_in_file(const struct sums *s, const char *text, enum tr_dtype type, bool sharded)
{
    for (int i = 0; i < N; i++) {
        double sum;

        if (sharded && i % 64 / 32 != world.rank)
            continue;
        if (!find_sum(text, i, type == TR_BF16, &sum) || (double)s->grads[i] != sum)
            return false;
    }
    return true;
}

static void sums(void **state)
{
    const char *srcdir = getenv("srcdir");
    char *path = tr_format("%s/tests/golden/wire.txt", srcdir ? srcdir : "."), *text;

    (void)state;
    assert_all_ok(tr_file_text(path, 1 << 16, &text));
    for (int i = 0; i < 8; i++) {
        const enum tr_dtype type = i & 1 ? TR_BF16 : TR_F16;
        struct sums s = {0};

        run(&s, type, i & 2, i & 4);
        assert_all(as_in_file(&s, text, type, i & 2));
    }
    free(text);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums)};

    return run_mpi_tap(tests);
}
