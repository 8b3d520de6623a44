/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <string.h>

#include "device/cpu/cpu_half.h"
#include "device/cpu/cpu_math.h"

/* Every STRIDE-th float there is, which leaves several million in each range. */
enum { STRIDE = 499, ALL = 1 << 16 };

static int64_t floats_between(float low, float high, void (*check)(float x))
{
    int64_t seen = 0;

    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += STRIDE) {
        uint32_t b = (uint32_t)bits;
        float x;

        memcpy(&x, &b, sizeof x);
        if (x >= low && x <= high) {
            check(x);
            seen++;
        }
    }
    return seen;
}

static void near(const char *what, float x, float got, double want, double allowed)
{
    if (!(fabs((double)got - want) <= allowed))
        fail_msg("%s(%.9g) is %.9g, not %.9g within %.2g", what, (double)x, (double)got, want,
                 allowed);
}

static void check_exp(float x)
{
    double want = exp((double)x);

    near("exp_fast", x, exp_fast(x), want, 1e-7 * want);
}

static void exponential(void **state)
{
    (void)state;
    assert_true(floats_between(-87.3f, 88.3f, check_exp) > 4000000);
    assert_true(exp_fast(0.0f) == 1.0f && exp_fast(-0.0f) == 1.0f);
    assert_true(exp_fast(-88.0f) == 0.0f && exp_fast(-INFINITY) == 0.0f);
    assert_true(isinf(exp_fast(89.0f)) && isinf(exp_fast(INFINITY)));
    assert_true(isnan(exp_fast(NAN)));
}

static const double outer = 0.7978845608028654, inner = 0.044715;

static void check_gelu(float x)
{
    double z = (double)x, t = tanh(outer * (z + inner * z * z * z));

    near("gelu", x, act_GELU_TANH(x), 0.5 * z * (1.0 + t), 2e-7 * fabs(z) + 2e-45);
    near("gelu_slope", x, slope_GELU_TANH(x),
         0.5 * (1.0 + t) + 0.5 * z * (1.0 - t * t) * outer * (1.0 + 3.0 * inner * z * z), 3e-7);
}

static void check_exact_gelu(float x)
{
    double z = (double)x, share = 0.5 * erfc(-z * M_SQRT1_2);

    near("gelu", x, act_GELU(x), z * share, 2e-7 * fabs(z) + 2e-45);
    near("gelu's slope", x, slope_GELU(x), share + z * exp(-0.5 * z * z) * 0.3989422804014327,
         3e-7);
}

static void check_silu(float x)
{
    double z = (double)x, s = 1.0 / (1.0 + exp(-z));

    near("silu", x, act_SILU(x), z * s, 2e-7 * fabs(z) + 2e-45);
    near("silu's slope", x, slope_SILU(x), s + z * s / (1.0 + exp(z)), 3e-7);
}

static void check_relu(float x)
{
    double z = (double)x, positive = fmax(z, 0.0);

    near("relu", x, act_RELU(x), positive, 0.0);
    near("relu's slope", x, slope_RELU(x), z > 0.0 ? 1.0 : 0.0, 0.0);
    near("squared relu", x, act_RELU2(x), positive * positive, 6e-8 * z * z + 2e-45);
    near("squared relu's slope", x, slope_RELU2(x), 2.0 * positive, 0.0);
}

static void activation(void **state)
{
    (void)state;
    assert_true(floats_between(-1000.0f, 1000.0f, check_gelu) > 4000000);
    assert_true(floats_between(-1000.0f, 1000.0f, check_exact_gelu) > 4000000);
    assert_true(floats_between(-1000.0f, 1000.0f, check_silu) > 4000000);
    assert_true(floats_between(-1000.0f, 1000.0f, check_relu) > 4000000);
#define ACT(symbol, name) assert_true(isnan(act_##symbol(NAN)));
#include "family/acts.def"
    assert_true(isnan(slope_GELU_TANH(NAN)) && isnan(slope_GELU(NAN)) && isnan(slope_SILU(NAN)));
}

static void check_widen(enum tr_dtype t, const uint16_t *h, int64_t n, float (*plain)(uint16_t))
{
    float got[ALL + 1];

    got[n] = 1.5f;
    tr_cpu_widen(t, h, n, got);
    for (int64_t i = 0; i < n; i++)
        if (tr_bits_of_float(got[i]) != tr_bits_of_float(plain(h[i])))
            fail_msg("%s %04x becomes %08x, not %08x", tr_dtype_name(t), h[i],
                     tr_bits_of_float(got[i]), tr_bits_of_float(plain(h[i])));
    assert_true(got[n] == 1.5f);
}

static void check_narrow(enum tr_dtype t, const float *x, int64_t n, uint16_t (*plain)(float))
{
    uint16_t got[ALL + 1];

    got[n] = 77;
    tr_cpu_narrow(t, x, n, got);
    for (int64_t i = 0; i < n; i++)
        if (got[i] != plain(x[i]))
            fail_msg("%.9g becomes %s %04x, not %04x", (double)x[i], tr_dtype_name(t), got[i],
                     plain(x[i]));
    assert_int_equal(got[n], 77);
}

/* The processor's conversions are those of util/half.h, to the bit, at any address and length. */
static void halves(void **state)
{
    static uint16_t h[ALL];
    static float x[ALL];
    uint64_t bits = 0;

    (void)state;
    for (int i = 0; i < ALL; i++)
        h[i] = (uint16_t)(i - 70);
    for (int n = 0; n <= 70; n++) {
        check_widen(TR_F16, h + n, n < 70 ? n : ALL - n, tr_f16_to_float);
        check_widen(TR_BF16, h + n, n < 70 ? n : ALL - n, tr_bf16_to_float);
    }
    for (int round = 0; bits < UINT64_C(1) << 32; round++) {
        int64_t n = ALL - round;

        for (int64_t i = 0; i < n; i++, bits += STRIDE)
            x[i] = tr_float_of_bits((uint32_t)bits);
        check_narrow(TR_F16, x, n, tr_f16_from_float);
        check_narrow(TR_BF16, x, n, tr_bf16_from_float);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential),
        cmocka_unit_test(activation),
        cmocka_unit_test(halves),
    };
    return run_tap(tests);
}
