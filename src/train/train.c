/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <time.h>

#include "train/profile.h"
#include "train/progress.h"
#include "train/report.h"
#include "train/run.h"
#include "train/step.h"
#include "train/stop.h"
#include "train/tell.h"
#include "util/log.h"
#include "util/timer.h"

struct loop {
    struct tr_run *r;
    struct tr_tell tell;
    struct tr_progress progress; /* of rank 0 */
    struct tr_stop stop;
    int64_t saved_at; /* iteration of the last checkpoint of this run, or -1 */
};

static struct tr_moment moment(const struct tr_run *r)
{
    return tr_moment_now(r->config->log_format);
}

/* Evaluation does not count as training time: the interval's clock is moved on by what it took. */
static void evaluate(struct loop *l, enum tr_split split, const char *where)
{
    struct tr_run *r = l->r;
    char text[TR_REPORT_BYTES];
    int64_t iterations = r->shape.eval_iters;
    int64_t first = split == TR_SPLIT_VALID ? r->consumed_valid : 0;
    int64_t told = r->config->log_format == TR_FORMAT_CORE ? 1 : r->config->log_interval;
    int64_t piece = split == TR_SPLIT_TEST ? told : iterations;
    double began = tr_now(), loss = 0.0;

    if (iterations == 0 || !r->data || tr_data_size(r->data, split) == 0)
        return;
    for (int64_t done = 0, n; done < iterations; done += n) {
        n = iterations - done < piece ? iterations - done : piece;
        loss += tr_eval(r, split, first + done * r->shape.global_batch, n) * (double)n /
                (double)iterations;
        /* Of the test data Megatron tells how far it is, Megatron Core at each step. */
        if (split != TR_SPLIT_TEST || n < piece)
            continue;
        tr_report_evaluating(text, sizeof text, done + n, iterations);
        tr_print_rank0("%s\n", text);
    }
    if (split == TR_SPLIT_VALID)
        r->consumed_valid += iterations * r->shape.global_batch;
    tr_report_validation(text, sizeof text, where, loss);
    tr_tell_last(r, text);
    l->tell.since += tr_now() - began;
}

/* After the last iteration of this run, in the words of `format`. */
static void evaluate_at_end(struct loop *l, enum tr_split split, int format)
{
    char where[64];

    tr_report_where(where, sizeof where, format, l->r->iteration, split == TR_SPLIT_TEST);
    evaluate(l, split, where);
}

static enum tr_status save(struct loop *l)
{
    double began = tr_now();

    if (!l->r->config->save || l->saved_at == l->r->iteration)
        return TR_OK;
    TR_TRY(tr_run_save(l->r));
    tr_progress_saved(&l->progress, l->r->iteration,
                      l->r->consumed_train - l->r->passed_train, time(NULL));
    l->saved_at = l->r->iteration;
    l->tell.since += tr_now() - began;
    return TR_OK;
}

/* With a loss scale, a step that overflows is skipped and the next one has a lower scale. */
static bool goes_on(const struct tr_config *c)
{
    return c->fp16 || !c->check_for_nan_in_loss_and_grad;
}

/*
 * The norm is the same number on all ranks, so they need not ask one another.  Without clipping there
 * is no norm, and the loss, which only the last stage knows, decides when a line of the log is due.
 */
static bool not_finite(struct loop *l, const struct tr_step_result *step, bool line_due)
{
    if (goes_on(l->r->config))
        return false;
    if (l->r->optim.clip > 0.0)
        return !isfinite(step->grad_norm);
    return line_due && tr_comm_max(l->r->world, !isfinite(l->tell.interval.loss_sum)) != 0;
}

static enum tr_status one_iteration(struct loop *l)
{
    struct tr_run *r = l->r;
    struct tr_step_result step;
    char where[64];
    bool passed, lost;

    tr_profile_before(r);
    r->count_zeros = r->config->log_num_zeros_in_grad && tr_tell_due(&l->tell, r->iteration + 1);
    passed = tr_batches_pass(r->config, r->iteration);
    if (passed)
        tr_step_pass(r, &step);
    else
        tr_step(r, &step);
    r->iteration++;
    tr_profile_after(r);
    tr_tell_add(&l->tell, &step, passed || (step.skipped && goes_on(r->config)));
    lost = not_finite(l, &step, tr_tell_due(&l->tell, r->iteration));
    tr_tell_print(&l->tell, lost);
    if (lost)
        return TR_FAIL(TR_EINTERNAL,
                       "the loss or its gradient is not finite at iteration %lld, so training on "
                       "would only spread it: resume from the last checkpoint with a lower --lr or "
                       "--clip-grad",
                       (long long)r->iteration);
    if (tr_tell_every(r->iteration, r->shape.eval_interval)) {
        snprintf(where, sizeof where, "iteration %lld", (long long)r->iteration);
        evaluate(l, TR_SPLIT_VALID, where);
    }
    if (r->config->save_interval != TR_UNSET_INT && tr_tell_every(r->iteration, r->config->save_interval))
        TR_TRY(save(l));
    return TR_OK;
}

