/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/flight.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "util/clock.h"
#include "util/thread.h"
#include "util/write.h"

/* The file of flight records.  What writes it may be called by a handler of signals: no allocation, no stdio, no lock. */

enum { PATH = 4096, WHY = 512, PATIENCE = 10 /* seconds for a file system, in a handler */ };

/* Set before `place` becomes OPEN, and not changed until it is CLOSED again. */
enum { CLOSED, OPEN, WRITING, WRITTEN };
static atomic_int place;
static char folder[PATH], path[PATH], draft[PATH], own_host[TR_HOST_BYTES];
static int own_rank, all_ranks;

static const char (*_Atomic hosts)[TR_HOST_BYTES];
static int hosts_known;

static char aside_why[WHY];
static enum tr_flight_cause aside_cause;
static atomic_flag asked = ATOMIC_FLAG_INIT;
static const struct timespec moment = {.tv_nsec = 5000000};

static const char *const causes[TR_FLIGHT_CAUSES] = {
    [TR_FLIGHT_HANG] = "hang",
    [TR_FLIGHT_ERROR] = "error",
    [TR_FLIGHT_SIGNAL] = "signal",
};

const char *tr_flight_cause_name(enum tr_flight_cause cause)
{
    return causes[cause];
}

/* ---- text ---- */

struct out {
    int fd, error; /* errno of the first write that failed */
    size_t used;
    char text[2048];
};

static void flush(struct out *o)
{
    if (o->error == 0 && tr_write_all(o->fd, o->text, o->used) != 0)
        o->error = errno;
    o->used = 0;
}

static void put_char(struct out *o, char c)
{
    if (o->used == sizeof o->text)
        flush(o);
    o->text[o->used++] = c;
}

static void put(struct out *o, const char *text)
{
    while (*text)
        put_char(o, *text++);
}

static void put_number(struct out *o, uint64_t x, unsigned base)
{
    char digits[24];
    int n = 0;

    do
        digits[n++] = "0123456789abcdef"[x % base];
    while ((x /= base) > 0);
    while (n > 0)
        put_char(o, digits[--n]);
}

static void put_whole(struct out *o, const char *name, int64_t x)
{
    put(o, name);
    if (x < 0)
        put_char(o, '-');
    put_number(o, x < 0 ? 0 - (uint64_t)x : (uint64_t)x, 10);
}

/* What is missing is null. */
static void put_maybe(struct out *o, const char *name, bool known, int64_t x)
{
    if (known) {
        put_whole(o, name, x);
    } else {
        put(o, name);
        put(o, "null");
    }
}

/* In quotes; whatever is not printable ASCII becomes a question mark. */
static void put_text(struct out *o, const char *name, const char *text)
{
    put(o, name);
    put_char(o, '"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            put_char(o, '\\');
        put_char(o, *text >= ' ' && *text <= '~' ? *text : '?');
    }
    put_char(o, '"');
}

/* ---- the record ---- */

