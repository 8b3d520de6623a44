/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/meter.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "util/file.h"
#include "util/clock.h"

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
    int64_t s = (int64_t)seconds;
    char text[64];

    if (s >= 3600)
        snprintf(text, sizeof text, "%lld:%02d:%02d left, ", (long long)(s / 3600),
                 (int)(s / 60 % 60), (int)(s % 60));
    else
        snprintf(text, sizeof text, "%d:%02d left, ", (int)(s / 60), (int)(s % 60));
    add(line, text);
}

static void describe(const struct tr_meter *p, const struct tr_done *done, double seconds,
                     char line[LINE])
{
    char number[TR_HUMAN], text[64];
    double bytes = (double)done->bytes, total = (double)p->total_bytes;
    bool known = p->total_bytes > 0 && done->bytes <= p->total_bytes;

    snprintf(line, LINE, "trireme: %s ", p->verb);
    if (known) {
        snprintf(text, sizeof text, "%.0f%%, ", 100 * bytes / total);
        add(line, text);
    }
    if (known && done->bytes > 0)
        add_time_left(line, seconds * (total - bytes) / bytes);
    add(line, tr_human_bytes(bytes, number));
    if (known) {
        snprintf(text, sizeof text, " of %s", tr_human_bytes(total, number));
        add(line, text);
    }
    snprintf(text, sizeof text, ", %s/s", tr_human_bytes(bytes / seconds, number));
    add(line, text);
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
    p->total_bytes = total_bytes;
    p->interval = interval;
    p->terminal = isatty(STDERR_FILENO) == 1;
    p->started = p->shown = tr_now();
}

void tr_meter_show(struct tr_meter *p, const struct tr_done *done)
{
    char line[LINE], whole[LINE + 16];
    double now = tr_now();

    if (now - p->shown < (p->terminal ? 0.1 : p->interval))
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

double tr_meter_end(struct tr_meter *p)
{
    if (p->drawn)
        emit("\r\033[K");
    p->drawn = false;
    return tr_now() - p->started;
}
