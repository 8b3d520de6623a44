/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "check.h"
#include "family/family.h"

/* The table of families and that of activations: what a reader of a row relies on. */

static void names_are_found(void **state)
{
    int rows = 0;

    (void)state;
    for (const struct tr_family *f; (f = tr_family_row(rows)); rows++) {
        assert_true(strlen(f->name) > 0 && strlen(f->about) > 20);
        /* The first of that name is this one: no two rows have it. */
        assert_ptr_equal(tr_family_find(f->name), f);
    }
    assert_true(rows > 10);
    assert_null(tr_family_row(-1));
    assert_null(tr_family_find("gpt"));
    assert_null(tr_family_find(""));
}

/* What would be no decoder. */
static void rows_are_whole(void **state)
{
    (void)state;
    for (int i = 0; tr_family_row(i); i++) {
        const struct tr_family *f = tr_family_row(i);
        const bool rotary = f->positions == TR_POSITIONS_ROTARY;

        if (!(f->eps > 0.0 && f->eps < 1e-3) || !(f->ffn_factor > 1.0) || f->ffn_multiple == 0 ||
            rotary != (f->rotary_base > 1.0) || rotary != (f->rotary_fraction > 0.0) ||
            f->rotary_fraction > 1.0 || (f->one && !f->rms) || (f->tied && f->head_bias) ||
            (f->window > 0 && f->positions == TR_POSITIONS_ALIBI))
            fail_msg("the row of %s contradicts itself", f->name);
    }
}

static void gated_ones_come_last(void **state)
{
    static const struct {
        const char *name;
        bool gated;
    } acts[] = {
#define ACT(symbol, name) {name, false},
#include "family/acts.def"
#define GATED(symbol, name, of) {name, true},
#include "family/acts.def"
    };

    (void)state;
    assert_int_equal(sizeof acts / sizeof acts[0], TR_ACTS);
    for (int i = 0; i < TR_ACTS; i++)
        if (tr_act_gated((enum tr_act)i) != acts[i].gated)
            fail_msg("%s", acts[i].name);
    assert_false(tr_act_gated(TR_ACT_SILU));
    assert_true(tr_act_gated(TR_ACT_SWIGLU));
    assert_string_equal(acts[TR_ACT_SWIGLU].name, "swiglu");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_found),
        cmocka_unit_test(rows_are_whole),
        cmocka_unit_test(gated_ones_come_last),
    };

    return run_tap(tests);
}
