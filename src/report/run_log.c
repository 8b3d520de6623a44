/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/run_log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "report/allocation.h"
#include "report/reader.h"
#include "util/file.h"
#include "util/text.h"

void tr_reader_odd(struct tr_reader *r, enum tr_oddity o)
{
    if (r->out->odd[o].count++ == 0)
        r->out->odd[o].line = r->number;
}

struct tr_record *tr_reader_record(struct tr_reader *r)
{
    return r->placed ? &r->out->list[r->out->count - 1] : &r->draft;
}

struct tr_start *tr_reader_start(struct tr_reader *r)
{
    struct tr_record *run = tr_reader_record(r);

    return r->placed ? &run->start[run->starts - 1] : &r->begun;
}

struct tr_row *tr_reader_last_row(struct tr_reader *r)
{
    struct tr_record *run = tr_reader_record(r);

    return r->placed && tr_reader_start(r)->first > 0 ? &run->row[run->rows - 1] : NULL;
}

static void clear_draft(struct tr_reader *r)
{
    memset(&r->draft, 0, sizeof r->draft);
    for (int f = 0; f < TR_FACTS; f++)
        r->draft.fact[f] = NAN;
    r->draft.validation = NAN;
    r->begun = (struct tr_start){.line = r->number, .resumed = -1, .end = TR_END_UNKNOWN};
}

/* Facts in which starts of one run cannot differ. */
static bool same_shape(const struct tr_record *a, const struct tr_record *b)
{
    static const enum tr_fact shape[] = {TR_FACT_WORLD, TR_FACT_TP,         TR_FACT_PP,
                                         TR_FACT_DP,    TR_FACT_LAYERS,     TR_FACT_HIDDEN,
                                         TR_FACT_HEADS, TR_FACT_SEQ,        TR_FACT_VOCAB,
                                         TR_FACT_BATCH, TR_FACT_MICRO_BATCH};

    for (size_t i = 0; i < sizeof shape / sizeof shape[0]; i++) {
        double x = a->fact[shape[i]], y = b->fact[shape[i]];

        if (x < y || x > y)
            return false;
    }
    return true;
}

/*
 * Does the start that is being read, whose first line is of `iteration` (0: it has none), go on with
 * the last run?  It does if it says from where, or if its iterations follow on.  One that begins again
 * and says nothing of it is another run, unless the reader was told that the log is a piece of this one.
 */
static bool goes_on(const struct tr_reader *r, int64_t iteration)
{
    const bool joined = r->may_go_on && r->out->count > 0;
    const struct tr_record *run;
    int64_t reached;

    if (r->out->count == r->first_run && !joined)
        return false;
    run = &r->out->list[r->out->count - 1];
    if (!same_shape(run, &r->draft))
        return false;
    if (r->begun.resumed > 0)
        return true;
    if (tr_end_orderly(run->start[run->starts - 1].end))
        return false;
    reached = run->rows > 0 ? run->row[run->rows - 1].iteration : 0;
    return joined || r->says_same || iteration == 0 || iteration > reached;
}

static void new_run(struct tr_reader *r)
{
    struct tr_records *out = r->out;
    int n = out->count - r->first_run + 1;

    out->list = tr_grow(out->list, out->count, sizeof *out->list);
    out->list[out->count] = r->draft;
    out->list[out->count++].name =
        tr_printable(n > 1 ? tr_format("%s#%d", r->name, n) : tr_format("%s", r->name));
}

/* What the draft knows and the run does not. */
static void add_draft(struct tr_record *run, struct tr_record *draft)
{
    if (run->arguments == 0) {
        run->argument = draft->argument;
        run->arguments = draft->arguments;
    } else {
        tr_record_drop_arguments(draft);
    }
    for (int f = 0; f < TR_FACTS; f++)
        if (isnan(run->fact[f]))
            run->fact[f] = draft->fact[f];
    if (!run->gpu)
        run->gpu = draft->gpu;
    run->recompute |= draft->recompute;
    run->saves += draft->saves;
    run->evaluations += draft->evaluations;
    if (!isnan(draft->validation))
        run->validation = draft->validation;
}

