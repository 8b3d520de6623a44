/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/logging.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config/flops.h"
#include "config/theory.h"
#include "optim/stat.h"
#include "telemetry/gpus.h"
#include "train/logging_parts.h"
#include "train/scoring.h"
#include "train/start.h"
#include "util/log.h"
#include "util/text.h"

/* Timers of all ranks in a table, or those of the last rank in one line? */
static bool wants_table(const struct tr_config *c)
{
    return c->log_format == TR_FORMAT_CORE || c->timing_log_level != TR_UNSET_INT ||
           c->timing_log_option != TR_TIMING_MINMAX;
}

static void *room(size_t count, size_t size)
{
    void *p = calloc(count, size);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for the report of timers");
    return p;
}

/*
 * The last rank of the stage with the head has the loss, and its timers are the ones that people know.  Rank 0 prints its lines,
 * because launchers forward each rank's output on its own and lines of two ranks arrive in any order.
 * Rank 0 waits for no longer than the norm of the gradients made it wait.
 */
void tr_logging_fetch(struct tr_run *r, char *text)
{
    struct tr_comm *world = r->world;
    struct tr_leg leg = {.buf = text, .bytes = TR_REPORT_BYTES};
    const int from = tr_grid_log_rank(&r->shape.layout);
    struct tr_pending pending;

    if (from != 0 && (world->rank == 0 || world->rank == from)) {
        leg.dir = world->rank == from ? TR_LEG_SEND : TR_LEG_RECV;
        leg.peer = world->rank == from ? 0 : from;
        world->via->exchange_start(world, NULL, &leg, 1, &pending);
        world->via->finish(world, NULL, &pending);
    }
}

void tr_logging_last(struct tr_run *r, char *text)
{
    tr_logging_fetch(r, text);
    if (text[0] != '\0')
        tr_print_rank0("%s\n", text);
}

void tr_logging_validation(struct tr_run *r, const char *where, double loss)
{
    char text[TR_REPORT_BYTES];

    if (tr_logging_is_brief(r)) {
        tr_logging_brief_validation(r, where, loss);
        return;
    }
    tr_lines_validation(text, sizeof text, where, loss);
    tr_logging_last(r, text);
    if (r->config->evaluation_data && !tr_classify_of(r->config)) {
        tr_lines_evaluation(text, sizeof text, loss);
        tr_logging_last(r, text);
    }
}

void tr_logging_metrics(struct tr_run *r, const struct tr_scoring *scoring)
{
    char text[TR_REPORT_BYTES];

    tr_metrics_line(text, sizeof text, &scoring->scores, scoring->metrics);
    tr_logging_fetch(r, text);
    tr_notice_rank0("%s\n", text);
}

void tr_logging_done(const struct tr_logging *t)
{
    const struct tr_run *r = t->run;
    char text[TR_REPORT_BYTES];

    if (tr_logging_is_brief(r)) {
        tr_logging_brief_done(t);
        return;
    }
    tr_lines_done(text, sizeof text, tr_moment_now(r->config->log_format));
    tr_print_rank0("%s\n", text);
}

