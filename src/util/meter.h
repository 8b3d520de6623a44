/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_METER_H
#define TR_UTIL_METER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * How far a long job is, on stderr:
 *
 *     trireme: built 41%, 2:41 left, 1.20 GB of 2.90 GB, 10.5 MB/s, 2.91M tokens/s, 310 docs/s
 *
 * On a terminal one line is written over, ten times a second at most, cut to the width of the
 * terminal, and wiped at the end.  Elsewhere (a log file) a line is added every `interval` seconds.
 * Jobs that end sooner show nothing.
 */
struct tr_meter {
    const char *verb;    /* "built", borrowed */
    int64_t total_bytes; /* or -1: unknown, then there is no percentage and no time left */
    double interval, started, shown;
    bool terminal, drawn;
};

/* What is done so far; documents and tokens are left out of the line while they are -1. */
struct tr_done {
    int64_t bytes, documents, tokens;
};

/* The clock starts now.  `interval` is in seconds, above 0. */
void tr_meter_start(struct tr_meter *p, const char *verb, int64_t total_bytes, double interval);

/* Cheap; call it as often as you like. */
void tr_meter_show(struct tr_meter *p, const struct tr_done *done);

/* Wipe the line, before anything else is printed.  Returns the seconds since the start. */
double tr_meter_end(struct tr_meter *p);

/* A count for people, three significant digits and powers of 1000: "7", "45.6k", "1.23M"; and bytes:
   "7 B", "1.23 MB".  `buf` has room for TR_HUMAN bytes, and is what they return. */
enum { TR_HUMAN = 24 };
const char *tr_human(double count, char *buf);
const char *tr_human_bytes(double bytes, char *buf);

#endif
