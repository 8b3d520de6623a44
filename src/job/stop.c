/* SPDX-License-Identifier: BSD-3-Clause */
#include "job/stop.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "comm/flight.h"
#include "config/option.h"
#include "job/ctl.h"
#include "telemetry/lines.h"
#include "util/log.h"

static const int signals[] = {
    [TR_EXIT_SIGTERM] = SIGTERM, [TR_EXIT_SIGINT] = SIGINT,   [TR_EXIT_SIGHUP] = SIGHUP,
    [TR_EXIT_SIGUSR1] = SIGUSR1, [TR_EXIT_SIGUSR2] = SIGUSR2,
};
enum { SIGNALS = sizeof signals / sizeof signals[0] };

static const double SAVE_RATE = 100e6; /* bytes a second, from each node */

/* Ranks that agree on a stop wait for one another.  Short iterations agree once for several: as
   many as take ASK_EVERY seconds, and not many, because the next ones may take longer. */
static const double ASK_EVERY = 0.25;
enum { MOST_SHARE = 16 };

/* The signal that has arrived, as exit_signal of enums.def, plus 1; that the launcher is gone
   counts as one more.  A handler can write nowhere else. */
static volatile sig_atomic_t heard;
enum { LAUNCHER_GONE = SIGNALS + 1 };

/* As bits: signals that arrived before the options were read, and those that are held until
   then. */
static volatile sig_atomic_t early;
static unsigned kept;

/* The line that is printed at once when one arrives, prepared beforehand; empty where another rank
   prints it. */
enum { LINE = 192 };
static char line[SIGNALS][LINE];

static const char *signal_name(int signal)
{
    return tr_options_spelling(tr_config_options(), "exit_signal", signal);
}

static void handle(int which, void (*with)(int number))
{
    struct sigaction how = {.sa_handler = with, .sa_flags = (int)SA_RESETHAND | SA_RESTART};

    sigemptyset(&how.sa_mask);
    sigaction(signals[which], &how, NULL);
}

static int which_of(int number)
{
    int i = 0;

    while (signals[i] != number)
        i++;
    return i;
}

/* As handlers may. */
static void say(int which)
{
    const int error = errno;

    (void)!write(STDERR_FILENO, line[which], strlen(line[which]));
    errno = error;
}

static void hear(int number)
{
    heard = which_of(number) + 1;
    say(which_of(number));
}

static void keep(int number)
{
    early = (sig_atomic_t)((unsigned)early | 1U << which_of(number));
}

/* It is blocked until the handler returns, and then has its default action. */
static void tell_and_end(int number)
{
    say(which_of(number));
    tr_flight_signal(number);
    raise(number);
}

/* One that is ignored, as nohup has it, stays so. */
static bool is_default(int which)
{
    struct sigaction now;

    return sigaction(signals[which], NULL, &now) == 0 && !(now.sa_flags & SA_SIGINFO) &&
           now.sa_handler == SIG_DFL;
}

void tr_stop_keep(void)
{
    for (int i = 0; i < SIGNALS; i++) {
        if (!is_default(i))
            continue;
        kept |= 1U << i;
        handle(i, keep);
    }
}

void tr_stop_let_go(void)
{
    const unsigned came = (unsigned)early;

    for (int i = 0; i < SIGNALS; i++)
        if (kept & 1U << i)
            signal(signals[i], SIG_DFL);
    kept = 0;
    early = 0;
    for (int i = 0; i < SIGNALS; i++)
        if (came & 1U << i)
            raise(signals[i]);
}

static void make_line(int which, bool heard_of, bool saves)
{
    const char *name = signal_name(which);

    if (!heard_of)
        snprintf(line[which], LINE,
                 "trireme: %s ends the run at once, and what came after the last checkpoint is "
                 "lost; with --exit-signal-handler it would save and leave\n",
                 name);
    else
        snprintf(line[which], LINE,
                 "trireme: %s: the run %s after the iteration under way; the next %s ends it at "
                 "once\n",
                 name, saves ? "saves and leaves" : "leaves, saving nothing for want of --save,",
                 name);
}

