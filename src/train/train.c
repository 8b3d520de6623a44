/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ckpt/async.h"
#include "train/dump.h"
#include "train/evaluate.h"
#include "job/run_folder.h"
#include "train/joules.h"
#include "train/numbers.h"
#include "train/origin.h"
#include "train/profile.h"
#include "pipeline/links.h"
#include "telemetry/progress.h"
#include "train/recorder.h"
#include "telemetry/lines.h"
#include "train/run.h"
#include "train/run_time.h"
#include "train/scoring.h"
#include "train/stragglers.h"
#include "train/start.h"
#include "train/step.h"
#include "train/tracker.h"
#include "job/stop.h"
#include "train/logging.h"
#include "util/log.h"
#include "telemetry/timer.h"

struct loop {
    struct tr_run *r;
    struct tr_logging tell;
    struct tr_recorder record;
    struct tr_numbers numbers;
    struct tr_tracker tracker;
    struct tr_run_time run_time;
    bool origin_told; /* of a step in fp16 that was skipped */
    struct tr_stragglers slow;
    struct tr_joules joules;
    struct tr_progress progress;  /* of rank 0 */
    struct tr_run_folder *folder; /* borrowed */
    struct tr_stop *stop;         /* borrowed */
    int64_t saved_at;             /* iteration of the last checkpoint of this run, or -1 */
    struct saving {               /* one that is under way */
        struct tr_ckpt_async *by; /* NULL: none */
        int64_t iteration, samples;
        double began, waited; /* seconds that training waited to begin, */
        double counted; /* and behind that, as far as the interval's clock was moved on by it */
    } saving;
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
    const struct tr_evaluation e = tr_evaluation_of(r, split);
    int64_t iterations = e.iterations;
    int64_t told = r->config->log_format == TR_FORMAT_CORE ? 1 : r->shape.amounts.log_interval;
    int64_t piece = split == TR_SPLIT_TEST ? told : iterations;
    double began = tr_now(), loss = 0.0;
    struct tr_scoring scoring;

    if (iterations == 0)
        return;
    tr_joules_leave(&l->joules);
    tr_scoring_begin(r, &e, &scoring);
    for (int64_t done = 0, n; done < iterations; done += n) {
        n = iterations - done < piece ? iterations - done : piece;
        loss += tr_eval(r, split, e.first + done * r->shape.batches.global_batch, n) * (double)n /
                (double)iterations;
        /* Megatron prints the progress of the evaluation on test data, Megatron Core at each
           step. */
        if (split != TR_SPLIT_TEST || n < piece)
            continue;
        tr_lines_evaluating(text, sizeof text, done + n, iterations);
        tr_print_rank0("%s\n", text);
    }
    tr_scoring_end(r, &scoring);
    loss = tr_evaluation_end(r, split, &e, loss);
    tr_logging_news(r);
    if (split == TR_SPLIT_VALID)
        r->consumed_valid = e.first + e.samples;
    tr_logging_validation(r, where, loss);
    if (scoring.scores.count)
        tr_logging_metrics(r, &scoring);
    tr_joules_enter(&l->joules);
    l->tell.since += tr_now() - began;
    if (split == TR_SPLIT_VALID)
        tr_numbers_validation(&l->numbers, loss, &scoring);
    tr_scoring_close(&scoring);
    if (split == TR_SPLIT_VALID)
        tr_stop_took(l->stop, TR_PART_EVALUATION, tr_now() - began);
}

/* After the last iteration of this run, in the words of `format`. */
static void evaluate_at_end(struct loop *l, enum tr_split split, int format)
{
    char where[64];

    tr_lines_where(where, sizeof where, format, l->r->iteration, split == TR_SPLIT_TEST);
    evaluate(l, split, where);
}