/* Now that enough is known: which run does the start belong to?  `iteration`: of its first line, or 0. */
static void place(struct tr_reader *r, int64_t iteration)
{
    struct tr_record *run;

    if (r->placed)
        return;
    if (goes_on(r, iteration))
        add_draft(&r->out->list[r->out->count - 1], &r->draft);
    else
        new_run(r);
    r->draft.argument = NULL; /* the run's now */
    r->draft.arguments = 0;
    run = &r->out->list[r->out->count - 1];
    run->start = tr_grow(run->start, run->starts, sizeof *run->start);
    run->start[run->starts++] = r->begun;
    r->placed = true;
}

/* A start that came to no iteration is one all the same: it failed. */
static void finish(struct tr_reader *r)
{
    if (r->open && (r->saw_world || r->saw_arguments))
        place(r, 0);
    r->open = r->placed = r->says_same = r->saw_start = r->saw_world = r->saw_arguments = false;
    r->in_arguments = r->interrupted = false;
    r->view = TR_VIEW_NONE;
}

void tr_reader_begin(struct tr_reader *r)
{
    finish(r);
    clear_draft(r);
    r->open = true;
}

/* Iterations between two lines, as far as can be seen. */
static int64_t interval(const struct tr_record *run)
{
    if (run->fact[TR_FACT_LOG_INTERVAL] >= 1.0)
        return (int64_t)run->fact[TR_FACT_LOG_INTERVAL];
    if (run->rows < 2)
        return 1;
    return run->row[run->rows - 1].iteration - run->row[run->rows - 2].iteration;
}

/* The first row of a start: what earlier starts did beyond the checkpoint that it began from is
 * lost. */
static void go_back(struct tr_reader *r, int64_t iteration)
{
    struct tr_record *run = tr_reader_record(r);
    struct tr_start *start = tr_reader_start(r);
    int64_t reached = run->rows > 0 ? run->row[run->rows - 1].iteration : 0;
    int64_t step = interval(run);

    if (start->resumed < 0 || start->resumed >= iteration)
        start->resumed = iteration > step ? iteration - step : 0;
    start->lost = reached > start->resumed ? reached - start->resumed : 0;
    run->lost += start->lost;
    while (run->rows > 0 && run->row[run->rows - 1].iteration > start->resumed) {
        run->start[run->row[run->rows - 1].start].again += tr_allocation_row(run, run->rows - 1);
        run->timings = run->row[--run->rows].first_timing;
    }
}

static bool same_number(double x, double y)
{
    return !(x < y) && !(x > y) && isnan(x) == isnan(y);
}

/* A line at or before the last one of this start: the same once more, or a start without a header?
 */
static bool is_twice(struct tr_reader *r, const struct tr_row *row)
{
    const struct tr_row *last = tr_reader_last_row(r);

    if (!last || row->iteration > last->iteration)
        return false;
    if (row->iteration == last->iteration &&
        same_number(row->field[TR_FIELD_ELAPSED], last->field[TR_FIELD_ELAPSED]) &&
        same_number(row->field[TR_FIELD_LOSS], last->field[TR_FIELD_LOSS]))
        return true;
    tr_reader_begin(r);
    return false;
}

void tr_reader_row(struct tr_reader *r, const struct tr_row *row)
{
    struct tr_record *run;
    struct tr_start *start;

    if (!r->open)
        tr_reader_begin(r);
    if (is_twice(r, row)) {
        tr_reader_odd(r, TR_ODDITY_TWICE);
        return;
    }
    place(r, row->iteration);
    start = tr_reader_start(r);
    run = tr_reader_record(r);
    if (start->first == 0) {
        go_back(r, row->iteration);
        start->first = row->iteration;
    }
    start->last = row->iteration;
    start->end = TR_END_UNKNOWN; /* it went on */
    run->row = tr_grow(run->row, run->rows, sizeof *run->row);
    run->row[run->rows] = *row;
    run->row[run->rows].start = run->starts - 1;
    run->row[run->rows].interrupted = r->interrupted;
    run->row[run->rows++].first_timing = run->timings;
    run->lines++;
    r->interrupted = false;
    r->view = TR_VIEW_NONE;
}

