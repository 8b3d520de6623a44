/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/nccl_group.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "comm/watch.h"
#include "util/clock.h"
#include "util/thread.h"

/*
 * Calls of NCCL that block are over in microseconds, and may last for ever when another rank is gone.
 * A thread looks now and then whether the rank is inside one, and then looks for what tr_nccl_watch()
 * looks for.
 */

/* Between two looks, and how long a call may take before anybody wonders. */
enum { LOOK_MILLISECONDS = 100 };
static const double MOMENT = 0.5;

/* `inside` when the thread ends the job: the rank does not come back from its call. */
static const unsigned long long TAKEN = ~0ULL;

struct tr_nccl_guard {
    struct tr_nccl_world *world;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t stopped;
    bool stop;

    unsigned long long calls; /* so far */
    atomic_ullong inside;     /* the number of the call that the rank is in; 0: of none */
    struct tr_nccl_group *_Atomic group; /* of that call */
    const char *_Atomic call;
    _Atomic uint64_t seq;
};

void tr_nccl_enter(struct tr_nccl_group *g, const char *call, uint64_t seq)
{
    struct tr_nccl_guard *x = g->world->guard;

    if (!x)
        return;
    x->group = g;
    x->call = call;
    x->seq = seq;
    atomic_store(&x->inside, ++x->calls);
}

void tr_nccl_leave(const struct tr_nccl_world *w)
{
    struct tr_nccl_guard *x = w->guard;

    while (x) {
        unsigned long long mine = x->calls;

        if (atomic_compare_exchange_strong(&x->inside, &mine, 0ULL))
            return;
        pause();
    }
}

/* The rank has been inside call `number` for `waited` seconds. */
static void look(struct tr_nccl_guard *x, unsigned long long number, double waited)
{
    struct tr_nccl_world *w = x->world;
    struct tr_nccl_group *g = x->group;
    const char *call = x->call, *told = w->inner->via->alarmed(w->inner);
    const uint64_t seq = x->seq;

    /* What was read is of that call if it is still under way. */
    if (atomic_load(&x->inside) != number)
        return;
    g->inner->via->waits(g->inner, call, seq, tr_now() - waited);
    if (!told && waited <= w->how.timeout_s)
        return;
    if (!atomic_compare_exchange_strong(&x->inside, &number, TAKEN))
        return;
    w->stuck = g;
    tr_nccl_end_in_call(g, call, seq, tr_now() - waited, told);
}

static bool rest(struct tr_nccl_guard *x)
{
    struct timespec until;
    bool stop;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_MILLISECONDS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&x->lock);
    if (!x->stop)
        pthread_cond_timedwait(&x->stopped, &x->lock, &until);
    stop = x->stop;
    pthread_mutex_unlock(&x->lock);
    return !stop;
}

static void *run(void *arg)
{
    struct tr_nccl_guard *x = arg;
    unsigned long long seen = 0;
    double waited = 0.0, before = tr_now();

    /* Events are asked for, which must not open another GPU. */
    (void)cudaSetDevice(x->world->gpu->ordinal);
    while (rest(x)) {
        const unsigned long long number = atomic_load(&x->inside);
        const double now = tr_now();

        waited = number != 0 && number == seen ? waited + tr_watch_step(before, now) : 0.0;
        seen = number;
        before = now;
        if (waited > MOMENT)
            look(x, number, waited);
    }
    return NULL;
}

enum tr_status tr_nccl_guard_open(struct tr_nccl_world *w)
{
    struct tr_nccl_guard *x = calloc(1, sizeof *x);
    pthread_condattr_t steady;

    if (!x)
        return TR_FAIL(TR_ERESOURCE, "no memory left for the transport between GPUs");
    x->world = w;
    pthread_mutex_init(&x->lock, NULL);
    pthread_condattr_init(&steady);
    pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    pthread_cond_init(&x->stopped, &steady);
    pthread_condattr_destroy(&steady);
    if (tr_thread_start(&x->thread, run, x) != 0) {
        free(x);
        return TR_FAIL(TR_ERESOURCE, "there is no room for the thread that watches over NCCL; look "
                                     "for a limit on processes (ulimit -u)");
    }
    w->guard = x;
    return TR_OK;
}

void tr_nccl_guard_close(struct tr_nccl_world *w)
{
    struct tr_nccl_guard *x = w->guard;

    if (!x)
        return;
    pthread_mutex_lock(&x->lock);
    x->stop = true;
    pthread_cond_signal(&x->stopped);
    pthread_mutex_unlock(&x->lock);
    pthread_join(x->thread, NULL);
    pthread_cond_destroy(&x->stopped);
    pthread_mutex_destroy(&x->lock);
    free(x);
    w->guard = NULL;
}
