/* SPDX-License-Identifier: BSD-3-Clause */
#include "dp/bucket_timeline.h"

#include <stdio.h>
#include <stdlib.h>

#include "util/clock.h"

struct tr_bucket_timeline {
    struct tr_tensor_timeline *file;
    bool cycles;
    char negotiate[32], reduce[32], transport[32];
};

static void name_bucket(struct tr_bucket_timeline *t, const struct tr_params *ps,
                        const struct tr_bucket *b, int pid)
{
    char name[1024];

    tr_params_names(ps, b->first, b->count, name, sizeof name);
    tr_tensor_timeline_process(t->file, pid, name[0] ? name : "padding");
}

static void name_activities(struct tr_bucket_timeline *t, const struct tr_bucket_timeline_how *how)
{
    const char *what = how->sharded ? "REDUCESCATTER" : "ALLREDUCE";

    snprintf(t->negotiate, sizeof t->negotiate, "NEGOTIATE_%s", what);
    snprintf(t->reduce, sizeof t->reduce, "%s", what);
    snprintf(t->transport, sizeof t->transport, "%s_%s", how->nccl ? "NCCL" : "MPI", what);
}

enum tr_status tr_bucket_timeline_open(const struct tr_bucket_timeline_how *how,
                                       const struct tr_params *params,
                                       const struct tr_bucket *bucket, int n,
                                       struct tr_bucket_timeline **out)
{
    struct tr_bucket_timeline *t = calloc(1, sizeof *t);
    enum tr_status s;

    *out = NULL;
    if (!t)
        return TR_FAIL(TR_ERESOURCE, "no memory left for a timeline");
    s = tr_tensor_timeline_open(how->path, &t->file);
    if (s != TR_OK) {
        free(t);
        return s;
    }
    t->cycles = how->cycles;
    name_activities(t, how);
    for (int i = 0; i < n; i++)
        name_bucket(t, params, &bucket[i], i + 1);
    tr_tensor_timeline_flush(t->file);
    *out = t;
    return TR_OK;
}

void tr_bucket_timeline_close(struct tr_bucket_timeline *t)
{
    if (!t)
        return;
    tr_tensor_timeline_close(t->file);
    free(t);
}

static void start(struct tr_bucket_timeline *t, int pid, double now)
{
    if (t->cycles)
        tr_tensor_timeline_cycle(t->file, now);
    tr_tensor_timeline_end(t->file, pid, now);
    tr_tensor_timeline_begin(t->file, pid, t->reduce, now);
}

/* One activity of a bucket ends and the next one begins. */
static void go_on(struct tr_bucket_timeline *t, int pid, const char *next, double now)
{
    tr_tensor_timeline_end(t->file, pid, now);
    tr_tensor_timeline_begin(t->file, pid, next, now);
}

static void at(void *ctx, int bucket, enum tr_bucket_moment moment)
{
    struct tr_bucket_timeline *t = ctx;
    const double now = tr_now();
    const int pid = bucket + 1;

    switch (moment) {
    case TR_BUCKET_READY:
        tr_tensor_timeline_begin(t->file, pid, t->negotiate, now);
        tr_tensor_timeline_mark(t->file, pid, "0", now);
        break;
    case TR_BUCKET_START:
        start(t, pid, now);
        tr_tensor_timeline_begin(t->file, pid, "QUEUE", now);
        break;
    case TR_BUCKET_START_CAST:
        start(t, pid, now);
        tr_tensor_timeline_begin(t->file, pid, "MEMCPY_IN_FUSION_BUFFER", now);
        break;
    case TR_BUCKET_CAST:
        go_on(t, pid, "QUEUE", now);
        break;
    case TR_BUCKET_SENT:
        go_on(t, pid, t->transport, now);
        break;
    case TR_BUCKET_ARRIVED:
        go_on(t, pid, "MEMCPY_OUT_FUSION_BUFFER", now);
        break;
    case TR_BUCKET_DONE:
        tr_tensor_timeline_end(t->file, pid, now);
        tr_tensor_timeline_end(t->file, pid, now);
        break;
    case TR_BUCKET_ALL_DONE:
        tr_tensor_timeline_flush(t->file);
        break;
    }
}

struct tr_bucket_watch tr_bucket_timeline_watch(struct tr_bucket_timeline *t)
{
    return (struct tr_bucket_watch){t ? at : NULL, t};
}
