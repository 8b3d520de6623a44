/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/trace_file.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "util/text.h"

const struct tr_track_row tr_tracks[TR_TRACKS] = {
#define TRACK(symbol, track, name, colour) {track, name, colour},
#include "train/tracks.def"
};

enum tr_track tr_track_of_leg(int leg)
{
    static const enum tr_track of[TR_LEGS] = {TR_TRACK_FORWARD_SEND, TR_TRACK_FORWARD_RECV,
                                              TR_TRACK_BACKWARD_SEND, TR_TRACK_BACKWARD_RECV};

    return of[leg];
}

enum tr_track tr_track_of_timer(const struct tr_span *s)
{
    switch ((enum tr_timer)s->timer) {
    case TR_TIMER_FORWARD_BACKWARD:
        return TR_TRACK_ITERATION;
    case TR_TIMER_FORWARD_COMPUTE:
    case TR_TIMER_BATCH_GENERATOR:
        return TR_TRACK_FORWARD_COMPUTE;
    case TR_TIMER_BACKWARD_COMPUTE:
        return TR_TRACK_BACKWARD_COMPUTE;
    case TR_TIMER_PACK:
        return s->about.legs & TR_SEND_FWD ? TR_TRACK_FORWARD_SEND : TR_TRACK_BACKWARD_SEND;
    case TR_TIMER_UNPACK:
        return s->about.legs & TR_RECV_FWD ? TR_TRACK_FORWARD_RECV : TR_TRACK_BACKWARD_RECV;
    case TR_TIMER_PARAMS_ALL_REDUCE:
    case TR_TIMER_EMBEDDING_ALL_REDUCE:
    case TR_TIMER_PARAMS_ALL_GATHER:
        return TR_TRACK_OPTIMIZER_COMM;
    default:
        return TR_TRACK_OPTIMIZER_COMP;
    }
}

bool tr_trace_is_transfer(const struct tr_span *s)
{
    return s->about.what >= TR_SPAN_XFER && s->timer == tr_timer_for_legs(s->about.legs);
}

static bool is_compute(const struct tr_span *s)
{
    return s->timer == TR_TIMER_FORWARD_COMPUTE || s->timer == TR_TIMER_BACKWARD_COMPUTE;
}

bool tr_trace_is_compute(const struct tr_span *s)
{
    return is_compute(s) && s->about.what >= TR_SPAN_FWD && s->about.what <= TR_SPAN_WGT;
}

struct tr_span tr_trace_pass(enum tr_instr_kind kind, struct tr_slot at, double begin, double end)
{
    static const uint8_t whats[] = {
        [TR_FWD] = TR_SPAN_FWD, [TR_BWD] = TR_SPAN_BWD, [TR_WGT] = TR_SPAN_WGT};

    return (struct tr_span){
        .begin = begin,
        .end = end,
        .wait = -1.0,
        .timer = kind == TR_FWD ? TR_TIMER_FORWARD_COMPUTE : TR_TIMER_BACKWARD_COMPUTE,
        .about = {.micro = {at.micro}, .chunk = {(uint8_t)at.chunk}, .what = whats[kind]}};
}

struct tr_span tr_trace_message(int leg, struct tr_slot at, double begin, double end)
{
    struct tr_span x = {.begin = begin,
                        .end = end,
                        .timer = (uint8_t)tr_timer_for_legs(1U << leg),
                        .about = {.what = TR_SPAN_XFER, .legs = (uint8_t)(1U << leg)}};

    x.about.micro[leg] = at.micro;
    x.about.chunk[leg] = (uint8_t)at.chunk;
    return x;
}

static void put_stamp(FILE *f, double seconds)
{
    time_t whole = (time_t)seconds;
    char text[TR_TIME_BYTES];

    fprintf(f, "%s.%06dZ", tr_time_utc(whole, text), (int)(1e6 * (seconds - (double)whole)));
}

/* A host may have a name that JSON would want to be written otherwise. */
static void put_plain(FILE *f, const char *text)
{
    for (; *text; text++)
        putc((unsigned char)*text < ' ' || (unsigned char)*text > '~' || strchr("\"\\", *text)
                 ? '?'
                 : *text,
             f);
}

/* JSON has a comma between two, and none after the last. */
static void next(FILE *f, int64_t *events)
{
    if ((*events)++ > 0)
        fputs(",\n", f);
}

void tr_trace_begin(FILE *f, const struct tr_trace_head *h)
{
    fprintf(f,
            "{\"displayTimeUnit\": \"ms\",\n\"metadata\": {\"program\": \"trireme " PACKAGE_VERSION
            "\", ");
    fprintf(f, "\"schema\": 1, \"ranks\": %d, \"first-iteration\": %" PRId64 ", ", h->ranks,
            h->first);
    fprintf(f, "\"last-iteration\": %" PRId64 ", ", h->last);
    if (h->from) {
        fprintf(f, "\"from\": \"%s\", \"iteration-us\": %.3f},\n\"traceEvents\": [\n", h->from,
                1e6 * h->length);
        return;
    }
    fputs("\"origin\": \"", f);
    put_stamp(f, h->origin + h->wall);
    fprintf(f, "\", \"clock\": \"of rank 0\", \"clock-error-us\": %.3f, ", 1e6 * h->error);
    fprintf(f, "\"waits\": %s, \"times\": \"%s\"},\n\"traceEvents\": [\n",
            h->waits ? "true" : "false",
            !h->device  ? "of the host, which computes"
            : h->waited ? "of the host, which waits for the device"
                        : "of the host, when it queued the work");
}

