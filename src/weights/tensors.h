/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_WEIGHTS_TENSORS_H
#define TR_WEIGHTS_TENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "util/status.h"

/* The types of numbers that weights may have: TYPE(symbol, "name of safetensors", bytes). */
#define TR_WEIGHTS_TYPE_OF(TYPE) \
    TYPE(F32, "F32", 4)          \
    TYPE(F16, "F16", 2)          \
    TYPE(BF16, "BF16", 2)

enum tr_weights_type {
#define TYPE(symbol, name, bytes) TR_WEIGHTS_##symbol,
    TR_WEIGHTS_TYPE_OF(TYPE)
#undef TYPE
        TR_WEIGHTS_OTHER /* what nothing is computed with: masks, quantized weights */
};

/* Bytes of a number; 0 for OTHER.  And its name in safetensors. */
int tr_weights_type_bytes(enum tr_weights_type type);
const char *tr_weights_type_name(enum tr_weights_type type);

/* The type of that name; OTHER if it is none of them. */
enum tr_weights_type tr_weights_type_named(const char *name);

/* n numbers of a type to and from fp32; rounded once, to the nearest even. */
void tr_weights_to_float(enum tr_weights_type type, const void *from, int64_t n, float *to);
void tr_weights_from_float(enum tr_weights_type type, const float *from, int64_t n, void *to);

enum { TR_WEIGHTS_AXES = 8 };

/* A tensor in a foreign file: raw, contiguous, little-endian, row-major. */
struct tr_weights_tensor {
    char *name; /* owned */
    enum tr_weights_type type;
    char type_name[16]; /* as its file spells it */
    int ndim;
    int64_t dim[TR_WEIGHTS_AXES], elems;
    int file;       /* of the table */
    int64_t offset; /* of the first number in that file, bytes */
    bool used;
};

/* The tensors of a folder, whatever its format. */
struct tr_weights_table {
    char *folder; /* owned */
    /* Names are those within a part of the model: "embs/", the number of a layer and '/', or "head/", and the rest. */
    bool by_parts;
    int files;
    struct tr_weights_file {
        char *name, *path; /* owned */
        int fd;            /* -1: not open */
        int64_t bytes;
    } * file; /* owned */
    int count, room;
    struct tr_weights_tensor *list; /* owned; by name once sorted */
};

/* Number of a new file, not open; its name within the folder. */
int tr_weights_add_file(struct tr_weights_table *t, const char *name);

/* The same, open for reading.  TR_EIO. */
enum tr_status tr_weights_open_file(struct tr_weights_table *t, const char *name,
                                    int *file) TR_MUST_CHECK;

/* A new tensor, zero but for its name; valid until the next one. */
struct tr_weights_tensor *tr_weights_add(struct tr_weights_table *t, const char *name);

/* In the order of names.  TR_EDATA if two have the same. */
enum tr_status tr_weights_sort(struct tr_weights_table *t) TR_MUST_CHECK;

/* The tensor of that name in a sorted table, or -1. */
int tr_weights_find(const struct tr_weights_table *t, const char *name);

/* "[3,4]", for sentences; returns `text`. */
enum { TR_WEIGHTS_SHAPE = 24 * TR_WEIGHTS_AXES };
const char *tr_weights_shape(int ndim, const int64_t *dim, char text[TR_WEIGHTS_SHAPE]);

void tr_weights_release(struct tr_weights_table *t);

#endif