/* What follows a checkpoint, which took so many seconds. */
static void saved(struct loop *l, int64_t iteration, int64_t samples, double seconds)
{
    if (tr_logging_is_brief(l->r)) {
        char text[TR_REPORT_BYTES];

        tr_terminal_saved(text, sizeof text, iteration, l->r->config->save, seconds);
        tr_notice_rank0("%s\n", text);
    }
    tr_progress_saved(&l->progress, iteration, samples, time(NULL));
    l->saved_at = iteration;
    tr_stop_took(l->stop, TR_PART_SAVE, seconds);
    tr_run_folder_saved(l->folder, iteration, l->stop);
    tr_run_folder_note(l->folder, l->stop, l->r->iteration, true);
}

static int64_t samples_done(const struct tr_run *r)
{
    return r->consumed_train - r->passed_train;
}

static enum tr_status may_save(struct loop *l)
{
    TR_TRY(tr_run_folder_may_save(l->folder));
    TR_TRY(tr_links_compare(l->r->links, l->r->iteration));
    return tr_dp_compare(&l->r->dp);
}

/* Seconds that training waited on this rank since it was asked last do not count as training time. */
static void leave_out_waits(struct loop *l)
{
    const double waited = l->saving.by ? tr_ckpt_async_waited(l->saving.by) : 0.0;

    l->tell.since += waited - l->saving.counted;
    l->saving.counted = waited;
}

/* Seconds on the rank where it was most. */
static double longest(const struct tr_run *r, double seconds)
{
    return (double)tr_comm_max(r->world, (int64_t)(seconds * 1e9)) / 1e9;
}

/* Wait for the checkpoint that is under way, if one is. */
static enum tr_status end_saving(struct loop *l)
{
    const struct saving was = l->saving;
    const double began = tr_now();
    double waited;

    if (!was.by)
        return TR_OK;
    l->saving = (struct saving){.by = NULL};
    tr_joules_leave(&l->joules);
    waited = was.waited + longest(l->r, tr_ckpt_async_waited(was.by));
    TR_TRY(tr_run_end_async(l->r, was.by));
    saved(l, was.iteration, was.samples, tr_now() - was.began);
    tr_print_rank0("  it was written in %.2f s, of which training waited %.3f s\n",
                   tr_now() - was.began, waited + tr_now() - began);
    tr_joules_enter(&l->joules);
    l->tell.since += tr_now() - began;
    return TR_OK;
}

/* The checkpoint that is under way, if it is over. */
static enum tr_status look_at_saving(struct loop *l)
{
    bool over;

    if (!l->saving.by)
        return TR_OK;
    over = tr_ckpt_async_over(l->saving.by);
    leave_out_waits(l);
    return over ? end_saving(l) : TR_OK;
}

/* A checkpoint of now, which is complete on return. */
static enum tr_status save(struct loop *l)
{
    double began;

    TR_TRY(end_saving(l));
    began = tr_now();
    if (!l->r->config->save || l->saved_at == l->r->iteration)
        return TR_OK;
    tr_joules_leave(&l->joules);
    TR_TRY(may_save(l));
    TR_TRY(tr_run_save(l->r));
    saved(l, l->r->iteration, samples_done(l->r), tr_now() - began);
    tr_joules_enter(&l->joules);
    l->tell.since += tr_now() - began;
    return TR_OK;
}

static enum tr_status begin_saving(struct loop *l)
{
    TR_TRY(end_saving(l));
    l->saving.began = tr_now();
    l->saving.iteration = l->r->iteration;
    l->saving.samples = samples_done(l->r);
    tr_joules_leave(&l->joules);
    TR_TRY(may_save(l));
    TR_TRY(tr_run_save_async(l->r, &l->saving.by));
    tr_joules_enter(&l->joules);
    l->saving.waited = tr_now() - l->saving.began;
    l->tell.since += l->saving.waited;
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

/* The loss or the norm is not finite, and where that began if it can be said. */
static enum tr_status fail_lost(struct loop *l, const struct tr_step_result *step)
{
    char where[TR_ORIGIN_BYTES] = "";

