/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "report/allocation.h"
#include "report/plot_parts.h"
#include "util/file.h"

static const bool has_axis[] = {
#define PLOT(symbol, name, function, axis) [TR_PLOT_##symbol] = axis,
#define PLOT_FILES(symbol, name, function) [TR_PLOT_##symbol] = false,
#include "report/plots.def"
};

static const struct {
    enum tr_plot_x x;
    double unit;
    const char *label;
} units[] = {
#define PLOT_UNIT(symbol, unit, label) {TR_PLOT_X_##symbol, unit, label},
#include "report/plots.def"
};

bool tr_plot_has_x(enum tr_plot_kind kind)
{
    return has_axis[kind];
}

/* Tokens that were consumed by row i. */
static enum tr_status tokens_at(const struct tr_record *r, int64_t i, double *at)
{
    const double *field = r->row[i].field, seq = tr_record_fact(r, TR_FACT_SEQ);

    *at = isnan(field[TR_FIELD_TOKENS]) ? field[TR_FIELD_SAMPLES] * seq : field[TR_FIELD_TOKENS];
    if (!isnan(*at))
        return TR_OK;
    if (isnan(seq))
        return tr_record_lacks(r, TR_FACT_SEQ, "--plot-x tokens");
    return TR_FAIL(TR_EDATA,
                   "%s, line %" PRId64
                   ": the iteration has no consumed samples, so its tokens are not known; choose "
                   "--plot-x iterations or time",
                   r->name, r->row[i].line);
}

/* Joules of row i. */
static enum tr_status joules_of(const struct tr_record *r, int64_t i, double *joules)
{
    const double each = r->row[i].field[TR_FIELD_ENERGY], gpus = tr_record_fact(r, TR_FACT_WORLD);
    const double iterations = (double)tr_allocation_interval(r, i);

    *joules = iterations > 0.0 ? each * gpus * iterations : 0.0;
    if (!isnan(*joules))
        return TR_OK;
    if (!isnan(each))
        return tr_record_lacks(r, TR_FACT_WORLD, "--plot-x energy");
    return TR_FAIL(TR_EDATA,
                   "%s, line %" PRId64
                   ": the iteration has no energy, and the sum would leave out what it took; train "
                   "with --log-energy, or choose --plot-x time",
                   r->name, r->row[i].line);
}

/* at[i]: where row i of the run is. */
static enum tr_status find_places(const struct tr_record *r, enum tr_plot_x x, double *at)
{
    double sum = 0.0, part = 0.0;

    for (int64_t i = 0; i < r->rows; i++) {
        switch (x) {
        case TR_PLOT_X_ITERATIONS:
            sum = (double)r->row[i].iteration;
            break;
        case TR_PLOT_X_TOKENS:
            TR_TRY(tokens_at(r, i, &sum));
            break;
        case TR_PLOT_X_TIME:
            sum += tr_allocation_row(r, i);
            break;
        case TR_PLOT_X_ENERGY:
            TR_TRY(joules_of(r, i, &part));
            sum += part;
            break;
        }
        at[i] = sum;
    }
    return TR_OK;
}

/* Points of a series of the run, which are at its iterations, to these places. */
static void move_points(const struct tr_record *r, const double *at, struct tr_series *s)
{
    int64_t row = 0;

    for (int64_t n = 0; n < s->count; n++) {
        while (row + 1 < r->rows && (double)r->row[row].iteration < s->x[n])
            row++;
        s->x[n] = at[row];
    }
}

/* A unit in which the end of the axis is a number that people read. */
static void choose_unit(enum tr_plot_x x, struct tr_plot *out)
{
    double most = 0.0, unit = 1.0;

    for (int i = 0; i < out->count; i++)
        for (int64_t n = 0; n < out->series[i].count; n++)
            most = fmax(most, out->series[i].x[n]);
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++) {
        if (units[u].x != x || (units[u].unit > 1.0 && most < 2.0 * units[u].unit))
            continue;
        unit = units[u].unit;
        out->x_label = units[u].label;
    }
    for (int i = 0; i < out->count; i++)
        for (int64_t n = 0; n < out->series[i].count; n++)
            out->series[i].x[n] /= unit;
}

enum tr_status tr_plot_against(enum tr_plot_kind kind, const struct tr_present *p, enum tr_plot_x x,
                               struct tr_plot *out)
{
    TR_TRY(tr_plot_of(kind, p, out));
    TR_ASSERT(tr_plot_has_x(kind) && out->count == p->runs->count);
    for (int i = 0; i < out->count; i++) {
        const struct tr_record *r = &p->runs->list[i];
        double *at = calloc((size_t)r->rows + 1, sizeof *at);
        enum tr_status s;

        if (!at)
            tr_die(TR_ERESOURCE, "no memory left for a plot");
        s = find_places(r, x, at);
        if (s == TR_OK)
            move_points(r, at, &out->series[i]);
        free(at);
        TR_TRY(s);
    }
    choose_unit(x, out);
    if (kind == TR_PLOT_LOSS)
        tr_plot_merge_runs(p->runs, out);
    return TR_OK;
}
