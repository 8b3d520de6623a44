/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/sweep_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sweep/command.h"
#include "sweep/guard.h"
#include "sweep/shuffle.h"
#include "sweep/tables.h"
#include "job/job.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

/* The least time limit of a run without --sweep-timeout, what it has where nothing is predicted, and
   how much longer than predicted it may take. */
static const double LEAST_LIMIT = 600.0, BLIND_LIMIT = 1800.0, SLACK = 10.0;

/* ---- time ---- */

/* Seconds that a run of the shape is expected to take. */
static double expected(const struct tr_sweep_way *c, const struct tr_sweep_shape *s)
{
    const double ratio = c->predicted > 0.0 ? c->iterations / c->predicted : 1.0;

    if (s->seconds > 0.0)
        return c->start + (double)c->w->iters * s->seconds * ratio;
    return c->ran > 0 ? c->took / c->ran : c->start;
}

double tr_sweep_limit(const struct tr_sweep_way *c, const struct tr_sweep_shape *s)
{
    if (c->w->timeout > 0.0)
        return 60.0 * c->w->timeout;
    if (s->seconds <= 0.0)
        return BLIND_LIMIT;
    return LEAST_LIMIT + SLACK * (double)c->w->iters * s->seconds;
}

/* Seconds until the job ends, with a margin; endless where it has no end. */
static double time_left(const struct tr_sweep_way *c)
{
    return c->place.end == TR_JOB_NO_END
               ? HUGE_VAL
               : (double)(c->place.end - (int64_t)time(NULL)) - TR_SWEEP_MARGIN;
}

/* ---- running ---- */

/* What remains of a step whose srun was killed is asked for by its name. */
static char *last_words(const struct tr_sweep_way *c, const char *name)
{
    if (!c->place.job)
        return NULL;
    return tr_format("squeue -h -s -j %s -o '%%i %%j' | while read -r step name; do\n"
                     "[ \"$name\" != '%s' ] || scancel --signal=KILL \"$step\"; done",
                     c->place.job, name);
}

/* The record that a run of the shape is compared with, or NULL: the best is never stopped. */
static const json_t *rival_of(const struct tr_sweep_way *c, const struct tr_sweep_shape *s)
{
    const json_t *best = c->w->stop_early > TR_UNSET_REAL ? tr_sweep_best(&c->results) : NULL;

    return best && strcmp(json_string_value(json_object_get(best, "shape")), s->name) != 0 ? best
                                                                                           : NULL;
}

/* Seconds of an iteration above which a run of the shape leaves; 0 for none. */
static double most_of(const struct tr_sweep_way *c, const struct tr_sweep_shape *s)
{
    const json_t *rival = rival_of(c, s);

    if (!rival)
        return 0.0;
    return tr_sweep_pace(rival) * (1.0 + c->w->stop_early / 100.0) * (double)s->global_batch;
}

/* Of a run that was ended early: by how much even its fastest iteration is slower. */
static char *why_early(const struct tr_sweep_way *c, const struct tr_sweep_shape *s,
                       const struct tr_sweep_seen *seen)
{
    const json_t *rival = rival_of(c, s);
    double fastest = HUGE_VAL;

    for (int64_t i = 0; i < seen->count; i++)
        fastest = fmin(fastest, seen->seconds[i]);
    return tr_format("stopped early, %.0f %% slower than %s",
                     100.0 * (fastest / (double)s->global_batch / tr_sweep_pace(rival) - 1.0),
                     json_string_value(json_object_get(rival, "shape")));
}

static enum tr_status run_once(struct tr_sweep_way *c, const struct tr_sweep_shape *s,
                               const char *name, struct tr_sweep_seen *seen)
{
    char *log = tr_format("%s/%s.log", c->w->folder, name), *last = last_words(c, name);
    const double left = time_left(c), whole = tr_sweep_limit(c, s);
    struct tr_guard_run run = {
        .log = log, .limit = fmin(whole, left), .grace = TR_SWEEP_GRACE, .last = last};
    struct tr_guard_result end;
    struct tr_args a = {0};
    enum tr_status status =
        tr_sweep_run_words(c->w, &c->place, &c->space, s, name, most_of(c, s), &a);

    if (status == TR_OK) {
        char **argv = calloc((size_t)a.count + 1, sizeof *argv);

        TR_ASSERT(argv);
        for (int i = 0; i < a.count; i++)
            argv[i] = a.list[i].text;
        run.argv = argv;
        tr_sweep_environment(&c->place, s->ranks);
        status = tr_guard(&run, &end);
        free(argv);
    }
    if (status == TR_OK) {
        tr_sweep_look(c->w, log, &end, run.limit, seen);
        if (seen->early)
            seen->why = why_early(c, s, seen);
        c->stopped = end.end == TR_GUARD_STOPPED;
        c->ends = seen->left || (end.end == TR_GUARD_LATE && left < whole);
    }
    tr_args_release(&a);
    free(last);
    free(log);
    return status;
}

