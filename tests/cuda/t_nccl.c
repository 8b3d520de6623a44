/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include "comm/flight.h"
#include "dp/buckets.h"
#include "util/half.h"
#include "util/rng.h"

/*
 * The transport "nccl" on memory of the GPU: every call, what runs before and after it on the compute
 * stream, several groups at once, and replicas.  Operands are small whole numbers, which all types
 * add exactly in any order, so all comparisons are of equality.  Streams of the fake go on in an order
 * that is drawn at random: a wait that is missing gives wrong numbers.
 */
enum { ARENA_BYTES = 48 << 20 };
static const int64_t sizes[] = {1, 7, 1000, 20011};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static const enum tr_dtype types[] = {TR_F32, TR_F64, TR_F16, TR_BF16, TR_I32};
enum { FLOATS = 4, TYPES = 5 };

/* ---- memory ---- */

static unsigned char *arena;
static int64_t used;

static int open_arena(void **state)
{
    void *p = NULL;

    (void)state;
    assert_all_ok(tr_cuda.reserve(gpu.device, ARENA_BYTES, &p));
    arena = p;
    return 0;
}

static int empty_arena(void **state)
{
    (void)state;
    used = 0;
    return 0;
}

static struct tr_tensor make(enum tr_dtype type, int64_t n)
{
    struct tr_tensor t = tr_tensor_1(arena + used, type, n);

    used += (tr_tensor_bytes(&t) + 255) / 256 * 256;
    TR_ASSERT(used <= ARENA_BYTES);
    return t;
}

static void put(void *to, enum tr_dtype type, int64_t i, double x)
{
    struct tr_tensor t = tr_tensor_1(to, type, 1);

    if (type == TR_F32)
        tr_f32(&t)[i] = (float)x;
    else if (type == TR_F64)
        tr_f64(&t)[i] = x;
    else if (type == TR_I32)
        tr_i32(&t)[i] = (int32_t)x;
    else
        tr_half(&t)[i] =
            type == TR_F16 ? tr_f16_from_float((float)x) : tr_bf16_from_float((float)x);
}

static double take(const void *from, enum tr_dtype type, int64_t i)
{
    if (type == TR_F32)
        return (double)((const float *)from)[i];
    if (type == TR_F64)
        return ((const double *)from)[i];
    if (type == TR_I32)
        return ((const int32_t *)from)[i];
    if (type == TR_F16)
        return (double)tr_f16_to_float(((const uint16_t *)from)[i]);
    return (double)tr_bf16_to_float(((const uint16_t *)from)[i]);
}

/* Element i of what `rank` brings: sums over 4 ranks are whole numbers below 256. */
static double brought(int rank, int64_t i)
{
    return (double)((i * (rank + 3) + rank) % 61) - 30.0;
}

static double reduced(const struct tr_comm *c, int64_t i, enum tr_redop op)
{
    double result = brought(0, i);

    for (int r = 1; r < c->size; r++) {
        double x = brought(r, i);

        result = op == TR_SUM ? result + x : x > result ? x : result;
    }
    return result;
}

/* What `rank` brings, from element `first` of it on. */
static void bring(const struct tr_tensor *t, int rank, int64_t first)
{
    int64_t n = tr_tensor_elems(t);
    void *host = malloc((size_t)tr_tensor_bytes(t));

    for (int64_t i = 0; i < n; i++)
        put(host, t->dtype, i, brought(rank, first + i));
    gpu.on->upload(&gpu, t, host);
    free(host);
}

/* Does it hold these numbers? */
static bool holds(const struct tr_tensor *t, double (*want)(const void *of, int64_t i),
                  const void *of)
{
    void *host = malloc((size_t)tr_tensor_bytes(t));
    bool right = true;

    gpu.on->download(&gpu, host, t);
    for (int64_t i = 0; i < tr_tensor_elems(t); i++)
        right = right && take(host, t->dtype, i) == want(of, i);
    free(host);
    return right;
}

/* Who brought it, or what was made of it. */
struct wanted {
    const struct tr_comm *c;
    enum tr_redop op;
    int64_t first; /* the number of element 0 */
    int rank;
    double factor;
};

