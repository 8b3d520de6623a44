/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_UTIL_ASIDE_H
#define TR_UTIL_ASIDE_H

#include <pthread.h>
#include <stdbool.h>

/*
 * One call at a time on a thread of its own, while the caller goes on: writing what is ready, say.  Calls do not use
 * TR_FAIL(), which belongs to the main thread: they return a number, such as an errno.
 */
struct tr_aside {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool threaded; /* there is the thread */
    bool ends;
    int (*call)(void *ctx); /* under way; NULL: none */
    void *ctx;
    int result; /* of the last one */
};

/* Where there is no room for a thread, calls are made by tr_aside_begin() itself. */
void tr_aside_open(struct tr_aside *a);

/* Begin a call.  None is under way. */
void tr_aside_begin(struct tr_aside *a, int (*call)(void *ctx), void *ctx);

/* Whether none is under way. */
bool tr_aside_done(struct tr_aside *a);

/* Wait for the call that is under way; the result of the last one that was begun, 0 after none. */
int tr_aside_wait(struct tr_aside *a);

/* The same, and end the thread. */
int tr_aside_close(struct tr_aside *a);

#endif
