/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/text.h"

#include <string.h>

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