static double want_reduced(const void *of, int64_t i)
{
    const struct wanted *w = of;

    return (w->factor != 0.0 ? w->factor : 1.0) * reduced(w->c, w->first + i, w->op);
}

static double want_brought(const void *of, int64_t i)
{
    const struct wanted *w = of;

    return brought(w->rank, w->first + i);
}

/* ---- every call ---- */

static void allreduce_on(struct tr_comm *c)
{
    for (int kind = 0; kind < SIZES * FLOATS * 4; kind++) {
        struct tr_tensor t = make(types[kind / 4 % FLOATS], sizes[kind / 4 / FLOATS]);
        struct wanted w = {.c = c, .op = kind & 1 ? TR_MAX : TR_SUM};
        uint64_t before = c->seq;
        struct tr_pending p;

        bring(&t, c->rank, 0);
        if (kind & 2) {
            c->via->allreduce_start(c, &gpu, &t, w.op, &p);
            assert_all(p.seq == before + 1);
            c->via->finish(c, &gpu, &p);
        } else {
            c->via->allreduce(c, &gpu, &t, w.op);
        }
        assert_all(c->seq == before + 1);
        assert_all(holds(&t, want_reduced, &w));
        used = 0;
    }
}

static void allreduce(void **state)
{
    (void)state;
    allreduce_on(&world);
}

static void reduce_scatter_on(struct tr_comm *c)
{
    for (int kind = 0; kind < SIZES * FLOATS * 8; kind++) {
        int64_t n = sizes[kind / 8 / FLOATS];
        struct tr_tensor in = make(types[kind / 8 % FLOATS], n * c->size);
        struct tr_tensor out = kind & 4 ? tr_tensor_span(&in, c->rank * n, n) : make(in.dtype, n);
        struct wanted w = {.c = c, .op = kind & 1 ? TR_MAX : TR_SUM, .first = c->rank * n};
        struct tr_pending p;

        bring(&in, c->rank, 0);
        if (kind & 2) {
            c->via->reduce_scatter_start(c, &gpu, &out, &in, w.op, &p);
            c->via->finish(c, &gpu, &p);
        } else {
            c->via->reduce_scatter(c, &gpu, &out, &in, w.op);
        }
        assert_all(holds(&out, want_reduced, &w));
        used = 0;
    }
}

static void reduce_scatter(void **state)
{
    (void)state;
    reduce_scatter_on(&world);
}

static double want_gathered(const void *of, int64_t i)
{
    const struct wanted *w = of;

    return brought((int)(i / w->first), i % w->first);
}

static void allgather_on(struct tr_comm *c)
{
    for (int kind = 0; kind < SIZES * TYPES * 2; kind++) {
        int64_t n = sizes[kind / 2 / TYPES];
        struct tr_tensor all = make(types[kind / 2 % TYPES], n * c->size);
        struct tr_tensor mine = tr_tensor_span(&all, c->rank * n, n);
        struct wanted w = {.first = n};
        struct tr_pending p;

        bring(&mine, c->rank, 0);
        if (kind & 1) {
            c->via->allgather_start(c, &gpu, &all, &p);
            c->via->finish(c, &gpu, &p);
        } else {
            c->via->allgather(c, &gpu, &all);
        }
        assert_all(holds(&all, want_gathered, &w));
        used = 0;
    }
}

static void allgather(void **state)
{
    (void)state;
    allgather_on(&world);
}

static void broadcast_on(struct tr_comm *c)
{
    for (int kind = 0; kind < SIZES * TYPES; kind++)
        for (int root = 0; root < c->size; root++) {
            struct tr_tensor t = make(types[kind % TYPES], sizes[kind / TYPES]);
            struct wanted w = {.rank = root};

            bring(&t, c->rank, 0);
            c->via->broadcast(c, &gpu, &t, root);
            assert_all(holds(&t, want_brought, &w));
            used = 0;
        }
}

static void broadcast(void **state)
{
    (void)state;
    broadcast_on(&world);
}

