/* SPDX-License-Identifier: BSD-3-Clause */
/* What of a transfer was waiting: times that are given, so the parts are known to the last
   digit. */
#include "check.h"

#include <math.h>

#include "pipeline/waits.h"
#include "telemetry/trace.h"

enum { RF = TR_RECV_FWD, SF = TR_SEND_FWD, RB = TR_RECV_BWD, SB = TR_SEND_BWD, MOST = 8 };

static double seconds[TR_TIMERS];

static bool is(double x, double value)
{
    return fabs(x - value) < 1e-12;
}

static const struct tr_sched ring = {.chunks = 1};

static struct tr_span span(enum tr_timer t, enum tr_span_what what, unsigned legs, double begin,
                           double end)
{
    return (struct tr_span){.begin = begin,
                            .end = end,
                            .wait = -1.0,
                            .timer = (uint8_t)t,
                            .about = {.what = (uint8_t)what, .legs = (uint8_t)legs}};
}

static struct tr_span leg(enum tr_span_what what, unsigned legs, double begin, double end)
{
    return span(tr_timer_for_legs(legs), what, legs, begin, end);
}

static void count(const struct tr_span *s, int64_t n, int stages)
{
    tr_timers_reset();
    tr_waits_count(s, n, stages);
    tr_timers_read(seconds);
}

static void expect(enum tr_timer t, double value)
{
    if (!is(seconds[t], value))
        fail_msg("%s is %.15g and not %.15g", tr_timer_name(t), seconds[t], value);
}

/* Partners that came before, during and after; a send that nobody waited for. */
static void one_leg(void **state)
{
    struct tr_span s[] = {
        leg(TR_SPAN_XFER, RF, 10.0, 14.0), leg(TR_SPAN_XFER, RF, 20.0, 24.0),
        leg(TR_SPAN_XFER, RF, 30.0, 34.0), leg(TR_SPAN_XFER, SF, 40.0, 44.0),
        leg(TR_SPAN_XFER, SF, 50.0, 54.0),
    };
    double rf[] = {9.0, 23.0, 35.0}, sf[] = {43.0, 60.0};
    const struct tr_ready theirs[TR_SIDES * TR_LEGS] = {
        {.at = sf, .n = 2}, {.at = rf, .n = 3}, {.n = 0}, {.n = 0}};

    (void)state;
    tr_waits_find(&ring, s, 5, theirs);
    assert_true(is(s[0].wait, 0.0));
    assert_true(is(s[1].wait, 3.0));
    assert_true(is(s[2].wait, 4.0)); /* not more than it took */
    assert_true(is(s[3].wait, 3.0));
    assert_true(is(s[4].wait, 0.0)); /* taken over by the transport */
    count(s, 5, 2);
    expect(TR_TIMER_FORWARD_RECV_WAIT, 7.0);
    expect(TR_TIMER_FORWARD_RECV_TRANSFER, 5.0);
    expect(TR_TIMER_FORWARD_SEND_WAIT, 3.0);
    expect(TR_TIMER_FORWARD_SEND_TRANSFER, 5.0);
}

/* The later of two partners counts; a leg that was started is ready since then, and only the time
   in its wait counts. */
static void more_legs(void **state)
{
    struct tr_span s[] = {
        leg(TR_SPAN_START, RF, 1.0, 2.0),
        leg(TR_SPAN_XFER, SF | RB, 10.0, 20.0),
        leg(TR_SPAN_WAIT, RF, 30.0, 36.0),
    };
    double sf[] = {12.0}, rb[] = {17.0}, rf[] = {31.0}, mine[TR_LEGS][MOST];
    const struct tr_ready theirs[TR_SIDES * TR_LEGS] = {
        {.at = sf, .n = 1}, {.at = rf, .n = 1}, {.n = 0}, {.at = rb, .n = 1}};
    struct tr_ready own[TR_SIDES * TR_LEGS];

    (void)state;
    for (int k = 0; k < TR_LEGS; k++)
        own[k] = (struct tr_ready){.at = mine[k], .most = MOST};
    tr_waits_ready(&ring, s, 3, own);
    assert_int_equal(own[0].n, 1);
    assert_int_equal(own[1].n, 1);
    assert_int_equal(own[2].n, 0);
    assert_int_equal(own[3].n, 1);
    assert_true(is(mine[0][0], 10.0));
    assert_true(is(mine[1][0], 1.0));
    assert_true(is(mine[3][0], 10.0));
    tr_waits_find(&ring, s, 3, theirs);
    assert_true(is(s[0].wait, 0.0));
    assert_true(is(s[1].wait, 7.0));
    assert_true(is(s[2].wait, 1.0));
    count(s, 3, 2);
    expect(TR_TIMER_FORWARD_SEND_BACKWARD_RECV_WAIT, 7.0);
    expect(TR_TIMER_FORWARD_SEND_BACKWARD_RECV_TRANSFER, 3.0);
    expect(TR_TIMER_FORWARD_RECV_WAIT, 1.0);
    expect(TR_TIMER_FORWARD_RECV_TRANSFER, 6.0);
}

/* Two iterations of a stage that has waits in each phase; the same again on the last stage, which
   drains where the embedding's gradients are summed. */
