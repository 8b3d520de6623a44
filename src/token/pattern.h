/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_PATTERN_H
#define TR_TOKEN_PATTERN_H

#include <stddef.h>

#include "util/status.h"

/*
 * Regular expressions of tokenizers, which are written for Oniguruma in Ruby's syntax, by means of
 * PCRE2.  Where the two differ, the expression is rewritten: white space is Unicode's property
 * White_Space (PCRE2 adds U+180E), letters and numbers are those of unicode.def, so that a text is split
 * alike whatever version of Unicode PCRE2 has, \w has marks and connectors, \p{Han} is
 * the script and not what it shares, \h is a hexadecimal digit,
 * \v is U+000B, (?m) lets the dot match line feeds, X{n,m}+ repeats X{n,m}, X{n}? is a choice, X{,n}
 * begins at 0, ^ and $ are bounds of lines.
 */
struct tr_pattern;

/* TR_EDATA for what cannot be compiled, or is not supported: back references, subroutines, absent
   expressions, intersections of classes, classes within classes, \b and \K.  `where` begins the sentence. */
enum tr_status tr_pattern_open(const char *where, const char *expression,
                               struct tr_pattern **out) TR_MUST_CHECK;
void tr_pattern_close(struct tr_pattern *p);

/* What a thread needs to match. */
struct tr_match;
struct tr_match *tr_match_open(void);
void tr_match_close(struct tr_match *m);

/*
 * The first match in text[0 .. bytes), which is UTF-8, at or behind `from`: 1 with its bounds, 0 if there
 * is none, -1 if it takes more work than PCRE2 was allowed.  Several threads may match at once.
 */
int tr_pattern_find(const struct tr_pattern *p, struct tr_match *m, const unsigned char *text,
                    size_t bytes, size_t from, size_t *begin, size_t *end);

#endif
