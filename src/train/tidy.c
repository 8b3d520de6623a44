/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tidy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "train/torch_trace.h"
#include "train/trace_file.h"
#include "util/file.h"
#include "util/log.h"

static const char FOLDER[] = "trace_json";

static const struct tr_track_row alone =
#define ALONE(track, name, colour) {track, name, colour};
#include "train/tracks.def"

    bool tr_tidy_wanted(const struct tr_config *c)
{
    return c->profiling != TR_PROFILING_NONE;
}

static bool in_torch_form(const struct tr_tidy *t)
{
    return t->run->config->profiling == TR_PROFILING_TORCH;
}

/* ---- the text ---- */

static void put(struct tr_tidy *t, const struct tr_span *s, const char *name, const char *track,
                const char *colour)
{
    fprintf(t->f,
            "%s{\"name\": \"%s\", \"ph\": \"X\", \"pid\": %d, \"tid\": \"%s\", \"ts\": %.3f, "
            "\"dur\": %.3f, \"cname\": \"%s\"",
            t->events++ > 0 ? ",\n" : "", name, t->run->world->rank, track,
            1e6 * (s->begin + t->wall), 1e6 * (s->end - s->begin), colour);
}

static void put_slot(struct tr_tidy *t, const struct tr_span *s, enum tr_track track, int micro)
{
    put(t, s, tr_tracks[track].event, tr_tracks[track].name, tr_tracks[track].colour);
    fprintf(t->f, ", \"args\": {\"micro-batch\": %d}}", micro);
}

static void put_exchange(struct tr_tidy *t, const struct tr_span *s, const struct tr_dp_event *e,
                         const char *para, int64_t size)
{
    put(t, s, e->name, e->track, e->colour);
    fprintf(t->f, ", \"args\": {\"para\": \"%s\", \"size\": %" PRId64 "}}", para, size);
}

static void put_exchanges(struct tr_tidy *t, const struct tr_span *s)
{
    const struct tr_track_row *row = &tr_tracks[TR_TRACK_OPTIMIZER_COMM];
    const struct tr_dp_event tied = {row->name, row->event, row->colour, t->embedding};
    const struct tr_dp_event *e = tr_dp_event(&t->run->dp, s->timer);

    if (e)
        put_exchange(t, s, e, e->para, t->run->model.params.size);
    if (s->timer == TR_TIMER_EMBEDDING_ALL_REDUCE && t->embedding)
        put_exchange(t, s, &tied, tied.para, t->embedded);
}

static void put_optimizer(struct tr_tidy *t, const struct tr_span *s)
{
    const bool replicas = t->run->shape.layout.d > 1;
    const struct tr_track_row *row = replicas ? &tr_tracks[TR_TRACK_OPTIMIZER_COMP] : &alone;

    put(t, s, row->event, row->name, row->colour);
    fputs("}", t->f);
}

/* One micro-batch more than the last of the iteration. */
static int micros_of(const struct tr_span *span, int64_t count)
{
    int most = 0;

    for (int64_t i = 0; i < count; i++)
        if (tr_trace_is_compute(&span[i]) && span[i].about.micro[0] >= most)
            most = span[i].about.micro[0] + 1;
    return most;
}

static void put_slots(struct tr_tidy *t, const struct tr_span *s, int skip)
{
    const bool compute = tr_trace_is_compute(s);

    for (int k = 0; k < TR_LEGS; k++) {
        const int micro = s->about.micro[k] - skip;

        if (compute ? k > 0 || micro < 0 : !(s->about.legs >> k & 1) || micro < 0)
            continue;
        put_slot(t, s, compute ? tr_track_of_timer(s) : tr_track_of_leg(k), micro);
    }
}

/* What stands between the ends of two passes: the optimizer of the first, and the second pass. */
static void put_between(struct tr_tidy *t, const struct tr_span *span, int64_t count)
{
    const int micros = micros_of(span, count);
    const int skip = micros - micros / (int)t->run->config->profiling_accumulation;
    struct tr_span optimizer = {.timer = TR_TIMERS};

    for (int64_t i = 0; i < count; i++) {
        if (tr_trace_is_transfer(&span[i]) || tr_trace_is_compute(&span[i])) {
            put_slots(t, &span[i], skip);
        } else if (span[i].timer == TR_TIMER_OPTIMIZER) {
            const double began = optimizer.timer == TR_TIMERS ? span[i].begin : optimizer.begin;

            optimizer = span[i];
            optimizer.begin = began;
        } else {
            put_exchanges(t, &span[i]);
        }
    }
    if (optimizer.timer != TR_TIMERS)
        put_optimizer(t, &optimizer);
}

void tr_tidy_add(struct tr_tidy *t, const struct tr_span *span, int64_t count)
{
    int64_t from = 0;

    if (!t->f || t->run->iteration <= t->first)
        return;
    if (in_torch_form(t)) {
        tr_torch_trace_put(t->f, &t->events, span, count, t->wall - (double)t->base);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        if (span[i].timer != TR_TIMER_FORWARD_BACKWARD)
            continue;
        put_between(t, span + from, i - from);
        from = i + 1;
    }
    put_between(t, span + from, count - from);
}

/* ---- the file ---- */

