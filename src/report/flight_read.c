/* SPDX-License-Identifier: BSD-3-Clause */
#include "report/flight_align.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "util/file.h"
#include "util/log.h"

/* Bytes of a record, which has a host for each rank; ranks; microseconds of two centuries, and a clock's. */
enum { MOST_BYTES = 1 << 26, MOST_RANKS = 1 << 20 };
static const int64_t MOST_US = 6400000000000000, MOST_BYTES_OF_CALL = (int64_t)1 << 53;

static void *need(size_t number, size_t bytes)
{
    void *p = calloc(number ? number : 1, bytes);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for flight records");
    return p;
}

/* ---- a record ---- */

/* Members of an object, one after the other; the first that will not do is kept. */
struct take {
    const json_t *from;
    const char *wrong;
};

static int64_t whole(struct take *t, const char *name, int64_t least, int64_t most)
{
    const json_t *x = json_object_get(t->from, name);
    const int64_t value = json_is_integer(x) ? (int64_t)json_integer_value(x) : 0;

    if ((!json_is_integer(x) || value < least || value > most) && !t->wrong)
        t->wrong = name;
    return t->wrong ? least : value;
}

/* -1 for null. */
static int64_t maybe(struct take *t, const char *name, int64_t most)
{
    return json_is_null(json_object_get(t->from, name)) ? -1 : whole(t, name, 0, most);
}

/* Printable ASCII, as it is written. */
static void text(struct take *t, const char *name, char *out, size_t size)
{
    const json_t *x = json_object_get(t->from, name);
    const char *s = json_string_value(x);
    bool good = s && json_string_length(x) < size;

    for (size_t i = 0; good && i < json_string_length(x); i++)
        good = s[i] >= ' ' && s[i] <= '~';
    if (!good && !t->wrong)
        t->wrong = name;
    snprintf(out, size, "%s", good ? s : "");
}

static void hex(struct take *t, const char *name, uint64_t *out)
{
    char digits[17], *end;

    text(t, name, digits, sizeof digits);
    *out = strtoull(digits, &end, 16);
    if ((!digits[0] || *end || strspn(digits, "0123456789abcdef") != strlen(digits)) && !t->wrong)
        t->wrong = name;
}

static void take_kind(struct take *t, struct tr_flight_row *r)
{
    char name[TR_FLIGHT_NAME_BYTES];
    int k = 0;

    text(t, "kind", name, sizeof name);
    while (k < TR_FLIGHT_KINDS && strcmp(name, tr_flight_kind_name((enum tr_flight_kind)k)) != 0)
        k++;
    if (k == TR_FLIGHT_KINDS && !t->wrong)
        t->wrong = "kind";
    r->kind = k < TR_FLIGHT_KINDS ? (enum tr_flight_kind)k : TR_FLIGHT_BARRIER;
}

static void take_cause(struct take *t, struct tr_flight_record *record)
{
    char name[TR_FLIGHT_NAME_BYTES];
    int k = 0;

    text(t, "cause", name, sizeof name);
    while (k < TR_FLIGHT_CAUSES && strcmp(name, tr_flight_cause_name((enum tr_flight_cause)k)) != 0)
        k++;
    if (k == TR_FLIGHT_CAUSES && !t->wrong)
        t->wrong = "cause";
    record->cause = k < TR_FLIGHT_CAUSES ? (enum tr_flight_cause)k : TR_FLIGHT_SIGNAL;
}

/* Regular ones end within the world. */
static void take_members(struct take *t, struct tr_members *m, int ranks)
{
    m->size = (int32_t)whole(t, "size", 0, ranks);
    m->block = (int32_t)whole(t, "block", 0, ranks);
    m->stride = (int32_t)whole(t, "stride", 0, ranks);
    m->first = (int32_t)whole(t, "first", 0, ranks - 1);
    if (t->wrong || m->block == 0)
        return;
    if (m->size == 0 || m->size % m->block != 0 || m->stride < m->block ||
        m->first + (int64_t)(m->size / m->block - 1) * m->stride + m->block > ranks)
        t->wrong = "stride";
}

/* What is not known of a message is told by neither end. */
static void take_peer(struct take *t, struct tr_flight_row *r, int ranks)
{
    r->peer = (int)maybe(t, "peer", ranks - 1);
    if (tr_flight_is_collective(r->kind) != (r->peer < 0) && !t->wrong)
        t->wrong = "peer";
}