/* Round the ring, both ways at once; with two ranks all four legs are between the same pair. */
static void exchange_on(struct tr_comm *c)
{
    const int next = (c->rank + 1) % c->size, prev = (c->rank + c->size - 1) % c->size;

    for (int s = 0; s < SIZES; s++) {
        struct tr_tensor out[2], in[2];
        struct wanted from_prev = {.rank = 2 * prev}, from_next = {.rank = 2 * next + 1};
        struct tr_pending p;

        for (int i = 0; i < 2; i++) {
            out[i] = make(TR_F32, sizes[s]);
            in[i] = make(TR_F32, sizes[s]);
            bring(&out[i], 2 * c->rank + i, 0);
        }
        const struct tr_leg legs[] = {
            {TR_LEG_SEND, next, out[0].data, tr_tensor_bytes(&out[0])},
            {TR_LEG_SEND, prev, out[1].data, tr_tensor_bytes(&out[1])},
            {TR_LEG_RECV, prev, in[0].data, tr_tensor_bytes(&in[0])},
            {TR_LEG_RECV, next, in[1].data, tr_tensor_bytes(&in[1])},
        };
        c->via->exchange_start(c, &gpu, legs, 4, &p);
        c->via->finish(c, &gpu, &p);
        assert_all(holds(&in[0], want_brought, &from_prev));
        assert_all(holds(&in[1], want_brought, &from_next));
        used = 0;
    }
}

static void exchange(void **state)
{
    (void)state;
    exchange_on(&world);
}

/* The i-th send meets the i-th receive across calls too, large after small and empty ones, in halves
   as well. */
static void exchange_in_order(void **state)
{
    static const int64_t count[] = {3, 20011, 0, 5};
    enum { N = 4 };
    const bool sends = world.rank == 0, receives = world.rank == world.size - 1;
    struct tr_tensor t[N];
    struct tr_pending p[N];

    (void)state;
    for (int i = 0; i < N; i++) {
        struct tr_leg leg = {.dir = sends ? TR_LEG_SEND : TR_LEG_RECV};

        t[i] = make(TR_BF16, count[i] + 1);
        bring(&t[i], world.rank == 0 ? 7 + i : 50, 0);
        leg.buf = t[i].data;
        leg.bytes = 2 * count[i];
        leg.peer = sends ? world.size - 1 : 0;
        if (world.size > 1 && (sends || receives))
            world.via->exchange_start(&world, &gpu, &leg, 1, &p[i]);
    }
    for (int i = N - 1; i >= 0 && world.size > 1 && (sends || receives); i--)
        world.via->finish(&world, &gpu, &p[i]);
    for (int i = 0; i < N; i++) {
        struct tr_tensor sent = t[i];
        struct wanted w = {.rank = sends || (receives && world.size > 1) ? 7 + i : 50};

        sent.dim[0] = count[i];
        assert_all(count[i] == 0 || holds(&sent, want_brought, &w));
    }
}

/* ---- among other work ---- */

/* Operations before and after a transfer, and one beside it. */
static void in_order_of_the_queue(void **state)
{
    const int64_t n = 20011;
    struct tr_tensor x = make(TR_F32, n), y = make(TR_F32, n), z = make(TR_F32, n);

    (void)state;
    for (int turn = 0; turn < 12; turn++) {
        struct wanted twice = {.c = &world, .factor = 2.0}, mine = {.rank = world.rank};
        struct wanted once = {.c = &world};
        struct tr_pending p;

        bring(&y, world.rank, 0);
        gpu.on->fill(&gpu, &x, -1.0F);
        gpu.on->copy(&gpu, &x, &y);
        if (turn & 1) {
            world.via->allreduce_start(&world, &gpu, &x, TR_SUM, &p);
            gpu.on->copy(&gpu, &z, &y);
            if (turn & 2)
                world.via->poll(&world, &p);
            world.via->finish(&world, &gpu, &p);
        } else {
            world.via->allreduce(&world, &gpu, &x, TR_SUM);
            gpu.on->copy(&gpu, &z, &x);
        }
        gpu.on->scale(&gpu, &x, 2.0F);
        gpu.on->fill(&gpu, &y, 0.0F);
        assert_all(holds(&x, want_reduced, &twice));
        if (turn & 1)
            assert_all(holds(&z, want_brought, &mine));
        else
            assert_all(holds(&z, want_reduced, &once));
    }
}

/* A transfer reads its operand while the queue goes on: it must not be changed before finish(), and
   after it that must wait for the transfer. */