    if (l->r->optim.clip > 0.0)
        tr_origin_find(l->r, &step->origin, where);
    return TR_FAIL(TR_EINTERNAL,
                   "the loss or its gradient is not finite at iteration %lld%s%s, so training on "
                   "would only spread it: resume from the last checkpoint with a lower --lr or "
                   "--clip-grad",
                   (long long)l->r->iteration, where[0] ? ", first in " : "", where);
}

/* In fp16 such a step is skipped and the run goes on: said once. */
static void warn_of_origin(struct loop *l, const struct tr_step_result *step)
{
    char where[TR_ORIGIN_BYTES];
    const double began = tr_now();

    l->origin_told = true;
    tr_origin_find(l->r, &step->origin, where);
    tr_log_rank0(TR_LOG_WARNING,
                 "gradients of iteration %lld are not finite%s%s, and the loss scale falls no "
                 "further, so steps may be skipped for ever: see if the log counts more of them, "
                 "and then resume from a checkpoint before with a lower --lr",
                 (long long)l->r->iteration, where[0] ? ", first in " : "", where);
    l->tell.since += tr_now() - began;
}

/* The ranks that are slow by now, in the log and, at once, in the state. */
static void name_slow(struct loop *l)
{
    const double began = tr_now();

    if (!tr_stragglers_tell(&l->slow))
        return;
    tr_run_folder_slow(l->folder, l->slow.text);
    tr_run_folder_note(l->folder, l->stop, l->r->iteration, true);
    l->tell.since += tr_now() - began;
}

/* The iteration itself, its lines in the log, and the end of a run whose loss is not finite. */
static enum tr_status step_and_tell(struct loop *l)
{
    struct tr_run *r = l->r;
    struct tr_step_result step;
    double began = tr_now();
    bool passed, skipped, lost, due;

    tr_profile_before(r);
    r->count_zeros = r->config->log_num_zeros_in_grad && tr_logging_due(&l->tell, r->iteration + 1);
    passed = tr_batches_pass(r->config, r->iteration);
    tr_numbers_begin(&l->numbers);
    if (passed)
        tr_step_pass(r, &step);
    else
        tr_step(r, &step);
    leave_out_waits(l);
    r->iteration++;
    tr_profile_after(r);
    tr_logging_news(r);
    if (!passed)
        tr_tracker_step(&l->tracker, r);
    skipped = passed || (step.skipped && goes_on(r->config));
    tr_logging_add(&l->tell, &step, skipped);
    lost = not_finite(l, &step, tr_logging_due(&l->tell, r->iteration));
    due = lost || tr_logging_due(&l->tell, r->iteration);
    l->tell.since += tr_recorder_after(&l->record, passed, due);
    tr_numbers_timers(&l->numbers, &l->tell, due);
    tr_logging_traffic(&l->tell, lost);
    tr_stragglers_after(&l->slow);
    if (due)
        l->tell.joules = tr_joules_take(&l->joules);
    tr_logging_print(&l->tell, lost);
    name_slow(l);
    tr_numbers_add(&l->numbers, &l->tell, &step, skipped);
    if (lost)
        return fail_lost(l, &step);
    if (step.unusual && !l->origin_told)
        warn_of_origin(l, &step);
    tr_stop_took(l->stop, TR_PART_ITERATION, tr_now() - began);
    tr_run_time_add(&l->run_time, r, tr_now() - began);
    return TR_OK;
}

static enum tr_status one_iteration(struct loop *l)
{
    struct tr_run *r = l->r;
    char where[64];

