/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring of the flight recorder: what it keeps, and that another thread reads whole calls while it changes. */
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/flight.h"
#include "telemetry/trace.h"

/* Every number of call n follows from n, so that a mix of two calls is seen. */
static struct tr_flight_call made_of(uint64_t n)
{
    return (struct tr_flight_call){
        .group = n % 2 ? "dp" : "tp",
        .members = {(int)n, (int)n + 1, (int)n + 2, (int)n + 3},
        .id = n * 0x9e3779b97f4a7c15ULL,
        .seq = n,
        .bytes = (int64_t)n * 3,
        .kind = (int)(n % TR_FLIGHT_KINDS),
        .peer = (int)n + 4,
    };
}

static bool is_whole(const struct tr_flight_call *got, uint64_t n)
{
    const struct tr_flight_call want = made_of(n);

    return strcmp(got->group, want.group) == 0 &&
           memcmp(&got->members, &want.members, sizeof want.members) == 0 && got->id == want.id &&
           got->seq == n && got->bytes == want.bytes && got->kind == want.kind &&
           got->peer == want.peer && got->begun > 0;
}

static void the_last_ones(void **state)
{
    enum { CALLS = 3 * TR_FLIGHT_CALLS + 5 };
    const uint64_t before = tr_flight_count();
    struct tr_flight_call got;

    (void)state;
    for (uint64_t n = before + 1; n <= before + CALLS; n++) {
        const struct tr_flight_call call = made_of(n);

        assert_int_equal(tr_flight_begin(&call), n);
    }
    assert_int_equal(tr_flight_count(), before + CALLS);
    for (uint64_t n = before + 1; n <= before + CALLS; n++) {
        const bool kept = n + TR_FLIGHT_CALLS > before + CALLS;

        assert_int_equal(tr_flight_get(n, &got), kept);
        assert_true(!kept || (is_whole(&got, n) && got.ended == 0));
    }
    assert_false(tr_flight_get(before + CALLS + 1, &got));
    assert_false(tr_flight_get(0, &got));
}

/* Those that are not there any more end as well, and touch no other. */
static void ends(void **state)
{
    const uint64_t last = tr_flight_count();
    struct tr_flight_call got;

    (void)state;
    assert_true(tr_flight_pending());
    tr_flight_end((struct tr_flight_mark){last - TR_FLIGHT_CALLS, 1});
    tr_flight_end((struct tr_flight_mark){last - 1, 2});
    for (uint64_t n = last - TR_FLIGHT_CALLS + 1; n <= last; n++) {
        assert_true(tr_flight_get(n, &got));
        assert_int_equal(got.ended != 0, n >= last - 1);
        assert_true(got.ended == 0 || got.ended >= got.begun);
    }
    tr_flight_end((struct tr_flight_mark){last - TR_FLIGHT_CALLS + 1, TR_FLIGHT_CALLS});
    assert_false(tr_flight_pending());
}

static void where_it_was_called(void **state)
{
    const struct tr_about about = {.what = TR_SPAN_BWD, .micro = {7}, .chunk = {2}};
    struct tr_flight_call call = made_of(1), got;

    (void)state;
    tr_timer_start(TR_TIMER_FORWARD_BACKWARD);
    tr_timer_start(TR_TIMER_BACKWARD_COMPUTE);
    tr_trace_about(&about);
    assert_true(tr_flight_get(tr_flight_begin(&call), &got));
    assert_string_equal(got.phase, "backward-compute");
    assert_int_equal(got.micro, 7);
    assert_int_equal(got.chunk, 2);
    tr_trace_about(NULL);
    tr_timer_stop(TR_TIMER_BACKWARD_COMPUTE);
    assert_true(tr_flight_get(tr_flight_begin(&call), &got));
    assert_true(strncmp(got.phase, "forward-backward", 16) == 0);
    assert_int_equal(got.micro, -1);
    tr_timer_stop(TR_TIMER_FORWARD_BACKWARD);
    assert_true(tr_flight_get(tr_flight_begin(&call), &got));
    assert_null(got.phase);
}

static atomic_bool over;
static atomic_long mixed, seen;

static void *look(void *unused)
{
    struct tr_flight_call got;

    (void)unused;
    while (!over) {
        const uint64_t last = tr_flight_count();

        for (uint64_t n = last; n > 0 && n + TR_FLIGHT_CALLS > last; n--)
            if (tr_flight_get(n, &got)) {
                seen++;
                mixed += !is_whole(&got, n);
            }
    }
    return NULL;
}

/* However often the reader gets the core, no call that it gets is a mix of two. */
static void read_by_another_thread(void **state)
{
    enum { CALLS = 200000 };
    pthread_t reader;

    (void)state;
    /* What other tests left is of another form. */
    for (int i = 0; i < TR_FLIGHT_CALLS; i++) {
        const struct tr_flight_call call = made_of(tr_flight_count() + 1);

        tr_flight_begin(&call);
    }
    assert_int_equal(pthread_create(&reader, NULL, look, NULL), 0);
    while (seen == 0)
        continue;
    for (int i = 0; i < CALLS; i++) {
        const struct tr_flight_call call = made_of(tr_flight_count() + 1);
        const uint64_t number = tr_flight_begin(&call);

        tr_flight_end((struct tr_flight_mark){number, 1});
    }
    over = true;
    pthread_join(reader, NULL);
    assert_int_equal(mixed, 0);
}

