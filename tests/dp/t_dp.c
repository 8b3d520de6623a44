/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <math.h>

#include "dp/buckets.h"
#include "util/half.h"
#include "util/rng.h"
#include "util/clock.h"

/* ---- the plan ---- */

static void plan_by_hand(void **state)
{
    static const int64_t one[] = {70}, three[] = {10, 70, 100};
    struct tr_bucket *b;

    (void)state;
    /* 7 units of 10, at least 2.5 in each: two buckets, the first longer. */
    assert_all(tr_buckets_plan(one, 1, 25, 10, &b) == 2);
    assert_all(b[0].first == 0 && b[0].count == 40);
    assert_all(b[1].first == 40 && b[1].count == 30);
    free(b);
    assert_all(tr_buckets_plan(one, 1, 1000, 10, &b) == 1);
    assert_all(b[0].first == 0 && b[0].count == 70);
    free(b);
    assert_all(tr_buckets_plan(one, 1, 1, 10, &b) == 7);
    free(b);
    /* Regions of 1, 6 and 3 units: no bucket is in two of them. */
    assert_all(tr_buckets_plan(three, 3, 30, 10, &b) == 4);
    assert_all(b[0].first == 0 && b[0].count == 10);
    assert_all(b[1].first == 10 && b[1].count == 30);
    assert_all(b[2].first == 40 && b[2].count == 30);
    assert_all(b[3].first == 70 && b[3].count == 30);
    free(b);
}

/* Buckets follow one another and are as equal, as many and as large as they may be. */
static bool plan_is_right(int64_t units, int64_t at_least, int64_t unit)
{
    struct tr_bucket *b;
    const int64_t total = units * unit;
    int n = tr_buckets_plan(&total, 1, at_least, unit, &b);
    int64_t at = 0;
    bool right = n > 0 && (n + 1) * ((at_least + unit - 1) / unit) > units;

    for (int i = 0; i < n; i++) {
        right = right && b[i].first == at && b[i].count % unit == 0;
        right = right && (n == 1 || b[i].count >= at_least);
        right = right && b[0].count - b[i].count <= unit && b[0].count >= b[i].count;
        at += b[i].count;
    }
    free(b);
    return right && at == total;
}

static void plans(void **state)
{
    bool right = true;

    (void)state;
    for (int64_t units = 1; units < 60; units++)
        for (int64_t unit = 1; unit < 2000; unit = 5 * unit + 3)
            for (int64_t at_least = 1; at_least < 100000; at_least = 3 * at_least + 1)
                right = right && plan_is_right(units, at_least, unit);
    assert_all(right);
}

/* Every element is owned by one replica when sharded, and by all otherwise. */
static void owned(void **state)
{
    static const int64_t end[] = {24 * 5, 24 * 30};
    struct tr_bucket *b, *mine;
    char owners[24 * 30];

    (void)state;
    for (int replicas = 1; replicas <= 8; replicas++) {
        int n = tr_buckets_plan(end, 2, 100, 24, &b);
        bool shards = 24 % replicas == 0, right = true;

        for (int sharded = 0; sharded <= shards; sharded++) {
            memset(owners, 0, sizeof owners);
            for (int rank = 0; rank < replicas; rank++) {
                int64_t before = 0;
                int spans = tr_buckets_owned(b, n, rank, replicas, sharded, &mine);

                right = right && spans == (sharded ? n : 1);
                for (int i = 0; i < spans; i++) {
                    right = right && mine[i].first >= before && mine[i].count > 0;
                    before = mine[i].first + mine[i].count;
                    for (int64_t k = mine[i].first; k < before; k++)
                        owners[k]++;
                }
                free(mine);
            }
            for (size_t k = 0; k < sizeof owners; k++)
                right = right && owners[k] == (sharded ? 1 : replicas);
        }
        assert_all(right);
        free(b);
    }
}

/* ---- transfers ---- */

