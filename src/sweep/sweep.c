/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/sweep.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sweep/array.h"
#include "sweep/command.h"
#include "sweep/guard.h"
#include "sweep/place.h"
#include "sweep/results.h"
#include "sweep/shuffle.h"
#include "sweep/space.h"
#include "sweep/tables.h"
#include "job/job.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

/* Seconds that a group of processes has between SIGTERM and SIGKILL, that a run may take to start
   until one has been seen, and that are kept free before the job ends. */
static const double GRACE = 10.0, START = 30.0, MARGIN = 60.0;

/* The least time limit of a run without --sweep-timeout, what it has where nothing is predicted, and
   how much longer than predicted it may take. */
static const double LEAST_LIMIT = 600.0, BLIND_LIMIT = 1800.0, SLACK = 10.0;

/* What a shape has. */
struct state {
    json_t *runs; /* array of those that count, of earlier sweeps too; owned */
    bool ready;   /* there is nothing left to run */
};

/* A sweep under way. */
struct sweep {
    const struct tr_sweep *w;
    struct tr_sweep_place place;
    struct tr_machine machine;
    bool has_machine;
    struct tr_sweep_space space;
    struct tr_sweep_results results;
    struct state *state; /* [space.runs] */
    int ran;             /* runs of this sweep */
    double took;         /* seconds of these */
    double start;        /* seconds of a run besides its iterations, the most so far */
    double iterations;   /* seconds of iterations so far, and what was predicted for them */
    double predicted;
    bool stopped, ends; /* a signal came; the job comes to its end */
};

/* ---- results that exist ---- */

static enum tr_status check(const struct tr_sweep *w, const struct tr_config *c)
{
    const struct {
        bool given;
        const char *option, *why;
    } refused[] = {
        {c->save != NULL, "save", "a sweep keeps no checkpoints"},
        {c->load != NULL, "load", "each run of a sweep begins at the start"},
        {c->use_checkpoint_args, "use-checkpoint-args", "a sweep reads no checkpoint"},
        {c->rampup_batch_size.count > 0, "rampup-batch-size",
         "a sweep times one batch size at a time"},
        {c->skip_train, "skip-train", "a sweep times training"},
        {c->world_size != TR_UNSET_INT, "world-size", "a sweep takes --ranks"},
        {c->exit_interval != TR_UNSET_INT, "exit-interval", "--sweep-iters says how long a run is"},
        {c->exit_slower_than > TR_UNSET_REAL, "exit-slower-than",
         "--sweep-stop-early says when a shape is too slow"},
    };

    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (refused[i].given)
            return TR_FAIL(TR_ECONFIG, "%s: leave out --%s", refused[i].why, refused[i].option);
    if (w->warmup >= w->iters)
        return TR_FAIL(
            TR_ECONFIG,
            "of --sweep-iters %lld none would count after --sweep-warmup %lld: take more "
            "iterations, or a shorter warm-up",
            (long long)w->iters, (long long)w->warmup);
    if (w->stop_early > TR_UNSET_REAL && w->iters <= w->warmup + TR_SWEEP_ENOUGH)
        return TR_FAIL(TR_ECONFIG,
                       "--sweep-stop-early decides after %d iterations that count, and no run has "
                       "more: give --sweep-iters above %lld, or leave it out",
                       TR_SWEEP_ENOUGH, (long long)w->warmup + TR_SWEEP_ENOUGH);
    return TR_OK;
}

/* Of a record that the sweep goes on from. */
static void take(struct sweep *c, struct state *t, const json_t *record)
{
    const json_t *runs = json_object_get(record, "runs");
    const size_t n = json_array_size(runs);

    if (!tr_sweep_is_good(record) && c->w->again)
        return;
    json_array_extend(t->runs, (json_t *)(uintptr_t)runs);
    t->ready = (int64_t)n >= c->w->repeats || !tr_sweep_is_good(json_array_get(runs, n - 1));
}

/* Does the shape have a result?  One of the same name but other options belongs to another sweep. */
static enum tr_status look_up(struct sweep *c, int i)
{
    const struct tr_sweep_shape *s = &c->space.shape[i];
    const json_t *record = tr_sweep_results_find(&c->results, s->name);
    json_t *command;
    enum tr_status status;

    if (!record)
        return TR_OK;
    status = tr_sweep_command(c->w, &c->space, s, &command);
    if (status == TR_OK && !json_equal(command, json_object_get(record, "command")))
        status =
            TR_FAIL(TR_ECONFIG,
                    "%s has a result of %s with other options: take another --sweep-folder, or "
                    "remove that one",
                    c->results.path, s->name);
    json_decref(command);
    take(c, &c->state[i], record);
    return status;
}

