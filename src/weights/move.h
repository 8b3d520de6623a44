/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_WEIGHTS_MOVE_H
#define TR_WEIGHTS_MOVE_H

#include "config/dims.h"
#include "util/meter.h"
#include "util/status.h"
#include "util/writeback.h"
#include "weights/names.h"

/*
 * A parameter from the tensors that it is in, or into them, in blocks of rows of ours.  There are never more in
 * memory than a block of each and, where rows are columns, one tensor of theirs.
 */
enum { TR_WEIGHTS_BLOCK = 4 << 20 }; /* bytes of a block in fp32, unless a row has more */

/* Room for a block of any parameter of a list, in two halves, which take turns. */
struct tr_weights_room {
    float *half[2]; /* owned */
    int64_t elems;  /* of a half */
    int turn;
};
void tr_weights_room_make(struct tr_weights_room *r, const struct tr_weights_map *m);
void tr_weights_room_release(struct tr_weights_room *r);

/* What becomes of a block: numbers first .. first + n - 1 of the parameter, at x.  It takes them, or fills them. */
struct tr_weights_end {
    enum tr_status (*block)(void *ctx, const struct tr_weights_item *m, int64_t first, float *x,
                            int64_t n);
    void *ctx;
    /* NULL, or room for a block of which half is used at a time: x then stays as it is until the next call has
       returned, so that another thread may still write it. */
    struct tr_weights_room *room;
    int64_t peak; /* bytes of tensors in memory at most, so far */
    /* Of each tensor of the table what was written, in the order of its bytes, and its CRC-32; or NULL. */
    struct tr_weights_moved {
        int64_t bytes;
        uint32_t sum;
    } * moved;
};

/* Rows lo .. hi - 1 of the parameter, at least one, from the files of the table into blocks, in their order.  No
   other rows are read, but of a tensor whose columns they are all.  TR_EIO. */
enum tr_status tr_weights_read(const struct tr_weights_table *t, const struct tr_weights_item *m,
                               int64_t lo, int64_t hi, struct tr_weights_end *to) TR_MUST_CHECK;

/* All rows from blocks into the files; file[i] is that of number i of the table.  TR_EIO; TR_EDATA if a number is too
   large for the type of the tensor. */
enum tr_status tr_weights_write(const struct tr_weights_table *t, struct tr_writeback *file,
                                const struct tr_weights_item *m,
                                struct tr_weights_end *from) TR_MUST_CHECK;

/* What imports and exports have in common. */

/* TR_ETEMP and a sentence if stopped() (NULL: nobody asks) names a signal. */
enum tr_status tr_weights_go_on(int (*stopped)(void)) TR_MUST_CHECK;

/* Start the meter of rank 0 of `size`, which counts the bytes in fp32 of its own items; `verb` is static. */
void tr_weights_meter(struct tr_meter *meter, const char *verb, const struct tr_weights_map *m,
                      int size, double interval);

/* " of each rank", where there are several. */
const char *tr_weights_of_each(int size);

#endif
