/* SPDX-License-Identifier: BSD-3-Clause */
#include "train/torch_trace.h"

#include <inttypes.h>
#include <unistd.h>

static void put_name(FILE *f, const char *what, const char *key, const char *name)
{
    const long pid = (long)getpid();

    fprintf(f,
            "{\"ph\": \"M\", \"name\": \"%s\", \"ts\": 0, \"pid\": %ld, \"tid\": %ld, \"args\": "
            "{\"%s\": \"%s\"}},\n",
            what, pid, what[0] == 'p' ? 0 : pid, key, name);
}

void tr_torch_trace_begin(FILE *f, const struct tr_run *r, int64_t base)
{
    fprintf(f,
            "{\"schemaVersion\": 1,\n\"deviceProperties\": [],\n\"distributedInfo\": {\"backend\": "
            "\"%s\", \"rank\": %d, \"world_size\": %d},\n\"displayTimeUnit\": \"ms\",\n"
            "\"baseTimeNanoseconds\": %" PRId64 ",\n\"traceEvents\": [\n",
            r->queue.on->apart ? "nccl" : "mpi", r->world->rank, r->world->size, base * 1000000000);
    put_name(f, "process_name", "name", "trireme");
    put_name(f, "process_labels", "labels", "CPU");
    put_name(f, "thread_name", "name", "timers");
}

static void put_event(FILE *f, int64_t number, const struct tr_span *s, double wall)
{
    const long pid = (long)getpid();

    fprintf(f,
            "%s{\"ph\": \"X\", \"cat\": \"user_annotation\", \"name\": \"%s\", \"pid\": %ld, "
            "\"tid\": %ld, "
            "\"ts\": %.3f, \"dur\": %.3f, \"args\": {\"External id\": %" PRId64
            ", \"Record function id\": 0, \"Ev Idx\": %" PRId64,
            number > 0 ? ",\n" : "", tr_timer_name((enum tr_timer)s->timer), pid, pid,
            1e6 * (s->begin + wall), 1e6 * (s->end - s->begin), number + 1, number);
    if (s->about.what >= TR_SPAN_FWD && s->about.what <= TR_SPAN_WGT)
        fprintf(f, ", \"micro-batch\": %d, \"chunk\": %d", (int)s->about.micro[0],
                (int)s->about.chunk[0]);
    fputs("}}", f);
}

void tr_torch_trace_put(FILE *f, int64_t *events, const struct tr_span *span, int64_t count,
                        double wall)
{
    for (int64_t i = 0; i < count; i++)
        put_event(f, (*events)++, &span[i], wall);
}

void tr_torch_trace_end(FILE *f, const char *name)
{
    fprintf(f, "\n],\n\"traceName\": \"%s\"}\n", name);
}