    TR_TRY(step_and_tell(l));
    TR_TRY(tr_links_compare_due(r->links, r->iteration));
    TR_TRY(tr_dp_compare_due(&r->dp));
    if (tr_evaluation_due(&r->shape.amounts, &r->shape.epochs, r->iteration)) {
        snprintf(where, sizeof where, "iteration %lld", (long long)r->iteration);
        evaluate(l, TR_SPLIT_VALID, where);
    }
    if (r->config->save_interval != TR_UNSET_INT &&
        tr_logging_every(r->iteration, r->config->save_interval))
        return r->config->async_save ? begin_saving(l) : save(l);
    return look_at_saving(l);
}

/* Asked to stop: save what is not saved, and say why. */
static enum tr_status leave(struct loop *l, const struct tr_answer *a)
{
    char text[TR_REPORT_BYTES];
    struct tr_run *r = l->r;

    if (a->why == TR_STOP_SIGNAL || a->why == TR_STOP_LAUNCHER)
        tr_run_folder_heard(l->folder, a, r->iteration);
    if (a->why == TR_STOP_CTL)
        tr_run_folder_acknowledge(l->folder, TR_ASK_STOP, r->iteration);
    if (a->why == TR_STOP_JOB_END && r->world->rank == 0) {
        tr_stop_why_now(text, sizeof text, l->stop, r->iteration, tr_now());
        tr_notice("> %s\n", text);
    }
    TR_TRY(save(l));
    if (a->why != TR_STOP_OUTPUT)
        tr_run_folder_leave(l->folder, a);
    tr_stop_line(text, sizeof text, l->stop, a, r->iteration, tr_now(), moment(r));
    tr_notice_rank0("%s\n", text);
    return TR_OK;
}

/* What does not end the run. */
static enum tr_status serve(struct loop *l, const struct tr_answer *a)
{
    if (a->dump) {
        tr_run_folder_acknowledge(l->folder, TR_ASK_DUMP, l->r->iteration);
        tr_dump(l->r, l->folder);
        tr_run_folder_done(l->folder, TR_ASK_DUMP);
    }
    if (a->save) {
        tr_run_folder_acknowledge(l->folder, TR_ASK_SAVE, l->r->iteration);
        TR_TRY(save(l));
        tr_run_folder_done(l->folder, TR_ASK_SAVE);
    }
    return TR_OK;
}

/* All iterations are done: Megatron's closing evaluation, last checkpoint and test. */
static enum tr_status finish(struct loop *l)
{
    tr_logging_done(&l->tell);
    evaluate_at_end(l, TR_SPLIT_VALID, l->r->config->log_format);
    TR_TRY(save(l));
    evaluate_at_end(l, TR_SPLIT_TEST, l->r->config->log_format);
    tr_run_folder_leave(l->folder, &(struct tr_answer){.why = TR_STOP_DONE});
    return TR_OK;
}

/* Not to train at all, but to evaluate what was loaded. */
static enum tr_status only_evaluate(struct loop *l)
{
    tr_notice_rank0("skipping training (--skip-train is on) ...\n");
    evaluate_at_end(l, TR_SPLIT_VALID, TR_FORMAT_CORE);
    evaluate_at_end(l, TR_SPLIT_TEST, TR_FORMAT_CORE);
    return TR_OK;
}

/* What comes next?  With a line of the log or a checkpoint goes the state: the others wait for rank 0
   here, and that does not count as training time, as line and checkpoint do not. */
static struct tr_answer ask(struct loop *l)
{
    struct tr_run *r = l->r;
    bool due = tr_logging_due(&l->tell, r->iteration);
    double began = tr_now();
    unsigned asked = 0;
    struct tr_answer a;

    if (due)
        tr_run_folder_note(l->folder, l->stop, r->iteration, false);
    if (tr_stop_asks(l->stop, r->iteration))
        asked = tr_run_folder_asked(l->folder, began);
    a = tr_stop_after(l->stop, r->world, r->iteration, tr_now(), asked);
    if (due || l->saved_at == r->iteration)
        l->tell.since += tr_now() - began;
    return a;
}

static enum tr_status iterate(struct loop *l)
{
    struct tr_run *r = l->r;