/* Asked to stop: save what is not saved, and say why. */
static enum tr_status leave(struct loop *l, enum tr_stop_reason why)
{
    char text[TR_REPORT_BYTES];

    TR_TRY(save(l));
    tr_stop_line(text, sizeof text, &l->stop, why, l->r->iteration, tr_now(), moment(l->r));
    tr_print_rank0("%s\n", text);
    return TR_OK;
}

/* All iterations are done: Megatron's closing evaluation, last checkpoint and test. */
static enum tr_status finish(struct loop *l)
{
    char text[TR_REPORT_BYTES];

    tr_report_done(text, sizeof text, moment(l->r));
    tr_print_rank0("%s\n", text);
    evaluate_at_end(l, TR_SPLIT_VALID, l->r->config->log_format);
    TR_TRY(save(l));
    evaluate_at_end(l, TR_SPLIT_TEST, l->r->config->log_format);
    return TR_OK;
}

/* Not to train at all, but to evaluate what was loaded. */
static enum tr_status only_evaluate(struct loop *l)
{
    tr_print_rank0("skipping training (--skip-train is on) ...\n");
    evaluate_at_end(l, TR_SPLIT_VALID, TR_FORMAT_CORE);
    evaluate_at_end(l, TR_SPLIT_TEST, TR_FORMAT_CORE);
    return TR_OK;
}

static enum tr_status iterate(struct loop *l)
{
    struct tr_run *r = l->r;

    while (r->iteration < r->shape.train_iters) {
        enum tr_stop_reason why;

        TR_TRY(one_iteration(l));
        why = tr_stop_after(&l->stop, r->world, r->iteration, tr_now());
        if (why != TR_STOP_NOT && why != TR_STOP_DONE)
            return leave(l, why);
    }
    return finish(l);
}

static enum tr_status run_loop(struct tr_run *r, double start)
{
    struct loop l = {.r = r, .saved_at = -1};
    char text[TR_REPORT_BYTES];
    enum tr_status s;

    if (r->config->skip_train)
        return only_evaluate(&l);
    tr_stop_init(&l.stop, r->config, &r->shape, start);
    tr_report_training(text, sizeof text, moment(r));
    tr_print_rank0("%s\n", text);
    tr_tell_open(&l.tell, r);
    if (r->config->log_progress && r->world->rank == 0)
        tr_progress_open(&l.progress, r->config->save, r->world->size, r->shape.seq,
                         tr_tell_flops(r), r->consumed_train, time(NULL));
    s = iterate(&l);
    tr_profile_stop(r);
    tr_progress_close(&l.progress);
    tr_tell_close(&l.tell);
    return s;
}

/* Model, optimizer and checkpoint, then data: the two parts that Megatron times. */
static enum tr_status set_up(struct tr_run *r, const struct tr_config *config,
                             struct tr_comm *world)
{
    const enum tr_timer timers[] = {TR_TIMER_MODEL_SETUP, TR_TIMER_DATA_SETUP};
    char text[TR_REPORT_BYTES];

    tr_timer_start(TR_TIMER_MODEL_SETUP);
    TR_TRY(tr_run_open(r, config, world));
    tr_report_decay_style(text, sizeof text,
                          tr_config_spelling("lr-decay-style", config->lr_decay_style));
    tr_print_rank0("%s\n", text);
    TR_TRY(tr_run_load(r));
    tr_timer_stop(TR_TIMER_MODEL_SETUP);
    tr_report_built(text, sizeof text, moment(r));
    tr_print_rank0("%s\n", text);

    tr_timer_start(TR_TIMER_DATA_SETUP);
    TR_TRY(tr_run_data(r));
    tr_timer_stop(TR_TIMER_DATA_SETUP);
    tr_report_ready(text, sizeof text, moment(r));
    tr_print_rank0("%s\n", text);
    tr_tell_timers(r, timers, 2);
    return TR_OK;
}

enum tr_status tr_train(const struct tr_config *config, struct tr_comm *world)
{
    struct tr_run run;
    double start = tr_now();
    enum tr_status s;

    tr_stop_listen(config);
    s = set_up(&run, config, world);
    if (s == TR_OK)
        s = run_loop(&run, start);
    tr_run_close(&run);
    return s;
}
