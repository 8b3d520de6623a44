/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TELEMETRY_LINES_H
#define TR_TELEMETRY_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "config/shape.h"

/*
 * The lines of the log that programs read; those for people are in telemetry/terminal.h.
 * --log-format says whose they are, because many scripts read them:
 *
 *   megatron            Megatron-LM of May 2021 (commit 217f54b3), byte for byte
 *   megatron-core       Megatron-LM of August 2026 (commit d98e8a64): the time of day in brackets,
 * the rate with six decimals, zeros as a whole number, memory with two decimals; a line after the
 * first iteration of a run, which ends no interval megatron-deepspeed  BigScience's
 * Megatron-DeepSpeed of 2022: tokens, seconds instead of milliseconds, samples per second and
 * TFLOP/s at the end; no loss scale where none is in use
 *
 * This is their text and nothing else: no clock, no communication, no output.  Whose numbers a
 * line holds is said with it; "last" is the last rank of the world, which has the loss.  Rank 0
 * prints all of them, so that they stay in order.
 *
 * Every function writes one line or a block of lines into buf[size], without the newline at the
 * end, and returns the length; it asserts that all of it fits.  TR_REPORT_BYTES is enough for each
 * while its texts (a path, a spelling) have less than 4096 bytes.
 *
 * Where it differs from Megatron, on purpose:
 *   - a loss that is not a number is printed, as "nan" or "inf", and counted among the nan
 *     iterations; Megatron leaves the field out and does not count, so that a run that is lost
 *     looks healthy;
 *   - after the first iteration, timers are divided by one; Megatron Core divides them by
 *     --log-interval there;
 *   - set-up lines that would not be true here are left out (seeds of CUDA, kernels being
 *     compiled).
 */
enum { TR_REPORT_BYTES = 10240 };

/* ---- while training ---- */

/* What happened since the last iteration line; all zero when it begins. */
struct tr_interval {
    double loss_sum;            /* over the advanced iterations */
    int advanced, skipped, nan; /* iterations; nan: whose loss was not finite, skipped or not */
    bool has_norm;              /* of the last iteration: not if it was skipped or nothing clips */
    double norm;                /* before clipping */
    bool has_zeros;             /* of the last iteration, as the norm */
    double zeros;               /* elements of its gradient that are zero */
};

/* Add one iteration.  `norm` is that of its gradient, `zeros` how many elements of it are zero;
   negative if they were not computed. */
void tr_interval_add(struct tr_interval *in, double loss, bool skipped, double norm, double zeros);

/* A time of day; `micros`, of a second, is negative where the log shows whole seconds. */
struct tr_moment {
    time_t seconds;
    int micros;
};

/* Now, as --log-format `format` shows it: microseconds in megatron-core. */
struct tr_moment tr_moment_now(int format);

struct tr_iteration_line {
    int format;                     /* TR_FORMAT_MEGATRON, ... of enums.def */
    struct tr_moment now;           /* for megatron-core */
    int64_t iteration, train_iters; /* counted from 1 */
    int64_t consumed_samples, global_batch;
    int64_t passed_samples; /* of those consumed, skipped; shown if there are any */
    int64_t samples;        /* trained on in the interval; the batch may have grown in it */
    int64_t seq;            /* tokens in a sample */
    double seconds;         /* wall time of the interval, all its iterations */
    double lr;              /* that the next iteration will use */
    bool scaled;            /* a loss scale is in use */
    double loss_scale;      /* 1 where there is none */
    double tflops;          /* TFLOP/s of a rank; negative if not wanted */
    double joules;          /* of all ranks in the interval; 0 if not wanted */
    int ranks;              /* how many they are, where it is wanted */
    double params_norm;     /* negative if not wanted */
    struct tr_interval interval;
};

/*
 * " iteration      200/    1000 | consumed samples: ... | number of nan iterations:   0 |", by
 * last.  The loss is absent when all iterations of the interval were skipped, norm and zeros when
 * the last one was.  TFLOP/s stand after the elapsed time; megatron-deepspeed has them at its end
 * too, and needs them.  Behind them come joules of an iteration and watts, of a rank, and joules of
 * a token.
 */
int tr_lines_iteration(char *buf, size_t size, const struct tr_iteration_line *line);

/* "> TFLOP/s by the formula FORMULA", once: numbers of the same run differ by formula. */
int tr_lines_formula(char *buf, size_t size, const char *formula);