/* As CocktailSGD names them. */
static char *path_of(const struct tr_run *r)
{
    const struct tr_shape *s = &r->shape;
    const struct tr_config *c = r->config;
    const bool replicas = s->layout.d > 1;

    return tr_format("%s/gpt3_%s%s%s_b%lld_%lld_l%lld_m%lld_w%d_p%d_%lld_d%d_%d%s_%s_%s.json",
                     FOLDER, tr_config_spelling("pipeline-schedule", s->layout.schedule),
                     replicas ? "_" : "", replicas ? tr_config_spelling("dp-mode", c->dp_mode) : "",
                     (long long)(s->batches.global_batch / s->layout.d / c->profiling_accumulation),
                     (long long)s->batches.micro_batch, (long long)s->dims.seq,
                     (long long)s->dims.hidden, s->layout.world, s->layout.p,
                     (long long)c->profiling_accumulation, s->layout.d, r->world->rank,
                     c->fp16 ? "_fp16" : "", tr_config_spelling("profiling", c->profiling),
                     c->trace_postfix);
}

static char *unfinished(const struct tr_tidy *t)
{
    return tr_format("%s.part", t->path);
}

/* What is added to the common clock, which is that of rank 0, for the time of day. */
static double wall_of(struct tr_comm *world)
{
    double *all = calloc((size_t)world->size, sizeof *all), mine;
    struct timespec now;

    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for the clocks of the ranks");
    clock_gettime(CLOCK_REALTIME, &now);
    mine = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - tr_now();
    world->via->gather_all(world, &mine, sizeof mine, all);
    mine = all[0];
    free(all);
    return mine;
}

static enum tr_status create(struct tr_tidy *t)
{
    char *part = unfinished(t);
    enum tr_status s = tr_make_dirs(FOLDER);

    if (s == TR_OK && !(t->f = fopen(part, "we")))
        s = TR_FAIL(TR_EIO, "cannot write %s: %s, and --profiling wants its profile there", part,
                    strerror(errno));
    free(part);
    if (s != TR_OK)
        return s;
    if (in_torch_form(t))
        tr_torch_trace_begin(t->f, t->run, t->base);
    else
        fputs("[\n", t->f);
    return TR_OK;
}

static void find_embedding(struct tr_tidy *t)
{
    const struct tr_run *r = t->run;
    const struct tr_param *p = tr_param_find(&r->model.params, TR_PARAM_WORD_EMBED, -1);

    if (r->grid.embed.size < 2 || !p)
        return;
    t->embedding = p->name;
    t->embedded = p->elems;
}

enum tr_status tr_tidy_open(struct tr_tidy *t, struct tr_run *run)
{
    const struct tr_config *c = run->config;

    *t = (struct tr_tidy){
        .run = run,
        .first = c->trace_step_start == TR_UNSET_INT ? 0 : c->trace_step_start,
        .last = c->trace_step_end == TR_UNSET_INT ? INT64_MAX : c->trace_step_end,
    };
    if (!tr_tidy_wanted(c))
        return TR_OK;
    if (run->iteration >= t->last) {
        tr_log_rank0(TR_LOG_WARNING,
                     "there will be no profile: the run goes on after iteration %lld, and "
                     "--trace-step-end is %lld",
                     (long long)run->iteration, (long long)t->last);
        return TR_OK;
    }
    t->wall = wall_of(run->world);
    t->base = (int64_t)(t->wall + tr_now());
    t->path = path_of(run);
    find_embedding(t);
    return tr_comm_agree(run->world, create(t));
}

void tr_tidy_close(struct tr_tidy *t)
{
    if (t->f)
        fclose(t->f);
    free(t->path);
    memset(t, 0, sizeof *t);
}

bool tr_tidy_due(const struct tr_tidy *t, int64_t iteration)
{
    return t->f && (iteration == t->first || iteration == t->last);
}

/* The file under its name; false, and a sentence, where it cannot be. */
static bool finish(struct tr_tidy *t)
{
    char *part = unfinished(t);
    int error = 0;

    if (in_torch_form(t))
        tr_torch_trace_end(t->f, t->path);
    else
        fputs("\n]\n", t->f);
    if (fflush(t->f) != 0 || fsync(fileno(t->f)) != 0)
        error = errno;
    if (ferror(t->f) && error == 0)
        error = EIO;
    if (fclose(t->f) != 0 && error == 0)
        error = errno;
    if (error == 0 && rename(part, t->path) != 0)
        error = errno;
    if (error != 0) {
        tr_output_lost("no profile of this rank: cannot write %s: %s", t->path, strerror(error));
        unlink(part);
    }
    t->f = NULL;
    free(part);
    return error == 0;
}

void tr_tidy_write(struct tr_tidy *t, bool now)
{
    if (!t->f || !(now || t->run->iteration >= t->last))
        return;
    if (t->run->iteration <= t->first)
        tr_log_rank0(TR_LOG_WARNING,
                     "the profile has no events: the run ended with iteration %lld, and "
                     "--trace-step-start says to begin after %lld",
                     (long long)t->run->iteration, (long long)t->first);
    if (tr_comm_max(t->run->world, !finish(t)) == 0)
        tr_notice_rank0("> profile of each rank written to %s/\n", FOLDER);
}
