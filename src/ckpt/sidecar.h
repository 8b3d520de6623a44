/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CKPT_SIDECAR_H
#define TR_CKPT_SIDECAR_H

#include <stdint.h>
#include <stdio.h>

#include "util/status.h"

/*
 * The sidecar files of ranks (TR_CKPT_SIDECAR in ckpt/ckpt.h), as `trireme ckpt`
 * looks at them: what a replica keeps (ckpt/rank.h) and the activation cache of a link
 * (codec/store.h).  Nothing here is collective.
 */
struct tr_ckpt_files {
    char *folder; /* owned */
    int count;
    int64_t bytes; /* of all */
    struct tr_ckpt_one {
        char *path;       /* owned */
        const char *name; /* the end of it */
        int64_t bytes;
    } * list; /* owned, by name */
};

/* Those in the folder of the checkpoint `file`.  TR_EIO.  Release also after a failure. */
enum tr_status tr_ckpt_files_list(const char *file, struct tr_ckpt_files *out) TR_MUST_CHECK;
void tr_ckpt_files_release(struct tr_ckpt_files *x);

/* A line with its bytes and what it says of itself, or why it cannot be used. */
void tr_ckpt_files_show(const struct tr_ckpt_one *f, FILE *out);

/* Read all of it: TR_OK if it is what was written, and for the checkpoint of that iteration, where
   the file says of which it is.  `more` as in ckpt/rank.h.  TR_EIO, TR_EDATA. */
enum tr_status tr_ckpt_files_verify(const struct tr_ckpt_one *f, int64_t iteration,
                                    void (*more)(void *arg, int64_t bytes),
                                    void *arg) TR_MUST_CHECK;

/* TR_EDATA if they are not `saved`, in number; `world` ranks saved them. */
enum tr_status tr_ckpt_files_count(const struct tr_ckpt_files *x, int64_t saved,
                                   int64_t world) TR_MUST_CHECK;

#endif
