/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TRAIN_NUMBERS_H
#define TR_TRAIN_NUMBERS_H

#include "telemetry/events.h"
#include "train/run.h"
#include "train/scoring.h"
#include "train/step.h"
#include "train/logging.h"

/*
 * The numbers of the log for programs: event files of TensorBoard (--tensorboard-dir) and JSON
 * lines (--log-jsonl).  The last rank writes both, for it has the loss.
 *
 * Tags are those of Megatron-LM of 2021: "lm loss", "learning-rate", "loss-scale", "grad-norm", ...
 * and "lm loss vs samples" and so on, whose steps are samples; with --log-format megatron-deepspeed
 * those of BigScience's fork: "lm-loss-training/lm loss", "grad-norm/grad-norm", also against
 * tokens.  --log-throughput adds "throughput" (TFLOP/s of a rank), "tokens-per-second" and "mfu",
 * there as "throughput/tflops", "throughput/tokens_per_sec" and "throughput/mfu".
 *
 * A line of JSON is one object.  "schema" is 1, and "kind" says what it is:
 *
 *   start       the process begins: program, ranks, layout, iteration it goes on from; on several GPUs `nccl`, what
 *               is known of NCCL
 *   iteration   "iteration", "consumed_samples", "consumed_tokens", "global_batch_size", "seconds"
 *               (of this iteration), "skipped", "lm_loss", "learning_rate" (that the next one will
 *               use), "loss_scale", "grad_norm"; "num_zeros", "params_norm" where the log has them.
 *               With each iteration line of the log also, with --log-energy, "joules" of all ranks in the interval and
 *               "joules_per_token", and of the last rank, means of the interval, "elapsed_ms" and
 *               "timers_ms"; "tokens_per_second" of all ranks, "tflops_per_rank" by the formula of
 *               the log, "mfu" (0 to 1, of the model's operations; where telemetry/gpus.def has the
 *               GPU), and "memory_allocated_bytes" and "memory_resident_bytes" of the last rank
 *   validation  "iteration", "consumed_samples", "lm_loss"; of a head of classes also each metric of the task
 *               by its name: "accuracy"
 *
 * What was not computed, or is not finite, is null.  A start appends; it repeats iterations that
 * were done after the checkpoint it began from, and then the later object counts.
 *
 * A file that cannot be opened ends the run before it begins.  One that cannot be written later is
 * output that is lost (util/log.h), and no more is written to it.
 */
struct tr_numbers {
    struct tr_run *run; /* borrowed */
    struct tr_events events;
    FILE *lines;               /* owned, or NULL */
    bool mine;                 /* this rank writes */
    double began, took;        /* tr_now() when the iteration began; its seconds */
    double seconds[TR_TIMERS]; /* the timers before the log resets them */
    bool timed;                /* they are of this iteration's line */
    int iterations;            /*   and the sums of so many */
};

/* Collective over the world; TR_EIO on all ranks.  Close also after a failure. */
enum tr_status tr_numbers_open(struct tr_numbers *n, struct tr_run *run) TR_MUST_CHECK;
void tr_numbers_close(struct tr_numbers *n);

/* None of these is collective.  Before an iteration; after it, before its line in the log is
   printed; and after that. */
void tr_numbers_begin(struct tr_numbers *n);
void tr_numbers_timers(struct tr_numbers *n, const struct tr_logging *tell, bool line_due);
void tr_numbers_add(struct tr_numbers *n, const struct tr_logging *tell,
                    const struct tr_step_result *step, bool skipped);

/* An evaluation of the validation data, and what it counted. */
void tr_numbers_validation(struct tr_numbers *n, double loss, const struct tr_scoring *scoring);

#endif