/* Those that run a shape alone leave the tables of the folder to others. */
static enum tr_status write_tables(const struct sweep *c)
{
    return c->results.alone ? TR_OK : tr_sweep_tables(c->w, &c->results, &c->space, c->w->folder);
}

static enum tr_status open_all(struct sweep *c)
{
    TR_TRY(tr_make_dirs(c->w->folder));
    TR_TRY(tr_sweep_results_open(c->w->folder, c->w->only, 2.0 * GRACE, &c->results));
    c->state = calloc((size_t)c->space.runs + 1, sizeof *c->state);
    TR_ASSERT(c->state);
    for (int i = 0; i < c->space.runs; i++)
        c->state[i].runs = json_array();
    for (int i = 0; i < c->space.runs; i++)
        TR_TRY(look_up(c, i));
    return write_tables(c);
}

/* Shapes with nothing left to run, and of these those that trained to their end. */
static int count_ready(const struct sweep *c)
{
    int n = 0;

    for (int i = 0; i < c->space.runs; i++)
        n += c->state[i].ready;
    return n;
}

static int count_good(const struct sweep *c)
{
    int n = 0;

    for (int i = 0; i < c->space.runs; i++)
        n += tr_sweep_is_good(json_array_get(c->state[i].runs, 0));
    return n;
}

/* Runs that a shape has, and those that are left, for all that is known. */
static int64_t runs_of(const struct sweep *c, int i)
{
    return (int64_t)json_array_size(c->state[i].runs);
}

static int64_t runs_left(const struct sweep *c, int i)
{
    return c->state[i].ready ? 0 : c->w->repeats - runs_of(c, i);
}

/* ---- time ---- */

/* Seconds that a run of the shape is expected to take. */
static double expected(const struct sweep *c, const struct tr_sweep_shape *s)
{
    const double ratio = c->predicted > 0.0 ? c->iterations / c->predicted : 1.0;

    if (s->seconds > 0.0)
        return c->start + (double)c->w->iters * s->seconds * ratio;
    return c->ran > 0 ? c->took / c->ran : c->start;
}

static double limit_of(const struct sweep *c, const struct tr_sweep_shape *s)
{
    if (c->w->timeout > 0.0)
        return 60.0 * c->w->timeout;
    if (s->seconds <= 0.0)
        return BLIND_LIMIT;
    return LEAST_LIMIT + SLACK * (double)c->w->iters * s->seconds;
}

/* Seconds until the job ends, with a margin; endless where it has no end. */
static double time_left(const struct sweep *c)
{
    return c->place.end == TR_JOB_NO_END ? HUGE_VAL
                                         : (double)(c->place.end - (int64_t)time(NULL)) - MARGIN;
}

static const char *duration(double seconds, char *text, size_t size)
{
    if (seconds < 100.0)
        snprintf(text, size, "%.0f s", seconds);
    else if (seconds < 6000.0)
        snprintf(text, size, "%.0f min", seconds / 60.0);
    else
        snprintf(text, size, "%.1f h", seconds / 3600.0);
    return text;
}

/* ---- running ---- */

/* What remains of a step whose srun was killed is asked for by its name. */
static char *last_words(const struct sweep *c, const char *name)
{
    if (!c->place.job)
        return NULL;
    return tr_format("squeue -h -s -j %s -o '%%i %%j' | while read -r step name; do\n"
                     "[ \"$name\" != '%s' ] || scancel --signal=KILL \"$step\"; done",
                     c->place.job, name);
}

/* The record that a run of the shape is compared with, or NULL: the best is never stopped. */
static const json_t *rival_of(const struct sweep *c, const struct tr_sweep_shape *s)
{
    const json_t *best = c->w->stop_early > TR_UNSET_REAL ? tr_sweep_best(&c->results) : NULL;

    return best && strcmp(json_string_value(json_object_get(best, "shape")), s->name) != 0 ? best
                                                                                           : NULL;
}

/* Seconds of an iteration above which a run of the shape leaves; 0 for none. */
static double most_of(const struct sweep *c, const struct tr_sweep_shape *s)
{
    const json_t *rival = rival_of(c, s);

    if (!rival)
        return 0.0;
    return tr_sweep_pace(rival) * (1.0 + c->w->stop_early / 100.0) * (double)s->global_batch;
}

