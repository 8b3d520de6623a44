/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/allocation.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

int64_t tr_allocation_interval(const struct tr_record *r, int64_t i)
{
    const struct tr_row *row = &r->row[i];
    const bool follows = i > 0 && r->row[i - 1].start == row->start;
    const int64_t before = follows ? r->row[i - 1].iteration : r->start[row->start].resumed;

    return row->extra || row->iteration <= before ? 0 : row->iteration - before;
}

double tr_allocation_row(const struct tr_record *r, int64_t i)
{
    const int64_t iterations = tr_allocation_interval(r, i);

    return iterations > 0 ? r->row[i].field[TR_FIELD_ELAPSED] / 1000.0 * (double)iterations : 0.0;
}

/* Seconds since an epoch of a date such as "2026-11-28 04:56:39"; NAN for none. */
static double moment(const char *date)
{
    struct tm t = {.tm_isdst = 0};
    const char *end = strptime(date, "%Y-%m-%d %H:%M:%S", &t);

    return end && *end == '\0' ? (double)timegm(&t) : NAN;
}

/* What the log has times of, and the seconds between its dates. */
struct span {
    double useful, saving, known, dated;
};

static struct span span_of(const struct tr_record *r, int64_t n, const double *useful)
{
    const struct tr_start *s = &r->start[n];
    /* Where saving is part of the time of iterations it cannot be told apart. */
    struct span x = {.useful = useful[n], .saving = r->ours ? s->saving : 0.0};

    x.known = x.useful + s->ready + x.saving + s->again;
    x.dated = moment(s->ended) - moment(s->began) + s->before;
    return x;
}

static void add_start(const struct tr_record *r, int64_t n, const double *useful,
                      struct tr_allocation *out)
{
    const struct tr_start *s = &r->start[n];
    const struct span x = span_of(r, n, useful);
    /* Of a start that was killed the last date is that of its beginning; and dates have no fractions of a second. */
    const double all = isnan(x.dated) ? x.dated : fmax(x.dated, x.known);

    out->ends += s->end == TR_END_UNKNOWN || x.known > x.dated + 2.0;
    out->allocated += all;
    out->useful += x.useful;
    out->start += s->ready;
    out->saving += x.saving;
    out->again += s->again;
    out->rest += all - x.known;
    if (n > 0)
        out->between += fmax(moment(s->began) - s->before - moment(r->start[n - 1].ended), 0.0);
}

struct tr_allocation tr_allocation_of(const struct tr_record *r)
{
    struct tr_allocation a = {.allocated = 0.0};
    double *useful = calloc((size_t)r->starts + 1, sizeof *useful);

    if (!useful)
        tr_die(TR_ERESOURCE, "no memory left for the times of %lld starts", (long long)r->starts);
    for (int64_t i = 0; i < r->rows; i++)
        useful[r->row[i].start] += tr_allocation_row(r, i);
    for (int64_t n = 0; n < r->starts; n++)
        add_start(r, n, useful, &a);
    free(useful);
    return a;
}
