/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/signals.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>

#include "util/status.h"

static volatile sig_atomic_t stopped_by;

static void on_stop(int signal_number)
{
    stopped_by = signal_number;
}

void tr_cmd_catch_signals(void)
{
    static const int ends[] = {SIGHUP, SIGINT, SIGTERM};
    struct sigaction stop = {.sa_handler = on_stop, .sa_flags = (int)SA_RESETHAND};
    struct sigaction old;

    sigemptyset(&stop.sa_mask);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (sigaction(ends[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(ends[i], &stop, NULL);
    signal(SIGXFSZ, SIG_IGN);
}

int tr_cmd_signal(void)
{
    return stopped_by;
}

void tr_cmd_obey_signal(void)
{
    if (!stopped_by)
        return;
    tr_report_error();
    fflush(NULL);
    signal(stopped_by, SIG_DFL);
    raise(stopped_by);
}
