/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_ops [SAMPLES [TOKENS [THREADS [DROPOUT]]]]: what each operation of a GPT-2 124M step costs.
 *
 * Defaults: 4 samples of 64 tokens, all cores, no dropout.  `times` is how often a step has the
 * operation; flop counts GEMMs only and is 6 N (parameters of the layers and the logits) in sum.
 * Rows with `times` 0 are what other families have.
 * The last line adds up the least times, the step as it would be if nothing else took time, and has
 * what the same kernels reach on 1024^3.
 */
#include "bench/bench.h"
#include "bench_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    H = 768,
    F = 3072,
    L = 12,
    HEADS = 12,
    D = 64,
    V = 50304,
    VALID = 50257,
    POSITIONS = 1024,
    GROUPS = 4
};

/* Parameters of one layer, and of the model with its tied logits and last norm. */
enum { LAYER = 12 * H * H + 13 * H, PARAMS = L * LAYER + (V + POSITIONS) * H + 2 * H };

/* Operands of a step.  One layer's weights serve all layers, but each is walked through only after
   the next has been used, as in a step. */
struct step {
    struct tr_queue q;
    int64_t b, t, n;
    struct tr_dropout drop;
    int64_t *sample;
    float *params, *grads, *m, *v;
    struct tr_tensor x, y, norm, wide, pre, qkv, dqkv, lse, mean, rstd, logits, max, stats, loss,
        weight;
    struct tr_tensor ids, positions, gain, bias, out;
    int layer;
};

static struct tr_tensor floats(struct step *s, int64_t rows, int64_t columns)
{
    return tr_f32_2(bench_floats(&s->q, rows * columns), rows, columns);
}

static void open_step(struct step *s, int threads, double p)
{
    static const int64_t any[] = {0};
    void *memory;

    s->q = bench_queue(threads);
    s->n = s->b * s->t;
    s->sample = malloc((size_t)s->b * sizeof *s->sample);
    if (!s->sample)
        tr_die(TR_ERESOURCE, "no memory left");
    for (int64_t i = 0; i < s->b; i++)
        s->sample[i] = any[0] + i;
    s->drop = (struct tr_dropout){.p = p,
                                  .seed = 1,
                                  .stream = TR_STREAM_MLP_OUT_DROPOUT,
                                  .sample = s->sample,
                                  .tokens = s->t};
    s->params = bench_floats(&s->q, PARAMS);
    s->grads = bench_floats(&s->q, PARAMS);
    s->m = bench_floats(&s->q, PARAMS);
    bench_must(s->q.on->reserve(s->q.device, PARAMS * sizeof(float), &memory));
    s->v = memory;
    s->x = floats(s, s->n, H);
    s->y = floats(s, s->n, H);
    s->norm = floats(s, s->n, H);
    s->wide = floats(s, s->n, F);
    s->pre = floats(s, s->n, F);
    s->qkv = floats(s, s->n, 3 * H);
    s->dqkv = floats(s, s->n, 3 * H);
    s->lse = floats(s, s->b * HEADS, s->t);
    s->lse = tr_f32_3(s->lse.data, s->b, HEADS, s->t);
    s->mean = floats(s, 1, s->n);
    s->rstd = floats(s, 1, s->n);
    s->logits = floats(s, s->n, V);
    s->max = floats(s, 1, s->n);
    s->stats = floats(s, 2, s->n);
    s->loss = floats(s, 1, s->n);
    s->weight = floats(s, 1, s->n);
    s->gain = floats(s, 1, H);
    s->bias = floats(s, 1, F);
    s->ids = tr_i32_1((int32_t *)bench_floats(&s->q, s->n), s->n);
    s->positions = tr_i32_1((int32_t *)bench_floats(&s->q, s->n), s->n);
    for (int64_t n = 0; n < s->n; n++) {
        tr_i32(&s->ids)[n] = (int32_t)(n * 7919 % VALID);
        tr_i32(&s->positions)[n] = (int32_t)(n % s->t);
    }
    bench_must(s->q.on->reserve(s->q.device, sizeof(double), &memory));
    s->out = tr_f64_1(memory, 1);
}

