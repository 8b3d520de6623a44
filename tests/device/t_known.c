/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
#include "util/half.h"
#include "util/rng.h"

/* Operations against closed forms and published numbers, on every backend. */

static struct tr_queue open_queue(const struct tr_backend *b)
{
    struct tr_device *d;

    assert_ok(b->open(&(struct tr_device_how){.threads = 1}, &d));
    return (struct tr_queue){b, d};
}

static void assert_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%.9g is not %.9g within %.2g", got, want, tolerance);
}

/* Megatron-LM's unit test of its vocabulary-parallel loss (tests/unit_tests/tensor_parallel/
   test_cross_entropy.py): 4 ranks, each with 16 rows of 0..7 four times, labels 0, 2, ... 30. */
static void megatron_cross_entropy(const struct tr_backend *b)
{
    enum { RANKS = 4, N = 16, R = 32 };
    static const double want[] = {10.2309, 8.2309, 6.2309, 4.2309};
    struct tr_queue q = open_queue(b);
    float logits[N * R], max[N], stats[2 * N], sum[2 * N] = {0.0f}, losses[N];
    int32_t label[N];
    struct tr_tensor x = tr_f32_2(logits, N, R), m = tr_f32_1(max, N), s = tr_f32_2(stats, 2, N);
    struct tr_tensor total = tr_f32_2(sum, 2, N), loss = tr_f32_1(losses, N);
    struct tr_tensor labels = tr_i32_1(label, N);

    for (int i = 0; i < N * R; i++)
        logits[i] = (float)(i % 8);
    for (int n = 0; n < N; n++)
        label[n] = 2 * n;
    b->xent_max(&q, &m, &x, R);
    for (int rank = 0; rank < RANKS; rank++) {
        b->xent_sum(&q, &s, &x, &m, &labels, rank * R, R);
        b->add(&q, &total, &s);
    }
    b->xent_loss(&q, &loss, &total);
    b->wait(&q);
    for (int n = 0; n < N; n++)
        assert_near((double)losses[n], want[n % 4], 5e-5);
    b->close(q.device);
}

/* Padding of the vocabulary and a rank that holds nothing else do not change the loss. */
static void padded_cross_entropy(const struct tr_backend *b)
{
    enum { R = 4 };
    struct tr_queue q = open_queue(b);
    float logits[2][R] = {{1.0f, 2.0f, 3.0f, 90.0f}, {70.0f, 80.0f, 90.0f, 95.0f}};
    float max[2], stats[2] = {0}, sum[2] = {0.0f}, losses[1];
    int32_t label[] = {1};
    struct tr_tensor s = tr_f32_2(stats, 2, 1), total = tr_f32_2(sum, 2, 1);
    struct tr_tensor loss = tr_f32_1(losses, 1), labels = tr_i32_1(label, 1);
    struct tr_tensor m = tr_f32_1(max, 1), none = tr_f32_1(max + 1, 1);

    for (int rank = 0; rank < 2; rank++) {
        struct tr_tensor x = tr_f32_2(logits[rank], 1, R);
        int64_t valid = rank == 0 ? 3 : 0;

        b->xent_max(&q, rank == 0 ? &m : &none, &x, valid);
        b->xent_sum(&q, &s, &x, &m, &labels, rank * R, valid);
        b->add(&q, &total, &s);
    }
    b->xent_loss(&q, &loss, &total);
    b->wait(&q);
    assert_true(max[0] == 3.0f && max[1] == -INFINITY);
    /* log(e^-2 + e^-1 + 1) + 1 */
    assert_near((double)losses[0], 1.4076059644443804, 2e-7);
    b->close(q.device);
}

/* A constant gradient g from zero moments: m / bias1 = g and v / bias2 = g^2 in every step, so
   p <- p (1 - lr decay) - lr g / (|g| + eps), a geometric sequence. */
static void adamw_sequence(const struct tr_backend *b)
{
    enum { N = 3, STEPS = 20 };
    struct tr_queue q = open_queue(b);
    float p[N] = {1.0f, -2.0f, 0.5f}, m[N] = {0.0f}, v[N] = {0.0f}, g[N] = {30.0f, -0.2f, 1e-3f};
    const double start[N] = {1.0, -2.0, 0.5};
    const double lr = 1.0 / 64.0, decay = 0.125, eps = 1.0 / 1024.0, scale = 0.5;
    struct tr_tensor tp = tr_f32_1(p, N), tm = tr_f32_1(m, N), tv = tr_f32_1(v, N);
    struct tr_tensor tg = tr_f32_1(g, N);

    for (int t = 1; t <= STEPS; t++)
        b->adamw(&q, NULL, &tp, &tm, &tv, &tg,
                 (struct tr_adamw){.lr = (float)lr,
                                   .beta1 = 0.9f,
                                   .beta2 = 0.999f,
                                   .eps = (float)eps,
                                   .decay = (float)decay,
                                   .bias1 = (float)(1.0 - pow(0.9, t)),
                                   .bias2 = (float)(1.0 - pow(0.999, t)),
                                   .grad_scale = (float)scale});
    b->wait(&q);
    for (int i = 0; i < N; i++) {
        double grad = (double)g[i] * scale, fixed = grad / (fabs(grad) + eps) / decay;
        double want = (start[i] + fixed) * pow(1.0 - lr * decay, STEPS) - fixed;

        /* 0.999f is off by 1.3e-8, which 1 - beta2 makes 1.3e-5 of v and 7e-6 of a step. */
        assert_near((double)p[i], want, 1e-5 * STEPS * lr);
        assert_near((double)m[i], grad * (1.0 - pow(0.9, STEPS)), 1e-5 * fabs(grad));
    }
    b->close(q.device);
}

