/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_LOGGING_H
#define TR_TRAIN_LOGGING_H

#include <stdio.h>

#include "telemetry/lines.h"
#include "telemetry/terminal.h"
#include "train/run.h"
#include "train/step.h"
#include "telemetry/timer.h"

/*
 * What a run prints while it trains: when a line is due, whose numbers it takes, and who prints it.
 * The texts are those of telemetry/lines.h and telemetry/timer.h.  Collective over the world, all of it.
 */
struct tr_logging {
    struct tr_run *run; /* borrowed */
    int64_t began_at;   /* iterations that were done before this process */
    struct tr_interval interval;
    double since;     /* tr_now() at its start, moved on by what evaluation and saving took */
    int64_t consumed; /* samples before the interval, without those skipped */
    bool memory_told;
    struct tr_pace pace; /* of this process; for --log-format terminal */
    double opened;       /* tr_now() when it began to train */
    double told_scale;   /* the loss scale that was shown last */
    double line_seconds; /* of an iteration, as the last iteration line has it */
    double line_tokens;  /*   a second, of all ranks */
    double line_tflops;  /*   TFLOP/s of a rank, by the formula in use */
    double peak;         /* of this rank's GPU, TFLOP/s by its maker; 0 where that is unknown */
    double params_norm;  /* negative if that line has none */
    double joules,
        token_joules; /* of all ranks in the interval, and of a token; 0 without --log-energy */
    struct tr_traffic_count traffic; /* of all ranks in that interval, where it is logged */
    bool split;                      /* what of the transfers was waiting is logged */
    double *seconds;                 /* [world * (TR_TIMERS + 1)] for a table, or NULL; owned */
    char *table;                     /* [TR_TIMERS_BYTES(world)] its text; owned */
};

/* Settle --log-format auto on all ranks: terminal where rank 0 is watched, that is, its stdout or
   that of its launcher is a terminal; else megatron, since logs are read by programs.  From here
   on terminal leaves out what Megatron prints, set-up included unless --log-arguments asks for that. */
void tr_logging_choose(struct tr_config *c, struct tr_comm *world, bool watched);

/* Is it --log-format terminal? */
bool tr_logging_is_brief(const struct tr_run *r);

/* Is what happens every `interval` iterations due after `iteration`?  Never if that is not positive. */
static inline bool tr_logging_every(int64_t iteration, int64_t interval)
{
    return interval > 0 && iteration % interval == 0;
}

/*
 * What a log has of set-up: with --log-arguments everything, else what programs read of it and of the arguments
 * (config/config.h: tr_config_print), in at most 40 lines for a run with a usual number of options.
 */

/* Sizes, arguments, tokenizer, groups, of one process: for --dry-run, too. */
void tr_logging_sizes(const struct tr_config *c, const struct tr_shape *s, FILE *f);

/* Once the ranks have found one another: that, and the time since the process began, or `began` where nobody took
   that.  All arguments go to a file of the run's folder. */
#define TR_ARGUMENTS_FILE "arguments.txt"
void tr_logging_setup(const struct tr_run *r, double began);

/* Lines of telemetry/lines.h about set-up, which are shortened in place; from rank 0. */
void tr_logging_tell(const struct tr_run *r, char *text);

/* How many parameters there are on each tensor rank and stage. */
void tr_logging_parameters(struct tr_run *r);

/* What the device has to tell since it was asked last (tr_backend.news). */
void tr_logging_news(const struct tr_run *r);

/* What the start took, if somebody took the time of it, and that training begins. */
void tr_logging_start(const struct tr_run *r);

/* Before the first iteration.  Says by which formula operations are counted, if the log has them.
   With `split` the timers of SPLIT are logged too. */
void tr_logging_open(struct tr_logging *t, struct tr_run *run, bool split);
void tr_logging_close(struct tr_logging *t);

/* True if an iteration line is due after iteration `iteration`: a multiple of --log-interval; in
   megatron-core also the first of this process, which ends no interval. */
bool tr_logging_due(const struct tr_logging *t, int64_t iteration);

/* Count the iteration that ended: run->iteration. */
void tr_logging_add(struct tr_logging *t, const struct tr_step_result *step, bool skipped);

/* Put together what the ranks sent in the interval that ends, if it is logged and a line is due. */
void tr_logging_traffic(struct tr_logging *t, bool lost);

/* Print what is due after it; `lost`: the iteration line is due in any case, for it is the last. */
void tr_logging_print(struct tr_logging *t, bool lost);

/* Operations of a sample by the formula in use. */
double tr_logging_flops(const struct tr_run *r);

/* Model TFLOP/s of a rank over its peak (model FLOPs utilization), of the last iteration line;
   negative where the peak is not known.  What is recomputed does not count. */
double tr_logging_mfu(const struct tr_logging *t);

/* What this rank's memory is used for, now. */
struct tr_memory_line tr_logging_memory_now(const struct tr_run *r);

/* The loss of an evaluation, on the last rank; WHERE as in lines.h. */
/* And the metrics of the classes, in AC-SGD's line. */
struct tr_scoring;
void tr_logging_metrics(struct tr_run *r, const struct tr_scoring *scoring);
void tr_logging_validation(struct tr_run *r, const char *where, double loss);

/* All iterations are done. */
void tr_logging_done(const struct tr_logging *t);

/* The last sentence of a run that has done all its iterations: where everything is that it wrote, and how to go on.
   Nothing where it wrote nothing.  One that was stopped ends with the line that says why. */
void tr_logging_places(const struct tr_run *r, bool saved);

/* Print what the last rank wrote into text[TR_REPORT_BYTES], unless it is empty. */
void tr_logging_last(struct tr_run *r, char *text);

/* Print what the named timers of set-up, loading or saving show, and set them to zero. */
void tr_logging_timers(struct tr_run *r, const enum tr_timer *timers, int count);

#endif