/* ---- operations; each call works on the next layer ---- */

static struct tr_tensor matrix_of(const struct step *s, float *in, int64_t offset, int64_t rows,
                                  int64_t columns)
{
    return tr_f32_2(in + s->layer * (int64_t)LAYER + offset, rows, columns);
}

static void next(struct step *s)
{
    s->layer = (s->layer + 1) % L;
    s->q.on->wait(&s->q);
}

/* Where the four matrices of a layer lie among its parameters, and their shapes. */
static const struct {
    int64_t at, o, i;
} part[] = {{0, 3 * H, H}, {3 * H * H, H, H}, {4 * H * H, F, H}, {8 * H * H, H, F}};

enum { QKV, OUT, UP, DOWN };

static void forward(struct step *s, int which, const struct tr_tensor *y,
                    const struct tr_tensor *pre, const struct tr_tensor *x)
{
    struct tr_tensor w = matrix_of(s, s->params, part[which].at, part[which].o, part[which].i);
    struct tr_tensor bias = tr_f32_1(tr_f32(&s->bias), part[which].o);

    s->q.on->linear(&s->q, y, pre, x, &w, which == QKV || which == UP ? &bias : NULL,
                    which == UP ? TR_ACT_GELU_TANH : TR_ACT_NONE);
    next(s);
}

static void dgrad(struct step *s, int which, const struct tr_tensor *dx, const struct tr_tensor *dy)
{
    struct tr_tensor w = matrix_of(s, s->params, part[which].at, part[which].o, part[which].i);

    s->q.on->linear_dgrad(&s->q, dx, dy, &w, which == DOWN ? &s->pre : NULL,
                          which == DOWN ? TR_ACT_GELU_TANH : TR_ACT_NONE);
    next(s);
}

static void wgrad(struct step *s, int which, const struct tr_tensor *dy, const struct tr_tensor *x)
{
    struct tr_tensor dw = matrix_of(s, s->grads, part[which].at, part[which].o, part[which].i);
    struct tr_tensor bias = tr_f32_1(tr_f32(&s->bias), part[which].o);

    s->q.on->linear_wgrad(&s->q, &dw, which == QKV || which == UP ? &bias : NULL, dy, x, true);
    next(s);
}

static struct tr_tensor table_of(float *in, int64_t first, int64_t rows)
{
    return tr_f32_2(in + L * (int64_t)LAYER + first * H, rows, H);
}

#define WORK(name, ...)         \
    static void name(void *arg) \
    {                           \
        struct step *s = arg;   \
                                \
        __VA_ARGS__;            \
        s->q.on->wait(&s->q);   \
    }
#define RUN(op, ...) s->q.on->op(&s->q, __VA_ARGS__)

WORK(qkv, forward(s, QKV, &s->qkv, NULL, &s->x))
WORK(out, forward(s, OUT, &s->y, NULL, &s->x))
WORK(up, forward(s, UP, &s->wide, &s->pre, &s->x))
WORK(down, forward(s, DOWN, &s->y, NULL, &s->wide))
WORK(qkv_dgrad, dgrad(s, QKV, &s->x, &s->qkv))
WORK(out_dgrad, dgrad(s, OUT, &s->x, &s->y))
WORK(up_dgrad, dgrad(s, UP, &s->x, &s->wide))
WORK(down_dgrad, dgrad(s, DOWN, &s->wide, &s->y))
WORK(qkv_wgrad, wgrad(s, QKV, &s->qkv, &s->x))
WORK(out_wgrad, wgrad(s, OUT, &s->y, &s->x))
WORK(up_wgrad, wgrad(s, UP, &s->wide, &s->x))
WORK(down_wgrad, wgrad(s, DOWN, &s->y, &s->wide))
WORK(logits, struct tr_tensor w = table_of(s->params, 0, V);
     RUN(linear, &s->logits, NULL, &s->x, &w, NULL, TR_ACT_NONE))
