/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/samples.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

char *tr_samples_path(const char *stem, enum tr_samples_map which)
{
    static const char *const names[] = {"doc", "sample", "shuffle"};

    return tr_format("%s_%s_idx.npy", stem, names[which]);
}

/* Takes the descriptor; with -1 `error` says why there is none. */
static enum tr_status load_map(struct tr_samples *x, const char *stem, enum tr_samples_map which,
                               int fd, int error)
{
    char *path = tr_samples_path(stem, which);
    const void *data = NULL;
    enum tr_status s;

    errno = error;
    s = tr_npy_open(fd, path, &x->array[which], &x->part[which].map, &data);
    free(path);
    TR_TRY(s);
    if (which == TR_MAP_DOCUMENT)
        x->document = data;
    else if (which == TR_MAP_ROW)
        x->row = data;
    else if (x->array[which].type[2] == '4')
        x->shuffle = data;
    else
        x->shuffle_wide = data;
    return TR_OK;
}

enum tr_status tr_samples_load(struct tr_samples *x, const char *stem)
{
    return tr_samples_load_by(x, stem, NULL);
}

/* All files are open before one is looked at: what this rank alone finds wrong must not keep it from
   opening the next with the others. */
enum tr_status tr_samples_load_by(struct tr_samples *x, const char *stem,
                                  const struct tr_opener *by)
{
    int fd[TR_MAPS], error[TR_MAPS];
    enum tr_status s = TR_OK;

    for (int m = 0; m < TR_MAPS; m++) {
        char *path = tr_samples_path(stem, (enum tr_samples_map)m);

        fd[m] = tr_open_by(by, path);
        error[m] = errno;
        free(path);
    }
    for (int m = 0; m < TR_MAPS; m++) {
        if (s == TR_OK)
            s = load_map(x, stem, (enum tr_samples_map)m, fd[m], error[m]);
        else if (fd[m] >= 0)
            close(fd[m]);
    }
    for (int m = 0; m < TR_MAPS && s != TR_OK; m++)
        tr_map_close(&x->part[m].map);
    return s;
}

enum tr_status tr_samples_store(const struct tr_samples *x, const char *stem,
                                enum tr_samples_map which)
{
    char *path = tr_samples_path(stem, which);
    enum tr_status s =
        tr_file_replace(path, x->part[which].image, (size_t)tr_npy_bytes(&x->array[which]));

    free(path);
    return s;
}
