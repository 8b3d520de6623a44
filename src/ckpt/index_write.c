/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/index.h"

#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/architecture.h"
#include "ckpt/seal.h"
#include "util/file.h"

/* An upper bound of what HDF5 takes for the index: some 350 bytes for a header and a name per
   dataset, and the root with its attributes. */
enum { INDEX_PER_DATASET = 512, INDEX_AT_LEAST = 16 * TR_CKPT_PAGE };

/* Lengths of the text of the options that are tried. */
enum { TRIES = 8 };

#if defined __BYTE_ORDER__ && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "checkpoints are little endian, and the elements are written without conversion"
#endif

/* Whole pages. */
static int64_t room_for_index(const struct tr_params *whole, int kinds, const char *config_json)
{
    int64_t bytes = INDEX_AT_LEAST + 2 * (int64_t)strlen(config_json) +
                    (int64_t)kinds * whole->count * INDEX_PER_DATASET;

    return (bytes + TR_CKPT_PAGE - 1) / TR_CKPT_PAGE * TR_CKPT_PAGE;
}

int64_t tr_ckpt_index_bytes(const struct tr_params *whole, int kinds, const char *config_json)
{
    int64_t bytes = room_for_index(whole, kinds, config_json);

    for (int i = 0; i < whole->count; i++) {
        int64_t size = whole->list[i].elems * (int64_t)sizeof(float);

        /* The larger ones begin on a page. */
        if (size >= TR_CKPT_PAGE)
            size += TR_CKPT_PAGE - 1;
        bytes += kinds * size;
    }
    return bytes;
}

static bool put(hid_t on, const char *name, hid_t stored, hid_t given, const void *value)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t attr = H5Acreate2(on, name, stored, space, H5P_DEFAULT, H5P_DEFAULT);
    bool ok = attr >= 0 && H5Awrite(attr, given, value) >= 0;

    if (attr >= 0)
        ok &= H5Aclose(attr) >= 0;
    if (space >= 0)
        ok &= H5Sclose(space) >= 0;
    return ok;
}

static bool put_int(hid_t on, const char *name, int64_t value)
{
    return put(on, name, H5T_STD_I64LE, H5T_NATIVE_INT64, &value);
}

static bool put_real(hid_t on, const char *name, double value)
{
    return put(on, name, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, &value);
}

static bool put_text(hid_t on, const char *name, const char *text)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    bool ok = H5Tset_size(type, strlen(text) + 1) >= 0 && H5Tset_cset(type, H5T_CSET_UTF8) >= 0 &&
              put(on, name, type, type, text);

    if (type >= 0)
        ok &= H5Tclose(type) >= 0;
    return ok;
}

/* What is unset is left out. */
static bool put_schedule_real(hid_t root, const char *name, const char *options, double value)
{
    (void)options;
    return value <= TR_UNSET_REAL || put_real(root, name, value);
}

static bool put_schedule_choice(hid_t root, const char *name, const char *options, int value)
{
    return value < 0 || put_text(root, name, tr_ckpt_schedule_spelling(options, value));
}

static bool put_schedule(hid_t root, const struct tr_lr_schedule *c)
{
    bool ok = true;

#define REAL put_schedule_real
#define CHOICE put_schedule_choice
#define NUMBER(type, field, attribute, options) ok = ok && type(root, attribute, options, c->field);
    TR_LR_SCHEDULE_OF(NUMBER)
#undef NUMBER
#undef CHOICE
#undef REAL
    return ok;
}

static bool put_order(hid_t root, const struct tr_epoch_plan *o)
{
    bool ok = true;

#define NUMBER(field, attribute, options) ok = ok && put_int(root, attribute, o->field);
    TR_EPOCH_ORDER_OF(NUMBER)
#undef NUMBER
    return ok;
}

/* Each field passes through the type of the file. */
static bool put_family(hid_t root, const struct tr_family *f)
{
    bool ok = true;

#define FLAG(attribute, value) put_int(root, attribute, value)
#define WHOLE FLAG
#define REAL(attribute, value) put_real(root, attribute, value)
#define CHOICE(attribute, value) \
    put_text(root, attribute, tr_ckpt_family_spelling(attribute, (int)(value)))
#define FAMILY(type, attribute, field, tuned) ok = ok && type(attribute, f->field);
    TR_CKPT_FAMILY_OF(FAMILY)
#undef FAMILY
#undef CHOICE
#undef REAL
#undef WHOLE
#undef FLAG
    return ok;
}

