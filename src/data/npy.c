/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/npy.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIXED_BYTES = 10 };
static const unsigned char magic[8] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};

static int64_t item_bytes(const struct tr_npy *a)
{
    return a->type[2] - '0';
}

static int64_t data_bytes(const struct tr_npy *a)
{
    return a->rows * (a->columns > 0 ? a->columns : 1) * item_bytes(a);
}

int64_t tr_npy_bytes(const struct tr_npy *a)
{
    return TR_NPY_HEADER_BYTES + data_bytes(a);
}

static void shape_text(const struct tr_npy *a, char *out, size_t size)
{
    if (a->columns > 0)
        snprintf(out, size, "(%" PRId64 ", %" PRId64 ")", a->rows, a->columns);
    else
        snprintf(out, size, "(%" PRId64 ",)", a->rows);
}

void tr_npy_header(const struct tr_npy *a, unsigned char *out)
{
    char shape[64], text[TR_NPY_HEADER_BYTES];
    const size_t length = TR_NPY_HEADER_BYTES - FIXED_BYTES;
    int n;

    shape_text(a, shape, sizeof shape);
    n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }",
                 a->type, shape);
    TR_ASSERT(n > 0 && (size_t)n < length);
    memcpy(out, magic, sizeof magic);
    out[8] = (unsigned char)length;
    out[9] = 0;
    memset(out + FIXED_BYTES, ' ', length - 1);
    memcpy(out + FIXED_BYTES, text, (size_t)n);
    out[TR_NPY_HEADER_BYTES - 1] = '\n';
}

/* Whether the header says `key`: `value`.  Python writes one blank after the colon. */
static bool says(const char *header, const char *key, const char *value)
{
    char *wanted = tr_format("'%s': %s", key, value);
    bool found = strstr(header, wanted) != NULL;

    free(wanted);
    return found;
}

static enum tr_status check(const struct tr_map *map, const struct tr_npy *a, const void **data)
{
    const unsigned char *p = map->data;
    char header[512], shape[64], *type;
    size_t length;
    bool fits;

    if (map->bytes < FIXED_BYTES || memcmp(p, magic, sizeof magic) != 0)
        return TR_FAIL(TR_EDATA, "%s is not a numpy file of version 1.0", map->path);
    length = p[8] | (size_t)p[9] << 8;
    if (length >= sizeof header || map->bytes < FIXED_BYTES + length ||
        (FIXED_BYTES + length) % 8 != 0)
        return TR_FAIL(TR_EDATA, "%s has a header of %zu bytes, in a file of %zu", map->path,
                       length, map->bytes);
    memcpy(header, p + FIXED_BYTES, length);
    header[length] = '\0';
    shape_text(a, shape, sizeof shape);
    type = tr_format("'%s'", a->type);
    fits = says(header, "descr", type) && says(header, "fortran_order", "False") &&
           says(header, "shape", shape);
    free(type);
    if (!fits)
        return TR_FAIL(TR_EDATA, "%s holds %.*s where an array of %s %s is expected", map->path,
                       (int)strcspn(header, "\n"), header, a->type, shape);
    if ((uint64_t)map->bytes != FIXED_BYTES + length + (uint64_t)data_bytes(a))
        return TR_FAIL(TR_EDATA, "%s has %zu bytes, but its header promises %llu", map->path,
                       map->bytes,
                       (unsigned long long)(FIXED_BYTES + length + (uint64_t)data_bytes(a)));
    *data = p + FIXED_BYTES + length;
    return TR_OK;
}

enum tr_status tr_npy_open(int fd, const char *path, const struct tr_npy *a, struct tr_map *map,
                           const void **data)
{
    enum tr_status s;

    TR_TRY(tr_map_take(fd, path, map));
    s = check(map, a, data);
    if (s != TR_OK)
        tr_map_close(map);
    return s;
}
