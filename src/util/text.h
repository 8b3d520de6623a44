/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_TEXT_H
#define TR_UTIL_TEXT_H

#include <stdint.h>
#include <time.h>

/* What stands behind the name of n things: "" for 1, else "s". */
const char *tr_plural(int64_t n);

enum { TR_TIME_BYTES = 64 };

/* A moment as people read it, in the time zone of this process: 2026-11-20 14:19:03; and as programs
   do, in UTC and with no zone behind it: 2026-11-20T14:19:03.  Both return `text`, which is empty
   where no calendar has the moment. */
const char *tr_time_local(time_t when, char text[TR_TIME_BYTES]);
const char *tr_time_utc(time_t when, char text[TR_TIME_BYTES]);

/* Text of a file, made fit for a terminal in place: what ends a line or moves along it becomes a blank;
   other control characters, which a terminal obeys, and bytes that are no UTF-8 become question marks.
   Returns `text`. */
char *tr_printable(char *text);

#endif
