/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <math.h>

#include "device/device.h"
#include "tp/tp.h"

/*
 * Two layers, h = x W1^T and y = h W2^T, sharded over the ranks as in a block: rows of W1 and
 * columns of W2.  All operands are small integers, so sums are exact and the sharded model must
 * equal the unsharded one, forward and backward.
 */
enum { N = 12, I = 10, F = 24, O = 7 };

struct whole {
    float x[N * I], w1[F * I], w2[O * F], dy[N * O];
    float h[N * F], y[N * O], dh[N * F], dx[N * I];
};

static float small(int i)
{
    return (float)(i * 7 % 11 - 5);
}

static struct tr_queue open_queue(void)
{
    struct tr_queue q = {.on = tr_backend_find("ref")};

    assert_all_ok(q.on->open(&(struct tr_device_how){.threads = 1}, &q.device));
    return q;
}

/* Only rows first .. first + n - 1 of x and dy are known to a rank with a part of the sequence. */
static void forget_the_rest(struct whole *m, int64_t first, int64_t n, bool all_of_x)
{
    for (int64_t i = 0; i < N; i++) {
        bool mine = i >= first && i < first + n;

        for (int k = 0; k < I && (!mine || all_of_x); k++)
            m->x[i * I + k] = NAN;
        for (int k = 0; k < O && !mine; k++)
            m->dy[i * O + k] = NAN;
    }
}

/* One rank's shard: `f` of the F rows of W1 and columns of W2, and its rows of x, y, dy and dx,
   which are blocks of `m`'s tensors.  With `apart` its x and y lie in memory of their own. */
static void forward_backward(struct tr_queue *q, const struct tr_tp *tp, struct whole *m, int64_t f,
                             bool apart)
{
    const int64_t n = tr_tp_rows(tp, N), first = tr_tp_first_row(tp, N);
    static float memory[N * I + N * O];
    struct tr_tensor x = tr_f32_2(m->x, N, I), w1 = tr_f32_2(m->w1, f, I);
    struct tr_tensor w2 = tr_f32_2(m->w2, O, f), dy = tr_f32_2(m->dy, N, O);
    struct tr_tensor h = tr_f32_2(m->h, N, f), y = tr_f32_2(m->y, N, O);
    struct tr_tensor dh = tr_f32_2(m->dh, N, f), dx = tr_f32_2(m->dx, N, I);
    struct tr_tensor x1 = tr_f32_2(m->x + first * I, n, I), y1 = tr_f32_2(m->y + first * O, n, O);
    struct tr_tensor dx1 = tr_f32_2(m->dx + first * I, n, I);
    struct tr_tensor dy1 = tr_f32_2(m->dy + first * O, n, O);

    if (apart) {
        memcpy(memory, x1.data, (size_t)tr_tensor_bytes(&x1));
        x1.data = memory;
        y1.data = memory + N * I;
    }
    if (tp->sequence)
        forget_the_rest(m, first, n, apart);
    tr_tp_enter_fwd(tp, q, &x, &x1);
    q->on->linear(q, &h, NULL, &x, &w1, NULL, TR_ACT_NONE);
    q->on->linear(q, &y, NULL, &h, &w2, NULL, TR_ACT_NONE);
    tr_tp_leave_fwd(tp, q, &y1, &y);
    tr_tp_leave_bwd(tp, q, &dy, &dy1);
    q->on->linear_dgrad(q, &dh, &dy, &w2, NULL, TR_ACT_NONE);
    q->on->linear_dgrad(q, &dx, &dh, &w1, NULL, TR_ACT_NONE);
    tr_tp_enter_bwd(tp, q, &dx1, &dx);
    if (apart)
        memcpy(m->y + first * O, y1.data, (size_t)tr_tensor_bytes(&y1));
}

static void fill(struct whole *m)
{
    for (int i = 0; i < N * I; i++)
        m->x[i] = small(i + 3);
    for (int i = 0; i < F * I; i++)
        m->w1[i] = small(i * i % 13);
    for (int i = 0; i < O * F; i++)
        m->w2[i] = small(5 * i + i / 7);
    for (int i = 0; i < N * O; i++)
        m->dy[i] = small(2 * i + 1);
}

/* Keep the rank's slices: rows first .. first + f - 1 of W1, the same columns of W2. */
static void cut(struct whole *m, int first, int f)
{
    memmove(m->w1, m->w1 + first * I, (size_t)(f * I) * sizeof(float));
    for (int o = 0; o < O; o++)
        memmove(m->w2 + o * f, m->w2 + o * F + first, (size_t)f * sizeof(float));
}

static void check_cut(bool sequence, bool apart)
{
    static struct whole whole, mine;
    struct tr_queue q = open_queue();
    struct tr_comm self;
    const struct tr_tp one = {.comm = &self}, all = {.comm = &world, .sequence = sequence};
    const int64_t n = tr_tp_rows(&all, N), first = tr_tp_first_row(&all, N);
    const int f = F / world.size;

    tr_comm_self(&self);
    fill(&whole);
    forward_backward(&q, &one, &whole, F, false);
    fill(&mine);
    cut(&mine, world.rank * f, f);
    forward_backward(&q, &all, &mine, f, apart);
    assert_all(n == (sequence ? N / world.size : N) && first == (sequence ? n * world.rank : 0));
    assert_all(memcmp(mine.y + first * O, whole.y + first * O, (size_t)(n * O) * sizeof(float)) ==
               0);
    assert_all(memcmp(mine.dx + first * I, whole.dx + first * I, (size_t)(n * I) * sizeof(float)) ==
               0);
    assert_all(memcmp(mine.x, whole.x, sizeof whole.x) == 0);
    assert_all(memcmp(mine.dy, whole.dy, sizeof whole.dy) == 0);
    q.on->close(q.device);
}

static void cut_equals_whole(void **state)
{
    (void)state;
    check_cut(false, false);
}

static void cut_sequence_equals_whole(void **state)
{
    (void)state;
    check_cut(true, false);
    check_cut(true, true);
}

static void sum_and_max(void **state)
{
    float sum[2] = {(float)world.rank, 1.0F}, max[2] = {(float)-world.rank, (float)world.rank};
    struct tr_tensor s = tr_f32_1(sum, 2), m = tr_f32_1(max, 2);
    const struct tr_tp tp = {.comm = &world, .sequence = true};
    const float n = (float)world.size;

    (void)state;
    tr_tp_sum(&tp, NULL, &s);
    tr_tp_max(&tp, NULL, &m);
    assert_all(sum[0] == n * (n - 1.0F) / 2.0F && sum[1] == n);
    assert_all(max[0] == 0.0F && max[1] == n - 1.0F);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cut_equals_whole),
        cmocka_unit_test(cut_sequence_equals_whole),
        cmocka_unit_test(sum_and_max),
    };
    return run_mpi_tap(tests);
}
