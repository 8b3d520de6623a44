/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <math.h>

#include "pipeline/exec.h"

/*
 * A toy model of P * K layers, y = x + a x^2 / 4 with one weight a each, on vectors of N floats
 * (far above the size that MPI sends without asking), through each schedule.  Every layer adds up
 * its gradient in the order of micro-batches, as the serial run does, so all results must be equal
 * to the bit.
 */
enum { N = 5000, MAX_LAYERS = 16, MAX_M = 16 };

struct result {
    float loss[MAX_M];         /* on the rank of the last layer */
    float dweight[MAX_LAYERS]; /* on the rank of the layer */
};

static float weight(int layer)
{
    return 0.5F + 0.125F * (float)(layer % 5);
}

static void make_input(float *x, int micro)
{
    for (int i = 0; i < N; i++)
        x[i] = 0.01F * (float)((i * 7 + micro * 13) % 101) - 0.3F;
}

/* Compiled once, so that both runs round alike. */
static __attribute__((noinline)) void layer_forward(float *y, const float *x, int layer)
{
    for (int i = 0; i < N; i++)
        y[i] = x[i] + 0.25F * weight(layer) * x[i] * x[i];
}

/* dx, and the gradient of the weight. */
static __attribute__((noinline)) float layer_backward(float *dx, const float *dy, const float *x,
                                                      int layer)
{
    float sum = 0.0F;

    for (int i = 0; i < N; i++) {
        sum += dy[i] * 0.25F * x[i] * x[i];
        dx[i] = dy[i] * (1.0F + 0.5F * weight(layer) * x[i]);
    }
    return sum;
}

/* The loss is the sum of y^2 / 2, its gradient y. */
static __attribute__((noinline)) float loss_of(const float *y)
{
    float sum = 0.0F;

    for (int i = 0; i < N; i++)
        sum += 0.5F * y[i] * y[i];
    return sum;
}

static void run_serial(int layers, int micros, struct result *out)
{
    static float x[MAX_LAYERS + 1][N], d[2][N];

    *out = (struct result){.loss = {0}};
    for (int m = 0; m < micros; m++) {
        make_input(x[0], m);
        for (int l = 0; l < layers; l++)
            layer_forward(x[l + 1], x[l], l);
        out->loss[m] = loss_of(x[layers]);
        memcpy(d[layers % 2], x[layers], sizeof d[0]);
        for (int l = layers - 1; l >= 0; l--)
            out->dweight[l] += layer_backward(d[l % 2], d[(l + 1) % 2], x[l], l);
    }
}

/* ---- the same, in chunks ---- */

struct toy {
    const struct tr_sched *s;
    int slots[MAX_LAYERS];
    float (*in[MAX_LAYERS])[N];             /* [chunk][slot] */
    float (*out)[N], (*din)[N], (*dout)[N]; /* [chunk]: one buffer each */
    struct result result;
};

static int layer_of(const struct toy *t, int chunk)
{
    return chunk * t->s->ranks + t->s->rank;
}

static float *input_of(struct toy *t, struct tr_slot at)
{
    return t->in[at.chunk][at.micro % t->slots[at.chunk]];
}

static void toy_forward(void *ctx, struct tr_slot at)
{
    struct toy *t = ctx;
    const int layer = layer_of(t, at.chunk);

    if (layer == 0)
        make_input(input_of(t, at), at.micro);
    layer_forward(t->out[at.chunk], input_of(t, at), layer);
    if (layer == t->s->ranks * t->s->chunks - 1)
        t->result.loss[at.micro] = loss_of(t->out[at.chunk]);
}

/* The gradient of the loss is the last output, made again: gpipe has run other forwards since. */
static void toy_backward(void *ctx, struct tr_slot at)
{
    struct toy *t = ctx;
    const int layer = layer_of(t, at.chunk);

    if (layer == t->s->ranks * t->s->chunks - 1)
        layer_forward(t->dout[at.chunk], input_of(t, at), layer);
    t->result.dweight[layer] +=
        layer_backward(t->din[at.chunk], t->dout[at.chunk], input_of(t, at), layer);
    /* Nobody may read this any more. */
    for (int i = 0; i < N; i++)
        input_of(t, at)[i] = NAN;
}

static void *toy_message(void *ctx, struct tr_slot at, enum tr_leg_bit leg)
{
    struct toy *t = ctx;

    switch (leg) {
    case TR_SEND_FWD:
        return t->out[at.chunk];
    case TR_RECV_FWD:
        return input_of(t, at);
    case TR_SEND_BWD:
        return t->din[at.chunk];
    default:
        return t->dout[at.chunk];
    }
}

static void toy_open(struct toy *t, const struct tr_sched *s)
{
    const size_t chunks = (size_t)s->chunks;

    *t = (struct toy){.s = s};
    for (int c = 0; c < s->chunks; c++) {
        t->slots[c] = tr_sched_slots(s, c);
        t->in[c] = calloc((size_t)t->slots[c], sizeof *t->in[c]);
    }
    t->out = calloc(chunks, sizeof *t->out);
    t->din = calloc(chunks, sizeof *t->din);
    t->dout = calloc(chunks, sizeof *t->dout);
}

