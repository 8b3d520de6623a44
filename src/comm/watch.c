/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/watch.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm/flight.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/text.h"

/* Seconds: for ranks to answer when the hang report is collected, and a moment in which those that
   did may report something themselves; by which each of the ranks that may report waits for the one
   before it.  So who is missing is said within GRACE + (CALLERS - 1) STAGGER seconds after the limit, of which
   threads that look twice a second (comm/progress_thread.h) need one. */
static const double GRACE = 3.0, MOMENT = 1.0, STAGGER = 1.0;
/* For which a rank waits for others to end it; for which a report about a wait on a GPU is valid;
   from one look to the next; and in which final messages are sent. */
static const double PATIENCE = 20.0, FLEETING = 3.0, LOOK_EVERY = 0.01, LAST_WORDS = 0.5;

enum { DEFAULT_LIMIT = 600, CALLERS = 3 };

/* Kinds of messages: an alarm; one of a rank that asks who is missing; a rank has waited too long; say
   where you are; the answer. */
enum { TAG_ALARM, TAG_ASKS, TAG_LATE, TAG_CALL, TAG_ANSWER };

/* Of a rank that collects the hang report. */
struct hang_report {
    char (*host)[TR_HOST_BYTES];
    struct tr_post *post;
    int place; /* among those that collect */
    int answers;
    double began, ended; /* by the watch's own clock; 0: not yet */
};

struct tr_watch {
    MPI_Comm comm;
    int rank, size;
    double limit;

    /* What this rank is in. */
    struct tr_wait_in in;
    bool waits;
    double since, said;
    const char *seen_call; /* in the last tick, */
    uint64_t seen_seq;
    double idle_since; /*   and since when it is that */

    int caller[CALLERS], callers;
    struct hang_report *report; /* NULL where this rank is not one of them */
    struct tr_post sent[CALLERS + 1];

    double clock, looked; /* own time, and that of the system in the last look */

    bool quiet;     /* the others know, or will */
    bool ends;      /* another rank ends the job */
    double alarmed; /* when the first alarm was heard, by the own clock; 0: none */
    char why[TR_ALARM_BYTES], heard[TR_ALARM_BYTES];
};

static void nap(double seconds)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)(1e9 * seconds)}, NULL);
}

/* ---- opening ---- */

static void choose_callers(struct tr_watch *x)
{
    const int want[CALLERS] = {0, x->size / 2, x->size - 1};

    for (int i = 0; i < CALLERS; i++)
        if (i == 0 || want[i] != x->caller[x->callers - 1])
            x->caller[x->callers++] = want[i];
}

static void *need(size_t count, size_t bytes)
{
    void *p = calloc(count, bytes);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the hang report");
    return p;
}

/* Those that collect the hang report know the names of all nodes. */
static void gather_hosts(struct tr_watch *x)
{
    char mine[TR_HOST_BYTES] = "";

    gethostname(mine, sizeof mine - 1);
    for (int i = 0; i < x->callers; i++) {
        if (x->caller[i] == x->rank) {
            x->report = need(1, sizeof *x->report);
            x->report->place = i;
            x->report->host = need((size_t)x->size, sizeof *x->report->host);
            x->report->post = need((size_t)x->size, sizeof *x->report->post);
        }
        MPI_Gather(mine, sizeof mine, MPI_CHAR, x->report ? x->report->host : NULL, sizeof mine,
                   MPI_CHAR, x->caller[i], x->comm);
    }
    if (x->report)
        tr_flight_hosts((const char(*)[TR_HOST_BYTES])x->report->host, x->size);
}

struct tr_watch *tr_watch_open(void)
{
    struct tr_watch *x = need(1, sizeof *x);

    MPI_Comm_dup(MPI_COMM_WORLD, &x->comm);
    MPI_Comm_rank(x->comm, &x->rank);
    MPI_Comm_size(x->comm, &x->size);
    x->limit = DEFAULT_LIMIT;
    x->in.group = x->in.call = "";
    x->idle_since = x->looked = tr_now();
    x->clock = 1.0;
    choose_callers(x);
    gather_hosts(x);
    return x;
}

void tr_watch_close(struct tr_watch *x)
{
    if (!x)
        return;
    MPI_Comm_free(&x->comm);
    if (x->report) {
        tr_flight_hosts(NULL, 0);
        free(x->report->host);
        free(x->report->post);
    }
    free(x->report);
    free(x);
}

void tr_watch_limit(struct tr_watch *x, double seconds)
{
    x->limit = seconds;
}

/* ---- where this rank is ---- */

void tr_watch_enter(struct tr_watch *x, const char *group, const char *call, uint64_t seq)
{
    x->in.group = group;
    x->in.call = call;
    x->in.seq = seq;
    x->waits = false;
}

