/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/numbers.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/option.h"
#include "util/log.h"
#include "util/text.h"

enum { SCHEMA = 1 };

/* ---- JSON lines ---- */

static void put_real(FILE *f, const char *name, double x)
{
    char text[64];

    if (isfinite(x))
        tr_real_text(x, text, sizeof text);
    fprintf(f, ", \"%s\": %s", name, isfinite(x) ? text : "null");
}

static void put_whole(FILE *f, const char *name, int64_t x)
{
    fprintf(f, ", \"%s\": %" PRId64, name, x);
}

static void begin_line(FILE *f, const char *kind)
{
    struct timespec now;
    char stamp[TR_TIME_BYTES];

    clock_gettime(CLOCK_REALTIME, &now);
    fprintf(f, "{\"schema\": %d, \"kind\": \"%s\", \"time\": \"%s.%03dZ\"", SCHEMA, kind,
            tr_time_utc(now.tv_sec, stamp), (int)(now.tv_nsec / 1000000));
}

/* They cannot be written, or not all of them. */
static void lose_lines(struct tr_numbers *n)
{
    tr_output_lost("cannot write --log-jsonl %s: %s", n->run->config->log_jsonl, strerror(errno));
    if (n->lines)
        fclose(n->lines);
    n->lines = NULL;
}

static void end_line(struct tr_numbers *n)
{
    fprintf(n->lines, "}\n");
    if (fflush(n->lines) == 0 && !ferror(n->lines))
        return;
    lose_lines(n);
}

static void put_start(struct tr_numbers *n)
{
    const struct tr_run *r = n->run;

    begin_line(n->lines, "start");
    fprintf(n->lines, ", \"program\": \"trireme " PACKAGE_VERSION "\"");
    put_whole(n->lines, "iteration", r->iteration);
    put_whole(n->lines, "train_iters", r->shape.amounts.train_iters);
    put_whole(n->lines, "ranks", r->world->size);
    put_whole(n->lines, "tensor", r->shape.layout.w);
    put_whole(n->lines, "pipeline", r->shape.layout.p);
    put_whole(n->lines, "data", r->shape.layout.d);
    if (r->transport_record)
        fprintf(n->lines, ", \"nccl\": %s", r->transport_record);
    end_line(n);
}

static bool is_logged(enum tr_timer t)
{
    return tr_timer_kind(t) != TR_TIMER_SETUP && tr_timer_kind(t) != TR_TIMER_OWN;
}

static void put_timers(struct tr_numbers *n)
{
    FILE *f = n->lines;
    bool some = false;

    fprintf(f, ", \"timers_ms\": {");
    for (int t = 0; t < TR_TIMERS; t++) {
        char text[64];

        if (n->seconds[t] <= 0.0 || !is_logged((enum tr_timer)t))
            continue;
        tr_real_text(1000.0 * n->seconds[t] / n->iterations, text, sizeof text);
        fprintf(f, "%s\"%s\": %s", some ? ", " : "", tr_timer_name((enum tr_timer)t), text);
        some = true;
    }
    fprintf(f, "}");
}

static void put_traffic(struct tr_numbers *n, const struct tr_logging *tell)
{
    char text[TR_TRAFFIC_LINE_BYTES];

    if (!n->run->traffic.on)
        return;
    tr_traffic_json(text, sizeof text, &n->run->traffic, &tell->traffic, n->iterations);
    fprintf(n->lines, ", \"traffic\": %s", text);
}

/* Of this interval, and the memory of this rank. */
static void put_speed(struct tr_numbers *n, const struct tr_logging *tell)
{
    const struct tr_memory_line memory = tr_logging_memory_now(n->run);
    const double mfu = tr_logging_mfu(tell);

    put_real(n->lines, "tokens_per_second", tell->line_tokens);
    put_real(n->lines, "tflops_per_rank", tell->line_tflops);
    if (mfu >= 0.0)
        put_real(n->lines, "mfu", mfu);
    put_whole(n->lines, "memory_allocated_bytes", memory.allocated);
    put_whole(n->lines, "memory_resident_bytes", memory.reserved);
}