WORK(logits_dgrad, struct tr_tensor w = table_of(s->params, 0, V);
     RUN(linear_dgrad, &s->x, &s->logits, &w, NULL, TR_ACT_NONE))
WORK(logits_wgrad, struct tr_tensor dw = table_of(s->grads, 0, V);
     RUN(linear_wgrad, &dw, NULL, &s->logits, &s->x, true))
WORK(embed, struct tr_tensor table = table_of(s->params, 0, V);
     RUN(embed, &s->x, &s->ids, &table, 0))
WORK(add_rows, struct tr_tensor table = table_of(s->params, V, POSITIONS);
     RUN(add_rows, &s->x, &s->positions, &table))
WORK(embed_bwd, struct tr_tensor table = table_of(s->grads, 0, V);
     RUN(embed_bwd, &table, &s->x, &s->ids, 0))
WORK(positions_bwd, struct tr_tensor table = table_of(s->grads, V, POSITIONS);
     RUN(embed_bwd, &table, &s->x, &s->positions, 0))
WORK(dropout, RUN(dropout, &s->y, s->drop))
WORK(layernorm, RUN(norm, &s->y, &s->mean, &s->rstd, &s->x, &s->gain, &s->gain,
                    (struct tr_norm_how){.eps = 1e-5f}))
WORK(layernorm_bwd, struct tr_tensor dbias = tr_f32_1(tr_f32(&s->bias), H);
     RUN(norm_bwd, &s->x, &s->gain, &dbias, &s->y, &s->x, &s->x, &s->gain, &s->mean, &s->rstd,
         (struct tr_norm_how){.eps = 1e-5f}))
WORK(residual, RUN(residual, &s->y, &s->x, &s->x, &s->gain, s->drop))
WORK(residual_norm, RUN(residual_norm, &s->y, &s->norm, &s->mean, &s->rstd, &s->x, &s->x, &s->gain,
                        &s->gain, &s->gain, (struct tr_norm_how){.eps = 1e-5f}, s->drop))
WORK(residual_bwd, RUN(residual_bwd, &s->y, &s->gain, &s->x, s->drop))
WORK(attention, RUN(attention, &s->y, &s->lse, &s->qkv, NULL,
                    (struct tr_attention_how){.scale = 0.125f}, s->drop))
WORK(attention_bwd, RUN(attention_bwd, &s->dqkv, &s->x, &s->y, &s->lse, &s->qkv, NULL,
                        (struct tr_attention_how){.scale = 0.125f}, s->drop))
/* What other families have instead: a step of GPT-2 has none of these.  Products have as many operations as their
   counterparts with GELU. */
WORK(rms, RUN(norm, &s->y, NULL, &s->rstd, &s->x, &s->gain, NULL,
              (struct tr_norm_how){.eps = 1e-5f, .rms = true}))
WORK(rms_bwd, RUN(norm_bwd, &s->x, &s->gain, NULL, &s->y, &s->x, &s->x, &s->gain, NULL, &s->rstd,
                  (struct tr_norm_how){.eps = 1e-5f, .rms = true}))
WORK(residual_rms, RUN(residual_norm, &s->y, &s->norm, NULL, &s->rstd, &s->x, &s->x, NULL, &s->gain,
                       NULL, (struct tr_norm_how){.eps = 1e-5f, .rms = true}, s->drop))
