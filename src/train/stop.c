/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/stop.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "config/option.h"
#include "train/report.h"

static const int signals[] = {
    [TR_EXIT_SIGTERM] = SIGTERM, [TR_EXIT_SIGINT] = SIGINT,   [TR_EXIT_SIGHUP] = SIGHUP,
    [TR_EXIT_SIGUSR1] = SIGUSR1, [TR_EXIT_SIGUSR2] = SIGUSR2,
};

/* Has it come?  A handler can leave word nowhere else. */
static volatile sig_atomic_t heard;

static void hear(int number)
{
    (void)number;
    heard = 1;
}

void tr_stop_listen(const struct tr_config *c)
{
    struct sigaction how = {.sa_handler = hear, .sa_flags = (int)SA_RESETHAND | SA_RESTART};

    heard = 0;
    if (!c->exit_signal_handler)
        return;
    sigemptyset(&how.sa_mask);
    sigaction(signals[c->exit_signal], &how, NULL);
}

static double minutes(const struct tr_stop *s, double now)
{
    return (now - s->start) / 60.0;
}

void tr_stop_init(struct tr_stop *s, const struct tr_config *c, const struct tr_shape *shape,
                  double start)
{
    *s = (struct tr_stop){.train_iters = shape->train_iters, .start = start};
    s->signal = c->exit_signal_handler ? c->exit_signal : -1;
    if (c->exit_interval != TR_UNSET_INT)
        s->exit_interval = c->exit_interval;
    if (c->exit_duration_in_mins != TR_UNSET_INT)
        s->exit_minutes = (double)c->exit_duration_in_mins;
}

enum tr_stop_reason tr_stop_after(const struct tr_stop *s, struct tr_comm *world, int64_t iteration,
                                  double now)
{
    if (iteration >= s->train_iters)
        return TR_STOP_DONE;
    if (s->exit_minutes > 0.0 || s->signal >= 0) {
        bool over = s->exit_minutes > 0.0 && minutes(s, now) > s->exit_minutes;
        int64_t asked = tr_comm_max(world, s->signal >= 0 && heard ? 2 : over);

        if (asked)
            return asked == 2 ? TR_STOP_SIGNAL : TR_STOP_DURATION;
    }
    if (s->exit_interval > 0 && iteration % s->exit_interval == 0)
        return TR_STOP_INTERVAL;
    return TR_STOP_NOT;
}

int tr_stop_line(char *buf, size_t size, const struct tr_stop *s, enum tr_stop_reason why,
                 int64_t iteration, double now, struct tr_moment datetime)
{
    char event[128], number[64];

    TR_ASSERT(why == TR_STOP_SIGNAL || why == TR_STOP_DURATION || why == TR_STOP_INTERVAL);
    if (why == TR_STOP_INTERVAL) {
        snprintf(event, sizeof event, "exiting program at iteration %" PRId64, iteration);
    } else if (why == TR_STOP_SIGNAL) {
        snprintf(event, sizeof event, "exiting program after receiving %s.",
                 tr_config_spelling("exit-signal", s->signal));
    } else {
        tr_real_text(minutes(s, now), number, sizeof number);
        snprintf(event, sizeof event, "exiting program after %s minutes", number);
    }
    return tr_report_datetime(buf, size, event, datetime);
}
