/* SPDX-License-Identifier: BSD-3-Clause */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "report/reader.h"
#include "report/scan.h"
#include "util/file.h"

/* The number of a timer's name in the run, or -1 if it is no name or there are too many. */
static int timer_number(struct tr_reader *r, const char *name, size_t length)
{
    struct tr_record *run = tr_reader_record(r);

    if (length == 0 || length > 80)
        return -1;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("-_/", name[i]))
            return -1;
    for (int i = 0; i < run->timers; i++)
        if (strlen(run->timer[i]) == length && memcmp(run->timer[i], name, length) == 0)
            return i;
    if (run->timers == TR_LINE_TIMERS) {
        tr_reader_odd(r, TR_ODDITY_TIMERS);
        return -1;
    }
    run->timer = tr_grow(run->timer, run->timers, sizeof *run->timer);
    run->timer[run->timers] = tr_format("%.*s", (int)length, name);
    return run->timers++;
}

/* The timing of that timer in the row that is being read; new if it has none; NULL if it cannot
 * have. */
static struct tr_timing *timing_of(struct tr_reader *r, int name, bool *is_new)
{
    struct tr_record *run = tr_reader_record(r);
    struct tr_row *row = tr_reader_last_row(r);

    *is_new = false;
    if (!row || name < 0)
        return NULL;
    for (int i = 0; i < row->timings; i++)
        if (run->timing[row->first_timing + i].name == name)
            return &run->timing[row->first_timing + i];
    run->timing = tr_grow(run->timing, run->timings, sizeof *run->timing);
    run->timing[run->timings] = (struct tr_timing){name, NAN, NAN, NAN, NAN};
    row->timings++;
    *is_new = true;
    return &run->timing[run->timings++];
}

static void add_timing(struct tr_reader *r, const char *name, size_t length,
                       const struct tr_timing *times)
{
    bool is_new;
    struct tr_timing *t;

    if (!tr_reader_last_row(r) || !(fabs(times->max) < 1e12))
        return;
    t = timing_of(r, timer_number(r, name, length), &is_new);
    if (t && is_new) {
        int number = t->name;

        *t = *times;
        t->name = number;
    }
}

/* at: "time (ms) |" or "wait and transfer (ms) |". */
void tr_reader_timers(struct tr_reader *r, const char *at)
{
    const char *s = strchr(at, '|') + 1;
    struct tr_scan_field f;

    while (tr_scan_field(&s, &f)) {
        r->stopped = s;
        if (f.torn && !r->whole) {
            tr_reader_odd(r, TR_ODDITY_CUT);
            return;
        }
        if (f.good && tr_field_is(&f, "save-checkpoint"))
            tr_reader_start(r)->saving += f.value / 1000.0;
        if (f.good)
            add_timing(r, f.name, f.length,
                       &(struct tr_timing){0, f.value, f.value, f.value, f.value});
        if (f.last)
            return;
    }
}

/* at: "time across ranks (ms):", "times ..." or "wait and transfer ..."; what stands before it says
   how it shows the ranks. */
void tr_reader_table(struct tr_reader *r, const char *at)
{
    r->view_timer = -1;
    if (at - r->line >= 2 && strncmp(at - 2, ") ", 2) == 0)
        r->view = TR_VIEW_RANGE;
    else if (at - r->line >= 4 && strncmp(at - 4, "max ", 4) == 0)
        r->view = TR_VIEW_MAX;
    else
        r->view = TR_VIEW_ALL;
}

/* "(1.00, 2.00)", the least and the largest, or "(1.00, 1.50, 2.00)" with the median. */
static bool read_range(const char **s, struct tr_timing *t)
{
    if (!tr_scan_text(s, "(") || !tr_scan_number(s, &t->min))
        return false;
    while (tr_scan_text(s, ","))
        if (!tr_scan_number(s, &t->max))
            return false;
    return tr_scan_text(s, ")");
}

/* "    name ......: (1.00, 2.00)" or "    name .....: 2.00" of a table.  Is it such a line? */
static bool read_dotted(struct tr_reader *r)
{
    const char *end = strstr(r->line, ".: "), *name_end, *s;
    struct tr_timing t = {0, NAN, NAN, NAN, NAN};

    if (!end || end - r->line > TR_FIELD_BYTES)
        return false;
    for (name_end = end; name_end > r->line && *name_end == '.'; name_end--)
        ;
    while (name_end > r->line && name_end[0] == ' ' && name_end[-1] == ' ')
        name_end--;
    for (s = name_end; s > r->line && s[-1] != ' '; s--)
        ;
    const char *name = s;
    s = end + strlen(".: ");
    if (r->view == TR_VIEW_RANGE ? !read_range(&s, &t) : !tr_scan_number(&s, &t.max))
        return false;
    if (*s == '\0' && !r->whole)
        tr_reader_odd(r, TR_ODDITY_CUT);
    else
        add_timing(r, name, (size_t)(name_end - name), &t);
    return true;
}

/* "  name:" or "     rank  3: 2.00" of a table of all ranks. */
static bool read_ranked(struct tr_reader *r)
{
    const char *s = r->line;
    size_t length;
    int64_t rank;
    double ms;
    bool is_new;
    struct tr_timing *t;

    tr_scan_blanks(&s);
    if (!tr_scan_text(&s, "rank ")) {
        length = strcspn(s, ": ");
        if (s == r->line || s[length] != ':' || s[length + 1] != '\0' || !tr_reader_last_row(r))
            return false;
        r->view_timer = timer_number(r, s, length);
        r->view_ranks = 0;
        return true;
    }
    if (!tr_scan_count(&s, &rank) || !tr_scan_text(&s, ":") || !tr_scan_number(&s, &ms) ||
        !r->whole || !(fabs(ms) < 1e12))
        return false;
    t = timing_of(r, r->view_timer, &is_new);
    if (!t || (!is_new && r->view_ranks == 0))
        return true;
    if (is_new)
        *t = (struct tr_timing){t->name, ms, ms, 0.0, NAN};
    t->min = fmin(t->min, ms);
    t->max = fmax(t->max, ms);
    t->mean += (ms - t->mean) / ++r->view_ranks;
    if ((double)rank + 1.0 >= tr_record_fact(tr_reader_record(r), TR_FACT_WORLD))
        t->last = ms;
    return true;
}

bool tr_reader_in_table(struct tr_reader *r)
{
    switch (r->view) {
    case TR_VIEW_RANGE:
    case TR_VIEW_MAX:
        return read_dotted(r);
    case TR_VIEW_ALL:
        return read_ranked(r);
    default:
        return false;
    }
}