    while (r->iteration < r->shape.amounts.train_iters) {
        struct tr_answer a;

        TR_TRY(one_iteration(l));
        a = ask(l);
        TR_TRY(serve(l, &a));
        if (a.why != TR_STOP_NOT && a.why != TR_STOP_DONE)
            return leave(l, &a);
    }
    return finish(l);
}

/* Parameters of the whole model. */
static int64_t parameters(struct tr_run *r)
{
    int64_t mine = tr_params_number(&r->model.params), total = 0;
    int64_t *all = calloc((size_t)r->world->size, sizeof *all);

    if (!all)
        tr_die(TR_ERESOURCE, "no memory left for the list of ranks");
    r->world->via->gather_all(r->world, &mine, sizeof mine, all);
    for (int rank = 0; rank < r->world->size; rank++)
        total += all[rank];
    free(all);
    return total / r->shape.layout.d;
}

/* Before a save was measured its time is a guess.  A job that is too short anyway gets a
   warning. */
static void expect_end(struct loop *l)
{
    struct tr_run *r = l->r;
    struct tr_stop *s = l->stop;
    char text[TR_REPORT_BYTES];

    s->save_guess = tr_stop_guess_save(parameters(r), !r->config->no_save_optim, r->launch.nodes);
    if (tr_now() + tr_stop_need(s, r->iteration) <= s->job_end)
        return;
    tr_stop_why_now(text, sizeof text, s, r->iteration, tr_now());
    tr_log(
        TR_LOG_WARNING,
        "one iteration will be done and no more, because %s; give the job more time, or lower the "
        "margin",
        text);
}

/* Collective: a run whose output was lost on some rank has failed, whatever else it did; unless it was lost
   with the launcher, which took the log. */
static enum tr_status look_at_output(const struct loop *l)
{
    const char *missing = tr_parent_gone(&l->stop->parent) ? NULL : tr_output_missing();
    enum tr_status s = TR_OK;

    if (missing && l->saved_at >= 0)
        s = TR_FAIL(
            TR_EIO,
            "%s; iteration %lld is saved in %s, so make room, or give another file, and start "
            "again",
            missing, (long long)l->saved_at, l->r->config->save);
    else if (missing)
        s = TR_FAIL(TR_EIO, "%s", missing);
    return tr_comm_agree(l->r->world, s);
}

/* After failure `s`, whose sentence stays. */
static enum tr_status keep_saving(struct loop *l, enum tr_status s)
{
    char *said = tr_format("%s", tr_last_error());

    if (end_saving(l) != TR_OK)
        tr_log(TR_LOG_WARNING, "%s", tr_last_error());
    s = TR_FAIL(s, "%s", said);
    free(said);
    return s;
}

static enum tr_status run_loop(struct tr_run *r, struct tr_run_folder *folder, struct tr_stop *stop)
{
    struct loop l = {.r = r, .folder = folder, .stop = stop, .saved_at = -1};
    enum tr_status s;

    tr_print_brief(tr_logging_is_brief(r));
    if (r->config->skip_train) {
        TR_TRY(only_evaluate(&l));
        return look_at_output(&l);
    }
    expect_end(&l);
    tr_run_folder_note(folder, stop, r->iteration, true);
    tr_logging_start(r);
    s = tr_recorder_open(&l.record, r);
    if (s == TR_OK)
        s = tr_numbers_open(&l.numbers, r);
    if (s == TR_OK)
        s = tr_stragglers_open(&l.slow, r);
    if (s == TR_OK)
        s = tr_joules_open(&l.joules, r);
    if (s != TR_OK) {
        tr_stragglers_close(&l.slow);
        tr_numbers_close(&l.numbers);
        tr_recorder_close(&l.record);
        return s;
    }
    tr_tracker_open(&l.tracker, r);
    tr_logging_open(&l.tell, r, l.record.waits);
    if (r->config->log_progress && r->world->rank == 0)
        tr_progress_open(&l.progress, r->config->save, r->world->size, r->shape.dims.seq,
                         tr_logging_flops(r), r->consumed_train, time(NULL));
    s = iterate(&l);
    /* What was copied before a failure that all ranks share is good. */
    if (s != TR_OK)
        s = keep_saving(&l, s);
    tr_profile_stop(r);
    tr_tracker_close(&l.tracker);
    tr_progress_close(&l.progress);
    tr_logging_close(&l.tell);
    tr_recorder_finish(&l.record);
    tr_stragglers_close(&l.slow);
    tr_numbers_close(&l.numbers);
    tr_recorder_close(&l.record);
    if (s == TR_OK)
        s = look_at_output(&l);
    if (s == TR_OK && r->iteration == r->shape.amounts.train_iters)
        tr_logging_places(r, l.saved_at >= 0);
    return s;
}

/* Model, optimizer and checkpoint, then data: the two parts that Megatron times. */
static enum tr_status set_up(struct tr_run *r, const struct tr_config *config,
                             struct tr_comm *world)
{
    const enum tr_timer timers[] = {TR_TIMER_MODEL_SETUP, TR_TIMER_DATA_SETUP};
    char text[TR_REPORT_BYTES];

