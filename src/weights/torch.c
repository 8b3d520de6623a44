/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/torch.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/file.h"

/* Dictionaries in dictionaries, and things in them that are looked at, at most. */
enum { DEEPEST = 16, VISITS = 1 << 20, NAME = 256 };

#define PICKLE "/data.pkl"

/* NAME/data.pkl of the archive, with the name that it has there. */
static const struct tr_zip_entry *find_pickle(struct tr_torch *f)
{
    for (int i = 0; i < f->zip.count; i++) {
        const char *name = f->zip.list[i].name, *slash = strchr(name, '/');

        if (slash && strcmp(slash, PICKLE) == 0) {
            f->root = tr_format("%.*s", (int)(slash - name), name);
            return &f->zip.list[i];
        }
    }
    return NULL;
}

static const struct tr_zip_entry *find_entry(const struct tr_torch *f, const char *folder,
                                             const char *name, int64_t length)
{
    char *path = tr_format("%s/%s%.*s", f->root, folder, length < NAME ? (int)length : NAME, name);
    const struct tr_zip_entry *e = tr_zip_find(&f->zip, path);

    free(path);
    return e;
}

/* Newer files say it. */
static enum tr_status check_order(const struct tr_torch *f, int fd)
{
    static const char little[] = "little";
    const struct tr_zip_entry *e = find_entry(f, "", "byteorder", 9);
    char text[sizeof little] = "";

    if (!e)
        return TR_OK;
    if (e->bytes != (int64_t)strlen(little) || tr_read_at(fd, text, e->bytes, e->offset) != 0 ||
        strcmp(text, little) != 0)
        return TR_FAIL(
            TR_EDATA, "%s has numbers that are not little-endian, and only such are read", f->path);
    return TR_OK;
}

static enum tr_status check_stored(const struct tr_torch *f)
{
    for (int i = 0; i < f->zip.count; i++)
        if (f->zip.list[i].deflated)
            return TR_FAIL(TR_EDATA, "%s: %s is compressed, and torch.save() stores it as it is",
                           f->path, f->zip.list[i].name);
    return TR_OK;
}

static enum tr_status read_pickle(struct tr_torch *f, int fd)
{
    const struct tr_zip_entry *e = find_pickle(f);

    if (!e)
        return TR_FAIL(TR_EDATA, "%s is a zip archive without data.pkl, so not of torch.save()",
                       f->path);
    TR_TRY(check_order(f, fd));
    if (e->bytes > TR_PICKLE_MOST)
        return TR_FAIL(TR_EDATA, "%s: its pickle has %" PRId64 " bytes, and %d are the most",
                       f->path, e->bytes, TR_PICKLE_MOST);
    f->data = malloc((size_t)e->bytes + 1);
    if (!f->data)
        tr_die(TR_ERESOURCE, "no memory left for the pickle of %s", f->path);
    if (tr_read_at(fd, f->data, e->bytes, e->offset) != 0)
        return TR_FAIL(TR_EIO, "cannot read %s: %s", f->path, strerror(errno));
    return tr_pickle_read(f->path, f->data, e->bytes, &f->pickle);
}

enum tr_status tr_torch_open(struct tr_weights_table *t, const char *name, struct tr_torch *out)
{
    unsigned char first[2] = {0};
    int fd;

    *out = (struct tr_torch){.path = ""};
    TR_TRY(tr_weights_open_file(t, name, &out->file));
    out->path = t->file[out->file].path;
    fd = t->file[out->file].fd;
    /* Before 1.6 it was a row of pickles. */
    if (t->file[out->file].bytes >= 2 && tr_read_at(fd, first, 2, 0) == 0 && first[0] == 0x80)
        return TR_FAIL(
            TR_EDATA,
            "%s is in the form of PyTorch before 1.6, which is not read: load and save it "
            "once with a newer one",
            out->path);
    TR_TRY(tr_zip_read(fd, out->path, t->file[out->file].bytes, &out->zip));
    TR_TRY(check_stored(out));
    return read_pickle(out, fd);
}

void tr_torch_close(struct tr_torch *f)
{
    tr_pickle_release(&f->pickle);
    tr_zip_release(&f->zip);
    free(f->data);
    free(f->root);
    *f = (struct tr_torch){.path = ""};
}

/* ---- tensors ---- */

/* Whole numbers of a list; -1 if it has others or too many. */
static int take_list(const struct tr_pickle *p, int list, int64_t out[TR_WEIGHTS_AXES])
{
    int n = 0;

    for (int cell = p->value[list].a; cell >= 0; cell = p->cell[cell].next) {
        const struct tr_pickle_value *v = &p->value[p->cell[cell].value];

        if (n == TR_WEIGHTS_AXES || v->kind != TR_PICKLE_WHOLE || v->whole < 0)
            return -1;
        out[n++] = v->whole;
    }
    return n;
}

/* Whether numbers follow one another: the stride of an axis is the product of the later ones. */
static bool is_contiguous(const struct tr_weights_tensor *x, const int64_t *stride)
{
    int64_t must = 1;

    for (int i = x->ndim - 1; i >= 0; i--) {
        if (x->dim[i] != 1 && stride[i] != must)
            return false;
        must *= x->dim[i];
    }
    return true;
}