/* The first of each, which may have come by now. */
static void listen_for(int which)
{
    if ((unsigned)early & 1U << which) {
        heard = which + 1;
        say(which);
    } else {
        handle(which, hear);
    }
    early = (sig_atomic_t)((unsigned)early & ~(1U << which));
    kept &= ~(1U << which);
}

void tr_stop_listen(const struct tr_config *c, unsigned exit_signals, bool tells)
{
    const unsigned wanted = c->exit_signal_handler ? exit_signals : 0;

    heard = 0;
    for (int i = 0; i < SIGNALS; i++) {
        line[i][0] = '\0';
        if (tells)
            make_line(i, wanted & 1U << i, c->save != NULL);
        if (wanted & 1U << i)
            listen_for(i);
    }
    tr_stop_let_go();
    for (int i = 0; i < SIGNALS; i++)
        if (!(wanted & 1U << i) && (signals[i] == SIGINT || signals[i] == SIGTERM) && is_default(i))
            handle(i, tell_and_end);
}

static double minutes(const struct tr_stop *s, double now)
{
    return (now - s->start) / 60.0;
}

void tr_stop_init(struct tr_stop *s, const struct tr_config *c, const struct tr_amounts *amounts,
                  const struct tr_epoch_plan *epochs, unsigned exit_signals, double start)
{
    *s = (struct tr_stop){
        .train_iters = amounts->train_iters,
        .eval_interval = amounts->eval_iters > 0 ? amounts->eval_interval : 0,
        .eval_iters = amounts->eval_iters,
        .epoch_iters = epochs->iters,
        .signals = c->exit_signal_handler ? exit_signals : 0,
        .asks = c->save != NULL,
        .start = start,
        .slower_after = c->exit_slower_after,
        .fastest = INFINITY,
        .job_end = INFINITY,
        .margin = 60.0 * c->exit_margin_in_mins,
    };
    if (c->exit_interval != TR_UNSET_INT)
        s->exit_interval = c->exit_interval;
    if (c->exit_duration_in_mins != TR_UNSET_INT)
        s->exit_minutes = (double)c->exit_duration_in_mins;
    if (c->exit_slower_than > TR_UNSET_REAL)
        s->slower_than = c->exit_slower_than / 1e3;
}

void tr_stop_took(struct tr_stop *s, enum tr_stop_part part, double seconds)
{
    if (part != TR_PART_ITERATION) {
        s->longest[part] = fmax(s->longest[part], seconds);
        return;
    }
    if (s->recent == TR_STRETCH) {
        s->before = s->now;
        s->now = 0.0;
        s->recent = 0;
    }
    s->recent++;
    s->took++;
    s->fastest = fmin(s->fastest, seconds);
    s->now = fmax(s->now, seconds);
    s->longest[part] = fmax(s->now, s->before);
}

double tr_stop_guess_save(int64_t parameters, bool moments, int nodes)
{
    return (double)parameters * 4.0 * (moments ? 3.0 : 1.0) / (SAVE_RATE * nodes);
}

static double evaluation(const struct tr_stop *s)
{
    double guess = 0.5 * (double)s->eval_iters * s->longest[TR_PART_ITERATION];

    return s->longest[TR_PART_EVALUATION] > 0.0 ? s->longest[TR_PART_EVALUATION] : guess;
}

static double save(const struct tr_stop *s)
{
    return s->longest[TR_PART_SAVE] > 0.0 ? s->longest[TR_PART_SAVE] : s->save_guess;
}

/* After the last iteration there is one before the save, on top of the regular one. */
static int evaluations_due(const struct tr_stop *s, int64_t iteration)
{
    if (s->eval_interval == 0)
        return 0;
    return (iteration % s->eval_interval == 0 ||
            (s->epoch_iters > 0 && iteration < s->train_iters && iteration % s->epoch_iters == 0)) +
           (iteration >= s->train_iters);
}

