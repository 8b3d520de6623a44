/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/thread.h"

#include <signal.h>

int tr_thread_start(pthread_t *out, void *(*run)(void *arg), void *arg)
{
    sigset_t all, old;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}
