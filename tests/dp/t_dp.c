/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <math.h>

#include "dp/dp.h"
#include "util/rng.h"
#include "util/timer.h"

/* ---- the plan ---- */

static void plan_by_hand(void **state)
{
    static const int64_t boundary[] = {10, 30, 35, 70, 71};
    struct tr_bucket *b;

    (void)state;
    /* 30 is the first boundary from 20 on; then 20 more would be 50, so 70; the rest is left. */
    assert_all(tr_buckets_plan(boundary, 5, 20, &b) == 3);
    assert_all(b[0].first == 0 && b[0].count == 30);
    assert_all(b[1].first == 30 && b[1].count == 40);
    assert_all(b[2].first == 70 && b[2].count == 1);
    free(b);
    assert_all(tr_buckets_plan(boundary, 5, 1000, &b) == 1);
    assert_all(b[0].first == 0 && b[0].count == 71);
    free(b);
    assert_all(tr_buckets_plan(boundary, 5, 1, &b) == 5);
    free(b);
    assert_all(tr_buckets_plan(boundary, 4, 35, &b) == 2);
    assert_all(b[1].first == 35 && b[1].count == 35);
    free(b);
}

enum { PARAMS = 40 };

/* Parameters of 1 to 3000 elements, the same on all ranks; returns how many elements. */
static int64_t make_params(int64_t boundary[PARAMS], uint64_t seed)
{
    struct tr_rng rng = tr_rng_key(seed, TR_STREAM_INIT, 0, 0);
    int64_t at = 0;

    for (int i = 0; i < PARAMS; i++) {
        at += 1 + tr_rng_u32(rng, (uint64_t)i) % 3000;
        boundary[i] = at;
    }
    return at;
}

/* Buckets follow one another, end at parameters, and close as early as they may. */
static bool plan_is_right(const int64_t *boundary, int64_t at_least)
{
    struct tr_bucket *b;
    int n = tr_buckets_plan(boundary, PARAMS, at_least, &b), p = 0;
    bool right = n > 0;

    for (int i = 0; i < n && right; i++) {
        right = b[i].first == (p > 0 ? boundary[p - 1] : 0) && b[i].count > 0;
        while (p < PARAMS && boundary[p] < b[i].first + at_least)
            p++;
        p += p < PARAMS;
        right = right && b[i].first + b[i].count == boundary[p - 1];
    }
    right = right && p == PARAMS;
    free(b);
    return right;
}

static void plans(void **state)
{
    int64_t boundary[PARAMS];
    bool right = true;

    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        make_params(boundary, seed);
        for (int64_t at_least = 1; at_least < 100000; at_least = at_least * 3 + 1)
            right = right && plan_is_right(boundary, at_least);
    }
    assert_all(right);
}

/* ---- sums ---- */

/* One replica's half of data parallelism: a flat buffer, its parameters and its buckets. */
struct replica {
    int64_t boundary[PARAMS], elems;
    struct tr_bucket *bucket;
    int buckets;
    struct tr_tensor grads;
    struct tr_dp *dp;
};

static void replica_open(struct replica *r, bool overlap)
{
    r->elems = make_params(r->boundary, 3);
    r->buckets = tr_buckets_plan(r->boundary, PARAMS, 6000, &r->bucket);
    r->grads = tr_f32_1(malloc((size_t)r->elems * sizeof(float)), r->elems);
    assert_all(r->buckets > 7);
    assert_all_ok(tr_dp_open(&world, &r->grads, r->bucket, r->buckets, overlap, &r->dp));
    /* It must have copied them. */
    memset(r->bucket, 0, (size_t)r->buckets * sizeof *r->bucket);
}

static void replica_close(struct replica *r)
{
    tr_dp_close(r->dp);
    free(r->bucket);
    free(r->grads.data);
}

/* Whole numbers: their sums are exact in any order. */
static float gradient(int rank, int step, int64_t i)
{
    return (float)((rank + 2) * (i % 97) - 31 * rank + step);
}

static void clear(struct replica *r)
{
    for (int64_t i = 0; i < r->elems; i++)
        tr_f32(&r->grads)[i] = NAN;
}

static void backward(struct replica *r, int param, int step)
{
    for (int64_t i = param > 0 ? r->boundary[param - 1] : 0; i < r->boundary[param]; i++)
        tr_f32(&r->grads)[i] = gradient(world.rank, step, i);
}

static bool summed(const struct replica *r, int step)
{
    for (int64_t i = 0; i < r->elems; i++) {
        float sum = 0.0F;

        for (int rank = 0; rank < world.size; rank++)
            sum += gradient(rank, step, i);
        if (tr_f32(&r->grads)[i] != sum)
            return false;
    }
    return true;
}

