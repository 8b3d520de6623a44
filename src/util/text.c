/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/text.h"

#include <stdio.h>

const char *tr_plural(int64_t n)
{
    return n == 1 ? "" : "s";
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