/* What the next expectations are made of. */
static void learn(struct tr_sweep_way *c, const struct tr_sweep_shape *s,
                  const struct tr_sweep_seen *seen)
{
    double sum = 0.0, mean;

    c->ran++;
    c->took += seen->end.seconds;
    if (!seen->whole)
        return;
    for (int64_t i = 0; i < seen->count; i++)
        sum += seen->seconds[i];
    mean = sum / (double)seen->count;
    if (c->iterations <= 0.0)
        c->start = 0.0;
    c->start = fmax(c->start, seen->end.seconds - mean * (double)c->w->iters);
    c->iterations += mean;
    c->predicted += s->seconds;
}

/* Seconds that all runs that are left are expected to take. */
static double remaining(const struct tr_sweep_way *c)
{
    double seconds = 0.0;

    for (int i = 0; i < c->space.runs; i++)
        seconds += expected(c, &c->space.shape[i]) * (double)tr_sweep_runs_left(c, i);
    return seconds;
}

static void tell_begin(const struct tr_sweep_way *c, int i)
{
    const struct tr_sweep_shape *s = &c->space.shape[i];
    char text[TR_DURATION_BYTES];

    tr_print("[%d/%d] %s: ", tr_sweep_ready(c) + 1, c->space.runs, s->name);
    if (c->w->repeats > 1)
        tr_print("run %lld of %lld, ", (long long)tr_sweep_runs_of(c, i) + 1,
                 (long long)c->w->repeats);
    if (s->seconds > 0.0)
        tr_print("predicted %.4g s/it, ", s->seconds);
    tr_print("about %s\n", tr_text_duration(TR_DURATION_UNITS, expected(c, s), text));
}

static void tell_end(const struct tr_sweep_way *c, const json_t *record)
{
    const json_t *m = json_object_get(record, "measured");
    char text[TR_DURATION_BYTES];
    int64_t left = 0;

    for (int i = 0; i < c->space.runs; i++)
        left += tr_sweep_runs_left(c, i);
    if (tr_sweep_is_good(record))
        tr_print("      %.4g s/it, %.4g samples/s, %.4g TFLOP/s",
                 json_number_value(json_object_get(m, "seconds_per_it")),
                 json_number_value(json_object_get(m, "samples_per_second")),
                 json_number_value(json_object_get(m, "tflops")));
    else
        tr_print("      %s%s", json_is_true(json_object_get(record, "early")) ? "" : "failed: ",
                 json_string_value(json_object_get(record, "error")));
    if (left > 0)
        tr_print("; %lld left, about %s", (long long)left,
                 tr_text_duration(TR_DURATION_UNITS, remaining(c), text));
    tr_print("\n");
}

/* A run of the shape has ended; those after one that failed would most likely fail too. */
static enum tr_status keep_run(struct tr_sweep_way *c, int i, const struct tr_sweep_seen *seen)
{
    const struct tr_sweep_shape *s = &c->space.shape[i];
    struct tr_sweep_state *t = &c->state[i];
    json_t *command, *record;
    enum tr_status status = tr_sweep_command(c->w, &c->space, s, &command);

    if (status == TR_OK) {
        json_array_append_new(t->runs, tr_sweep_run_record(seen));
        t->ready = !seen->whole || tr_sweep_runs_of(c, i) >= c->w->repeats;
        record = tr_sweep_result(c->w, &c->place, &c->space, s, command, t->runs);
        tell_end(c, record);
        status = tr_sweep_results_add(&c->results, record);
    }
    json_decref(command);
    if (status == TR_OK)
        status = tr_sweep_write_tables(c);
    return status;
}