/* Of a run that was ended early: by how much even its fastest iteration is slower. */
static char *why_early(const struct sweep *c, const struct tr_sweep_shape *s,
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

static enum tr_status run_once(struct sweep *c, const struct tr_sweep_shape *s, const char *name,
                               struct tr_sweep_seen *seen)
{
    char *log = tr_format("%s/%s.log", c->w->folder, name), *last = last_words(c, name);
    const double left = time_left(c), whole = limit_of(c, s);
    struct tr_guard_run run = {
        .log = log, .limit = fmin(whole, left), .grace = GRACE, .last = last};
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
static void learn(struct sweep *c, const struct tr_sweep_shape *s, const struct tr_sweep_seen *seen)
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
static double remaining(const struct sweep *c)
{
    double seconds = 0.0;

    for (int i = 0; i < c->space.runs; i++)
        seconds += expected(c, &c->space.shape[i]) * (double)runs_left(c, i);
    return seconds;
}

static void tell_begin(const struct sweep *c, int i)
{
    const struct tr_sweep_shape *s = &c->space.shape[i];
    char text[32];

    tr_print("[%d/%d] %s: ", count_ready(c) + 1, c->space.runs, s->name);
    if (c->w->repeats > 1)
        tr_print("run %lld of %lld, ", (long long)runs_of(c, i) + 1, (long long)c->w->repeats);
    if (s->seconds > 0.0)
        tr_print("predicted %.4g s/it, ", s->seconds);
    tr_print("about %s\n", duration(expected(c, s), text, sizeof text));
}

static void tell_end(const struct sweep *c, const json_t *record)
{
    const json_t *m = json_object_get(record, "measured");
    char text[32];
    int64_t left = 0;

    for (int i = 0; i < c->space.runs; i++)
        left += runs_left(c, i);
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
                 duration(remaining(c), text, sizeof text));
    tr_print("\n");
}

/* A run of the shape has ended; those after one that failed would most likely fail too. */
static enum tr_status keep_run(struct sweep *c, int i, const struct tr_sweep_seen *seen)
{
    const struct tr_sweep_shape *s = &c->space.shape[i];
    struct state *t = &c->state[i];
    json_t *command, *record;
    enum tr_status status = tr_sweep_command(c->w, &c->space, s, &command);

    if (status == TR_OK) {
        json_array_append_new(t->runs, tr_sweep_run_record(seen));
        t->ready = !seen->whole || runs_of(c, i) >= c->w->repeats;
        record = tr_sweep_result(c->w, &c->place, &c->space, s, command, t->runs);
        tell_end(c, record);
        status = tr_sweep_results_add(&c->results, record);
    }
    json_decref(command);
    if (status == TR_OK)
        status = write_tables(c);
    return status;
}

/* The next run of a shape.  One that the end of the sweep interrupts does not count. */
static enum tr_status run_shape(struct sweep *c, int i)
{
    const struct tr_sweep_shape *s = &c->space.shape[i];
    struct tr_sweep_seen seen = {0};
    char *name = tr_format("%s.%lld", s->name, (long long)runs_of(c, i));
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
static double spent(const struct sweep *c)
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
static bool within_budget(const struct sweep *c, const struct tr_sweep_shape *s)
{
    const double hours = expected(c, s) / 3600.0;

    return c->w->node_hours <= TR_UNSET_REAL ||
           spent(c) + hours * tr_sweep_nodes(&c->place, s->ranks) <= c->w->node_hours;
}

static bool may_run(const struct sweep *c, int i)
{
    const struct tr_sweep_shape *s = &c->space.shape[i];

    return !c->state[i].ready && expected(c, s) < time_left(c) && within_budget(c, s);
}

/* The shape whose turn it is, of those for which there is time, or -1. */
static int next_shape(const struct sweep *c)
{
    int *order = calloc((size_t)c->space.runs + 1, sizeof *order), found = -1;

    TR_ASSERT(order);
    for (int64_t k = 0; k < c->w->repeats && found < 0; k++) {
        tr_sweep_shuffle(c->w, &c->space, k, order);
        for (int i = 0; i < c->space.runs && found < 0; i++)
            if (runs_of(c, order[i]) == k && may_run(c, order[i]))
                found = order[i];
    }
    free(order);
    return found;
}

/* Shapes with runs left for which only node-hours are missing. */
static int beyond_budget(const struct sweep *c)
{
    int n = 0;

    for (int i = 0; i < c->space.runs; i++)
        n += !c->state[i].ready && !within_budget(c, &c->space.shape[i]);
    return n;
}

/* The budget does not do for `left` shapes. */
static enum tr_status tell_budget(const struct sweep *c, int left)
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

static enum tr_status run_all(struct sweep *c)
{
    int i, left, done = count_ready(c);

    if (done > 0)
        tr_print("%d of %d shapes have results in %s and are not run again\n", done, c->space.runs,
                 c->results.path);
    while (!c->stopped && !c->ends && (i = next_shape(c)) >= 0) {
        TR_TRY(run_shape(c, i));
        c->stopped = c->stopped || tr_guard_stopped();
    }
    done = count_ready(c);
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

/* ---- output ---- */

static void tell_place(const struct sweep *c)
{
    char text[32];

    tr_print("%d shape%s: %d to run, %d that cannot be\n", c->space.count,
             tr_plural(c->space.count), c->space.runs, c->space.count - c->space.runs);
    for (int i = c->space.runs; i < c->space.count; i++)
        tr_print("  not %s: %s\n", c->space.shape[i].name, c->space.shape[i].dropped);
    if (!c->has_machine)
        tr_print("no --machine, so no times are predicted%s\n",
                 tr_sweep_shuffles(c->w) ? "" : ": those with the least bubble run first");
    if (c->place.end != TR_JOB_NO_END)
        tr_print("job %s ends in %s, says %s\n", c->place.job,
                 duration((double)(c->place.end - (int64_t)time(NULL)), text, sizeof text),
                 c->place.how);
}

static enum tr_status tell_run(const struct sweep *c, const struct tr_sweep_shape *s)
{
    struct tr_args a = {0};
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    char *name = tr_format("%s.0", s->name);
    enum tr_status status = tr_sweep_run_words(c->w, &c->place, &c->space, s, name, 0.0, &a);

    TR_ASSERT(f);
    fprintf(f, "\n# %s: ", s->name);
    if (s->seconds > 0.0)
        fprintf(f, "predicted %.4g s/it, ", s->seconds);
    fprintf(f, "%.1f MiB planned, bubble %.0f %%, at most %.0f s\n", s->mib, 100.0 * s->bubble,
            limit_of(c, s));
    for (int k = 0; k < a.count; k++) {
        tr_sweep_put_word(f, a.list[k].text);
        putc(k + 1 < a.count ? ' ' : '\n', f);
    }
    fclose(f);
    if (status == TR_OK)
        tr_print("%s", text);
    free(text);
    free(name);
    tr_args_release(&a);
    return status;
}

static void tell_order(const struct sweep *c)
{
    int *order = calloc((size_t)c->space.runs + 1, sizeof *order);

    TR_ASSERT(order);
    for (int64_t k = 0; tr_sweep_shuffles(c->w) && k < c->w->repeats; k++) {
        tr_sweep_shuffle(c->w, &c->space, k, order);
        tr_print("%s# repetition %lld:", k == 0 ? "\n" : "", (long long)k);
        for (int i = 0; i < c->space.runs; i++)
            tr_print(" %s", c->space.shape[order[i]].name);
        tr_print("\n");
    }
    free(order);
}

static enum tr_status tell_runs(const struct sweep *c)
{
    for (int i = 0; i < c->space.runs; i++)
        TR_TRY(tell_run(c, &c->space.shape[i]));
    tell_order(c);
    return TR_OK;
}

/* The shape of this sweep that is fastest per sample, and the options to type for it. */
static enum tr_status tell_best(const struct sweep *c)
{
    const json_t *best = tr_sweep_best(&c->results);
    const char *name = best ? json_string_value(json_object_get(best, "shape")) : NULL;
    enum tr_status status = TR_OK;

    for (int i = 0; name && i < c->space.runs; i++) {
        struct tr_args a = {0};

        if (strcmp(c->space.shape[i].name, name) != 0)
            continue;
        status = tr_sweep_shape_words(c->w, &c->space, &c->space.shape[i], &a);
        tr_print("fastest per sample: %s", name);
        for (int k = 0; k < a.count; k++)
            tr_print("%s%s", k == 0 ? ": " : " ", a.list[k].text);
        tr_print("\n");
        tr_args_release(&a);
    }
    return status;
}

/* Shapes whose last run was ended because it was slower than the best. */
static int count_early(const struct sweep *c)
{
    int n = 0;

    for (int i = 0; i < c->space.runs; i++)
        n += json_is_true(
            json_object_get(json_array_get(c->state[i].runs, (size_t)runs_of(c, i) - 1), "early"));
    return n;
}

static enum tr_status tell_results(const struct sweep *c)
{
    const int good = count_good(c), early = count_early(c);

    tr_print("%d of %d shapes trained to their end", good, c->space.runs);
    if (early > 0)
        tr_print(", %d stopped early", early);
    if (c->results.alone)
        tr_print("; --sweep-collect has the tables\n");
    else
        tr_print("; tables: %s/results.md, .csv\n", c->w->folder);
    if (good > 0)
        return tell_best(c);
    return TR_FAIL(TR_ERESOURCE,
                   "no shape trained to its end: %s/%s the reasons, and --sweep-again "
                   "runs them once more",
                   c->w->folder, c->results.alone ? "*.log have" : "results.md has");
}

/* ---- job arrays ---- */

/* What cannot be said together, or says nothing. */
static enum tr_status check_array(const struct tr_sweep *w)
{
    if ((w->array != NULL) + (w->only != NULL) + w->collect > 1)
        return TR_FAIL(TR_ECONFIG, "--sweep-array writes scripts, --sweep-only runs a shape and "
                                   "--sweep-collect makes tables: take one of them");
    if (!w->array && (w->submit || w->array_options.count > 0 || w->array_limit != TR_UNSET_INT))
        return TR_FAIL(TR_ECONFIG,
                       "--sweep-submit, --sweep-array-options and --sweep-array-limit are of "
                       "scripts of job arrays: give --sweep-array FILE, or leave them out");
    if (w->array && w->node_hours > TR_UNSET_REAL)
        return TR_FAIL(TR_ECONFIG,
                       "array tasks run at the same time and know of no common budget: leave out "
                       "--sweep-node-hours, and give --sweep-array-limit or fewer shapes");
    return TR_OK;
}

/* Scripts for all shapes that have runs left. */
static enum tr_status make_arrays(struct sweep *c)
{
    struct tr_sweep_task *task = calloc((size_t)c->space.runs + 1, sizeof *task);
    int *order = calloc((size_t)c->space.runs + 1, sizeof *order), n = 0;
    enum tr_status s;

    TR_ASSERT(task && order);
    tr_sweep_shuffle(c->w, &c->space, 0, order);
    for (int i = 0; i < c->space.runs; i++) {
        const struct tr_sweep_shape *shape = &c->space.shape[order[i]];
        const int64_t left = c->state ? runs_left(c, order[i]) : c->w->repeats;

        if (left > 0)
            task[n++] = (struct tr_sweep_task){shape, (double)left * (limit_of(c, shape) + GRACE) +
                                                          START + MARGIN};
    }
    if (n == 0)
        tr_print("all %d shapes have results, so there is nothing to submit\n", c->space.runs);
    s = tr_sweep_arrays(c->w, &c->place, task, n);
    free(task);
    free(order);
    return s;
}

/* What is there so far. */
static enum tr_status tell_collected(const struct sweep *c)
{
    const int done = count_ready(c);

    if (done == c->space.runs)
        return tell_results(c);
    TR_TRY(tell_best(c));
    return TR_FAIL(
        TR_ETEMP,
        "%d of %d shapes have results so far, which are in %s/results.md; call it again, "
        "or run the others with --sweep-array or without --sweep-collect",
        done, c->space.runs, c->w->folder);
}

static enum tr_status sweep(struct sweep *c)
{
    const struct tr_sweep *w = c->w;

    TR_TRY(check(w, w->base));
    TR_TRY(check_array(w));
    if (w->machine)
        TR_TRY(tr_machine_find(w->machine, &c->machine));
    c->has_machine = w->machine != NULL;
    TR_TRY(tr_sweep_place_find(w, &c->place));
    TR_TRY(tr_sweep_space_make(w, &c->place, c->has_machine ? &c->machine : NULL, &c->space));
    for (int i = 0; i < c->space.variants.number; i++)
        TR_TRY(check(w, &c->space.variants.config[i]));
    if (w->only)
        TR_TRY(tr_sweep_space_only(&c->space, w->only));
    tell_place(c);
    if (w->dry_run)
        return w->array ? make_arrays(c) : tell_runs(c);
    TR_TRY(tr_guard_signals());
    TR_TRY(open_all(c));
    if (w->array)
        return make_arrays(c);
    if (w->collect)
        return tell_collected(c);
    TR_TRY(run_all(c));
    return tell_results(c);
}

enum tr_status tr_sweep_run(const struct tr_sweep *w)
{
    struct sweep c = {.w = w, .start = START, .results = {.fd = -1}};
    const enum tr_status s = sweep(&c);

    for (int i = 0; c.state && i < c.space.runs; i++)
        json_decref(c.state[i].runs);
    free(c.state);
    tr_sweep_space_release(&c.space);
    if (c.results.path)
        tr_sweep_results_close(&c.results);
    return s;
}
