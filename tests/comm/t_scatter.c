/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <math.h>

#include "util/half.h"
#include "util/rng.h"

/*
 * Reduce-scatter and all-gather of both transports, for every type.  Operands are random, so sums
 * are rounded: what is expected is computed in double, and the bound is that of the rounding.
 * Sizes are those of a slice; the largest is above what MPI sends without asking the receiver.
 */
static const int64_t sizes[] = {1, 7, 1023, 20011};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static const enum tr_dtype types[] = {TR_F32, TR_F64, TR_F16, TR_BF16};
enum { TYPES = sizeof types / sizeof types[0] };

/* Half a unit in the last place of 1. */
static double rounding(enum tr_dtype type)
{
    return type == TR_F64 ? 0x1p-53 : type == TR_F32 ? 0x1p-24 : type == TR_F16 ? 0x1p-11 : 0x1p-8;
}

static struct tr_tensor make(enum tr_dtype type, int64_t n)
{
    struct tr_tensor t = {.dtype = type, .ndim = 1, .dim = {n}};

    t.data = malloc((size_t)tr_tensor_bytes(&t));
    return t;
}

static void set(const struct tr_tensor *t, int64_t i, double x)
{
    if (t->dtype == TR_F32)
        tr_f32(t)[i] = (float)x;
    else if (t->dtype == TR_F64)
        tr_f64(t)[i] = x;
    else if (t->dtype == TR_I32)
        tr_i32(t)[i] = (int32_t)x;
    else if (t->dtype == TR_I64)
        tr_i64(t)[i] = (int64_t)x;
    else if (t->dtype == TR_U8)
        tr_u8(t)[i] = (uint8_t)x;
    else
        ((uint16_t *)t->data)[i] =
            t->dtype == TR_F16 ? tr_f16_from_float((float)x) : tr_bf16_from_float((float)x);
}

static double get(const struct tr_tensor *t, int64_t i)
{
    uint16_t half;

    if (t->dtype == TR_F32)
        return (double)tr_f32(t)[i];
    if (t->dtype == TR_F64)
        return tr_f64(t)[i];
    if (t->dtype == TR_I32)
        return tr_i32(t)[i];
    if (t->dtype == TR_I64)
        return (double)tr_i64(t)[i];
    if (t->dtype == TR_U8)
        return tr_u8(t)[i];
    half = ((const uint16_t *)t->data)[i];
    return (double)(t->dtype == TR_F16 ? tr_f16_to_float(half) : tr_bf16_to_float(half));
}

/* Element i of what `rank` brings, in [-1, 1) and rounded to the type. */
static double brought(enum tr_dtype type, int rank, int64_t i)
{
    struct tr_rng rng = tr_rng_key(11, TR_STREAM_INIT, 0, rank);
    double x = (double)tr_rng_u32(rng, (uint64_t)i) / 0x1p31 - 1.0;

    if (type == TR_I32 || type == TR_I64)
        return rint(1e6 * x);
    if (type == TR_U8)
        return rint(127.0 * x + 127.0);
    if (type == TR_F16)
        return (double)tr_f16_to_float(tr_f16_from_float((float)x));
    if (type == TR_BF16)
        return (double)tr_bf16_to_float(tr_bf16_from_float((float)x));
    return type == TR_F32 ? (double)(float)x : x;
}

static void bring(const struct tr_tensor *t, int rank)
{
    for (int64_t i = 0; i < tr_tensor_elems(t); i++)
        set(t, i, brought(t->dtype, rank, i));
}

/* Elements first .. first + n - 1 of the sum or maximum are in `out`, as near as the type allows:
   each of `roundings` sums is off by half a unit in its last place, those in float between them
   too. */
