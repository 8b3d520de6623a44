/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/logging.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "train/logging_parts.h"
#include "util/log.h"

/* Warn about requested output that the short form does not have. */
static void warn_of_left_out(const struct tr_config *c)
{
    const struct {
        bool asked;
        const char *option;
    } rows[] = {
        {c->log_throughput, "--log-throughput"},
        {c->log_energy, "--log-energy"},
        {c->log_params_norm, "--log-params-norm"},
        {c->log_num_zeros_in_grad, "--log-num-zeros-in-grad"},
        {c->log_memory_interval != TR_UNSET_INT, "--log-memory-interval"},
        {c->log_traffic, "--log-traffic"},
        {c->timing_log_level != TR_UNSET_INT && c->timing_log_level > 0, "--timing-log-level"}};
    char list[256] = "";
    size_t used = 0;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].asked)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                     rows[i].option);
    if (used > 0)
        tr_log_rank0(TR_LOG_WARNING,
                     "the log of --log-format terminal, one line per interval, leaves out what is "
                     "asked for with %s; give --log-format megatron to see it",
                     list);
}

void tr_logging_choose(struct tr_config *c, struct tr_comm *world, bool watched)
{
    if (c->log_format == TR_FORMAT_AUTO)
        c->log_format = tr_comm_max(world, world->rank == 0 && watched) != 0 ? TR_FORMAT_TERMINAL
                                                                             : TR_FORMAT_MEGATRON;
    if (c->log_format == TR_FORMAT_TERMINAL)
        warn_of_left_out(c);
    tr_print_brief(c->log_format == TR_FORMAT_TERMINAL && !c->log_arguments);
    tr_print_details(c->log_arguments);
}

bool tr_logging_is_brief(const struct tr_run *r)
{
    return r->config->log_format == TR_FORMAT_TERMINAL;
}

/* Columns of a line on stdout: a file has room for all. */
static int columns(void)
{
    struct winsize size;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0)
        return INT_MAX;
    return size.ws_col > 0 ? size.ws_col : 80;
}

/* Print what the last rank wrote; rank 0 knows how wide its terminal is. */
static void show_last(struct tr_run *r, char *text)
{
    tr_logging_fetch(r, text);
    tr_terminal_fit(text, columns());
    tr_notice_rank0("%s\n", text);
}

/* The loss scale is printed when it changed. */
void tr_logging_brief_iteration(struct tr_logging *t, const struct tr_iteration_line *line)
{
    const struct tr_interval *in = &line->interval;
    const bool news = line->scaled && !(fabs(line->loss_scale - t->told_scale) <= 0.0);
    char text[TR_REPORT_BYTES];

    tr_pace_add(&t->pace, line->seconds, in->advanced + in->skipped);
    tr_terminal_iteration(text, sizeof text,
                          &(struct tr_terminal_line){
                              .iteration = line->iteration,
                              .train_iters = line->train_iters,
                              .samples = line->samples,
                              .seq = line->seq,
                              .seconds = line->seconds,
                              .left = tr_pace_left(&t->pace, line->train_iters - line->iteration),
                              .lr = line->lr,
                              .loss_scale = news ? line->loss_scale : 0.0,
                              .interval = *in,
                          });
    t->told_scale = line->loss_scale;
    show_last(t->run, text);
}

void tr_logging_brief_validation(struct tr_run *r, const char *where, double loss)
{
    char text[TR_REPORT_BYTES];

    tr_terminal_validation(text, sizeof text, where, loss);
    show_last(r, text);
}

void tr_logging_brief_start(const struct tr_run *r)
{
    char text[TR_REPORT_BYTES];

    tr_terminal_start(text, sizeof text, &r->shape, tr_processor_of_backend(r->queue.on->name),
                      r->iteration);
    tr_notice_rank0("%s\n", text);
}

void tr_logging_brief_done(const struct tr_logging *t)
{
    char text[TR_REPORT_BYTES];

    tr_terminal_done(text, sizeof text, t->run->iteration - t->began_at, tr_now() - t->opened);
    tr_notice_rank0("%s\n", text);
}