    tr_start_end(TR_START_LAUNCH);
    tr_timer_start(TR_TIMER_MODEL_SETUP);
    TR_TRY(tr_run_open(r, config, world));
    tr_start_end(TR_START_MODEL);
    tr_lines_decay_style(text, sizeof text,
                         tr_config_spelling("lr-decay-style", config->lr_decay_style));
    tr_logging_tell(r, text);
    TR_TRY(tr_run_load(r));
    tr_start_end(TR_START_CHECKPOINT);
    tr_timer_stop(TR_TIMER_MODEL_SETUP);
    tr_lines_built(text, sizeof text, moment(r));
    tr_logging_tell(r, text);

    tr_timer_start(TR_TIMER_DATA_SETUP);
    TR_TRY(tr_run_data(r));
    tr_start_end(TR_START_DATA);
    tr_timer_stop(TR_TIMER_DATA_SETUP);
    tr_lines_ready(text, sizeof text, moment(r));
    tr_logging_tell(r, text);
    /* A short log has the same in the line of the start. */
    if (config->log_arguments)
        tr_logging_timers(r, timers, 2);
    return TR_OK;
}

/* The folder is ours: train, unless there is nothing to do. */
static enum tr_status train(const struct tr_config *config, const struct tr_shape *shape,
                            struct tr_run_folder *folder, struct tr_stop *stop)
{
    struct tr_run run;
    enum tr_status s;

    if (tr_run_folder_over(folder, config, shape->amounts.train_iters))
        return TR_OK;
    tr_run_folder_begin(folder, config, shape->amounts.train_iters, stop);
    s = set_up(&run, config, folder->world);
    if (s == TR_OK && stop->launched && run.launch.nodes == 1)
        tr_parent_outlive();
    if (s == TR_OK && !config->finetune)
        tr_run_folder_loaded(folder, run.iteration);
    if (s == TR_OK)
        s = run_loop(&run, folder, stop);
    tr_run_close(&run);
    if (s != TR_OK)
        tr_run_folder_fail(folder, s);
    return s;
}

enum tr_status tr_train(const struct tr_config *config, struct tr_comm *world)
{
    double start = tr_now();
    struct tr_run_folder folder;
    struct tr_shape shape;
    struct tr_stop stop;
    enum tr_status s;

    TR_TRY(tr_comm_agree(world, tr_shape_of(config, world->size, &shape)));
    tr_stop_listen(config, shape.exit_signals, world->rank == 0);
    tr_stop_init(&stop, config, &shape.amounts, &shape.epochs, shape.exit_signals, start);
    stop.launched = tr_comm_max(world, tr_parent_find(&stop.parent)) != 0;
    s = tr_run_folder_open(&folder, config, world);
    if (s == TR_OK)
        s = train(config, &shape, &folder, &stop);
    tr_run_folder_close(&folder);
    return s;
}
