/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/data.h"

#include <errno.h>
#include <fts.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "util/file.h"

static void add(struct tr_data_files *list, const char *path)
{
    list->path = reallocarray(list->path, (size_t)list->count + 1, sizeof *list->path);
    if (!list->path)
        tr_die(TR_ERESOURCE, "no memory left for the names of %d files", list->count);
    list->path[list->count++] = tr_format("%s", path);
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Links are followed; one that leads back up is passed over by fts. */
static enum tr_status add_folder(struct tr_data_files *list, char *path)
{
    char *const paths[] = {path, NULL};
    FTS *walk = fts_open(paths, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    enum tr_status s = TR_OK;
    FTSENT *e;

    if (!walk)
        return TR_FAIL(TR_EIO, "cannot read the folder %s: %s", path, strerror(errno));
    while (s == TR_OK && (e = fts_read(walk))) {
        if (e->fts_level > 0 && e->fts_name[0] == '.')
            (void)fts_set(walk, e, FTS_SKIP);
        else if (e->fts_info == FTS_F)
            add(list, e->fts_path);
        else if (e->fts_info == FTS_DNR || e->fts_info == FTS_ERR || e->fts_info == FTS_NS)
            s = TR_FAIL(TR_EIO, "cannot read %s: %s", e->fts_path, strerror(e->fts_errno));
    }
    fts_close(walk);
    return s;
}

enum tr_status tr_data_files(const struct tr_words *input, const struct tr_words *words,
                             struct tr_data_files *list)
{
    *list = (struct tr_data_files){0};
    for (int i = 0; i < input->count + words->count; i++) {
        char *path = i < input->count ? input->word[i] : words->word[i - input->count];
        struct stat st;

        if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
            TR_TRY(add_folder(list, path));
        else
            add(list, path);
    }
    if (list->count == 0 && input->count + words->count > 0)
        return TR_FAIL(TR_EIO, "there is no file in %s",
                       input->count ? input->word[0] : words->word[0]);
    return TR_OK;
}

void tr_data_files_release(struct tr_data_files *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->path[i]);
    free(list->path);
    *list = (struct tr_data_files){0};
}
