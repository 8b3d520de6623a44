/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdlib.h>

#include "device/cpu/cpu.h"
#include "dp/cocktail_parts.h"
#include "util/thread.h"
#include "util/clock.h"

/*
 * The thread that computes for a round while the rank's own thread continues.  It has a device of
 * its own with one thread, so that it takes no more than a core.  Its work is handed over under its
 * lock.
 */
static void *run(void *arg)
{
    struct tr_cocktail *x = arg;
    struct cocktail_worker *w = &x->worker;

    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        void (*job)(struct tr_cocktail *, struct tr_queue *) = w->job;
        double began;

        if (!job) {
            pthread_cond_wait(&w->change, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        began = tr_now();
        job(x, &w->queue);
        pthread_mutex_lock(&w->lock);
        w->seconds += tr_now() - began;
        w->job = NULL;
        pthread_cond_signal(&w->change);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

enum tr_status cocktail_worker_open(struct tr_cocktail *x)
{
    const struct tr_device_how how = {.threads = 1};
    struct cocktail_worker *w = &x->worker;

    w->queue.on = &tr_cpu;
    TR_TRY(tr_cpu.open(&how, &w->queue.device));
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->change, NULL);
    if (tr_thread_start(&w->thread, run, x) != 0) {
        pthread_cond_destroy(&w->change);
        pthread_mutex_destroy(&w->lock);
        tr_cpu.close(w->queue.device);
        return TR_FAIL(TR_ERESOURCE, "there is no room for the thread that compresses; look for a "
                                     "limit on processes (ulimit -u), or use --no-overlap-round");
    }
    x->threaded = true;
    return TR_OK;
}

void cocktail_worker_begin(struct tr_cocktail *x,
                           void (*job)(struct tr_cocktail *x, struct tr_queue *q))
{
    struct cocktail_worker *w = &x->worker;

    pthread_mutex_lock(&w->lock);
    TR_ASSERT(!w->job);
    w->job = job;
    pthread_cond_signal(&w->change);
    pthread_mutex_unlock(&w->lock);
}

bool cocktail_worker_done(struct tr_cocktail *x, bool wait)
{
    struct cocktail_worker *w = &x->worker;
    bool done;

    pthread_mutex_lock(&w->lock);
    while (wait && w->job)
        pthread_cond_wait(&w->change, &w->lock);
    done = !w->job;
    pthread_mutex_unlock(&w->lock);
    return done;
}

void cocktail_worker_close(struct tr_cocktail *x)
{
    struct cocktail_worker *w = &x->worker;

    if (!x->threaded)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->change);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->change);
    pthread_mutex_destroy(&w->lock);
    tr_cpu.close(w->queue.device);
    x->threaded = false;
}
