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
 * or, where something else than bytes is counted,
 *
 *     trireme: building index maps: 41%, 0:12 left, 1.20G of 2.90G entries, 140M entries/s
 *
 * On a terminal one line is written over, ten times a second at most, cut to the width of the
 * terminal, and wiped at the end.  Elsewhere (a log file) a line is added every `interval` seconds.
 * The first one comes after TR_METER_QUIET seconds, in a log file after `interval` if that is less:
 * jobs that end sooner show nothing.  Of several ranks only one may have a meter.
 */
struct tr_meter {
    const char *verb; /* "built", borrowed; may be changed on the way */
    const char *unit; /* what is counted, "entries", borrowed; NULL: bytes */
    int64_t total;    /* or -1: unknown, then there is no percentage and no time left */
    int64_t done;     /* of tr_meter_add() */
    double quiet, interval, started, shown;
    double (*clock)(void);
    bool terminal, drawn;
};

/* Seconds before the first line, and between lines in a log file where no option says otherwise. */
#define TR_METER_QUIET 5.0
#define TR_METER_INTERVAL 10.0

/* What is done so far, `bytes` in the unit of the meter; documents and tokens are left out of the
   line while they are -1. */
struct tr_done {
    int64_t bytes, documents, tokens;
};

/* The clock starts now.  `interval` is in seconds, above 0. */
void tr_meter_start(struct tr_meter *p, const char *verb, int64_t total_bytes, double interval);

/* The same for what is counted in `unit`, a line every TR_METER_INTERVAL seconds. */
void tr_meter_start_count(struct tr_meter *p, const char *verb, const char *unit, int64_t total);

/* The clock starts now and is this one, as seconds: for tests. */
void tr_meter_set_clock(struct tr_meter *p, double (*clock)(void));

/* Cheap; call it as often as you like. */
void tr_meter_show(struct tr_meter *p, const struct tr_done *done);

/* `count` more bytes or units are done, and show it.  With `p` NULL, as on ranks that show nothing,
   it does nothing. */
void tr_meter_add(struct tr_meter *p, int64_t count);

/* Wipe the line, before anything else is printed.  Returns the seconds since the start. */
double tr_meter_end(struct tr_meter *p);

/* A count for people, three significant digits and powers of 1000: "7", "45.6k", "1.23M"; and bytes:
   "7 B", "1.23 MB".  `buf` has room for TR_HUMAN bytes, and is what they return. */
enum { TR_HUMAN = 24 };
const char *tr_human(double count, char *buf);
const char *tr_human_bytes(double bytes, char *buf);

#endif