/* The tanh form, in double with Python's math.tanh. */
static void gelu_values(const struct tr_backend *b)
{
    enum { N = 9 };
    struct tr_queue q = open_queue(b);
    float in[N] = {-30.0f, -3.0f, -1.0f, -0.5f, 0.0f, 0.5f, 1.0f, 2.0f, 30.0f}, one[1] = {1.0f};
    float out[N], pre[N];
    const double want[N] = {0.0, -0.0036373920817729943, -0.15880800939172324, -0.15428599017485606,
                            0.0, 0.34571400982514394,    0.8411919906082768,   1.954597694087775,
                            30.0};
    struct tr_tensor y = tr_f32_2(out, N, 1), z = tr_f32_2(pre, N, 1), x = tr_f32_2(in, N, 1);
    struct tr_tensor w = tr_f32_2(one, 1, 1);

    b->linear(&q, &y, &z, &x, &w, NULL, TR_ACT_GELU_TANH);
    b->wait(&q);
    for (int i = 0; i < N; i++) {
        assert_near((double)out[i], want[i], 2e-7 * fmax(1.0, fabs(want[i])));
        assert_true(pre[i] == in[i]);
    }
    b->close(q.device);
}

/* Activations in double with Python's math.erf, math.exp; those that are gated with 0.5 times the last numbers. */
static void activation_values(const struct tr_backend *b)
{
    enum { N = 6 };
    static const struct {
        enum tr_act act;
        double want[N];
    } rows[] = {
        {TR_ACT_GELU,
         {-0.00404969409489031, -0.15865525393145707, -0.15426876936299344, 0.0, 0.8413447460685429,
          2.99595030590511}},
        {TR_ACT_SILU,
         {-0.14227761953270035, -0.2689414213699951, -0.1887703343990727, 0.0, 0.7310585786300049,
          2.8577223804672998}},
        {TR_ACT_RELU, {0.0, 0.0, 0.0, 0.0, 1.0, 3.0}},
        {TR_ACT_RELU2, {0.0, 0.0, 0.0, 0.0, 1.0, 9.0}},
    };
    static const struct {
        enum tr_act act, of;
    } gated[] = {{TR_ACT_SWIGLU, TR_ACT_SILU},
                 {TR_ACT_GEGLU_TANH, TR_ACT_GELU_TANH},
                 {TR_ACT_GEGLU, TR_ACT_GELU},
                 {TR_ACT_REGLU, TR_ACT_RELU}};
    struct tr_queue q = open_queue(b);
    float in[N] = {-3.0f, -1.0f, -0.5f, 0.0f, 1.0f, 3.0f}, weight[2] = {1.0f, 0.25f};
    float out[N], pre[2 * N], plus[2] = {0.0f, 0.5f}, gate[N];
    struct tr_tensor y = tr_f32_2(out, N, 1), z = tr_f32_2(pre, N, 1), x = tr_f32_2(in, N, 1);
    struct tr_tensor w = tr_f32_2(weight, 1, 1), z2 = tr_f32_2(pre, N, 2),
                     y2 = tr_f32_2(gate, N, 1);
    struct tr_tensor w2 = tr_f32_2(weight, 2, 1), bias = tr_f32_1(plus, 2);

    for (int k = 0; k < 4; k++) {
        b->linear(&q, &y, &z, &x, &w, NULL, rows[k].act);
        b->wait(&q);
        for (int i = 0; i < N; i++)
            assert_near((double)out[i], rows[k].want[i], 2e-7 * fmax(1.0, fabs(rows[k].want[i])));
    }
    for (int k = 0; k < 4; k++) {
        b->linear(&q, &y, NULL, &x, &w, NULL, gated[k].of);
        b->linear(&q, &y2, &z2, &x, &w2, &bias, gated[k].act);
        b->wait(&q);
        for (int i = 0; i < N; i++) {
            assert_true(pre[2 * i] == in[i] && pre[2 * i + 1] == 0.25f * in[i] + 0.5f);
            assert_near((double)gate[i], (double)(out[i] * pre[2 * i + 1]), 3e-7);
        }
    }
    b->close(q.device);
}