/* The next run of a shape.  One that the end of the sweep interrupts does not count. */
static enum tr_status run_shape(struct tr_sweep_way *c, int i)
{
    const struct tr_sweep_shape *s = &c->space.shape[i];
    struct tr_sweep_seen seen = {0};
    char *name = tr_format("%s.%lld", s->name, (long long)tr_sweep_runs_of(c, i));
    enum tr_status status;

    tell_begin(c, i);
    status = run_once(c, s, name, &seen);
    free(name);
    if (status == TR_OK && !c->stopped && !c->ends) {
        learn(c, s, &seen);
        status = keep_run(c, i, &seen);
    }
    tr_sweep_seen_release(&seen);
    return status;
}

/* Node-hours of all runs that the records have. */
static double spent(const struct tr_sweep_way *c)
{
    const json_t *record, *run;
    size_t i, k;
    double sum = 0.0;

    json_array_foreach(c->results.newest, i, record)
    {
        const double nodes = json_number_value(json_object_get(record, "nodes"));

        json_array_foreach(json_object_get(record, "runs"), k, run) sum +=
            nodes * json_number_value(json_object_get(run, "seconds_in_all")) / 3600.0;
    }
    return sum;
}

/* Whether the next run of the shape stays within --sweep-node-hours. */
static bool within_budget(const struct tr_sweep_way *c, const struct tr_sweep_shape *s)
{
    const double hours = expected(c, s) / 3600.0;

    return c->w->node_hours <= TR_UNSET_REAL ||
           spent(c) + hours * tr_sweep_nodes(&c->place, s->ranks) <= c->w->node_hours;
}

static bool may_run(const struct tr_sweep_way *c, int i)
{
    const struct tr_sweep_shape *s = &c->space.shape[i];

    return !c->state[i].ready && expected(c, s) < time_left(c) && within_budget(c, s);
}

/* The shape whose turn it is, of those for which there is time, or -1. */
static int next_shape(const struct tr_sweep_way *c)
{
    int *order = calloc((size_t)c->space.runs + 1, sizeof *order), found = -1;

    TR_ASSERT(order);
    for (int64_t k = 0; k < c->w->repeats && found < 0; k++) {
        tr_sweep_shuffle(c->w, &c->space, k, order);
        for (int i = 0; i < c->space.runs && found < 0; i++)
            if (tr_sweep_runs_of(c, order[i]) == k && may_run(c, order[i]))
                found = order[i];
    }
    free(order);
    return found;
}

/* Shapes with runs left for which only node-hours are missing. */
static int beyond_budget(const struct tr_sweep_way *c)
{
    int n = 0;

    for (int i = 0; i < c->space.runs; i++)
        n += !c->state[i].ready && !within_budget(c, &c->space.shape[i]);
    return n;
}

/* The budget does not do for `left` shapes. */
static enum tr_status tell_budget(const struct tr_sweep_way *c, int left)
{
    tr_print("%.4g of %.4g node-hours are spent, and %d shape%s would take more; the same command "
             "with more --sweep-node-hours goes on\n",
             spent(c), c->w->node_hours, left, tr_plural(left));
    if (json_array_size(c->results.newest) > 0)
        return TR_OK;
    return TR_FAIL(TR_ECONFIG,
                   "no shape is expected to end within --sweep-node-hours %g: give more, or "
                   "fewer --sweep-iters",
                   c->w->node_hours);
}

enum tr_status tr_sweep_run_all(struct tr_sweep_way *c)
{
    int i, left, done = tr_sweep_ready(c);

    if (done > 0)
        tr_print("%d of %d shapes have results in %s and are not run again\n", done, c->space.runs,
                 c->results.path);
    while (!c->stopped && !c->ends && (i = next_shape(c)) >= 0) {
        TR_TRY(run_shape(c, i));
        c->stopped = c->stopped || tr_guard_stopped();
    }
    done = tr_sweep_ready(c);
    left = beyond_budget(c);
    if (done == c->space.runs)
        return TR_OK;
    if (left > 0 && !c->stopped && !c->ends) {
        TR_TRY(tell_budget(c, left));
        if (done + left == c->space.runs)
            return TR_OK;
    }
    return TR_FAIL(TR_ETEMP,
                   "%s; %d of %d shapes have results, and the same command goes on with the others",
                   c->stopped ? "the sweep was asked to stop" : "the job comes to its end", done,
                   c->space.runs);
}
