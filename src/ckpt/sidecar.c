/* SPDX-License-Identifier: BSD-3-Clause */
#include "ckpt/sidecar.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ckpt/ckpt.h"
#include "ckpt/rank.h"
#include "codec/store.h"
#include "util/file.h"
#include "util/text.h"

/* ---- the list ---- */

static int by_name(const void *a, const void *b)
{
    const struct tr_ckpt_one *x = a, *y = b;

    return strcmp(x->path, y->path);
}

static enum tr_status add(struct tr_ckpt_files *x, const char *name)
{
    struct tr_ckpt_one *f;
    struct stat st;

    x->list = realloc(x->list, ((size_t)x->count + 1) * sizeof *x->list);
    if (!x->list)
        tr_die(TR_ERESOURCE, "no memory left for a list of files");
    f = &x->list[x->count++];
    f->path = tr_format("%s/%s", x->folder, name);
    f->name = f->path + strlen(x->folder) + 1;
    if (stat(f->path, &st) != 0)
        return TR_FAIL(TR_EIO, "cannot look at %s: %s", f->path, strerror(errno));
    f->bytes = st.st_size;
    x->bytes += st.st_size;
    return TR_OK;
}

enum tr_status tr_ckpt_files_list(const char *file, struct tr_ckpt_files *out)
{
    char *copy = tr_format("%s", file);
    enum tr_status s = TR_OK;
    DIR *d;

    *out = (struct tr_ckpt_files){.folder = tr_format("%s", dirname(copy))};
    free(copy);
    d = opendir(out->folder);
    if (!d)
        return TR_FAIL(TR_EIO, "cannot look into %s: %s", out->folder, strerror(errno));
    for (struct dirent *e; s == TR_OK && (e = readdir(d)) != NULL;)
        if (strncmp(e->d_name, TR_CKPT_SIDECAR, strlen(TR_CKPT_SIDECAR)) == 0)
            s = add(out, e->d_name);
    closedir(d);
    if (out->count > 0)
        qsort(out->list, (size_t)out->count, sizeof *out->list, by_name);
    return s;
}

void tr_ckpt_files_release(struct tr_ckpt_files *x)
{
    for (int i = 0; i < x->count; i++)
        free(x->list[i].path);
    free(x->list);
    free(x->folder);
    *x = (struct tr_ckpt_files){0};
}

/* ---- one of them ---- */

/* By their names, rank-00003.replica and rank-00001-link-0: a damaged file does not say. */
static bool is_memory(const struct tr_ckpt_one *f)
{
    return strstr(f->name, "-link-") != NULL;
}

void tr_ckpt_files_show(const struct tr_ckpt_one *f, FILE *out)
{
    struct tr_ckpt_rank_file rank;
    struct tr_store_file memory;
    enum tr_status s =
        is_memory(f) ? tr_store_look(f->path, &memory) : tr_ckpt_rank_see(f->path, &rank);

    fprintf(out, "  %-29s %14lld bytes  ", f->name, (long long)f->bytes);
    if (s != TR_OK)
        fprintf(out, "%s\n", tr_last_error());
    else if (is_memory(f))
        fprintf(out, "%lld sample%s of %lld bytes: %s\n", (long long)memory.samples,
                tr_plural(memory.samples), (long long)memory.record_bytes, memory.title);
    else
        fprintf(out, "%s\n", rank.about);
}

/* The file of a replica has the rank in its header and in its name. */
static enum tr_status check_place(const struct tr_ckpt_one *f, int64_t iteration)
{
    struct tr_ckpt_rank_file said;
    enum tr_status s;
    char *name;

    TR_TRY(tr_ckpt_rank_see(f->path, &said));
    name = tr_format(TR_CKPT_SIDECAR "%05lld.%s", (long long)said.rank, said.kind);
    s = strcmp(name, f->name) == 0 && said.iteration == iteration
            ? TR_OK
            : TR_FAIL(TR_EDATA,
                      "%s was saved as %s at iteration %lld, but is in a checkpoint of "
                      "iteration %lld: it was copied from elsewhere; restore the right one",
                      f->path, name, (long long)said.iteration, (long long)iteration);
    free(name);
    return s;
}

enum tr_status tr_ckpt_files_verify(const struct tr_ckpt_one *f, int64_t iteration,
                                    void (*more)(void *arg, int64_t bytes), void *arg)
{
    if (is_memory(f))
        return tr_store_verify(f->path, more, arg);
    TR_TRY(check_place(f, iteration));
    return tr_ckpt_rank_verify(f->path, more, arg);
}

/* ---- all sidecar files ---- */

static bool is_there(const struct tr_ckpt_files *x, const char *name)
{
    for (int i = 0; i < x->count; i++)
        if (strcmp(x->list[i].name, name) == 0)
            return true;
    return false;
}

/* The first rank whose replica has none, where others have; or -1. */
static int64_t without_replica(const struct tr_ckpt_files *x, int64_t world)
{
    int64_t lacking = -1, have = 0;

    /* Of as many ranks as there are files, one more has none. */
    for (int64_t rank = 0; rank < world && rank <= x->count; rank++) {
        char *name = tr_format(TR_CKPT_SIDECAR "%05lld.replica", (long long)rank);

        if (is_there(x, name))
            have++;
        else if (lacking < 0)
            lacking = rank;
        free(name);
    }
    return have > 0 ? lacking : -1;
}

enum tr_status tr_ckpt_files_count(const struct tr_ckpt_files *x, int64_t saved, int64_t world)
{
    char which[64] = "";
    int64_t lacking;

    if (x->count == saved)
        return TR_OK;
    lacking = without_replica(x, world);
    if (lacking >= 0)
        snprintf(which, sizeof which, "; " TR_CKPT_SIDECAR "%05lld.replica is missing",
                 (long long)lacking);
    return TR_FAIL(TR_EDATA,
                   "ranks saved %lld files " TR_CKPT_SIDECAR
                   "... with this checkpoint, and %d are in %s%s: restore what was saved, or "
                   "resume without the state of replicas and links",
                   (long long)saved, x->count, x->folder, which);
}