static void put_iteration(struct tr_numbers *n, const struct tr_logging *tell,
                          const struct tr_step_result *step, bool skipped)
{
    const struct tr_run *r = n->run;
    FILE *f = n->lines;

    begin_line(f, "iteration");
    put_whole(f, "iteration", r->iteration);
    put_whole(f, "consumed_samples", r->consumed_train);
    put_whole(f, "consumed_tokens", r->consumed_train * r->shape.dims.seq);
    put_whole(f, "global_batch_size", r->global_batch);
    put_real(f, "seconds", n->took);
    fprintf(f, ", \"skipped\": %s", skipped ? "true" : "false");
    put_real(f, "lm_loss", skipped ? NAN : step->loss);
    put_real(f, "learning_rate", tr_step_lr(r));
    put_real(f, "loss_scale", r->scaler.scale);
    put_real(f, "grad_norm", skipped || r->optim.clip <= 0.0 ? NAN : step->grad_norm);
    if (!skipped && step->zeros >= 0.0)
        put_real(f, "num_zeros", step->zeros);
    if (n->timed) {
        if (tell->params_norm >= 0.0)
            put_real(f, "params_norm", tell->params_norm);
        put_real(f, "elapsed_ms", 1000.0 * tell->line_seconds);
        put_speed(n, tell);
        if (tell->joules > 0.0)
            put_real(f, "joules", tell->joules);
        if (tell->token_joules > 0.0)
            put_real(f, "joules_per_token", tell->token_joules);
        put_timers(n);
        put_traffic(n, tell);
    }
    end_line(n);
}

/* ---- TensorBoard ---- */

/* One value against iterations and samples; as BigScience's fork, in a group and against tokens. */
static void put_scalar(struct tr_numbers *n, const char *group, const char *name, double value)
{
    const struct tr_run *r = n->run;
    const bool grouped = r->config->log_format == TR_FORMAT_DEEPSPEED;
    char tag[256];

    snprintf(tag, sizeof tag, "%s%s%s", grouped ? group : "", grouped ? "/" : "", name);
    tr_events_scalar(&n->events, tag, value, r->iteration);
    snprintf(tag, sizeof tag, "%s%s%s vs samples", grouped ? group : "", grouped ? "/" : "", name);
    tr_events_scalar(&n->events, tag, value, r->consumed_train);
    if (!grouped)
        return;
    snprintf(tag, sizeof tag, "%s/%s vs tokens", group, name);
    tr_events_scalar(&n->events, tag, value, r->consumed_train * r->shape.dims.seq);
}

static void put_alone(struct tr_numbers *n, const char *name, double value)
{
    if (n->run->config->log_format == TR_FORMAT_DEEPSPEED)
        put_scalar(n, name, name, value);
    else
        tr_events_scalar(&n->events, name, value, n->run->iteration);
}

static void put_results(struct tr_numbers *n, const struct tr_step_result *step, bool skipped)
{
    const struct tr_run *r = n->run;
    const struct tr_config *c = r->config;

    if (c->log_learning_rate_to_tensorboard)
        put_scalar(n, "learning-rate", "learning-rate", tr_step_lr(r));
    if (c->log_batch_size_to_tensorboard)
        put_scalar(n, "batch-size", "batch-size", (double)r->global_batch);
    if (!skipped)
        put_scalar(n, "lm-loss-training", "lm loss", step->loss);
    if (c->log_loss_scale_to_tensorboard)
        put_scalar(n, "loss-scale", "loss-scale", r->scaler.scale);
    if (!skipped && r->optim.clip > 0.0)
        put_scalar(n, "grad-norm", "grad-norm", step->grad_norm);
    if (!skipped && step->zeros >= 0.0)
        put_scalar(n, "num-zeros", "num-zeros", step->zeros);
}

