/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/file.h"

const char *tr_plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

bool tr_text_begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

char *tr_text_join(char *list, const char *between, const char *word)
{
    char *longer = list ? tr_format("%s%s%s", list, between, word) : tr_format("%s", word);

    free(list);
    return longer;
}

const char *tr_text_bytes(double bytes, char text[TR_TEXT_BYTES])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    size_t unit = 0;

    /* 1023.95 would be printed as 1024.0. */
    while (bytes >= (unit == 0 ? 1023.5 : 1023.95) && unit + 1 < sizeof units / sizeof units[0]) {
        bytes /= 1024.0;
        unit++;
    }
    snprintf(text, TR_TEXT_BYTES, "%.*f %s", unit > 0, bytes, units[unit]);
    return text;
}

static void put_units(int64_t s, char text[TR_DURATION_BYTES])
{
    const int64_t minutes = (s + 30) / 60;

    if (s < 60)
        snprintf(text, TR_DURATION_BYTES, "%" PRId64 " s", s);
    else if (s < 3600 - 30)
        snprintf(text, TR_DURATION_BYTES, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
    else if (minutes < 48 * 60)
        snprintf(text, TR_DURATION_BYTES, "%" PRId64 " h %" PRId64 " min", minutes / 60,
                 minutes % 60);
    else
        snprintf(text, TR_DURATION_BYTES, "%" PRId64 " d %" PRId64 " h", minutes / 1440,
                 minutes % 1440 / 60);
}

static void put_clock(int64_t s, char text[TR_DURATION_BYTES])
{
    const int64_t hours = s / 3600, minutes = s / 60 % 60;

    if (hours > 0)
        snprintf(text, TR_DURATION_BYTES, "%" PRId64 ":%02" PRId64 ":%02" PRId64, hours, minutes,
                 s % 60);
    else
        snprintf(text, TR_DURATION_BYTES, "%" PRId64 ":%02" PRId64, minutes, s % 60);
}

static void put_words(double seconds, char text[TR_DURATION_BYTES])
{
    const bool minutes = seconds >= 120.0;

    snprintf(text, TR_DURATION_BYTES, "%.3g %s", minutes ? seconds / 60.0 : seconds,
             minutes ? "minutes" : "seconds");
}

const char *tr_text_duration(enum tr_duration form, double seconds, char text[TR_DURATION_BYTES])
{
    const double clamped = fmin(fmax(seconds, 0.0), 1e15);
    const int64_t whole = (int64_t)round(clamped);

    if (form == TR_DURATION_UNITS)
        put_units(whole, text);
    else if (form == TR_DURATION_CLOCK)
        put_clock(whole, text);
    else
        put_words(clamped, text);
    return text;
}

static const char *put(const struct tm *t, const char *form, char text[TR_TIME_BYTES])
{
    if (!t || strftime(text, TR_TIME_BYTES, form, t) == 0)
        text[0] = '\0';
    return text;
}

const char *tr_time_local(time_t when, char text[TR_TIME_BYTES])
{
    struct tm t;

    return put(localtime_r(&when, &t), "%Y-%m-%d %H:%M:%S", text);
}

const char *tr_time_utc(time_t when, char text[TR_TIME_BYTES])
{
    struct tm t;

    return put(gmtime_r(&when, &t), "%Y-%m-%dT%H:%M:%S", text);
}

/* Bytes of the UTF-8 character that begins there, if it may be shown; else 0.  U+0080 to U+009F are
   control characters, too. */
static int shown_bytes(const unsigned char *c)
{
    const int more = c[0] >= 0xf0 ? 3 : c[0] >= 0xe0 ? 2 : c[0] >= 0xc2 ? 1 : 0;

    if (c[0] < 0x80)
        return c[0] >= ' ' && c[0] != 0x7f;
    if (more == 0 || c[0] > 0xf4)
        return 0;
    for (int i = 1; i <= more; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    /* Nor what could be said in fewer bytes. */
    if ((c[0] == 0xc2 && c[1] < 0xa0) || (c[0] == 0xe0 && c[1] < 0xa0) ||
        (c[0] == 0xf0 && c[1] < 0x90))
        return 0;
    return more + 1;
}

char *tr_printable(char *text)
{
    for (unsigned char *c = (unsigned char *)text; *c;) {
        int n = shown_bytes(c);

        if (n == 0)
            *c = strchr("\t\n\v\f\r", *c) ? ' ' : '?';
        c += n > 0 ? n : 1;
    }
    return text;
}
