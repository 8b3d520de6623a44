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
    struct tr_stage *stage;
    int slots[MAX_LAYERS];
    float (*in[MAX_LAYERS])[N];                                                 /* [chunk][slot] */
    float (*out[MAX_LAYERS])[N], (*din[MAX_LAYERS])[N], (*dout[MAX_LAYERS])[N]; /* and [buffer] */
    struct result result;
    int arrivals;
    bool whole;
    /* Messages that travel in another form, in as few buffers as may be under way. */
    bool packs;
    struct {
        unsigned packed, started, unpacked;
        float wire[TR_FLIGHTS][N];
    } * leg; /* [TR_LEGS] */
};

static int layer_of(const struct toy *t, int chunk)
{
    return chunk * t->s->ranks + t->s->rank;
}

static float *input_of(struct toy *t, struct tr_slot at)
{
    return t->in[at.chunk][at.micro % t->slots[at.chunk]];
}

static float *output_of(struct toy *t, struct tr_slot at)
{
    return t->out[at.chunk][at.micro % t->s->outputs];
}

static float *dinput_of(struct toy *t, struct tr_slot at)
{
    return t->din[at.chunk][at.micro % t->s->dinputs];
}

static float *doutput_of(struct toy *t, struct tr_slot at)
{
    return t->dout[at.chunk][at.micro % t->s->doutputs];
}

static void toy_forward(void *ctx, struct tr_slot at)
{
    struct toy *t = ctx;
    const int layer = layer_of(t, at.chunk);

    if (layer == 0)
        make_input(input_of(t, at), at.micro);
    layer_forward(output_of(t, at), input_of(t, at), layer);
    tr_exec_poll(t->stage);
    if (layer == t->s->ranks * t->s->chunks - 1)
        t->result.loss[at.micro] = loss_of(output_of(t, at));
}

/* The gradient of the loss is the last output, made again: gpipe has run other forwards since. */
static void toy_backward(void *ctx, struct tr_slot at)
{
    struct toy *t = ctx;
    const int layer = layer_of(t, at.chunk);

    if (layer == t->s->ranks * t->s->chunks - 1)
        layer_forward(doutput_of(t, at), input_of(t, at), layer);
    t->result.dweight[layer] +=
        layer_backward(dinput_of(t, at), doutput_of(t, at), input_of(t, at), layer);
    /* Nobody may read these any more. */
    for (int i = 0; i < N; i++)
        input_of(t, at)[i] = doutput_of(t, at)[i] = NAN;
}

static struct tr_tensor toy_message(void *ctx, struct tr_slot at, enum tr_leg_bit leg)
{
    struct toy *t = ctx;

    switch (leg) {
    case TR_SEND_FWD:
        return tr_f32_1(output_of(t, at), N);
    case TR_RECV_FWD:
        return tr_f32_1(input_of(t, at), N);
    case TR_SEND_BWD:
        return tr_f32_1(dinput_of(t, at), N);
    default:
        return tr_f32_1(doutput_of(t, at), N);
    }
}

/* As many calls as messages, with the message in place. */
static void toy_arrived(void *ctx, struct tr_slot at, enum tr_leg_bit leg)
{
    struct toy *t = ctx;
    const struct tr_tensor message = toy_message(ctx, at, leg);

    t->arrivals++;
    t->whole = t->whole && (t->packs || !isnan(tr_f32(&message)[N - 1]));
}

static int number_of(enum tr_leg_bit leg)
{
    return leg == TR_SEND_FWD ? 0 : leg == TR_RECV_FWD ? 1 : leg == TR_SEND_BWD ? 2 : 3;
}

/* On the way numbers are negative and in the other order, and their places are used again at once. */
static void turn(float *to, float *from)
{
    for (int i = 0; i < N; i++) {
        to[i] = -from[N - 1 - i];
        from[N - 1 - i] = NAN;
    }
}

static void toy_pack(void *ctx, struct tr_slot at, enum tr_leg_bit leg)
{
    struct toy *t = ctx;
    const int k = number_of(leg);
    const struct tr_tensor message = toy_message(ctx, at, leg);
    static float copy[N];

    memcpy(copy, tr_f32(&message), sizeof copy);
    turn(t->leg[k].wire[t->leg[k].packed++ % TR_FLIGHTS], copy);
}

static struct tr_tensor toy_wire(void *ctx, struct tr_slot at, enum tr_leg_bit leg)
{
    struct toy *t = ctx;
    const int k = number_of(leg);

    (void)at;
    return tr_f32_1(t->leg[k].wire[t->leg[k].started++ % TR_FLIGHTS], N);
}

