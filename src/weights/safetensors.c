/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/safetensors.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "util/file.h"

enum { LENGTH = 8, ALIGNMENT = 8 };

/* One file that is read. */
struct reader {
    struct tr_weights_table *table;
    const char *path;
    int file, first;    /* number of the file, and of its first tensor */
    int64_t data, room; /* where tensors begin, and bytes from there on */
};

/* Bytes of the types that weights do not have; 0: not known, and then not compared. */
static int other_bytes(const char *name)
{
    static const struct {
        const char *name;
        int bytes;
    } known[] = {{"F64", 8}, {"I64", 8}, {"U64", 8}, {"I32", 4}, {"U32", 4},
                 {"I16", 2}, {"U16", 2}, {"I8", 1},  {"U8", 1},  {"BOOL", 1}};

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].bytes;
    return 0;
}

/* A whole number from 0 on, of at most 2^62. */
static bool is_count(const json_t *value, int64_t *out)
{
    *out = json_is_integer(value) ? (int64_t)json_integer_value(value) : -1;
    return *out >= 0 && *out <= (int64_t)1 << 62;
}

/* False if their number is not a small one. */
static bool take_shape(const json_t *shape, struct tr_weights_tensor *x)
{
    if (!json_is_array(shape) || json_array_size(shape) > TR_WEIGHTS_AXES)
        return false;
    x->ndim = (int)json_array_size(shape);
    x->elems = 1;
    for (int i = 0; i < x->ndim; i++)
        if (!is_count(json_array_get(shape, (size_t)i), &x->dim[i]) ||
            __builtin_mul_overflow(x->elems, x->dim[i], &x->elems))
            return false;
    return true;
}

static enum tr_status take_place(const struct reader *r, const json_t *offsets,
                                 struct tr_weights_tensor *x)
{
    const int known = tr_weights_type_bytes(x->type),
              each = known ? known : other_bytes(x->type_name);
    int64_t from, to, bytes;

    if (!json_is_array(offsets) || json_array_size(offsets) != 2 ||
        !is_count(json_array_get(offsets, 0), &from) ||
        !is_count(json_array_get(offsets, 1), &to) || from > to)
        return TR_FAIL(TR_EDATA, "%s: the data_offsets of %s are not where it begins and ends",
                       r->path, x->name);
    if (to > r->room)
        return TR_FAIL(TR_EDATA,
                       "%s is cut short: %s ends %" PRId64 " bytes behind the header, where there "
                       "are %" PRId64 "; copy the file once more",
                       r->path, x->name, to, r->room);
    if (each > 0 && (__builtin_mul_overflow(x->elems, (int64_t)each, &bytes) || bytes != to - from))
        return TR_FAIL(TR_EDATA,
                       "%s: %s has %" PRId64 " bytes, and its shape and type %s need another "
                       "number",
                       r->path, x->name, to - from, x->type_name);
    x->offset = r->data + from;
    x->file = r->file;
    return TR_OK;
}

static enum tr_status take_tensor(const struct reader *r, const char *name, const json_t *value)
{
    const json_t *type = json_object_get(value, "dtype");
    struct tr_weights_tensor *x = tr_weights_add(r->table, name);

    if (!json_is_string(type) || strlen(json_string_value(type)) >= sizeof x->type_name)
        return TR_FAIL(TR_EDATA, "%s: %s has no dtype", r->path, name);
    snprintf(x->type_name, sizeof x->type_name, "%s", json_string_value(type));
    x->type = tr_weights_type_named(x->type_name);
    if (!take_shape(json_object_get(value, "shape"), x))
        return TR_FAIL(TR_EDATA, "%s: the shape of %s is not a list of at most %d counts", r->path,
                       name, TR_WEIGHTS_AXES);
    return take_place(r, json_object_get(value, "data_offsets"), x);
}

struct span {
    int64_t from, to;
    const char *name;
};

static int by_place(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    const int by_start = (x->from > y->from) - (x->from < y->from);

    return by_start ? by_start : (x->to > y->to) - (x->to < y->to);
}

/* Nothing twice, and nothing that is in no tensor: as safetensors itself demands. */
static enum tr_status check_places(const struct reader *r, const json_t *header)
{
    struct span *list = malloc((json_object_size(header) + 1) * sizeof *list);
    enum tr_status s = TR_OK;
    const char *name, *before = NULL;
    const json_t *value;
    int64_t at = 0;
    int n = 0;

    if (!list)
        tr_die(TR_ERESOURCE, "no memory left for the tensors of %s", r->path);
    json_object_foreach((json_t *)(uintptr_t)header, name, value)
    {
        const json_t *place = json_object_get(value, "data_offsets");

        if (place)
            list[n++] = (struct span){json_integer_value(json_array_get(place, 0)),
                                      json_integer_value(json_array_get(place, 1)), name};
    }
    qsort(list, (size_t)n, sizeof *list, by_place);
    for (int i = 0; i < n && s == TR_OK; i++) {
        if (list[i].from < at)
            s = TR_FAIL(TR_EDATA, "%s: %s and %s overlap", r->path, before ? before : "the header",
                        list[i].name);
        else if (list[i].from > at)
            s = TR_FAIL(TR_EDATA, "%s: %" PRId64 " bytes before %s belong to no tensor", r->path,
                        list[i].from - at, list[i].name);
        at = list[i].to;
        before = list[i].name;
    }
    if (s == TR_OK && at != r->room)
        s = TR_FAIL(TR_EDATA, "%s: %" PRId64 " bytes at its end belong to no tensor", r->path,
                    r->room - at);
    free(list);
    return s;
}