/* 3 and 4 have the mean square 12.5; a parameter of zero is a gain of one. */
static void rms_values(const struct tr_backend *b)
{
    struct tr_queue q = open_queue(b);
    float in[2] = {3.0f, -4.0f}, gain[2] = {0.0f, 1.0f}, out[2], scale[1], q_gain[2] = {2.0f, 1.0f};
    float qkv[6] = {3.0f, -4.0f, 0.0f, 5.0f, 7.0f, 8.0f}, normed[6], scales[2];
    struct tr_tensor x = tr_f32_2(in, 1, 2), y = tr_f32_2(out, 1, 2), r = tr_f32_1(scale, 1);
    struct tr_tensor g = tr_f32_1(gain, 2), qg = tr_f32_1(q_gain, 2), rs = tr_f32_1(scales, 2);
    struct tr_tensor row = tr_f32_2(qkv, 1, 6), to = tr_f32_2(normed, 1, 6);
    const struct tr_heads_how heads = {1, 1, 2};

    b->norm(&q, &y, NULL, &r, &x, &g, NULL, (struct tr_norm_how){.eps = 3.5f, .rms = true});
    b->wait(&q);
    assert_near((double)scale[0], 0.25, 1e-8);
    assert_true(out[0] == 0.0f && out[1] == -1.0f);
    b->norm(&q, &y, NULL, &r, &x, &g, NULL,
            (struct tr_norm_how){.eps = 3.5f, .rms = true, .one = true});
    b->wait(&q);
    assert_true(out[0] == 0.75f && out[1] == -2.0f);
    b->head_norm(&q, &to, &rs, &row, &qg, &g, heads,
                 (struct tr_norm_how){.eps = 3.5f, .rms = true});
    b->wait(&q);
    assert_true(scales[0] == 0.25f && scales[1] == 0.25f);
    assert_true(normed[0] == 1.5f && normed[1] == -1.0f && normed[2] == 0.0f &&
                normed[3] == 1.25f && normed[4] == 7.0f && normed[5] == 8.0f);
    b->close(q.device);
}

/* Keys all alike: with ALiBi of slope m the weight of the key s tokens back is e^(-m s), a geometric row.  Those
   of two heads are 1/2 and 1/4 where there are 8 and 4 (Press et al. 2022, section 3). */
static void alibi_values(const struct tr_backend *b)
{
    enum { T = 70, HEADS = 2 };
    struct tr_queue q = open_queue(b);
    float qkv[T * 3 * HEADS] = {0.0f}, ctx[T * HEADS], lse[HEADS * T], slope[HEADS] = {0.5f, 0.25f};
    struct tr_tensor x = tr_f32_2(qkv, T, 3 * HEADS), c = tr_f32_2(ctx, T, HEADS);
    struct tr_tensor l = tr_f32_3(lse, 1, HEADS, T), m = tr_f32_1(slope, HEADS);

    /* One number a head; the value of token t is t. */
    for (int t = 0; t < T; t++)
        for (int h = 0; h < HEADS; h++)
            qkv[(t * HEADS + h) * 3 + 2] = (float)t;
    b->attention(&q, &c, &l, &x, NULL, (struct tr_attention_how){.scale = 0.7f, .slopes = &m},
                 (struct tr_dropout){.p = 0.0});
    b->wait(&q);
    for (int h = 0; h < HEADS; h++)
        for (int t = 0; t < T; t++) {
            const double ratio = exp(-(double)slope[h]),
                         sum = (1.0 - pow(ratio, t + 1)) / (1.0 - ratio);
            double back = 0.0; /* expected distance */

            for (int s = 0; s <= t; s++)
                back += s * pow(ratio, s) / sum;
            assert_near((double)lse[h * T + t], log(sum), 1e-6);
            assert_near((double)ctx[t * HEADS + h], t - back, 3e-5);
        }
    b->close(q.device);
}

/* A window of W is the mean of the last W values where all keys are alike; as long as the sample it is none. */
static void windows(const struct tr_backend *b)
{
    enum { T = 300, D = 5 };
    static const int64_t widths[] = {1, 3, 64, 65, 200, T, 2 * T};
    struct tr_queue q = open_queue(b);
    static float qkv[T * 3 * D], ctx[2][T * D], lse[T], dctx[T * D], dqkv[2][T * 3 * D];
    struct tr_tensor x = tr_f32_2(qkv, T, 3 * D), l = tr_f32_3(lse, 1, 1, T);
    struct tr_tensor dc = tr_f32_2(dctx, T, D);
    struct tr_dropout none = {.p = 0.0};

    tr_rng_normal(tr_rng_key(3, TR_STREAM_INIT, 0, 1), 0, T * D, dctx);
    for (int i = 0; i < 7; i++)
        for (int flat = 0; flat < 2; flat++) {
            tr_rng_normal(tr_rng_key(3, TR_STREAM_INIT, 0, 0), 0, T * 3 * D, qkv);
            for (int t = 0; flat && t < T; t++)
                memset(qkv + t * 3 * D, 0, D * sizeof(float));
            for (int k = 0; k < 2; k++) {
                struct tr_attention_how how = {.scale = 0.7f, .window = k ? widths[i] : 0};
                struct tr_tensor c = tr_f32_2(ctx[k], T, D), dx = tr_f32_2(dqkv[k], T, 3 * D);

                b->attention(&q, &c, &l, &x, NULL, how, none);
                b->attention_bwd(&q, &dx, &dc, &c, &l, &x, NULL, how, none);
            }
            b->wait(&q);
            if (widths[i] >= T) {
                assert_memory_equal(ctx[0], ctx[1], sizeof ctx[0]);
                assert_memory_equal(dqkv[0], dqkv[1], sizeof dqkv[0]);
            }
            for (int t = 0; flat && t < T; t++) {
                int first = t >= widths[i] ? t - (int)widths[i] + 1 : 0;

                assert_near((double)lse[t], log(t - first + 1.0), 1e-6);
                for (int d = 0; d < D; d++) {
                    double sum = 0.0, to_value = 0.0;
                    int last = t + widths[i] <= T ? t + (int)widths[i] : T;

                    for (int s = first; s <= t; s++)
                        sum += (double)qkv[s * 3 * D + 2 * D + d] / (t - first + 1.0);
                    for (int s = t; s < last; s++)
                        to_value +=
                            (double)dctx[s * D + d] / (s < widths[i] ? s + 1.0 : (double)widths[i]);
                    assert_near((double)ctx[1][t * D + d], sum, 1e-6);
                    assert_near((double)dqkv[1][t * 3 * D + 2 * D + d], to_value, 5e-6);
                }
            }
        }
    b->close(q.device);
}

