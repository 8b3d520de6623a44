/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sweep/array.h"
#include "sweep/command.h"
#include "sweep/guard.h"
#include "sweep/shuffle.h"
#include "sweep/sweep_parts.h"
#include "sweep/tables.h"
#include "job/job.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

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

/* ---- output ---- */

static void tell_place(const struct tr_sweep_way *c)
{
    char text[TR_DURATION_BYTES];

    tr_print("%d shape%s: %d to run, %d that cannot be\n", c->space.count,
             tr_plural(c->space.count), c->space.runs, c->space.count - c->space.runs);
    for (int i = c->space.runs; i < c->space.count; i++)
        tr_print("  not %s: %s\n", c->space.shape[i].name, c->space.shape[i].dropped);
    if (!c->has_machine)
        tr_print("no --machine, so no times are predicted%s\n",
                 tr_sweep_shuffles(c->w) ? "" : ": those with the least bubble run first");
    if (c->place.end != TR_JOB_NO_END)
        tr_print(
            "job %s ends in %s, says %s\n", c->place.job,
            tr_text_duration(TR_DURATION_UNITS, (double)(c->place.end - (int64_t)time(NULL)), text),
            c->place.how);
}

static enum tr_status tell_run(const struct tr_sweep_way *c, const struct tr_sweep_shape *s)
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
            tr_sweep_limit(c, s));
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

static void tell_order(const struct tr_sweep_way *c)
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

static enum tr_status tell_runs(const struct tr_sweep_way *c)
{
    for (int i = 0; i < c->space.runs; i++)
        TR_TRY(tell_run(c, &c->space.shape[i]));
    tell_order(c);
    return TR_OK;
}

/* The shape of this sweep that is fastest per sample, and the options to type for it. */
static enum tr_status tell_best(const struct tr_sweep_way *c)
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

static enum tr_status tell_results(const struct tr_sweep_way *c)
{
    const int good = tr_sweep_good(c), early = tr_sweep_early(c);

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
static enum tr_status make_arrays(struct tr_sweep_way *c)
{
    struct tr_sweep_task *task = calloc((size_t)c->space.runs + 1, sizeof *task);
    int *order = calloc((size_t)c->space.runs + 1, sizeof *order), n = 0;
    enum tr_status s;

    TR_ASSERT(task && order);
    tr_sweep_shuffle(c->w, &c->space, 0, order);
    for (int i = 0; i < c->space.runs; i++) {
        const struct tr_sweep_shape *shape = &c->space.shape[order[i]];
        const int64_t left = c->state ? tr_sweep_runs_left(c, order[i]) : c->w->repeats;

        if (left > 0)
            task[n++] = (struct tr_sweep_task){
                shape, (double)left * (tr_sweep_limit(c, shape) + TR_SWEEP_GRACE) + TR_SWEEP_START +
                           TR_SWEEP_MARGIN};
    }
    if (n == 0)
        tr_print("all %d shapes have results, so there is nothing to submit\n", c->space.runs);
    s = tr_sweep_arrays(c->w, &c->place, task, n);
    free(task);
    free(order);
    return s;
}

/* What is there so far. */
static enum tr_status tell_collected(const struct tr_sweep_way *c)
{
    const int done = tr_sweep_ready(c);

    if (done == c->space.runs)
        return tell_results(c);
    TR_TRY(tell_best(c));
    return TR_FAIL(
        TR_ETEMP,
        "%d of %d shapes have results so far, which are in %s/results.md; call it again, "
        "or run the others with --sweep-array or without --sweep-collect",
        done, c->space.runs, c->w->folder);
}

static enum tr_status sweep(struct tr_sweep_way *c)
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
    TR_TRY(tr_sweep_open(c));
    if (w->array)
        return make_arrays(c);
    if (w->collect)
        return tell_collected(c);
    TR_TRY(tr_sweep_run_all(c));
    return tell_results(c);
}

enum tr_status tr_sweep_run(const struct tr_sweep *w)
{
    struct tr_sweep_way c = {.w = w, .start = TR_SWEEP_START, .results = {.fd = -1}};
    const enum tr_status s = sweep(&c);

    for (int i = 0; c.state && i < c.space.runs; i++)
        json_decref(c.state[i].runs);
    free(c.state);
    tr_sweep_space_release(&c.space);
    if (c.results.path)
        tr_sweep_results_close(&c.results);
    return s;
}