static void overwritten_after(void **state)
{
    const int64_t n = 20011;
    struct tr_tensor x = make(TR_F32, n), y = make(TR_F32, n);

    (void)state;
    for (int turn = 0; turn < 8; turn++) {
        const int next = (world.rank + 1) % world.size;
        const int prev = (world.rank + world.size - 1) % world.size;
        const struct tr_leg legs[] = {{TR_LEG_SEND, next, x.data, tr_tensor_bytes(&x)},
                                      {TR_LEG_RECV, prev, y.data, tr_tensor_bytes(&y)}};
        struct wanted w = {.rank = prev + turn};
        struct tr_pending p;

        bring(&x, world.rank + turn, 0);
        world.via->exchange_start(&world, &gpu, legs, 2, &p);
        world.via->finish(&world, &gpu, &p);
        gpu.on->fill(&gpu, &x, 99.0F);
        assert_all(holds(&y, want_brought, &w));
    }
}

/* Several of each kind in two groups at once, blocking calls between them, finished in an order that
   differs from rank to rank. */
static void in_flight(void **state)
{
    enum { N = 6 };
    const int64_t n = 1000;
    struct tr_comm other;
    struct tr_tensor t[N], out[N], now;
    struct tr_pending p[N];

    (void)state;
    assert_all_ok(world.via->split(&world, 0, -world.rank, "other", &other));
    now = make(TR_F32, n);
    for (int i = 0; i < N; i++) {
        t[i] = make(types[i % FLOATS], n * world.size);
        out[i] = tr_tensor_span(&t[i], (i & 1 ? other.rank : world.rank) * n, n);
    }
    for (int turn = 0; turn < 6; turn++) {
        struct wanted here = {.c = &world};

        for (int i = 0; i < N; i++) {
            struct tr_comm *c = i & 1 ? &other : &world;

            bring(&t[i], c->rank, 0);
            bring(&now, world.rank, 0);
            if (i % 3 == 0)
                c->via->allreduce_start(c, &gpu, &t[i], TR_SUM, &p[i]);
            else if (i % 3 == 1)
                c->via->reduce_scatter_start(c, &gpu, &out[i], &t[i], TR_SUM, &p[i]);
            else
                c->via->allgather_start(c, &gpu, &t[i], &p[i]);
            world.via->allreduce(&world, &gpu, &now, TR_SUM);
            assert_all(turn < 5 || holds(&now, want_reduced, &here));
        }
        for (int i = 0; i < N; i++) {
            int k = (i + world.rank + turn) % N;
            struct tr_comm *c = k & 1 ? &other : &world;

            c->via->finish(c, &gpu, &p[k]);
        }
        for (int i = 0; i < N; i++) {
            struct tr_comm *c = i & 1 ? &other : &world;
            struct wanted w = {.c = c, .first = i % 3 == 1 ? c->rank * n : n};

            assert_all(i % 3 == 0   ? (w.first = 0, holds(&t[i], want_reduced, &w))
                       : i % 3 == 1 ? holds(&out[i], want_reduced, &w)
                                    : true);
        }
    }
    other.via->release(&other);
}

/* It says so when it is done, and that does not take the place of finish(). */
static void polled(void **state)
{
    struct tr_tensor t = make(TR_F32, 20011);
    struct wanted w = {.c = &world, .op = TR_MAX};
    struct tr_pending p;

    (void)state;
    bring(&t, world.rank, 0);
    world.via->allreduce_start(&world, &gpu, &t, TR_MAX, &p);
    while (!world.via->poll(&world, &p))
        continue;
    world.via->finish(&world, &gpu, &p);
    assert_all(world.via->poll(&world, &p));
    assert_all(holds(&t, want_reduced, &w));
}

/* A call of the device has ended when that has done it, which is seen at the next one of its group: not when the host has queued
   it, and not when the queue waits for it. */
