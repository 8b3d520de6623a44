/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/sweep_parts.h"

#include <stdlib.h>

#include "sweep/command.h"
#include "sweep/tables.h"
#include "util/file.h"

/* Of a record that the sweep goes on from. */
static void take(struct tr_sweep_way *c, struct tr_sweep_state *t, const json_t *record)
{
    const json_t *runs = json_object_get(record, "runs");
    const size_t n = json_array_size(runs);

    if (!tr_sweep_is_good(record) && c->w->again)
        return;
    json_array_extend(t->runs, (json_t *)(uintptr_t)runs);
    t->ready = (int64_t)n >= c->w->repeats || !tr_sweep_is_good(json_array_get(runs, n - 1));
}

/* Does the shape have a result?  One of the same name but other options belongs to another sweep. */
static enum tr_status look_up(struct tr_sweep_way *c, int i)
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
enum tr_status tr_sweep_write_tables(const struct tr_sweep_way *c)
{
    return c->results.alone ? TR_OK : tr_sweep_tables(c->w, &c->results, &c->space, c->w->folder);
}

enum tr_status tr_sweep_open(struct tr_sweep_way *c)
{
    TR_TRY(tr_make_dirs(c->w->folder));
    TR_TRY(tr_sweep_results_open(c->w->folder, c->w->only, 2.0 * TR_SWEEP_GRACE, &c->results));
    c->state = calloc((size_t)c->space.runs + 1, sizeof *c->state);
    TR_ASSERT(c->state);
    for (int i = 0; i < c->space.runs; i++)
        c->state[i].runs = json_array();
    for (int i = 0; i < c->space.runs; i++)
        TR_TRY(look_up(c, i));
    return tr_sweep_write_tables(c);
}

/* Shapes with nothing left to run, and of these those that trained to their end. */
int tr_sweep_ready(const struct tr_sweep_way *c)
{
    int n = 0;

    for (int i = 0; i < c->space.runs; i++)
        n += c->state[i].ready;
    return n;
}

int tr_sweep_good(const struct tr_sweep_way *c)
{
    int n = 0;

    for (int i = 0; i < c->space.runs; i++)
        n += tr_sweep_is_good(json_array_get(c->state[i].runs, 0));
    return n;
}

/* Runs that a shape has, and those that are left, for all that is known. */
int64_t tr_sweep_runs_of(const struct tr_sweep_way *c, int i)
{
    return (int64_t)json_array_size(c->state[i].runs);
}

int64_t tr_sweep_runs_left(const struct tr_sweep_way *c, int i)
{
    return c->state[i].ready ? 0 : c->w->repeats - tr_sweep_runs_of(c, i);
}

/* Shapes whose last run was ended because it was slower than the best. */
int tr_sweep_early(const struct tr_sweep_way *c)
{
    int n = 0;

    for (int i = 0; i < c->space.runs; i++)
        n += json_is_true(json_object_get(
            json_array_get(c->state[i].runs, (size_t)tr_sweep_runs_of(c, i) - 1), "early"));
    return n;
}
