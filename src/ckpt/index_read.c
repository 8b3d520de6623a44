/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/index.h"

#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/architecture.h"
#include "ckpt/seal.h"

/* Numbers of a file at most: the ranks of three dimensions are counted in 63 bits, and so are the tokens
   of all samples.  No link to a tensor takes less than 64 bytes of the index. */
#define LAYOUT_MOST (1 << 20)
#define WIDTH_MOST INT32_MAX
#define STATE_MOST ((int64_t)1 << 40)
#define TENSORS_MOST (TR_CKPT_INDEX_MOST / 64)

/* Why HDF5 failed first. */
static char reason[256];

/* HDF5 pushes what was found first, so the first one walked over is the cause. */
static herr_t note_cause(unsigned n, const H5E_error2_t *error, void *unused)
{
    (void)unused;
    if (n == 0)
        snprintf(reason, sizeof reason, "%s", error->desc);
    return 0;
}

/* HDF5 calls this at the end of a call that failed, and forgets the reason at the next call. */
static herr_t note_failure(hid_t stack, void *unused)
{
    (void)unused;
    return reason[0] ? 0 : H5Ewalk2(stack, H5E_WALK_UPWARD, note_cause, NULL);
}

void tr_ckpt_hdf5_begin(void)
{
    reason[0] = '\0';
    H5Eset_auto2(H5E_DEFAULT, note_failure, NULL);
}

const char *tr_ckpt_hdf5_reason(void)
{
    return reason[0] ? reason : "HDF5 gives no reason";
}

/* A scalar of this class; converted to `type`. */
static enum tr_status get(hid_t on, const char *name, H5T_class_t class, hid_t type, void *value)
{
    hid_t attr = H5Aopen(on, name, H5P_DEFAULT);
    hid_t stored = attr >= 0 ? H5Aget_type(attr) : -1, space = attr >= 0 ? H5Aget_space(attr) : -1;
    enum tr_status s = TR_OK;

    if (attr < 0)
        s = TR_FAIL(TR_EDATA, "it has no attribute \"%s\"", name);
    else if (H5Tget_class(stored) != class || H5Sget_simple_extent_npoints(space) != 1)
        s = TR_FAIL(TR_EDATA, "its attribute \"%s\" has another type than it must have", name);
    else if (H5Aread(attr, type, value) < 0)
        s = TR_FAIL(TR_EDATA, "its attribute \"%s\" cannot be read: %s", name,
                    tr_ckpt_hdf5_reason());
    if (space >= 0)
        H5Sclose(space);
    if (stored >= 0)
        H5Tclose(stored);
    if (attr >= 0)
        H5Aclose(attr);
    return s;
}

static enum tr_status get_int(hid_t on, const char *name, int64_t *value)
{
    return get(on, name, H5T_INTEGER, H5T_NATIVE_INT64, value);
}

static enum tr_status get_real(hid_t on, const char *name, double *value)
{
    return get(on, name, H5T_FLOAT, H5T_NATIVE_DOUBLE, value);
}

/* What another program may leave out. */
static bool has(hid_t on, const char *name)
{
    return H5Aexists(on, name) > 0;
}

/* Fixed-length strings only, which is what tr_ckpt_index_write() writes. */
static enum tr_status get_text(hid_t on, const char *name, char **text)
{
    hid_t attr = H5Aopen(on, name, H5P_DEFAULT), type = attr >= 0 ? H5Aget_type(attr) : -1;
    enum tr_status s = TR_EDATA;
    size_t size = type >= 0 ? H5Tget_size(type) : 0;
    hsize_t stored = attr >= 0 ? H5Aget_storage_size(attr) : 0;

    *text = NULL;
    if (type >= 0 && H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) == 0 &&
        size <= TR_CKPT_INDEX_MOST && stored == size) {
        *text = calloc(1, size + 1);
        if (!*text)
            tr_die(TR_ERESOURCE, "no memory left for an attribute of %zu bytes", size);
        s = get(on, name, H5T_STRING, type, *text);
    } else {
        s = TR_FAIL(TR_EDATA, "its attribute \"%s\" is not a text of fixed length", name);
    }
    if (type >= 0)
        H5Tclose(type);
    if (attr >= 0)
        H5Aclose(attr);
    return s;
}

/* Numbers that something is counted with: `most` keeps products of a few of them in 63 bits. */
static enum tr_status get_count(hid_t root, const char *name, int64_t least, int64_t most,
                                int64_t *value)
{
    TR_TRY(get_int(root, name, value));
    if (*value < least || *value > most)
        return TR_FAIL(TR_EDATA, "its attribute \"%s\" is %lld, and must be %lld to %lld", name,
                       (long long)*value, (long long)least, (long long)most);
    return TR_OK;
}