void tr_trace_end(FILE *f)
{
    fprintf(f, "\n]}\n");
}

static void put_names(FILE *f, struct tr_trace_head *h, const struct tr_trace_rank *r)
{
    next(f, &h->events);
    fprintf(
        f,
        "{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": %d, \"args\": {\"name\": \"rank %d, "
        "stage %d, tensor %d, replica %d on ",
        r->rank, r->rank, r->at.pp, r->at.tp, r->at.dp);
    put_plain(f, r->host);
    fprintf(f, "\", \"clock-error-us\": %.3f, \"missing\": %" PRId64 "}}", 1e6 * r->error,
            r->missing);
    next(f, &h->events);
    fprintf(f,
            "{\"name\": \"process_sort_index\", \"ph\": \"M\", \"pid\": %d, \"args\": "
            "{\"sort_index\": %d}}",
            r->rank, r->rank);
    for (int i = 0; i < TR_TRACKS; i++) {
        next(f, &h->events);
        fprintf(f,
                "{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": %d, \"tid\": %d, \"args\": "
                "{\"name\": \"%s\"}}",
                r->rank, i, tr_tracks[i].name);
    }
}

/* From the brace to where arguments go; `name` is plain. */
static void put_event(FILE *f, int64_t *events, const char *name, int rank, const struct tr_span *s,
                      double origin)
{
    next(f, events);
    fprintf(f, "{\"name\": \"%s\", \"ph\": \"X\", \"pid\": %d, \"ts\": %.3f, \"dur\": %.3f", name,
            rank, 1e6 * (s->begin - origin), 1e6 * (s->end - s->begin));
}

/* A simulator knows which leg a message is of, and not which micro-batch. */
static void put_slot(FILE *f, const struct tr_span *s, int leg)
{
    if (s->about.micro[leg] < 0)
        return;
    fprintf(f, "\"micro-batch\": %d, \"chunk\": %d", (int)s->about.micro[leg], s->about.chunk[leg]);
}

static void put_leg(FILE *f, struct tr_trace_head *h, int rank, const struct tr_span *s, int leg)
{
    enum tr_track t = tr_track_of_leg(leg);

    put_event(f, &h->events, tr_tracks[t].event, rank, s, h->origin);
    fprintf(f, ", \"tid\": %d, \"cname\": \"%s\", \"args\": {", (int)t, tr_tracks[t].colour);
    put_slot(f, s, leg);
    if (s->wait >= 0.0)
        fprintf(f, "%s\"wait\": %.3f", s->about.micro[leg] < 0 ? "" : ", ", 1e6 * s->wait);
    fprintf(f, "%s\"timer\": \"%s\"}}", s->about.micro[leg] < 0 && s->wait < 0.0 ? "" : ", ",
            tr_timer_name((enum tr_timer)s->timer));
}

/* Computations are called by what they compute, as in the picture of a schedule; all others have
   the names of their timers. */
static void put_other(FILE *f, struct tr_trace_head *h, int rank, const struct tr_span *s)
{
    static const char letters[] = {[TR_SPAN_FWD] = 'F', [TR_SPAN_BWD] = 'B', [TR_SPAN_WGT] = 'W'};
    const bool slot = s->about.what >= TR_SPAN_FWD && s->about.what <= TR_SPAN_WGT;
    enum tr_track t = tr_track_of_timer(s);
    char name[64];

    if (slot && is_compute(s))
        snprintf(name, sizeof name, "%c%d", letters[s->about.what], (int)s->about.micro[0]);
    else
        snprintf(name, sizeof name, "%s", tr_timer_name((enum tr_timer)s->timer));
    put_event(f, &h->events, name, rank, s, h->origin);
    fprintf(f, ", \"tid\": %d, \"cname\": \"%s\", \"args\": {", (int)t, tr_tracks[t].colour);
    if (slot)
        put_slot(f, s, 0);
    if (s->wait >= 0.0)
        fprintf(f, "%s\"wait\": %.3f", slot ? ", " : "", 1e6 * s->wait);
    fprintf(f, "}}");
}

void tr_trace_put(FILE *f, struct tr_trace_head *h, const struct tr_trace_rank *r,
                  const struct tr_span *span)
{
    put_names(f, h, r);
    for (int64_t i = 0; i < r->count; i++) {
        if (!tr_trace_is_transfer(&span[i])) {
            put_other(f, h, r->rank, &span[i]);
            continue;
        }
        for (int k = 0; k < TR_LEGS; k++)
            if (span[i].about.legs >> k & 1)
                put_leg(f, h, r->rank, &span[i], k);
    }
}
