/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_OPTIM_HOME_H
#define TR_OPTIM_HOME_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "optim/states.h"
#include "util/arena.h"
#include "util/stripe.h"

/*
 * Where the masters and states of some of the elements that a rank updates lie, and the queue that works on them:
 * memory of the device, memory of the host, or files.  Rows are the masters, in fp32, and the states of optim/states.def,
 * as struct tr_states has them, in this order.  Of files a few tiles are in memory, each with all its rows one after the
 * other: a record.  A tile that was changed is written back while others are worked on, and tiles are read ahead.
 *
 * That files cannot be read or written ends the job with the sentence of util/stripe.h.
 */
enum { TR_ROW_MASTER, TR_ROW_STATE, TR_ROWS = TR_ROW_STATE + TR_STATES };

/* A tile of files in memory. */
struct tr_home_slot {
    int64_t tile;        /* that it has, or -1 */
    bool dirty, reading; /* differs from the file, with nothing begun; on its way */
    struct tr_stripe_io io;
    unsigned char *data; /* a record */
};

enum { TR_HOME_SLOTS = 16 };

/* A block of states of which the first elements were put. */
struct tr_home_part {
    int64_t at, held;
    float x[TR_BLOCK_MOST];
};

struct tr_home {
    int64_t first, count; /* of the elements that this rank updates */
    int64_t
        tile; /* elements that are worked on at a time, unless this is the device's: less than a block fewer or
                            more, as a tile ends where a block does */
    const struct tr_states *states; /* borrowed */
    struct tr_queue *q;
    bool beside; /* not in memory of the device: gradients come and weights go */

    /* In memory: TR_F32 [count], or TR_U8 where not all states are fp32; masters without data where the model's
       weights are they. */
    struct tr_tensor row[TR_ROWS];
    struct tr_home_part part[TR_STATES];

    /* In files. */
    const char *folders; /* NULL: in memory */
    struct tr_stripe *files;
    int slots;
    int64_t row_bytes[TR_ROWS]; /* of a record */
    struct tr_home_slot slot[TR_HOME_SLOTS];
};

int64_t tr_home_tiles(const struct tr_home *h);

/* The first element of tile `t`, of this home; behind the last tile, `count`.  And the most elements of a tile. */
int64_t tr_home_cut(const struct tr_home *h, int64_t t);
int64_t tr_home_most(const struct tr_home *h);

/* Take memory (TR_LABEL_OPTIMIZER); `masters`: there are some, `states`: those, too.  Of files both. */
void tr_home_plan(struct tr_home *h, struct tr_arena *a, bool masters, bool states);

/* Bytes of its files; 0 where it has none. */
int64_t tr_home_file_bytes(const struct tr_home *h);

/* When memory is there: its files, which `name` tells from others'.  As tr_stripe_open(). */
enum tr_status tr_home_start(struct tr_home *h, const char *name) TR_MUST_CHECK;
void tr_home_close(struct tr_home *h);

/* Rows of elements at .. at + count - 1 of this home, in memory that its queue works on: they lie in tile `t`, and of
   states in one piece of struct tr_states, from a border on.  Masters, and states of a piece in fp32, are TR_F32;
   others TR_U8.  Of files they are there until the next tile is held.  With `change` they will be other ones. */
void tr_home_hold(struct tr_home *h, int64_t t, bool change);
struct tr_tensor tr_home_row(const struct tr_home *h, int row, int64_t t, int64_t at,
                             int64_t count);

/* Of files: begin to read tiles from t on, as far as there is room beside tile t - 1; and to write tile t back. */
void tr_home_ahead(struct tr_home *h, int64_t t);
void tr_home_behind(struct tr_home *h, int64_t t);

/* Elements of a row to memory of the host, or from there, in fp32.  Those of a block that come in several calls come one
   after the other. */
void tr_home_get(struct tr_home *h, int row, int64_t at, int64_t count, float *to);
void tr_home_put(struct tr_home *h, int row, int64_t at, int64_t count, const float *from);

/* Whether any thread reads the rows in memory of the host; not where there is no queue yet, as in a plan.  And the same
   as tr_home_get() there, by the calling thread alone, whatever others do that does not change these elements. */
bool tr_home_at_hand(const struct tr_home *h);
void tr_home_peek(const struct tr_home *h, int row, int64_t at, int64_t count, float *to);

/* The end of the tile that has element `at`. */
int64_t tr_home_tile_end(const struct tr_home *h, int64_t at);

#endif