static void recorded(void **state)
{
    struct tr_tensor t = make(TR_F32, 1200);
    struct tr_flight_call call = {0}, started = {0};
    const uint64_t before = tr_flight_count();
    struct tr_pending p;

    (void)state;
    bring(&t, world.rank, 0);
    world.via->allreduce(&world, &gpu, &t, TR_MAX);
    world.via->allgather_start(&world, &gpu, &t, &p);
    world.via->finish(&world, &gpu, &p);
    assert_all(tr_flight_count() == before + 2);
    assert_all(tr_flight_get(before + 2, &started) && (started.ended == 0 || world.size == 1));
    gpu.on->wait(&gpu);
    world.via->allreduce(&world, &gpu, &t, TR_MAX);
    assert_all(tr_flight_get(before + 1, &call) && call.kind == TR_FLIGHT_ALLREDUCE);
    assert_all(call.bytes == 4800 && call.ended >= call.begun);
    assert_all(tr_flight_get(before + 2, &started) && started.kind == TR_FLIGHT_ALLGATHER);
    assert_all(started.ended >= started.begun && started.seq == call.seq + 1);
}

/* Sums that are rounded: the same bits on all ranks, and each time. */
static void same_bits(void **state)
{
    const int64_t n = 20011;
    struct tr_tensor t = make(TR_F32, n);
    struct tr_rng rng = tr_rng_key(5, TR_STREAM_INIT, 0, world.rank);
    float *mine = malloc(3 * (size_t)n * sizeof *mine), *got = mine + n, *other = got + n;

    (void)state;
    for (int64_t i = 0; i < n; i++)
        mine[i] = (float)tr_rng_u32(rng, (uint64_t)i) / 0x1p31F - 1.0F;
    for (int turn = 0; turn < 3; turn++) {
        struct tr_pending p;

        gpu.on->upload(&gpu, &t, mine);
        if (turn == 2) {
            world.via->allreduce_start(&world, &gpu, &t, TR_SUM, &p);
            world.via->finish(&world, &gpu, &p);
        } else {
            world.via->allreduce(&world, &gpu, &t, TR_SUM);
        }
        gpu.on->download(&gpu, turn == 0 ? got : other, &t);
        if (turn > 0)
            assert_all(memcmp(got, other, (size_t)n * sizeof *got) == 0);
        MPI_Bcast(other, (int)n, MPI_FLOAT, 0, MPI_COMM_WORLD);
        assert_all(turn == 0 || memcmp(got, other, (size_t)n * sizeof *got) == 0);
    }
    free(mine);
}

/* ---- groups ---- */

static void every_call_on(struct tr_comm *c)
{
    allreduce_on(c);
    reduce_scatter_on(c);
    allgather_on(c);
    broadcast_on(c);
    exchange_on(c);
}

/* Even and odd ranks, numbered backwards; groups of one; a group that only some are in. */
static void groups(void **state)
{
    struct tr_comm half, one, some;
    const int parity = world.rank % 2, members = (world.size + 1 - parity) / 2;
    struct tr_tensor t = make(TR_F32, 7);
    struct wanted mine = {.rank = world.rank};

    (void)state;
    assert_all_ok(world.via->split(&world, parity, -world.rank, "half", &half));
    assert_all(half.size == members && half.rank == members - 1 - world.rank / 2);
    /* Groups of even and odd ranks have as many calls where the world is even. */
    if (world.size % 2 == 0)
        every_call_on(&half);
    used = 0;
    assert_all_ok(world.via->split(&world, world.rank, 0, "one", &one));
    assert_all(one.size == 1 && one.rank == 0);
    every_call_on(&one);
    used = 256;
    bring(&t, world.rank, 0);
    assert_all_ok(half.via->split(&half, half.rank == 0 ? 4 : -1, 0, "some", &some));
    assert_all(some.size == (half.rank == 0));
    if (some.size > 0)
        some.via->allreduce(&some, &gpu, &t, TR_SUM);
    assert_all(holds(&t, want_brought, &mine));
    some.via->release(&some);
    one.via->release(&one);
    half.via->release(&half);
    assert_all(some.size == 0 && one.size == 0 && half.size == 0);
}

