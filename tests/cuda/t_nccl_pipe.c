/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include "comm/grid.h"
#include "pipeline/exec.h"

/*
 * Pipelines over NCCL.  Kernels of all groups begin in one order on each rank, so a message that is waited
 * for may hold up what was called after it: here stages compute with sums over their tensor ranks, and
 * replicas add up gradients, while messages are under way, in every schedule.  What would lock up
 * does; what reads a message too early, or a buffer too late, gets other numbers.
 *
 * The model adds 1 in each chunk.  Micro-batch m begins as 100 m and comes back, from the last chunk to
 * the first, as -100 m with 1 added in each chunk again.
 */
enum { N = 600, MAX_K = 3, MAX_M = 16, ARENA_BYTES = 8 << 20 };
static const float WRONG = 60000.0F;

struct toy {
    const struct tr_sched *s;
    struct tr_grid *grid;
    struct tr_stage *stage;
    struct tr_comm replicas;
    int slots[MAX_K];
    struct tr_tensor in[MAX_K][MAX_M], out[MAX_K][MAX_M], din[MAX_K][MAX_M], dout[MAX_K][MAX_M];
    struct tr_tensor one, grads[MAX_K];
    struct tr_tensor ends, begins; /* [M] what came to the last chunk, and back to the first */
    struct tr_pending sum[MAX_K];
};

static unsigned char *arena;
static int64_t used;

static struct tr_tensor make(int64_t n, float value)
{
    struct tr_tensor t = tr_f32_1((float *)(void *)(arena + used), n);

    used += (tr_tensor_bytes(&t) + 255) / 256 * 256;
    TR_ASSERT(used <= ARENA_BYTES);
    gpu.on->fill(&gpu, &t, value);
    return t;
}

static bool begins_here(const struct toy *t, int chunk)
{
    return t->s->rank == 0 && chunk == 0;
}

static bool ends_here(const struct toy *t, int chunk)
{
    return t->s->rank == t->s->ranks - 1 && chunk == t->s->chunks - 1;
}

static struct tr_tensor toy_message(void *ctx, struct tr_slot at, enum tr_leg_bit leg)
{
    struct toy *t = ctx;

    switch (leg) {
    case TR_SEND_FWD:
        return t->out[at.chunk][at.micro % t->s->outputs];
    case TR_RECV_FWD:
        return t->in[at.chunk][at.micro % t->slots[at.chunk]];
    case TR_SEND_BWD:
        return t->din[at.chunk][at.micro % t->s->dinputs];
    default:
        return t->dout[at.chunk][at.micro % t->s->doutputs];
    }
}

/* y = x + 1, on all tensor ranks together. */
static void add_one(struct toy *t, const struct tr_tensor *y, const struct tr_tensor *x)
{
    struct tr_comm *tp = &t->grid->tp;

    gpu.on->copy(&gpu, y, x);
    gpu.on->add(&gpu, y, &t->one);
    tp->via->allreduce(tp, &gpu, y, TR_MAX);
}

static void note(const struct tr_tensor *list, int micro, const struct tr_tensor *x)
{
    struct tr_tensor to = tr_tensor_span(list, micro, 1), from = tr_tensor_span(x, N - 1, 1);

    gpu.on->copy(&gpu, &to, &from);
}

static void toy_forward(void *ctx, struct tr_slot at)
{
    struct toy *t = ctx;
    struct tr_tensor x = toy_message(t, at, TR_RECV_FWD), y = toy_message(t, at, TR_SEND_FWD);

    if (begins_here(t, at.chunk))
        gpu.on->fill(&gpu, &x, 100.0F * (float)at.micro);
    add_one(t, &y, &x);
    tr_exec_poll(t->stage);
    if (ends_here(t, at.chunk))
        note(&t->ends, at.micro, &y);
    if (t->s->kind == TR_SCHED_EVAL)
        gpu.on->fill(&gpu, &x, WRONG);
}

static void toy_backward(void *ctx, struct tr_slot at)
{
    struct toy *t = ctx;
    struct tr_tensor dy = toy_message(t, at, TR_RECV_BWD), dx = toy_message(t, at, TR_SEND_BWD);
    struct tr_tensor x = toy_message(t, at, TR_RECV_FWD);
    struct tr_comm *c = &t->replicas;

    if (ends_here(t, at.chunk))
        gpu.on->fill(&gpu, &dy, -100.0F * (float)at.micro);
    add_one(t, &dx, &dy);
    if (begins_here(t, at.chunk))
        note(&t->begins, at.micro, &dx);
    gpu.on->fill(&gpu, &x, WRONG);
    gpu.on->fill(&gpu, &dy, WRONG);
    if (at.micro == t->s->micros - 1) {
        gpu.on->fill(&gpu, &t->grads[at.chunk], 1.0F);
        c->via->allreduce_start(c, &gpu, &t->grads[at.chunk], TR_SUM, &t->sum[at.chunk]);
    }
}

