/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/ckpt.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/map.h"
#include "ckpt/path.h"
#include "ckpt/schema.h"
#include "util/file.h"
#include "util/log.h"

/* DIR and 4 of a path that ends with DIR/iter_0000004; false if its last name is another. */
static bool split(const char *path, struct tr_ckpt_where *out)
{
    char *copy = tr_format("%s", path), *again = tr_format("%s", path);
    int64_t step = tr_ckpt_iteration(basename(again));

    if (step >= 0) {
        out->step = step;
        snprintf(out->dir, sizeof out->dir, "%s", dirname(copy));
    }
    free(again);
    free(copy);
    return step >= 0;
}

/* The folder of one checkpoint, by its own name or by that of a link to it. */
static enum tr_status take_one(const char *folder, int64_t step, struct tr_ckpt_where *out)
{
    char *real = realpath(folder, NULL);
    bool named = split(folder, out) || (real && split(real, out));

    free(real);
    if (!named)
        return TR_FAIL(
            TR_ECONFIG,
            "--load %s holds a checkpoint, but is not named by its iteration, as "
            "iter_0000004 is: give the folder that it was saved to, or rename it and give "
            "the folder around it with --ckpt-step",
            folder);
    if (step >= 0 && step != out->step)
        return TR_FAIL(
            TR_ECONFIG,
            "--load %s is the checkpoint of iteration %lld and --ckpt-step asks for %lld: "
            "give one of them, or --load %s",
            folder, (long long)out->step, (long long)step, out->dir);
    tr_print("> --load %s is one checkpoint: iteration %lld in %s\n", folder, (long long)out->step,
             out->dir);
    return TR_OK;
}

static enum tr_status not_there(const char *load, const char *save)
{
    const int error = errno;

    if (save && error == ENOENT && tr_same_place(load, save))
        return TR_OK;
    return TR_FAIL(
        TR_EIO,
        "there is no checkpoint in %s, which --load names (%s): the run would start from "
        "random weights; give the folder of a run that has saved, or leave --load out; "
        "the first start makes that folder only where --save names it, too",
        load, strerror(error));
}

/* Rank 0. */
static enum tr_status find(const char *load, const char *save, int64_t step,
                           struct tr_ckpt_where *out)
{
    struct stat st;

    if (strlen(load) >= sizeof out->dir)
        return TR_FAIL(TR_ECONFIG, "--load: a path has at most %zu bytes", sizeof out->dir - 1);
    snprintf(out->dir, sizeof out->dir, "%s", load);
    if (stat(load, &st) != 0)
        return not_there(load, save);
    if (S_ISDIR(st.st_mode))
        return tr_ckpt_holds(load) ? take_one(load, step, out) : TR_OK;
    return TR_FAIL(
        TR_EIO,
        "--load %s is not a folder: give the folder that a run saved to, or that of one of "
        "its checkpoints",
        load);
}

enum tr_status tr_ckpt_locate(struct tr_comm *world, const char *load, const char *save,
                              int64_t step, struct tr_ckpt_where *out)
{
    enum tr_status s = TR_OK;

    memset(out, 0, sizeof *out);
    out->step = step;
    if (world->rank == 0)
        s = find(load, save, step, out);
    TR_TRY(tr_comm_agree(world, s));
    tr_ckpt_tell(world, out, sizeof *out);
    return TR_OK;
}