/* A group of one has messages to itself: what it sends it receives. */
static void alone(void **state)
{
    static const int64_t bytes[] = {4, 6, 0, 2048};
    struct tr_comm one;

    (void)state;
    assert_all_ok(world.via->split(&world, world.rank, 0, "one", &one));
    for (int i = 0; i < 4; i++) {
        struct tr_tensor a = make(TR_BF16, 1024), b = make(TR_BF16, 1024), got = b;
        const struct tr_leg legs[] = {{TR_LEG_SEND, 0, a.data, bytes[i]},
                                      {TR_LEG_RECV, 0, b.data, bytes[i]}};
        struct wanted w = {.rank = 3};
        struct tr_pending p;

        bring(&a, 3, 0);
        bring(&b, 4, 0);
        one.via->exchange_start(&one, &gpu, legs, 2, &p);
        assert_all(one.via->poll(&one, &p));
        one.via->finish(&one, &gpu, &p);
        got.dim[0] = bytes[i] / 2;
        assert_all(bytes[i] == 0 || holds(&got, want_brought, &w));
    }
    one.via->release(&one);
}

/* ---- replicas ---- */

enum { UNIT = 24, ELEMS = UNIT * 200 };

/* Buckets of both kinds, in steps whose ranks call at the same places. */
static void replicas_of(struct tr_buckets_how how, int64_t at_least)
{
    const int64_t end = ELEMS;
    struct tr_tensor grads = make(TR_F32, ELEMS), values = make(TR_BF16, ELEMS);
    struct tr_bucket *b, *own;
    int n = tr_buckets_plan(&end, 1, at_least, UNIT, &b), spans;
    struct tr_comm sums;
    struct tr_buckets *dp;

    spans = tr_buckets_owned(b, n, world.rank, world.size, how.sharded, &own);
    assert_all_ok(world.via->split(&world, 0, world.rank, "dp", &sums));
    assert_all_ok(tr_buckets_open(&sums, &grads, &values, b, n, how, &dp));
    for (int step = 0; step < 3; step++) {
        struct wanted w = {.c = &world}, of_all = {.rank = 5};

        for (int i = 20; i > 0; i--)
            tr_buckets_need(dp, &gpu, i * (ELEMS / 20));
        tr_buckets_need(dp, &gpu, 0);
        assert_all(step == 0 || !how.sharded || holds(&values, want_brought, &of_all));
        bring(&grads, world.rank, 0);
        for (int i = 1; i <= 20; i++)
            tr_buckets_ready(dp, &gpu, i * (ELEMS / 20));
        tr_buckets_finish(dp, &gpu);
        for (int i = 0; i < spans; i++) {
            struct tr_tensor sum = tr_tensor_span(&grads, own[i].first, own[i].count);
            struct tr_tensor mine = tr_tensor_span(&values, own[i].first, own[i].count);

            w.first = own[i].first;
            assert_all(holds(&sum, want_reduced, &w));
            if (i == 0)
                gpu.on->fill(&gpu, &values, -7.0F);
            bring(&mine, 5, own[i].first);
        }
        tr_buckets_gather(dp, &gpu);
    }
    tr_buckets_need(dp, &gpu, 0);
    tr_buckets_close(dp);
    sums.via->release(&sums);
    free(own);
    free(b);
    used = 0;
}

static void replicas(void **state)
{
    (void)state;
    for (int kind = 0; kind < 5; kind++) {
        const struct tr_buckets_how how = {
            .overlap_reduce = kind > 0, .sharded = kind > 1, .overlap_gather = kind > 3};

        if (kind == 2)
            replicas_of((struct tr_buckets_how){.sharded = true}, 5 * UNIT);
        replicas_of(how, 5 * UNIT);
        replicas_of(how, 1000 * UNIT);
    }
}

/* ---- memory of NCCL ---- */

static size_t left(void)
{
    size_t left = 0, all = 0;

    assert_all(cudaMemGetInfo(&left, &all) == cudaSuccess);
    return left;
}

/* Messages to and from all others. */
static void talk_to_all(struct tr_comm *c, struct tr_tensor *t)
{
    for (int i = 1; i < c->size; i++) {
        const struct tr_leg legs[] = {
            {TR_LEG_SEND, (c->rank + i) % c->size, t->data, 64},
            {TR_LEG_RECV, (c->rank + c->size - i) % c->size, (char *)t->data + 64, 64}};
        struct tr_pending p;

        c->via->exchange_start(c, &gpu, legs, 2, &p);
        c->via->finish(c, &gpu, &p);
    }
}