/* Ways of a replica, all of which must give the same. */
static const struct tr_buckets_how ways[] = {
    {.overlap_reduce = false},
    {.overlap_reduce = true},
    {.overlap_reduce = false, .sharded = true},
    {.overlap_reduce = true, .sharded = true},
    {.overlap_reduce = true, .sharded = true, .overlap_gather = true},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

enum { PARAMS = 40 };

/* One replica's half of data parallelism: flat buffers, parameters and buckets. */
struct replica {
    int64_t boundary[PARAMS], elems;
    struct tr_tensor grads, values;
    struct tr_bucket *mine; /* what it updates */
    int spans;
    struct tr_comm sums;
    struct tr_buckets *dp;
};

/* Parameters of 1 to 3000 elements, the same on all ranks; the last ends before the buffer does. */
static void replica_open(struct replica *r, struct tr_buckets_how how, enum tr_dtype type)
{
    struct tr_rng rng = tr_rng_key(3, TR_STREAM_INIT, 0, 0);
    const int64_t unit = 64 * world.size;
    struct tr_bucket *bucket;
    int64_t at = 0, end[2];
    int n;

    for (int i = 0; i < PARAMS; i++) {
        at += 1 + tr_rng_u32(rng, (uint64_t)i) % 3000;
        r->boundary[i] = at;
    }
    r->elems = (at + unit - 1) / unit * unit;
    r->grads = tr_tensor_1(calloc((size_t)r->elems, 4), type, r->elems);
    r->values = tr_tensor_1(calloc((size_t)r->elems, 4), type, r->elems);
    end[0] = unit;
    end[1] = r->elems;
    n = tr_buckets_plan(end, 2, 6000, unit, &bucket);
    assert_all(n > 7);
    r->spans = tr_buckets_owned(bucket, n, world.rank, world.size, how.sharded, &r->mine);
    assert_all_ok(world.via->split(&world, 0, world.rank, "dp", &r->sums));
    assert_all_ok(tr_buckets_open(&r->sums, &r->grads, &r->values, bucket, n, how, &r->dp));
    /* It must have copied them. */
    memset(bucket, 0, (size_t)n * sizeof *bucket);
    free(bucket);
}

static void replica_close(struct replica *r)
{
    tr_buckets_close(r->dp);
    r->sums.via->release(&r->sums);
    free(r->mine);
    free(r->grads.data);
    free(r->values.data);
}

/* Small whole numbers: their sums are exact in any order and in every type. */
static float gradient(int rank, int step, int64_t i)
{
    return (float)((rank + 2) * (i % 13) - 5 * rank + step % 7);
}

static void set(const struct tr_tensor *t, int64_t i, float x)
{
    if (t->dtype == TR_F32)
        tr_f32(t)[i] = x;
    else
        ((uint16_t *)t->data)[i] =
            t->dtype == TR_F16 ? tr_f16_from_float(x) : tr_bf16_from_float(x);
}

static float get(const struct tr_tensor *t, int64_t i)
{
    const uint16_t *half = t->data;

    return t->dtype == TR_F32   ? tr_f32(t)[i]
           : t->dtype == TR_F16 ? tr_f16_to_float(half[i])
                                : tr_bf16_to_float(half[i]);
}

static void clear(struct replica *r)
{
    for (int64_t i = 0; i < r->elems; i++)
        set(&r->grads, i, NAN);
}

/* The padding is complete with the last parameter. */
static int64_t upto(const struct replica *r, int param)
{
    return param < PARAMS - 1 ? r->boundary[param] : r->elems;
}

static void backward(struct replica *r, int param, int step)
{
    for (int64_t i = param > 0 ? r->boundary[param - 1] : 0; i < upto(r, param); i++)
        set(&r->grads, i, gradient(world.rank, step, i));
}

static float sum_of(int step, int64_t i)
{
    float sum = 0.0F;

    for (int rank = 0; rank < world.size; rank++)
        sum += gradient(rank, step, i);
    return sum;
}

/* What the replica updates is summed. */
static bool summed(const struct replica *r, int step)
{
    for (int s = 0; s < r->spans; s++)
        for (int64_t i = r->mine[s].first; i < r->mine[s].first + r->mine[s].count; i++)
            if (get(&r->grads, i) != sum_of(step, i))
                return false;
    return true;
}

/* The step of the optimizer: what the others update is rubbish until it is gathered. */
static void update(struct replica *r, int step)
{
    for (int64_t i = 0; i < r->elems; i++)
        set(&r->values, i, NAN);
    for (int s = 0; s < r->spans; s++)
        for (int64_t i = r->mine[s].first; i < r->mine[s].first + r->mine[s].count; i++)
            set(&r->values, i, get(&r->grads, i) + (float)(step % 3));
}

static bool there(const struct replica *r, int64_t from, int step)
{
    for (int64_t i = from; i < r->elems; i++)
        if (get(&r->values, i) != sum_of(step, i) + (float)(step % 3))
            return false;
    return true;
}

/* Steps as a run makes them.  What is not complete yet is rubbish, and must not be touched; what
   forward reads must be there. */
static void steps(struct tr_buckets_how how, enum tr_dtype type)
{
    struct replica r;

    replica_open(&r, how, type);
    for (int step = 0; step < 3; step++) {
        bool right = true;

        clear(&r);
        for (int p = 0; p < PARAMS; p++) {
            backward(&r, p, step);
            tr_buckets_ready(r.dp, NULL, upto(&r, p));
        }
        tr_buckets_finish(r.dp, NULL);
        assert_all(summed(&r, step));
        update(&r, step);
        tr_buckets_gather(r.dp, NULL);
        for (int p = PARAMS - 1; p >= 0; p--) {
            int64_t from = p > 0 ? r.boundary[p - 1] : 0;

            tr_buckets_need(r.dp, NULL, from);
            right = right && there(&r, from, step);
        }
        assert_all(right);
    }
    replica_close(&r);
}

static void every_way(void **state)
{
    static const enum tr_dtype types[] = {TR_F32, TR_F16, TR_BF16};

    (void)state;
    for (int w = 0; w < WAYS; w++)
        for (int t = 0; t < 3; t++)
            steps(ways[w], types[t]);
}

/* Any calls, other ones on each rank: too few, repeated, going back, beyond the end; and another
   sum in the group of the replicas while transfers are under way, where all need the same. */
static void any_calls(void **state)
{
    struct tr_rng rng = tr_rng_key(5, TR_STREAM_INIT, 0, world.rank);
    double loss;
    struct tr_tensor l = tr_f64_1(&loss, 1);
    struct tr_pending pending;
    struct replica r;

    (void)state;
    for (int w = 0; w < WAYS; w++) {
        replica_open(&r, ways[w], TR_F32);
        for (int step = 0; step < 10; step++) {
            uint64_t draw = 1000 * (uint64_t)step;
            int64_t half = r.elems / 2;

            for (int p = 0; p < PARAMS; p++)
                backward(&r, p, step);
            for (uint32_t i = tr_rng_u32(rng, draw++) % 12; i > 0; i--)
                tr_buckets_ready(r.dp, NULL, tr_rng_u32(rng, draw++) % (2 * r.elems));
            loss = 1.0;
            world.via->allreduce_start(&world, NULL, &l, TR_SUM, &pending);
            world.via->finish(&world, NULL, &pending);
            assert_all(loss == (double)world.size);
            tr_buckets_finish(r.dp, NULL);
            assert_all(summed(&r, step));
            update(&r, step);
            tr_buckets_gather(r.dp, NULL);
            for (uint32_t i = tr_rng_u32(rng, draw++) % 12; i > 0; i--)
                tr_buckets_need(r.dp, NULL, half + tr_rng_u32(rng, draw++) % (2 * r.elems));
            tr_buckets_need(r.dp, NULL, half);
            assert_all(there(&r, half, step));
            world.via->allreduce(&world, NULL, &l, TR_SUM);
            assert_all(loss == (double)(world.size * world.size));
            tr_buckets_need(r.dp, NULL, 0);
            assert_all(there(&r, 0, step));
        }
        replica_close(&r);
    }
}

/* Without overlap nothing starts before finish(): gradients of another pass may still be added. */
static void waits_for_finish(void **state)
{
    struct replica r;
    bool untouched = true;

    (void)state;
    for (int sharded = 0; sharded < 2; sharded++) {
        replica_open(&r, (struct tr_buckets_how){.sharded = sharded}, TR_F32);
        for (int p = 0; p < PARAMS; p++)
            backward(&r, p, 0);
        for (int i = 0; i < 20; i++)
            tr_buckets_ready(r.dp, NULL, r.elems);
        world.via->barrier(&world);
        for (int64_t i = 0; i < r.elems; i++)
            untouched = untouched && tr_f32(&r.grads)[i] == gradient(world.rank, 0, i);
        assert_all(untouched);
        tr_buckets_finish(r.dp, NULL);
        assert_all(summed(&r, 0));
        replica_close(&r);
    }
}

/* With overlap ready() and need() alone bring all buckets to their end, while nobody waits. */
static void makes_progress(void **state)
{
    struct replica r;
    double until = tr_now() + 60.0;

    (void)state;
    for (int w = 0; w < WAYS; w++) {
        if (!ways[w].overlap_reduce)
            continue;
        replica_open(&r, ways[w], TR_F32);
        for (int p = 0; p < PARAMS; p++)
            backward(&r, p, 0);
        while (!summed(&r, 0) && tr_now() < until)
            tr_buckets_ready(r.dp, NULL, r.elems);
        assert_all(summed(&r, 0));
        tr_buckets_finish(r.dp, NULL);
        assert_all(summed(&r, 0));
        update(&r, 0);
        tr_buckets_gather(r.dp, NULL);
        while (!there(&r, 0, 0) && tr_now() < until)
            tr_buckets_need(r.dp, NULL, r.elems);
        assert_all(there(&r, 0, 0));
        tr_buckets_need(r.dp, NULL, 0);
        replica_close(&r);
    }
}

/* Sums that depend on the order of the ranks: with and without overlap the same bits, on all ranks;
   sharded the same as well where two add. */
static void same_bits(void **state)
{
    struct replica r[WAYS];
    size_t bytes = 0;

    (void)state;
    for (int w = 0; w < WAYS; w++) {
        replica_open(&r[w], ways[w], TR_F32);
        for (int p = 0; p < PARAMS; p++) {
            for (int64_t i = p > 0 ? r[w].boundary[p - 1] : 0; i < r[w].boundary[p]; i++)
                tr_f32(&r[w].grads)[i] = 1.0F / (float)(3 + i % 101 + 7 * world.rank);
            tr_buckets_ready(r[w].dp, NULL, r[w].boundary[p]);
        }
        tr_buckets_finish(r[w].dp, NULL);
        update(&r[w], 0);
        tr_buckets_gather(r[w].dp, NULL);
        tr_buckets_need(r[w].dp, NULL, 0);
        bytes = (size_t)tr_tensor_bytes(&r[w].values);
        if (world.size <= 2 || w == 1 || w > 2)
            assert_all(memcmp(r[w].values.data, r[w - (w > 0)].values.data, bytes) == 0);
    }
    for (int w = 1; w < WAYS; w++) {
        memcpy(r[0].values.data, r[w].values.data, bytes);
        world.via->broadcast(&world, NULL, &r[0].values, 0);
        assert_all(memcmp(r[0].values.data, r[w].values.data, bytes) == 0);
    }
    for (int w = 0; w < WAYS; w++)
        replica_close(&r[w]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_by_hand),   cmocka_unit_test(plans),
        cmocka_unit_test(owned),          cmocka_unit_test(every_way),
        cmocka_unit_test(any_calls),      cmocka_unit_test(waits_for_finish),
        cmocka_unit_test(makes_progress), cmocka_unit_test(same_bits),
    };
    return run_mpi_tap(tests);
}
