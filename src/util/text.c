/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/text.h"

const char *tr_plural(int64_t n)
{
    return n == 1 ? "" : "s";
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
