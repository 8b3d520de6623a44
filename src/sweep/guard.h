/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_SWEEP_GUARD_H
#define TR_SWEEP_GUARD_H

#include <stdbool.h>

#include "util/status.h"

/*
 * One program with all its child processes, with a time limit, ended with this process at the
 * latest.  A process between the two, the guard, starts the program in a process group of its own
 * and waits for it.  When the time is over, when a signal asks this process to stop, and when this
 * process is gone, however it went, the guard sends SIGTERM to the group, and SIGKILL after a
 * grace.  What the program has left behind at its end is killed.
 */
struct tr_guard_run {
    char *const *argv; /* ends with NULL; argv[0] is looked up in PATH */
    const char *log;   /* file for its output, made anew */
    double limit;      /* seconds */
    double grace;      /* seconds between SIGTERM and SIGKILL */
    const char *last;  /* command of the shell after a SIGKILL, or NULL */
};

enum tr_guard_end {
    TR_GUARD_ENDED,   /* by itself */
    TR_GUARD_LATE,    /* its time was over */
    TR_GUARD_STOPPED, /* a signal came to this process */
    TR_GUARD_LOST     /* the guard itself was killed */
};

struct tr_guard_result {
    enum tr_guard_end end;
    int status;     /* as of waitpid() */
    double seconds; /* that it took */
};

/* From here on SIGTERM, SIGINT and SIGHUP wait until somebody asks for them.  Call it once, before a
   run. */
enum tr_status tr_guard_signals(void) TR_MUST_CHECK;

/* Did one come? */
bool tr_guard_stopped(void);

/* TR_EIO where the log cannot be made, TR_ERESOURCE where the program or the guard cannot be started. */
enum tr_status tr_guard(const struct tr_guard_run *run, struct tr_guard_result *out) TR_MUST_CHECK;

#endif