static void up_as(struct step *s, enum tr_act act)
{
    struct tr_tensor w = matrix_of(s, s->params, part[UP].at, F, H);
    struct tr_tensor y = tr_f32_2(tr_f32(&s->wide), s->n, tr_act_gated(act) ? F / 2 : F);

    RUN(linear, &y, &s->pre, &s->x, &w, NULL, act);
    next(s);
}
static void down_dgrad_as(struct step *s, enum tr_act act)
{
    const int64_t i = tr_act_gated(act) ? F / 2 : F, o = (int64_t)H * F / i;
    struct tr_tensor w = matrix_of(s, s->params, part[DOWN].at, o, i);
    struct tr_tensor dy = tr_f32_2(tr_f32(&s->qkv), s->n, o);

    RUN(linear_dgrad, &s->wide, &dy, &w, &s->pre, act);
    next(s);
}
WORK(up_gelu, up_as(s, TR_ACT_GELU))
WORK(up_swiglu, up_as(s, TR_ACT_SWIGLU))
WORK(down_gelu_dgrad, down_dgrad_as(s, TR_ACT_GELU))
WORK(down_swiglu_dgrad, down_dgrad_as(s, TR_ACT_SWIGLU))
WORK(groups, struct tr_tensor qkv = tr_f32_2(tr_f32(&s->qkv), s->n, (HEADS + 2 * GROUPS) * D);
     RUN(attention, &s->y, &s->lse, &qkv, NULL, (struct tr_attention_how){.scale = 0.125f},
         s->drop))
WORK(groups_bwd, struct tr_tensor qkv = tr_f32_2(tr_f32(&s->qkv), s->n, (HEADS + 2 * GROUPS) * D);
     struct tr_tensor dqkv = tr_f32_2(tr_f32(&s->dqkv), s->n, (HEADS + 2 * GROUPS) * D);
     RUN(attention_bwd, &dqkv, &s->x, &s->y, &s->lse, &qkv, NULL,
         (struct tr_attention_how){.scale = 0.125f}, s->drop))
static void window(struct step *s, bool bwd)
{
    const struct tr_attention_how how = {.scale = 0.125f, .window = (s->t + 3) / 4};

    if (bwd)
        RUN(attention_bwd, &s->dqkv, &s->x, &s->y, &s->lse, &s->qkv, NULL, how, s->drop);
    else
        RUN(attention, &s->y, &s->lse, &s->qkv, NULL, how, s->drop);
}
WORK(window_forward, window(s, false))
WORK(window_bwd, window(s, true))
WORK(alibi, struct tr_tensor slopes = tr_f32_1(tr_f32(&s->gain), HEADS);
     RUN(attention, &s->y, &s->lse, &s->qkv, NULL,
         (struct tr_attention_how){.scale = 0.125f, .slopes = &slopes}, s->drop))
static void rotary(struct step *s, bool pairs)
{
    const struct tr_rotary_how how = {.heads = {HEADS, HEADS, D}, .rotary = D, .pairs = pairs};
    struct tr_tensor table = tr_f32_2(tr_f32(&s->pre), s->t, D);

    RUN(rotary, &s->qkv, &s->qkv, &table, &s->positions, how);
}
WORK(rotary_halves, rotary(s, false))
WORK(rotary_pairs, rotary(s, true))
static const struct tr_heads_how all_heads = {HEADS, HEADS, D};
WORK(head_norm, struct tr_tensor gain = tr_f32_1(tr_f32(&s->gain), D);
     struct tr_tensor rstd = tr_f32_2(tr_f32(&s->pre), s->n, 2 * HEADS);
     RUN(head_norm, &s->dqkv, &rstd, &s->qkv, &gain, &gain, all_heads,
         (struct tr_norm_how){.eps = 1e-5f, .rms = true}))
WORK(head_norm_bwd, struct tr_tensor gain = tr_f32_1(tr_f32(&s->gain), D);
     struct tr_tensor rstd = tr_f32_2(tr_f32(&s->pre), s->n, 2 * HEADS);
     struct tr_tensor dgain = tr_f32_1(tr_f32(&s->bias), D);
     RUN(head_norm_bwd, &s->dqkv, &dgain, &dgain, &s->dqkv, &s->qkv, &gain, &gain, &rstd, all_heads,
         (struct tr_norm_how){.eps = 1e-5f, .rms = true}))
WORK(columns, RUN(columns, &s->norm, &s->wide, 0, 64, H))

