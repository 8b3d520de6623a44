/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/agree.h"
#include "report/plot_parts.h"
#include "util/file.h"
#include "util/text.h"

/* Of a name in a caption: no more than there is room for in a line. */
enum { MOST_LETTERS = 32 };

bool tr_plot_alike(const struct tr_series *a, const struct tr_series *b, double within,
                   double *most)
{
    *most = 0.0;
    if (a->count != b->count || a->count == 0 || a->look != b->look)
        return false;
    for (int64_t n = 0; n < a->count; n++) {
        if (a->x[n] < b->x[n] || a->x[n] > b->x[n])
            return false;
        *most = fmax(*most, fabs(a->y[n] - b->y[n]) / fabs(a->y[n]));
    }
    return *most <= within;
}

void tr_plot_empty(struct tr_series *s)
{
    for (int64_t n = 0; n < s->count; n++)
        free(s->label[n]);
    s->count = 0;
}

/* Series `first` with all behind it that are equal to it.  Six digits of a log are of the loss,
   and a line is wider than the last of them. */
static void merge_with(const struct tr_records *runs, int first, struct tr_plot *out)
{
    static const enum tr_fact layout[] = {TR_FACT_WORLD, TR_FACT_TP, TR_FACT_PP, TR_FACT_CHUNKS};
    const double within = 1e-5;
    char *names = tr_plot_clip(out->series[first].name, MOST_LETTERS), text[TR_AGREE_BYTES];
    double most = 0.0;
    bool layouts = false;
    int count = 1;

    for (int i = first + 1; i < out->count; i++) {
        double each;
        char *name;

        if (!tr_plot_alike(&out->series[first], &out->series[i], within, &each))
            continue;
        most = fmax(most, each);
        layouts |= !tr_record_alike(&runs->list[first], &runs->list[i], layout,
                                    sizeof layout / sizeof layout[0], true);
        name = tr_plot_clip(out->series[i].name, MOST_LETTERS);
        names = tr_text_join(names, ", ", name);
        free(name);
        tr_plot_empty(&out->series[i]);
        count++;
    }
    if (count > 1) {
        const char *what = layouts ? "layouts" : "runs";

        out->legend = true;
        free(out->series[first].name);
        out->series[first].name =
            most > 0.0 ? tr_format("%d %s, equal to %s", count, what, tr_agree_text(most, text))
                       : tr_format("%d %s, equal", count, what);
        tr_plot_note(out, tr_format("%s: %s.", out->series[first].name, names));
    }
    free(names);
}

void tr_plot_merge_runs(const struct tr_records *runs, struct tr_plot *out)
{
    TR_ASSERT(out->count == runs->count);
    for (int i = 0; i < out->count; i++)
        if (out->series[i].count > 0)
            merge_with(runs, i, out);
}
