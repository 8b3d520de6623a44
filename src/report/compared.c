/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "report/compare.h"
#include "report/present_parts.h"

enum tr_status tr_present_comparison(const struct tr_present *p, struct tr_table *t)
{
    static const struct tr_column columns[] = {
        {"phase", "Phase"},
        {"a_ms", "A, ms"},
        {"a_low_ms", "A, from"},
        {"a_high_ms", "to"},
        {"b_ms", "B, ms"},
        {"b_low_ms", "B, from"},
        {"b_high_ms", "to"},
        {"difference_ms", "B - A, ms"},
        {"change_percent", "B / A - 1, %"},
        {"verdict", "B is"},
    };
    struct tr_comparison c;
    enum tr_status s;

    tr_table_init(t, "comparison", "Comparison", columns, sizeof columns / sizeof *columns);
    if (p->runs->count != 2)
        return TR_FAIL(
            TR_ECONFIG,
            "a comparison needs two runs and these logs hold %d: give two logs, or --join "
            "if one run was logged in pieces",
            p->runs->count);
    s = tr_compare(&p->runs->list[0], &p->runs->list[1], p->warmup, &c);
    for (int i = 0; i < c.count && s == TR_OK; i++) {
        const struct tr_phase *x = &c.phase[i];

        tr_table_text(t, "%s", x->name);
        tr_table_real(t, x->a.median, 2);
        tr_table_real(t, x->a.low, 2);
        tr_table_real(t, x->a.high, 2);
        tr_table_real(t, x->b.median, 2);
        tr_table_real(t, x->b.low, 2);
        tr_table_real(t, x->b.high, 2);
        tr_table_real(t, x->b.median - x->a.median, 2);
        tr_table_real(t, x->a.median > 0.0 ? 100.0 * (x->b.median / x->a.median - 1.0) : NAN, 1);
        tr_table_text(t, "%s", tr_verdict_text(x->verdict));
    }
    tr_table_note(t, "A: %s.  B: %s.", p->runs->list[0].name, p->runs->list[1].name);
    tr_table_note(t,
                  "Medians, and intervals that hold the true median with %.1f %% or more, by order "
                  "statistics.  Within noise: the intervals overlap.",
                  100.0 * c.sure);
    tr_present_note_warmup(p, t);
    tr_comparison_release(&c);
    return s;
}