static void toy_unpack(void *ctx, struct tr_slot at, enum tr_leg_bit leg)
{
    struct toy *t = ctx;
    const int k = number_of(leg);
    const struct tr_tensor message = toy_message(ctx, at, leg);

    turn(tr_f32(&message), t->leg[k].wire[t->leg[k].unpacked++ % TR_FLIGHTS]);
    t->whole = t->whole && !isnan(tr_f32(&message)[0]);
}

static void toy_open(struct toy *t, const struct tr_sched *s, bool packs)
{
    *t = (struct toy){.s = s, .whole = true, .packs = packs};
    t->leg = calloc(TR_LEGS, sizeof *t->leg);
    for (int c = 0; c < s->chunks; c++) {
        t->slots[c] = tr_sched_slots(s, c);
        t->in[c] = calloc((size_t)t->slots[c], sizeof *t->in[c]);
        t->out[c] = calloc((size_t)s->outputs, sizeof *t->out[c]);
        t->din[c] = calloc((size_t)s->dinputs, sizeof *t->din[c]);
        t->dout[c] = calloc((size_t)s->doutputs, sizeof *t->dout[c]);
        for (int i = 0; i < t->slots[c]; i++)
            t->in[c][i][N - 1] = NAN;
        for (int i = 0; i < s->doutputs; i++)
            t->dout[c][i][N - 1] = NAN;
    }
}

static void toy_close(struct toy *t)
{
    for (int c = 0; c < t->s->chunks; c++) {
        free(t->in[c]);
        free(t->out[c]);
        free(t->din[c]);
        free(t->dout[c]);
    }
    free(t->leg);
}

/* Messages that a rank receives: all inputs but the model's, and in training all gradients of
   outputs but the loss's. */
static int received(const struct tr_sched *s)
{
    const int inputs = s->chunks - (s->rank == 0);
    const int gradients = s->chunks - (s->rank == s->ranks - 1);

    return s->micros * (inputs + (s->kind == TR_SCHED_EVAL ? 0 : gradients));
}

