/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_TEXT_H
#define TR_UTIL_TEXT_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

/* What stands behind the name of n things: "" for 1, else "s". */
const char *tr_plural(int64_t n);

bool tr_text_begins(const char *text, const char *with);

/* `list` with `word` behind it, and `between` before that unless it is the first one: a list that grows
   from NULL.  Takes the list over; what it returns is owned by the caller. */
char *tr_text_join(char *list, const char *between, const char *word);

/* Bytes in the unit that fits, with a decimal above bytes: 0 B, 1023 B, 1.0 KiB, 23.4 GiB.  Returns
   `text`. */
enum { TR_TEXT_BYTES = 32 };
const char *tr_text_bytes(double bytes, char text[TR_TEXT_BYTES]);

/* A duration for people; less than 0 counts as 0, and what is not a number too.  Returns `text`.
       TR_DURATION_UNITS  "45 s", "3 min 51 s", "3 h 12 min", "2 d 3 h": rounded to what is shown
       TR_DURATION_CLOCK  "0:45", "3:51", "3:12:05": rounded to seconds
       TR_DURATION_WORDS  "1.5 seconds", "90 seconds", "10 minutes": with three digits, as limits are given */
enum tr_duration { TR_DURATION_UNITS, TR_DURATION_CLOCK, TR_DURATION_WORDS };
enum { TR_DURATION_BYTES = 48 };
const char *tr_text_duration(enum tr_duration form, double seconds, char text[TR_DURATION_BYTES]);

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