void tr_watch_say(struct tr_watch *x, const struct tr_wait_in *in, double since)
{
    x->in = *in;
    x->waits = true;
    x->since = since;
    x->said = tr_now();
}

void tr_watch_go_on(struct tr_watch *x)
{
    x->waits = false;
}

static struct tr_post describe(const struct tr_watch *x)
{
    const double now = tr_now();
    const bool waits = x->waits && (!x->in.fleeting || now - x->said < FLEETING);
    struct tr_post p = {.state = waits ? TR_WAITS : TR_BUSY,
                        .seq = x->in.seq,
                        .seconds = now - (waits ? x->since : x->idle_since),
                        .rank = x->rank,
                        .members = x->in.members,
                        .peers = x->in.peers};

    snprintf(p.group, sizeof p.group, "%s", x->in.group);
    snprintf(p.call, sizeof p.call, "%s", x->in.call);
    if (x->waits && x->in.about)
        snprintf(p.about, sizeof p.about, "%s", x->in.about);
    for (int i = 0; i < x->in.peers; i++)
        p.peer[i] = x->in.peer[i];
    return p;
}

/* ---- messages ---- */

/* It is there when the others look; nobody here waits for it, so `text` stays. */
static void put(struct tr_watch *x, int to, int tag, const void *text, int bytes)
{
    MPI_Request request;

    if (MPI_Isend(text, bytes, MPI_BYTE, to, tag, x->comm, &request) == MPI_SUCCESS)
        MPI_Request_free(&request);
}

void tr_watch_tell(struct tr_watch *x, const char *why, bool asks)
{
    x->quiet = !asks;
    snprintf(x->why, sizeof x->why, "%s", why);
    for (int to = 0; to < x->size; to++)
        if (to != x->rank)
            put(x, to, asks ? TAG_ASKS : TAG_ALARM, x->why, sizeof x->why);
}

static void note_answer(struct tr_watch *x, const struct tr_post *p)
{
    struct hang_report *r = x->report;

    if (!r || p->rank < 0 || p->rank >= x->size || r->post[p->rank].state != TR_ABSENT)
        return;
    r->post[p->rank] = *p;
    r->answers++;
}

static void ask_ranks(struct tr_watch *x)
{
    if (!x->report || x->report->began > 0.0)
        return;
    x->report->began = x->clock;
    for (int to = 0; to < x->size; to++)
        if (to != x->rank)
            put(x, to, TAG_CALL, NULL, 0);
    tr_flight_write_aside(TR_FLIGHT_HANG, "ranks were asked where they are");
}

static void answer(struct tr_watch *x, int whom)
{
    for (int i = 0; i < x->callers; i++)
        if (x->caller[i] == whom) {
            x->sent[i] = describe(x);
            put(x, whom, TAG_ANSWER, &x->sent[i], sizeof x->sent[i]);
        }
    tr_flight_write_aside(TR_FLIGHT_HANG, "ranks were asked where they are");
}

static void hear(struct tr_watch *x, const char *text, bool ends)
{
    x->ends |= ends;
    if (x->alarmed > 0.0)
        return;
    x->alarmed = x->clock;
    snprintf(x->heard, sizeof x->heard, "%.*s", TR_ALARM_BYTES - 1, text);
    tr_flight_write_aside(ends ? TR_FLIGHT_ERROR : TR_FLIGHT_HANG, x->heard);
}

/* True if there was a message. */
static bool take_one(struct tr_watch *x)
{
    union {
        char text[TR_ALARM_BYTES];
        struct tr_post post;
    } got;
    MPI_Status from;
    int found = 0;

    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, x->comm, &found, &from) != MPI_SUCCESS || !found ||
        MPI_Recv(&got, sizeof got, MPI_BYTE, from.MPI_SOURCE, from.MPI_TAG, x->comm,
                 MPI_STATUS_IGNORE) != MPI_SUCCESS)
        return false;
    if (from.MPI_TAG == TAG_ALARM || from.MPI_TAG == TAG_ASKS) {
        hear(x, got.text, from.MPI_TAG == TAG_ALARM);
    } else if (from.MPI_TAG == TAG_CALL) {
        answer(x, from.MPI_SOURCE);
    } else if (from.MPI_TAG == TAG_LATE || from.MPI_TAG == TAG_ANSWER) {
        note_answer(x, &got.post);
    }
    if (from.MPI_TAG == TAG_LATE)
        ask_ranks(x);
    return true;
}

/* ---- the end of a hang report ---- */