static bool put_about(hid_t root, const struct tr_ckpt_about *a, const char *config_json)
{
    bool ok = put_text(root, TR_CKPT_ATTR_PROGRAM, PACKAGE_STRING) &&
              put_text(root, TR_CKPT_ATTR_CONFIG, config_json) &&
              (!a->source || put_text(root, TR_CKPT_ATTR_SOURCE, a->source));

#define INT put_int
#define SIGNED put_int
#define REAL put_real
#define STATE(type, attribute, field) ok = ok && type(root, attribute, a->state.field);
    TR_CKPT_STATE_OF(STATE)
#undef STATE
#undef REAL
#undef SIGNED
#undef INT
#define MODEL(attribute, field) ok = ok && put_int(root, attribute, a->field);
#define WIDTH(attribute, field, otherwise) MODEL(attribute, field)
    TR_CKPT_MODEL_OF(MODEL)
    TR_CKPT_WIDTH_OF(WIDTH)
    TR_CKPT_LAYOUT_OF(MODEL)
#undef WIDTH
#undef MODEL
    if (a->classes > 0)
        ok = ok && put_int(root, TR_CKPT_ATTR_LABELS, a->classes);
    return ok && put_int(root, TR_CKPT_ATTR_FILES, a->files) && put_family(root, &a->family) &&
           put_schedule(root, &a->schedule) && put_order(root, &a->order);
}

/* A dataset whose place in the file is fixed now and whose elements HDF5 never writes. */
static bool put_tensor(hid_t group, hid_t how, const struct tr_param *p, uint64_t sum,
                       int64_t *offset)
{
    hsize_t dims[2] = {(hsize_t)p->full[0], (hsize_t)p->full[1]};
    hid_t space = H5Screate_simple(p->ndim, dims, NULL);
    hid_t set = H5Dcreate2(group, p->name, H5T_IEEE_F32LE, space, H5P_DEFAULT, how, H5P_DEFAULT);
    haddr_t at = set >= 0 ? H5Dget_offset(set) : HADDR_UNDEF;
    bool ok =
        at != HADDR_UNDEF && put(set, TR_CKPT_ATTR_SUM, H5T_STD_U64LE, H5T_NATIVE_UINT64, &sum);

    *offset = (int64_t)at;
    if (set >= 0)
        ok &= H5Dclose(set) >= 0;
    if (space >= 0)
        ok &= H5Sclose(space) >= 0;
    return ok;
}

static bool put_group(hid_t file, int kind, const struct tr_params *whole, const uint64_t *sums,
                      int64_t *offsets)
{
    hid_t how = H5Pcreate(H5P_DATASET_CREATE), group = -1;
    bool ok = H5Pset_layout(how, H5D_CONTIGUOUS) >= 0 &&
              H5Pset_alloc_time(how, H5D_ALLOC_TIME_EARLY) >= 0 &&
              H5Pset_fill_time(how, H5D_FILL_TIME_NEVER) >= 0 &&
              H5Pset_obj_track_times(how, false) >= 0;

    if (ok)
        group = H5Gcreate2(file, tr_ckpt_group(kind), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ok = ok && group >= 0;
    for (int i = 0; ok && i < whole->count; i++)
        ok = put_tensor(group, how, &whole->list[i], sums[kind * whole->count + i],
                        &offsets[kind * whole->count + i]);
    if (group >= 0)
        ok &= H5Gclose(group) >= 0;
    if (how >= 0)
        ok &= H5Pclose(how) >= 0;
    return ok;
}

/* Version 1.8 of HDF5's format, which programs of many years can read.  The index gets one
   block of `room` bytes, whole pages, at the start of the file: no page has bytes of both the
   index and a tensor, which different machines write. */
static hid_t create(hid_t access, int64_t room)
{
    hid_t how = H5Pcreate(H5P_FILE_CREATE), file = -1;

    if (access >= 0 && H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18) >= 0 &&
        H5Pset_alignment(access, TR_CKPT_PAGE, TR_CKPT_PAGE) >= 0 &&
        H5Pset_meta_block_size(access, (hsize_t)room) >= 0 &&
        H5Pset_userblock(how, TR_CKPT_SEAL_BYTES) >= 0)
        file = H5Fcreate("checkpoint", H5F_ACC_TRUNC, how, access);
    if (how >= 0)
        H5Pclose(how);
    return file;
}

/* The whole file as HDF5 makes it, with holes where the tensors will be. */
static enum tr_status describe(int64_t room, const struct tr_params *whole, int kinds,
                               const struct tr_ckpt_about *about, const char *config_json,
                               const uint64_t *sums, int64_t *offsets, struct tr_ckpt_sparse *out)
{
    hid_t access, file;
    bool ok;

    memset(out, 0, sizeof *out);
    tr_ckpt_hdf5_begin();
    access = tr_ckpt_sparse_open(out);
    file = create(access, room);
    ok = file >= 0 && put_about(file, about, config_json);
    for (int k = 0; ok && k < kinds; k++)
        ok = put_group(file, k, whole, sums, offsets);
    if (file >= 0)
        ok &= H5Fclose(file) >= 0;
    if (access >= 0)
        ok &= tr_ckpt_sparse_close(access) >= 0;
    if (!ok)
        return TR_FAIL(TR_ERESOURCE, "cannot make the index of a checkpoint in memory: %s",
                       tr_ckpt_hdf5_reason());
    return TR_OK;
}

