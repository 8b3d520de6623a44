/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_SCAN_H
#define TR_REPORT_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Pieces of a line of a log.  Each function looks at *s, and moves it behind what it found if it
 * found something; the text ends in a zero byte.
 *
 * None looks further than TR_FIELD_BYTES, save to go on from there: a line of one MiB must not take
 * quadratic time.  (sscanf() would, because it measures its whole text each time.)
 */
enum { TR_FIELD_BYTES = 256 };

void tr_scan_blanks(const char **s);

/* This text? */
bool tr_scan_text(const char **s, const char *text);

/* A number, after blanks, and not the beginning of a word. */
bool tr_scan_number(const char **s, double *x);

/* A whole number from 0 to 2^53. */
bool tr_scan_count(const char **s, int64_t *x);

/* "name: number |", or without the bar when it is the last of its kind. */
struct tr_scan_field {
    const char *name; /* not ended; borrowed from the line */
    size_t length;
    double value;
    bool good; /* the value is a number */
    bool torn; /* the text ends with it, so that the number may be truncated */
    bool last; /* nothing of the same record follows */
};

bool tr_scan_field(const char **s, struct tr_scan_field *f);
bool tr_field_is(const struct tr_scan_field *f, const char *name);

#endif
