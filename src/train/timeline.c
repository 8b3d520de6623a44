/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/timeline.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "train/trace_file.h"
#include "util/file.h"
#include "util/log.h"

/* Spans that a rank has room for, and those that go to rank 0 in one message. */
enum { MOST = (64 << 20) / (int)sizeof(struct tr_span), PIECE = 1 << 14 };

/* What --trace-step-start and -end are unless given. */
enum { FIRST = 10, LAST = 12 };

bool tr_timeline_wanted(const struct tr_config *c)
{
    return c->trace != NULL;
}

static bool ends_in_slash(const char *path)
{
    const size_t length = strlen(path);

    return length > 0 && path[length - 1] == '/';
}

/* Iterations after this one, up to that one. */
static int64_t first_of(const struct tr_config *c)
{
    return c->trace_step_start == TR_UNSET_INT ? FIRST : c->trace_step_start;
}

static int64_t last_of(const struct tr_config *c)
{
    return c->trace_step_end == TR_UNSET_INT ? LAST : c->trace_step_end;
}

/* PATH, or a file of its own in the folder PATH. */
static char *file_of(const struct tr_config *c)
{
    struct stat is;

    if (ends_in_slash(c->trace) || (stat(c->trace, &is) == 0 && S_ISDIR(is.st_mode)))
        return tr_format("%s/iterations-%lld-%lld.json", c->trace, (long long)first_of(c) + 1,
                         (long long)last_of(c));
    return tr_format("%s", c->trace);
}

/* A trace appears under its name when it is whole. */
static char *unfinished(const char *path)
{
    return tr_format("%s.part", path);
}

/* Hours of training would otherwise come before the sentence. */
static enum tr_status try_to_write(const char *path)
{
    char *part = unfinished(path);
    FILE *f = fopen(part, "we");

    if (f) {
        fclose(f);
        unlink(part);
    }
    free(part);
    return f ? TR_OK
             : TR_FAIL(TR_EIO, "cannot write %s: %s, and --trace wants its trace there", path,
                       strerror(errno));
}

enum tr_status tr_timeline_open(struct tr_timeline *t, struct tr_run *run, int64_t most, bool waits)
{
    const struct tr_config *c = run->config;
    int64_t iterations = last_of(c) - first_of(c);
    enum tr_status s = TR_OK;

    *t = (struct tr_timeline){.over = true};
    if (!tr_timeline_wanted(c))
        return TR_OK;
    *t = (struct tr_timeline){.run = run, .waits = waits, .over = run->iteration >= last_of(c)};
    if (t->over)
        tr_log_rank0(TR_LOG_WARNING,
                     "nothing will be traced: the run goes on after iteration %lld, and "
                     "--trace-step-end is %lld",
                     (long long)run->iteration, (long long)last_of(c));
    t->most = iterations > MOST / most ? MOST : iterations * most;
    t->span = malloc((size_t)t->most * sizeof *t->span);
    if (!t->span)
        s = TR_FAIL(TR_ERESOURCE,
                    "no memory left for a trace of %lld iterations; trace fewer "
                    "(--trace-step-end)",
                    (long long)iterations);
    if (s == TR_OK) {
        t->path = file_of(c);
        if (run->world->rank == 0)
            s = ends_in_slash(c->trace) ? tr_make_dirs(c->trace) : TR_OK;
        if (run->world->rank == 0 && s == TR_OK)
            s = try_to_write(t->path);
    }
    return tr_comm_agree(run->world, s);
}

void tr_timeline_close(struct tr_timeline *t)
{
    free(t->span);
    free(t->path);
    memset(t, 0, sizeof *t);
}

bool tr_timeline_due(const struct tr_timeline *t, int64_t iteration)
{
    const struct tr_config *c = t->run->config;

    return !t->over && (iteration == first_of(c) || iteration == last_of(c));
}

void tr_timeline_add(struct tr_timeline *t, const struct tr_span *span, int64_t count, double error)
{
    if (t->over || t->run->iteration <= first_of(t->run->config))
        return;
    t->error = fmax(t->error, error);
    for (int64_t i = 0; i < count; i++)
        t->span[t->added++ % t->most] = span[i];
}

/* The spans from the oldest to the newest: turn the ring so that it begins at its beginning. */
static int64_t straighten(struct tr_timeline *t)
{
    struct tr_span *turned;
    int64_t first = t->added % t->most;

    if (t->added <= t->most)
        return t->added;
    turned = malloc((size_t)t->most * sizeof *turned);
    if (!turned)
        return first; /* the newest of them */
    memcpy(turned, t->span + first, (size_t)(t->most - first) * sizeof *turned);
    memcpy(turned + t->most - first, t->span, (size_t)first * sizeof *turned);
    free(t->span);
    t->span = turned;
    return t->most;
}

/* What is added to tr_now() for the time of day. */
static double wall_offset(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec - tr_now();
}

/* ---- one file for all ranks ---- */

