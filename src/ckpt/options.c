/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/ckpt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ckpt/index.h"
#include "ckpt/path.h"
#include "util/log.h"

static enum tr_status read_one(const char *dir, int64_t iteration, bool wanted,
                               struct tr_ckpt_index *x)
{
    char *folder = tr_ckpt_folder(dir, iteration), *file = tr_ckpt_file_in(folder);
    enum tr_status s;

    memset(x, 0, sizeof *x);
    s = wanted && access(file, F_OK) != 0 && errno == ENOENT ? tr_ckpt_missing(dir, iteration)
                                                             : tr_ckpt_index_read(file, x);
    free(file);
    free(folder);
    return s;
}

/* Rank 0: the index of that iteration, or of the newest that has a whole one.  The load that
   follows warns of the others. */
static enum tr_status find(const char *dir, int64_t step, struct tr_ckpt_index *x)
{
    int64_t iteration = step;
    enum tr_status s;

    memset(x, 0, sizeof *x);
    if (step < 0)
        TR_TRY(tr_ckpt_newest(dir, &iteration));
    if (iteration < 0)
        return TR_OK;
    while ((s = read_one(dir, iteration, step >= 0, x)) != TR_OK && step < 0) {
        iteration = tr_ckpt_older(dir, iteration);
        if (iteration < 0)
            return TR_FAIL(s, "no checkpoint in %s can be used: %s", dir, tr_last_error());
        tr_ckpt_index_release(x);
    }
    return s;
}

enum tr_status tr_ckpt_options(struct tr_comm *world, const char *dir, int64_t step, char **json,
                               int64_t *vocab)
{
    struct tr_ckpt_index x = {.count = 0};
    enum tr_status s = world->rank == 0 ? find(dir, step, &x) : TR_OK;

    *json = NULL;
    *vocab = x.about.vocab;
    s = tr_comm_agree(world, s);
    if (s == TR_OK) {
        *json = x.config;
        x.config = NULL;
        tr_ckpt_tell(world, vocab, sizeof *vocab);
        tr_ckpt_tell_text(world, json);
    }
    tr_ckpt_index_release(&x);
    return s;
}

enum tr_status tr_ckpt_source(const char *dir, char **source)
{
    struct tr_ckpt_index x = {.count = 0};
    enum tr_status s = find(dir, -1, &x);

    *source = x.source;
    x.source = NULL;
    tr_ckpt_index_release(&x);
    return s;
}