/* Heads of a group have the key and the value that each would have as a copy; the gradients of these are the sums
   of the copies'. */
static void grouped_attention(const struct tr_backend *b)
{
    enum {
        T = 150,
        D = 4,
        GROUPS = 2,
        EACH = 3,
        HEADS = GROUPS * EACH,
        PARTS = HEADS + 2 * GROUPS
    };
    struct tr_queue q = open_queue(b);
    static float few[T * PARTS * D], all[T * 3 * HEADS * D], dfew[T * PARTS * D];
    static float dall[T * 3 * HEADS * D], ctx[2][T * HEADS * D], lse[2][HEADS * T];
    static float dctx[T * HEADS * D];
    int64_t sample[1] = {11};
    struct tr_dropout drop = {
        .p = 0.3, .seed = 5, .stream = TR_STREAM_ATTN_DROPOUT, .sample = sample, .tokens = T};
    struct tr_attention_how how = {.first_head = 6, .scale = 0.5f};
    struct tr_tensor x = tr_f32_2(few, T, PARTS * D), y = tr_f32_2(all, T, 3 * HEADS * D);
    struct tr_tensor dx = tr_f32_2(dfew, T, PARTS * D), dy = tr_f32_2(dall, T, 3 * HEADS * D);
    struct tr_tensor c = tr_f32_2(ctx[0], T, HEADS * D), c2 = tr_f32_2(ctx[1], T, HEADS * D);
    struct tr_tensor l = tr_f32_3(lse[0], 1, HEADS, T), l2 = tr_f32_3(lse[1], 1, HEADS, T);
    struct tr_tensor dc = tr_f32_2(dctx, T, HEADS * D);

    tr_rng_normal(tr_rng_key(4, TR_STREAM_INIT, 0, 0), 0, T * PARTS * D, few);
    tr_rng_normal(tr_rng_key(4, TR_STREAM_INIT, 0, 1), 0, T * HEADS * D, dctx);
    for (int t = 0; t < T; t++)
        for (int h = 0; h < HEADS; h++) {
            const float *group = few + (t * PARTS + h / EACH * (EACH + 2)) * D;
            float *to = all + (t * HEADS + h) * 3 * D;

            memcpy(to, group + h % EACH * D, D * sizeof(float));
            memcpy(to + D, group + EACH * D, 2 * D * sizeof(float));
        }
    b->attention(&q, &c, &l, &x, NULL, how, drop);
    b->attention(&q, &c2, &l2, &y, NULL, how, drop);
    b->attention_bwd(&q, &dx, &dc, &c, &l, &x, NULL, how, drop);
    b->attention_bwd(&q, &dy, &dc, &c2, &l2, &y, NULL, how, drop);
    b->wait(&q);
    assert_memory_equal(ctx[0], ctx[1], sizeof ctx[0]);
    assert_memory_equal(lse[0], lse[1], sizeof lse[0]);
    for (int t = 0; t < T; t++)
        for (int g = 0; g < GROUPS; g++)
            for (int i = 0; i < (EACH + 2) * D; i++) {
                const float *of = dall + (t * HEADS + g * EACH) * 3 * D;
                double want = 0.0;

                for (int k = 0; i >= EACH * D && k < EACH; k++)
                    want += (double)of[k * 3 * D + i - (EACH - 1) * D];
                if (i < EACH * D)
                    want = (double)of[i / D * 3 * D + i % D];
                assert_near((double)dfew[(t * PARTS + g * (EACH + 2)) * D + i], want, 1e-5);
            }
    b->close(q.device);
}

/* Angles of position p: p and p / 100, as RoFormer's with base 10000 and 4 numbers. */
static void fill_angles(float *table, int rows)
{
    for (int p = 0; p < rows; p++)
        for (int i = 0; i < 2; i++) {
            table[p * 4 + i] = (float)cos(p * (i ? 0.01 : 1.0));
            table[p * 4 + 2 + i] = (float)sin(p * (i ? 0.01 : 1.0));
        }
}