static bool reduced_from(const struct tr_comm *c, const struct tr_tensor *out, int64_t first,
                         enum tr_redop op, int roundings)
{
    for (int64_t i = 0; i < tr_tensor_elems(out); i++) {
        double sum = 0.0, size = 0.0, max = -2.0, bound;

        for (int r = 0; r < c->size; r++) {
            double x = brought(out->dtype, r, first + i);

            sum += x;
            size += fabs(x);
            max = x > max ? x : max;
        }
        bound = roundings * rounding(out->dtype) * (roundings == 1 ? fabs(sum) : size);
        if (rounding(out->dtype) > 0x1p-24)
            bound += c->size * 0x1p-24 * size + 0x1p-25;
        if (!(fabs(get(out, i) - (op == TR_MAX ? max : sum)) <= (op == TR_MAX ? 0.0 : bound)))
            return false;
    }
    return true;
}

/* Slice `rank` is in `out`; fp16 and bf16 are rounded once. */
static bool reduced(const struct tr_comm *c, const struct tr_tensor *out, enum tr_redop op)
{
    bool half = out->dtype == TR_F16 || out->dtype == TR_BF16;

    return reduced_from(c, out, c->rank * tr_tensor_elems(out), op, half ? 1 : c->size - 1);
}

struct scatter {
    struct tr_tensor in, out;
    void *apart; /* what `out` is when it is no slice of `in` */
};

static struct scatter scatter_open(const struct tr_comm *c, enum tr_dtype type, int64_t n,
                                   bool in_place)
{
    struct scatter s = {.in = make(type, n * c->size)};

    s.out = in_place ? tr_tensor_span(&s.in, c->rank * n, n) : make(type, n);
    s.apart = in_place ? NULL : s.out.data;
    bring(&s.in, c->rank);
    return s;
}

static void scatter_close(struct scatter *s)
{
    free(s->apart);
    free(s->in.data);
}

static void reduce_scatter_on(struct tr_comm *c)
{
    for (int s = 0; s < SIZES; s++)
        for (int t = 0; t < TYPES; t++)
            for (int kind = 0; kind < 8; kind++) {
                struct scatter x = scatter_open(c, types[t], sizes[s], kind & 1);
                enum tr_redop op = kind & 2 ? TR_MAX : TR_SUM;
                struct tr_pending p;

                if (kind & 4) {
                    c->via->reduce_scatter_start(c, NULL, &x.out, &x.in, op, &p);
                    c->via->finish(c, NULL, &p);
                } else {
                    c->via->reduce_scatter(c, NULL, &x.out, &x.in, op);
                }
                assert_all(reduced(c, &x.out, op));
                scatter_close(&x);
            }
}

static void reduce_scatter(void **state)
{
    struct tr_comm self;

    (void)state;
    tr_comm_self(&self);
    reduce_scatter_on(&self);
    reduce_scatter_on(&world);
}

/* The order of the sum is that of the ranks, so the bits are those of a plain loop. */
static void order_of_ranks(void **state)
{
    const int64_t n = 20011;
    struct scatter x = scatter_open(&world, TR_F32, n, true);
    bool right = true;

    (void)state;
    world.via->reduce_scatter(&world, NULL, &x.out, &x.in, TR_SUM);
    for (int64_t i = 0; i < n; i++) {
        float sum = (float)brought(TR_F32, 0, world.rank * n + i);

        for (int r = 1; r < world.size; r++)
            sum += (float)brought(TR_F32, r, world.rank * n + i);
        right = right && tr_f32(&x.out)[i] == sum;
    }
    assert_all(right);
    scatter_close(&x);
}

/* What the other ranks contribute is rubbish here before. */
static struct tr_tensor gather_open(const struct tr_comm *c, enum tr_dtype type, int64_t n)
{
    struct tr_tensor t = make(type, n * c->size);

    memset(t.data, 0xff, (size_t)tr_tensor_bytes(&t));
    for (int64_t i = 0; i < n; i++)
        set(&t, c->rank * n + i, brought(type, c->rank, i));
    return t;
}