/* ---- a group of one ---- */

/* Calls of a transport, by the table that records them. */
static void alone(void **state)
{
    float x[4] = {0};
    struct tr_tensor t = tr_f32_1(x, 4);
    const struct tr_leg legs[] = {{TR_LEG_SEND, 0, x, 8}, {TR_LEG_RECV, 0, x + 2, 8}};
    const uint64_t before = tr_flight_count();
    struct tr_flight_call got;
    struct tr_pending p;
    struct tr_comm c;

    (void)state;
    tr_comm_self(&c);
    c.via->allreduce(&c, NULL, &t, TR_SUM);
    c.via->exchange_start(&c, NULL, legs, 2, &p);
    assert_true(tr_flight_pending());
    c.via->finish(&c, NULL, &p);
    assert_false(tr_flight_pending());
    assert_int_equal(tr_flight_count(), before + 3);
    assert_true(tr_flight_get(before + 1, &got));
    assert_string_equal(got.group, "world");
    assert_int_equal(got.kind, TR_FLIGHT_ALLREDUCE);
    assert_int_equal(got.bytes, 16);
    assert_int_equal(got.seq, c.seq);
    assert_true(tr_flight_get(before + 2, &got));
    assert_int_equal(got.kind, TR_FLIGHT_SEND);
    assert_int_equal(got.bytes, 8);
    c.via->release(&c);
}

/* ---- the file ---- */

static char folder[] = "/tmp/t_flight.XXXXXX";

static json_t *record(const char *name)
{
    char path[256];
    json_t *all;

    snprintf(path, sizeof path, "%s/%s/rank-00003.json", folder, name);
    all = json_load_file(path, JSON_REJECT_DUPLICATES, NULL);
    unlink(path);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    rmdir(path);
    return all;
}

static const char *open_at(const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    tr_flight_open(path, 3, 4);
    return path;
}

static int64_t whole(const json_t *x, const char *name)
{
    return (int64_t)json_integer_value(json_object_get(x, name));
}

static void written(void **state)
{
    struct tr_flight_call call = made_of(5);
    json_t *all, *calls, *last;

    (void)state;
    tr_flight_end((struct tr_flight_mark){tr_flight_begin(&call), 1});
    call.peer = -1;
    tr_flight_begin(&call);
    open_at("a");
    assert_int_equal(tr_flight_write(TR_FLIGHT_HANG, "a \"reason\"\nin two lines"), 0);
    assert_int_equal(tr_flight_write(TR_FLIGHT_HANG, "another"), 0); /* which is not the first */
    tr_flight_close();
    all = record("a");
    assert_non_null(all);
    assert_int_equal(whole(all, "rank"), 3);
    assert_int_equal(whole(all, "ranks"), 4);
    assert_string_equal(json_string_value(json_object_get(all, "why")),
                        "a \"reason\"?in two lines");
    assert_string_equal(json_string_value(json_object_get(all, "cause")), "hang");
    calls = json_object_get(all, "calls");
    assert_int_equal(json_array_size(calls), TR_FLIGHT_CALLS);
    last = json_array_get(calls, TR_FLIGHT_CALLS - 1);
    assert_true(json_is_null(json_object_get(last, "ended_us")));
    assert_true(json_is_null(json_object_get(last, "peer")));
    assert_int_equal(whole(last, "bytes"), 15);
    assert_int_equal(whole(json_array_get(calls, TR_FLIGHT_CALLS - 2), "peer"), 9);
    json_decref(all);
}

static int status_of(void (*child)(void))
{
    const pid_t pid = fork();
    int status = 0;

    if (pid == 0) {
        child();
        _exit(99);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void crash(void)
{
    signal(SIGSEGV, SIG_DFL);
    open_at("b");
    raise(SIGSEGV);
}

static void give_up(void)
{
    signal(SIGABRT, SIG_DFL);
    open_at("b");
    abort();
}

/* The signal does what it did before. */
static void signals(void **state)
{
    static const struct {
        void (*child)(void);
        int number;
        const char *why;
    } ways[] = {{crash, SIGSEGV, "SIGSEGV"}, {give_up, SIGABRT, "SIGABRT"}};

    (void)state;
    for (int i = 0; i < 2; i++) {
        const int status = status_of(ways[i].child);
        json_t *all = record("b");

        assert_true(WIFSIGNALED(status));
        assert_int_equal(WTERMSIG(status), ways[i].number);
        assert_non_null(all);
        assert_string_equal(json_string_value(json_object_get(all, "why")), ways[i].why);
        json_decref(all);
    }
}

/* It is said, and the program goes on. */
static void cannot_be_written(void **state)
{
    (void)state;
    open_at("no/such");
    assert_int_equal(tr_flight_write(TR_FLIGHT_HANG, "why"), ENOENT);
    tr_flight_close();
    assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_ones),
        cmocka_unit_test(ends),
        cmocka_unit_test(where_it_was_called),
        cmocka_unit_test(read_by_another_thread),
        cmocka_unit_test(alone),
        cmocka_unit_test(written),
        cmocka_unit_test(signals),
        cmocka_unit_test(cannot_be_written),
    };

    if (!mkdtemp(folder))
        return 1;
    return run_tap(tests);
}