static int64_t since_1970(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void put_call(struct out *o, const struct tr_flight_call *call)
{
    const struct tr_members *m = &call->members;

    put_text(o, "{\"group\": ", call->group);
    put(o, ", \"id\": \"");
    put_number(o, call->id, 16);
    put_whole(o, "\", \"first\": ", m->first);
    put_whole(o, ", \"block\": ", m->size > 0 ? m->block : 0);
    put_whole(o, ", \"stride\": ", m->size > 0 ? m->stride : 0);
    put_whole(o, ", \"size\": ", m->size);
    put_whole(o, ", \"seq\": ", (int64_t)call->seq);
    put_text(o, ", \"kind\": ", tr_flight_kind_name((enum tr_flight_kind)call->kind));
    put_whole(o, ", \"bytes\": ", call->bytes);
    put_maybe(o, ", \"peer\": ", call->peer >= 0, call->peer);
    put_whole(o, ", \"begun_us\": ", call->begun);
    put_maybe(o, ", \"ended_us\": ", call->ended != 0, call->ended);
    if (call->phase)
        put_text(o, ", \"in\": ", call->phase);
    else
        put(o, ", \"in\": null");
    put_maybe(o, ", \"micro_batch\": ", call->micro >= 0, call->micro);
    put_maybe(o, ", \"chunk\": ", call->chunk >= 0, call->chunk);
    put_char(o, '}');
}

static void put_calls(struct out *o)
{
    const uint64_t last = tr_flight_count();
    const uint64_t first = last > TR_FLIGHT_CALLS ? last - TR_FLIGHT_CALLS + 1 : 1;
    struct tr_flight_call call;
    const char *between = "\n";

    put(o, ",\n\"calls\": [");
    for (uint64_t n = first; n <= last; n++) {
        if (!tr_flight_get(n, &call))
            continue;
        put(o, between);
        put_call(o, &call);
        between = ",\n";
    }
    put(o, "\n]");
}

static void put_hosts(struct out *o)
{
    const char(*list)[TR_HOST_BYTES] = atomic_load(&hosts);

    if (!list)
        return;
    put(o, ",\n\"hosts\": [");
    for (int r = 0; r < hosts_known; r++)
        put_text(o, r > 0 ? ", " : "", list[r]);
    put(o, "]");
}

static void put_record(struct out *o, enum tr_flight_cause cause, const char *why)
{
    put_whole(o, "{\"schema\": ", 1);
    put_whole(o, ", \"rank\": ", own_rank);
    put_whole(o, ", \"ranks\": ", all_ranks);
    put_text(o, ", \"host\": ", own_host);
    put_whole(o, ", \"pid\": ", (int64_t)getpid());
    put_text(o, ",\n\"cause\": ", causes[cause]);
    put_text(o, ", \"why\": ", why);
    put_whole(o, ",\n\"written_us\": ", since_1970());
    put_whole(o, ", \"now_us\": ", (int64_t)(1e6 * tr_now()));
    put_hosts(o);
    put_calls(o);
    put(o, "}\n");
    flush(o);
}

/* It has its name when it is whole.  errno, or 0. */
static int write_file(enum tr_flight_cause cause, const char *why)
{
    struct out o = {.error = 0};
    int fd;

    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return errno;
    fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return errno;
    o.fd = fd;
    put_record(&o, cause, why);
    if (close(fd) != 0 && o.error == 0)
        o.error = errno;
    if (o.error == 0 && rename(draft, path) != 0)
        o.error = errno;
    if (o.error != 0)
        unlink(draft);
    return o.error;
}

static void complain(int error)
{
    struct out o = {.fd = STDERR_FILENO};

    put_whole(&o, "trireme: warning: rank ", own_rank);
    put(&o, " cannot write its flight record ");
    put(&o, path);
    put_whole(&o, " (errno ", error);
    put(&o, "), so trireme report --flight will not know what it was in\n");
    flush(&o);
}

int tr_flight_write(enum tr_flight_cause cause, const char *why)
{
    const int before = errno;
    int was = OPEN, error;

    if (!atomic_compare_exchange_strong(&place, &was, WRITING))
        return 0;
    error = write_file(cause, why);
    if (error != 0)
        complain(error);
    atomic_store(&place, WRITTEN);
    errno = before;
    return error;
}

/* ---- by a thread ---- */

static void *write_aside(void *unused)
{
    (void)unused;
    (void)tr_flight_write(aside_cause, aside_why);
    return NULL;
}

void tr_flight_write_aside(enum tr_flight_cause cause, const char *why)
{
    pthread_t thread;

    if (atomic_load(&place) != OPEN || atomic_flag_test_and_set(&asked))
        return;
    aside_cause = cause;
    snprintf(aside_why, sizeof aside_why, "%s", why);
    if (tr_thread_start(&thread, write_aside, NULL) == 0)
        pthread_detach(thread);
    else
        (void)tr_flight_write(aside_cause, aside_why);
}

void tr_flight_wait(double seconds)
{
    const double until = tr_now() + seconds;

    while ((atomic_load(&place) == OPEN || atomic_load(&place) == WRITING) && tr_now() < until)
        nanosleep(&moment, NULL);
}

/* ---- signals ---- */

static const struct {
    int number;
    const char *why;
} fatal[] = {
    {SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGABRT, "SIGABRT"},
    {SIGFPE, "SIGFPE"},   {SIGILL, "SIGILL"},
};
enum { FATAL = sizeof fatal / sizeof fatal[0] };
static struct sigaction before[FATAL];

/* Then what was there before: an instruction that faults does so again. */
static void on_fatal(int number, siginfo_t *info, void *context)
{
    (void)context;
    for (int i = 0; i < FATAL; i++) {
        if (fatal[i].number != number)
            continue;
        if (atomic_load(&place) == OPEN)
            alarm(PATIENCE);
        (void)tr_flight_write(TR_FLIGHT_SIGNAL, fatal[i].why);
        sigaction(number, &before[i], NULL);
    }
    if (info->si_code <= 0)
        raise(number);
}

void tr_flight_signal(int number)
{
    if (atomic_load(&place) != OPEN || !tr_flight_pending())
        return;
    signal(SIGALRM, SIG_DFL);
    alarm(PATIENCE);
    (void)tr_flight_write(TR_FLIGHT_SIGNAL, number == SIGTERM  ? "SIGTERM"
                                            : number == SIGINT ? "SIGINT"
                                                               : "a signal");
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_sigaction = on_fatal, .sa_flags = SA_SIGINFO};

    sigemptyset(&action.sa_mask);
    for (int i = 0; i < FATAL; i++)
        sigaction(fatal[i].number, &action, &before[i]);
}

/* Where another handler came on top of this one, that one stays. */
static void let_go(void)
{
    struct sigaction now;

    for (int i = 0; i < FATAL; i++)
        if (sigaction(fatal[i].number, NULL, &now) == 0 && now.sa_flags & SA_SIGINFO &&
            now.sa_sigaction == on_fatal)
            sigaction(fatal[i].number, &before[i], NULL);
}

/* ---- the place ---- */

void tr_flight_open(const char *where, int rank, int ranks)
{
    int n = snprintf(folder, sizeof folder, "%s", where);

    TR_ASSERT(atomic_load(&place) == CLOSED);
    snprintf(path, sizeof path, "%.4000s/rank-%05d.json", folder, rank);
    snprintf(draft, sizeof draft, "%.4000s/.rank-%05d.json", folder, rank);
    gethostname(own_host, sizeof own_host - 1);
    atomic_flag_clear(&asked);
    own_rank = rank;
    all_ranks = ranks;
    if (n >= PATH - 64)
        return;
    catch_signals();
    atomic_store(&place, OPEN);
}

void tr_flight_close(void)
{
    if (atomic_exchange(&place, CLOSED) != CLOSED)
        let_go();
}

void tr_flight_hosts(const char (*host)[TR_HOST_BYTES], int ranks)
{
    hosts_known = ranks;
    atomic_store(&hosts, host);
}