double tr_stop_need(const struct tr_stop *s, int64_t iteration)
{
    return s->longest[TR_PART_ITERATION] + evaluations_due(s, iteration + 1) * evaluation(s) +
           save(s) + s->margin;
}

/* The numbers of a rank; the largest of all ranks count. */
enum { HEARD, CLOCK, ASKED, LOST, LONGEST, FACTS };
enum { CLOCK_SLOW = 1, CLOCK_DURATION, CLOCK_JOB_END };

/* What mpiexec read can be lost a moment before its own end is seen. */
static bool launcher_gone(const struct tr_stop *s, bool missing)
{
    const struct timespec moment = {.tv_nsec = 100000000};

    if (missing && !tr_parent_gone(&s->parent))
        nanosleep(&moment, NULL);
    return tr_parent_gone(&s->parent);
}

static bool is_slow(const struct tr_stop *s)
{
    return s->slower_than > 0.0 && s->took >= s->slower_after && s->fastest > s->slower_than;
}

static void bring(const struct tr_stop *s, const struct tr_comm *world, int64_t iteration,
                  double now, unsigned asked, double fact[FACTS])
{
    const bool missing = tr_output_missing() != NULL;
    int number = s->signals ? heard : 0;

    if (s->launched && launcher_gone(s, missing))
        number = LAUNCHER_GONE;
    /* Of several signals the last in enums.def, of several ranks the lowest. */
    if (number > 0)
        fact[HEARD] = (double)number * world->size + (world->size - 1 - world->rank);
    if (world->rank == 0 && is_slow(s))
        fact[CLOCK] = CLOCK_SLOW;
    if (s->exit_minutes > 0.0 && minutes(s, now) > s->exit_minutes)
        fact[CLOCK] = CLOCK_DURATION;
    if (now + tr_stop_need(s, iteration) > s->job_end)
        fact[CLOCK] = CLOCK_JOB_END;
    fact[ASKED] = asked;
    fact[LOST] = missing;
    fact[LONGEST] = s->longest[TR_PART_ITERATION];
}

/* Iterations until ranks agree again.  Without measurements that is after each. */
static int64_t share(double longest)
{
    double n = longest > 0.0 ? ASK_EVERY / longest : 1.0;

    return n < 1.0 ? 1 : n > MOST_SHARE ? MOST_SHARE : (int64_t)n;
}

/* In a world of `size` ranks. */
static enum tr_stop_reason reason_of(const struct tr_stop *s, int64_t iteration, const double *fact,
                                     int size)
{
    if (iteration >= s->train_iters)
        return TR_STOP_DONE;
    if (fact[HEARD] >= (double)LAUNCHER_GONE * size)
        return TR_STOP_LAUNCHER;
    if (fact[LOST] > 0.0)
        return TR_STOP_OUTPUT;
    if (fact[HEARD] > 0.0)
        return TR_STOP_SIGNAL;
    if ((unsigned)fact[ASKED] & TR_ASK_STOP)
        return TR_STOP_CTL;
    if (fact[CLOCK] > CLOCK_DURATION)
        return TR_STOP_JOB_END;
    if (fact[CLOCK] > 0.0)
        return fact[CLOCK] > CLOCK_SLOW ? TR_STOP_DURATION : TR_STOP_SLOW;
    if (s->exit_interval > 0 && iteration % s->exit_interval == 0)
        return TR_STOP_INTERVAL;
    return TR_STOP_NOT;
}

bool tr_stop_asks(const struct tr_stop *s, int64_t iteration)
{
    return iteration >= s->ask_at &&
           (s->exit_minutes > 0.0 || s->slower_than > 0.0 || s->signals || s->asks || s->launched);
}