/* Microsoft's Megatron-DeepSpeed has these tags without a group too. */
static void put_memory(struct tr_numbers *n)
{
    const struct tr_memory_line memory = tr_logging_memory_now(n->run);

    tr_events_scalar(&n->events, "mem-reserved-bytes", (double)memory.reserved, n->run->iteration);
    tr_events_scalar(&n->events, "mem-allocated-bytes", (double)memory.allocated,
                     n->run->iteration);
}

/* Megatron-LM has a tag for the first.  Microsoft's Megatron-DeepSpeed has a group for the first
   two, against iterations alone. */
static void put_throughput(struct tr_numbers *n, const struct tr_logging *tell)
{
    const bool grouped = n->run->config->log_format == TR_FORMAT_DEEPSPEED;
    const struct {
        const char *alone, *in_group;
        double value;
    } rate[] = {
        {"throughput", "throughput/tflops", tell->line_tflops},
        {"tokens-per-second", "throughput/tokens_per_sec", tell->line_tokens},
        {"mfu", "throughput/mfu", tr_logging_mfu(tell)},
    };

    for (size_t i = 0; i < sizeof rate / sizeof *rate; i++)
        if (rate[i].value >= 0.0)
            tr_events_scalar(&n->events, grouped ? rate[i].in_group : rate[i].alone, rate[i].value,
                             n->run->iteration);
}

static void put_events(struct tr_numbers *n, const struct tr_logging *tell,
                       const struct tr_step_result *step, bool skipped)
{
    const struct tr_config *c = n->run->config;

    if (tr_logging_every(n->run->iteration, c->tensorboard_log_interval)) {
        put_results(n, step, skipped);
        if (c->log_memory_to_tensorboard)
            put_memory(n);
    }
    if (!n->timed)
        return;
    if (tell->params_norm >= 0.0)
        put_scalar(n, "params-norm", "params-norm", tell->params_norm);
    if (c->log_throughput)
        put_throughput(n, tell);
    if (!c->log_timers_to_tensorboard)
        return;
    put_alone(n, "iteration-time", tell->line_seconds);
    for (int t = 0; t < TR_TIMERS; t++) {
        char tag[128];

        if (n->seconds[t] <= 0.0 || !is_logged((enum tr_timer)t))
            continue;
        snprintf(tag, sizeof tag, "%s-time", tr_timer_name((enum tr_timer)t));
        tr_events_scalar(&n->events, tag, n->seconds[t] / n->iterations, n->run->iteration);
    }
}

/* ---- both ---- */

/* A job that was killed while it wrote may have left half a line. */
static enum tr_status open_lines(struct tr_numbers *n, const char *path)
{
    n->lines = fopen(path, "a+e");
    if (!n->lines)
        return TR_FAIL(TR_EIO, "cannot write %s: %s, and --log-jsonl wants its lines there", path,
                       strerror(errno));
    if (fseek(n->lines, -1, SEEK_END) == 0 && getc(n->lines) != '\n') {
        fseek(n->lines, 0, SEEK_END);
        putc('\n', n->lines);
    }
    put_start(n);
    return TR_OK;
}

/* --tensorboard-dir, or the folder in it that YuanGenerativeLM would have: date, time and values of its configuration. */
static char *board_of(const struct tr_run *r)
{
    const struct tr_config *c = r->config;
    const struct tr_dims *m = &r->shape.dims;
    const time_t now = time(NULL);
    char when[32], rate[32], seed[32] = "";
    struct tm local;

    if (c->tensorboard_run == TR_BOARD_FLAT)
        return tr_format("%s", c->tensorboard_dir);
    localtime_r(&now, &local);
    strftime(when, sizeof when, "%Y_%m_%d_%H_%M", &local);
    tr_real_text(c->lr, rate, sizeof rate);
    if (c->tensorboard_run == TR_BOARD_SEED)
        snprintf(seed, sizeof seed, "_%lld", (long long)c->seed);
    return tr_format("%s/%s_%lld_%lld_%lld_%lld_%lld_%s_%lld%s", c->tensorboard_dir, when,
                     (long long)m->hidden, (long long)c->num_attention_heads, (long long)m->layers,
                     (long long)m->seq, (long long)m->vocab, rate,
                     (long long)r->shape.batches.micro_batch, seed);
}

