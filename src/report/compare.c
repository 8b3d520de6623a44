/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *tr_verdict_text(enum tr_verdict v)
{
    static const char *const texts[] = {
        [TR_WITHIN_NOISE] = "within noise",
        [TR_FASTER] = "faster",
        [TR_SLOWER] = "slower",
        [TR_TOO_FEW] = "one line says nothing",
    };

    return texts[v];
}

static enum tr_verdict judge(const struct tr_order *a, const struct tr_order *b)
{
    if (a->count < 2 || b->count < 2)
        return TR_TOO_FEW;
    if (b->low > a->high)
        return TR_SLOWER;
    return b->high < a->low ? TR_FASTER : TR_WITHIN_NOISE;
}

/* A timer over the lines that count: of the last rank if the log has it, else the largest. */
static struct tr_order timer_order(const struct tr_record *r, const struct tr_selection *s,
                                   int timer)
{
    double *x = calloc((size_t)s->count + 1, sizeof *x);
    struct tr_order o;

    if (!x)
        tr_die(TR_ERESOURCE, "no memory left for a timer of a run");
    for (int64_t i = 0; i < s->count; i++) {
        const struct tr_timing *t = tr_row_timing(r, &r->row[s->row[i]], timer);

        x[i] = !t ? NAN : isnan(t->last) ? t->max : t->last;
    }
    o = tr_order_of(x, s->count);
    free(x);
    return o;
}

static void add(struct tr_comparison *c, const char *name, struct tr_order a, struct tr_order b)
{
    if (a.count == 0 || b.count == 0)
        return;
    c->phase[c->count++] = (struct tr_phase){name, a, b, judge(&a, &b)};
    c->sure = fmin(c->sure, fmin(a.sure, b.sure));
}

static int find_timer(const struct tr_record *r, const char *name)
{
    for (int i = 0; i < r->timers; i++)
        if (strcmp(r->timer[i], name) == 0)
            return i;
    return -1;
}

enum tr_status tr_compare(const struct tr_record *a, const struct tr_record *b, int64_t warmup,
                          struct tr_comparison *out)
{
    struct tr_selection of_a = tr_select_rows(a, warmup), of_b = tr_select_rows(b, warmup);
    enum tr_status s = TR_OK;

    *out = (struct tr_comparison){.sure = 1.0};
    out->phase = calloc((size_t)a->timers + 1, sizeof *out->phase);
    if (!out->phase)
        tr_die(TR_ERESOURCE, "no memory left for a comparison");
    if (of_a.count == 0 || of_b.count == 0)
        s = TR_FAIL(TR_EDATA,
                    "%s has no iteration line that counts, so there is nothing to compare",
                    of_a.count == 0 ? a->name : b->name);
    add(out, "elapsed", tr_selection_order(a, &of_a, TR_FIELD_ELAPSED),
        tr_selection_order(b, &of_b, TR_FIELD_ELAPSED));
    for (int i = 0; i < a->timers; i++) {
        int j = find_timer(b, a->timer[i]);

        if (j >= 0)
            add(out, a->timer[i], timer_order(a, &of_a, i), timer_order(b, &of_b, j));
    }
    tr_selection_release(&of_a);
    tr_selection_release(&of_b);
    return s;
}

void tr_comparison_release(struct tr_comparison *c)
{
    free(c->phase);
    memset(c, 0, sizeof *c);
}
