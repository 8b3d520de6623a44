/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/aside.h"

#include "util/status.h"
#include "util/thread.h"

static void *run(void *arg)
{
    struct tr_aside *a = arg;

    pthread_mutex_lock(&a->lock);
    for (;;) {
        int result;

        while (!a->call && !a->ends)
            pthread_cond_wait(&a->changed, &a->lock);
        if (!a->call)
            break;
        pthread_mutex_unlock(&a->lock);
        result = a->call(a->ctx);
        pthread_mutex_lock(&a->lock);
        a->result = result;
        a->call = NULL;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

void tr_aside_open(struct tr_aside *a)
{
    *a = (struct tr_aside){.call = NULL};
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    a->threaded = tr_thread_start(&a->thread, run, a) == 0;
}

void tr_aside_begin(struct tr_aside *a, int (*call)(void *ctx), void *ctx)
{
    if (!a->threaded) {
        a->result = call(ctx);
        return;
    }
    pthread_mutex_lock(&a->lock);
    TR_ASSERT(!a->call);
    a->call = call;
    a->ctx = ctx;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

bool tr_aside_done(struct tr_aside *a)
{
    bool done;

    pthread_mutex_lock(&a->lock);
    done = !a->call;
    pthread_mutex_unlock(&a->lock);
    return done;
}

int tr_aside_wait(struct tr_aside *a)
{
    int result;

    pthread_mutex_lock(&a->lock);
    while (a->call)
        pthread_cond_wait(&a->changed, &a->lock);
    result = a->result;
    pthread_mutex_unlock(&a->lock);
    return result;
}

int tr_aside_close(struct tr_aside *a)
{
    const int result = tr_aside_wait(a);

    if (a->threaded) {
        pthread_mutex_lock(&a->lock);
        a->ends = true;
        pthread_cond_broadcast(&a->changed);
        pthread_mutex_unlock(&a->lock);
        pthread_join(a->thread, NULL);
    }
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    return result;
}
