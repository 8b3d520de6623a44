/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/meter.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/file.h"
#include "util/text.h"

enum { LINE = 256 };

static const char *human(double x, const char *between, const char *unit, char *buf)
{
    static const char *const powers[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t power = 0;

    /* 999.5 would be rounded to four digits. */
    while (x >= 999.5 && power + 1 < sizeof powers / sizeof *powers) {
        x /= 1000;
        power++;
    }
    snprintf(buf, TR_HUMAN, "%.*f%s%s%s",
             power == 0 || x >= 99.95 ? 0
             : x >= 9.995             ? 1
                                      : 2,
             x, between, powers[power], unit);
    return buf;
}

const char *tr_human(double count, char *buf)
{
    return human(count, "", "", buf);
}

const char *tr_human_bytes(double bytes, char *buf)
{
    return human(bytes, " ", "B", buf);
}

/* Append to a line that has room; what does not fit is cut. */
static void add(char line[LINE], const char *text)
{
    size_t used = strlen(line);

    snprintf(line + used, LINE - used, "%s", text);
}

static void add_rate(char line[LINE], int64_t count, double seconds, const char *of)
{
    char number[TR_HUMAN], text[64];

    if (count < 0)
        return;
    snprintf(text, sizeof text, ", %s %s/s", tr_human((double)count / seconds, number), of);
    add(line, text);
}

static void add_time_left(char line[LINE], double seconds)
{
    char text[TR_DURATION_BYTES];

    add(line, tr_text_duration(TR_DURATION_CLOCK, seconds, text));
    add(line, " left, ");
}

/* In the unit of the meter, which stands at the end or is left out. */
static void add_amount(const struct tr_meter *p, char line[LINE], double x, bool with_unit)
{
    char number[TR_HUMAN];

    add(line, p->unit ? tr_human(x, number) : tr_human_bytes(x, number));
    if (p->unit && with_unit) {
        add(line, " ");
        add(line, p->unit);
    }
}

/* Few units in a second have digits behind the point. */
static void add_speed(const struct tr_meter *p, char line[LINE], double x)
{
    char text[64];

    add(line, ", ");
    if (p->unit && x < 99.5) {
        snprintf(text, sizeof text, "%.2g ", x);
        add(line, text);
        add(line, p->unit);
    } else {
        add_amount(p, line, x, true);
    }
    add(line, "/s");
}

static void describe(const struct tr_meter *p, const struct tr_done *done, double seconds,
                     char line[LINE])
{
    char text[64];
    double count = (double)done->bytes, total = (double)p->total;
    bool known = p->total > 0 && done->bytes <= p->total;

    snprintf(line, LINE, "trireme: %s ", p->verb);
    if (known) {
        snprintf(text, sizeof text, "%.0f%%, ", 100 * count / total);
        add(line, text);
    }
    if (known && done->bytes > 0)
        add_time_left(line, seconds * (total - count) / count);
    add_amount(p, line, count, !known);
    if (known) {
        add(line, " of ");
        add_amount(p, line, total, true);
    }
    add_speed(p, line, count / seconds);
    add_rate(line, done->tokens, seconds, "tokens");
    add_rate(line, done->documents, seconds, "docs");
}

/* What is wider than the terminal would wrap, and could not be written over. */
static void cut_to_terminal(char line[LINE])
{
    struct winsize size;

    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && size.ws_col < LINE)
        line[size.ws_col - 1] = '\0';
}

/* Progress that cannot be written is not worth an error. */
static void emit(const char *text)
{
    if (tr_write_all(STDERR_FILENO, text, strlen(text)) != 0)
        return;
}

void tr_meter_start(struct tr_meter *p, const char *verb, int64_t total_bytes, double interval)
{
    memset(p, 0, sizeof *p);
    p->verb = verb;
    p->total = total_bytes;
    p->terminal = isatty(STDERR_FILENO) == 1;
    p->interval = p->terminal ? 0.1 : interval;
    p->quiet = p->interval < TR_METER_QUIET && !p->terminal ? p->interval : TR_METER_QUIET;
    tr_meter_set_clock(p, tr_now);
}

void tr_meter_start_count(struct tr_meter *p, const char *verb, const char *unit, int64_t total)
{
    tr_meter_start(p, verb, total, TR_METER_INTERVAL);
    p->unit = unit;
}

void tr_meter_set_clock(struct tr_meter *p, double (*clock)(void))
{
    p->clock = clock;
    p->started = clock();
    p->shown = p->started - p->interval;
}

void tr_meter_show(struct tr_meter *p, const struct tr_done *done)
{
    char line[LINE], whole[LINE + 16];
    double now = p->clock();

    if (now - p->started < p->quiet || now - p->shown < p->interval)
        return;
    p->shown = now;
    describe(p, done, now - p->started, line);
    if (p->terminal)
        cut_to_terminal(line);
    /* Erase to the end of the line: this one may be shorter than the one before. */
    if (p->terminal)
        snprintf(whole, sizeof whole, "\r%s\033[K", line);
    else
        snprintf(whole, sizeof whole, "%s\n", line);
    emit(whole);
    p->drawn = p->terminal;
}

void tr_meter_add(struct tr_meter *p, int64_t count)
{
    if (!p)
        return;
    p->done += count;
    tr_meter_show(p, &(struct tr_done){p->done, -1, -1});
}

double tr_meter_end(struct tr_meter *p)
{
    if (p->drawn)
        emit("\r\033[K");
    p->drawn = false;
    return p->clock() - p->started;
}
