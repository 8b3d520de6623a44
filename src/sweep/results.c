/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/results.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "report/order.h"
#include "util/file.h"
#include "util/clock.h"

enum { FILE_MOST = 64 << 20, LOSSES_MOST = 1000 };

/* ---- the record of a shape ---- */

/* What is not known has no member. */
static void put(json_t *o, const char *key, double x)
{
    if (isfinite(x))
        json_object_set_new(o, key, json_real(x));
}

static void put_count(json_t *o, const char *key, int64_t n)
{
    json_object_set_new(o, key, json_integer(n));
}

static void put_text(json_t *o, const char *key, const char *text)
{
    /* What a log says need not be UTF-8. */
    json_t *s = json_string(text);

    json_object_set_new(o, key, s ? s : json_string("(bytes that are no text)"));
}

static void put_shape(json_t *o, const struct tr_sweep_place *place, const struct tr_sweep_shape *s)
{
    put_count(o, "ranks", s->ranks);
    put_count(o, "nodes", tr_sweep_nodes(place, s->ranks));
    put_count(o, "tp", s->w);
    put_count(o, "pp", s->p);
    put_count(o, "dp", s->d);
    put_count(o, "chunks", s->k);
    put_count(o, "mbs", s->micro_batch);
    put_count(o, "gbs", s->global_batch);
    put_count(o, "micro_batches", s->micros);
    put_count(o, "seq", s->seq);
    json_object_set_new(o, "zero_stage", json_integer(s->zero));
    if (s->bucket > 0)
        put_count(o, "bucket", s->bucket);
    put(o, "gradient_bytes", s->gradient);
    json_object_set_new(o, "recompute", json_boolean(s->recompute));
    json_object_set_new(o, "offload", json_boolean(s->offloads));
    put_text(o, "rank_order", s->tp_pp_dp ? "tp-pp-dp" : "tp-dp-pp");
    if (s->layers[0])
        put_text(o, "stage_layers", s->layers);
    put(o, "parameters", s->parameters);
}

static json_t *predicted(const struct tr_sweep *w, const struct tr_sweep_shape *s)
{
    json_t *o = json_object();

    put(o, "mem_mib", s->mib);
    if (!w->machine)
        return o;
    put(o, "seconds_per_it", s->seconds);
    put(o, "seconds_low", s->low);
    put(o, "seconds_high", s->high);
    put_text(o, "machine", w->machine);
    return o;
}

/* Over the iterations of all runs that count. */
static json_t *measured(const struct tr_sweep_shape *s, const struct tr_sweep_seen *run, int runs)
{
    json_t *o = json_object();
    struct tr_order all;
    double *x, mib = NAN;
    int64_t n = 0;

    for (int i = 0; i < runs; i++) {
        n += run[i].count;
        mib = fmax(mib, run[i].mib);
    }
    x = calloc((size_t)n + 1, sizeof *x);
    TR_ASSERT(x);
    n = 0;
    for (int i = 0; i < runs; i++)
        for (int64_t k = 0; k < run[i].count; k++)
            x[n++] = run[i].seconds[k];
    all = tr_order_of(x, n);
    put_count(o, "iterations", n);
    put(o, "seconds_per_it", all.median);
    put(o, "seconds_min", all.min);
    put(o, "seconds_max", all.max);
    put(o, "samples_per_second", (double)s->global_batch / all.median);
    put(o, "tflops", s->hardware / all.median / s->ranks / 1e12);
    put(o, "tflops_model", s->model / all.median / s->ranks / 1e12);
    put(o, "mem_mib", mib);
    free(x);
    return o;
}

static json_t *losses_of(const struct tr_sweep_seen *run)
{
    json_t *list = json_array();

    for (int64_t i = 0; i < run->losses && i < LOSSES_MOST; i++)
        if (isfinite(run->loss[i].loss))
            json_array_append_new(list,
                                  json_pack("[IIf]", (json_int_t)run->loss[i].after,
                                            (json_int_t)run->loss[i].iteration, run->loss[i].loss));
    return list;
}

static json_t *list_runs(const struct tr_sweep_seen *run, int runs)
{
    json_t *list = json_array();

    for (int i = 0; i < runs; i++) {
        json_t *o = json_object();
        struct tr_order order = tr_order_of(run[i].seconds, run[i].count);

        put_text(o, "log", run[i].log);
        json_object_set_new(o, "ok", json_boolean(run[i].whole));
        if (run[i].why)
            put_text(o, "error", run[i].why);
        if (WIFEXITED(run[i].end.status))
            put_count(o, "exit_code", WEXITSTATUS(run[i].end.status));
        else
            put_count(o, "signal", WTERMSIG(run[i].end.status));
        put_count(o, "last_iteration", run[i].last);
        put(o, "seconds_per_it", order.median);
        put(o, "seconds_in_all", run[i].end.seconds);
        json_array_append_new(list, o);
    }
    return list;
}

static const char *today(char *text, size_t size)
{
    const time_t now = time(NULL);
    struct tm t;

    strftime(text, size, "%Y-%m-%dT%H:%M:%S%z", localtime_r(&now, &t));
    return text;
}

static json_t *options(const struct tr_sweep_space *space, const struct tr_sweep_shape *s)
{
    json_t *o = json_object();

    for (int i = 0; i < space->variants.count; i++)
        put_text(o, space->variants.option[i].name,
                 tr_sweep_variants_value(&space->variants, s->variant, i));
    return o;
}

