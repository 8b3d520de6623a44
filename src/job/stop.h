/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_JOB_STOP_H
#define TR_JOB_STOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/comm.h"
#include "launch/parent.h"
#include "config/amounts.h"
#include "config/config.h"
#include "telemetry/lines.h"

/*
 * When training stops, and what else it is asked for.  The question is put after an iteration, when
 * evaluation and the regular checkpoint of that iteration are done; the caller acts on the answer:
 *
 *   DONE       the last of --train-iters: evaluate for the last time, save, return
 *   LAUNCHER   the mpiexec or srun that started some rank is gone, and who read the log with it: as SIGNAL
 *   OUTPUT     on some rank output that was asked for cannot be written (util/log.h): save, and fail
 *   SIGNAL     one of --exit-signal came to some rank: the same as for
 *   CTL        `trireme ctl SAVE stop`: the same as for
 *   JOB_END    the next iteration might not leave the time to save: the same as for
 *   DURATION   --exit-duration-in-mins is over: save unless this iteration was saved, leave
 *   SLOW       even the fastest iteration of this start took longer than --exit-slower-than, by the clock of
 *              rank 0, which is that of the log: the same
 *   INTERVAL   the iteration is a multiple of --exit-interval: the same
 *
 * Megatron-LM of 2021 asks in the order SIGNAL, DURATION, INTERVAL, DONE, so that a run whose last
 * iteration is a multiple of the interval ends without its last evaluation.  Here DONE comes first.
 */
enum tr_stop_reason {
    TR_STOP_NOT,
    TR_STOP_DONE,
    TR_STOP_OUTPUT,
    TR_STOP_SIGNAL,
    TR_STOP_LAUNCHER,
    TR_STOP_CTL,
    TR_STOP_JOB_END,
    TR_STOP_DURATION,
    TR_STOP_SLOW,
    TR_STOP_INTERVAL
};

/* What is measured, to know how long the next iteration and a save may take. */
enum tr_stop_part { TR_PART_ITERATION, TR_PART_EVALUATION, TR_PART_SAVE, TR_PARTS };

struct tr_stop {
    int64_t train_iters;
    int64_t eval_interval; /* iterations; 0: no evaluation */
    int64_t eval_iters;
    int64_t epoch_iters;     /* of an epoch, which ends with an evaluation; 0: there are none */
    int64_t exit_interval;   /* iterations; 0 for none */
    double exit_minutes;     /* 0 for none */
    double slower_than;      /* seconds of an iteration; 0 for none */
    int64_t slower_after;    /* iterations of this start */
    unsigned signals;        /* exit_signal values of enums.def as bits; 0: none are heard */
    bool launched;           /* some rank was started by a launcher, and so are they all */
    struct tr_parent parent; /* this rank's launcher */
    bool asks;               /* rank 0 may get external requests (trireme ctl) */
    int64_t ask_at;          /* iteration after which the ranks ask one another again */
    double start;            /* tr_now() when the program began, for set-up counts */

    /* The end of the job, as rank 0 knows it: tr_now() then, or INFINITY. */
    double job_end;
    double margin;            /* --exit-margin-in-mins, in seconds */
    double longest[TR_PARTS]; /* seconds: the longest of the latest iterations, and so far */
    double now, before;       /* the longest iteration of this stretch and of the one before it, */
    int recent;               /*   and how many this one has */
    double fastest;           /* iteration of this start, in seconds */
    int64_t took;             /* iterations of this start */
    double save_guess;        /* until a save was measured */
};

/* The answer; the same on all ranks. */
struct tr_answer {
    enum tr_stop_reason why;
    int signal;      /* for SIGNAL: which of enums.def */
    int rank;        /* for SIGNAL, LAUNCHER: the lowest that heard it, or lost its launcher */
    bool save, dump; /* asked for by `trireme ctl`, and to be done in any case */
};