static enum tr_status take_shape(const struct tr_torch *f, const struct tr_pickle_value *v,
                                 struct tr_weights_tensor *x)
{
    int64_t stride[TR_WEIGHTS_AXES];

    x->ndim = take_list(&f->pickle, v->b, x->dim);
    x->elems = 1;
    for (int i = 0; i < x->ndim; i++)
        if (__builtin_mul_overflow(x->elems, x->dim[i], &x->elems))
            x->ndim = -1;
    if (x->ndim < 0 || take_list(&f->pickle, v->c, stride) != x->ndim)
        return TR_FAIL(TR_EDATA, "%s: the shape of %s is not a list of at most %d counts", f->path,
                       x->name, TR_WEIGHTS_AXES);
    if (x->type != TR_WEIGHTS_OTHER && x->elems > 0 && !is_contiguous(x, stride))
        return TR_FAIL(TR_EDATA,
                       "%s: %s is a view whose numbers do not follow one another, which is not "
                       "read: save it with .contiguous()",
                       f->path, x->name);
    return TR_OK;
}

static enum tr_status take_tensor(const struct tr_torch *f, const struct tr_pickle_value *v,
                                  const char *name, struct tr_weights_table *t)
{
    const struct tr_pickle_value *storage = &f->pickle.value[v->a];
    const struct tr_pickle_value *key = &f->pickle.value[storage->a];
    const struct tr_zip_entry *e = find_entry(f, "data/", key->text, key->length);
    struct tr_weights_tensor *x = tr_weights_add(t, name);
    int64_t end;
    int each;

    snprintf(x->type_name, sizeof x->type_name, "%s", tr_pickle_type(storage));
    x->type = tr_weights_type_named(x->type_name);
    x->file = f->file;
    TR_TRY(take_shape(f, v, x));
    if (!e)
        return TR_FAIL(TR_EDATA, "%s lacks the storage of %s: copy the file once more", f->path,
                       x->name);
    each = tr_weights_type_bytes(x->type);
    if (each == 0)
        return TR_OK;
    if (v->whole < 0 || __builtin_add_overflow(v->whole, x->elems, &end) || end > e->bytes / each)
        return TR_FAIL(TR_EDATA, "%s: %s ends behind its storage, which has %" PRId64 " bytes",
                       f->path, x->name, e->bytes);
    x->offset = e->offset + v->whole * each;
    return TR_OK;
}

/* How far one has gone. */
struct walk {
    const struct tr_torch *file;
    struct tr_weights_table *table;
    int visits;
    size_t under; /* bytes of the name that were there before */
    char name[NAME];
};

static enum tr_status walk_into(struct walk *w, int value, size_t used, int depth)
{
    const struct tr_pickle *p = &w->file->pickle;
    const struct tr_pickle_value *v = &p->value[value];

    if (v->kind == TR_PICKLE_TENSOR)
        return take_tensor(w->file, v, w->name, w->table);
    if (v->kind != TR_PICKLE_DICT)
        return TR_OK;
    if (depth == DEEPEST)
        return TR_FAIL(TR_EDATA, "%s has dictionaries in dictionaries, more than %d deep",
                       w->file->path, DEEPEST);
    for (int cell = v->a; cell >= 0; cell = p->cell[cell].next) {
        const struct tr_pickle_value *key = &p->value[p->cell[cell].key];
        size_t more;

        if (++w->visits > VISITS)
            return TR_FAIL(TR_EDATA, "%s has more in its dictionaries than a model has",
                           w->file->path);
        if (key->kind != TR_PICKLE_TEXT)
            continue;
        if (key->length >= (int64_t)(NAME - used - 1))
            return TR_FAIL(TR_EDATA, "%s has names of %d bytes and more", w->file->path, NAME);
        more = used + (size_t)snprintf(w->name + used, NAME - used, "%s%.*s",
                                       used > w->under ? "." : "", (int)key->length, key->text);
        TR_TRY(walk_into(w, p->cell[cell].value, more, depth + 1));
    }
    return TR_OK;
}

enum tr_status tr_torch_tensors(const struct tr_torch *f, int value, const char *under,
                                struct tr_weights_table *t)
{
    struct walk w = {.file = f, .table = t, .under = strlen(under)};

    TR_ASSERT(w.under < NAME / 2);
    memcpy(w.name, under, w.under + 1);
    return walk_into(&w, value, w.under, 0);
}

enum tr_status tr_torch_read_under(struct tr_weights_table *t, const char *name, const char *under)
{
    struct tr_torch f;
    enum tr_status s = tr_torch_open(t, name, &f);

    if (s == TR_OK)
        s = tr_torch_tensors(&f, f.pickle.top, under, t);
    tr_torch_close(&f);
    return s;
}

enum tr_status tr_torch_read(struct tr_weights_table *t, const char *name)
{
    return tr_torch_read_under(t, name, "");
}
