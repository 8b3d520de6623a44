/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/sparse_file.h"

#include <stdlib.h>
#include <string.h>

#if H5_VERSION_GE(1, 13, 0)
#include <H5FDdevelop.h>
#endif

#include "util/status.h"

/* What HDF5 calls an open file: its part first. */
struct file {
    H5FD_t hdf5;
    haddr_t end;    /* of what HDF5 uses */
    haddr_t length; /* of what there is */
    struct tr_ckpt_sparse *pages;
};

/* The place of page `number` in the list, or where it belongs. */
static int place_of(const struct tr_ckpt_sparse *s, int64_t number)
{
    int lo = 0, hi = s->count;

    while (lo < hi) {
        int mid = lo + (hi - lo) / 2;

        if (s->page[mid].number < number)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static unsigned char *find_page(const struct tr_ckpt_sparse *s, int64_t number)
{
    int at = place_of(s, number);

    return at < s->count && s->page[at].number == number ? s->page[at].data : NULL;
}

static unsigned char *make_page(struct tr_ckpt_sparse *s, int64_t number)
{
    int at = place_of(s, number);
    unsigned char *data = calloc(1, TR_CKPT_PAGE);

    if (s->count == s->room) {
        s->room = 2 * s->room + 64;
        s->page = realloc(s->page, (size_t)s->room * sizeof *s->page);
    }
    if (!data || !s->page)
        tr_die(TR_ERESOURCE, "no memory left for the index of a checkpoint");
    memmove(s->page + at + 1, s->page + at, (size_t)(s->count++ - at) * sizeof *s->page);
    s->page[at] = (struct tr_ckpt_page){number, data};
    return data;
}

/* Bytes of the page of `at` from there on, `size` at most. */
static size_t in_page(haddr_t at, size_t size)
{
    size_t room = TR_CKPT_PAGE - (size_t)(at % TR_CKPT_PAGE);

    return size < room ? size : room;
}

static void write_pages(struct tr_ckpt_sparse *s, haddr_t at, const void *data, size_t size)
{
    const unsigned char *from = data;

    for (size_t n; size > 0; at += n, from += n, size -= n) {
        unsigned char *page = find_page(s, (int64_t)(at / TR_CKPT_PAGE));

        n = in_page(at, size);
        if (!page)
            page = make_page(s, (int64_t)(at / TR_CKPT_PAGE));
        memcpy(page + at % TR_CKPT_PAGE, from, n);
    }
}

static herr_t file_write(H5FD_t *base, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t size,
                         const void *data)
{
    struct file *f = (struct file *)base;

    (void)type;
    (void)transfer;
    write_pages(f->pages, at, data, size);
    if (at + size > f->length)
        f->length = at + size;
    return 0;
}

static herr_t file_read(H5FD_t *base, H5FD_mem_t type, hid_t transfer, haddr_t at, size_t size,
                        void *data)
{
    const struct tr_ckpt_sparse *s = ((struct file *)base)->pages;
    unsigned char *to = data;

    (void)type;
    (void)transfer;
    for (size_t n; size > 0; at += n, to += n, size -= n) {
        const unsigned char *page = find_page(s, (int64_t)(at / TR_CKPT_PAGE));

        n = in_page(at, size);
        if (page)
            memcpy(to, page + at % TR_CKPT_PAGE, n);
        else
            memset(to, 0, n);
    }
    return 0;
}

static H5FD_t *file_open(const char *name, unsigned flags, hid_t access, haddr_t most)
{
    struct tr_ckpt_sparse *const *pages = H5Pget_driver_info(access);
    struct file *f = pages ? calloc(1, sizeof *f) : NULL;

    (void)name;
    (void)flags;
    (void)most;
    if (f) {
        f->pages = *pages;
        f->length = (haddr_t)f->pages->bytes;
    }
    return (H5FD_t *)f;
}

static herr_t file_close(H5FD_t *base)
{
    struct file *f = (struct file *)base;

    if ((int64_t)f->end > f->pages->bytes)
        f->pages->bytes = (int64_t)f->end;
    free(f);
    return 0;
}

/* Many small objects on one page, but never together with elements. */
static herr_t file_query(const H5FD_t *base, unsigned long *flags)
{
    (void)base;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
    return 0;
}

static haddr_t get_end(const H5FD_t *base, H5FD_mem_t type)
{
    (void)type;
    return ((const struct file *)base)->end;
}

static haddr_t get_length(const H5FD_t *base, H5FD_mem_t type)
{
    (void)type;
    return ((const struct file *)base)->length;
}

static herr_t set_end(H5FD_t *base, H5FD_mem_t type, haddr_t end)
{
    (void)type;
    ((struct file *)base)->end = end;
    return 0;
}

static const H5FD_class_t driver = {
#if H5_VERSION_GE(1, 13, 0)
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)511, /* of those left for use within one program */
#endif
    .name = "sparse memory",
    .maxaddr = INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .fapl_size = sizeof(struct tr_ckpt_sparse *),
    .open = file_open,
    .close = file_close,
    .query = file_query,
    .get_eoa = get_end,
    .set_eoa = set_end,
    .get_eof = get_length,
    .read = file_read,
    .write = file_write,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

void tr_ckpt_sparse_put(struct tr_ckpt_sparse *file, const void *data, int64_t bytes, int64_t at)
{
    write_pages(file, (haddr_t)at, data, (size_t)bytes);
}

hid_t tr_ckpt_sparse_open(struct tr_ckpt_sparse *file)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), id = H5FDregister(&driver);

    if (access < 0 || id < 0 || H5Pset_driver(access, id, &file) < 0)
        return -1;
    return access;
}

herr_t tr_ckpt_sparse_close(hid_t access)
{
    hid_t id = H5Pget_driver(access);

    return H5Pclose(access) >= 0 && H5FDunregister(id) >= 0 ? 0 : -1;
}

void tr_ckpt_sparse_release(struct tr_ckpt_sparse *file)
{
    for (int i = 0; i < file->count; i++)
        free(file->page[i].data);
    free(file->page);
    memset(file, 0, sizeof *file);
}