static bool gathered(const struct tr_comm *c, const struct tr_tensor *t)
{
    int64_t n = tr_tensor_elems(t) / c->size;

    for (int64_t i = 0; i < n * c->size; i++)
        if (get(t, i) != brought(t->dtype, (int)(i / n), i % n))
            return false;
    return true;
}

static void allgather_on(struct tr_comm *c)
{
    for (int s = 0; s < SIZES; s++)
        for (int type = 0; type < TR_DTYPES; type++)
            for (int starts = 0; starts < 2; starts++) {
                struct tr_tensor t = gather_open(c, (enum tr_dtype)type, sizes[s]);
                struct tr_pending p;

                if (starts) {
                    c->via->allgather_start(c, NULL, &t, &p);
                    c->via->finish(c, NULL, &p);
                } else {
                    c->via->allgather(c, NULL, &t);
                }
                assert_all(gathered(c, &t));
                free(t.data);
            }
}

static void allgather(void **state)
{
    struct tr_comm self;

    (void)state;
    tr_comm_self(&self);
    allgather_on(&self);
    allgather_on(&world);
}

/* Two of each kind under way at once with an all-reduce and a blocking call between them, polled,
   and finished in an order that differs from rank to rank. */
static void in_flight_on(struct tr_comm *c)
{
    enum { N = 4 };
    struct scatter x[2];
    struct tr_tensor g[2];
    struct tr_pending p[N];
    double one = 1.0;
    struct tr_tensor ones = tr_f64_1(&one, 1);

    for (int i = 0; i < 2; i++) {
        x[i] = scatter_open(c, types[i], sizes[SIZES - 1 - i], i == 0);
        g[i] = gather_open(c, types[i], sizes[2 + i]);
    }
    c->via->reduce_scatter_start(c, NULL, &x[0].out, &x[0].in, TR_SUM, &p[0]);
    c->via->allgather_start(c, NULL, &g[0], &p[1]);
    c->via->allreduce(c, NULL, &ones, TR_SUM);
    c->via->reduce_scatter_start(c, NULL, &x[1].out, &x[1].in, TR_SUM, &p[2]);
    c->via->allgather_start(c, NULL, &g[1], &p[3]);
    while (!c->via->poll(c, &p[2]))
        continue;
    for (int i = 0; i < N; i++)
        c->via->finish(c, NULL, &p[(i + c->rank) % N]);
    assert_all(one == (double)c->size);
    for (int i = 0; i < 2; i++) {
        assert_all(reduced(c, &x[i].out, TR_SUM));
        assert_all(gathered(c, &g[i]));
        scatter_close(&x[i]);
        free(g[i].data);
    }
}

static void in_flight(void **state)
{
    struct tr_comm self;

    (void)state;
    tr_comm_self(&self);
    in_flight_on(&self);
    in_flight_on(&world);
}

/* A bucket that is summed in pieces and gathered is what an all-reduce makes of it; where two ranks
   add, to the bit. */
static void both_are_an_allreduce(void **state)
{
    const int64_t n = 20011, all = n * world.size;
    struct tr_tensor a = make(TR_F32, all), b = make(TR_F32, all);
    struct tr_tensor mine = tr_tensor_span(&a, world.rank * n, n);
    bool near = true;

    (void)state;
    bring(&a, world.rank);
    bring(&b, world.rank);
    world.via->reduce_scatter(&world, NULL, &mine, &a, TR_SUM);
    world.via->allgather(&world, NULL, &a);
    world.via->allreduce(&world, NULL, &b, TR_SUM);
    for (int64_t i = 0; i < all; i++)
        near = near && fabs(get(&a, i) - get(&b, i)) <= 2e-6;
    assert_all(near);
    assert_all(world.size > 2 || memcmp(a.data, b.data, (size_t)tr_tensor_bytes(&a)) == 0);
    memcpy(b.data, a.data, (size_t)tr_tensor_bytes(&a));
    world.via->broadcast(&world, NULL, &b, 0);
    assert_all(memcmp(a.data, b.data, (size_t)tr_tensor_bytes(&a)) == 0);
    free(a.data);
    free(b.data);
}

