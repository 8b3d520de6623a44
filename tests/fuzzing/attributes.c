/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A checkpoint that another program has changed with HDF5 and sealed: whatever its attributes and
 * datasets are, it is read or refused.  The input is text, a change a line:
 *
 *     OBJECT ATTRIBUTE whole NUMBER | real NUMBER | text WORDS | list NUMBER | cut
 *     OBJECT - cut                  | OBJECT - shape NUMBER NUMBER
 */
#include <fcntl.h>
#include <hdf5.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/seal.h"
#include "fuzzing/fuzz.h"
#include "fuzzing/small_checkpoint.h"

static void put_attribute(hid_t at, const char *name, hid_t type, hid_t space, const void *value)
{
    hid_t a;

    H5Adelete(at, name);
    a = H5Acreate2(at, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    if (a >= 0) {
        H5Awrite(a, type, value);
        H5Aclose(a);
    }
}

static void change_attribute(hid_t at, const char *name, const char *how, const char *value)
{
    hid_t one = H5Screate(H5S_SCALAR), list, text;
    long long whole[16] = {strtoll(value, NULL, 0)};
    hsize_t length = 1 + (hsize_t)(whole[0] & 15);
    double real = strtod(value, NULL);

    if (strcmp(how, "whole") == 0) {
        put_attribute(at, name, H5T_STD_I64LE, one, whole);
    } else if (strcmp(how, "real") == 0) {
        put_attribute(at, name, H5T_IEEE_F64LE, one, &real);
    } else if (strcmp(how, "list") == 0) {
        list = H5Screate_simple(1, &length, NULL);
        put_attribute(at, name, H5T_STD_I64LE, list, whole);
        H5Sclose(list);
    } else if (strcmp(how, "text") == 0) {
        text = H5Tcopy(H5T_C_S1);
        H5Tset_size(text, strlen(value) + 1);
        put_attribute(at, name, text, one, value);
        H5Tclose(text);
    } else {
        H5Adelete(at, name);
    }
    H5Sclose(one);
}

/* A dataset anew, of another shape. */
static void change_shape(hid_t file, const char *object, const char *value)
{
    char *end;
    hsize_t dim[2] = {strtoull(value, &end, 0), strtoull(end, NULL, 0)};
    int ndim = dim[1] > 0 ? 2 : 1;
    hid_t space = H5Screate_simple(ndim, dim, NULL), set;

    H5Ldelete(file, object, H5P_DEFAULT);
    set = space < 0 ? -1
                    : H5Dcreate2(file, object, H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT,
                                 H5P_DEFAULT);
    if (set >= 0)
        H5Dclose(set);
    if (space >= 0)
        H5Sclose(space);
}

static void change(hid_t file, char *line)
{
    char *rest = line, *object = strsep(&rest, " "), *name = strsep(&rest, " ");
    char *how = strsep(&rest, " ");
    hid_t at;

    if (!object || !name || !how || !*object || !*name)
        return;
    if (strcmp(name, "-") == 0 && strcmp(how, "shape") == 0) {
        change_shape(file, object, rest ? rest : "");
    } else if (strcmp(name, "-") == 0) {
        H5Ldelete(file, object, H5P_DEFAULT);
    } else {
        at = H5Oopen(file, object, H5P_DEFAULT);
        if (at >= 0) {
            change_attribute(at, name, how, rest ? rest : "");
            H5Oclose(at);
        }
    }
}

/* All of the file becomes its index. */
static void seal(const char *path)
{
    static unsigned char image[FUZZ_MOST];
    size_t bytes = fuzz_read(path, image, sizeof image);
    int fd = open(path, O_RDWR | O_CLOEXEC);

    bytes = (bytes + TR_CKPT_PAGE - 1) / TR_CKPT_PAGE * TR_CKPT_PAGE;
    if (bytes > sizeof image)
        bytes = sizeof image;
    tr_ckpt_seal(image, (int64_t)bytes);
    MUST(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0 &&
         pwrite(fd, image, TR_CKPT_SEAL_BYTES, 0) == TR_CKPT_SEAL_BYTES);
    close(fd);
}

static void change_all(char *text)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), file;
    int changes = 0;

    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18);
    file = H5Fopen(fuzz_path("y.h5"), H5F_ACC_RDWR, access);
    H5Pclose(access);
    MUST(file >= 0);
    for (char *line; changes < 20 && (line = strsep(&text, "\n")); changes++)
        change(file, line);
    H5Fclose(file);
}

static void run(const uint8_t *data, size_t size)
{
    static uint8_t whole[FUZZ_MOST];
    static size_t bytes;
    char *text = strndup((const char *)data, size);

    MUST(text);
    if (bytes == 0) {
        fuzz_small_checkpoint(fuzz_path("whole.h5"), "{\"a\": 1}");
        bytes = fuzz_get("whole.h5", whole, sizeof whole);
    }
    fuzz_put("y.h5", whole, bytes);
    change_all(text);
    seal(fuzz_path("y.h5"));
    fuzz_read_checkpoint(fuzz_path("y.h5"));
    free(text);
}

static const char *const words[] = {" whole ",   " real ",     " text ",  " list ",
                                    " - shape ", " - cut\n",   "\n/ ",    "num_layers",
                                    "iteration", "vocab_size", "config",  "program",
                                    "checksum",  "model",      "exp_avg", NULL};
const struct fuzz_target fuzz_attributes = {.name = "attributes", .run = run, .words = words};