/* Product of the query of one row and the key of another, at these positions. */
static double turned_score(struct tr_queue *q, const float *in, int query_at, int key_at,
                           bool pairs)
{
    enum { C = 5, ROWS = 64 };
    float out[2 * 3 * C], table[ROWS * 4];
    int32_t position[2] = {query_at, key_at};
    struct tr_tensor x = tr_f32_2(out, 2, 3 * C), t = tr_f32_2(table, ROWS, 4);
    struct tr_tensor p = tr_i32_1(position, 2);
    struct tr_rotary_how how = {.heads = {1, 1, C}, .rotary = 4, .pairs = pairs};
    double sum = 0.0;

    fill_angles(table, ROWS);
    memcpy(out, in, sizeof out);
    q->on->rotary(q, &x, &x, &t, &p, how);
    q->on->wait(q);
    for (int i = 0; i < C; i++)
        sum += (double)out[i] * (double)out[4 * C + i];
    /* The fifth number of a head, and the values, stay. */
    for (int i = 0; i < 2; i++) {
        assert_true(out[i * 3 * C + 4] == in[i * 3 * C + 4] &&
                    out[i * 3 * C + C + 4] == in[i * 3 * C + C + 4]);
        assert_memory_equal(out + i * 3 * C + 2 * C, in + i * 3 * C + 2 * C, C * sizeof(float));
    }
    return sum;
}

/* Su et al. 2021, equation 16: the product of a turned query and a turned key has their distance alone. */
static void rotary_values(const struct tr_backend *b)
{
    enum { C = 5 };
    struct tr_queue q = open_queue(b);
    float in[2 * 3 * C], one[3 * 4] = {1.0f, 0.0f, 0.0f, 0.0f}, out[3 * 4], table[4 * 4];
    int32_t position[1] = {3};
    struct tr_tensor x = tr_f32_2(one, 1, 12), y = tr_f32_2(out, 1, 12);
    struct tr_tensor t = tr_f32_2(table, 4, 4), p = tr_i32_1(position, 1);

    tr_rng_normal(tr_rng_key(8, TR_STREAM_INIT, 0, 0), 0, 2 * 3 * C, in);
    for (int pairs = 0; pairs < 2; pairs++) {
        double at_0 = turned_score(&q, in, 0, 0, pairs), at_5 = turned_score(&q, in, 5, 2, pairs);

        assert_near(turned_score(&q, in, 63, 63, pairs), at_0, 2e-6);
        assert_near(turned_score(&q, in, 60, 57, pairs), at_5, 2e-6);
        assert_true(fabs(at_0 - at_5) > 0.1);
        /* The first number turns by 3 toward its partner. */
        fill_angles(table, 4);
        b->rotary(&q, &y, &x, &t, &p,
                  (struct tr_rotary_how){.heads = {1, 1, 4}, .rotary = 4, .pairs = pairs});
        b->wait(&q);
        assert_near((double)out[0], cos(3.0), 1e-7);
        assert_near((double)out[pairs ? 1 : 2], sin(3.0), 1e-7);
        assert_true(out[pairs ? 2 : 1] == 0.0f && out[3] == 0.0f);
    }
    b->close(q.device);
}

/* Queries of zero see all keys alike: the context is the mean of the values so far. */
static void flat_attention(const struct tr_backend *b)
{
    enum { T = 70, D = 5 };
    struct tr_queue q = open_queue(b);
    float qkv[T * 3 * D], ctx[T * D], lse[T];
    double sum[D] = {0.0};
    struct tr_tensor x = tr_f32_2(qkv, T, 3 * D), c = tr_f32_2(ctx, T, D);
    struct tr_tensor l = tr_f32_3(lse, 1, 1, T);

    tr_rng_normal(tr_rng_key(3, TR_STREAM_INIT, 0, 0), 0, T * 3 * D, qkv);
    for (int t = 0; t < T; t++)
        memset(qkv + t * 3 * D, 0, D * sizeof(float));
    b->attention(&q, &c, &l, &x, NULL, (struct tr_attention_how){.first_head = 0, .scale = 0.7f},
                 (struct tr_dropout){.p = 0.0});
    b->wait(&q);
    for (int t = 0; t < T; t++) {
        assert_near((double)lse[t], log(t + 1.0), 1e-6);
        for (int d = 0; d < D; d++) {
            sum[d] += (double)qkv[t * 3 * D + 2 * D + d];
            assert_near((double)ctx[t * D + d], sum[d] / (t + 1.0), 1e-6);
        }
    }
    b->close(q.device);
}

/* A rank that holds heads 1 and 2 of three drops what the unsplit model drops there. */
static void split_attention(const struct tr_backend *b)
{
    enum { B = 2, T = 9, D = 4, HEADS = 3, PART = 2 };
    struct tr_queue q = open_queue(b);
    float qkv[B * T * 3 * HEADS * D], ctx[B * T * HEADS * D], lse[B * HEADS * T];
    float part[B * T * 3 * PART * D], part_ctx[B * T * PART * D], part_lse[B * PART * T];
    int64_t sample[B] = {11, 4};
    struct tr_dropout drop = {.p = 0.3,
                              .seed = 5,
                              .stream = TR_STREAM_ATTN_DROPOUT,
                              .site = 1,
                              .sample = sample,
                              .tokens = T};
    struct tr_tensor x = tr_f32_2(qkv, B * T, 3 * HEADS * D), c = tr_f32_2(ctx, B * T, HEADS * D);
    struct tr_tensor l = tr_f32_3(lse, B, HEADS, T);
    struct tr_tensor px = tr_f32_2(part, B * T, 3 * PART * D);
    struct tr_tensor pc = tr_f32_2(part_ctx, B * T, PART * D);
    struct tr_tensor pl = tr_f32_3(part_lse, B, PART, T);

    tr_rng_normal(tr_rng_key(4, TR_STREAM_INIT, 0, 0), 0, B * T * 3 * HEADS * D, qkv);
    for (int n = 0; n < B * T; n++)
        memcpy(part + n * 3 * PART * D, qkv + n * 3 * HEADS * D + 3 * D,
               3 * PART * D * sizeof(float));
    b->attention(&q, &c, &l, &x, NULL, (struct tr_attention_how){.first_head = 0, .scale = 0.5f},
                 drop);
    b->attention(&q, &pc, &pl, &px, NULL, (struct tr_attention_how){.first_head = 1, .scale = 0.5f},
                 drop);
    b->wait(&q);
    for (int n = 0; n < B * T; n++)
        assert_memory_equal(part_ctx + n * PART * D, ctx + n * HEADS * D + D,
                            PART * D * sizeof(float));
    b->close(q.device);
}