static enum tr_status open_events(struct tr_numbers *n)
{
    char *folder = board_of(n->run);
    const enum tr_status s = tr_events_open(&n->events, folder);

    free(folder);
    return s;
}

static enum tr_status open_mine(struct tr_numbers *n)
{
    const struct tr_config *c = n->run->config;

    if (!n->mine)
        return TR_OK;
    if (c->tensorboard_dir)
        TR_TRY(open_events(n));
    return c->log_jsonl ? open_lines(n, c->log_jsonl) : TR_OK;
}

enum tr_status tr_numbers_open(struct tr_numbers *n, struct tr_run *run)
{
    const struct tr_config *c = run->config;

    *n = (struct tr_numbers){.run = run};
    if (!c->tensorboard_dir &&
        (c->log_timers_to_tensorboard || c->log_batch_size_to_tensorboard ||
         c->log_validation_ppl_to_tensorboard || c->log_memory_to_tensorboard))
        tr_log_rank0(TR_LOG_WARNING, "there are no TensorBoard files to log to without "
                                     "--tensorboard-dir, which says where they go");
    if (!c->tensorboard_dir && !c->log_jsonl)
        return TR_OK;
    n->mine = run->world->rank == tr_grid_log_rank(&run->shape.layout);
    return tr_comm_agree(run->world, open_mine(n));
}

void tr_numbers_close(struct tr_numbers *n)
{
    FILE *f = n->lines;

    tr_events_close(&n->events);
    n->lines = NULL;
    if (f && fclose(f) != 0)
        lose_lines(n);
    memset(n, 0, sizeof *n);
}

void tr_numbers_begin(struct tr_numbers *n)
{
    n->began = tr_now();
}

void tr_numbers_timers(struct tr_numbers *n, const struct tr_logging *tell, bool line_due)
{
    n->took = tr_now() - n->began;
    n->timed = n->mine && line_due;
    if (!n->timed)
        return;
    tr_timers_read(n->seconds);
    n->iterations = tell->interval.advanced + tell->interval.skipped;
}

void tr_numbers_add(struct tr_numbers *n, const struct tr_logging *tell,
                    const struct tr_step_result *step, bool skipped)
{
    if (n->events.f)
        put_events(n, tell, step, skipped);
    if (n->lines)
        put_iteration(n, tell, step, skipped);
}

void tr_numbers_validation(struct tr_numbers *n, double loss, const struct tr_scoring *scoring)
{
    const unsigned metrics = scoring->scores.count ? scoring->metrics : 0;

    if (n->events.f) {
        put_scalar(n, "lm-loss-validation", "lm loss validation", loss);
        if (n->run->config->log_validation_ppl_to_tensorboard)
            put_scalar(n, "lm-loss-validation", "lm loss validation ppl", exp(fmin(20.0, loss)));
        for (int i = 0; i < TR_METRICS; i++)
            if (metrics & 1U << i)
                put_scalar(n, "validation", tr_metric_name((enum tr_metric)i),
                           tr_metric_of(&scoring->scores, (enum tr_metric)i));
    }
    if (!n->lines)
        return;
    begin_line(n->lines, "validation");
    put_whole(n->lines, "iteration", n->run->iteration);
    put_whole(n->lines, "consumed_samples", n->run->consumed_train);
    put_real(n->lines, "lm_loss", loss);
    for (int i = 0; i < TR_METRICS; i++)
        if (metrics & 1U << i)
            put_real(n->lines, tr_metric_name((enum tr_metric)i),
                     tr_metric_of(&scoring->scores, (enum tr_metric)i));
    end_line(n);
}
