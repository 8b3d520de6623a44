/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/categories.h"

#include <ctype.h>
#include <stddef.h>

#include <utf8proc.h>

struct range {
    uint32_t first, last;
    int version; /* that the characters came with, or a later one */
};
static const struct range ranges[] = {
#define NINE(first, last) {first, last, 9},
#define NEWER(first, last) {first, last, 10},
#include "token/newer.def"
#undef NINE
#undef NEWER
};

/* Whether it is newer than this version, 8 or 9. */
static bool after(uint32_t c, int version)
{
    size_t low = 0, high = sizeof ranges / sizeof *ranges;

    if (c < ranges[0].first)
        return false;
    while (high - low > 1) {
        const size_t middle = (low + high) / 2;

        if (ranges[middle].first <= c)
            low = middle;
        else
            high = middle;
    }
    return c <= ranges[low].last && ranges[low].version > version;
}

static bool is_between(uint32_t c, utf8proc_category_t first, utf8proc_category_t last)
{
    const utf8proc_category_t is = utf8proc_category((utf8proc_int32_t)c);

    return is >= first && is <= last;
}

bool tr_is_newer(uint32_t c)
{
    return after(c, 9);
}

bool tr_is_mark(uint32_t c)
{
    if (c == 0x1cf2 || c == 0x1cf3)
        return true;
    return c != 0x111c9 && is_between(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME) &&
           !after(c, 9);
}

bool tr_is_nonspacing_mark(uint32_t c)
{
    if (c == 0x1734)
        return true;
    return c != 0x1885 && c != 0x1886 && c != 0xa9bd && c != 0x111c9 &&
           is_between(c, UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_MN) && !after(c, 8);
}

bool tr_is_format_or_private(uint32_t c)
{
    return is_between(c, UTF8PROC_CATEGORY_CO, UTF8PROC_CATEGORY_CO) ||
           (is_between(c, UTF8PROC_CATEGORY_CF, UTF8PROC_CATEGORY_CF) && !after(c, 8));
}

bool tr_is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return ispunct((int)c);
    if (c == 0x166d || c == 0x111c9)
        return true;
    return is_between(c, UTF8PROC_CATEGORY_PC, UTF8PROC_CATEGORY_PO) && !after(c, 8);
}