static enum tr_status get_layout(hid_t root, struct tr_ckpt_about *a)
{
#define LAYOUT(attribute, field) \
    if (has(root, attribute))    \
        TR_TRY(get_count(root, attribute, 1, LAYOUT_MOST, &a->field));
    TR_CKPT_LAYOUT_OF(LAYOUT)
#undef LAYOUT
    return TR_OK;
}

static enum tr_status get_family_choice(hid_t root, const char *name, int *value)
{
    char *text;
    enum tr_status s = get_text(root, name, &text);

    if (s == TR_OK)
        *value = tr_ckpt_family_value(name, text);
    if (s == TR_OK && *value < 0)
        s = TR_FAIL(TR_EDATA, "its %s is \"%s\", which this version does not know", name, text);
    free(text);
    return s;
}

/* What is not there is as the first family has it, of which all files were before. */
static enum tr_status get_family(hid_t root, struct tr_family *f)
{
    int64_t whole;
    double real;
    int choice;

    *f = *tr_family_row(0);
    f->eps = 0.0;
#define FLAG(attribute, field)                        \
    TR_TRY(get_count(root, attribute, 0, 1, &whole)); \
    (field) = whole == 1;
#define WHOLE(attribute, field)                               \
    TR_TRY(get_count(root, attribute, 0, INT32_MAX, &whole)); \
    (field) = whole;
#define REAL(attribute, field)                \
    TR_TRY(get_real(root, attribute, &real)); \
    (field) = real;
#define CHOICE(attribute, field)                         \
    TR_TRY(get_family_choice(root, attribute, &choice)); \
    (field) = (__typeof__(field))choice;
#define FAMILY(type, attribute, field, tuned) \
    if (has(root, attribute)) {               \
        type(attribute, f->field)             \
    }
    TR_CKPT_FAMILY_OF(FAMILY)
#undef FAMILY
#undef CHOICE
#undef REAL
#undef WHOLE
#undef FLAG
    return TR_OK;
}

static enum tr_status get_about(hid_t root, struct tr_ckpt_about *a)
{
    int64_t whole;
    double real;

    /* Fields have several types; each passes through the type of the file. */
#define INT(attribute, field)                                  \
    TR_TRY(get_count(root, attribute, 0, STATE_MOST, &whole)); \
    a->state.field = (__typeof__(a->state.field))whole;
#define SIGNED(attribute, field)                                       \
    TR_TRY(get_count(root, attribute, -INT32_MAX, INT32_MAX, &whole)); \
    a->state.field = (__typeof__(a->state.field))whole;
#define REAL(attribute, field)                \
    TR_TRY(get_real(root, attribute, &real)); \
    a->state.field = real;
#define STATE(type, attribute, field) type(attribute, field)
    TR_CKPT_STATE_OF(STATE)
#undef STATE
#undef REAL
#undef SIGNED
#undef INT
#define MODEL(attribute, field) TR_TRY(get_count(root, attribute, 1, INT32_MAX, &a->field));
    TR_CKPT_MODEL_OF(MODEL)
#undef MODEL
#define WIDTH(attribute, field, otherwise) \
    a->field = (otherwise);                \
    if (has(root, attribute))              \
        TR_TRY(get_count(root, attribute, 1, WIDTH_MOST, &a->field));
    TR_CKPT_WIDTH_OF(WIDTH)
#undef WIDTH
    a->classes = 0;
    if (has(root, TR_CKPT_ATTR_LABELS))
        TR_TRY(get_count(root, TR_CKPT_ATTR_LABELS, 1, WIDTH_MOST, &a->classes));
    TR_TRY(get_family(root, &a->family));
    a->files = -1;
    if (has(root, TR_CKPT_ATTR_FILES))
        TR_TRY(get_count(root, TR_CKPT_ATTR_FILES, 0, INT32_MAX, &a->files));
    return get_layout(root, a);
}

static enum tr_status get_schedule_real(hid_t root, const char *name, const char *options,
                                        double *value)
{
    (void)options;
    *value = TR_UNSET_REAL;
    return has(root, name) ? get_real(root, name, value) : TR_OK;
}

static enum tr_status get_schedule_choice(hid_t root, const char *name, const char *options,
                                          int *value)
{
    enum tr_status s = TR_OK;
    char *text;

    *value = -1;
    if (!has(root, name))
        return TR_OK;
    s = get_text(root, name, &text);
    if (s == TR_OK)
        *value = tr_ckpt_schedule_value(options, text);
    if (s == TR_OK && *value < 0)
        s = TR_FAIL(TR_EDATA, "its %s is \"%s\", which this version does not know", name, text);
    free(text);
    return s;
}