static _Noreturn void speak(struct tr_watch *x)
{
    const char(*host)[TR_HOST_BYTES] = (const char(*)[TR_HOST_BYTES])x->report->host;
    char who[800], missing[512], suspects[4 * TR_HOST_BYTES];

    tr_hang_sentence(x->report->post, host, x->size, x->limit, who, sizeof who);
    tr_hang_suspects(x->report->post, host, x->size, x->limit, suspects, sizeof suspects);
    tr_hang_missing(x->report->post, x->size, x->limit, missing, sizeof missing);
    if (missing[0])
        tr_log(TR_LOG_WARNING, "gradients wait to be reduced for ranks that did not come.  %s",
               missing);
    tr_suspect(suspects);
    tr_die(TR_ETEMP,
           "%s; start again from the last checkpoint, or wait longer with "
           "--distributed-timeout-minutes",
           who);
}

static void continue_report(struct tr_watch *x)
{
    struct hang_report *r = x->report;
    struct tr_post mine;

    /* Another rank reports, or has; not those that only ask, which may be all that wait. */
    if (!r || r->began <= 0.0 || x->ends)
        return;
    mine = describe(x);
    note_answer(x, &mine);
    if (r->ended <= 0.0 && x->clock - r->began > (r->answers == x->size ? MOMENT : GRACE))
        r->ended = x->clock;
    if (r->ended > 0.0 && x->clock - r->ended >= STAGGER * r->place)
        speak(x);
}

double tr_watch_step(double before, double now)
{
    const double most = 1.0;

    return now - before < most ? now - before : most;
}

static void look(struct tr_watch *x)
{
    double now = tr_now();

    x->clock += tr_watch_step(x->looked, now);
    x->looked = now;
    while (take_one(x))
        continue;
    continue_report(x);
}

const char *tr_watch_heard(struct tr_watch *x)
{
    look(x);
    return x->alarmed > 0.0 ? x->heard : NULL;
}

/* The others end this rank, or else it ends by itself. */
static void let_others_end_this(struct tr_watch *x, double seconds)
{
    for (double until = x->clock + seconds; x->clock < until; nap(LOOK_EVERY))
        look(x);
    x->quiet = true;
}

_Noreturn void tr_watch_late(struct tr_watch *x, const struct tr_wait_in *in, double since)
{
    struct tr_post *mine = &x->sent[CALLERS];
    char time[TR_DURATION_BYTES];

    tr_watch_say(x, in, since);
    x->in.fleeting = false;
    *mine = describe(x);
    tr_flight_write_aside(TR_FLIGHT_HANG, "a call was not done within the time limit");
    note_answer(x, mine);
    ask_ranks(x);
    for (int i = 0; i < x->callers; i++)
        if (x->caller[i] != x->rank)
            put(x, x->caller[i], TAG_LATE, mine, sizeof *mine);
    let_others_end_this(x, GRACE + STAGGER * CALLERS + PATIENCE);
    tr_die(TR_ETEMP,
           "the %s in group \"%s\" (call %llu) is not done after %s, and no rank that could say "
           "who is missing answers; a node or the network is probably lost, start again from the "
           "last checkpoint",
           in->call, in->group, (unsigned long long)in->seq,
           tr_text_duration(TR_DURATION_WORDS, mine->seconds, time));
}

void tr_watch_wait(struct tr_watch *x, const struct tr_wait_in *in, double since)
{
    tr_watch_say(x, in, since);
    look(x);
    /* The rank that raised the alarm ends the job; where ranks still agree on how to, this wait is
       over before. */
    if (x->alarmed > 0.0 && x->clock - x->alarmed > PATIENCE && x->said - since > PATIENCE) {
        x->quiet = true;
        tr_die(TR_ETEMP, "this rank stops because of %s", x->heard);
    }
    if (x->said - since > x->limit)
        tr_watch_late(x, in, since);
}

/* ---- the watchdog's thread ---- */

void tr_watch_tick(struct tr_watch *x)
{
    if (x->waits || x->seen_call != x->in.call || x->seen_seq != x->in.seq) {
        x->seen_call = x->in.call;
        x->seen_seq = x->in.seq;
        x->idle_since = tr_now();
    }
    look(x);
}

void tr_watch_last_words(struct tr_watch *x, const char *why)
{
    char host[TR_HOST_BYTES] = "", text[TR_ALARM_BYTES];

    if (x->quiet || x->size == 1)
        return;
    gethostname(host, sizeof host - 1);
    snprintf(text, sizeof text, "rank %d on %s: %.400s", x->rank, host, why);
    tr_watch_tell(x, text, false);
    for (double began = tr_now(); tr_now() - began < LAST_WORDS; nap(LOOK_EVERY))
        while (take_one(x))
            continue;
}