WORK(xent_max, RUN(xent_max, &s->max, &s->logits, VALID))
WORK(xent_sum, RUN(xent_sum, &s->stats, &s->logits, &s->max, &s->ids, 0, VALID))
WORK(xent_loss, RUN(xent_loss, &s->loss, &s->stats))
WORK(xent_bwd, RUN(xent_bwd, &s->logits, &s->max, &s->stats, &s->ids, &s->weight, 0, VALID))
WORK(fill, struct tr_tensor g = tr_f32_1(s->grads, PARAMS); RUN(fill, &g, 0.0f))
WORK(sumsq, struct tr_tensor g = tr_f32_1(s->grads, PARAMS); RUN(sumsq, &s->out, &g))
WORK(adamw, struct tr_tensor p = tr_f32_1(s->params, PARAMS);
     struct tr_tensor m = tr_f32_1(s->m, PARAMS); struct tr_tensor v = tr_f32_1(s->v, PARAMS);
     struct tr_tensor g = tr_f32_1(s->grads, PARAMS);
     RUN(adamw, NULL, &p, &m, &v, &g, tr_bench_adamw))

/* In the order of a step.  `macs` is what one call multiplies for each row of the batch, in units of
   H^2; `bytes` what it moves, for those that wait for memory. */
static const struct job {
    const char *name;
    void (*work)(void *arg);
    int times;
    double macs, bytes;
} jobs[] = {
    {"embed", embed, 1, 0, 0},
    {"add_rows", add_rows, 1, 0, 0},
    {"dropout", dropout, 1, 0, 0},
    {"layernorm", layernorm, L + 1, 0, 0},
    {"linear qkv", qkv, L, 3, 0},
    {"attention", attention, L, 0, 0},
    {"linear out", out, L, 1, 0},
    {"residual_norm", residual_norm, L, 0, 0},
    {"residual", residual, L, 0, 0},
    {"linear up, gelu", up, L, 4, 0},
    {"linear down", down, L, 4, 0},
    {"linear logits", logits, 1, (double)V / H, 0},
    {"xent_max", xent_max, 1, 0, 0},
    {"xent_sum", xent_sum, 1, 0, 0},
    {"xent_loss", xent_loss, 1, 0, 0},
    {"xent_bwd", xent_bwd, 1, 0, 0},
    {"linear_dgrad logits", logits_dgrad, 1, (double)V / H, 0},
    {"linear_wgrad logits", logits_wgrad, 1, (double)V / H, 0},
    {"residual_bwd", residual_bwd, 2 * L, 0, 0},
    {"linear_dgrad down, gelu", down_dgrad, L, 4, 0},
    {"linear_wgrad down", down_wgrad, L, 4, 0},
    {"linear_dgrad up", up_dgrad, L, 4, 0},
    {"linear_wgrad up", up_wgrad, L, 4, 0},
    {"layernorm_bwd", layernorm_bwd, 2 * L + 1, 0, 0},
    {"linear_dgrad out", out_dgrad, L, 1, 0},
    {"linear_wgrad out", out_wgrad, L, 1, 0},
    {"attention_bwd", attention_bwd, L, 0, 0},
    {"linear_dgrad qkv", qkv_dgrad, L, 3, 0},
    {"linear_wgrad qkv", qkv_wgrad, L, 3, 0},
    {"embed_bwd", embed_bwd, 1, 0, 0},
    {"embed_bwd positions", positions_bwd, 1, 0, 0},
    {"fill gradients", fill, 1, 0, 4.0 * PARAMS},
    {"sumsq gradients", sumsq, 1, 0, 4.0 * PARAMS},
    {"adamw", adamw, 1, 0, 28.0 * PARAMS},
    {"norm rms", rms, 0, 0, 0},
    {"norm_bwd rms", rms_bwd, 0, 0, 0},
    {"residual_norm rms", residual_rms, 0, 0, 0},
    {"linear up, gelu by erf", up_gelu, 0, 4, 0},
    {"linear up, swiglu", up_swiglu, 0, 4, 0},
    {"linear_dgrad down, gelu by erf", down_gelu_dgrad, 0, 4, 0},
    {"linear_dgrad down, swiglu", down_swiglu_dgrad, 0, 4, 0},
    {"attention, 4 groups", groups, 0, 0, 0},
    {"attention_bwd, 4 groups", groups_bwd, 0, 0, 0},
    {"attention, window of a quarter", window_forward, 0, 0, 0},
    {"attention_bwd, window of a quarter", window_bwd, 0, 0, 0},
    {"attention, alibi", alibi, 0, 0, 0},
    {"rotary", rotary_halves, 0, 0, 0},
    {"rotary in pairs", rotary_pairs, 0, 0, 0},
    {"head_norm", head_norm, 0, 0, 0},
    {"head_norm_bwd", head_norm_bwd, 0, 0, 0},
    {"columns", columns, 0, 0, 0},
};

