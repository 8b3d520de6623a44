/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/progress_thread.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "util/thread.h"

/*
 * Between two looks: short against a layer's backward pass, long against a change of threads.
 * While the rank calls by itself between any two looks, naps double up to the longest; a look at a
 * rank that computes makes them short again.
 */
enum { SHORTEST_NAP = 100000, LONGEST_NAP = 1600000 }; /* nanoseconds */
enum { TICK_NANOSECONDS = 500000000, SECOND = 1000000000 };

struct tr_progress_thread {
    void (*move)(void *ctx);
    void (*tick)(void *ctx);
    void *ctx;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wanted; /* there is something to do, or to stop for */
    int under_way;
    uint64_t entries; /* calls of the rank, which moves things itself while it calls */
    long nap;         /* nanoseconds */
    bool stop;
};

static struct timespec later(const struct timespec *t, long nanoseconds)
{
    long sum = t->tv_nsec + nanoseconds;

    return (struct timespec){.tv_sec = t->tv_sec + sum / SECOND, .tv_nsec = sum % SECOND};
}

static bool is_before(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec : a->tv_nsec < b->tv_nsec;
}

/*
 * Until there is something to do; with transfers under way that is soon.  A rank that calls all the
 * time begins and ends many transfers between two looks: to be woken for each costs more than naps.
 */
static void rest(struct tr_progress_thread *x, const struct timespec *tick)
{
    const struct timespec nap = {.tv_nsec = x->nap};
    const uint64_t before = x->entries;

    if (x->under_way == 0 && x->nap == SHORTEST_NAP) {
        pthread_cond_timedwait(&x->wanted, &x->lock, tick);
        return;
    }
    pthread_mutex_unlock(&x->lock);
    nanosleep(&nap, NULL);
    pthread_mutex_lock(&x->lock);
    if (x->entries != before) {
        x->nap = x->nap < LONGEST_NAP ? 2 * x->nap : x->nap;
        return;
    }
    x->nap = SHORTEST_NAP;
    if (x->under_way > 0 && !x->stop)
        x->move(x->ctx);
}

static void *run(void *arg)
{
    struct tr_progress_thread *x = arg;
    struct timespec now, tick;

    clock_gettime(CLOCK_MONOTONIC, &now);
    tick = later(&now, TICK_NANOSECONDS);
    pthread_mutex_lock(&x->lock);
    while (!x->stop) {
        rest(x, &tick);
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (x->stop || is_before(&now, &tick))
            continue;
        x->tick(x->ctx);
        tick = later(&now, TICK_NANOSECONDS);
    }
    pthread_mutex_unlock(&x->lock);
    return NULL;
}

/* The lock knows who holds it, and the condition's time is that of no clock that is set. */
static void make_locks(struct tr_progress_thread *x)
{
    pthread_mutexattr_t checked;
    pthread_condattr_t steady;

    pthread_mutexattr_init(&checked);
    pthread_mutexattr_settype(&checked, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&x->lock, &checked);
    pthread_mutexattr_destroy(&checked);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&x->wanted, &steady);
    pthread_condattr_destroy(&steady);
}

enum tr_status tr_progress_thread_open(void (*move)(void *ctx), void (*tick)(void *ctx), void *ctx,
                                       struct tr_progress_thread **out)
{
    struct tr_progress_thread *x = calloc(1, sizeof *x);

    *out = NULL;
    if (!x)
        return TR_FAIL(TR_ERESOURCE, "no memory left for the progress thread");
    x->move = move;
    x->tick = tick;
    x->ctx = ctx;
    x->nap = SHORTEST_NAP;
    make_locks(x);
    if (tr_thread_start(&x->thread, run, x) != 0) {
        free(x);
        return TR_FAIL(TR_ERESOURCE, "there is no room for the progress thread; look for a limit "
                                     "on processes (ulimit -u)");
    }
    *out = x;
    return TR_OK;
}

void tr_progress_thread_close(struct tr_progress_thread *x)
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

void tr_progress_thread_enter(struct tr_progress_thread *x)
{
    if (!x)
        return;
    pthread_mutex_lock(&x->lock);
    x->entries++;
}

bool tr_progress_thread_enter_anyhow(struct tr_progress_thread *x)
{
    struct timespec until;
    int error;

    if (!x)
        return true;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    error = pthread_mutex_timedlock(&x->lock, &until);
    return error == 0 || error == EDEADLK;
}

void tr_progress_thread_leave(struct tr_progress_thread *x)
{
    if (x)
        pthread_mutex_unlock(&x->lock);
}

void tr_progress_thread_count(struct tr_progress_thread *x, int change)
{
    if (!x)
        return;
    x->under_way += change;
    if (x->under_way > 0)
        pthread_cond_signal(&x->wanted);
}
