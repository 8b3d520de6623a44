/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "util/file.h"
#include "util/text.h"
#include "weights/safetensors.h"
#include "weights/torch.h"

#define CONFIG "config.json"

/* Bytes of text files at most. */
enum { CONFIG_MOST = 1 << 20, INDEX_MOST = 64 << 20 };

/* A format: the name of its only file, or of the index of several. */
static const struct format {
    const char *about, *single, *index;
    enum tr_status (*read)(struct tr_weights_table *t, const char *name);
} formats[] = {
    {"safetensors", "model.safetensors", "model.safetensors.index.json", tr_safetensors_read},
    {"torch.save", "pytorch_model.bin", "pytorch_model.bin.index.json", tr_torch_read},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static bool holds(const char *folder, const char *name)
{
    char *path = tr_format("%s/%s", folder, name);
    bool there = access(path, F_OK) == 0;

    free(path);
    return there;
}

static const struct format *format_of(const char *folder)
{
    for (int i = 0; i < FORMATS; i++)
        if (holds(folder, formats[i].single) || holds(folder, formats[i].index))
            return &formats[i];
    return NULL;
}

bool tr_weights_is_folder(const char *folder)
{
    return format_of(folder) != NULL;
}

static enum tr_status nothing(const char *folder)
{
    struct stat st;

    if (stat(folder, &st) != 0)
        return TR_FAIL(TR_EIO, "there is no folder %s: %s", folder, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return TR_FAIL(TR_EIO, "%s is not a folder: give the one around it", folder);
    return TR_FAIL(TR_EIO,
                   "%s has no weights that are known here: neither model.safetensors nor "
                   "pytorch_model.bin, nor the index of either",
                   folder);
}

/* A file in this folder and no other. */
static bool is_plain(const char *name)
{
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           strlen(name) < 256;
}

static int find_file(const struct tr_weights_table *t, const char *name)
{
    for (int i = 0; i < t->files; i++)
        if (strcmp(t->file[i].name, name) == 0)
            return i;
    return -1;
}

/* Each file that the index names, once. */
static enum tr_status read_files(struct tr_weights_table *t, const struct format *f,
                                 const char *index, const json_t *map)
{
    const char *name;
    const json_t *value;

    json_object_foreach((json_t *)(uintptr_t)map, name, value)
    {
        const char *file = json_string_value(value);

        if (!file || !is_plain(file))
            return TR_FAIL(TR_EDATA, "%s/%s: the weight_map has no name of a file for %.200s",
                           t->folder, index, name);
        if (find_file(t, file) >= 0)
            continue;
        if (!holds(t->folder, file))
            return TR_FAIL(TR_EIO,
                           "%s lacks %s, where %s/%s says that %.200s is: fetch the missing file",
                           t->folder, file, t->folder, index, name);
        TR_TRY(f->read(t, file));
    }
    return TR_OK;
}

/* The index and the files agree about which tensor is where. */
static enum tr_status compare(const struct tr_weights_table *t, const char *index,
                              const json_t *map)
{
    const char *name;
    const json_t *value;

    json_object_foreach((json_t *)(uintptr_t)map, name, value)
    {
        const int at = tr_weights_find(t, name);

        if (at < 0 || strcmp(t->file[t->list[at].file].name, json_string_value(value)) != 0)
            return TR_FAIL(TR_EDATA, "%s/%s says that %.200s is in %s, and it is not", t->folder,
                           index, name, json_string_value(value));
    }
    return TR_OK;
}

static enum tr_status read_index(struct tr_weights_table *t, const struct format *f)
{
    char *path = tr_format("%s/%s", t->folder, f->index), *text = NULL;
    json_t *index = NULL, *map;
    json_error_t error;
    enum tr_status s = tr_regular_text(path, INDEX_MOST, &text);

    if (s != TR_OK)
        goto out;
    index = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    map = json_object_get(index, "weight_map");
    if (!json_is_object(map)) {
        s = TR_FAIL(TR_EDATA, "%s has no weight_map%s%s", path, index ? "" : ": ",
                    index ? "" : error.text);
        goto out;
    }
    s = read_files(t, f, f->index, map);
    if (s == TR_OK)
        s = tr_weights_sort(t);
    if (s == TR_OK)
        s = compare(t, f->index, map);
out:
    json_decref(index);
    free(text);
    free(path);
    return s;
}

static enum tr_status read_config(const char *folder, char **config)
{
    char *path = tr_format("%s/" CONFIG, folder);
    enum tr_status s = holds(folder, CONFIG) ? tr_regular_text(path, CONFIG_MOST, config) : TR_OK;

    free(path);
    return s;
}

enum tr_status tr_weights_read_folder(const char *folder, struct tr_weights_table *out,
                                      char **config, char format[TR_WEIGHTS_FORMAT])
{
    const struct format *f = format_of(folder);

    *out = (struct tr_weights_table){.folder = tr_format("%s", folder)};
    *config = NULL;
    if (!f)
        return nothing(folder);
    TR_TRY(read_config(folder, config));
    if (holds(folder, f->single)) {
        TR_TRY(f->read(out, f->single));
        TR_TRY(tr_weights_sort(out));
    } else {
        TR_TRY(read_index(out, f));
    }
    snprintf(format, TR_WEIGHTS_FORMAT, "%s, %d file%s", f->about, out->files,
             tr_plural(out->files));
    return TR_OK;
}
