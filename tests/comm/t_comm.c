/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <setjmp.h>

/*
 * Every call of both transports.  Sums are of whole numbers, which floats add exactly in any order,
 * so all comparisons are of equality.  The largest messages are far above the size up to which MPI
 * sends without asking the receiver (4 KiB between processes of one node).
 */
enum { LARGE = 100003 };
static const int64_t sizes[] = {1, 7, 1000, LARGE};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* Element i of what `rank` brings. */
static double brought(int rank, int64_t i)
{
    return (double)((rank + 3) * (i % 101) - 7 * rank);
}

static double expected(int size, int64_t i, enum tr_redop op)
{
    double result = brought(0, i);

    for (int r = 1; r < size; r++) {
        double x = brought(r, i);

        result = op == TR_SUM ? result + x : x > result ? x : result;
    }
    return result;
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
    else
        tr_i32(t)[i] = (int32_t)x;
}

static double get(const struct tr_tensor *t, int64_t i)
{
    return t->dtype == TR_F32   ? (double)tr_f32(t)[i]
           : t->dtype == TR_F64 ? tr_f64(t)[i]
                                : tr_i32(t)[i];
}

static void bring(const struct tr_tensor *t, int rank)
{
    for (int64_t i = 0; i < t->dim[0]; i++)
        set(t, i, brought(rank, i));
}

static bool reduced(const struct tr_tensor *t, int size, enum tr_redop op)
{
    for (int64_t i = 0; i < t->dim[0]; i++)
        if (get(t, i) != expected(size, i, op))
            return false;
    return true;
}

static void allreduce_on(struct tr_comm *c)
{
    for (int s = 0; s < SIZES; s++)
        for (int kind = 0; kind < 4; kind++) {
            struct tr_tensor t = make(kind & 1 ? TR_F64 : TR_F32, sizes[s]);
            enum tr_redop op = kind & 2 ? TR_MAX : TR_SUM;

            bring(&t, c->rank);
            c->via->allreduce(c, NULL, &t, op);
            assert_all(reduced(&t, c->size, op));
            free(t.data);
        }
}

static void allreduce(void **state)
{
    struct tr_comm self;

    (void)state;
    tr_comm_self(&self);
    allreduce_on(&self);
    allreduce_on(&world);
}

