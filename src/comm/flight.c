/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/flight.h"

#include <stdatomic.h>

#include "telemetry/trace.h"
#include "util/clock.h"

/*
 * A sequence lock for each place of the ring: `stamp` is odd while the place changes, and twice the number of the call that is
 * there otherwise.  All members are atomic, those of the call are stored with release and loaded with acquire, so that neither
 * passes the stamps around it (Boehm, "Can Seqlocks Get Along with Programming Language Memory Models?", 2012).
 */
struct place {
    atomic_ullong stamp;
    const char *_Atomic group;
    const char *_Atomic phase;
    atomic_llong bytes, begun, ended;
    atomic_ullong id, seq;
    atomic_int first, block, stride, size, kind, peer, micro, chunk;
};

static struct place ring[TR_FLIGHT_CALLS];
static atomic_ullong count;

static const struct {
    const char *name;
    bool collective;
} kinds[TR_FLIGHT_KINDS] = {
#define FLIGHT(symbol, name, collective) [TR_FLIGHT_##symbol] = {name, collective},
#include "comm/flight.def"
};

const char *tr_flight_kind_name(enum tr_flight_kind kind)
{
    return kinds[kind].name;
}

bool tr_flight_is_collective(enum tr_flight_kind kind)
{
    return kinds[kind].collective;
}

static int64_t microseconds(void)
{
    return (int64_t)(1e6 * tr_now());
}

#define PUT(member, value) atomic_store_explicit(&p->member, value, memory_order_release)
#define GET(member) atomic_load_explicit(&p->member, memory_order_acquire)

uint64_t tr_flight_begin(const struct tr_flight_call *call)
{
    const uint64_t number = atomic_load_explicit(&count, memory_order_relaxed) + 1;
    struct place *p = &ring[number % TR_FLIGHT_CALLS];
    const struct tr_about *about = tr_trace_now();
    const bool in_schedule = about->what != TR_SPAN_OTHER;

    atomic_store_explicit(&p->stamp, 2 * number - 1, memory_order_relaxed);
    PUT(group, call->group);
    PUT(phase, tr_timer_running());
    PUT(bytes, call->bytes);
    PUT(begun, microseconds());
    PUT(ended, 0);
    PUT(id, call->id);
    PUT(seq, call->seq);
    PUT(first, call->members.first);
    PUT(block, call->members.block);
    PUT(stride, call->members.stride);
    PUT(size, call->members.size);
    PUT(kind, call->kind);
    PUT(peer, call->peer);
    PUT(micro, in_schedule ? about->micro[0] : -1);
    PUT(chunk, in_schedule ? about->chunk[0] : -1);
    PUT(stamp, 2 * number);
    atomic_store_explicit(&count, number, memory_order_release);
    return number;
}

void tr_flight_end(struct tr_flight_mark calls)
{
    const int64_t now = calls.count > 0 ? microseconds() : 0;

    for (int i = 0; i < calls.count; i++) {
        const uint64_t number = calls.first + (uint64_t)i;
        struct place *p = &ring[number % TR_FLIGHT_CALLS];

        if (GET(stamp) == 2 * number && GET(ended) == 0)
            PUT(ended, now);
    }
}

uint64_t tr_flight_count(void)
{
    return atomic_load_explicit(&count, memory_order_acquire);
}

bool tr_flight_get(uint64_t number, struct tr_flight_call *out)
{
    struct place *p = &ring[number % TR_FLIGHT_CALLS];

    if (number == 0 || GET(stamp) != 2 * number)
        return false;
    *out = (struct tr_flight_call){
        .group = GET(group),
        .phase = GET(phase),
        .members = {GET(first), GET(block), GET(stride), GET(size)},
        .id = GET(id),
        .seq = GET(seq),
        .bytes = GET(bytes),
        .begun = GET(begun),
        .ended = GET(ended),
        .kind = GET(kind),
        .peer = GET(peer),
        .micro = GET(micro),
        .chunk = GET(chunk),
    };
    return GET(stamp) == 2 * number;
}

bool tr_flight_pending(void)
{
    const uint64_t last = tr_flight_count();
    struct tr_flight_call call;

    for (uint64_t n = last; n > 0 && n + TR_FLIGHT_CALLS > last; n--)
        if (tr_flight_get(n, &call) && call.ended == 0)
            return true;
    return false;
}