static void phases(void **state)
{
    struct tr_span s[] = {
        leg(TR_SPAN_XFER, RF, 0.0, 1.0),
        span(TR_TIMER_BATCH_GENERATOR, TR_SPAN_FWD, 0, 1.0, 1.5),
        span(TR_TIMER_FORWARD_COMPUTE, TR_SPAN_FWD, 0, 1.0, 2.0),
        leg(TR_SPAN_XFER, SF | RB, 2.0, 4.0),
        span(TR_TIMER_BACKWARD_COMPUTE, TR_SPAN_BWD, 0, 4.0, 5.0),
        leg(TR_SPAN_XFER, SB | RF, 5.0, 9.0),
        span(TR_TIMER_FORWARD_COMPUTE, TR_SPAN_FWD, 0, 9.0, 10.0),
        leg(TR_SPAN_XFER, RB, 10.0, 18.0),
        span(TR_TIMER_BACKWARD_COMPUTE, TR_SPAN_BWD, 0, 18.0, 19.0),
        span(TR_TIMER_EMBEDDING_ALL_REDUCE, TR_SPAN_OTHER, 0, 19.0, 35.0),
        span(TR_TIMER_FORWARD_BACKWARD, TR_SPAN_OTHER, 0, 0.0, 35.0),
        span(TR_TIMER_CLIP, TR_SPAN_OTHER, 0, 35.0, 67.0),
        span(TR_TIMER_OPTIMIZER, TR_SPAN_OTHER, 0, 35.0, 67.0),
        leg(TR_SPAN_XFER, RF, 100.0, 164.0),
        span(TR_TIMER_FORWARD_COMPUTE, TR_SPAN_FWD, 0, 164.0, 165.0),
    };
    enum { N = sizeof s / sizeof s[0] };

    (void)state;
    for (int i = 0; i < N; i++)
        if (s[i].about.what >= TR_SPAN_XFER || s[i].timer == TR_TIMER_EMBEDDING_ALL_REDUCE ||
            s[i].timer == TR_TIMER_CLIP)
            s[i].wait = s[i].end - s[i].begin;
    count(s, N, 2);
    expect(TR_TIMER_FILL_WAIT, 1.0 + 2.0 + 64.0);
    expect(TR_TIMER_STEADY_WAIT, 4.0);
    expect(TR_TIMER_DRAIN_WAIT, 8.0 + 16.0 + 32.0);
    expect(TR_TIMER_EMBEDDING_ALL_REDUCE_WAIT, 16.0);
    expect(TR_TIMER_EMBEDDING_ALL_REDUCE_TRANSFER, 0.0);
    expect(TR_TIMER_OPTIMIZER_WAIT, 32.0);
    /* With one stage nothing drains. */
    count(&s[11], 2, 1);
    expect(TR_TIMER_DRAIN_WAIT, 0.0);
    expect(TR_TIMER_OPTIMIZER_WAIT, 32.0);
}

static bool is_clip(enum tr_timer t)
{
    return t == TR_TIMER_CLIP;
}

static void collectives(void **state)
{
    struct tr_span s[] = {
        span(TR_TIMER_CLIP, TR_SPAN_OTHER, 0, 1.0, 5.0),
        span(TR_TIMER_OPTIMIZER, TR_SPAN_OTHER, 0, 1.0, 6.0),
        span(TR_TIMER_CLIP, TR_SPAN_OTHER, 0, 11.0, 15.0),
    };
    double at[MOST], last[] = {3.0, 11.0};
    struct tr_ready mine = {.at = at, .most = MOST};

    (void)state;
    tr_waits_arrivals(s, 3, is_clip, &mine);
    assert_int_equal(mine.n, 2);
    assert_true(is(at[0], 1.0));
    assert_true(is(at[1], 11.0));
    tr_waits_for_last(s, 3, is_clip, &(struct tr_ready){.at = last, .n = 2});
    assert_true(is(s[0].wait, 2.0));
    assert_true(s[1].wait < 0.0);
    assert_true(is(s[2].wait, 0.0));
}

/* What timers leave behind, and that what has no room is counted. */
static void recorded(void **state)
{
    const struct tr_about about = {.micro = {7}, .what = TR_SPAN_FWD};
    struct tr_span *s;
    int64_t n;

    (void)state;
    tr_timer_start(TR_TIMER_BATCH_GENERATOR);
    tr_timer_stop(TR_TIMER_BATCH_GENERATOR);
    assert_ok(tr_trace_open(2));
    tr_timer_start(TR_TIMER_SAVE_CHECKPOINT);
    tr_timer_stop(TR_TIMER_SAVE_CHECKPOINT);
    tr_trace_about(&about);
    tr_timer_start(TR_TIMER_FORWARD_COMPUTE);
    tr_timer_stop(TR_TIMER_FORWARD_COMPUTE);
    tr_trace_about(NULL);
    tr_timers_pause(true);
    tr_timer_start(TR_TIMER_FORWARD_COMPUTE);
    tr_timer_stop(TR_TIMER_FORWARD_COMPUTE);
    tr_timers_pause(false);
    tr_timer_start(TR_TIMER_OPTIMIZER);
    tr_timer_stop(TR_TIMER_OPTIMIZER);
    s = tr_trace_spans(&n);
    assert_int_equal(n, 2);
    assert_int_equal(s[0].timer, TR_TIMER_FORWARD_COMPUTE);
    assert_int_equal(s[0].about.micro[0], 7);
    assert_int_equal(s[0].about.what, TR_SPAN_FWD);
    assert_true(s[0].begin <= s[0].end && s[0].end <= s[1].begin);
    assert_int_equal(s[1].about.what, TR_SPAN_OTHER);
    tr_timer_start(TR_TIMER_OPTIMIZER);
    tr_timer_stop(TR_TIMER_OPTIMIZER);
    assert_int_equal(tr_trace_clear(), 1);
    assert_int_equal(tr_trace_clear(), 0);
    tr_trace_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_leg),     cmocka_unit_test(more_legs), cmocka_unit_test(phases),
        cmocka_unit_test(collectives), cmocka_unit_test(recorded),
    };

    return run_tap(tests);
}