/* What was warmed up takes no memory later, whatever its size; what was not would. */
static void warm(void **state)
{
    struct tr_comm sums, talks;
    struct tr_tensor t = make(TR_F32, 20000), few = tr_tensor_span(&t, 0, 2);
    size_t before;

    (void)state;
    assert_all_ok(world.via->split(&world, 0, world.rank, "sums", &sums));
    assert_all_ok(world.via->split(&world, 0, world.rank, "talks", &talks));
    const struct tr_nccl_use use[] = {
        {&sums, TR_NCCL_ALLREDUCE, TR_F32, TR_SUM, tr_tensor_bytes(&t)},
        {&sums, TR_NCCL_REDUCE_SCATTER, TR_BF16, TR_SUM, 3000},
        {&talks, TR_NCCL_ALL_TO_ALL, TR_U8, TR_SUM, 1},
        {&talks, TR_NCCL_CHAIN, TR_U8, TR_SUM, 1},
        {&talks, TR_NCCL_RING, TR_U8, TR_SUM, 1},
    };
    assert_all_ok(tr_comm_nccl_warm(&world, use, sizeof use / sizeof use[0]));
    before = left();
    assert_all((world.size > 1) == (tr_comm_nccl_bytes(&world) > 0));
    bring(&t, world.rank, 0);
    sums.via->allreduce(&sums, &gpu, &t, TR_SUM);
    sums.via->allreduce(&sums, &gpu, &few, TR_MAX);
    talk_to_all(&talks, &t);
    gpu.on->wait(&gpu);
    assert_all(left() == before);
    talks.via->allreduce(&talks, &gpu, &few, TR_SUM);
    gpu.on->wait(&gpu);
    assert_all((world.size > 1) == (left() < before));
    talks.via->release(&talks);
    sums.via->release(&sums);
}

/* ---- what is of the host ---- */

/* Calls without a queue are of host memory, also while the GPU is at it. */
static void host_memory(void **state)
{
    struct tr_tensor t = make(TR_F32, 1000);
    double x[3] = {1.0, (double)world.rank, -1.0};
    struct tr_tensor h = tr_f64_1(x, 3);
    struct wanted w = {.c = &world};
    struct tr_pending p;
    const double n = world.size;

    (void)state;
    bring(&t, world.rank, 0);
    world.via->allreduce_start(&world, &gpu, &t, TR_SUM, &p);
    world.via->allreduce(&world, NULL, &h, TR_SUM);
    assert_all(x[0] == n && x[1] == n * (n - 1.0) / 2.0 && x[2] == -n);
    assert_all(tr_comm_max(&world, world.rank) == world.size - 1);
    assert_all_ok(tr_comm_agree(&world, TR_OK));
    world.via->barrier(&world);
    world.via->finish(&world, &gpu, &p);
    assert_all(holds(&t, want_reduced, &w));
}

/* Registration may fail on one rank; groups of later have it too. */
static void registered(void **state)
{
    struct tr_comm group;

    (void)state;
    tr_comm_nccl_register(&world);
    tr_comm_nccl_register(&world);
    assert_all_ok(world.via->split(&world, 0, 0, "later", &group));
    allreduce_on(&group);
    group.via->release(&group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(allreduce, open_arena),
        cmocka_unit_test_setup(reduce_scatter, empty_arena),
        cmocka_unit_test_setup(allgather, empty_arena),
        cmocka_unit_test_setup(broadcast, empty_arena),
        cmocka_unit_test_setup(exchange, empty_arena),
        cmocka_unit_test_setup(exchange_in_order, empty_arena),
        cmocka_unit_test_setup(in_order_of_the_queue, empty_arena),
        cmocka_unit_test_setup(overwritten_after, empty_arena),
        cmocka_unit_test_setup(in_flight, empty_arena),
        cmocka_unit_test_setup(polled, empty_arena),
        cmocka_unit_test_setup(recorded, empty_arena),
        cmocka_unit_test_setup(same_bits, empty_arena),
        cmocka_unit_test_setup(groups, empty_arena),
        cmocka_unit_test_setup(alone, empty_arena),
        cmocka_unit_test_setup(replicas, empty_arena),
        cmocka_unit_test_setup(warm, empty_arena),
        cmocka_unit_test_setup(host_memory, empty_arena),
        cmocka_unit_test_setup(registered, empty_arena),
    };
    return run_mpi_tap(tests);
}