/* The mask is the one that util/rng.h defines, wherever the sample stands in the batch. */
static void dropout_mask(const struct tr_backend *b)
{
    enum { T = 3, H = 37, SAMPLES = 2 };
    struct tr_queue q = open_queue(b);
    float y[SAMPLES * T * H];
    int64_t sample[SAMPLES] = {900, 17};
    struct tr_dropout drop = {
        .p = 0.25, .seed = 8, .stream = TR_STREAM_EMBED_DROPOUT, .sample = sample, .tokens = T};
    struct tr_tensor t = tr_f32_2(y, SAMPLES * T, H);

    for (int i = 0; i < SAMPLES * T * H; i++)
        y[i] = 3.0f;
    b->dropout(&q, &t, drop);
    b->wait(&q);
    for (int i = 0; i < SAMPLES * T * H; i++) {
        struct tr_rng r = tr_rng_key(8, TR_STREAM_EMBED_DROPOUT, 0, sample[i / (T * H)]);
        bool kept = tr_rng_u32(r, (uint64_t)(i % (T * H))) >= 0x40000000;

        assert_true(y[i] == (kept ? 3.0f * (float)(1.0 / 0.75) : 0.0f));
    }
    b->close(q.device);
}

/* A rank with some rows of a micro-batch drops there what one with all of them drops. */
static void dropout_part(const struct tr_backend *b)
{
    enum { T = 5, H = 37, SAMPLES = 3, FIRST = 4, ROWS = 8 };
    struct tr_queue q = open_queue(b);
    float y[SAMPLES * T * H], part[ROWS * H];
    int64_t sample[SAMPLES] = {900, 17, 40};
    struct tr_dropout drop = {
        .p = 0.25, .seed = 8, .stream = TR_STREAM_EMBED_DROPOUT, .sample = sample, .tokens = T};
    struct tr_tensor all = tr_f32_2(y, SAMPLES * T, H), some = tr_f32_2(part, ROWS, H);

    for (int i = 0; i < SAMPLES * T * H; i++)
        y[i] = (float)(i + 1);
    memcpy(part, y + FIRST * H, sizeof part);
    b->dropout(&q, &all, drop);
    drop.first_row = FIRST;
    b->dropout(&q, &some, drop);
    b->wait(&q);
    assert_memory_equal(part, y + FIRST * H, sizeof part);
    b->close(q.device);
}

/* Packed documents get the results that each gets as a separate sample. */
static void documents(const struct tr_backend *b)
{
    enum { T = 150, D = 6, DOCUMENTS = 4 };
    static const int begin[DOCUMENTS + 1] = {0, 1, 60, 140, T};
    struct tr_queue q = open_queue(b);
    float qkv[T * 3 * D], ctx[T * D], lse[T], dctx[T * D], dqkv[T * 3 * D];
    float alone[T * D], lse_alone[T], dqkv_alone[T * 3 * D];
    int32_t from[T];
    struct tr_dropout none = {.p = 0.0};
    struct tr_tensor x = tr_f32_2(qkv, T, 3 * D), c = tr_f32_2(ctx, T, D), f = tr_i32_1(from, T);
    struct tr_tensor l = tr_f32_3(lse, 1, 1, T), dc = tr_f32_2(dctx, T, D);
    struct tr_tensor dx = tr_f32_2(dqkv, T, 3 * D);

    tr_rng_normal(tr_rng_key(6, TR_STREAM_INIT, 0, 0), 0, T * 3 * D, qkv);
    tr_rng_normal(tr_rng_key(6, TR_STREAM_INIT, 0, 1), 0, T * D, dctx);
    for (int i = 0; i < DOCUMENTS; i++)
        for (int t = begin[i]; t < begin[i + 1]; t++)
            from[t] = begin[i];
    b->attention(&q, &c, &l, &x, &f, (struct tr_attention_how){.first_head = 0, .scale = 0.5f},
                 none);
    b->attention_bwd(&q, &dx, &dc, &c, &l, &x, &f,
                     (struct tr_attention_how){.first_head = 0, .scale = 0.5f}, none);
    for (int i = 0; i < DOCUMENTS; i++) {
        int at = begin[i], n = begin[i + 1] - at;
        struct tr_tensor x1 = tr_f32_2(qkv + at * 3 * D, n, 3 * D);
        struct tr_tensor c1 = tr_f32_2(alone + at * D, n, D);
        struct tr_tensor l1 = tr_f32_3(lse_alone + at, 1, 1, n);
        struct tr_tensor dc1 = tr_f32_2(dctx + at * D, n, D);
        struct tr_tensor dx1 = tr_f32_2(dqkv_alone + at * 3 * D, n, 3 * D);

        b->attention(&q, &c1, &l1, &x1, NULL,
                     (struct tr_attention_how){.first_head = 0, .scale = 0.5f}, none);
        b->attention_bwd(&q, &dx1, &dc1, &c1, &l1, &x1, NULL,
                         (struct tr_attention_how){.first_head = 0, .scale = 0.5f}, none);
    }
    b->wait(&q);
    for (int i = 0; i < T; i++)
        assert_near((double)lse[i], (double)lse_alone[i], 2e-6);
    for (int i = 0; i < T * D; i++)
        assert_near((double)ctx[i], (double)alone[i], 2e-6);
    for (int i = 0; i < T * 3 * D; i++)
        assert_near((double)dqkv[i], (double)dqkv_alone[i], 1e-5);
    b->close(q.device);
}

