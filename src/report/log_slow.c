/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/reader.h"
#include "report/scan.h"
#include "util/text.h"

/* Behind `text`, not far from `s`; NULL if it is not there. */
static const char *behind(const char *s, const char *text)
{
    const char *at = memmem(s, strnlen(s, TR_FIELD_BYTES), text, strlen(text));

    return at ? at + strlen(text) : NULL;
}

void tr_reader_slow(struct tr_reader *r, const char *at)
{
    static const char before[] = ": computes ";
    const char *s = at + strlen("slow rank "), *where, *end;
    struct tr_slow_line line = {.percent = NAN};
    struct tr_record *run = tr_reader_record(r);

    if (!r->placed || !tr_scan_count(&s, &line.rank) || !tr_scan_text(&s, " on "))
        return;
    where = s;
    end = behind(where, before);
    if (!end)
        return;
    snprintf(line.where, sizeof line.where, "%.*s", (int)(end - where) - (int)strlen(before),
             where);
    tr_printable(line.where);
    s = end;
    if (tr_scan_number(&s, &line.percent) && !tr_scan_text(&s, " % longer"))
        return;
    s = behind(s, "at iteration ");
    if (!s || !tr_scan_count(&s, &line.iteration))
        return;
    r->stopped = s;
    run->slow = tr_grow(run->slow, run->slows, sizeof *run->slow);
    run->slow[run->slows++] = line;
}
