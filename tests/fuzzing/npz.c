/* SPDX-License-Identifier: BSD-3-Clause */
/* A .npz file of numpy, stored or deflated: every row of an array called id. */
#include "data/npz.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>

#include "fuzzing/fuzz.h"

enum { ROWS = 3, COLUMNS = 5, HEADER = 128, BYTES = HEADER + 2 * ROWS * COLUMNS };
enum { LOCAL = 30, CENTRAL = 46, END = 22, NAME = 6, ROOM = 1024 };

static void put(uint8_t **at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++, value >>= 8)
        *(*at)++ = (uint8_t)value;
}

static void put_name(uint8_t **at)
{
    memcpy(*at, "id.npy", NAME);
    *at += NAME;
}

/* What both headers of an entry have from "version needed" to the length of its name. */
static void put_entry(uint8_t **at, int method, const uint8_t *array, size_t packed)
{
    put(at, 20, 2);
    put(at, 0, 2);
    put(at, (uint64_t)method, 2);
    put(at, 0, 4);
    put(at, crc32(0, array, BYTES), 4);
    put(at, packed, 4);
    put(at, BYTES, 4);
    put(at, NAME, 2);
    put(at, 0, 2);
}

static void fill_array(uint8_t *array)
{
    static const char text[] = "{'descr': '<u2', 'fortran_order': False, 'shape': (3, 5), }";

    memset(array, ' ', HEADER);
    memcpy(array, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(array + 10, text, sizeof text - 1);
    array[HEADER - 1] = '\n';
    for (int i = HEADER; i < BYTES; i++)
        array[i] = (uint8_t)(i % 7);
}

static size_t deflate_array(const uint8_t *array, uint8_t *out)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)array,
                  .avail_in = BYTES,
                  .next_out = out,
                  .avail_out = ROOM};

    MUST(deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    MUST(deflate(&z, Z_FINISH) == Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

static size_t seed(int n, uint8_t *out, size_t most)
{
    uint8_t array[BYTES], packed[ROOM], *at = out;
    size_t bytes, directory;

    fill_array(array);
    bytes = n == 0 ? BYTES : deflate_array(array, packed);
    if (n > 1 || LOCAL + CENTRAL + END + 2 * NAME + bytes > most)
        return 0;
    put(&at, 0x04034b50, 4);
    put_entry(&at, n ? 8 : 0, array, bytes);
    put_name(&at);
    memcpy(at, n ? packed : array, bytes);
    at += bytes;
    directory = (size_t)(at - out);
    put(&at, 0x02014b50, 4);
    put(&at, 20, 2);
    put_entry(&at, n ? 8 : 0, array, bytes);
    put(&at, 0, 14); /* comment, disk, attributes, place: the only entry is the first */
    put_name(&at);
    put(&at, 0x06054b50, 4);
    put(&at, 0, 4);
    put(&at, 1, 2);
    put(&at, 1, 2);
    put(&at, CENTRAL + NAME, 4);
    put(&at, directory, 4);
    put(&at, 0, 2);
    return (size_t)(at - out);
}

static void run(const uint8_t *data, size_t size)
{
    struct tr_npz_array a;
    struct tr_npz *z;

    fuzz_put("x.npz", data, size);
    if (tr_npz_open(fuzz_path("x.npz"), &z) != TR_OK)
        return;
    if (tr_npz_begin(z, "id", &a) == TR_OK && a.columns < 1 << 20) {
        int32_t *row = malloc((size_t)a.columns * sizeof *row);

        MUST(row && a.columns > 0 && a.rows >= 0);
        for (int64_t i = 0; i < a.rows && tr_npz_row(z, row) == TR_OK; i++)
            for (int64_t k = 0; k < a.columns; k++)
                MUST(row[k] >= 0);
        free(row);
    }
    tr_npz_close(z);
}

static const char *const words[] = {"'<i8'", "'|u1'", "'descr': ", "True", "'shape': ", "(", ")",
                                    ", ",    "{",     "}",         "\n",   "id.npy",    NULL};
const struct fuzz_target fuzz_npz = {.name = "npz", .run = run, .seed = seed, .words = words};