static void open_toy(struct toy *t, const struct tr_sched *s, struct tr_grid *grid)
{
    *t = (struct toy){.s = s, .grid = grid};
    used = 0;
    t->one = make(N, 1.0F);
    t->ends = make(MAX_M, WRONG);
    t->begins = make(MAX_M, WRONG);
    for (int c = 0; c < s->chunks; c++) {
        t->slots[c] = tr_sched_slots(s, c);
        t->grads[c] = make(N, WRONG);
        for (int i = 0; i < t->slots[c]; i++)
            t->in[c][i] = make(N, WRONG);
        for (int i = 0; i < s->outputs; i++)
            t->out[c][i] = make(N, WRONG);
        for (int i = 0; i < s->dinputs; i++)
            t->din[c][i] = make(N, WRONG);
        for (int i = 0; i < s->doutputs; i++)
            t->dout[c][i] = make(N, WRONG);
    }
}

static bool came(const struct toy *t, const struct tr_tensor *list, float factor)
{
    float got[MAX_M];
    bool right = true;

    gpu.on->download(&gpu, got, list);
    for (int m = 0; m < t->s->micros; m++)
        right = right && got[m] == factor * (float)m + (float)(t->s->ranks * t->s->chunks);
    return right;
}

static void check(struct tr_grid *grid, struct tr_sched s)
{
    struct toy t;
    struct tr_stage stage = {
        .ctx = &t, .forward = toy_forward, .backward = toy_backward, .message = toy_message};
    float sum = 0.0F;

    s.ranks = grid->p;
    s.rank = grid->at.pp;
    assert_all_ok(tr_sched_build(&s));
    open_toy(&t, &s, grid);
    t.stage = &stage;
    assert_all_ok(grid->dp.via->split(&grid->dp, 0, grid->at.dp, "dp", &t.replicas));
    tr_exec_step(&s, &grid->pp, &gpu, &stage);
    for (int c = 0; c < s.chunks && s.kind != TR_SCHED_EVAL; c++) {
        struct tr_tensor one = tr_tensor_span(&t.grads[c], 0, 1);

        t.replicas.via->finish(&t.replicas, &gpu, &t.sum[c]);
        gpu.on->download(&gpu, &sum, &one);
        assert_all(sum == (float)grid->d);
    }
    assert_all(s.rank < s.ranks - 1 || came(&t, &t.ends, 100.0F));
    assert_all(s.rank > 0 || s.kind == TR_SCHED_EVAL || came(&t, &t.begins, -100.0F));
    gpu.on->wait(&gpu);
    t.replicas.via->release(&t.replicas);
    tr_sched_release(&s);
}

/* Every way to lay out the world that has a pipeline. */
static void on_each_grid(void (*run)(struct tr_grid *g))
{
    for (int w = 1; w <= world.size; w++)
        for (int p = 2; w * p <= world.size; p++) {
            const struct tr_layout l = {.w = w, .p = p, .d = world.size / (w * p), .k = 1};
            struct tr_grid g;

            if (world.size % (w * p) != 0)
                continue;
            assert_all_ok(tr_grid_open(&world, &l, &g));
            run(&g);
            tr_grid_close(&g);
        }
}

static void run_plain(struct tr_grid *g)
{
    for (int m = 1; m <= 5; m += 2) {
        check(g, (struct tr_sched){.kind = TR_SCHED_GPIPE, .chunks = 1, .micros = m});
        check(g, (struct tr_sched){.kind = TR_SCHED_1F1B, .chunks = 1, .micros = m});
        check(g, (struct tr_sched){.kind = TR_SCHED_EVAL, .chunks = 1, .micros = m});
    }
}

static void plain(void **state)
{
    (void)state;
    on_each_grid(run_plain);
}

static void run_interleaved(struct tr_grid *g)
{
    struct tr_sched s = {.kind = TR_SCHED_INTERLEAVED};

    for (s.chunks = 2; s.chunks <= MAX_K; s.chunks++)
        for (s.micros = g->p; s.micros <= 3 * g->p; s.micros += g->p)
            for (int overlap = 0; overlap < 2; overlap++) {
                s.overlap = overlap;
                check(g, s);
            }
}

static void interleaved(void **state)
{
    (void)state;
    on_each_grid(run_interleaved);
}

static void run_grouped(struct tr_grid *g)
{
    struct tr_sched s = {.kind = TR_SCHED_INTERLEAVED, .chunks = 2, .overlap = true};

    for (s.group = g->p; s.group <= 2 * g->p + 1; s.group++)
        for (s.micros = s.group; s.micros <= 3 * g->p; s.micros++)
            if (s.micros % s.group == 0 || s.micros % s.group >= g->p)
                check(g, s);
    s = (struct tr_sched){.kind = TR_SCHED_EVAL, .chunks = 2, .micros = 2 * g->p, .overlap = true};
    check(g, s);
}

static void grouped(void **state)
{
    (void)state;
    on_each_grid(run_grouped);
}

static int open_arena(void **state)
{
    void *p = NULL;

    (void)state;
    assert_all_ok(tr_cuda.reserve(gpu.device, ARENA_BYTES, &p));
    arena = p;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(plain, open_arena),
        cmocka_unit_test(interleaved),
        cmocka_unit_test(grouped),
    };
    return run_mpi_tap(tests);
}
