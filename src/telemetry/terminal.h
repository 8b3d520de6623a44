/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TELEMETRY_TERMINAL_H
#define TR_TELEMETRY_TERMINAL_H

#include "config/processor.h"
#include "telemetry/lines.h"

/*
 * --log-format terminal: what somebody wants to see who watches a run.
 *
 *     training on 2 GPUs (TP 1, PP 2, DP 1): iterations 1 to 1000 of 8 samples, 32 tokens each
 *      120/1000  loss 4.0644  12345 tokens/s  231.4 ms  3 h 12 min left  lr 1.000e-03  grad norm 2.88
 *     validation loss at iteration 120: 4.1023, perplexity 60.48
 *     checkpoint saved at iteration 120 in checkpoints, 0.41 s
 *     training is done: 1000 iterations in 3 min 51 s
 *
 * As in telemetry/lines.h this is text and nothing else; every function writes one line into
 * buf[size], without the newline at the end, and returns the length.  Fields are two blanks apart.
 * `trireme report` reads the lines (report/log_terminal.c).
 */
struct tr_terminal_line {
    int64_t iteration, train_iters; /* counted from 1 */
    int64_t samples;                /* trained on in the interval, by all ranks */
    int64_t seq;                    /* tokens in a sample */
    double seconds;                 /* wall time of the interval, all its iterations */
    double left;                    /* seconds that the rest will take */
    double lr;                      /* that the next iteration will use */
    double loss_scale;              /* 0: it is not shown */
    struct tr_interval interval;
};

/* Loss, tokens per second, time per iteration and time left; then the loss scale, and how many were
   skipped or had a loss that is not finite, if any; learning rate and norm.  The loss is "-" when all
   were skipped. */
int tr_terminal_iteration(char *buf, size_t size, const struct tr_terminal_line *line);

/* Leave out the fields at the end of such a line that do not fit into `width` columns; iteration and
   loss stay. */
void tr_terminal_fit(char *line, int width);

/* What recent intervals took, which tells what the others will take. */
enum { TR_PACE_INTERVALS = 10 };
struct tr_pace {
    double seconds[TR_PACE_INTERVALS];
    int iterations[TR_PACE_INTERVALS];
    int64_t count; /* of all intervals so far */
};

void tr_pace_add(struct tr_pace *p, double seconds, int iterations);

/* Seconds for `iterations` more, by the mean of those intervals; 0 before the first. */
double tr_pace_left(const struct tr_pace *p, int64_t iterations);

/* From the iteration after `done` to the last one, on such ranks. */
int tr_terminal_start(char *buf, size_t size, const struct tr_shape *s, enum tr_processor on,
                      int64_t done);

/* WHERE as in lines.h. */
int tr_terminal_validation(char *buf, size_t size, const char *where, double loss);

int tr_terminal_saved(char *buf, size_t size, int64_t iteration, const char *folder,
                      double seconds);

/* After `iterations` in this process. */
int tr_terminal_done(char *buf, size_t size, int64_t iterations, double seconds);

#endif