/* An all-reduce of fp16 and bf16: as near as that many roundings allow, the same bits on all
   ranks. */
static void halves_on(struct tr_comm *c)
{
    for (int s = 0; s < SIZES; s++)
        for (int kind = 0; kind < 8; kind++) {
            struct tr_tensor t = make(kind & 1 ? TR_F16 : TR_BF16, sizes[s]);
            struct tr_tensor first = make(t.dtype, sizes[s]);
            enum tr_redop op = kind & 2 ? TR_MAX : TR_SUM;
            struct tr_pending p;

            bring(&t, c->rank);
            if (kind & 4) {
                c->via->allreduce_start(c, NULL, &t, op, &p);
                c->via->finish(c, NULL, &p);
            } else {
                c->via->allreduce(c, NULL, &t, op);
            }
            assert_all(reduced_from(c, &t, 0, op, c->size - 1));
            memcpy(first.data, t.data, (size_t)tr_tensor_bytes(&t));
            c->via->broadcast(c, NULL, &first, 0);
            assert_all(memcmp(first.data, t.data, (size_t)tr_tensor_bytes(&t)) == 0);
            free(first.data);
            free(t.data);
        }
}

static void halves(void **state)
{
    struct tr_comm self;

    (void)state;
    tr_comm_self(&self);
    halves_on(&self);
    halves_on(&world);
}

/* What a loss scaler looks for reaches every rank: sums that overflow, infinity, NaN. */
static void overflow(void **state)
{
    uint16_t x[3] = {tr_f16_from_float(60000.0F), 0, 0}, all[3 * 8];
    struct tr_tensor t = tr_tensor_1(x, TR_F16, 3);
    struct tr_tensor in = tr_tensor_1(all, TR_F16, 3 * world.size);
    struct tr_tensor out = tr_tensor_span(&in, 3 * world.rank, 3);

    (void)state;
    if (world.rank == world.size - 1) {
        x[1] = tr_f16_from_float(INFINITY);
        x[2] = tr_f16_from_float(NAN);
    }
    for (int i = 0; i < 3 * world.size; i++)
        all[i] = x[i % 3];
    world.via->allreduce(&world, NULL, &t, TR_SUM);
    world.via->reduce_scatter(&world, NULL, &out, &in, TR_SUM);
    for (int i = 0; i < 2; i++) {
        const struct tr_tensor *got = i == 0 ? &t : &out;

        assert_all(get(got, 0) == (world.size > 1 ? (double)INFINITY : 60000.0));
        assert_all(get(got, 1) == (double)INFINITY && isnan(get(got, 2)));
    }
}

/* Every rank counts the same calls. */
static void sequence_on(struct tr_comm *c)
{
    struct scatter x = scatter_open(c, TR_F32, 5, true);
    uint64_t before = c->seq;
    struct tr_pending p;

    c->via->reduce_scatter(c, NULL, &x.out, &x.in, TR_SUM);
    c->via->allgather(c, NULL, &x.in);
    c->via->reduce_scatter_start(c, NULL, &x.out, &x.in, TR_SUM, &p);
    assert_all(p.seq == before + 3);
    c->via->finish(c, NULL, &p);
    c->via->allgather_start(c, NULL, &x.in, &p);
    assert_all(p.seq == before + 4 && c->seq == before + 4);
    c->via->finish(c, NULL, &p);
    scatter_close(&x);
}

static void sequence(void **state)
{
    struct tr_comm self;

    (void)state;
    tr_comm_self(&self);
    sequence_on(&self);
    sequence_on(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reduce_scatter), cmocka_unit_test(order_of_ranks),
        cmocka_unit_test(allgather),      cmocka_unit_test(in_flight),
        cmocka_unit_test(halves),         cmocka_unit_test(overflow),
        cmocka_unit_test(sequence),       cmocka_unit_test(both_are_an_allreduce),
    };
    return run_mpi_tap(tests);
}
