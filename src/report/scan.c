/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/scan.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

void tr_scan_blanks(const char **s)
{
    while (**s == ' ' || **s == '\t')
        (*s)++;
}

bool tr_scan_text(const char **s, const char *text)
{
    size_t n = strlen(text);

    if (strncmp(*s, text, n) != 0)
        return false;
    *s += n;
    return true;
}

bool tr_scan_number(const char **s, double *x)
{
    char *end;

    tr_scan_blanks(s);
    if (!isdigit((unsigned char)**s) && **s != '-' && **s != '+' && **s != '.' && **s != 'n' &&
        **s != 'N' && **s != 'i' && **s != 'I')
        return false;
    *x = strtod(*s, &end);
    if (end == *s || isalnum((unsigned char)*end) || *end == '.')
        return false;
    *s = end;
    return true;
}

bool tr_scan_count(const char **s, int64_t *x)
{
    double real;

    tr_scan_blanks(s);
    if (!isdigit((unsigned char)**s) || !tr_scan_number(s, &real) || !(real < 0x1p53))
        return false;
    *x = (int64_t)real;
    return true;
}

bool tr_scan_field(const char **s, struct tr_scan_field *f)
{
    const char *colon, *p;
    size_t n;

    tr_scan_blanks(s);
    n = strnlen(*s, TR_FIELD_BYTES);
    colon = memchr(*s, ':', n);
    if (!colon || colon == *s || memchr(*s, '|', (size_t)(colon - *s)))
        return false;
    f->name = *s;
    f->length = (size_t)(colon - *s);
    p = colon + 1;
    f->good = tr_scan_number(&p, &f->value);
    f->torn = *p == '\0';
    if (!f->good) {
        p = memchr(colon, '|', strnlen(colon, TR_FIELD_BYTES));
        f->torn = !p;
        if (!p || memmem(colon, (size_t)(p - colon), "iteration ", 10))
            p = colon + 1; /* of another line, glued */
    }
    tr_scan_blanks(&p);
    f->last = *p != '|';
    *s = f->last ? p : p + 1;
    return true;
}

bool tr_field_is(const struct tr_scan_field *f, const char *name)
{
    return strlen(name) == f->length && memcmp(name, f->name, f->length) == 0;
}