/* Resident memory now: the second number of statm, in pages. */
static int64_t resident_bytes(void)
{
    long long total, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (f) {
        if (fscanf(f, "%lld %lld", &total, &resident) != 2)
            resident = 0;
        fclose(f);
    }
    return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

static void tell_theory(struct tr_run *r)
{
    char text[TR_REPORT_BYTES];
    int64_t params = tr_comm_max(r->world, tr_params_number(&r->model.params));

    tr_lines_theory(text, sizeof text,
                    tr_theory_weights(&r->shape.precision, params, r->shape.dp.optimizer_shards),
                    tr_theory_activations(&r->shape));
    tr_print_rank0("%s\n", text);
}

/* "allocated" is the arena, "reserved" what the system counts as resident in this process. */
struct tr_memory_line tr_logging_memory_now(const struct tr_run *r)
{
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    return (struct tr_memory_line){
        .allocated = (int64_t)r->arena.used_bytes,
        .max_allocated = (int64_t)r->arena.capacity_bytes,
        .reserved = resident_bytes(),
        .max_reserved = (int64_t)usage.ru_maxrss * 1024,
    };
}

static void tell_memory(struct tr_logging *t)
{
    struct tr_run *r = t->run;
    struct tr_memory_line mine, *all = room((size_t)r->world->size, sizeof *all);
    char text[TR_REPORT_BYTES];

    if (r->config->log_format == TR_FORMAT_CORE && !t->memory_told)
        tell_theory(r);
    mine = tr_logging_memory_now(r);
    r->world->via->gather_all(r->world, &mine, sizeof mine, all);
    for (int rank = 0; rank < r->world->size; rank++) {
        if (tr_grid_place(&r->shape.layout, rank).dp != 0)
            continue;
        tr_lines_memory(text, sizeof text, r->config->log_format, rank, r->iteration, &all[rank]);
        tr_print_rank0("%s\n", text);
    }
    free(all);
    t->memory_told = true;
}

static void tell_split_table(struct tr_logging *t, int level, int iterations)
{
    struct tr_run *r = t->run;
    const int ranks = r->world->size;
    double mine[TR_TIMERS];
    enum tr_timer timers[TR_TIMERS];
    const struct tr_split_times times = {
        .ranks = ranks,
        .seconds = t->seconds,
        .host = (const char(*)[TR_HOST_BYTES])t->run->launch.host,
        .scratch = t->seconds + (ptrdiff_t)ranks * TR_TIMERS,
    };
    const int count = tr_timers_of_split(timers, level);

    tr_timers_read_split(mine);
    r->world->via->gather_all(r->world, mine, sizeof mine, t->seconds);
    if (r->world->rank == 0 &&
        tr_timers_split_table(t->table, TR_TIMERS_BYTES(ranks),
                              (enum tr_timer_view)r->config->timing_log_option, &times, timers,
                              count, iterations) > 0)
        tr_print("%s\n", t->table);
}

/* It is empty where no call has its waits measured. */
static void tell_split_line(struct tr_run *r, int iterations)
{
    char text[TR_REPORT_BYTES];

    tr_timers_split_line(text, sizeof text, iterations);
    tr_logging_last(r, text);
}

static void tell_timers(struct tr_logging *t, int iterations)
{
    struct tr_run *r = t->run;
    const struct tr_config *c = r->config;
    int level = c->timing_log_level == TR_UNSET_INT ? 0 : (int)c->timing_log_level, count;
    char text[TR_REPORT_BYTES];
    double mine[TR_TIMERS];
    enum tr_timer timers[TR_TIMERS];

    if (!wants_table(c)) {
        tr_timers_line(text, sizeof text, iterations);
        tr_logging_last(r, text);
        if (t->split)
            tell_split_line(r, iterations);
        return;
    }
    if (level == 0)
        return;
    tr_timers_read(mine);
    r->world->via->gather_all(r->world, mine, sizeof mine, t->seconds);
    count = tr_timers_of_level(timers, level);
    if (r->world->rank == 0 &&
        tr_timers_table_of(t->table, TR_TIMERS_BYTES(r->world->size),
                           (enum tr_timer_view)c->timing_log_option, t->seconds, r->world->size,
                           timers, count, iterations) > 0)
        tr_print("%s\n", t->table);
    if (t->split)
        tell_split_table(t, level, iterations);
}

void tr_logging_timers(struct tr_run *r, const enum tr_timer *timers, int count)
{
    size_t ranks = (size_t)r->world->size;
    char text[TR_REPORT_BYTES], *table;
    double mine[TR_TIMERS], *all;

    if (!wants_table(r->config)) {
        tr_timers_line_of(text, sizeof text, timers, count);
        tr_print_rank0("%s\n", text);
        return;
    }
    all = room(ranks * TR_TIMERS, sizeof *all);
    table = room(TR_TIMERS_BYTES(ranks), 1);
    tr_timers_read(mine);
    for (int i = 0; i < count; i++)
        tr_timer_take(timers[i]);
    r->world->via->gather_all(r->world, mine, sizeof mine, all);
    if (tr_timers_table_of(table, TR_TIMERS_BYTES(ranks),
                           (enum tr_timer_view)r->config->timing_log_option, all, (int)ranks,
                           timers, count, 1) > 0)
        tr_print_rank0("%s\n", table);
    free(table);
    free(all);
}

/* The time of an interval in which this rank only waited for messages: the timers of transfers. */
static double exposed(void)
{
    double sum = 0.0;

    for (int t = 0; t < TR_TIMERS; t++)
        if (tr_timer_is_transfer((enum tr_timer)t))
            sum += tr_timer_seconds((enum tr_timer)t);
    return sum;
}

void tr_logging_traffic(struct tr_logging *t, bool lost)
{
    struct tr_run *r = t->run;
    struct tr_traffic_count mine = r->traffic.count, *all;

    if (!r->traffic.on || !(lost || tr_logging_due(t, r->iteration)))
        return;
    mine.time[TR_TRAFFIC_PIPELINE_GROUP].compress = tr_timer_seconds(TR_TIMER_PACK);
    mine.time[TR_TRAFFIC_PIPELINE_GROUP].decompress = tr_timer_seconds(TR_TIMER_UNPACK);
    mine.time[TR_TRAFFIC_PIPELINE_GROUP].exposed = exposed();
    if (tr_dp_reduces(&r->dp))
        mine.time[TR_TRAFFIC_GRADIENTS_GROUP].exposed =
            tr_timer_seconds(TR_TIMER_PARAMS_ALL_REDUCE) +
            tr_timer_seconds(TR_TIMER_PARAMS_ALL_GATHER);
    all = room((size_t)r->world->size, sizeof *all);
    r->world->via->gather_all(r->world, &mine, sizeof mine, all);
    t->traffic = (struct tr_traffic_count){0};
    for (int rank = 0; rank < r->world->size; rank++)
        tr_traffic_join(&t->traffic, &all[rank]);
    free(all);
}

static void tell_traffic(const struct tr_logging *t, int iterations)
{
    char text[TR_TRAFFIC_LINE_BYTES];

    if (t->run->traffic.on && tr_traffic_line(text, sizeof text, &t->traffic, iterations) > 0)
        tr_print_rank0("%s\n", text);
}

/* Does the backward pass recompute every layer? */
static bool recomputes_all(const struct tr_layout *l, const struct tr_activations *a)
{
    return a->recompute == TR_RECOMPUTE_UNIFORM ||
           (a->recompute == TR_RECOMPUTE_BLOCK && a->recompute_layers >= tr_layout_most_layers(l));
}

double tr_logging_flops(const struct tr_run *r)
{
    return tr_flops_count(tr_flops_formula(r->config), &r->shape.dims, 1,
                          recomputes_all(&r->shape.layout, &r->shape.activations));
}

/* TFLOP/s of a rank that take `samples` in `seconds`. */
static double tflops(const struct tr_run *r, int64_t samples, double seconds)
{
    return tr_logging_flops(r) * (double)samples / (seconds * r->world->size * 1e12);
}

double tr_logging_mfu(const struct tr_logging *t)
{
    const struct tr_run *r = t->run;
    const double model = tr_flops_count(tr_flops_formula(r->config), &r->shape.dims, 1, false);

    return t->peak > 0.0 ? t->line_tflops * model / tr_logging_flops(r) / t->peak : -1.0;
}

static bool wants_tflops(const struct tr_config *c)
{
    return c->log_throughput || c->log_format == TR_FORMAT_DEEPSPEED;
}

void tr_logging_open(struct tr_logging *t, struct tr_run *run, bool split)
{
    const struct tr_config *c = run->config;
    char text[TR_REPORT_BYTES];

    *t = (struct tr_logging){
        .run = run,
        .split = split,
        .peak = tr_gpu_peak_in(run->queue.on->describe(run->device)),
        .began_at = run->iteration,
        .consumed = run->consumed_train - run->passed_train,
        .since = tr_now(),
        .opened = tr_now(),
    };
    if (wants_table(c)) {
        size_t ranks = (size_t)run->world->size;

        t->seconds = room(ranks * (TR_TIMERS + 1), sizeof *t->seconds);
        t->table = room(TR_TIMERS_BYTES(ranks), 1);
    }
    if (wants_tflops(c)) {
        tr_lines_formula(
            text, sizeof text,
            tr_flops_text(tr_flops_formula(c), &run->shape.dims,
                          recomputes_all(&run->shape.layout, &run->shape.activations)));
        tr_print_rank0("%s\n", text);
    }
}

void tr_logging_close(struct tr_logging *t)
{
    free(t->seconds);
    free(t->table);
    memset(t, 0, sizeof *t);
}

bool tr_logging_due(const struct tr_logging *t, int64_t iteration)
{
    return tr_logging_every(iteration, t->run->shape.amounts.log_interval) ||
           (t->run->config->log_format == TR_FORMAT_CORE && iteration == t->began_at + 1);
}

void tr_logging_add(struct tr_logging *t, const struct tr_step_result *step, bool skipped)
{
    tr_interval_add(&t->interval, step->loss, skipped,
                    t->run->optim.clip > 0.0 ? step->grad_norm : -1.0, step->zeros);
}

static void tell_iteration(struct tr_logging *t)
{
    struct tr_run *r = t->run;
    const struct tr_config *c = r->config;
    char text[TR_REPORT_BYTES];
    struct tr_iteration_line line = {
        .format = c->log_format,
        .now = tr_moment_now(c->log_format),
        .iteration = r->iteration,
        .train_iters = r->shape.amounts.train_iters,
        .consumed_samples = r->consumed_train,
        .passed_samples = r->passed_train,
        .global_batch = r->global_batch,
        .samples = r->consumed_train - r->passed_train - t->consumed,
        .seq = r->shape.dims.seq,
        .seconds = tr_now() - t->since,
        .lr = tr_step_lr(r),
        .scaled = c->fp16,
        .loss_scale = r->scaler.scale,
        .joules = t->joules,
        .ranks = r->world->size,
        .interval = t->interval,
    };

    t->line_tokens = (double)line.samples * (double)line.seq / line.seconds;
    t->line_tflops = tflops(r, line.samples, line.seconds);
    line.tflops = wants_tflops(c) ? t->line_tflops : -1.0;
    line.params_norm =
        c->log_params_norm ? tr_stat_params_norm(&r->optim, tr_dp_owners(&r->dp), &r->queue) : -1.0;
    t->line_seconds = line.seconds / (t->interval.advanced + t->interval.skipped);
    t->params_norm = line.params_norm;
    t->token_joules =
        line.samples > 0 ? t->joules / ((double)line.samples * (double)line.seq) : 0.0;
    if (tr_logging_is_brief(r)) {
        tr_logging_brief_iteration(t, &line);
        return;
    }
    tr_lines_iteration(text, sizeof text, &line);
    tr_logging_last(r, text);
}

void tr_logging_print(struct tr_logging *t, bool lost)
{
    const struct tr_config *c = t->run->config;
    int64_t iteration = t->run->iteration;
    bool line_due = lost || tr_logging_due(t, iteration);

    if (line_due)
        tell_iteration(t);
    if ((line_due && !t->memory_told && tr_step_lr(t->run) > 0.0) ||
        tr_logging_every(iteration, c->log_memory_interval))
        tell_memory(t);
    if (line_due)
        tell_timers(t, t->interval.advanced + t->interval.skipped);
    if (line_due)
        tell_traffic(t, t->interval.advanced + t->interval.skipped);
    if (!tr_logging_every(iteration, t->run->shape.amounts.log_interval))
        return;
    tr_timers_reset();
    t->run->traffic.count = (struct tr_traffic_count){0};
    t->interval = (struct tr_interval){0};
    t->consumed = t->run->consumed_train - t->run->passed_train;
    t->since = tr_now();
}