static void fill_halves(uint16_t *h, int n, enum tr_dtype t, float x)
{
    for (int i = 0; i < n; i++)
        h[i] = t == TR_F16 ? tr_f16_from_float(x) : tr_bf16_from_float(x);
}

static float value_of(enum tr_dtype t, uint16_t h)
{
    return t == TR_F16 ? tr_f16_to_float(h) : tr_bf16_to_float(h);
}

/* 1 and 1024 times 2^-11 are 1.5, in any half; 1 and one 2^-11 are 1, however often it is added. */
static void halves_round_once(const struct tr_backend *b)
{
    enum { N = 1024, H = 33 };
    static uint16_t small[N * H], one[H], again[H], table[2 * H], ones[N];
    static int32_t id[N];
    static const enum tr_dtype types[] = {TR_F16, TR_BF16};
    struct tr_queue q = open_queue(b);

    for (int k = 0; k < 2; k++) {
        enum tr_dtype t = types[k];
        struct tr_tensor x = tr_tensor_2(small, t, N, H), bias = tr_tensor_1(one, t, H);
        struct tr_tensor rows = tr_tensor_2(table, t, 2, H), ids = tr_i32_1(id, N);
        struct tr_tensor dw = tr_tensor_2(again, t, 1, H), dy = tr_tensor_2(ones, t, N, 1);
        static uint16_t out[N * H];
        struct tr_tensor copy = tr_tensor_2(out, t, N, H);

        fill_halves(small, N * H, t, 0x1p-11f);
        fill_halves(one, H, t, 1.0f);
        fill_halves(again, H, t, 1.0f);
        fill_halves(table, 2 * H, t, 1.0f);
        fill_halves(ones, N, t, 1.0f);
        b->residual_bwd(&q, &copy, &bias, &x, (struct tr_dropout){.p = 0.0});
        b->embed_bwd(&q, &rows, &x, &ids, -1);
        b->linear_wgrad(&q, &dw, NULL, &dy, &x, true);
        b->wait(&q);
        for (int h = 0; h < H; h++) {
            assert_true(value_of(t, one[h]) == 1.5f && value_of(t, again[h]) == 1.5f);
            assert_true(value_of(t, table[h]) == 1.0f && value_of(t, table[H + h]) == 1.5f);
        }
    }
    b->close(q.device);
}

/* A sum beyond fp16 becomes infinite, which the sum of squares shows; in bf16 and fp32 it does
   not. */
static void fp16_overflow(const struct tr_backend *b)
{
    enum { I = 9 };
    static const enum tr_dtype types[] = {TR_F16, TR_BF16, TR_F32};
    struct tr_queue q = open_queue(b);

    for (int k = 0; k < 3; k++) {
        uint16_t x[I], w[I];
        float y = 0.0f;
        double sum = 0.0;
        struct tr_tensor tx = tr_tensor_2(x, TR_F16, 1, I), tw = tr_tensor_2(w, TR_F16, 1, I);
        struct tr_tensor ty = tr_tensor_2(&y, types[k], 1, 1), ts = tr_f64_1(&sum, 1);

        fill_halves(x, I, TR_F16, 256.0f);
        fill_halves(w, I, TR_F16, 32.0f);
        b->linear(&q, &ty, NULL, &tx, &tw, NULL, TR_ACT_NONE);
        b->sumsq(&q, &ts, &ty);
        b->wait(&q);
        assert_true(types[k] == TR_F16 ? isinf(sum) : sum == 73728.0 * 73728.0);
    }
    b->close(q.device);
}