static const char *take_row(const json_t *from, struct tr_flight_row *r, int ranks, double origin)
{
    struct take t = {.from = from};
    int64_t ended;

    text(&t, "group", r->group, sizeof r->group);
    hex(&t, "id", &r->id);
    take_members(&t, &r->members, ranks);
    r->seq = whole(&t, "seq", 0, INT64_MAX);
    r->bytes = whole(&t, "bytes", 0, MOST_BYTES_OF_CALL);
    take_kind(&t, r);
    take_peer(&t, r, ranks);
    r->begun = origin + 1e-6 * (double)whole(&t, "begun_us", 0, MOST_US);
    ended = maybe(&t, "ended_us", MOST_US);
    r->ended = ended < 0 ? NAN : origin + 1e-6 * (double)ended;
    if (json_is_null(json_object_get(from, "in")))
        r->phase[0] = '\0';
    else
        text(&t, "in", r->phase, sizeof r->phase);
    r->micro = maybe(&t, "micro_batch", INT32_MAX);
    r->chunk = maybe(&t, "chunk", INT32_MAX);
    return t.wrong;
}

static const char *take_rows(const json_t *list, struct tr_flight_file *out, double origin)
{
    struct tr_flight_record *record = &out->record;
    const size_t n = json_array_size(list);
    const char *wrong = json_is_array(list) && n <= TR_FLIGHT_CALLS ? NULL : "calls";

    record->row = need(n, sizeof *record->row);
    for (size_t i = 0; i < n && !wrong; i++) {
        wrong = take_row(json_array_get(list, i), &record->row[i], out->ranks, origin);
        record->rows = (int)i + 1;
    }
    return wrong;
}

/* Only some ranks know them. */
static const char *take_hosts(const json_t *list, struct tr_flight_file *out)
{
    const char *wrong = NULL;

    if (!list)
        return NULL;
    if (!json_is_array(list) || json_array_size(list) != (size_t)out->ranks)
        return "hosts";
    out->host = need((size_t)out->ranks, sizeof *out->host);
    for (int r = 0; r < out->ranks && !wrong; r++) {
        json_t *one = json_pack("{s:O}", "hosts", json_array_get(list, (size_t)r));
        struct take t = {.from = one};

        text(&t, "hosts", out->host[r], sizeof out->host[r]);
        wrong = t.wrong;
        json_decref(one);
    }
    return wrong;
}

static const char *take_all(const json_t *all, struct tr_flight_file *out)
{
    struct take t = {.from = all};
    char why[TR_SENTENCE];
    int64_t now, written;
    double origin;
    const char *wrong;

    whole(&t, "schema", 1, 1);
    out->ranks = (int)whole(&t, "ranks", 1, MOST_RANKS);
    out->rank = (int)whole(&t, "rank", 0, out->ranks - 1);
    text(&t, "host", out->record.host, sizeof out->record.host);
    take_cause(&t, &out->record);
    text(&t, "why", why, sizeof why);
    written = whole(&t, "written_us", 0, MOST_US);
    now = whole(&t, "now_us", 0, MOST_US);
    if (t.wrong)
        return t.wrong;
    origin = 1e-6 * (double)(written - now);
    out->record.written = 1e-6 * (double)written;
    wrong = take_hosts(json_object_get(all, "hosts"), out);
    return wrong ? wrong : take_rows(json_object_get(all, "calls"), out, origin);
}

enum tr_status tr_flight_parse(const char *name, const char *bytes_of, size_t bytes,
                               struct tr_flight_file *out)
{
    json_error_t error;
    json_t *all = json_loadb(bytes_of, bytes, JSON_REJECT_DUPLICATES, &error);
    const char *wrong;

    *out = (struct tr_flight_file){0};
    if (!all)
        return TR_FAIL(TR_EDATA, "%s is no flight record, or a part of one: line %d is no JSON",
                       name, error.line);
    wrong = take_all(all, out);
    json_decref(all);
    if (!wrong) {
        out->record.state = TR_FLIGHT_READ;
        return TR_OK;
    }
    free(out->record.row);
    free(out->host);
    *out = (struct tr_flight_file){0};
    return TR_FAIL(TR_EDATA, "%s is no flight record: \"%s\" is missing, or is not what it must be",
                   name, wrong);
}

/* ---- a folder ---- */

static int is_record(const struct dirent *e)
{
    const char *digits = e->d_name + 5;
    const size_t n = strncmp(e->d_name, "rank-", 5) == 0 ? strspn(digits, "0123456789") : 0;

    return n > 0 && n <= 7 && strcmp(digits + n, ".json") == 0;
}

static int is_start(const struct dirent *e)
{
    return strncmp(e->d_name, "flight-", 7) == 0;
}

