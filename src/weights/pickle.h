/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_WEIGHTS_PICKLE_H
#define TR_WEIGHTS_PICKLE_H

#include <stdbool.h>
#include <stdint.h>

#include "util/status.h"

/*
 * The pickles of torch.save(), protocols 2 to 5: a small stack machine that only makes values.  Names of
 * functions and classes are those of globals.def; nothing is imported, called or executed.
 *
 * A value is a number in the table of values.  Values may contain themselves, so who walks over them counts
 * how deep.
 */
enum tr_pickle_kind {
    TR_PICKLE_NONE,
    TR_PICKLE_FLAG,    /* whole: 0 or 1 */
    TR_PICKLE_WHOLE,   /* whole; what does not fit in 63 bits is OPAQUE */
    TR_PICKLE_REAL,    /* real */
    TR_PICKLE_TEXT,    /* text, length */
    TR_PICKLE_LIST,    /* tuples as well: cells with a value each */
    TR_PICKLE_DICT,    /* cells with a key and a value each */
    TR_PICKLE_GLOBAL,  /* whole: its row */
    TR_PICKLE_STORAGE, /* whole: row of its type; a: the key of the storage, a text */
    TR_PICKLE_TENSOR,  /* a: storage, whole: offset, b: shape, c: strides, lists of whole numbers */
    TR_PICKLE_OPAQUE
};

struct tr_pickle_value {
    enum tr_pickle_kind kind;
    int a, b, c; /* values, or the first and the last cell (-1: none) of a list and a dictionary */
    int64_t whole; /* also the number of cells */
    double real;
    const char *text; /* borrowed from the pickle; not terminated */
    int64_t length;
};

struct tr_pickle_cell {
    int key, value, next; /* -1: no key; the last */
};

struct tr_pickle {
    int values, cells, values_room, cells_room;
    struct tr_pickle_value *value; /* owned */
    struct tr_pickle_cell *cell;   /* owned */
    int top;                       /* the value of the whole */
};

enum { TR_PICKLE_MOST = 16 << 20 }; /* bytes of a pickle */

/* Read `bytes` of `data`, which must outlive *out; `path` is for sentences.  TR_EDATA with a sentence that names
   the global, or the byte, at which it cannot be read.  Release also after a failure. */
enum tr_status tr_pickle_read(const char *path, const unsigned char *data, int64_t bytes,
                              struct tr_pickle *out) TR_MUST_CHECK;
void tr_pickle_release(struct tr_pickle *p);

/* The value of a key that is this text, of a dictionary; or -1. */
int tr_pickle_get(const struct tr_pickle *p, int dict, const char *key);

/* The type of a storage, as safetensors spells it. */
const char *tr_pickle_type(const struct tr_pickle_value *storage);

#endif
