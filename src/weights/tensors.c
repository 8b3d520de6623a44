/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/tensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/file.h"
#include "util/half.h"
#include "util/text.h"

/* Bytes of a name; no parameter has as many, and a sentence has room for them. */
enum { LONGEST_NAME = 200 };

int tr_weights_type_bytes(enum tr_weights_type type)
{
    static const int bytes[] = {
#define TYPE(symbol, name, bytes_) bytes_,
        TR_WEIGHTS_TYPE_OF(TYPE)
#undef TYPE
    };

    return type < TR_WEIGHTS_OTHER ? bytes[type] : 0;
}

const char *tr_weights_type_name(enum tr_weights_type type)
{
    static const char *const names[] = {
#define TYPE(symbol, name, bytes) name,
        TR_WEIGHTS_TYPE_OF(TYPE)
#undef TYPE
    };

    return type < TR_WEIGHTS_OTHER ? names[type] : "another type";
}

enum tr_weights_type tr_weights_type_named(const char *name)
{
    int type = 0;

    while (type < TR_WEIGHTS_OTHER &&
           strcmp(tr_weights_type_name((enum tr_weights_type)type), name) != 0)
        type++;
    return (enum tr_weights_type)type;
}

void tr_weights_to_float(enum tr_weights_type type, const void *from, int64_t n, float *to)
{
    const uint16_t *half = from;

    TR_ASSERT(type < TR_WEIGHTS_OTHER);
    if (type == TR_WEIGHTS_F32)
        memcpy(to, from, (size_t)n * sizeof *to);
    else if (type == TR_WEIGHTS_F16)
        for (int64_t i = 0; i < n; i++)
            to[i] = tr_f16_to_float(half[i]);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = tr_bf16_to_float(half[i]);
}

void tr_weights_from_float(enum tr_weights_type type, const float *from, int64_t n, void *to)
{
    uint16_t *half = to;

    TR_ASSERT(type < TR_WEIGHTS_OTHER);
    if (type == TR_WEIGHTS_F32)
        memcpy(to, from, (size_t)n * sizeof *from);
    else if (type == TR_WEIGHTS_F16)
        for (int64_t i = 0; i < n; i++)
            half[i] = tr_f16_from_float(from[i]);
    else
        for (int64_t i = 0; i < n; i++)
            half[i] = tr_bf16_from_float(from[i]);
}

static void *more(void *list, size_t bytes)
{
    void *p = realloc(list, bytes);

    if (!p)
        tr_die(TR_ERESOURCE, "no memory left for a list of tensors");
    return p;
}

int tr_weights_add_file(struct tr_weights_table *t, const char *name)
{
    t->file = more(t->file, ((size_t)t->files + 1) * sizeof *t->file);
    t->file[t->files] = (struct tr_weights_file){
        .name = tr_format("%s", name), .path = tr_format("%s/%s", t->folder, name), .fd = -1};
    return t->files++;
}

enum tr_status tr_weights_open_file(struct tr_weights_table *t, const char *name, int *file)
{
    struct tr_weights_file *f;
    struct stat st;

    *file = tr_weights_add_file(t, name);
    f = &t->file[*file];
    TR_TRY(tr_open_file(f->path, O_RDONLY, &f->fd));
    if (fstat(f->fd, &st) != 0)
        return TR_FAIL(TR_EIO, "cannot read %s: %s", f->path, strerror(errno));
    f->bytes = (int64_t)st.st_size;
    return TR_OK;
}

struct tr_weights_tensor *tr_weights_add(struct tr_weights_table *t, const char *name)
{
    if (t->count == t->room) {
        t->room = t->room ? 2 * t->room : 64;
        t->list = more(t->list, (size_t)t->room * sizeof *t->list);
    }
    t->list[t->count] =
        (struct tr_weights_tensor){.name = tr_printable(tr_format("%.*s", LONGEST_NAME, name))};
    return &t->list[t->count++];
}

static int by_name(const void *a, const void *b)
{
    const struct tr_weights_tensor *x = a, *y = b;

    return strcmp(x->name, y->name);
}

enum tr_status tr_weights_sort(struct tr_weights_table *t)
{
    if (t->count > 0)
        qsort(t->list, (size_t)t->count, sizeof *t->list, by_name);
    for (int i = 1; i < t->count; i++)
        if (strcmp(t->list[i - 1].name, t->list[i].name) == 0)
            return TR_FAIL(TR_EDATA, "%s has two tensors with the name %s, in %s and %s", t->folder,
                           t->list[i].name, t->file[t->list[i - 1].file].name,
                           t->file[t->list[i].file].name);
    return TR_OK;
}

int tr_weights_find(const struct tr_weights_table *t, const char *name)
{
    int lo = 0, hi = t->count - 1;

    while (lo <= hi) {
        const int at = lo + (hi - lo) / 2, side = strcmp(name, t->list[at].name);

        if (side == 0)
            return at;
        if (side < 0)
            hi = at - 1;
        else
            lo = at + 1;
    }
    return -1;
}

const char *tr_weights_shape(int ndim, const int64_t *dim, char text[TR_WEIGHTS_SHAPE])
{
    size_t used = 1;

    snprintf(text, TR_WEIGHTS_SHAPE, "[");
    for (int i = 0; i < ndim; i++)
        used += (size_t)snprintf(text + used, TR_WEIGHTS_SHAPE - used, "%s%lld", i ? "," : "",
                                 (long long)dim[i]);
    snprintf(text + used, TR_WEIGHTS_SHAPE - used, "]");
    return text;
}

void tr_weights_release(struct tr_weights_table *t)
{
    for (int i = 0; i < t->files; i++) {
        if (t->file[i].fd >= 0)
            close(t->file[i].fd);
        free(t->file[i].name);
        free(t->file[i].path);
    }
    for (int i = 0; i < t->count; i++)
        free(t->list[i].name);
    free(t->file);
    free(t->list);
    free(t->folder);
    *t = (struct tr_weights_table){.count = 0};
}