/*
 * Signals, for the whole process.  What to do about them is known only when the options are, which takes MPI.
 *
 * keep     from now on those of exit_signal (enums.def) wait for what follows, once; the next one of that
 *          kind does what it does to any program, and those that are ignored stay ignored
 * let_go   they do what they do to any program; so do those that came meanwhile
 * listen   with --exit-signal-handler for those of --exit-signal: the first of each, if it came already
 *          too, is kept in mind, and the next one does what it does to any program.  The others are
 *          let go.  A rank that `tells` (rank 0) says on stderr at once what comes of a signal.
 */
void tr_stop_keep(void);
void tr_stop_let_go(void);
void tr_stop_listen(const struct tr_config *c, unsigned exit_signals, bool tells);

/* Without an end of the job and without a launcher. */
void tr_stop_init(struct tr_stop *s, const struct tr_config *c, const struct tr_amounts *amounts,
                  const struct tr_epoch_plan *epochs, unsigned exit_signals, double start);

/* An iteration, an evaluation or a save took `seconds`.  Iterations that are more than twice TR_STRETCH
   ago are forgotten, and none of the latest TR_STRETCH: what a start-up or a stalled file system cost
   once does not shorten the whole run.  Evaluations and saves are few, and so is what they may cost. */
enum { TR_STRETCH = 50 };
void tr_stop_took(struct tr_stop *s, enum tr_stop_part part, double seconds);

/* How long going on after iteration `iteration` (0: before the first) may take until all is saved, in
   seconds: one more iteration, the evaluations that are due after it, a save and the margin.  An
   evaluation that was never measured counts as half an iteration for each of its own, a save that
   was never measured as save_guess. */
double tr_stop_need(const struct tr_stop *s, int64_t iteration);

/* A guess at the seconds of a save before one was measured: fp32 weights, and the moments where
   they are saved, of `parameters` at a cautious 100 MB/s from each node. */
double tr_stop_guess_save(int64_t parameters, bool moments, int nodes);

/* Will tr_stop_after() this iteration communicate?  Only then does it matter what rank 0 is asked for. */
bool tr_stop_asks(const struct tr_stop *s, int64_t iteration);

/*
 * The answer after iteration `iteration` (from 1) at `now` (tr_now()).  Collective over `world`:
 * the clocks differ, and the first rank whose time is over stops all; the answer is the same
 * everywhere.  `asked` are the bits of enum tr_ask that rank 0 was asked for; nothing on other
 * ranks.  It communicates only when there is a duration, a limit of an iteration, a signal to listen for, a
 * launcher, or a folder in which somebody may ask, and then once; and where iterations are short, about four
 * times a second.
 */
struct tr_answer tr_stop_after(struct tr_stop *s, struct tr_comm *world, int64_t iteration,
                               double now, unsigned asked);

/* In one word or two, for SAVE/state: "job-end", "signal SIGUSR1", ...; static storage. */
const char *tr_stop_word(const struct tr_answer *a);

/*
 * What rank 0 prints last, as telemetry/lines.h prints: "[exiting program at iteration 200] datetime:
 * ... ", "[exiting program after 600.25 minutes] datetime: ... ", "[exiting program after receiving
 * SIGTERM.] datetime: ... ", "[exiting program because its launcher is gone] datetime: ... ", "[exiting
 * program 7.5 minutes before the job ends] datetime: ... ", "[exiting program as its iterations take
 * more than 12.5 ms] datetime: ... ", "[exiting program as trireme ctl asked] datetime: ... " or
 * "[exiting program as its output cannot be written] datetime: ... ".  Of DONE, tr_lines_done() speaks.
 */
int tr_stop_line(char *buf, size_t size, const struct tr_stop *s, const struct tr_answer *a,
                 int64_t iteration, double now, struct tr_moment datetime);

/* Why a run leaves before the end of its job, in one line without a newline. */
int tr_stop_why_now(char *buf, size_t size, const struct tr_stop *s, int64_t iteration, double now);

#endif
