/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_READER_H
#define TR_REPORT_READER_H

#include "report/run_log.h"
#include "util/meter.h"

/* Common parts of run_log.c (lines and starts), log_line.c (a line) and log_timers.c. */

enum { TR_LINE_BYTES = 1 << 20, TR_LINE_TIMERS = 64, TR_LOG_RANKS = 1 << 16 };

/* How a table of timers that is being read shows the ranks. */
enum tr_table_view { TR_VIEW_NONE, TR_VIEW_RANGE, TR_VIEW_MAX, TR_VIEW_ALL };

struct tr_reader {
    struct tr_records *out;
    const char *name;
    int first_run;  /* of this log, in out */
    bool may_go_on; /* with a run of the log before */

    struct tr_meter meter; /* of its bytes */
    int64_t unshown;       /* read since progress was shown */

    char *line;          /* the one that is read, without its end */
    int64_t number;      /* its number */
    bool whole;          /* it has an end */
    const char *stopped; /* where what is read next begins: behind a list of fields */

    bool open, placed; /* a start is being read; it belongs to a run already */
    bool saw_start, saw_world, saw_arguments;
    bool says_same;         /* the start has a number above 1: it is not the first of its run */
    struct tr_start begun;  /* while it is not placed */
    struct tr_record draft; /* what is known of its run by then */
    bool in_arguments;
    bool interrupted; /* evaluated or saved since the last row */

    enum tr_table_view view;
    int view_timer; /* of TR_VIEW_ALL, or -1 */
    int view_ranks; /* read of it */
};

/* Count what is odd about the line. */
void tr_reader_odd(struct tr_reader *r, enum tr_oddity o);

/* A start begins with this line, and the one before ends. */
void tr_reader_begin(struct tr_reader *r);

/* The run and the start that the line belongs to; drafts until the start has been placed. */
struct tr_record *tr_reader_record(struct tr_reader *r);
struct tr_start *tr_reader_start(struct tr_reader *r);

/* Add an iteration line. */
void tr_reader_row(struct tr_reader *r, const struct tr_row *row);

/* The row that timers belong to, or NULL before the first one of the start. */
struct tr_row *tr_reader_last_row(struct tr_reader *r);

/* Read r->line. */
void tr_reader_line(struct tr_reader *r);

/* Is r->line of a table of timers that began before it?  Then read it. */
bool tr_reader_in_table(struct tr_reader *r);

/* Of --log-format terminal: an iteration line, at "  loss ", and the first line, at "training on ". */
void tr_reader_terminal(struct tr_reader *r, const char *at);
void tr_reader_terminal_start(struct tr_reader *r, const char *at);

/* A table begins at "time across ranks (ms):", "times ..." or "wait and transfer ..."; read a line
   of timers at "time (ms) |" or "wait and transfer (ms) |". */
void tr_reader_table(struct tr_reader *r, const char *at);
void tr_reader_timers(struct tr_reader *r, const char *at);

/* Of trireme: "slow rank 3 on n1: computes 20.3 % longer ... at iteration 12", and "no longer slow rank 3 on n1: ...";
   at "slow rank ". */
void tr_reader_slow(struct tr_reader *r, const char *at);

#endif