/* Three lines: " validation loss at WHERE | lm loss value: ... | lm loss PPL: ... | " between two
   rulers, by last.  WHERE is "iteration 100", and at the end "the end of training for val data" and
   "... test data", in megatron-core and terminal "iteration 1000 on validation set" and "... test
   set".  The perplexity is exp(min(loss, 20)). */
int tr_lines_validation(char *buf, size_t size, const char *where, double loss);

/* The same as CocktailSGD has it, of --evaluation-data: {"valid.perplexity": P, "valid.loss": L}.
 */
int tr_lines_evaluation(char *buf, size_t size, double loss);

/* WHERE of the validation data at the end of training, or of the test data. */
int tr_lines_where(char *buf, size_t size, int format, int64_t iteration, bool test);

/* "Evaluating iter 3/10": progress of the evaluation on test data, by rank 0. */
int tr_lines_evaluating(char *buf, size_t size, int64_t iteration, int64_t iterations);

/* Bytes of memory, printed in units of 2^20. */
struct tr_memory_line {
    int64_t allocated, max_allocated, reserved, max_reserved;
};

/* "[Rank 0] (after 20 iterations) memory (MB) | allocated: ...", after the first line with a rate
   above 0 and every --log-memory-interval, by every rank whose data-parallel rank is 0. */
int tr_lines_memory(char *buf, size_t size, int format, int rank, int64_t iteration,
                    const struct tr_memory_line *memory);

/*
 * "Theoretical memory footprints: weight and optimizer=3.20 MB, activation=0.50 MB, total=3.70 MB"
 * and an empty line, in units of 2^20, by rank 0 before the first memory lines of megatron-core;
 * without the second and third number if there is no formula for them (activations negative).
 */
int tr_lines_theory(char *buf, size_t size, double weights, double activations);

/* "[EVENT] datetime: 2021-05-23 08:41:05 ", local time, by rank 0; microseconds if `now` has them.
 */
int tr_lines_datetime(char *buf, size_t size, const char *event, struct tr_moment now);

/* ---- set-up, by rank 0 unless said otherwise, in this order ---- */

/* Leave of such a block the lines that programs read, or that say what cannot be guessed: all that
   a log has without
   --log-arguments.  Nothing may be left. */
void tr_lines_shorten(char *text);

/* Sizes of the groups and the type of the parameters; the arguments block comes next. */
int tr_lines_world(char *buf, size_t size, const struct tr_layout *l, const struct tr_precision *p);

/* How layers that the stages do not divide are spread over them; nothing where the options say it,
   or all stages are equal. */
int tr_lines_stages(char *buf, size_t size, const struct tr_layout *l, int64_t layers);

/* Micro-batches, tokenizer (its spelling) and padded vocabulary, groups, seed. */
int tr_lines_setup(char *buf, size_t size, const struct tr_shape *s, const char *tokenizer,
                   uint64_t seed);

/* How long that took since the program was started, the time, and that the model comes next. */
int tr_lines_initialized(char *buf, size_t size, double seconds, struct tr_moment now);

/* Seconds from the start of the program to the first iteration, and of its parts, in the order of
   train/start.h.  No line of Megatron's. */
int tr_lines_start(char *buf, size_t size, const double *parts, double seconds);

/* " > number of parameters on (tensor, pipeline) model parallel rank (0, 1): 1132938240", by every
   rank whose data-parallel rank is 0. */
int tr_lines_parameters(char *buf, size_t size, int tp, int pp, int64_t number);

/* "> learning rate decay style: cosine". */
int tr_lines_decay_style(char *buf, size_t size, const char *spelling);

/* Then what ckpt/ckpt.h prints of loading, the "time (ms)" line of LOAD_CHECKPOINT, this one, and
   what data/batch.h prints. */
int tr_lines_built(char *buf, size_t size, struct tr_moment now);

/* After the data: done with set-up.  The "time (ms)" line of MODEL_SETUP and DATA_SETUP is next. */
int tr_lines_ready(char *buf, size_t size, struct tr_moment now);

/* "training ..." and the time before the first step. */
int tr_lines_training(char *buf, size_t size, struct tr_moment now);

/* "[after training is done] datetime: ". */
int tr_lines_done(char *buf, size_t size, struct tr_moment now);

#endif
