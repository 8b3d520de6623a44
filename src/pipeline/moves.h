/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_PIPELINE_MOVES_H
#define TR_PIPELINE_MOVES_H

#include <stdbool.h>

#include "util/status.h"

/*
 * Which chunks are in memory of the device, and when they come and go, as data.  A step is a row of moments; in each
 * some chunks are used, all of one size, and the device has room for so many.  Steps are alike and follow one another
 * for ever.
 *
 * Where there is no room for a chunk that is used, the one whose next use is furthest leaves, and among such the one
 * with the smallest number: no plan has fewer fetches (Belady, IBM Systems Journal 1966).  A chunk that was changed
 * since it came is written back when it leaves, and others are dropped.
 */
struct tr_use {
    int moment, chunk; /* ascending moments; a chunk once in each */
    bool changes;      /* the content of the chunk */
};

enum tr_move_kind { TR_MOVE_FETCH, TR_MOVE_DROP, TR_MOVE_WRITE, TR_MOVE_KINDS };

/* Before moment `moment` of the list: moment m of its step s is s * moments + m. */
struct tr_move {
    enum tr_move_kind kind;
    int moment, chunk;
};

struct tr_moves {
    /* What is wanted: filled by the caller of tr_moves_plan(). */
    int chunks, moments, uses;
    const int *room;          /* [moments], in chunks; borrowed */
    const struct tr_use *use; /* [uses]; borrowed */

    /* What it makes of it: a list for `steps` steps, after which it begins anew. */
    int steps, n;
    struct tr_move *move; /* [n], owned; in each moment what leaves, then what comes */
    bool *there,
        *changed; /* [chunks] each, owned: on the device when the list begins; and changed */
    int count[TR_MOVE_KINDS]; /* in the list */
};

/* TR_ECONFIG where a moment uses more chunks than there is room for.  Release it also after a failure.  Pure. */
enum tr_status tr_moves_plan(struct tr_moves *m) TR_MUST_CHECK;
void tr_moves_release(struct tr_moves *m);

/*
 * Follow the list with nothing in mind but what moves mean.  Returns NULL if all of this holds, and otherwise a
 * sentence that says what does not (static storage).
 *
 *   - A chunk that is used is there, and no more are there than there is room for.
 *   - What comes was not there, is used before it leaves, and what leaves is there and not in use.
 *   - What was changed is written back, and what was not is dropped.
 *   - The list ends with what it began with.
 */
const char *tr_moves_check(const struct tr_moves *m);

#endif