static struct tr_bench_times measure(const struct job *job, struct step *s)
{
    struct tr_bench_times once = bench_repeat(NULL, 1, 1, job->work, s);
    double repeats = 0.4 / once.min;

    return bench_repeat(NULL, 0,
                        repeats > 200.0 ? 200
                        : repeats < 4.0 ? 4
                                        : (int)repeats,
                        job->work, s);
}

int main(int argc, char **argv)
{
    double number[] = {4, 64, 0, 0}, gflop = 0.0, product = 0.0, rest = 0.0;
    struct step s = {.layer = 0};
    struct bench_rates cube;
    json_t *line;
    int threads;

    for (int i = 1; i < argc && i <= 4; i++)
        number[i - 1] = strtod(argv[i], NULL);
    if (argc > 5 || number[0] < 1 || number[1] < 1 || number[1] > POSITIONS || number[3] < 0 ||
        number[3] >= 1) {
        fprintf(stderr, "usage: bench_ops [SAMPLES [TOKENS [THREADS [DROPOUT]]]]\n");
        return 64;
    }
    s.b = (int64_t)number[0];
    s.t = (int64_t)number[1];
    open_step(&s, (int)number[2], number[3]);
    threads = s.q.on->threads(s.q.device);
    printf("fp32, %s, %.0f MHz\n", s.q.on->describe(s.q.device), bench_clock(threads));
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        struct tr_bench_times t = measure(&jobs[i], &s);
        double work = 2e-9 * (double)s.n * H * H * jobs[i].macs;

        line = bench_line("ops", argc, argv);
        bench_add_side(line, threads, "fp32", s.q.on->describe(s.q.device));
        json_object_set_new(line, "op", json_string(jobs[i].name));
        json_object_set_new(line, "times", json_integer(jobs[i].times));
        if (work > 0.0)
            json_object_set_new(line, "gflops", json_real(work / t.min));
        if (jobs[i].bytes > 0.0)
            json_object_set_new(line, "gbytes_per_second", json_real(jobs[i].bytes * 1e-9 / t.min));
        bench_add_times(line, &t);
        bench_print(line);
        gflop += work * jobs[i].times;
        *(work > 0.0 ? &product : &rest) += t.min * jobs[i].times;
    }
    cube = bench_linear((int)number[2], TR_F32, 1024, 1024, 1024, 0.5);
    line = bench_line("ops", argc, argv);
    bench_add_side(line, threads, "fp32", s.q.on->describe(s.q.device));
    json_object_set_new(line, "op", json_string("all of a step"));
    json_object_set_new(line, "gflop", json_real(gflop));
    json_object_set_new(line, "seconds_products", json_real(product));
    json_object_set_new(line, "seconds_rest", json_real(rest));
    json_object_set_new(line, "gflops", json_real(gflop / (product + rest)));
    json_object_set_new(line, "cube_gflops", json_real(fmax(cube.forward, cube.dgrad)));
    bench_print(line);
    s.q.on->close(s.q.device);
    free(s.sample);
    return 0;
}
