/* SPDX-License-Identifier: BSD-3-Clause */
/* A file of numpy, asked for as each of four arrays. */
#include "data/npy.h"

#include <fcntl.h>
#include <string.h>

#include "fuzzing/fuzz.h"

static const struct tr_npy arrays[] = {
    {"<i4", 40, 0}, {"<i4", 21, 2}, {"<u4", 40, 0}, {"<i8", 9, 0}};
enum { ARRAYS = sizeof arrays / sizeof arrays[0] };

static size_t seed(int n, uint8_t *out, size_t most)
{
    size_t bytes = n < ARRAYS ? (size_t)tr_npy_bytes(&arrays[n]) : 0;

    if (bytes == 0 || bytes > most)
        return 0;
    memset(out, 0, bytes);
    tr_npy_header(&arrays[n], out);
    return bytes;
}

static void run(const uint8_t *data, size_t size)
{
    const char *path = fuzz_path("x.npy");

    fuzz_put("x.npy", data, size);
    for (int n = 0; n < ARRAYS; n++) {
        const size_t bytes = (size_t)tr_npy_bytes(&arrays[n]) - TR_NPY_HEADER_BYTES;
        struct tr_map map;
        const void *array;
        int fd = open(path, O_RDONLY | O_CLOEXEC);

        if (tr_npy_open(fd, path, &arrays[n], &map, &array) != TR_OK)
            continue;
        MUST((const unsigned char *)array >= map.data &&
             (const unsigned char *)array + bytes <= map.data + map.bytes);
        tr_map_close(&map);
    }
}

static const char *const words[] = {
    "'<i4'", "'<u4'", "'descr': ", "'fortran_order': ", "True", "'shape': ", "(", ")", ", ", "{",
    "}",     "\n",    NULL};
const struct fuzz_target fuzz_npy = {.name = "npy", .run = run, .seed = seed, .words = words};