json_t *tr_sweep_result(const struct tr_sweep *w, const struct tr_sweep_place *place,
                        const struct tr_sweep_space *space, const struct tr_sweep_shape *s,
                        const json_t *command, const struct tr_sweep_seen *run, int runs)
{
    json_t *o = json_object();
    const char *error = NULL;
    char date[64];

    for (int i = 0; i < runs; i++)
        error = run[i].why ? run[i].why : error;
    put_count(o, "schema", 1);
    put_text(o, "shape", s->name);
    json_object_set_new(o, "ok", json_boolean(runs > 0 && run[0].whole));
    if (error)
        put_text(o, "error", error);
    put_text(o, "date", today(date, sizeof date));
    put_text(o, "node_list", place->nodes);
    if (place->job)
        put_text(o, "job", place->job);
    put_shape(o, place, s);
    if (space->variants.count > 0)
        json_object_set_new(o, "options", options(space, s));
    put_count(o, "warmup", w->warmup);
    json_object_set_new(o, "predicted", predicted(w, s));
    json_object_set_new(o, "measured", measured(s, run, runs));
    if (runs > 0)
        json_object_set_new(o, "losses", losses_of(&run[0]));
    json_object_set_new(o, "runs", list_runs(run, runs));
    json_object_set(o, "command", (json_t *)(uintptr_t)command);
    json_object_set(o, "built", w->versions);
    return o;
}

bool tr_sweep_is_good(const json_t *record)
{
    return json_is_true(json_object_get(record, "ok"));
}

/* ---- the file ---- */

static const char *shape_of(const json_t *record)
{
    const char *name = json_string_value(json_object_get(record, "shape"));

    return name ? name : "";
}

/* In the place of an older one of the same shape, or behind all. */
static void keep(struct tr_sweep_results *r, json_t *record)
{
    for (size_t i = 0; i < json_array_size(r->newest); i++)
        if (strcmp(shape_of(json_array_get(r->newest, i)), shape_of(record)) == 0) {
            json_array_set_new(r->newest, i, record);
            return;
        }
    json_array_append_new(r->newest, record);
}

static enum tr_status read_lines(struct tr_sweep_results *r, char *text)
{
    char *end;

    for (int line = 1; (end = strchr(text, '\n')) != NULL; line++, text = end + 1) {
        json_t *record;

        *end = '\0';
        record = json_loads(text, 0, NULL);
        if (!json_is_object(record) || !*shape_of(record) ||
            !json_is_array(json_object_get(record, "command"))) {
            json_decref(record);
            return TR_FAIL(TR_EDATA,
                           "%s, line %d, is no result of a sweep: remove the line, or take another "
                           "--sweep-folder",
                           r->path, line);
        }
        keep(r, record);
    }
    return TR_OK;
}

/* A line that was not written to its end is of a shape that will be run again. */
static enum tr_status cut_torn(struct tr_sweep_results *r, const char *text)
{
    const char *last = strrchr(text, '\n');
    const off_t whole = last ? last + 1 - text : 0;
    struct stat st;

    if (fstat(r->fd, &st) == 0 && (st.st_size == whole || ftruncate(r->fd, whole) == 0))
        return TR_OK;
    return TR_FAIL(TR_EIO, "the incomplete last line of %s cannot be removed: %s", r->path,
                   strerror(errno));
}

static enum tr_status hold(const struct tr_sweep_results *r, double patience)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    const double deadline = tr_now() + patience;

    while (flock(r->fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK)
            return TR_OK; /* a file system without locks: then nothing prevents a second sweep */
        if (tr_now() > deadline)
            return TR_FAIL(TR_ERESOURCE,
                           "another sweep writes %s: wait for its end, or take another "
                           "--sweep-folder",
                           r->path);
        nanosleep(&pause, NULL);
    }
    return TR_OK;
}

enum tr_status tr_sweep_results_open(const char *folder, double patience,
                                     struct tr_sweep_results *out)
{
    char *text;
    enum tr_status s;

    *out = (struct tr_sweep_results){.path = tr_format("%s/results.jsonl", folder),
                                     .newest = json_array()};
    TR_ASSERT(out->newest);
    out->fd = open(out->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (out->fd < 0)
        return TR_FAIL(TR_EIO, "%s cannot be written: %s", out->path, strerror(errno));
    TR_TRY(hold(out, patience));
    TR_TRY(tr_regular_text(out->path, FILE_MOST, &text));
    s = cut_torn(out, text);
    if (s == TR_OK)
        s = read_lines(out, text);
    free(text);
    return s;
}

void tr_sweep_results_close(struct tr_sweep_results *r)
{
    if (r->fd >= 0)
        close(r->fd);
    free(r->path);
    json_decref(r->newest);
    *r = (struct tr_sweep_results){.fd = -1};
}

const json_t *tr_sweep_results_find(const struct tr_sweep_results *r, const char *shape)
{
    for (size_t i = 0; i < json_array_size(r->newest); i++)
        if (strcmp(shape_of(json_array_get(r->newest, i)), shape) == 0)
            return json_array_get(r->newest, i);
    return NULL;
}

enum tr_status tr_sweep_results_add(struct tr_sweep_results *r, json_t *record)
{
    char *text = json_dumps(record, JSON_COMPACT | JSON_REAL_PRECISION(9)), *line;
    bool bad;

    TR_ASSERT(text);
    line = tr_format("%s\n", text);
    free(text);
    bad = tr_write_all(r->fd, line, strlen(line)) != 0 || fsync(r->fd) != 0;
    free(line);
    keep(r, record);
    if (bad)
        return TR_FAIL(TR_EIO, "%s cannot be written: %s; the shape will be run again", r->path,
                       strerror(errno));
    return TR_OK;
}