/* A number that is not finite must reach what the trainer looks at: sums of squares and losses. */
static void not_finite_shows(const struct tr_backend *b)
{
    enum { N = 3, H = 40 };
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    struct tr_queue q = open_queue(b);

    for (int i = 0; i < 3; i++) {
        float x[N * H], w[H], y[N], big[N * H], ones[H], mean[N], rstd[N], stats[2 * N], loss[N];
        int32_t label[N] = {1, 1, 1};
        double sum = 0.0;
        struct tr_tensor tx = tr_f32_2(x, N, H), tw = tr_f32_2(w, 1, H), ty = tr_f32_2(y, N, 1);
        struct tr_tensor tb = tr_f32_2(big, N, H), t1 = tr_f32_1(ones, H), ts = tr_f64_1(&sum, 1);
        struct tr_tensor tm = tr_f32_1(mean, N), tr = tr_f32_1(rstd, N);
        struct tr_tensor st = tr_f32_2(stats, 2, N), tl = tr_i32_1(label, N);
        struct tr_tensor lo = tr_f32_1(loss, N);

        for (int k = 0; k < N * H; k++)
            x[k] = 0.01f * (float)k;
        for (int k = 0; k < H; k++)
            w[k] = ones[k] = 1.0f;
        x[H + 17] = bad[i];
        b->sumsq(&q, &ts, &tx);
        b->linear(&q, &ty, NULL, &tx, &tw, NULL, TR_ACT_GELU_TANH);
        b->norm(&q, &tb, &tm, &tr, &tx, &t1, &t1, (struct tr_norm_how){.eps = 1e-5f});
        b->xent_max(&q, &tm, &tx, H);
        b->xent_sum(&q, &st, &tx, &tm, &tl, 0, H);
        b->xent_loss(&q, &lo, &st);
        b->wait(&q);
        assert_true(!isfinite(sum));
        assert_true(isfinite(y[0]) && isfinite(y[2]));
        /* -inf * (1 + tanh(-inf)) is -inf * 0. */
        assert_true(bad[i] < 0.0f ? !isfinite(y[1]) || y[1] == 0.0f : !isfinite(y[1]));
        assert_true(isfinite(big[0]) && isnan(big[H]) && isfinite(big[2 * H]));
        assert_true(isfinite(loss[0]) && isfinite(loss[2]));
        /* A logit of -inf is a probability of zero, and no fault. */
        assert_true(bad[i] < 0.0f ? isfinite(loss[1]) : isnan(loss[1]));
    }
    b->close(q.device);
}

/* Memory is zero, aligned, the caller's to write, and refused when there is not that much. */
static void memory(const struct tr_backend *b)
{
    struct tr_queue q = open_queue(b);
    const size_t sizes[] = {1, 1000, 5 << 20};
    void *p;

    for (int i = 0; i < 3; i++) {
        assert_ok(b->reserve(q.device, sizes[i], &p));
        assert_int_equal((uintptr_t)p % 256, 0);
        for (size_t k = 0; k < sizes[i]; k++)
            assert_true(((unsigned char *)p)[k] == 0);
        memset(p, 1, sizes[i]);
    }
    assert_fails(TR_ERESOURCE, "1048576.00 GiB", b->reserve(q.device, (size_t)1 << 50, &p));
    assert_null(p);
    b->close(q.device);
}

static void devices(const struct tr_backend *b)
{
    struct tr_device *d;

    assert_fails(TR_ECONFIG, "-1 threads", b->open(&(struct tr_device_how){.threads = -1}, &d));
    assert_ok(b->open(&(struct tr_device_how){.threads = 0}, &d));
    assert_true(b->threads(d) >= 1);
    assert_non_null(strstr(b->describe(d), b->name));
    b->close(d);
    assert_ptr_equal(tr_backend_find(b->name), b);
    assert_non_null(tr_backend_find("auto"));
    assert_null(tr_backend_find("no such backend"));
}

/* Whose memory the host can read; the others are held to ref by t_ops. */
static void on_every_backend(void (*test)(const struct tr_backend *b))
{
    for (int i = 0; tr_backends()[i]; i++)
        if (!tr_backends()[i]->apart)
            test(tr_backends()[i]);
}

#define TEST(name)                        \
    static void name##_test(void **state) \
    {                                     \
        (void)state;                      \
        on_every_backend(name);           \
    }
TEST(megatron_cross_entropy)
TEST(padded_cross_entropy)
TEST(adamw_sequence)
TEST(gelu_values)
TEST(activation_values)
TEST(rms_values)
TEST(rotary_values)
TEST(alibi_values)
TEST(windows)
TEST(grouped_attention)
TEST(flat_attention)
TEST(split_attention)
TEST(dropout_mask)
TEST(dropout_part)
TEST(documents)
TEST(halves_round_once)
TEST(fp16_overflow)
TEST(not_finite_shows)
TEST(memory)
TEST(devices)
#undef TEST

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(megatron_cross_entropy_test),
        cmocka_unit_test(padded_cross_entropy_test),
        cmocka_unit_test(adamw_sequence_test),
        cmocka_unit_test(gelu_values_test),
        cmocka_unit_test(activation_values_test),
        cmocka_unit_test(rms_values_test),
        cmocka_unit_test(rotary_values_test),
        cmocka_unit_test(alibi_values_test),
        cmocka_unit_test(windows_test),
        cmocka_unit_test(grouped_attention_test),
        cmocka_unit_test(flat_attention_test),
        cmocka_unit_test(split_attention_test),
        cmocka_unit_test(dropout_mask_test),
        cmocka_unit_test(dropout_part_test),
        cmocka_unit_test(documents_test),
        cmocka_unit_test(halves_round_once_test),
        cmocka_unit_test(fp16_overflow_test),
        cmocka_unit_test(not_finite_shows_test),
        cmocka_unit_test(memory_test),
        cmocka_unit_test(devices_test),
    };
    return run_tap(tests);
}
