/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/results.h"

#include <dirent.h>
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

/* Seconds of all iterations that count of all runs, and the median of each run. */
struct times {
    double *all, *median; /* owned */
    int64_t count, runs;
    double mib;
};

static void collect(const json_t *runs, struct times *t)
{
    const json_t *run, *seconds;
    size_t i, k, n = 0;

    json_array_foreach(runs, i, run) n += json_array_size(json_object_get(run, "seconds"));
    *t = (struct times){.all = calloc(n + 1, sizeof *t->all),
                        .median = calloc(json_array_size(runs) + 1, sizeof *t->median),
                        .mib = NAN};
    TR_ASSERT(t->all && t->median);
    json_array_foreach(runs, i, run)
    {
        const json_t *median = json_object_get(run, "seconds_per_it"),
                     *mib = json_object_get(run, "mem_mib");

        if (json_is_number(median))
            t->median[t->runs++] = json_number_value(median);
        if (json_is_number(mib))
            t->mib = fmax(t->mib, json_number_value(mib));
        json_array_foreach(json_object_get(run, "seconds"), k, seconds) t->all[t->count++] =
            json_number_value(seconds);
    }
}

/* Between runs a machine changes more than between the iterations of one, so that where there are several each
   counts once. */
static json_t *measured(const struct tr_sweep_shape *s, const json_t *runs)
{
    json_t *o = json_object();
    struct times t;
    struct tr_order all, of;

    collect(runs, &t);
    all = tr_order_of(t.all, t.count);
    of = t.runs > 1 ? tr_order_of(t.median, t.runs) : all;
    put_count(o, "iterations", t.count);
    put_count(o, "runs", t.runs);
    put(o, "seconds_per_it", of.median);
    put(o, "seconds_min", all.min);
    put(o, "seconds_max", all.max);
    if (of.count > 1) {
        put(o, "seconds_low", of.low);
        put(o, "seconds_high", of.high);
        put(o, "sure", of.sure);
    }
    put(o, "samples_per_second", (double)s->global_batch / of.median);
    put(o, "tflops", s->hardware / of.median / s->ranks / 1e12);
    put(o, "tflops_model", s->model / of.median / s->ranks / 1e12);
    put(o, "mem_mib", t.mib);
    free(t.all);
    free(t.median);
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

json_t *tr_sweep_run_record(const struct tr_sweep_seen *run)
{
    const struct tr_order of = tr_order_of(run->seconds, run->count);
    json_t *o = json_object(), *seconds = json_array();

    for (int64_t i = 0; i < run->count; i++)
        json_array_append_new(seconds, json_real(run->seconds[i]));
    put_text(o, "log", run->log);
    json_object_set_new(o, "ok", json_boolean(run->whole));
    if (run->why)
        put_text(o, "error", run->why);
    if (run->early)
        json_object_set_new(o, "early", json_true());
    if (WIFEXITED(run->end.status))
        put_count(o, "exit_code", WEXITSTATUS(run->end.status));
    else
        put_count(o, "signal", WTERMSIG(run->end.status));
    put_count(o, "last_iteration", run->last);
    put(o, "seconds_per_it", of.median);
    json_object_set_new(o, "seconds", seconds);
    json_object_set_new(o, "losses", losses_of(run));
    put(o, "mem_mib", run->mib);
    put(o, "seconds_in_all", run->end.seconds);
    return o;
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
                        const json_t *command, const json_t *runs)
{
    json_t *o = json_object();
    const json_t *last = json_array_get(runs, json_array_size(runs) - 1);
    char date[64];

    put_count(o, "schema", 1);
    put_text(o, "shape", s->name);
    json_object_set_new(o, "ok", json_boolean(tr_sweep_is_good(json_array_get(runs, 0))));
    json_object_set(o, "error", json_object_get(last, "error"));
    json_object_set(o, "early", json_object_get(last, "early"));
    put_text(o, "date", today(date, sizeof date));
    put_text(o, "node_list", place->nodes);
    if (place->job)
        put_text(o, "job", place->job);
    put_shape(o, place, s);
    if (space->variants.count > 0)
        json_object_set_new(o, "options", options(space, s));
    put_count(o, "warmup", w->warmup);
    json_object_set_new(o, "predicted", predicted(w, s));
    json_object_set_new(o, "measured", measured(s, runs));
    json_object_set_new(o, "runs", json_deep_copy(runs));
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

static bool is_record(const json_t *o)
{
    return json_is_object(o) && *shape_of(o) && json_is_array(json_object_get(o, "command"));
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
        if (!is_record(record)) {
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

/* Hold `fd` against other processes.  A file system without locks prevents nothing. */
static bool hold(int fd, double patience)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    const double deadline = tr_now() + patience;

    while (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        if (tr_now() > deadline)
            return false;
        nanosleep(&pause, NULL);
    }
    return true;
}

static enum tr_status open_held(const char *path, double patience, int *fd)
{
    *fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (*fd < 0)
        return TR_FAIL(TR_EIO, "%s cannot be written: %s", path, strerror(errno));
    if (hold(*fd, patience))
        return TR_OK;
    return TR_FAIL(TR_ERESOURCE,
                   "another sweep writes %s: wait for its end, or take another --sweep-folder",
                   path);
}

/* ---- files of single shapes ---- */

/* The record of such a file, a new reference; NULL where another process has just taken it over. */
static enum tr_status read_part(const char *path, json_t **record)
{
    char *text;

    *record = NULL;
    if (access(path, F_OK) != 0)
        return TR_OK;
    TR_TRY(tr_regular_text(path, FILE_MOST, &text));
    *record = json_loads(text, 0, NULL);
    free(text);
    if (is_record(*record))
        return TR_OK;
    json_decref(*record);
    *record = NULL;
    return TR_FAIL(TR_EDATA,
                   "%s is no result of a sweep: remove it, or take another --sweep-folder", path);
}

/* A record into results.jsonl, unless it is there.  The file goes where no sweep of the shape is under way, which may
   write it once more. */
static enum tr_status take_over(struct tr_sweep_results *r, const char *path, const char *lock)
{
    int fd = open(lock, O_RDWR | O_CLOEXEC);
    const bool idle = fd < 0 || hold(fd, 0.0);
    json_t *record;
    enum tr_status s = read_part(path, &record);
    const json_t *known = record ? tr_sweep_results_find(r, shape_of(record)) : NULL;

    if (record && !json_equal(known, record))
        s = tr_sweep_results_add(r, json_incref(record));
    if (record && s == TR_OK && idle)
        unlink(path);
    json_decref(record);
    if (fd >= 0)
        close(fd);
    return s;
}

static enum tr_status one_part(struct tr_sweep_results *r, const char *name, int length)
{
    char *path = tr_format("%s/%s", r->parts, name);
    char *lock = tr_format("%s/%.*s.lock", r->parts, length, name);
    json_t *record;
    enum tr_status s;

    if (!r->alone) {
        s = take_over(r, path, lock);
    } else {
        s = read_part(path, &record);
        if (record)
            keep(r, record);
    }
    free(path);
    free(lock);
    return s;
}

static enum tr_status read_parts(struct tr_sweep_results *r)
{
    DIR *all = opendir(r->parts);
    const struct dirent *one;
    enum tr_status s = TR_OK;

    while (all && s == TR_OK && (one = readdir(all)) != NULL) {
        const size_t n = strlen(one->d_name);

        if (n > 5 && strcmp(one->d_name + n - 5, ".json") == 0)
            s = one_part(r, one->d_name, (int)n - 5);
    }
    if (all)
        closedir(all);
    return s;
}

/* ---- both ---- */

static enum tr_status hold_all(struct tr_sweep_results *r, const char *only, double patience)
{
    char *lock;
    enum tr_status s;

    if (!only)
        return open_held(r->path, patience, &r->fd);
    TR_TRY(tr_make_dirs(r->parts));
    lock = tr_format("%s/%s.lock", r->parts, only);
    s = open_held(lock, patience, &r->fd);
    free(lock);
    return s;
}

static enum tr_status read_main(struct tr_sweep_results *r)
{
    char *text;
    enum tr_status s = TR_OK;

    if (r->alone && access(r->path, F_OK) != 0)
        return TR_OK;
    TR_TRY(tr_regular_text(r->path, FILE_MOST, &text));
    if (!r->alone)
        s = cut_torn(r, text);
    if (s == TR_OK)
        s = read_lines(r, text);
    free(text);
    return s;
}

enum tr_status tr_sweep_results_open(const char *folder, const char *only, double patience,
                                     struct tr_sweep_results *out)
{
    *out = (struct tr_sweep_results){.fd = -1,
                                     .path = tr_format("%s/results.jsonl", folder),
                                     .parts = tr_format("%s/shapes", folder),
                                     .alone = only != NULL,
                                     .newest = json_array()};
    TR_ASSERT(out->newest);
    TR_TRY(hold_all(out, only, patience));
    TR_TRY(read_main(out));
    return read_parts(out);
}

void tr_sweep_results_close(struct tr_sweep_results *r)
{
    if (r->fd >= 0)
        close(r->fd);
    free(r->path);
    free(r->parts);
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

static bool append(const struct tr_sweep_results *r, const char *text, size_t size)
{
    return tr_write_all(r->fd, text, size) == 0 && fsync(r->fd) == 0;
}

static enum tr_status write_part(const struct tr_sweep_results *r, const json_t *record,
                                 const char *text, size_t size)
{
    char *path = tr_format("%s/%s.json", r->parts, shape_of(record));
    enum tr_status s = tr_file_replace(path, text, size);

    free(path);
    return s;
}

enum tr_status tr_sweep_results_add(struct tr_sweep_results *r, json_t *record)
{
    char *text = json_dumps(record, JSON_COMPACT | JSON_REAL_PRECISION(9)), *line;
    enum tr_status s = TR_OK;

    TR_ASSERT(text);
    line = tr_format("%s\n", text);
    free(text);
    if (r->alone)
        s = write_part(r, record, line, strlen(line));
    else if (!append(r, line, strlen(line)))
        s = TR_FAIL(TR_EIO, "%s cannot be written: %s; the shape will be run again", r->path,
                    strerror(errno));
    free(line);
    keep(r, record);
    return s;
}