/* Files are older than some of the numbers, and what is not there is unset. */
static enum tr_status get_schedule(hid_t root, struct tr_lr_schedule *c)
{
#define REAL get_schedule_real
#define CHOICE get_schedule_choice
#define NUMBER(type, field, attribute, options) TR_TRY(type(root, attribute, options, &c->field));
    TR_LR_SCHEDULE_OF(NUMBER)
#undef NUMBER
#undef CHOICE
#undef REAL
    return TR_OK;
}

static enum tr_status get_order(hid_t root, struct tr_epoch_plan *o)
{
#define NUMBER(field, attribute, options) \
    if (has(root, attribute))             \
        TR_TRY(get_int(root, attribute, &o->field));
    TR_EPOCH_ORDER_OF(NUMBER)
#undef NUMBER
    return TR_OK;
}

static bool is_plain(hid_t set)
{
    hid_t type = H5Dget_type(set), how = H5Dget_create_plist(set);
    bool plain = type >= 0 && how >= 0 && H5Tequal(type, H5T_IEEE_F32LE) > 0 &&
                 H5Pget_layout(how) == H5D_CONTIGUOUS && H5Pget_external_count(how) == 0;

    if (type >= 0)
        H5Tclose(type);
    if (how >= 0)
        H5Pclose(how);
    return plain;
}

static enum tr_status get_shape(hid_t set, struct tr_ckpt_entry *e)
{
    hid_t space = H5Dget_space(set);
    hsize_t dims[2] = {1, 1};

    e->ndim = space >= 0 ? H5Sget_simple_extent_ndims(space) : -1;
    if (e->ndim == 1 || e->ndim == 2)
        H5Sget_simple_extent_dims(space, dims, NULL);
    if (space >= 0)
        H5Sclose(space);
    if (e->ndim < 1 || e->ndim > 2 || dims[0] > INT32_MAX || dims[1] > INT32_MAX)
        return TR_FAIL(TR_EDATA, "it has another shape than tensors have");
    e->dim[0] = (int64_t)dims[0];
    e->dim[1] = (int64_t)dims[1];
    e->elems = e->dim[0] * e->dim[1];
    return TR_OK;
}

static enum tr_status get_tensor(hid_t set, int64_t file_bytes, struct tr_ckpt_entry *e)
{
    haddr_t at = H5Dget_offset(set);

    TR_TRY(get_shape(set, e));
    if (!is_plain(set) || at == HADDR_UNDEF)
        return TR_FAIL(TR_EDATA, "it is not contiguous 32-bit little-endian floats");
    if (at > (haddr_t)file_bytes || e->elems > (file_bytes - (int64_t)at) / (int64_t)sizeof(float))
        return TR_FAIL(TR_EDATA, "its elements lie beyond the end of the file");
    e->offset = (int64_t)at;
    return get(set, TR_CKPT_ATTR_SUM, H5T_INTEGER, H5T_NATIVE_UINT64, &e->sum);
}

static enum tr_status get_entry(hid_t group, hsize_t number, int64_t file_bytes,
                                struct tr_ckpt_entry *e)
{
    ssize_t length = H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_NATIVE, number, e->name,
                                        sizeof e->name, H5P_DEFAULT);
    enum tr_status s;
    hid_t set;

    if (length < 0 || length >= (ssize_t)sizeof e->name)
        return TR_FAIL(TR_EDATA, "a name in the group \"%s\" cannot be read",
                       tr_ckpt_group(e->kind));
    set = H5Dopen2(group, e->name, H5P_DEFAULT);
    if (set < 0)
        return TR_FAIL(TR_EDATA, "%s/%s cannot be opened: %s", tr_ckpt_group(e->kind), e->name,
                       tr_ckpt_hdf5_reason());
    s = get_tensor(set, file_bytes, e);
    if (s != TR_OK)
        s = TR_FAIL(s, "%s/%s: %s", tr_ckpt_group(e->kind), e->name, tr_last_error());
    H5Dclose(set);
    return s;
}

/* A group that is not there has no entries: weights alone are a checkpoint too. */
static enum tr_status get_group(hid_t file, int kind, int64_t file_bytes, struct tr_ckpt_index *out)
{
    enum tr_status s = TR_OK;
    H5G_info_t info;
    hid_t group;

    if (H5Lexists(file, tr_ckpt_group(kind), H5P_DEFAULT) == 0)
        return TR_OK;
    group = H5Gopen2(file, tr_ckpt_group(kind), H5P_DEFAULT);
    if (group < 0 || H5Gget_info(group, &info) < 0 || info.nlinks > TENSORS_MOST) {
        s = TR_FAIL(TR_EDATA, "the group \"%s\" cannot be read: %s", tr_ckpt_group(kind),
                    tr_ckpt_hdf5_reason());
        goto out;
    }
    out->list =
        realloc(out->list, ((size_t)out->count + (size_t)info.nlinks + 1) * sizeof *out->list);
    if (!out->list)
        tr_die(TR_ERESOURCE, "no memory left for the index of a checkpoint");
    for (hsize_t i = 0; s == TR_OK && i < info.nlinks; i++) {
        struct tr_ckpt_entry *e = &out->list[out->count++];

        memset(e, 0, sizeof *e);
        e->kind = kind;
        s = get_entry(group, i, file_bytes, e);
    }
out:
    if (group >= 0)
        H5Gclose(group);
    return s;
}

