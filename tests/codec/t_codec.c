/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <string.h>

#include "codec/pair.h"
#include "util/half.h"

/* ---- fixpoint and none ---- */

static void fixpoint(void **state)
{
    static const int64_t names[MAX_SAMPLES] = {5, 3, 9, 0};
    float x[MAX_NUMBERS], y[MAX_NUMBERS], want[MAX_NUMBERS];
    unsigned char wire[MAX_WIRE], plain[MAX_WIRE];

    (void)state;
    for (int number = 0; number < HOWS; number++) {
        struct tr_codec_how how = draw_how(number);
        const int64_t dim[3] = {how.samples, how.tokens, how.width};
        struct pair p;

        open_pair(&p, "fixpoint", &how, backend((int)below(12)), backend((int)below(12)));
        for (int64_t step = 0; step < 3; step++) {
            struct tr_codec_key key = {step, names, (int)how.samples};
            int64_t bytes;
            draw_block(&how, step == 2, x);
            bytes = send_block(&p, &key, x, wire, y);
            assert_int_equal(bytes, plain_put(how.fix, dim, x, plain));
            assert_memory_equal(wire, plain, (size_t)bytes);
            plain_get(how.fix, dim, plain, false, want);
            check_block(&how, y, want);
        }
        close_pair(&p);
    }
}

/* x and what came out of it, of a bucket whose largest element is `largest`: the bound of
   docs/numerics.md, which the top code alone may need whole. */
static double check_bound(int bits, double x, double y, double largest)
{
    const double s = (double)tr_f16_to_float(tr_f16_from_float((float)largest));
    const double step = s / ldexp(1.0, bits - 1), error = fabs(y - x), tiny = 2e-6 + 1e-6 * s;

    if (!(error <= step + fabs(largest - s) + tiny))
        fail_msg("%d bits: %.9g became %.9g, %g steps off", bits, x, y, error / step);
    if (x <= s - step / 2.0 && !(error <= step / 2.0 + fabs(largest - s) + tiny))
        fail_msg("%d bits: %.9g became %.9g, more than half a step off", bits, x, y);
    return error / step;
}

/* Columns of numbers of one size, and in the first one number that is the largest of
   its column and a half. */
static void draw_columns(int64_t rows, int64_t columns, float size, float *x, float *largest)
{
    for (int64_t j = 0; j < columns; j++) {
        largest[j] = 0.0F;
        for (int64_t i = 0; i < rows; i++) {
            float *at = &x[i * columns + j];

            *at = (float)(below(2000001) - 1000000) * 1e-6F * size;
            if (j == 0 && i == 3)
                *at = 2.0F * size;
            largest[j] = fmaxf(largest[j], fabsf(*at));
        }
    }
}

/* No element is off by more than a step, s / h with h = 2^(bits - 1), and the largest one is off by a
   whole one: there is no code for h, so it gets h - 1. */
static void error_bound(void **state)
{
    enum { ROWS = 16, COLUMNS = 32 };
    static const int64_t name[1] = {7};
    float x[MAX_NUMBERS], y[MAX_NUMBERS], largest[COLUMNS];
    unsigned char wire[MAX_WIRE];

    (void)state;
    for (int number = 0; number < 7 * 24; number++) {
        const int bits = 2 + number % 7;
        struct tr_codec_how how = {.samples = 1,
                                   .tokens = ROWS,
                                   .width = COLUMNS,
                                   .dtype = TR_F32,
                                   .fix = {.bits = bits, .over = 3, .scale = TR_SCALE_MAX}};
        struct tr_codec_key key = {number, name, 1};
        double top, worst = 0.0;
        struct pair p;

        open_pair(&p, "fixpoint", &how, backend(number), backend(number / 7));
        draw_columns(ROWS, COLUMNS, ldexpf(1.0F, number % 20 - 8), x, largest);
        send_block(&p, &key, x, wire, y);
        for (int i = 0; i < ROWS * COLUMNS; i++)
            worst = fmax(worst, check_bound(bits, x[i], y[i], largest[i % COLUMNS]));
        top = (double)(x[3 * COLUMNS] - y[3 * COLUMNS]) * ldexp(1.0, bits - 1) / largest[0];
        assert_true(fabs(top - 1.0) < 1e-5 && worst < 1.0 + ldexp(1.0, bits - 11));
        close_pair(&p);
    }
}

static void none(void **state)
{
    static const int64_t names[MAX_SAMPLES] = {0, 1, 2, 3};
    float x[MAX_NUMBERS], y[MAX_NUMBERS];
    unsigned char wire[MAX_WIRE];

    (void)state;
    for (int number = 0; number < 12; number++) {
        struct tr_codec_how how = draw_how(number);
        struct tr_codec_key key = {number, names, (int)how.samples};
        struct pair p;

        open_pair(&p, "none", &how, backend((int)below(12)), backend((int)below(12)));
        draw_block(&how, true, x);
        assert_int_equal(send_block(&p, &key, x, wire, y), tr_tensor_bytes(&p.from.x));
        check_block(&how, y, x);
        close_pair(&p);
    }
}

/* Another block, another order of samples or another byte on the wire is another fingerprint. */
static void fingerprints_tell(void **state)
{
    static const int64_t names[2][2] = {{4, 5}, {5, 4}};
    struct tr_codec_how how = draw_how(9);
    float x[MAX_NUMBERS], y[MAX_NUMBERS];
    unsigned char wire[MAX_WIRE];
    uint64_t print[5];

    (void)state;
    how.samples = 2;
    how.dtype = TR_F32;
    for (int i = 0; i < 5; i++) {
        struct tr_codec_key key = {i == 4, names[i == 1], 2};
        struct pair p;
        open_pair(&p, "fixpoint", &how, backend(0), backend(0));
        for (int64_t j = 0; j < tr_tensor_elems(&p.from.x); j++)
            x[j] = (float)(j % 5 - 2);
        x[0] += i == 2;
        send_block(&p, &key, x, wire, y);
        if (i == 3) {
            key.step++;
            send_block(&p, &key, x, wire, y);
        }
        print[i] = p.to.e->on->fingerprint(p.to.e, &p.to.q);
        for (int j = 0; j < i; j++)
            assert_true(print[i] != print[j]);
        close_pair(&p);
    }
}

/* Against the sizes that AC-SGD's authors have for GPT-2 xl: [1,1024,1600]. */
static void published_sizes(void **state)
{
    static const struct {
        int bits;
        int64_t bytes;
    } table[] = {{2, 412800}, {3, 617600}, {4, 822400}, {6, 1232000}, {8, 1641600}};
    const struct tr_codec *c = tr_codec_find("fixpoint");

    (void)state;
    for (int i = 0; i < 5; i++) {
        struct tr_codec_how how = {.samples = 1,
                                   .tokens = 1024,
                                   .width = 1600,
                                   .dtype = TR_F16,
                                   .fix = {.bits = table[i].bits, .over = 3}};
        struct tr_codec_end *e;
        assert_ok(c->open(&how, &e));
        assert_int_equal(c->wire_limit(e), table[i].bytes);
        assert_int_equal(c->wire_bytes(e, NULL), table[i].bytes);
        c->close(e);
    }
}

static void names(void **state)
{
    (void)state;
    assert_null(tr_codec_find("topk"));
    assert_string_equal(tr_codec_find("none")->name, "none");
    assert_false(tr_codec_find("fixpoint")->remembers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(published_sizes),
        cmocka_unit_test(none),
        cmocka_unit_test(fixpoint),
        cmocka_unit_test(fingerprints_tell),
        cmocka_unit_test(error_bound),
    };

    return run_tap(tests);
}
