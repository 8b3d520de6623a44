/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/tiny.h"

#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "telemetry/timer.h"
#include "train/stragglers.h"

/*
 * From the timers of an iteration to the name of a slow rank, on four ranks, tensor and data parallel 2, with clocks that are
 * told what ranks do: they compute, with the jitter of a recorded run, which takes processor time, they sleep, which takes
 * time alone, and they wait for others, which takes both.  Healthy ranks are named in none of 100 runs, and one that computes
 * 20 % longer in each, at once.
 */
enum { RUNS = 100, INTERVAL = 28, INTERVALS = 10, SLOWED_RUNS = 20 };

static const double recorded[][4] = {
#define ROW(a, b, c, d) {1e-6 * a, 1e-6 * b, 1e-6 * c, 1e-6 * d},
#include "telemetry/jitter.def"
#undef ROW
};
enum { RECORDED = sizeof recorded / sizeof recorded[0] };

/* Processor time of this thread, and what the clock of the host is ahead of the real one. */
static double used, ahead;

int clock_gettime(clockid_t clock, struct timespec *out)
{
    const long long fake = (long long)(1e9 * (clock == CLOCK_THREAD_CPUTIME_ID ? used : ahead));

    out->tv_sec = out->tv_nsec = 0;
    if (clock != CLOCK_THREAD_CPUTIME_ID && syscall(SYS_clock_gettime, clock, out) != 0)
        return -1;
    if (clock == CLOCK_THREAD_CPUTIME_ID || clock == CLOCK_MONOTONIC) {
        out->tv_sec += fake / 1000000000;
        out->tv_nsec += fake % 1000000000;
        out->tv_sec += out->tv_nsec / 1000000000;
        out->tv_nsec %= 1000000000;
    }
    return 0;
}

static struct tr_config c;
static struct tr_run r;
static struct tr_stragglers stragglers;

static void compute(double seconds)
{
    used += seconds;
    ahead += seconds;
}

/* A pass that computes so long, half before and half after it communicates. */
static void pass(enum tr_timer t, double seconds, double asleep, double waits)
{
    tr_timer_start(t);
    compute(seconds / 2.0);
    ahead += asleep;
    tr_timers_own_pause();
    compute(waits);
    tr_timers_own_resume();
    compute(seconds / 2.0);
    tr_timer_stop(t);
}

/* One iteration.  A rank computes as a recorded one did, from some iteration of the recording on, of which all four were as
   long on average; one rank sleeps half as long as it computes, and another waits as long as it computes. */
static void iterate(int run, int iteration, double factor)
{
    const struct tr_rng rng = tr_rng_key(3, TR_STREAM_SIM_PASS, world.rank, run);
    const uint32_t of = tr_rng_u32(rng, 0) % 4, from = tr_rng_u32(rng, 1) % RECORDED;
    const double *four = recorded[(from + (uint32_t)iteration) % RECORDED];
    const double seconds = 0.4 * factor * four[of] / (four[0] + four[1] + four[2] + four[3]);
    const double asleep = run % 4 == world.rank ? 0.5 * seconds : 0.0;
    const double waits = run / 4 % 4 == world.rank ? seconds : 0.01;

    pass(TR_TIMER_FORWARD_COMPUTE, seconds / 3.0, asleep, waits);
    pass(TR_TIMER_BACKWARD_COMPUTE, seconds / 1.5, asleep, waits);
    r.iteration++;
    tr_stragglers_after(&stragglers);
}

/* The interval of the log, counted from 1, in which somebody was named first, or 0; `slowed` computes 20 % longer. */
static int first_named(int run, int slowed)
{
    int first = 0;

    r.iteration = 0;
    assert_all_ok(tr_stragglers_open(&stragglers, &r));
    for (int i = 0; i < INTERVAL * INTERVALS && (slowed < 0 || i < 5 * INTERVAL); i++) {
        iterate(run, i, world.rank == slowed ? 1.2 : 1.0);
        if ((i + 1) % INTERVAL != 0)
            continue;
        if (tr_stragglers_tell(&stragglers) && first == 0)
            first = (i + 1) / INTERVAL;
        tr_timers_reset();
    }
    return first;
}

static void healthy(void **state)
{
    int named = 0;

    (void)state;
    for (int run = 0; run < RUNS; run++) {
        named += first_named(run, -1) > 0;
        tr_stragglers_close(&stragglers);
    }
    assert_all(named == 0);
}

/* Alone, with its host, in the third interval, or in the next two where jitter hides it in one. */
static void slowed(void **state)
{
    (void)state;
    for (int run = 0; run < SLOWED_RUNS; run++) {
        const int first = first_named(run, 2);
        char name[128];

        snprintf(name, sizeof name, "rank 2 on %s (", r.launch.host[2]);
        assert_all(world.rank > 0 || (first >= 3 && first <= 5));
        assert_all(world.rank > 0 || strncmp(stragglers.text, name, strlen(name)) == 0);
        assert_all(world.rank > 0 || !strchr(stragglers.text, ';'));
        tr_stragglers_close(&stragglers);
    }
}

static void open_all(void **state)
{
    (void)state;
    tiny_open(&r, &c,
              "--num-layers 2 --hidden-size 8 --num-attention-heads 2 --seq-length 8 "
              "--max-position-embeddings 8 --vocab-size 61 --micro-batch-size 1 "
              "--global-batch-size 2 --train-iters 100 --lr 0.01 --tensor-model-parallel-size 2 "
              "--log-interval 28",
              tiny_sample);
    assert_all(r.shape.layout.d == 2 && c.log_interval == INTERVAL);
}

static void close_all(void **state)
{
    (void)state;
    tiny_close(&r, &c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(open_all), cmocka_unit_test(healthy),
                                       cmocka_unit_test(slowed), cmocka_unit_test(close_all)};

    return run_mpi_tap(tests);
}