/* The spans of rank `from` go to rank 0, which has room for them at `to`. */
static void fetch(struct tr_comm *world, int from, const struct tr_span *mine, struct tr_span *to,
                  int64_t count)
{
    for (int64_t at = 0; at < count; at += PIECE) {
        int64_t n = count - at < PIECE ? count - at : PIECE;
        struct tr_leg leg = {
            .dir = world->rank == 0 ? TR_LEG_RECV : TR_LEG_SEND,
            .peer = world->rank == 0 ? from : 0,
            .bytes = n * (int64_t)sizeof *to,
        };
        struct tr_pending p;

        /* What is sent is not written to. */
        leg.buf = world->rank == 0 ? to + at : (struct tr_span *)(uintptr_t)(mine + at);
        world->via->exchange_start(world, NULL, &leg, 1, &p);
        world->via->finish(world, NULL, &p);
    }
}

static struct tr_trace_head head_of(const struct tr_timeline *t, const struct tr_trace_rank *rank,
                                    const double *begin)
{
    const struct tr_run *r = t->run;
    struct tr_trace_head h = {
        .ranks = r->world->size,
        .first = first_of(r->config) + 1,
        .last = r->iteration,
        .origin = HUGE_VAL,
        .wall = wall_offset(),
        .waits = t->waits,
        .device = r->queue.on->apart,
        .waited = r->config->timing == TR_TIMING_SYNC,
    };

    for (int i = 0; i < h.ranks; i++) {
        h.error = fmax(h.error, rank[i].error);
        h.origin = fmin(h.origin, begin[i]);
    }
    return h;
}

/* Ranks say what they have; rank 0 asks for it, one rank after the other, and writes it.  Where it
   cannot write, it takes what comes all the same.  0, or errno. */
static int write_all(struct tr_timeline *t, struct tr_trace_rank *rank, const double *begin,
                     FILE *f, struct tr_span *room)
{
    struct tr_trace_head head = head_of(t, rank, begin);
    struct tr_comm *world = t->run->world;
    int error = f ? 0 : errno;

    if (f)
        tr_trace_begin(f, &head);
    for (int i = 0; i < world->size; i++) {
        const struct tr_span *span = t->span;

        if (i > 0 && (world->rank == 0 || world->rank == i)) {
            fetch(world, i, t->span, room, rank[i].count);
            span = room;
        }
        if (f)
            tr_trace_put(f, &head, &rank[i], span);
    }
    if (!f)
        return error;
    tr_trace_end(f);
    if (fflush(f) != 0 || fsync(fileno(f)) != 0)
        return errno;
    return ferror(f) ? EIO : 0;
}

static void *need(size_t count, size_t bytes)
{
    void *p = calloc(count, bytes);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left to put the trace together; trace fewer iterations "
                             "(--trace-step-end)");
    return p;
}

/* `error`: of writing, as errno. */
static void tell(const char *path, FILE *f, int error, int64_t missing)
{
    char *part = unfinished(path);

    if (f && fclose(f) != 0 && error == 0)
        error = errno;
    if (error == 0 && rename(part, path) != 0)
        error = errno;
    if (error != 0) {
        tr_output_lost("cannot write the trace %s: %s", path, strerror(error));
        unlink(part);
    } else {
        tr_notice("> trace written to %s\n", path);
    }
    if (error == 0 && missing > 0)
        tr_log(TR_LOG_WARNING,
               "the trace lacks the %lld oldest spans of a rank: trace fewer iterations "
               "(--trace-step-start, --trace-step-end)",
               (long long)missing);
    free(part);
}

static void write_trace(struct tr_timeline *t, int64_t count)
{
    struct tr_comm *world = t->run->world;
    struct tr_trace_rank mine = {
        .count = count,
        .missing = t->added - count,
        .error = t->error,
        .at = t->run->grid.at,
        .rank = world->rank,
    };
    struct tr_trace_rank *all = need((size_t)world->size, sizeof *all);
    double *begin = need((size_t)world->size, sizeof *begin);
    double first = HUGE_VAL;
    struct tr_span *room = NULL;
    int64_t most = 0, missing = 0;
    char *part = NULL;
    FILE *f = NULL;
    int error;

    for (int64_t i = 0; i < count; i++)
        first = fmin(first, t->span[i].begin);
    gethostname(mine.host, sizeof mine.host - 1);
    world->via->gather_all(world, &mine, sizeof mine, all);
    world->via->gather_all(world, &first, sizeof first, begin);
    for (int i = 0; i < world->size; i++) {
        most = all[i].count > most ? all[i].count : most;
        missing = all[i].missing > missing ? all[i].missing : missing;
    }
    if (world->rank == 0) {
        room = need((size_t)most + 1, sizeof *room);
        part = unfinished(t->path);
        f = fopen(part, "we");
    }
    error = write_all(t, all, begin, f, room);
    if (world->rank == 0)
        tell(t->path, f, error, missing);
    free(part);
    free(room);
    free(begin);
    free(all);
}

void tr_timeline_write(struct tr_timeline *t, bool now)
{
    if (t->over || !(now || t->run->iteration >= last_of(t->run->config)))
        return;
    t->over = true;
    if (tr_comm_max(t->run->world, t->added) == 0) {
        tr_log_rank0(TR_LOG_WARNING,
                     "nothing was traced: the run ended with iteration %lld, and "
                     "--trace-step-start says to begin after %lld",
                     (long long)t->run->iteration, (long long)first_of(t->run->config));
        return;
    }
    write_trace(t, straighten(t));
}
