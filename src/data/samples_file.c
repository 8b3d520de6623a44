/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/samples.h"

#include <stdlib.h>

char *tr_samples_path(const char *stem, enum tr_samples_map which)
{
    static const char *const names[] = {"doc", "sample", "shuffle"};

    return tr_format("%s_%s_idx.npy", stem, names[which]);
}

static enum tr_status load_map(struct tr_samples *x, const char *stem, enum tr_samples_map which)
{
    char *path = tr_samples_path(stem, which);
    const void *data = NULL;
    enum tr_status s = tr_npy_open(path, &x->array[which], &x->part[which].map, &data);

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
    for (int m = 0; m < TR_MAPS; m++) {
        enum tr_status s = load_map(x, stem, (enum tr_samples_map)m);

        if (s != TR_OK) {
            while (m-- > 0)
                tr_map_close(&x->part[m].map);
            return s;
        }
    }
    return TR_OK;
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
