/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "device/device.h"

/*
 * What is small is computed by the calling thread alone, however many there are: on a busy machine waiting for
 * another costs a hundred times what it saves.  t_ops compares the bits.
 */
enum { WIDE = 192, LONG = 512, FLAT = 1 << 16, ROOM = 4 * WIDE * WIDE };

static struct tr_tensor of(int64_t rows, int64_t columns)
{
    float *p = aligned_alloc(256, ROOM * sizeof *p);

    assert_non_null(p);
    assert_true(rows * columns <= ROOM);
    for (int i = 0; i < ROOM; i++)
        p[i] = (float)(i % 7) - 3.0f;
    return tr_tensor_2(p, TR_F32, rows, columns);
}

/* Parallel regions that ask for more than one thread, as gcc's OpenMP is told of them. */
static int regions;

typedef void body(void *);
void GOMP_parallel(body *fn, void *data, unsigned threads, unsigned flags);
void GOMP_parallel_loop_nonmonotonic_dynamic(body *fn, void *data, unsigned threads, long start,
                                             long end, long step, long chunk, unsigned flags);

void GOMP_parallel(body *fn, void *data, unsigned threads, unsigned flags)
{
    void (*next)(body *, void *, unsigned, unsigned);

    *(void **)&next = dlsym(RTLD_NEXT, "GOMP_parallel");
    regions += threads != 1;
    next(fn, data, threads, flags);
}

void GOMP_parallel_loop_nonmonotonic_dynamic(body *fn, void *data, unsigned threads, long start,
                                             long end, long step, long chunk, unsigned flags)
{
    void (*next)(body *, void *, unsigned, long, long, long, long, unsigned);

    *(void **)&next = dlsym(RTLD_NEXT, "GOMP_parallel_loop_nonmonotonic_dynamic");
    regions += threads != 1;
    next(fn, data, threads, start, end, step, chunk, flags);
}

static void multiply(struct tr_queue *q, int64_t size)
{
    const struct tr_tensor y = of(size, size), x = of(size, size), w = of(size, size);

    q->on->linear(q, &y, NULL, &x, &w, NULL, TR_ACT_NONE);
    q->on->linear_dgrad(q, &y, &x, &w, NULL, TR_ACT_NONE);
    q->on->linear_wgrad(q, &w, NULL, &y, &x, false);
    free(y.data);
    free(x.data);
    free(w.data);
}

/* Two heads of width 8. */
static void attend(struct tr_queue *q, int64_t tokens)
{
    enum { HEADS = 2, D = 8 };
    const struct tr_attention_how how = {.scale = 0.25f};
    const struct tr_dropout none = {.p = 0.0};
    const struct tr_tensor qkv = of(tokens, 3 * HEADS * D), dqkv = of(tokens, 3 * HEADS * D);
    const struct tr_tensor ctx = of(tokens, HEADS * D), dctx = of(tokens, HEADS * D);
    const struct tr_tensor some = of(1, HEADS * tokens), keys = of(1, 2 * HEADS * tokens * D);
    const struct tr_tensor lse = tr_f32_3(some.data, 1, HEADS, tokens);
    const struct tr_tensor cache = tr_tensor_3(keys.data, TR_F32, (int64_t)2 * HEADS, tokens, D);
    int32_t at[LONG];
    const struct tr_tensor place = tr_i32_1(at, tokens);

    for (int i = 0; i < tokens; i++)
        at[i] = i;
    q->on->attention(q, &ctx, &lse, &qkv, NULL, how, none);
    q->on->attention_bwd(q, &dqkv, &dctx, &ctx, &lse, &qkv, NULL, how, none);
    q->on->attention_cached(q, &ctx, &cache, &qkv, &place, how);
    free(qkv.data);
    free(dqkv.data);
    free(ctx.data);
    free(dctx.data);
    free(some.data);
    free(keys.data);
}

static void activate(struct tr_queue *q, int64_t n)
{
    const struct tr_tensor y = of(1, n), x = of(1, n);

    q->on->activate(q, &y, &x, TR_ACT_GELU);
    free(y.data);
    free(x.data);
}

static void alone(void **state)
{
    struct tr_queue q = {.on = tr_backend_find("cpu")};

    (void)state;
#if defined __clang__ || !defined _OPENMP
    skip(); /* clang's has other entries */
#endif
    assert_ok(q.on->open(&(struct tr_device_how){.threads = 3, .gemm = TR_GEMM_OWN}, &q.device));
    attend(&q, LONG); /* takes memory, which all threads touch */
    regions = 0;
    multiply(&q, 128);
    assert_int_equal(regions, 0);
    attend(&q, WIDE);
    assert_int_equal(regions, 0);
    activate(&q, FLAT);
    assert_int_equal(regions, 0);
    multiply(&q, WIDE);
    assert_int_equal(regions, 3);
    attend(&q, LONG);
    assert_int_equal(regions, 6);
    activate(&q, FLAT + 1);
    assert_int_equal(regions, 7);
    q.on->close(q.device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(alone)};

    return run_tap(tests);
}
