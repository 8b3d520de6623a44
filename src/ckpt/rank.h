/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_RANK_H
#define TR_CKPT_RANK_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "util/status.h"

/*
 * The sidecar file of a rank: what it alone holds and needs to go on exactly where it stopped, next
 * to that of the model: FOLDER/rank-00002.KIND (TR_CKPT_SIDECAR in ckpt/ckpt.h).  It is only of use
 * to a run of the same layout; without it a checkpoint is as good for all else.  Nothing here is
 * collective.
 *
 * The file: a page with text and numbers (struct below), sealed by a checksum, then the tensors, each from
 * the next multiple of a page on, each with a checksum (XXH3, 64 bits) in the first page.  Numbers are in
 * the byte order of the machine; another one takes the seal for broken.
 */
enum { TR_CKPT_PARTS = 8, TR_CKPT_NUMBERS = 8, TR_CKPT_ABOUT_BYTES = 512 };

struct tr_ckpt_rank {
    const char *kind; /* lower case letters: "replica" */
    int rank;         /* its number by its place (tr_grid_number() of comm/grid.h) */
    int64_t iteration;
    const char *about; /* layout and whatever else must be the same on load; one line */
    int64_t number[TR_CKPT_NUMBERS]; /* of the caller's */
    int parts;
    struct {
        const char *name;    /* at most 15 letters */
        struct tr_tensor at; /* of any type; memory of the device of `q` */
    } part[TR_CKPT_PARTS];
    struct tr_queue *q; /* with nothing under way */
};

/* Write it into `folder`, flushed to the disk.  TR_EIO. */
enum tr_status tr_ckpt_rank_write(const struct tr_ckpt_rank *r, const char *folder) TR_MUST_CHECK;

/* Is there such a file, and what is it about?  `about` (TR_CKPT_ABOUT_BYTES) gets its text, "" where no rank
   has one.  TR_EDATA if it is damaged, or missing where other ranks have theirs. */
enum tr_status tr_ckpt_rank_look(const char *folder, int rank, const char *kind,
                                 char *about) TR_MUST_CHECK;

/* Read it: fills the tensors and `number` of *r.  TR_EDATA if it is damaged, short, of another rank or
   iteration, about something else, or has other parts; TR_EIO if it is not there or cannot be read.  After
   a failure the tensors hold anything. */
enum tr_status tr_ckpt_rank_read(struct tr_ckpt_rank *r, const char *folder) TR_MUST_CHECK;

/*
 * What the file at `path` says of itself, whosever it is; and whether all of it is what was written,
 * of which `more` (may be NULL) hears the bytes as they are read.  TR_EIO, TR_EDATA as above.
 */
struct tr_ckpt_rank_file {
    char kind[16], about[TR_CKPT_ABOUT_BYTES];
    int64_t rank, iteration;
};
enum tr_status tr_ckpt_rank_see(const char *path, struct tr_ckpt_rank_file *out) TR_MUST_CHECK;
enum tr_status tr_ckpt_rank_verify(const char *path, void (*more)(void *arg, int64_t bytes),
                                   void *arg) TR_MUST_CHECK;

#endif
