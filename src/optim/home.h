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
 * memory of the device, memory of the host, or files.  Rows are the masters and the states of optim/states.def, in
 * this order.  Of files a few tiles are in memory, each with all its rows one after the other: a record.  A tile that
 * was changed is written back while others are worked on, and tiles are read ahead.
 *
 * That files cannot be read or written ends the job with the sentence of util/stripe.h.
 */
enum { TR_ROW_MASTER, TR_ROW_STATE, TR_ROWS = TR_ROW_STATE + TR_STATES };

/* A tile of files in memory. */
struct tr_home_slot {
    int64_t tile;        /* that it has, or -1 */
    bool dirty, reading; /* differs from the file, with nothing begun; on its way */
    struct tr_stripe_io io;
    float *data; /* a record: [TR_ROWS][tile] */
};

enum { TR_HOME_SLOTS = 16 };

struct tr_home {
    int64_t first, count; /* of the elements that this rank updates */
    int64_t tile;         /* elements that are worked on at a time, unless this is the device's */
    struct tr_queue *q;
    bool beside; /* not in memory of the device: gradients come and weights go */

    /* In memory, TR_F32 [count] each, or without data where the model's weights are the masters. */
    struct tr_tensor row[TR_ROWS];

    /* In files. */
    const char *folders; /* NULL: in memory */
    struct tr_stripe *files;
    int slots;
    struct tr_home_slot slot[TR_HOME_SLOTS];
};

int64_t tr_home_tiles(const struct tr_home *h);

/* Take memory (TR_LABEL_OPTIMIZER); `masters`: there are some, `states`: those, too.  Of files both. */
void tr_home_plan(struct tr_home *h, struct tr_arena *a, bool masters, bool states);

/* Bytes of its files; 0 where it has none. */
int64_t tr_home_file_bytes(const struct tr_home *h);

/* When memory is there: its files, which `name` tells from others'.  As tr_stripe_open(). */
enum tr_status tr_home_start(struct tr_home *h, const char *name) TR_MUST_CHECK;
void tr_home_close(struct tr_home *h);

/* Rows of elements at .. at + count - 1 of this home, in memory that its queue works on: they lie in tile `t`, at
   tile t * h->tile or later.  Of files they are there until the next tile is held.  With `change` they will be
   other ones. */
void tr_home_hold(struct tr_home *h, int64_t t, bool change);
struct tr_tensor tr_home_row(const struct tr_home *h, int row, int64_t t, int64_t at,
                             int64_t count);

/* Of files: begin to read tiles from t on, as far as there is room beside tile t - 1; and to write tile t back. */
void tr_home_ahead(struct tr_home *h, int64_t t);
void tr_home_behind(struct tr_home *h, int64_t t);

/* Elements of a row to memory of the host, or from there. */
void tr_home_get(struct tr_home *h, int row, int64_t at, int64_t count, float *to);
void tr_home_put(struct tr_home *h, int row, int64_t at, int64_t count, const float *from);

#endif
