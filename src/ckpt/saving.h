/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_SAVING_H
#define TR_CKPT_SAVING_H

#include <stdint.h>

#include "ckpt/ckpt.h"
#include "ckpt/index.h"
#include "ckpt/map.h"

/*
 * What a save that is waited for (save.c) and one that is not (async.c) have in common: the temporary folder with a
 * file of the final length, in which each rank knows its places, and its end.  All functions without "mine" in their
 * comments are collective over the world.
 */
struct tr_ckpt_saving {
    struct tr_grid *grid;
    struct tr_comm *world;
    const char *dir;
    int64_t iteration, bytes;
    struct tr_ckpt_about about;
    const char *config_json;
    int keep_last;
    struct tr_ckpt_map map;
    int tensors; /* in the kinds that are saved */
    uint64_t *sums;
    int64_t *offsets; /* and one more place, for the tag on its way to the ranks */
    long tag;
    char *folder, *file; /* the temporary ones */
    const struct tr_ckpt_sidecar *sidecars;
};

/* What is to be saved, as in tr_ckpt_save(), all of it borrowed; the first line of the log. */
void tr_ckpt_saving_begin(struct tr_ckpt_saving *v, struct tr_grid *grid, const char *dir,
                          const struct tr_ckpt_state *state, const struct tr_ckpt_tensors *tensors,
                          const struct tr_shape *shape, const char *config_json, const char *source,
                          int keep_last, const struct tr_ckpt_sidecar *sidecars);

/* The part of a piece that this rank writes: elements *lo .. *hi - 1.  Mine. */
void tr_ckpt_saving_share(const struct tr_ckpt_saving *v, int kind,
                          const struct tr_ckpt_piece *piece, int64_t *lo, int64_t *hi);

/* On rank 0: the temporary folder and in it the file, complete but for the elements and their sums.
   Mine. */
enum tr_status tr_ckpt_saving_lay_out(struct tr_ckpt_saving *v) TR_MUST_CHECK;

/* Then all open it for writing; `laid_out` is what that came to, TR_OK on other ranks.  After a failure *fd is -1. */
enum tr_status tr_ckpt_saving_open(struct tr_ckpt_saving *v, enum tr_status laid_out,
                                   int *fd) TR_MUST_CHECK;

/* The status of all ranks; a failure of mine is told with what the user needs to know of it. */
enum tr_status tr_ckpt_saving_agree(const struct tr_ckpt_saving *v,
                                    enum tr_status mine) TR_MUST_CHECK;

/* The sentence of an errno of the file; 0 is TR_OK.  Mine. */
enum tr_status tr_ckpt_saving_wrote(const struct tr_ckpt_saving *v, int error) TR_MUST_CHECK;

/* Flush the file and close it; an errno, or 0.  Mine. */
int tr_ckpt_saving_flush(int fd);

enum tr_status tr_ckpt_saving_sidecars(const struct tr_ckpt_saving *v) TR_MUST_CHECK;

/* On rank 0, when all is in the folder and sums are added up: the index is written once more, with
   v->sums.  Then the folder gets its name, and older checkpoints go.  Mine. */
enum tr_status tr_ckpt_saving_name(const struct tr_ckpt_saving *v) TR_MUST_CHECK;

/* The end, whatever `s` is: the log has its line, or nothing is left.  Memory is released. */
void tr_ckpt_saving_end(struct tr_ckpt_saving *v, enum tr_status s);

#endif
