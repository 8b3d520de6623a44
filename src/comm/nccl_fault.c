/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/nccl_group.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm/watch.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/text.h"

/* Seconds from one look at the communicators to the next, and those that a rank gives the others to
   say what they waited for before it ends the job. */
static const double LOOK_EVERY = 0.01, GRACE = 2.0;
/* The same where another rank began, and perhaps still asks who is missing: it ends the job. */
static const double GRACE_OF_TOLD = 30.0;

enum { SPINS = 200, TEXT = 400 };

static void nap(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};

    t.tv_nsec = (long)(1e9 * (seconds - (double)t.tv_sec));
    nanosleep(&t, NULL);
}

const char *tr_nccl_words(ncclComm_t comm, ncclResult_t result)
{
    static char text[TEXT];
    const char *last = tr_nccl.ncclGetLastError(comm);

    snprintf(text, sizeof text, "%s%s%s", tr_nccl.ncclGetErrorString(result),
             last && *last ? ": " : "", last ? last : "");
    text[strcspn(text, "\n")] = '\0';
    return text;
}

/* ---- what to say ---- */

static void add(char *text, size_t size, const char *fmt, ...) TR_PRINTF(3, 4);

static void add(char *text, size_t size, const char *fmt, ...)
{
    size_t length = strlen(text);
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text + length, size - length, fmt, ap);
    va_end(ap);
}

/* The oldest call of a group that is not done; NULL if there is none. */
static const struct tr_nccl_call *oldest(const struct tr_nccl_group *g)
{
    const struct tr_nccl_call *x = g->first;

    while (x && cudaEventQuery(x->done) == cudaSuccess)
        x = x->next;
    return x;
}

/* What each group is waiting for. */
static void tell_waiting(const struct tr_nccl_world *w, char *text, size_t size)
{
    bool any = false;

    for (const struct tr_nccl_group *g = w->groups; g; g = g->next) {
        const struct tr_nccl_call *x = oldest(g);

        if (!x)
            continue;
        add(text, size, "%s the %s in group \"%s\" (call %llu, rank %d of %d)",
            any ? "," : "; this rank waits for", x->name, g->name, (unsigned long long)x->seq,
            g->rank, g->size);
        any = true;
    }
    if (!any)
        add(text, size, "; this rank waits for no other GPU");
}

/* ---- the end ---- */

/* Tell whoever asks which call this rank has waited for longest. */
static void say_longest(const struct tr_nccl_world *w)
{
    const struct tr_nccl_longest *x = &w->longest;

    if (x->group)
        x->group->inner->via->waits(x->group->inner, x->call, x->seq, x->since);
}

/* Others see the alarm when they wait for their GPUs; to look for alarms is also what makes MPI send
   ours, and what answers when somebody asks who is missing. */
static void let_others_speak(const struct tr_nccl_world *w, double seconds)
{
    double until = tr_now() + seconds;

    while (tr_now() < until) {
        say_longest(w);
        w->inner->via->alarmed(w->inner);
        nap(LOOK_EVERY);
    }
}

/* How a rank comes to its end: it ends the job, it asks who is missing, or another rank does either. */
enum end { ENDS, ASKS, TOLD };

/* Everything that all ends have in common. */
static void announce(struct tr_nccl_world *w, const char *what, enum end how)
{
    char text[2 * TEXT] = "", host[128] = "", alarm[TR_ALARM_BYTES];

    gethostname(host, sizeof host - 1);
    w->gpu->watch = NULL;
    add(text, sizeof text, "%s", what);
    tell_waiting(w, text, sizeof text);
    add(text, sizeof text, " (%s, on %s)", w->gpu->uuid, host);
    tr_log(TR_LOG_ERROR, "%s", text);
    if (how != TOLD) {
        snprintf(alarm, sizeof alarm, "rank %d on %.100s: %.350s", w->inner->rank, host, what);
        w->inner->via->alarm(w->inner, alarm, how == ASKS);
    }
    /* Kernels that wait for other ranks end, so that the driver can clean up. */
    for (struct tr_nccl_group *g = w->groups; g; g = g->next)
        if (g->comm)
            tr_nccl.ncclCommAbort(g->comm);
}

static _Noreturn void fault(struct tr_nccl_world *w, const char *what, enum end how)
{
    announce(w, what, how);
    let_others_speak(w, how == TOLD ? GRACE_OF_TOLD : GRACE);
    tr_die(TR_ETEMP,
           "GPUs lost touch with one another, see the sentences of each rank; a process, a "
           "node or a link of the job is probably lost, start again from the last "
           "checkpoint");
}

static _Noreturn void fault_in(struct tr_nccl_group *g, const char *call, uint64_t seq,
                               const char *why)
{
    char what[TEXT];

    snprintf(what, sizeof what, "the %s in group \"%s\" (call %llu, rank %d of %d) broke: %.250s",
             call, g->name, (unsigned long long)seq, g->rank, g->size, why);
    fault(g->world, what, ENDS);
}