static void run_parallel(const struct tr_sched *s, bool packs, struct result *out)
{
    struct toy t;
    struct tr_stage stage = {
        .ctx = &t,
        .forward = toy_forward,
        .backward = toy_backward,
        .message = packs ? toy_wire : toy_message,
        .arrived = toy_arrived,
        .pack = packs ? toy_pack : NULL,
        .unpack = packs ? toy_unpack : NULL,
    };

    toy_open(&t, s, packs);
    t.stage = &stage;
    tr_exec_step(s, &world, NULL, &stage);
    *out = t.result;
    assert_all(t.whole && t.arrivals == received(s));
    for (int k = 0; k < TR_LEGS && packs; k++)
        assert_all(t.leg[k].started == t.leg[k].packed + t.leg[k].unpacked);
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

static struct tr_sched list(enum tr_sched_kind kind, int chunks, int micros)
{
    return (struct tr_sched){
        .kind = kind,
        .ranks = world.size,
        .rank = world.rank,
        .chunks = chunks,
        .micros = micros,
    };
}

static void check_list(struct tr_sched s)
{
    struct result serial, parallel;

    run_serial(s.ranks * s.chunks, s.micros, &serial);
    assert_all_ok(tr_sched_build(&s));
    for (int packs = 0; packs < 2; packs++) {
        run_parallel(&s, packs, &parallel);
        assert_all(equal(&s, &parallel, &serial));
    }
    tr_sched_release(&s);
}

static void check(enum tr_sched_kind kind, int chunks, int micros)
{
    check_list(list(kind, chunks, micros));
}

static void check_overlapped(enum tr_sched_kind kind, int chunks, int micros, int group)
{
    struct tr_sched s = list(kind, chunks, micros);

    s.overlap = true;
    s.group = group;
    check_list(s);
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

static void overlapped(void **state)
{
    (void)state;
    for (int k = 2; k <= 4 && world.size > 1; k++)
        for (int m = world.size; m <= 3 * world.size; m += world.size)
            check_overlapped(TR_SCHED_INTERLEAVED, k, m, 0);
    for (int k = 2; k <= 3 && world.size > 1; k++)
        check_overlapped(TR_SCHED_EVAL, k, 2 * world.size, 0);
}

/* In groups of more than P micro-batches, messages come round the ring before their turn. */
static void grouped(void **state)
{
    (void)state;
    for (int group = world.size; group <= 2 * world.size + 1 && world.size > 1; group++)
        for (int m = group; m <= 3 * world.size; m++) {
            struct tr_sched s = list(TR_SCHED_INTERLEAVED, 2, m);

            s.group = group;
            if (m % group != 0 && m % group < world.size)
                continue;
            check_list(s);
            check_overlapped(TR_SCHED_INTERLEAVED, 2, m, group);
        }
}

static void evaluation(void **state)
{
    (void)state;
    for (int m = 1; m <= 5; m++)
        check(TR_SCHED_EVAL, 1, m);
    for (int k = 2; k <= 3 && world.size > 1; k++)
        check(TR_SCHED_EVAL, k, 2 * world.size);
}

/* ---- what goes on while a rank waits ---- */

/* The first stage holds its first output back until it has a word from the last one, which waits for it.
   Without it, seconds later, it goes on, so that the test ends. */
static struct aside {
    struct tr_comm group;
    struct tr_pending word;
    char byte;
    bool came, sent;
} aside;

static void start_word(bool send)
{
    const struct tr_leg leg = {send ? TR_LEG_SEND : TR_LEG_RECV, send ? 0 : world.size - 1,
                               &aside.byte, 1};

    aside.group.via->exchange_start(&aside.group, NULL, &leg, 1, &aside.word);
}

static void hold_back(void *ctx, struct tr_slot at)
{
    const double until = tr_now() + 20.0;

    while (world.rank == 0 && at.micro == 0 && !aside.came && tr_now() < until)
        aside.came = aside.group.via->poll(&aside.group, &aside.word);
    toy_forward(ctx, at);
}

static bool send_word(void *ctx)
{
    (void)ctx;
    if (!aside.sent)
        start_word(true);
    aside.sent = true;
    return !aside.group.via->poll(&aside.group, &aside.word);
}

static void goes_on(struct tr_sched s)
{
    const bool last = world.rank == world.size - 1;
    struct toy t;
    struct tr_stage stage = {.ctx = &t,
                             .forward = hold_back,
                             .backward = toy_backward,
                             .message = toy_message,
                             .meanwhile = last ? send_word : NULL};

    assert_all_ok(tr_sched_build(&s));
    aside = (struct aside){.came = world.rank > 0};
    assert_all_ok(world.via->split(&world, 0, world.rank, "aside", &aside.group));
    if (world.rank == 0)
        start_word(false);
    toy_open(&t, &s, false);
    t.stage = &stage;
    tr_exec_step(&s, &world, NULL, &stage);
    if (last && !aside.sent)
        start_word(true);
    if (world.rank == 0 || last)
        aside.group.via->finish(&aside.group, NULL, &aside.word);
    assert_all(aside.came);
    toy_close(&t);
    aside.group.via->release(&aside.group);
    tr_sched_release(&s);
}

static void meanwhile(void **state)
{
    struct tr_sched s = list(TR_SCHED_INTERLEAVED, 2, 2 * world.size);

    (void)state;
    if (world.size == 1)
        return;
    goes_on(list(TR_SCHED_1F1B, 1, 4));
    s.overlap = true;
    goes_on(s);
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

static void assert_timers(struct tr_sched s, const char *first, const char *middle,
                          const char *last)
{
    const char *want = world.rank == 0 ? first : world.rank == world.size - 1 ? last : middle;
    struct result result;
    char names[1024];

    assert_all_ok(tr_sched_build(&s));
    ran(names, sizeof names);
    run_parallel(&s, false, &result);
    ran(names, sizeof names);
    assert_all(strcmp(names, want) == 0);
    tr_sched_release(&s);
}

/* As Megatron names them, on the first, the middle and the last stage. */
static void timers(void **state)
{
    (void)state;
    if (world.size == 1) {
        assert_timers(list(TR_SCHED_1F1B, 1, 4), "forward-compute backward-compute ", "", "");
        return;
    }
    assert_timers(list(TR_SCHED_1F1B, 1, 8),
                  "forward-compute forward-send forward-send-backward-recv backward-compute "
                  "backward-recv ",
                  "forward-compute forward-recv forward-send forward-send-backward-recv "
                  "backward-compute backward-recv backward-send backward-send-forward-recv ",
                  "forward-compute forward-recv backward-compute backward-send "
                  "backward-send-forward-recv ");
    assert_timers(list(TR_SCHED_EVAL, 1, 3), "forward-compute forward-send ",
                  "forward-compute forward-recv forward-send ", "forward-compute forward-recv ");
    /* The legs of rank 0 are sf, sf rf, sf rb, sf sb rb, all four, sf rf rb, sb rb and rb; those of
       rank 1 mirror them. */
    if (world.size == 2)
        assert_timers(list(TR_SCHED_INTERLEAVED, 2, 4),
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
        cmocka_unit_test(overlapped),  cmocka_unit_test(grouped),
        cmocka_unit_test(meanwhile),   cmocka_unit_test(timers),
    };
    return run_mpi_tap(tests);
}