static void toy_close(struct toy *t)
{
    for (int c = 0; c < t->s->chunks; c++)
        free(t->in[c]);
    free(t->out);
    free(t->din);
    free(t->dout);
}

static void run_parallel(const struct tr_sched *s, struct result *out)
{
    struct toy t;
    struct tr_stage stage = {&t, toy_forward, toy_backward, toy_message, N * sizeof(float)};

    toy_open(&t, s);
    tr_exec_step(s, &world, NULL, &stage);
    *out = t.result;
    toy_close(&t);
}

/* What this rank computed, and nothing else. */
static bool equal(const struct tr_sched *s, const struct result *got, const struct result *want)
{
    const bool last = s->rank == s->ranks - 1;
    bool same = true;

    for (int m = 0; m < s->micros; m++)
        same = same && got->loss[m] == (last ? want->loss[m] : 0.0F);
    for (int l = 0; l < s->ranks * s->chunks; l++) {
        bool mine = l % s->ranks == s->rank && s->kind != TR_SCHED_EVAL;

        same = same && got->dweight[l] == (mine ? want->dweight[l] : 0.0F);
    }
    return same;
}

static void check(enum tr_sched_kind kind, int chunks, int micros)
{
    struct result serial, parallel;
    struct tr_sched s;

    run_serial(world.size * chunks, micros, &serial);
    assert_all_ok(tr_sched_build(&s, kind, world.size, world.rank, chunks, micros));
    run_parallel(&s, &parallel);
    assert_all(equal(&s, &parallel, &serial));
    tr_sched_release(&s);
}

static void gpipe(void **state)
{
    (void)state;
    for (int m = 1; m <= 6; m++)
        check(TR_SCHED_GPIPE, 1, m);
}

static void one_forward_one_backward(void **state)
{
    (void)state;
    for (int m = 1; m <= 9; m++)
        check(TR_SCHED_1F1B, 1, m);
}

static void interleaved(void **state)
{
    (void)state;
    for (int k = 2; k <= 4 && world.size > 1; k++)
        for (int m = world.size; m <= 3 * world.size; m += world.size)
            check(TR_SCHED_INTERLEAVED, k, m);
}

static void evaluation(void **state)
{
    (void)state;
    for (int m = 1; m <= 5; m++)
        check(TR_SCHED_EVAL, 1, m);
    for (int k = 2; k <= 3 && world.size > 1; k++)
        check(TR_SCHED_EVAL, k, 2 * world.size);
}

/* ---- timers ---- */

/* The names of the timers that ran, each followed by a blank, in the order of the log. */
static void ran(char *names, size_t size)
{
    size_t n = 0;

    names[0] = '\0';
    for (int t = 0; t < TR_TIMERS; t++)
        if (tr_timer_take((enum tr_timer)t) > 0.0)
            n += (size_t)snprintf(names + n, size - n, "%s ", tr_timer_name((enum tr_timer)t));
}

static void assert_timers(enum tr_sched_kind kind, int chunks, int micros, const char *first,
                          const char *middle, const char *last)
{
    const char *want = world.rank == 0 ? first : world.rank == world.size - 1 ? last : middle;
    struct result result;
    struct tr_sched s;
    char names[1024];

    assert_all_ok(tr_sched_build(&s, kind, world.size, world.rank, chunks, micros));
    ran(names, sizeof names);
    run_parallel(&s, &result);
    ran(names, sizeof names);
    assert_all(strcmp(names, want) == 0);
    tr_sched_release(&s);
}

/* As Megatron names them, on the first, the middle and the last stage. */
static void timers(void **state)
{
    (void)state;
    if (world.size == 1) {
        assert_timers(TR_SCHED_1F1B, 1, 4, "forward-compute backward-compute ", "", "");
        return;
    }
    assert_timers(TR_SCHED_1F1B, 1, 8,
                  "forward-compute forward-send forward-send-backward-recv backward-compute "
                  "backward-recv ",
                  "forward-compute forward-recv forward-send forward-send-backward-recv "
                  "backward-compute backward-recv backward-send backward-send-forward-recv ",
                  "forward-compute forward-recv backward-compute backward-send "
                  "backward-send-forward-recv ");
    assert_timers(TR_SCHED_EVAL, 1, 3, "forward-compute forward-send ",
                  "forward-compute forward-recv forward-send ", "forward-compute forward-recv ");
    /* The legs of rank 0 are sf, sf rf, sf rb, sf sb rb, all four, sf rf rb, sb rb and rb; those of
       rank 1 mirror them. */
    if (world.size == 2)
        assert_timers(TR_SCHED_INTERLEAVED, 2, 4,
                      "forward-compute forward-send forward-send-forward-recv "
                      "forward-send-backward-recv forward-backward-send-forward-backward-recv "
                      "backward-compute backward-recv backward-send-backward-recv ",
                      "",
                      "forward-compute forward-recv forward-send-forward-recv "
                      "forward-backward-send-forward-backward-recv backward-compute "
                      "backward-send backward-send-forward-recv backward-send-backward-recv ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpipe),       cmocka_unit_test(one_forward_one_backward),
        cmocka_unit_test(interleaved), cmocka_unit_test(evaluation),
        cmocka_unit_test(timers),
    };
    return run_mpi_tap(tests);
}
