/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <pthread.h>

#include "util/aside.h"

/* Calls on another thread: one after the other, each result once it is there. */
enum { MANY = 1000 };

struct call {
    int number, made;
    pthread_t thread;
};

static int make(void *ctx)
{
    struct call *c = ctx;

    c->made++;
    c->thread = pthread_self();
    return c->number % 7;
}

static void calls(void **state)
{
    static struct call list[MANY];
    struct tr_aside a;

    (void)state;
    tr_aside_open(&a);
    assert_int_equal(tr_aside_wait(&a), 0);
    for (int i = 0; i < MANY; i++) {
        list[i].number = i;
        assert_int_equal(tr_aside_wait(&a), i > 0 ? (i - 1) % 7 : 0);
        assert_int_equal(i > 0 ? list[i - 1].made : 1, 1);
        tr_aside_begin(&a, make, &list[i]);
    }
    assert_int_equal(tr_aside_close(&a), (MANY - 1) % 7);
    assert_int_equal(list[MANY - 1].made, 1);
    assert_false(pthread_equal(list[0].thread, pthread_self()));
}

/* The two meet, so neither waits for the other to be done. */
static pthread_barrier_t both;

static int meet(void *ctx)
{
    (void)ctx;
    pthread_barrier_wait(&both);
    return 0;
}

static void at_once(void **state)
{
    struct tr_aside a;

    (void)state;
    pthread_barrier_init(&both, NULL, 2);
    tr_aside_open(&a);
    tr_aside_begin(&a, meet, NULL);
    pthread_barrier_wait(&both);
    assert_int_equal(tr_aside_close(&a), 0);
    pthread_barrier_destroy(&both);
}

/* Without a thread the call is made where it is begun. */
static void alone(void **state)
{
    struct call c = {.number = 5};
    struct tr_aside a;

    (void)state;
    tr_aside_open(&a);
    assert_int_equal(tr_aside_close(&a), 0);
    a = (struct tr_aside){.threaded = false};
    pthread_mutex_init(&a.lock, NULL);
    pthread_cond_init(&a.changed, NULL);
    tr_aside_begin(&a, make, &c);
    assert_int_equal(c.made, 1);
    assert_true(pthread_equal(c.thread, pthread_self()));
    assert_int_equal(tr_aside_close(&a), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls), cmocka_unit_test(at_once),
                                       cmocka_unit_test(alone)};

    return run_tap(tests);
}
