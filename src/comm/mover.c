/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mover.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* Between two looks: short against a layer's backward pass, long against a change of threads. */
enum { NAP_NANOSECONDS = 100000 };

struct tr_mover {
    void (*move)(void *ctx);
    void *ctx;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wanted; /* there is something to do, or to stop for */
    int under_way;
    uint64_t entries; /* calls of the rank, which moves things itself while it calls */
    bool stop;
};

static void *run(void *arg)
{
    const struct timespec nap = {.tv_nsec = NAP_NANOSECONDS};
    struct tr_mover *x = arg;

    pthread_mutex_lock(&x->lock);
    while (!x->stop) {
        uint64_t before = x->entries;

        if (x->under_way == 0) {
            pthread_cond_wait(&x->wanted, &x->lock);
            continue;
        }
        pthread_mutex_unlock(&x->lock);
        nanosleep(&nap, NULL);
        pthread_mutex_lock(&x->lock);
        if (x->entries == before && x->under_way > 0 && !x->stop)
            x->move(x->ctx);
    }
    pthread_mutex_unlock(&x->lock);
    return NULL;
}

/* Signals are for the thread that trains. */
static int start(struct tr_mover *x)
{
    sigset_t all, old;
    int error;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&x->thread, NULL, run, x);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

enum tr_status tr_mover_open(void (*move)(void *ctx), void *ctx, struct tr_mover **out)
{
    struct tr_mover *x = calloc(1, sizeof *x);

    *out = NULL;
    if (!x)
        return TR_FAIL(TR_ERESOURCE, "no memory left for the thread that moves data");
    x->move = move;
    x->ctx = ctx;
    pthread_mutex_init(&x->lock, NULL);
    pthread_cond_init(&x->wanted, NULL);
    if (start(x) != 0) {
        free(x);
        return TR_FAIL(TR_ERESOURCE, "there is no room for the thread that moves data; look for a "
                                     "limit on processes (ulimit -u)");
    }
    *out = x;
    return TR_OK;
}

void tr_mover_close(struct tr_mover *x)
{
    if (!x)
        return;
    pthread_mutex_lock(&x->lock);
    x->stop = true;
    pthread_cond_signal(&x->wanted);
    pthread_mutex_unlock(&x->lock);
    pthread_join(x->thread, NULL);
    pthread_cond_destroy(&x->wanted);
    pthread_mutex_destroy(&x->lock);
    free(x);
}

void tr_mover_enter(struct tr_mover *x)
{
    if (!x)
        return;
    pthread_mutex_lock(&x->lock);
    x->entries++;
}

void tr_mover_leave(struct tr_mover *x)
{
    if (x)
        pthread_mutex_unlock(&x->lock);
}

void tr_mover_count(struct tr_mover *x, int change)
{
    if (!x)
        return;
    x->under_way += change;
    if (x->under_way > 0)
        pthread_cond_signal(&x->wanted);
}
