/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <string.h>

#include "util/half.h"

/* A format by its widths, from which the standard's closed forms give every value. */
struct format {
    const char *name;
    int exponent, fraction; /* bits */
    float (*to_float)(uint16_t h);
    uint16_t (*from_float)(float x);
};

static const struct format formats[] = {
    {"fp16", 5, 10, tr_f16_to_float, tr_f16_from_float},
    {"bf16", 8, 7, tr_bf16_to_float, tr_bf16_from_float},
};

enum { FORMATS = 2, ALL = 1 << 16, SIGN = 1 << 15 };

static int infinity_of(const struct format *f)
{
    return ((1 << f->exponent) - 1) << f->fraction;
}

/* IEEE 754-2019, section 3.4: (-1)^s 2^(e - bias) (1 + t / 2^fraction), or 2^(1 - bias) t /
   2^fraction where e is 0. */
static double value_of(const struct format *f, int h)
{
    int bias = (1 << (f->exponent - 1)) - 1, t = h & ((1 << f->fraction) - 1);
    int e = (h & (SIGN - 1)) >> f->fraction;
    double magnitude = e == 0 ? ldexp(t, 1 - bias - f->fraction)
                              : ldexp((1 << f->fraction) + t, e - bias - f->fraction);

    if ((h & (SIGN - 1)) == infinity_of(f))
        magnitude = INFINITY;
    return h & SIGN ? -magnitude : magnitude;
}

static void fail_at(const struct format *f, int h, double x, int got)
{
    fail_msg("%s: %.17g near the value of %04x becomes %04x", f->name, x, (unsigned)h,
             (unsigned)got);
}

/* Every one of the 65536, and back. */
static void every_value(void **state)
{
    (void)state;
    for (int k = 0; k < FORMATS; k++)
        for (int h = 0; h < ALL; h++) {
            const struct format *f = &formats[k];
            float x = f->to_float((uint16_t)h);
            int back = f->from_float(x), quiet = h | 1 << (f->fraction - 1);

            if ((h & (SIGN - 1)) > infinity_of(f)) {
                if (!isnan(x) || back != quiet)
                    fail_at(f, h, (double)x, back);
            } else if ((double)x != value_of(f, h) || (signbit(x) != 0) != (h >= SIGN) ||
                       back != h) {
                fail_at(f, h, (double)x, back);
            }
        }
}

/* The half of x, a number strictly between the values of h and h + 1 or a tie of them. */
static int rounded(const struct format *f, int h, double x)
{
    double low = value_of(f, h), high = value_of(f, h + 1);

    if (h + 1 == infinity_of(f))
        high = 2.0 * low - value_of(f, h - 1);
    if (x - low == high - x)
        return h + (h & 1);
    return x - low < high - x ? h : h + 1;
}

/* Around the middle between any two neighbours, the largest number and infinity included, on both
   sides of zero: where the nearest changes, and the tie. */
static void every_middle(void **state)
{
    (void)state;
    for (int k = 0; k < FORMATS; k++)
        for (int h = 0; h < infinity_of(&formats[k]); h++) {
            const struct format *f = &formats[k];
            double low = value_of(f, h), high = value_of(f, h + 1);
            float middle = (float)(h + 1 == infinity_of(f) ? low + (low - value_of(f, h - 1)) / 2.0
                                                           : low + (high - low) / 2.0);
            float around[3] = {nextafterf(middle, -INFINITY), middle, nextafterf(middle, INFINITY)};

            for (int i = 0; i < 3; i++) {
                int want = rounded(f, h, (double)around[i]);
                int got = f->from_float(around[i]), other = f->from_float(-around[i]);

                if (got != want || other != (want | SIGN))
                    fail_at(f, h, (double)around[i], got != want ? got : other);
            }
        }
}

static void beyond(void **state)
{
    (void)state;
    assert_int_equal(tr_f16_from_float(65504.0f), 0x7bff);
    assert_int_equal(tr_f16_from_float(65519.996f), 0x7bff);
    assert_int_equal(tr_f16_from_float(65520.0f), 0x7c00);
    assert_int_equal(tr_f16_from_float(-3e38f), 0xfc00);
    assert_int_equal(tr_bf16_from_float(3.4028235e38f), 0x7f80);
    assert_int_equal(tr_f16_from_float(0x1p-25f), 0);
    assert_int_equal(tr_f16_from_float(0x1.000002p-25f), 1);
    assert_int_equal(tr_f16_from_float(1e-45f), 0);
    for (int k = 0; k < FORMATS; k++) {
        assert_int_equal(formats[k].from_float(INFINITY), infinity_of(&formats[k]));
        assert_int_equal(formats[k].from_float(-INFINITY), infinity_of(&formats[k]) | SIGN);
        /* A NaN whose fraction lies in the bits that go. */
        assert_true(
            isnan(formats[k].to_float(formats[k].from_float(tr_float_of_bits(0x7f800001)))));
        assert_true(
            isnan(formats[k].to_float(formats[k].from_float(tr_float_of_bits(0xffffffff)))));
    }
}

/* A double a little beyond the middle of two numbers in fp16: the float of it is the middle, a
   tie. */
static void doubles_round_once(void **state)
{
    int twice = 0;

    (void)state;
    for (int k = 0; k < FORMATS; k++)
        for (int h = 0; h + 1 < infinity_of(&formats[k]); h++) {
            const struct format *f = &formats[k];
            double low = value_of(f, h), gap = value_of(f, h + 1) - low;

            for (int i = -1; i <= 1; i++) {
                double x = low + gap / 2.0 + i * 0x1p-40 * gap;
                int want = rounded(f, h, x), got = f->from_float(tr_float_to_odd(x));

                if (got != want || f->from_float(tr_float_to_odd(-x)) != (want | SIGN))
                    fail_at(f, h, x, got);
                twice += f->from_float((float)x) != want;
            }
        }
    /* Half of those next to a middle would go wrong without it. */
    assert_true(twice > 60000);
    assert_int_equal(tr_f16_from_float(tr_float_to_odd(1e300)), 0x7c00);
    assert_int_equal(tr_bf16_from_float(tr_float_to_odd(-1e300)), 0xff80);
    assert_true(isinf(tr_float_to_odd(INFINITY)) && isnan(tr_float_to_odd(NAN)));
    assert_true(tr_float_to_odd(0.0) == 0.0f && tr_float_to_odd(-1.5) == -1.5f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_value),
        cmocka_unit_test(every_middle),
        cmocka_unit_test(beyond),
        cmocka_unit_test(doubles_round_once),
    };
    return run_tap(tests);
}
