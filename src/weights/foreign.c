/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/foreign.h"

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
#define EMBS "pytorch_embs.pt"

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

static enum tr_status nothing(const char *folder)
{
    struct stat st;

    if (stat(folder, &st) != 0)
        return TR_FAIL(TR_EIO, "there is no folder %s: %s", folder, strerror(errno));
    if (!S_ISDIR(st.st_mode))
        return TR_FAIL(TR_EIO, "%s is not a folder: give the one around it", folder);
    return TR_FAIL(TR_EIO,
                   "%s has no weights that are known here: neither model.safetensors nor "
                   "pytorch_model.bin, nor the index of either, " EMBS " or prank_0_checkpoint.pt",
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

/* ---- folders of parts ---- */

#define HEAD "pytorch_lm_head.pt"
#define LAYER "pytorch_%d.pt"
#define RELATIVE "pytorch_rel_embs.pt"
#define CONVOLUTION "pytorch_conv.pt"
#define STAGE "prank_%d_checkpoint.pt"

/* Layers and stages at most. */
enum { PARTS_MOST = 100000 };

/* A file for each layer, whose names get `under` before them, with the number of the layer for %d. */
static enum tr_status read_each_layer(struct tr_weights_table *t, const char *under_layer)
{
    const char *number = strstr(under_layer, "%d");

    for (int i = 0; i < PARTS_MOST; i++) {
        char *name = tr_format(LAYER, i);
        char *under =
            tr_format("%.*s%d%s", (int)(number - under_layer), under_layer, i, number + 2);
        const bool there = holds(t->folder, name);
        enum tr_status s = there ? tr_torch_read_under(t, name, under) : TR_OK;

        free(under);
        free(name);
        TR_TRY(s);
        if (!there)
            break;
    }
    return TR_OK;
}

/* A file for the embeddings, for each layer and for what comes last: the folders of CocktailSGD and AC-SGD. */
static enum tr_status read_layers(struct tr_weights_table *t)
{
    TR_TRY(tr_torch_read_under(t, EMBS, "embs/"));
    TR_TRY(tr_torch_read_under(t, HEAD, "head/"));
    return read_each_layer(t, "%d/");
}

/* The number that a name begins with, with a dot behind it, and the rest; -1 if it does not. */
static int position_of(const char *name, const char **rest)
{
    char *end;
    const long n = strtol(name, &end, 10);

    if (end == name || *end != '.' || n < 0 || n > PARTS_MOST)
        return -1;
    *rest = end + 1;
    return (int)n;
}

/* The tensors from `first` on are of a stage: position 0 of the first is the embeddings, the last position of the last
   what comes last, and what is between are layers. */
static enum tr_status name_positions(struct tr_weights_table *t, int first, bool begins, bool ends,
                                     int *layers)
{
    int last = -1;
    const char *rest;

    for (int i = first; i < t->count; i++) {
        const int at = position_of(t->list[i].name, &rest);

        if (at < 0)
            return TR_FAIL(TR_EDATA, "%s: %s does not begin with its position in the stage",
                           t->file[t->list[i].file].path, t->list[i].name);
        last = at > last ? at : last;
    }
    for (int i = first; i < t->count; i++) {
        const int at = position_of(t->list[i].name, &rest);
        char *name = begins && at == 0    ? tr_format("embs/%s", rest)
                     : ends && at == last ? tr_format("head/%s", rest)
                                          : tr_format("%d/%s", *layers + at - begins, rest);

        free(t->list[i].name);
        t->list[i].name = name;
    }
    *layers += last + 1 - begins - ends;
    return TR_OK;
}

/* A file for each pipeline stage: their checkpoints in training. */
static enum tr_status read_stages(struct tr_weights_table *t)
{
    int layers = 0;

    for (int i = 0; i < PARTS_MOST; i++) {
        char *name = tr_format(STAGE, i), *next = tr_format(STAGE, i + 1);
        const bool ends = !holds(t->folder, next);
        const int first = t->count;
        enum tr_status s = tr_torch_read(t, name);

        if (s == TR_OK)
            s = name_positions(t, first, i == 0, ends, &layers);
        free(next);
        free(name);
        TR_TRY(s);
        if (ends)
            break;
    }
    return TR_OK;
}

/* A file for each module of a DeBERTa, without its head: AC-SGD's.  Names are those of the whole model. */
static enum tr_status read_encoder(struct tr_weights_table *t)
{
    static const struct {
        const char *file, *under;
    } modules[] = {
        {EMBS, "deberta.embeddings."},
        {RELATIVE, "deberta.encoder.rel_embeddings."},
        {"pytorch_ln.pt", "deberta.encoder.LayerNorm."},
        {CONVOLUTION, "deberta.encoder.conv."},
    };

    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (strcmp(modules[i].file, CONVOLUTION) != 0 || holds(t->folder, CONVOLUTION))
            TR_TRY(tr_torch_read_under(t, modules[i].file, modules[i].under));
    return read_each_layer(t, "deberta.encoder.layer.%d.");
}

/* Folders of parts by the file that each has; `whole`: names are those of the whole model. */
static const struct parts {
    const char *about, *marker;
    bool whole;
    enum tr_status (*read)(struct tr_weights_table *t);
} parts[] = {
    {"layers of an encoder", RELATIVE, true, read_encoder},
    {"layers", EMBS, false, read_layers},
    {"pipeline stages", "prank_0_checkpoint.pt", false, read_stages},
};
enum { PARTS = sizeof parts / sizeof *parts };

static const struct parts *parts_of(const char *folder)
{
    for (int i = 0; i < PARTS; i++)
        if (holds(folder, parts[i].marker))
            return &parts[i];
    return NULL;
}

/* ---- all of them ---- */

bool tr_weights_is_folder(const char *folder)
{
    return format_of(folder) || parts_of(folder);
}

static enum tr_status read_config(const char *folder, char **config)
{
    char *path = tr_format("%s/" CONFIG, folder);
    enum tr_status s = holds(folder, CONFIG) ? tr_regular_text(path, CONFIG_MOST, config) : TR_OK;

    free(path);
    return s;
}

static enum tr_status read_whole(struct tr_weights_table *t, const struct format *f)
{
    if (!holds(t->folder, f->single))
        return read_index(t, f);
    TR_TRY(f->read(t, f->single));
    return tr_weights_sort(t);
}

static enum tr_status read_parts(struct tr_weights_table *t, const struct parts *p)
{
    t->by_parts = !p->whole;
    TR_TRY(p->read(t));
    return tr_weights_sort(t);
}

enum tr_status tr_weights_read_folder(const char *folder, struct tr_weights_table *out,
                                      char **config, char format[TR_WEIGHTS_FORMAT])
{
    const struct format *f = format_of(folder);
    const struct parts *p = f ? NULL : parts_of(folder);

    *out = (struct tr_weights_table){.folder = tr_format("%s", folder)};
    *config = NULL;
    if (!f && !p)
        return nothing(folder);
    TR_TRY(read_config(folder, config));
    TR_TRY(f ? read_whole(out, f) : read_parts(out, p));
    snprintf(format, TR_WEIGHTS_FORMAT, "%s, %d file%s", f ? f->about : p->about, out->files,
             tr_plural(out->files));
    return TR_OK;
}