static enum tr_status take_header(const struct reader *r, const char *text, size_t bytes)
{
    json_error_t error;
    json_t *header = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, &error);
    enum tr_status s = TR_OK;
    const char *name;
    json_t *value;

    if (!json_is_object(header)) {
        s = TR_FAIL(TR_EDATA, "%s: its header is not a JSON object%s%s", r->path,
                    header ? "" : ": ", header ? "" : error.text);
        json_decref(header);
        return s;
    }
    json_object_foreach(header, name, value)
    {
        if (s == TR_OK && strcmp(name, "__metadata__") != 0)
            s = take_tensor(r, name, value);
    }
    if (s == TR_OK) {
        (void)json_object_del(header, "__metadata__");
        s = check_places(r, header);
    }
    json_decref(header);
    return s;
}

enum tr_status tr_safetensors_read(struct tr_weights_table *t, const char *name)
{
    struct reader r = {.table = t, .first = t->count};
    unsigned char length[LENGTH];
    uint64_t bytes = 0;
    enum tr_status s;
    int64_t all;
    char *text;
    int fd;

    TR_TRY(tr_weights_open_file(t, name, &r.file));
    r.path = t->file[r.file].path;
    all = t->file[r.file].bytes;
    fd = t->file[r.file].fd;
    if (all < LENGTH)
        return TR_FAIL(TR_EDATA, "%s has %" PRId64 " bytes, and no header fits in them", r.path,
                       all);
    if (tr_read_at(fd, length, LENGTH, 0) != 0)
        return TR_FAIL(TR_EIO, "cannot read %s: %s", r.path, strerror(errno));
    for (int i = LENGTH - 1; i >= 0; i--)
        bytes = bytes << 8 | length[i];
    if (bytes > TR_SAFETENSORS_HEADER_MOST)
        return TR_FAIL(TR_EDATA,
                       "%s is no safetensors file: its header would have %" PRIu64 " bytes, and "
                       "%d are the most",
                       r.path, bytes, TR_SAFETENSORS_HEADER_MOST);
    if ((int64_t)bytes > all - LENGTH)
        return TR_FAIL(TR_EDATA,
                       "%s is cut short: its header has %" PRIu64 " bytes, and %" PRId64
                       " are there; copy the file once more",
                       r.path, bytes, all - LENGTH);
    r.data = LENGTH + (int64_t)bytes;
    r.room = all - r.data;
    text = malloc((size_t)bytes + 1);
    if (!text)
        return TR_FAIL(TR_ERESOURCE, "no memory left for the header of %s", r.path);
    s = tr_read_at(fd, text, (int64_t)bytes, LENGTH) != 0
            ? TR_FAIL(TR_EIO, "cannot read %s: %s", r.path, strerror(errno))
            : take_header(&r, text, (size_t)bytes);
    free(text);
    return s;
}

/* ---- writing ---- */

static void place(const struct tr_weights_tensor *x, int64_t from, json_t *header)
{
    const int64_t to = from + x->elems * tr_weights_type_bytes(x->type);
    json_t *shape = json_array();

    for (int i = 0; i < x->ndim; i++)
        json_array_append_new(shape, json_integer(x->dim[i]));
    json_object_set_new(header, x->name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", tr_weights_type_name(x->type),
                                  "shape", shape, "data_offsets", (json_int_t)from,
                                  (json_int_t)to));
}

char *tr_safetensors_header(struct tr_weights_table *t, int file, int64_t *bytes)
{
    json_t *header = json_pack("{s:{s:s}}", "__metadata__", "format", "pt");
    int64_t at = 0, length;
    char *text, *whole;

    for (int i = 0; i < t->count; i++) {
        struct tr_weights_tensor *x = &t->list[i];

        if (x->file != file)
            continue;
        place(x, at, header);
        x->offset = at;
        at += x->elems * tr_weights_type_bytes(x->type);
    }
    text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    if (!text)
        tr_die(TR_ERESOURCE, "no memory left for the header of a file");
    /* Blanks behind it, so that numbers are aligned. */
    length = ((int64_t)strlen(text) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    whole = malloc((size_t)(LENGTH + length) + 1);
    if (!whole)
        tr_die(TR_ERESOURCE, "no memory left for the header of a file");
    for (int i = 0; i < LENGTH; i++)
        whole[i] = (char)(unsigned char)((uint64_t)length >> (8 * i));
    snprintf(whole + LENGTH, (size_t)length + 1, "%-*s", (int)length, text);
    free(text);
    for (int i = 0; i < t->count; i++)
        if (t->list[i].file == file)
            t->list[i].offset += LENGTH + length;
    *bytes = LENGTH + length;
    t->file[file].bytes = *bytes + at;
    return whole;
}