static int by_offset(const void *a, const void *b)
{
    const struct tr_ckpt_entry *x = a, *y = b;

    return (x->offset > y->offset) - (x->offset < y->offset);
}

static enum tr_status get_all(hid_t file, int64_t file_bytes, struct tr_ckpt_index *out)
{
    if (has(file, TR_CKPT_ATTR_PROGRAM))
        TR_TRY(get_text(file, TR_CKPT_ATTR_PROGRAM, &out->program));
    if (has(file, TR_CKPT_ATTR_CONFIG))
        TR_TRY(get_text(file, TR_CKPT_ATTR_CONFIG, &out->config));
    if (has(file, TR_CKPT_ATTR_SOURCE))
        TR_TRY(get_text(file, TR_CKPT_ATTR_SOURCE, &out->source));
    TR_TRY(get_about(file, &out->about));
    TR_TRY(get_schedule(file, &out->about.schedule));
    TR_TRY(get_order(file, &out->about.order));
    /* Version 1.0 is of runs in fp32, and wrote the 1.0 of their logs. */
    if (out->minor == 0)
        out->about.state.loss_scale = 0.0;
    for (int k = 0; k < TR_CKPT_KINDS; k++)
        TR_TRY(get_group(file, k, file_bytes, out));
    if (out->count == 0)
        return TR_FAIL(TR_EDATA, "it holds no tensors");
    for (int i = 0; i < out->count; i++)
        out->optimizer |= out->list[i].kind != TR_CKPT_MODEL;
    qsort(out->list, (size_t)out->count, sizeof *out->list, by_offset);
    return TR_OK;
}

static enum tr_status parse(struct tr_ckpt_sparse *pages, struct tr_ckpt_index *out)
{
    int64_t bytes = pages->bytes;
    hid_t access, file = -1;
    enum tr_status s;

    tr_ckpt_hdf5_begin();
    access = tr_ckpt_sparse_open(pages);
    if (access >= 0)
        file = H5Fopen("checkpoint", H5F_ACC_RDONLY, access);
    if (file < 0)
        s = TR_FAIL(TR_EDATA, "HDF5 cannot read it: %s", tr_ckpt_hdf5_reason());
    else
        s = get_all(file, bytes, out);
    if (file >= 0)
        H5Fclose(file);
    if (access >= 0)
        tr_ckpt_sparse_close(access);
    return s;
}

enum tr_status tr_ckpt_index_read_fd(int fd, const char *path, struct tr_ckpt_index *out)
{
    struct tr_ckpt_sparse pages = {0};
    enum tr_status s;

    memset(out, 0, sizeof *out);
    s = tr_ckpt_unseal(fd, &pages, &out->minor);
    if (s == TR_OK)
        s = parse(&pages, out);
    if (s != TR_OK)
        s = TR_FAIL(s, "%s is damaged or not a checkpoint: %s", path, tr_last_error());
    tr_ckpt_sparse_release(&pages);
    return s;
}

enum tr_status tr_ckpt_index_read(const char *path, struct tr_ckpt_index *out)
{
    enum tr_status s;
    int fd;

    memset(out, 0, sizeof *out);
    TR_TRY(tr_open_file(path, O_RDONLY, &fd));
    s = tr_ckpt_index_read_fd(fd, path, out);
    close(fd);
    return s;
}

enum tr_status tr_ckpt_index_find(const struct tr_ckpt_index *x, int kind, const struct tr_param *p,
                                  int guess, const struct tr_ckpt_entry **out)
{
    *out = NULL;
    for (int i = 0; i < x->count && !*out; i++) {
        const struct tr_ckpt_entry *e = &x->list[(guess + i) % x->count];

        if (e->kind == kind && strcmp(e->name, p->name) == 0)
            *out = e;
    }
    if (!*out)
        return TR_FAIL(TR_EDATA, "it lacks the dataset %s/%s", tr_ckpt_group(kind), p->name);
    if ((*out)->ndim != p->ndim || (*out)->dim[0] != p->full[0] || (*out)->dim[1] != p->full[1])
        return TR_FAIL(TR_EDATA, "%s/%s has not the shape that its model gives it",
                       tr_ckpt_group(kind), p->name);
    return TR_OK;
}

void tr_ckpt_index_release(struct tr_ckpt_index *x)
{
    free(x->program);
    free(x->config);
    free(x->source);
    free(x->list);
    memset(x, 0, sizeof *x);
}