/* Three under way at once, polled, and finished in another order than they were started in. */
static void in_flight_on(struct tr_comm *c)
{
    static const enum tr_redop op[] = {TR_SUM, TR_MAX, TR_SUM};
    struct tr_tensor t[3];
    struct tr_pending p[3];

    for (int i = 0; i < 3; i++) {
        t[i] = make(i == 1 ? TR_F64 : TR_F32, sizes[SIZES - 1 - i]);
        bring(&t[i], c->rank);
    }
    for (int i = 0; i < 3; i++)
        c->via->allreduce_start(c, NULL, &t[i], op[i], &p[i]);
    while (!c->via->poll(c, &p[1]))
        continue;
    c->via->finish(c, NULL, &p[2]);
    c->via->finish(c, NULL, &p[1]);
    c->via->finish(c, NULL, &p[0]);
    for (int i = 0; i < 3; i++) {
        assert_all(c->via->poll(c, &p[i]));
        assert_all(reduced(&t[i], c->size, op[i]));
        free(t[i].data);
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

/* Numbers whose sum depends on the order. */
static float rough(int rank, int64_t i)
{
    return (float)(1.0 / (double)(3 + i % 1009 + 17 * rank) - 0.1 * rank);
}

/* What ranks have slices of is summed in their order. */
static bool in_order(const struct tr_tensor *t)
{
    const int64_t n = t->dim[0], even = n < 100000 ? 0 : n / world.size * world.size;

    for (int64_t i = 0; i < even; i++) {
        float sum = rough(0, i);

        for (int r = 1; r < world.size; r++)
            sum += rough(r, i);
        if (tr_f32(t)[i] != sum)
            return false;
    }
    return true;
}

/* The same bits on all ranks, every time, and whether it blocks or not. */
static void same_bits(void **state)
{
    (void)state;
    for (int s = 0; s < SIZES; s++) {
        struct tr_tensor first = make(TR_F32, sizes[s]), again = make(TR_F32, sizes[s]);
        size_t bytes = (size_t)tr_tensor_bytes(&first);

        for (int run = 0; run < 6; run++) {
            struct tr_tensor *t = run == 0 ? &first : &again;
            struct tr_pending p;

            for (int64_t i = 0; i < sizes[s]; i++)
                set(t, i, (double)rough(world.rank, i));
            if (run < 3) {
                world.via->allreduce(&world, NULL, t, TR_SUM);
            } else {
                world.via->allreduce_start(&world, NULL, t, TR_SUM, &p);
                world.via->finish(&world, NULL, &p);
            }
            assert_all(memcmp(first.data, t->data, bytes) == 0 && in_order(t));
            memcpy(again.data, t->data, bytes);
            world.via->broadcast(&world, NULL, &again, 0);
            assert_all(memcmp(again.data, t->data, bytes) == 0);
        }
        free(first.data);
        free(again.data);
    }
}

static void broadcast_on(struct tr_comm *c)
{
    static const enum tr_dtype types[] = {TR_F32, TR_F64, TR_I32};

    for (int s = 0; s < SIZES; s++)
        for (int root = 0; root < c->size; root++) {
            struct tr_tensor t = make(types[(s + root) % 3], sizes[s]);
            bool right = true;

            bring(&t, c->rank);
            c->via->broadcast(c, NULL, &t, root);
            for (int64_t i = 0; i < sizes[s]; i++)
                right = right && get(&t, i) == brought(root, i);
            assert_all(right);
            free(t.data);
        }
}

static void broadcast(void **state)
{
    struct tr_comm self;

    (void)state;
    tr_comm_self(&self);
    broadcast_on(&self);
    broadcast_on(&world);
}

/* Round the ring, both ways at once, every rank naming its sends first; with two ranks all four
   legs are between the same pair, and only the order of the legs tells the messages apart. */
static void exchange_on(struct tr_comm *c)
{
    const int next = (c->rank + 1) % c->size, prev = (c->rank + c->size - 1) % c->size;

    for (int s = 0; s < SIZES; s++) {
        struct tr_tensor out[2], in[2];
        struct tr_pending p;
        bool right = true;

        for (int i = 0; i < 2; i++) {
            out[i] = make(TR_F32, sizes[s]);
            in[i] = make(TR_F32, sizes[s]);
            bring(&out[i], 2 * c->rank + i);
        }
        const struct tr_leg legs[] = {
            {TR_LEG_SEND, next, out[0].data, tr_tensor_bytes(&out[0])},
            {TR_LEG_SEND, prev, out[1].data, tr_tensor_bytes(&out[1])},
            {TR_LEG_RECV, prev, in[0].data, tr_tensor_bytes(&in[0])},
            {TR_LEG_RECV, next, in[1].data, tr_tensor_bytes(&in[1])},
        };
        c->via->exchange_start(c, NULL, legs, 4, &p);
        c->via->finish(c, NULL, &p);
        for (int64_t i = 0; i < sizes[s]; i++)
            right = right && get(&in[0], i) == brought(2 * prev, i) &&
                    get(&in[1], i) == brought(2 * next + 1, i);
        assert_all(right);
        for (int i = 0; i < 2; i++) {
            free(out[i].data);
            free(in[i].data);
        }
    }
}

static void exchange(void **state)
{
    struct tr_comm self;

    (void)state;
    tr_comm_self(&self);
    exchange_on(&self);
    exchange_on(&world);
}

/* The i-th send meets the i-th receive across calls too, large after small and empty ones. */
static void exchange_in_order(void **state)
{
    static const int64_t count[] = {3, LARGE, 0, 5};
    struct tr_tensor out = make(TR_F32, LARGE + 40), in = make(TR_F32, LARGE);
    const bool sends = world.rank == 0, receives = world.rank == world.size - 1;
    bool right = true;

    (void)state;
    bring(&out, 3);
    if (world.size > 1 && (sends || receives)) {
        struct tr_pending p[4];

        for (int i = 0; i < 4; i++) {
            struct tr_leg leg = {TR_LEG_SEND, world.size - 1, tr_f32(&out) + 10 * i, 4 * count[i]};

            if (receives)
                leg = (struct tr_leg){TR_LEG_RECV, 0, in.data, 4 * count[i]};
            world.via->exchange_start(&world, NULL, &leg, 1, &p[i]);
            if (receives)
                world.via->finish(&world, NULL, &p[i]);
            for (int64_t k = 0; receives && k < count[i]; k++)
                right = right && get(&in, k) == brought(3, 10 * i + k);
        }
        for (int i = 0; sends && i < 4; i++)
            world.via->finish(&world, NULL, &p[i]);
    }
    assert_all(right);
    free(out.data);
    free(in.data);
}

static void gather(void **state)
{
    struct tr_comm self, *groups[] = {&self, &world};

    (void)state;
    tr_comm_self(&self);
    for (int g = 0; g < 2; g++) {
        struct tr_comm *c = groups[g];
        char mine[5], *all = calloc((size_t)c->size, sizeof mine);
        bool right = true;

        snprintf(mine, sizeof mine, "r%03d", c->rank);
        c->via->gather_all(c, mine, sizeof mine, all);
        for (int r = 0; r < c->size; r++)
            right = right && strtol(all + 5 * r + 1, NULL, 10) == r && all[5 * r] == 'r';
        assert_all(right);
        c->via->barrier(c);
        free(all);
    }
}

/* Even and odd ranks, numbered backwards; the group works, and so does a group split from it. */
static void split(void **state)
{
    struct tr_comm half, one;
    const int parity = world.rank % 2, members = (world.size + 1 - parity) / 2;
    double x = 5.0;
    struct tr_tensor t = tr_f64_1(&x, 1);

    (void)state;
    assert_all_ok(world.via->split(&world, parity, -world.rank, "half", &half));
    assert_all(half.size == members && half.rank == members - 1 - world.rank / 2);
    assert_all(strcmp(half.name, "half") == 0 && half.seq == 0);
    allreduce_on(&half);

    /* Only the first of each half takes part. */
    assert_all_ok(half.via->split(&half, half.rank == 0 ? 4 : -1, 0, "one", &one));
    assert_all(one.size == (half.rank == 0));
    if (one.size > 0)
        one.via->allreduce(&one, NULL, &t, TR_SUM);
    assert_all(x == 5.0);
    one.via->release(&one);
    half.via->release(&half);
    assert_all(one.size == 0 && half.size == 0);
}

static void split_self(void **state)
{
    struct tr_comm self, in, out;

    (void)state;
    tr_comm_self(&self);
    assert_all_ok(self.via->split(&self, 3, 0, "in", &in));
    assert_all_ok(self.via->split(&self, -1, 0, "out", &out));
    assert_all(in.size == 1 && in.rank == 0 && out.size == 0);
    in.via->release(&in);
    out.via->release(&out);
}

/* The failure of rank `bad` reaches all with its sentence. */
static void agree_on_one(struct tr_comm *c, int bad)
{
    enum tr_status mine = TR_OK, all;
    char want[80];

    snprintf(want, sizeof want, c->size > 1 ? "disk %d is full (rank %d on " : "disk %d is full",
             bad, bad);
    if (c->rank == bad)
        mine = TR_FAIL(TR_EIO, "disk %d is full", bad);
    all = tr_comm_agree(c, mine);
    assert_all(all == TR_EIO);
    assert_all(strncmp(tr_last_error(), want, strlen(want)) == 0);
    assert_all(c->size > 1 || strcmp(tr_last_error(), want) == 0);
}

static void agree(void **state)
{
    struct tr_comm self;
    enum tr_status all;

    (void)state;
    tr_comm_self(&self);
    agree_on_one(&self, 0);
    for (int bad = 0; bad < world.size; bad++) {
        agree_on_one(&world, bad);
        assert_all_ok(tr_comm_agree(&world, TR_OK));
    }
    /* The worst status wins over the lower rank. */
    all = tr_comm_agree(&world, world.rank == world.size - 1 ? TR_FAIL(TR_EDATA, "bad data")
                                                             : TR_FAIL(TR_EIO, "bad disk"));
    assert_all(all == TR_EDATA && strstr(tr_last_error(), "bad data"));
    /* Equal ones: the lowest rank speaks. */
    all = tr_comm_agree(&world, TR_FAIL(TR_EIO, "I am %d.", world.rank));
    assert_all(all == TR_EIO && strncmp(tr_last_error(), "I am 0.", 7) == 0);
}

static void maximum(void **state)
{
    struct tr_comm self;
    const int64_t far = ((int64_t)1 << 53) - 1;
    int64_t got;

    (void)state;
    tr_comm_self(&self);
    got = tr_comm_max(&self, -3);
    assert_all(got == -3);
    got = tr_comm_max(&world, -10 - world.rank);
    assert_all(got == -10);
    got = tr_comm_max(&world, world.rank == world.size - 1 ? far : 0);
    assert_all(got == far);
}

/* Every rank counts the same calls. */
static void sequence(void **state)
{
    uint64_t before = world.seq;
    struct tr_comm none;
    double x = 0.0;
    struct tr_tensor t = tr_f64_1(&x, 1);
    struct tr_pending p;

    (void)state;
    world.via->allreduce(&world, NULL, &t, TR_SUM);
    world.via->allreduce_start(&world, NULL, &t, TR_SUM, &p);
    world.via->finish(&world, NULL, &p);
    world.via->broadcast(&world, NULL, &t, 0);
    world.via->barrier(&world);
    assert_all(world.seq == before + 4);
    before = world.seq;
    assert_all_ok(world.via->split(&world, -1, 0, "none", &none));
    none.via->release(&none);
    assert_all((uint64_t)tr_comm_max(&world, (int64_t)world.seq) == world.seq - 1);
    assert_all(world.seq > before);
}

static jmp_buf back;
static int died_with;

static void come_back(int exit_code, const char *sentence)
{
    (void)sentence;
    died_with = exit_code;
    longjmp(back, 1);
}

/* A transport that breaks ends the job, with the code that tells a script to try again. */
static void broken(void **state)
{
    struct tr_comm group;
    struct tr_leg leg = {TR_LEG_SEND, 1 << 20, &leg, 1};

    (void)state;
    assert_all_ok(world.via->split(&world, 0, world.rank, "broken", &group));
    died_with = 0;
    tr_on_die(come_back);
    if (setjmp(back) == 0) {
        struct tr_pending p;

        group.via->exchange_start(&group, NULL, &leg, 1, &p);
    }
    assert_all(died_with == 75);
    group.via->release(&group);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(allreduce),  cmocka_unit_test(in_flight),
        cmocka_unit_test(same_bits),  cmocka_unit_test(broadcast),
        cmocka_unit_test(exchange),   cmocka_unit_test(exchange_in_order),
        cmocka_unit_test(gather),     cmocka_unit_test(split),
        cmocka_unit_test(split_self), cmocka_unit_test(agree),
        cmocka_unit_test(maximum),    cmocka_unit_test(sequence),
        cmocka_unit_test(broken),
    };
    return run_mpi_tap(tests);
}
