/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>

#include "config/strategy.h"
#include "train/logging_parts.h"
#include "train/profile.h"
#include "train/start.h"
#include "util/file.h"
#include "util/log.h"
#include "util/text.h"

/* Stages whose parameters a short log has. */
enum { MOST_STAGES = 4 };

/* ---- sizes and arguments ---- */

/* Lines of set-up, all or those of a short log. */
static void put_lines(const struct tr_config *c, char *text, FILE *f)
{
    if (!c->log_arguments)
        tr_lines_shorten(text);
    if (text[0] != '\0')
        fprintf(f, "%s\n", text);
}

static void tell_strategy(const struct tr_config *c)
{
    char *text = c->strategy ? tr_strategy_text(c->strategy) : NULL;

    if (text)
        tr_notice("> %s\n", text);
    free(text);
}

/* The arguments block of a run, as it was settled. */
static void put_arguments(const struct tr_config *c, const struct tr_shape *s, bool whole, FILE *f)
{
    struct tr_config settled = *c;
    struct tr_told told;

    settled.log_interval = s->amounts.log_interval;
    settled.world_size = s->layout.world;
    tr_dims_tell(&settled, &s->dims, &told);
    tr_config_print(&told.options, whole ? NULL : &settled, f);
}

void tr_logging_sizes(const struct tr_config *c, const struct tr_shape *s, FILE *f)
{
    char text[TR_REPORT_BYTES];

    tr_lines_world(text, sizeof text, &s->layout, &s->precision);
    put_lines(c, text, f);
    put_arguments(c, s, c->log_arguments, f);
    tr_lines_setup(text, sizeof text, s, tr_config_spelling("tokenizer-type", c->tokenizer_type),
                   (uint64_t)c->seed);
    put_lines(c, text, f);
    if (tr_lines_stages(text, sizeof text, &s->layout, s->dims.layers) > 0)
        fprintf(f, "%s\n", text);
}

static FILE *memory(char **text, size_t *size)
{
    FILE *f = open_memstream(text, size);

    if (!f)
        tr_die(TR_ERESOURCE, "no memory left for the list of arguments");
    return f;
}

/* All arguments, beside the checkpoints.  Without them training is none the worse. */
static void keep_arguments(const struct tr_config *c, const struct tr_shape *s)
{
    char *path = tr_format("%s/" TR_ARGUMENTS_FILE, c->save), *text = NULL;
    size_t size;
    FILE *f = memory(&text, &size);

    put_arguments(c, s, true, f);
    fclose(f);
    if (tr_file_replace(path, text, size) != TR_OK)
        tr_log(TR_LOG_WARNING, "the arguments of this start are not kept: %s", tr_last_error());
    free(text);
    free(path);
}

/* What Megatron prints before it builds the model: sizes, arguments, tokenizer, groups. */
void tr_logging_setup(const struct tr_run *r, double began)
{
    const struct tr_config *c = r->config;
    char text[TR_REPORT_BYTES], *sizes = NULL;
    size_t size;
    FILE *f;

    if (r->world->rank != 0)
        return;
    f = memory(&sizes, &size);
    tr_logging_sizes(c, &r->shape, f);
    fclose(f);
    tr_print("%s", sizes);
    free(sizes);
    tell_strategy(c);
    if (c->save && !r->only)
        keep_arguments(c, &r->shape);
    tr_print("> computing with %s on each of %d rank%s of this node\n",
             r->queue.on->describe(r->device), r->launch.local_size,
             tr_plural(r->launch.local_size));
    if (tr_profile_clock(r))
        tr_print("> clock of the timers: %s\n", tr_profile_clock(r));
    if (tr_start_seconds() >= 0.0)
        began = tr_now() - tr_start_seconds();
    tr_lines_initialized(text, sizeof text, tr_now() - began, tr_moment_now(c->log_format));
    tr_logging_tell(r, text);
}

void tr_logging_tell(const struct tr_run *r, char *text)
{
    if (!r->config->log_arguments)
        tr_lines_shorten(text);
    if (text[0] != '\0')
        tr_print_rank0("%s\n", text);
}

/* ---- the model, and the beginning ---- */

/* The rank of the first replica with most parameters. */
static int largest(const struct tr_run *r, const int64_t *all)
{
    int most = 0;

    for (int rank = 0; rank < r->world->size; rank++)
        if (tr_grid_place(&r->shape.layout, rank).dp == 0 && all[rank] > all[most])
            most = rank;
    return most;
}

/* Megatron prints one line from each rank of the first replica; here rank 0 prints them in order.
   A short log has the first tensor rank of each stage, or of many stages the largest rank. */
void tr_logging_parameters(struct tr_run *r)
{
    int64_t mine = tr_params_number(&r->model.params);
    int64_t *all = calloc((size_t)r->world->size, sizeof *all);
    const bool whole = r->config->log_arguments, many = r->shape.layout.p > MOST_STAGES;
    char text[TR_REPORT_BYTES];
    int most;

    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for the list of ranks");
    r->world->via->gather_all(r->world, &mine, sizeof mine, all);
    most = largest(r, all);
    for (int rank = 0; rank < r->world->size; rank++) {
        struct tr_place at = tr_grid_place(&r->shape.layout, rank);

        if (at.dp != 0 || (!whole && (many ? rank != most : at.tp != 0)))
            continue;
        tr_lines_parameters(text, sizeof text, at.tp, at.pp, all[rank]);
        tr_print_rank0("%s\n", text);
    }
    free(all);
}

/* ---- the end ---- */

void tr_logging_places(const struct tr_run *r, bool saved)
{
    const struct tr_config *c = r->config;
    const struct {
        const char *what, *where;
    } places[] = {
        {"checkpoints and " TR_ARGUMENTS_FILE " in", saved ? c->save : NULL},
        {TR_ARGUMENTS_FILE " in", saved ? NULL : c->save},
        {"the log in", c->log_file},
        {"TensorBoard events in", c->tensorboard_dir},
        {"JSON lines in", c->log_jsonl},
        {"the trace in", c->trace},
    };
    char *text = NULL;

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        char *one = places[i].where ? tr_format("%s %s", places[i].what, places[i].where) : NULL;

        if (one)
            text = tr_text_join(text, ", ", one);
        free(one);
    }
    if (text)
        tr_notice_rank0("> this run wrote %s%s%s\n", text, saved ? "; go on with --load " : "",
                        saved ? c->save : "");
    free(text);
}

void tr_logging_news(const struct tr_run *r)
{
    const char *line;

    while (r->queue.on->news && (line = r->queue.on->news(r->device)) != NULL)
        tr_print_rank0("> %s\n", line);
}

void tr_logging_start(const struct tr_run *r)
{
    char text[TR_REPORT_BYTES];

    if (tr_logging_is_brief(r)) {
        tr_logging_brief_start(r);
        return;
    }
    /* Tests begin runs that no program was started for. */
    if (tr_start_seconds() >= 0.0) {
        tr_lines_start(text, sizeof text, tr_start_parts(), tr_start_seconds());
        tr_print_rank0("%s\n", text);
    }
    tr_lines_training(text, sizeof text, tr_moment_now(r->config->log_format));
    tr_logging_tell(r, text);
}