/* Megatron Core's line after the first iteration of a start ends no interval. */
static void mark_extra(struct tr_record *run)
{
    int64_t step = interval(run);

    for (int64_t i = 0; i + 1 < run->rows; i++) {
        struct tr_row *row = &run->row[i];

        row->extra = run->layout == TR_LAYOUT_CORE && step > 1 && row->iteration % step != 0 &&
                     run->start[row->start].first == row->iteration &&
                     run->row[i + 1].start == row->start;
    }
}

/* ---- lines ---- */

static bool is_text(int c)
{
    return c >= ' ' || c == '\t' || c == '\b' || c == '\f' || c == '\v' || c == '\a' || c == 033;
}

/* Progress is shown after this many bytes. */
enum { SHOW_BYTES = 1 << 16 };

/* The next line into r->line; false at the end.  A carriage return ends a line too, for progress
   bars paint over what stands before it. */
static bool next_line(struct tr_reader *r, FILE *f, bool *counts)
{
    size_t length = 0;
    bool binary = false, any = false, too_long = false;
    int c;

    while ((c = getc(f)) != EOF && c != '\n' && c != '\r') {
        any = true;
        r->unshown++;
        binary |= !is_text(c);
        if (length < TR_LINE_BYTES)
            r->line[length++] = is_text(c) ? (char)c : '?';
        else
            too_long = true;
    }
    r->line[length] = '\0';
    r->whole = c != EOF;
    r->unshown++;
    if (!any && !r->whole)
        return false;
    r->number += *counts;
    *counts = c == '\n';
    if (binary)
        tr_reader_odd(r, TR_ODDITY_BINARY);
    if (too_long)
        tr_reader_odd(r, TR_ODDITY_LONG);
    return true;
}

/* Bytes of a file; -1 of what is none, as a pipe or memory. */
static int64_t bytes_of(FILE *f)
{
    struct stat st;
    int fd = fileno(f);

    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) ? (int64_t)st.st_size : -1;
}

static enum tr_status read_lines(struct tr_reader *r, FILE *f)
{
    bool counts = true;

    tr_meter_start(&r->meter, "read", bytes_of(f), TR_METER_INTERVAL);
    errno = 0;
    while (next_line(r, f, &counts)) {
        tr_reader_line(r);
        if (r->unshown >= SHOW_BYTES) {
            tr_meter_add(&r->meter, r->unshown);
            r->unshown = 0;
        }
    }
    (void)tr_meter_end(&r->meter);
    if (ferror(f))
        return TR_FAIL(TR_EIO, "%s cannot be read beyond line %" PRId64 ": %s", r->name, r->number,
                       strerror(errno));
    return TR_OK;
}

enum tr_status tr_log_read_stream(FILE *f, const char *name, enum tr_log_join join,
                                  struct tr_records *out)
{
    struct tr_reader r = {.out = out, .name = name, .first_run = out->count};
    int64_t lines = 0;
    enum tr_status s;

    r.may_go_on = join == TR_LOG_GOES_ON;
    for (int i = 0; i < out->count; i++)
        lines -= out->list[i].starts;
    r.line = malloc(TR_LINE_BYTES + 1);
    if (!r.line)
        tr_die(TR_ERESOURCE, "no memory left for a line of the log");
    s = read_lines(&r, f);
    finish(&r);
    free(r.line);
    for (int i = 0; i < out->count; i++) {
        lines += out->list[i].starts;
        mark_extra(&out->list[i]);
    }
    if (s == TR_OK && lines == 0)
        return TR_FAIL(TR_EDATA,
                       "no line of %s (%" PRId64
                       " read) is an iteration line or the header of a run; "
                       "give the output of training by trireme, Megatron-LM or Megatron-DeepSpeed",
                       name, r.number);
    return s;
}

enum tr_status tr_log_read(const char *path, enum tr_log_join join, struct tr_records *out)
{
    enum tr_status s;
    FILE *f;

    if (strcmp(path, "-") == 0)
        return tr_log_read_stream(stdin, "standard input", join, out);
    f = fopen(path, "re");
    if (!f)
        return TR_FAIL(TR_EIO, "cannot open the log %s: %s", path, strerror(errno));
    s = tr_log_read_stream(f, path, join, out);
    fclose(f);
    return s;
}
