/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/flight_align.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/text.h"

static const char *const reasons[] = {
    [TR_FLIGHT_DISAGREES] = "disagrees", [TR_FLIGHT_NO_RECORD] = "no record",
    [TR_FLIGHT_SILENT] = "silent",       [TR_FLIGHT_BEHIND] = "behind",
    [TR_FLIGHT_LATE] = "late",           [TR_FLIGHT_CIRCLE] = "circle",
    [TR_FLIGHT_INNOCENT] = "none",
};

static const struct tr_column verdict_columns[] = {
    {"rank", "rank"},   {"host", "host"}, {"why", "why"},
    {"group", "group"}, {"call", "call"}, {"kind", "kind"},
};
static const struct tr_column pending_columns[] = {
    {"rank", "rank"},    {"host", "host"},
    {"group", "group"},  {"call", "call"},
    {"kind", "kind"},    {"bytes", "bytes"},
    {"peer", "peer"},    {"seconds", "since (s)"},
    {"in", "called in"}, {"micro_batch", "micro-batch"},
    {"chunk", "chunk"},
};
enum {
    VERDICT_COLUMNS = sizeof verdict_columns / sizeof verdict_columns[0],
    PENDING_COLUMNS = sizeof pending_columns / sizeof pending_columns[0]
};

enum { CALL_TEXT = 256 };

/* "the all-reduce (call 7) of 400 bytes in group "dp"" */
static const char *call_text(const struct tr_flight_row *r, char text[CALL_TEXT])
{
    char peer[48] = "";

    if (!tr_flight_is_collective(r->kind))
        snprintf(peer, sizeof peer, " %s rank %d", r->kind == TR_FLIGHT_SEND ? "to" : "from",
                 r->peer);
    snprintf(text, CALL_TEXT, "the %s%s (number %" PRId64 ") of %" PRId64 " bytes in group \"%s\"",
             tr_flight_kind_name(r->kind), peer, r->seq, r->bytes, r->group);
    return text;
}

/* ", called in backward-compute of micro-batch 3" */
static const char *where_text(const struct tr_flight_row *r, char text[CALL_TEXT])
{
    int n = snprintf(text, CALL_TEXT, "%s%s", r->phase[0] ? ", called in " : "", r->phase);

    if (r->micro >= 0 && r->phase[0])
        snprintf(text + n, (size_t)(CALL_TEXT - n), " of micro-batch %" PRId64, r->micro);
    return text;
}

static void who_text(const struct tr_flight_set *f, int rank, char text[CALL_TEXT])
{
    const char *host = f->record[rank].host;

    snprintf(text, CALL_TEXT, "rank %d%s%s", rank, host[0] ? " on " : "", host);
}

static void note_absent(const struct tr_flight_set *f, const struct tr_flight_verdict *v,
                        const char *who, struct tr_table *t)
{
    const bool refused = f->record[v->rank].state == TR_FLIGHT_REFUSED;
    char call[CALL_TEXT], where[CALL_TEXT];
    const char *what = refused
                           ? "left a record that cannot be read"
                           : "left no record: it was killed, or its node or file system is gone";

    if (v->expected)
        tr_table_note(t, "%s %s; rank %d%s waited for it in %s%s", who, what, v->by,
                      v->waiting > 1 ? " and others" : "", call_text(v->expected, call),
                      where_text(v->expected, where));
    else
        tr_table_note(t, "%s %s; nobody is seen to wait for it", who, what);
}

static void note_behind(const struct tr_flight_verdict *v, const char *who, struct tr_table *t)
{
    char call[CALL_TEXT], where[CALL_TEXT], own[CALL_TEXT], own_where[CALL_TEXT],
        last[3 * CALL_TEXT];

    snprintf(last, sizeof last, "it has no call there among its last %d", TR_FLIGHT_CALLS);
    if (v->own)
        snprintf(last, sizeof last, "its last one there is %s%s%s", call_text(v->own, own),
                 where_text(v->own, own_where), isnan(v->own->ended) ? ", not ended" : "");
    tr_table_note(t, "%s is behind%s: it did not begin %s, in which rank %d%s waited%s; %s", who,
                  v->why == TR_FLIGHT_CIRCLE ? ", as others that wait for one another" : "",
                  call_text(v->expected, call), v->by, v->waiting > 1 ? " and others" : "",
                  where_text(v->expected, where), last);
}

/* The call in which it is waited for, or else its own last one. */
static void note_silent(const struct tr_flight_set *f, const struct tr_flight_verdict *v,
                        const char *who, struct tr_table *t)
{
    const struct tr_flight_record *record = &f->record[v->rank];
    char call[CALL_TEXT], where[CALL_TEXT], rest[3 * CALL_TEXT] = "";

    if (v->expected)
        snprintf(rest, sizeof rest, "; rank %d%s waited for it in %s%s", v->by,
                 v->waiting > 1 ? " and others" : "", call_text(v->expected, call),
                 where_text(v->expected, where));
    else if (record->rows > 0)
        snprintf(rest, sizeof rest, "; its last call is %s%s",
                 call_text(&record->row[record->rows - 1], call),
                 where_text(&record->row[record->rows - 1], where));
    tr_table_note(t,
                  "%s did not answer when all ranks were asked where they are: it was stopped, or "
                  "could not run%s",
                  who, rest);
}