static _Noreturn void fault_told(struct tr_nccl_world *w, const char *told)
{
    char what[TEXT];

    snprintf(what, sizeof what, "this rank stops because of %.350s", told);
    fault(w, what, TOLD);
}

/* The call is not done since `since`: who is missing is a question to all ranks. */
static _Noreturn void fault_late(struct tr_nccl_group *g, const char *call, uint64_t seq,
                                 double since)
{
    char what[TEXT], time[TR_DURATION_BYTES];

    snprintf(what, sizeof what,
             "the %s in group \"%s\" (call %llu, rank %d of %d) is not done after %s "
             "(--distributed-timeout-minutes)",
             call, g->name, (unsigned long long)seq, g->rank, g->size,
             tr_text_duration(TR_DURATION_WORDS, g->world->how.timeout_s, time));
    announce(g->world, what, ASKS);
    g->inner->via->late(g->inner, call, seq, since);
    abort(); /* late() does not return */
}

/* ---- calls that do not block ---- */

ncclResult_t tr_nccl_settle(struct tr_nccl_world *w, ncclComm_t comm, ncclResult_t result,
                            const char **heard)
{
    double began, next;

    if (result != ncclInProgress)
        return result;
    began = next = tr_now();
    for (int spins = 0; result == ncclInProgress; spins++) {
        ncclResult_t asked = tr_nccl.ncclCommGetAsyncError(comm, &result);

        if (asked != ncclSuccess)
            return asked;
        if (spins > SPINS)
            sched_yield();
        if (result != ncclInProgress || tr_now() < next)
            continue;
        next = tr_now() + LOOK_EVERY;
        *heard = w->inner->via->alarmed(w->inner);
        if (*heard || tr_now() - began > w->how.timeout_s)
            return ncclInProgress;
    }
    return result;
}

void tr_nccl_must(struct tr_nccl_group *g, const char *call, uint64_t seq, ncclResult_t result)
{
    const char *heard = NULL;
    const double began = tr_now();
    char why[TEXT];

    result = tr_nccl_settle(g->world, g->comm, result, &heard);
    if (result == ncclSuccess)
        return;
    if (heard)
        fault_told(g->world, heard);
    if (result == ncclInProgress)
        fault_late(g, call, seq, began);
    snprintf(why, sizeof why, "NCCL says: %.200s", tr_nccl_words(g->comm, result));
    fault_in(g, call, seq, why);
}

/* ---- looking ---- */

static void look_at_errors(struct tr_nccl_group *g)
{
    ncclResult_t state = ncclSuccess, asked = tr_nccl.ncclCommGetAsyncError(g->comm, &state);
    const struct tr_nccl_call *x = oldest(g);
    char why[TEXT];

    if (asked == ncclSuccess && (state == ncclSuccess || state == ncclInProgress))
        return;
    snprintf(why, sizeof why, "NCCL says: %.200s",
             tr_nccl_words(g->comm, asked != ncclSuccess ? asked : state));
    fault_in(g, x ? x->name : "connection", x ? x->seq : 0, why);
}

/* Time counts from when a call is the oldest: what it queues behind may take long. */
static void look_at_time(struct tr_nccl_group *g, double now)
{
    struct tr_nccl_longest *longest = &g->world->longest;
    const struct tr_nccl_call *x;

    tr_nccl_retire(g);
    x = oldest(g);
    if (!x || g->waited != x->number) {
        g->waited = x ? x->number : 0;
        g->since = now;
    }
    if (x && (!longest->group || g->since < longest->since))
        *longest = (struct tr_nccl_longest){g, x->name, x->seq, g->since};
    if (x && now - g->since > g->world->how.timeout_s)
        fault_late(g, x->name, x->seq, g->since);
}

/* Time in which nobody looked is not held against the calls. */
static void pass_over_stops(struct tr_nccl_world *w, double now)
{
    double passed = now - w->looked;

    for (struct tr_nccl_group *g = w->groups; g; g = g->next)
        g->since += passed - tr_watch_step(w->looked, now);
    w->looked = now;
}

void tr_nccl_watch(void *ctx)
{
    struct tr_nccl_world *w = ctx;
    double now = tr_now();
    const char *told;

    if (now - w->looked < LOOK_EVERY)
        return;
    pass_over_stops(w, now);
    told = w->inner->via->alarmed(w->inner);
    if (told)
        fault_told(w, told);
    w->longest.group = NULL;
    for (struct tr_nccl_group *g = w->groups; g; g = g->next)
        if (g->comm) {
            look_at_errors(g);
            look_at_time(g, now);
        }
    say_longest(w);
}
