/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <math.h>
#include <string.h>

#include "codec/pair.h"

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
        cmocka_unit_test(names),    cmocka_unit_test(published_sizes),   cmocka_unit_test(none),
        cmocka_unit_test(fixpoint), cmocka_unit_test(fingerprints_tell),
    };

    return run_tap(tests);
}