static int64_t end_of_index(const struct tr_ckpt_sparse *pages)
{
    return (pages->page[pages->count - 1].number + 1) * TR_CKPT_PAGE;
}

static int64_t first_tensor(const int64_t *offsets, int n)
{
    int64_t first = offsets[0];

    for (int i = 1; i < n; i++)
        first = offsets[i] < first ? offsets[i] : first;
    return first;
}

/*
 * HDF5 puts a text of more than a page behind the room for the index, with the head of its
 * attribute, and small tensors behind the text, into its last page: they would be in the index, and
 * damage it when they are written.  So many blanks at the end of the text that it ends with a page
 * keep them off.  How many follows from what is over after a first try without.
 */
static enum tr_status describe_in_order(const struct tr_params *whole, int kinds,
                                        const struct tr_ckpt_about *about, const char *config_json,
                                        const uint64_t *sums, int64_t *offsets,
                                        struct tr_ckpt_sparse *out)
{
    const int64_t room = room_for_index(whole, kinds, config_json);
    int64_t blanks = 0, over = 0;

    for (int i = 0; i < TRIES; i++) {
        char *text = tr_format("%s%*s", config_json, (int)blanks, "");
        enum tr_status s = describe(room, whole, kinds, about, text, sums, offsets, out);

        free(text);
        TR_TRY(s);
        over = end_of_index(out) - first_tensor(offsets, kinds * whole->count);
        if (over <= 0)
            return TR_OK;
        tr_ckpt_sparse_release(out);
        blanks = (blanks + over) % (4 * TR_CKPT_PAGE);
    }
    return TR_FAIL(TR_EINTERNAL,
                   "the index of a checkpoint has no place before its tensors; please "
                   "report it");
}

/* The length first, so that a machine that writes tensors finds the file as long as it stays: a
   network file system then never fills a page with zeros of its own. */
static int write_index(int fd, const struct tr_ckpt_sparse *pages)
{
    int64_t bytes = end_of_index(pages);
    unsigned char *image = calloc(1, (size_t)bytes);
    int rc;

    if (!image)
        return -1;
    for (int i = 0; i < pages->count; i++)
        memcpy(image + pages->page[i].number * TR_CKPT_PAGE, pages->page[i].data, TR_CKPT_PAGE);
    tr_ckpt_seal(image, bytes);
    rc =
        ftruncate(fd, pages->bytes) != 0 || tr_write_at(fd, image, bytes, 0) != 0 || fsync(fd) != 0;
    free(image);
    return rc ? -1 : 0;
}

static enum tr_status write_file(const char *path, int flags, const struct tr_ckpt_sparse *pages)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC | flags, 0666), error = 0;

    if (fd < 0)
        return TR_FAIL(TR_EIO, "cannot make %s: %s", path, strerror(errno));
    if (write_index(fd, pages) != 0)
        error = errno;
    if (close(fd) != 0 && error == 0)
        error = errno;
    if (error != 0)
        return TR_FAIL(TR_EIO, "cannot write %s: %s", path, strerror(error));
    return TR_OK;
}

static enum tr_status write_to(const char *path, int flags, const struct tr_params *whole,
                               int kinds, const struct tr_ckpt_about *about,
                               const char *config_json, const uint64_t *sums, int64_t *offsets)
{
    struct tr_ckpt_sparse pages;
    enum tr_status s;

    if (room_for_index(whole, kinds, config_json) > TR_CKPT_INDEX_MOST)
        return TR_FAIL(TR_ERESOURCE,
                       "a checkpoint of %lld tensors needs a longer index than readers take",
                       (long long)kinds * whole->count);
    s = describe_in_order(whole, kinds, about, config_json, sums, offsets, &pages);

    if (s == TR_OK)
        s = write_file(path, flags, &pages);
    tr_ckpt_sparse_release(&pages);
    return s;
}

enum tr_status tr_ckpt_index_write(const char *path, const struct tr_params *whole, int kinds,
                                   const struct tr_ckpt_about *about, const char *config_json,
                                   const uint64_t *sums, int64_t *offsets)
{
    return write_to(path, O_CREAT | O_EXCL, whole, kinds, about, config_json, sums, offsets);
}

enum tr_status tr_ckpt_index_again(const char *path, const struct tr_params *whole, int kinds,
                                   const struct tr_ckpt_about *about, const char *config_json,
                                   const uint64_t *sums, int64_t *offsets)
{
    return write_to(path, 0, whole, kinds, about, config_json, sums, offsets);
}