static void note(const struct tr_flight_set *f, const struct tr_flight_verdict *v,
                 struct tr_table *t)
{
    char who[CALL_TEXT], call[CALL_TEXT], own[CALL_TEXT], where[CALL_TEXT];

    who_text(f, v->rank, who);
    switch (v->why) {
    case TR_FLIGHT_NO_RECORD:
        note_absent(f, v, who, t);
        break;
    case TR_FLIGHT_DISAGREES:
        tr_table_note(t, "%s disagrees: it has %s%s, where rank %d has %s", who,
                      call_text(v->own, own), where_text(v->own, where), v->by,
                      call_text(v->expected, call));
        break;
    case TR_FLIGHT_SILENT:
        note_silent(f, v, who, t);
        break;
    case TR_FLIGHT_LATE:
        tr_table_note(t, "%s was late: it began %s %.1f s after rank %d%s", who,
                      call_text(v->own, own), v->own->begun - v->expected->begun, v->by,
                      where_text(v->own, where));
        break;
    default:
        note_behind(v, who, t);
    }
}

static void text_or_none(struct tr_table *t, const char *text)
{
    if (text[0])
        tr_table_text(t, "%s", text);
    else
        tr_table_none(t);
}

static void put_call(struct tr_table *t, const struct tr_flight_row *r)
{
    tr_table_text(t, "%s", r->group);
    tr_table_real(t, (double)r->seq, 0);
    tr_table_text(t, "%s", tr_flight_kind_name(r->kind));
}

static void put_verdict(const struct tr_flight_set *f, const struct tr_flight_verdict *v,
                        struct tr_table *t)
{
    tr_table_real(t, v->rank, 0);
    text_or_none(t, f->record[v->rank].host);
    tr_table_text(t, "%s", reasons[v->why]);
    if (v->expected) {
        put_call(t, v->expected);
    } else {
        for (int i = 0; i < 3; i++)
            tr_table_none(t);
    }
    note(f, v, t);
}

static bool any_pending(const struct tr_flight_set *f)
{
    for (int r = 0; r < f->ranks; r++)
        for (int i = 0; i < f->record[r].rows; i++)
            if (isnan(f->record[r].row[i].ended))
                return true;
    return false;
}

/* A row all the same, since a table without one is not shown. */
static void put_nobody(const struct tr_flight_set *f, struct tr_table *t)
{
    tr_table_none(t);
    tr_table_none(t);
    tr_table_text(t, "%s", reasons[TR_FLIGHT_INNOCENT]);
    for (int i = 0; i < 3; i++)
        tr_table_none(t);
    tr_table_note(t, "%s",
                  any_pending(f)
                      ? "no rank is behind: all that wait are in the same calls, so a link "
                        "of the network is broken, or what moves the data"
                      : "no rank was in a call that had not ended");
}

static void put_pending(const struct tr_flight_set *f, int rank, const struct tr_flight_row *r,
                        struct tr_table *t)
{
    tr_table_real(t, rank, 0);
    text_or_none(t, f->record[rank].host);
    put_call(t, r);
    tr_table_real(t, (double)r->bytes, 0);
    tr_table_real(t, r->peer >= 0 ? (double)r->peer : NAN, 0);
    tr_table_real(t, f->record[rank].written - r->begun, 3);
    text_or_none(t, r->phase);
    tr_table_real(t, r->micro >= 0 ? (double)r->micro : NAN, 0);
    tr_table_real(t, r->chunk >= 0 ? (double)r->chunk : NAN, 0);
}

static void note_of_folder(const struct tr_flight_set *f, struct tr_table *t)
{
    int read = 0;

    for (int r = 0; r < f->ranks; r++)
        read += f->record[r].state == TR_FLIGHT_READ;
    tr_table_note(t, "%d of %d ranks left a record in %s%s", read, f->ranks, f->folder,
                  f->older > 0 ? ", and earlier starts others" : "");
}

/* Ranks without a record, for which nobody waits, come last of those without one; when a job is killed they are many. */
enum { NAMED = 16 };

static bool is_one_of_many(const struct tr_flight_verdict *v, int i)
{
    return i >= NAMED && v[i].why == TR_FLIGHT_NO_RECORD && !v[i].expected;
}

static void note_many(const struct tr_flight_verdict *v, int n, struct tr_table *t)
{
    int more = 0;

    for (int i = 0; i < n; i++)
        more += is_one_of_many(v, i);
    if (more > 0)
        tr_table_note(t, "%d more ranks left no record, and nobody is seen to wait for them", more);
}

void tr_flight_set_show(const struct tr_flight_set *f, struct tr_table t[TR_FLIGHT_TABLES])
{
    struct tr_flight_verdict *v;
    const int n = tr_flight_set_align(f, &v);

    tr_table_init(&t[0], "flight", "Ranks that held up the others", verdict_columns,
                  VERDICT_COLUMNS);
    tr_table_init(&t[1], "pending", "Calls that had not ended", pending_columns, PENDING_COLUMNS);
    for (int i = 0; i < n; i++)
        if (!is_one_of_many(v, i))
            put_verdict(f, &v[i], &t[0]);
    note_many(v, n, &t[0]);
    if (n == 0)
        put_nobody(f, &t[0]);
    note_of_folder(f, &t[0]);
    for (int r = 0; r < f->ranks; r++)
        for (int i = 0; i < f->record[r].rows; i++)
            if (isnan(f->record[r].row[i].ended))
                put_pending(f, r, &f->record[r].row[i], &t[1]);
    free(v);
}
