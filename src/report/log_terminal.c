/* SPDX-License-Identifier: BSD-3-Clause */
#include <ctype.h>
#include <math.h>
#include <string.h>

#include "report/reader.h"
#include "report/scan.h"

/*
 * The lines of --log-format terminal (telemetry/terminal.h).  Fields are two blanks apart, and their
 * words stand before the number or behind it.
 */
static const struct {
    const char *before, *behind;
    enum tr_field field;
    double factor;
} words[] = {
    {"loss ", "", TR_FIELD_LOSS, 1.0},       {"", " ms", TR_FIELD_ELAPSED, 1.0},
    {"", " s", TR_FIELD_ELAPSED, 1e3},       {"lr ", "", TR_FIELD_RATE, 1.0},
    {"grad norm ", "", TR_FIELD_NORM, 1.0},  {"loss scale ", "", TR_FIELD_SCALE, 1.0},
    {"", " skipped", TR_FIELD_SKIPPED, 1.0}, {"", " nan", TR_FIELD_NANS, 1.0},
};

/* s[length]: one field. */
static void read_field(struct tr_row *row, const char *s, size_t length)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t behind = strlen(words[i].behind);
        const char *at = s;
        double x;

        if (!tr_scan_text(&at, words[i].before) || !tr_scan_number(&at, &x) ||
            (size_t)(s + length - at) != behind || strncmp(at, words[i].behind, behind) != 0)
            continue;
        row->field[words[i].field] = x * words[i].factor;
        return;
    }
}

/* "120/1000", which ends at `end`. */
static bool read_place(const struct tr_reader *r, const char *end, int64_t *done, int64_t *total)
{
    const char *s = end;

    while (s > r->line && (isdigit((unsigned char)s[-1]) || s[-1] == '/'))
        s--;
    return tr_scan_count(&s, done) && tr_scan_text(&s, "/") && tr_scan_count(&s, total) &&
           s == end && *done > 0;
}

/* Fields up to the end of the line.  Is it whole? */
static bool read_fields(struct tr_reader *r, const char *s, struct tr_row *row)
{
    while (tr_scan_text(&s, "  ")) {
        const char *end = memmem(s, strnlen(s, TR_FIELD_BYTES), "  ", 2);
        size_t length = end ? (size_t)(end - s) : strcspn(s, "\r");

        r->stopped = s + length;
        if (!end && !r->whole)
            return false;
        read_field(row, s, length);
        s += length;
    }
    return true;
}

void tr_reader_terminal(struct tr_reader *r, const char *at)
{
    struct tr_row row = {.line = r->number};
    struct tr_record *run;
    int64_t total;

    if (!read_place(r, at, &row.iteration, &total))
        return;
    for (int f = 0; f < TR_FIELDS; f++)
        row.field[f] = NAN;
    if (!read_fields(r, at, &row))
        tr_reader_odd(r, TR_ODDITY_CUT);
    if (!(row.field[TR_FIELD_ELAPSED] >= 0.0) || !(row.field[TR_FIELD_ELAPSED] < 1e12)) {
        tr_reader_odd(r, TR_ODDITY_TORN);
        return;
    }
    /* They are named only where there are any. */
    for (int f = 0; f < 2; f++)
        if (isnan(row.field[f ? TR_FIELD_NANS : TR_FIELD_SKIPPED]))
            row.field[f ? TR_FIELD_NANS : TR_FIELD_SKIPPED] = 0.0;
    tr_reader_row(r, &row);
    run = tr_reader_record(r);
    run->ours = true;
    if (isnan(run->fact[TR_FACT_ITERATIONS]))
        run->fact[TR_FACT_ITERATIONS] = (double)total;
}

/* "training on 2 GPUs (TP 1, PP 2, DP 1): iterations 1 to 1000 of 8 samples, 32 tokens each". */
void tr_reader_terminal_start(struct tr_reader *r, const char *at)
{
    static const struct {
        const char *text;
        int fact;
    } parts[] = {{"training on ", TR_FACT_WORLD}, {" (TP ", TR_FACT_TP},
                 {", PP ", TR_FACT_PP},           {", DP ", TR_FACT_DP},
                 {"): iterations ", -1},          {" to ", TR_FACT_ITERATIONS},
                 {" of ", TR_FACT_BATCH},         {", ", TR_FACT_SEQ}};
    enum { PARTS = sizeof parts / sizeof parts[0], FIRST = 4 };
    enum tr_processor on = TR_PROCESSOR_UNKNOWN;
    const char *s = at;
    int64_t n[PARTS];

    for (int i = 0; i < PARTS; i++) {
        s = memmem(s, strnlen(s, TR_FIELD_BYTES), parts[i].text, strlen(parts[i].text));
        if (!s)
            return;
        s += strlen(parts[i].text);
        if (!tr_scan_count(&s, &n[i]) || n[i] == 0)
            return;
        if (i == 0 && *s == ' ')
            on = tr_processor_of_noun(s + 1);
    }
    if (!r->open || r->placed)
        tr_reader_begin(r);
    tr_reader_record(r)->ours = true;
    tr_reader_record(r)->processor = on;
    r->begun.resumed = n[FIRST] - 1;
    for (int i = 0; i < PARTS; i++)
        if (parts[i].fact >= 0)
            tr_reader_record(r)->fact[parts[i].fact] = (double)n[i];
}