static void free_names(struct dirent **name, int n)
{
    for (int i = 0; i < n; i++)
        free(name[i]);
    free(name);
}

/* The folder of the newest start, whose name is the last; there may be records of others. */
static enum tr_status find_folder(const char *folder, struct tr_flight_set *f)
{
    struct dirent **name = NULL;
    int n = scandir(folder, &name, is_record, alphasort);

    if (n < 0)
        return TR_FAIL(TR_EIO, "cannot read the folder %s: %s", folder, strerror(errno));
    free_names(name, n);
    if (n > 0) {
        f->folder = tr_format("%s", folder);
        return TR_OK;
    }
    n = scandir(folder, &name, is_start, alphasort);
    f->older = n > 1 ? n - 1 : 0;
    if (n > 0)
        f->folder = tr_format("%s/%s", folder, name[n - 1]->d_name);
    free_names(name, n < 0 ? 0 : n);
    if (n > 0)
        return TR_OK;
    return TR_FAIL(
        TR_EDATA,
        "%s has no flight records, which ranks write when a run hangs or crashes; give the "
        "folder of --save, or the one called flight-* that they are in",
        folder);
}

static void refuse(struct tr_flight_set *f, const char *path, int rank)
{
    tr_log(TR_LOG_WARNING, "%s", tr_last_error());
    if (f->refused++ == 0)
        f->first = tr_format("%s", path);
    if (rank < f->ranks && f->record[rank].state == TR_FLIGHT_MISSING)
        f->record[rank].state = TR_FLIGHT_REFUSED;
}

static void take_host_names(struct tr_flight_set *f, const struct tr_flight_file *file)
{
    for (int r = 0; file->host && r < f->ranks; r++)
        if (!f->record[r].host[0])
            memcpy(f->record[r].host, file->host[r], sizeof file->host[r]);
}

/* A record says of how many ranks it is one; the first that can be read counts. */
static enum tr_status accept(struct tr_flight_set *f, const char *path, int rank,
                             struct tr_flight_file *file)
{
    if (file->rank != rank)
        return TR_FAIL(TR_EDATA, "%s is the flight record of rank %d, not of the one in its name",
                       path, file->rank);
    if (f->record && file->ranks != f->ranks)
        return TR_FAIL(TR_EDATA, "%s is a flight record of %d ranks, and others are of %d", path,
                       file->ranks, f->ranks);
    if (!f->record) {
        f->ranks = file->ranks;
        f->record = need((size_t)f->ranks, sizeof *f->record);
    }
    take_host_names(f, file);
    free(f->record[rank].row);
    f->record[rank] = file->record;
    file->record.row = NULL;
    return TR_OK;
}

static void read_one(struct tr_flight_set *f, const char *name)
{
    char *path = tr_format("%s/%s", f->folder, name), *bytes_of = NULL;
    const int rank = (int)strtol(name + 5, NULL, 10);
    struct tr_flight_file file = {0};
    struct stat about;
    enum tr_status s = tr_regular_text(path, MOST_BYTES, &bytes_of);

    if (s == TR_OK && stat(path, &about) == 0 && (size_t)about.st_size != strlen(bytes_of))
        s = TR_FAIL(TR_EDATA, "%s is no flight record: it has a zero byte", path);
    if (s == TR_OK)
        s = tr_flight_parse(path, bytes_of, strlen(bytes_of), &file);
    if (s == TR_OK)
        s = accept(f, path, rank, &file);
    if (s != TR_OK)
        refuse(f, path, rank);
    free(file.record.row);
    free(file.host);
    free(bytes_of);
    free(path);
}

enum tr_status tr_flight_set_read(const char *folder, struct tr_flight_set *out)
{
    struct dirent **name = NULL;
    int n;

    *out = (struct tr_flight_set){0};
    TR_TRY(find_folder(folder, out));
    n = scandir(out->folder, &name, is_record, alphasort);
    for (int i = 0; i < n; i++)
        read_one(out, name[i]->d_name);
    free_names(name, n < 0 ? 0 : n);
    if (out->record)
        return TR_OK;
    return TR_FAIL(TR_EDATA, "%s has no flight record that can be read%s%s", out->folder,
                   out->first ? ", and one that cannot: " : "", out->first ? out->first : "");
}

void tr_flight_set_release(struct tr_flight_set *f)
{
    for (int r = 0; r < f->ranks; r++)
        free(f->record[r].row);
    free(f->record);
    free(f->folder);
    free(f->first);
    *f = (struct tr_flight_set){0};
}
