/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_REPORT_FLIGHT_H
#define TR_REPORT_FLIGHT_H

#include <stdint.h>

#include "comm/flight.h"
#include "report/table.h"
#include "util/status.h"

/*
 * Flight records of all ranks of a run that hung or crashed (comm/flight.h), aligned by group and number, and which
 * rank held up the others.
 */
enum { TR_FLIGHT_NAME_BYTES = 64 };

/* A call of a record.  Times are seconds since 1970, by the clock of the rank's host. */
struct tr_flight_row {
    char group[TR_FLIGHT_NAME_BYTES];
    uint64_t id;               /* of the group, the same on all its ranks */
    struct tr_members members; /* of the group; block 0 where they are not regular */
    int64_t seq, bytes;
    enum tr_flight_kind kind;
    int peer;                         /* of a message; else -1 */
    double begun, ended;              /* NAN: it has not */
    char phase[TR_FLIGHT_NAME_BYTES]; /* the timer that ran, or "" */
    int64_t micro, chunk;             /* -1: of none */
};

struct tr_flight_record {
    enum { TR_FLIGHT_MISSING, TR_FLIGHT_REFUSED, TR_FLIGHT_READ } state;
    char host[TR_HOST_BYTES]; /* "" where no record says it */
    enum tr_flight_cause cause;
    double written;
    struct tr_flight_row *row; /* owned, the oldest first */
    int rows;                  /* 0 unless it was read */
};

struct tr_flight_set {
    int ranks;
    struct tr_flight_record *record; /* [ranks], owned */
    char *folder;                    /* of the files, owned */
    int refused;                     /* files that are no records; each was said in a warning, */
    char *first;                     /*   the first is this one, owned */
    int older; /* starts whose records are in the folder, too, and were not read */
};

/*
 * The records in `folder`, or, where that is the folder of a run or a log, those of its newest start that left some.
 * TR_EDATA if there are none, or none that is one.  Release it in any case.
 */
enum tr_status tr_flight_set_read(const char *folder, struct tr_flight_set *out) TR_MUST_CHECK;
void tr_flight_set_release(struct tr_flight_set *f);

/* One file, whose name is in sentences: `bytes` of text.  *rank, *ranks and *out are set on success; `hosts` may become a
   list of as many hosts as there are ranks, owned by the caller.  TR_EDATA with what is wrong. */
struct tr_flight_file {
    int rank, ranks;
    struct tr_flight_record record;
    char (*host)[TR_HOST_BYTES]; /* [ranks] or NULL */
};
enum tr_status tr_flight_parse(const char *name, const char *text, size_t bytes,
                               struct tr_flight_file *out) TR_MUST_CHECK;

/*
 * Why a rank is named, the first that applies:
 *
 *   DISAGREES  at one number of a group its call has another kind or size than that of most others
 *   NO_RECORD  it left no record (or one that cannot be read), and others wait for it, or may
 *   SILENT     it did not answer when all were asked where they are: it wrote its record only when a signal ended it, or more
 *              than three seconds after the first (comm/watch.c)
 *   BEHIND     others wait in a call that it did not begin, and it waits for nobody who is named
 *   LATE       it did begin the call, but more than a second after another rank that waits there
 *   CIRCLE     all that are behind wait for one another: one of several
 */
enum tr_flight_why {
    TR_FLIGHT_DISAGREES,
    TR_FLIGHT_NO_RECORD,
    TR_FLIGHT_SILENT,
    TR_FLIGHT_BEHIND,
    TR_FLIGHT_LATE,
    TR_FLIGHT_CIRCLE,
    TR_FLIGHT_INNOCENT
};

struct tr_flight_verdict {
    int rank;
    enum tr_flight_why why;
    const struct tr_flight_row
        *expected; /* what another rank has at that number; NULL: nobody is seen to wait for it */
    const struct tr_flight_row
        *own;        /* what it has there, or its last call in that group; NULL: none */
    int by, waiting; /* a rank that has `expected`, and how many wait in it */
};

/* The ranks to name, those of the first reason first; *out is owned by the caller and borrows rows of `f`.  How many. */
int tr_flight_set_align(const struct tr_flight_set *f, struct tr_flight_verdict **out);

/* Two tables, to be released: who is named, with a sentence for each as notes, and the calls that have not ended. */
enum { TR_FLIGHT_TABLES = 2 };
void tr_flight_set_show(const struct tr_flight_set *f, struct tr_table t[TR_FLIGHT_TABLES]);

#endif
