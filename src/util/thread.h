/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_THREAD_H
#define TR_UTIL_THREAD_H

#include <pthread.h>

/* Start a thread that gets no signals: those are for the thread that trains.  0, or an errno when there is
   no room for a thread; *out is joined by the caller. */
int tr_thread_start(pthread_t *out, void *(*run)(void *arg), void *arg);

#endif