/* As a backward pass does it: what is not complete yet is rubbish, and must not be touched. */
static void as_they_complete(bool overlap)
{
    struct replica r;

    replica_open(&r, overlap);
    for (int step = 0; step < 3; step++) {
        clear(&r);
        for (int p = 0; p < PARAMS; p++) {
            backward(&r, p, step);
            tr_dp_ready(r.dp, NULL, r.boundary[p]);
        }
        tr_dp_finish(r.dp, NULL);
        assert_all(summed(&r, step));
    }
    replica_close(&r);
}

static void overlapped(void **state)
{
    (void)state;
    as_they_complete(true);
}

static void not_overlapped(void **state)
{
    (void)state;
    as_they_complete(false);
}

/* Any calls, other ones on each rank: too few, repeated, going back, beyond the end; and then
   another sum in the group of the replicas, before the buckets are finished. */
static void any_calls(void **state)
{
    struct tr_rng rng = tr_rng_key(5, TR_STREAM_INIT, 0, world.rank);
    double loss;
    struct tr_tensor l = tr_f64_1(&loss, 1);
    struct tr_pending pending;
    struct replica r;

    (void)state;
    replica_open(&r, true);
    for (int step = 0; step < 10; step++) {
        for (int p = 0; p < PARAMS; p++)
            backward(&r, p, step);
        for (uint32_t i = 0; i < tr_rng_u32(rng, (uint64_t)step) % 12; i++)
            tr_dp_ready(r.dp, NULL, tr_rng_u32(rng, 100 * (uint64_t)step + i + 10) % (2 * r.elems));
        loss = 1.0;
        world.via->allreduce_start(&world, NULL, &l, TR_SUM, &pending);
        world.via->finish(&world, NULL, &pending);
        assert_all(loss == (double)world.size);
        tr_dp_finish(r.dp, NULL);
        assert_all(summed(&r, step));
    }
    replica_close(&r);
}

/* Without overlap nothing starts before finish(): gradients of another pass may still be added. */
static void waits_for_finish(void **state)
{
    struct replica r;
    bool untouched = true;

    (void)state;
    replica_open(&r, false);
    for (int p = 0; p < PARAMS; p++)
        backward(&r, p, 0);
    for (int i = 0; i < 20; i++)
        tr_dp_ready(r.dp, NULL, r.elems);
    world.via->barrier(&world);
    for (int64_t i = 0; i < r.elems; i++)
        untouched = untouched && tr_f32(&r.grads)[i] == gradient(world.rank, 0, i);
    assert_all(untouched);
    tr_dp_finish(r.dp, NULL);
    assert_all(summed(&r, 0));
    replica_close(&r);
}

/* With overlap ready() alone brings all buckets to their end, while nobody waits. */
static void makes_progress(void **state)
{
    struct replica r;
    double until = tr_now() + 60.0;

    (void)state;
    replica_open(&r, true);
    for (int p = 0; p < PARAMS; p++)
        backward(&r, p, 0);
    while (!summed(&r, 0) && tr_now() < until)
        tr_dp_ready(r.dp, NULL, r.elems);
    assert_all(summed(&r, 0));
    tr_dp_finish(r.dp, NULL);
    assert_all(summed(&r, 0));
    replica_close(&r);
}

/* Sums that depend on the order of the ranks: the same bits with and without overlap, on all
   ranks. */
static void same_bits(void **state)
{
    struct replica r[2];
    size_t bytes;

    (void)state;
    for (int o = 0; o < 2; o++) {
        replica_open(&r[o], o == 1);
        for (int p = 0; p < PARAMS; p++) {
            for (int64_t i = p > 0 ? r[o].boundary[p - 1] : 0; i < r[o].boundary[p]; i++)
                tr_f32(&r[o].grads)[i] = 1.0F / (float)(3 + i % 101 + 7 * world.rank);
            tr_dp_ready(r[o].dp, NULL, r[o].boundary[p]);
        }
        tr_dp_finish(r[o].dp, NULL);
    }
    bytes = (size_t)r[0].elems * sizeof(float);
    assert_all(memcmp(r[0].grads.data, r[1].grads.data, bytes) == 0);
    world.via->broadcast(&world, NULL, &r[0].grads, 0);
    assert_all(memcmp(r[0].grads.data, r[1].grads.data, bytes) == 0);
    replica_close(&r[0]);
    replica_close(&r[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_by_hand),   cmocka_unit_test(plans),
        cmocka_unit_test(overlapped),     cmocka_unit_test(not_overlapped),
        cmocka_unit_test(any_calls),      cmocka_unit_test(waits_for_finish),
        cmocka_unit_test(makes_progress), cmocka_unit_test(same_bits),
    };
    return run_mpi_tap(tests);
}