struct tr_answer tr_stop_after(struct tr_stop *s, struct tr_comm *world, int64_t iteration,
                               double now, unsigned asked)
{
    double fact[FACTS] = {0.0};
    struct tr_answer a = {.rank = -1, .signal = -1};

    if (tr_stop_asks(s, iteration)) {
        struct tr_tensor t = tr_f64_1(fact, FACTS);

        bring(s, world, iteration, now, asked, fact);
        world->via->allreduce(world, NULL, &t, TR_MAX);
        s->ask_at = iteration + share(fact[LONGEST]);
    }
    a.why = reason_of(s, iteration, fact, world->size);
    a.save = (unsigned)fact[ASKED] & TR_ASK_SAVE;
    a.dump = (unsigned)fact[ASKED] & TR_ASK_DUMP;
    if (a.why == TR_STOP_SIGNAL)
        a.signal = (int)fact[HEARD] / world->size - 1;
    if (a.why == TR_STOP_SIGNAL || a.why == TR_STOP_LAUNCHER)
        a.rank = world->size - 1 - (int)fact[HEARD] % world->size;
    return a;
}

const char *tr_stop_word(const struct tr_answer *a)
{
    static char text[32];

    switch (a->why) {
    case TR_STOP_SIGNAL:
        snprintf(text, sizeof text, "signal %s", signal_name(a->signal));
        return text;
    case TR_STOP_OUTPUT:
        return "output";
    case TR_STOP_LAUNCHER:
        return "launcher";
    case TR_STOP_CTL:
        return "ctl";
    case TR_STOP_JOB_END:
        return "job-end";
    case TR_STOP_DURATION:
        return "duration";
    case TR_STOP_SLOW:
        return "slow";
    case TR_STOP_INTERVAL:
        return "interval";
    default:
        return "done";
    }
}

int tr_stop_line(char *buf, size_t size, const struct tr_stop *s, const struct tr_answer *a,
                 int64_t iteration, double now, struct tr_moment datetime)
{
    char event[128], number[64];

    switch (a->why) {
    case TR_STOP_INTERVAL:
        snprintf(event, sizeof event, "exiting program at iteration %" PRId64, iteration);
        break;
    case TR_STOP_SIGNAL:
        snprintf(event, sizeof event, "exiting program after receiving %s.",
                 signal_name(a->signal));
        break;
    case TR_STOP_OUTPUT:
        snprintf(event, sizeof event, "exiting program as its output cannot be written");
        break;
    case TR_STOP_LAUNCHER:
        snprintf(event, sizeof event, "exiting program because its launcher is gone");
        break;
    case TR_STOP_CTL:
        snprintf(event, sizeof event, "exiting program as trireme ctl asked");
        break;
    case TR_STOP_SLOW:
        tr_real_text(1e3 * s->slower_than, number, sizeof number);
        snprintf(event, sizeof event, "exiting program as its iterations take more than %s ms",
                 number);
        break;
    case TR_STOP_JOB_END:
        snprintf(event, sizeof event, "exiting program %.1f minutes before the job ends",
                 fmax(s->job_end - now, 0.0) / 60.0);
        break;
    default:
        TR_ASSERT(a->why == TR_STOP_DURATION);
        tr_real_text(minutes(s, now), number, sizeof number);
        snprintf(event, sizeof event, "exiting program after %s minutes", number);
    }
    return tr_lines_datetime(buf, size, event, datetime);
}

int tr_stop_why_now(char *buf, size_t size, const struct tr_stop *s, int64_t iteration, double now)
{
    int n =
        snprintf(buf, size,
                 "the job ends in %.1f s, less than %.1f s that may pass until one more iteration "
                 "is saved: %.1f s for it, %.1f s to evaluate, %.1f s to save, and %.1f s of "
                 "--exit-margin-in-mins",
                 s->job_end - now, tr_stop_need(s, iteration), s->longest[TR_PART_ITERATION],
                 evaluations_due(s, iteration + 1) * evaluation(s), save(s), s->margin);

    TR_ASSERT(n > 0 && (size_t)n < size);
    return n;
}
