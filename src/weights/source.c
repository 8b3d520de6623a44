/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ckpt/map.h"
#include "util/file.h"
#include "util/text.h"
#include "weights/foreign.h"
#include "weights/megatron.h"
#include "weights/model_json.h"

/* Bytes of a config.json at most. */
enum { CONFIG_MOST = 1 << 20 };

/* The types of the weights that are read: "BF16", or "F32 and F16". */
static void list_types(const struct tr_weights_table *t, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int type = 0; type < TR_WEIGHTS_OTHER; type++)
        for (int i = 0; i < t->count; i++)
            if (t->list[i].used && (int)t->list[i].type == type) {
                used += (size_t)snprintf(text + used, size - used, "%s%s", used ? " and " : "",
                                         tr_weights_type_name((enum tr_weights_type)type));
                break;
            }
}

/* Where they come from, in a line. */
static void set_text(struct tr_weights_source *v, const char *from, const char *format,
                     const char *what)
{
    char types[32];

    list_types(&v->table, types, sizeof types);
    v->text = tr_printable(tr_format("%s (%s; %s, %s)", from, format, what, types));
}

/* The file itself, or the one in a folder; owned by the caller. */
static char *config_path(const char *config)
{
    struct stat st;

    return stat(config, &st) == 0 && !S_ISDIR(st.st_mode) ? tr_format("%s", config)
                                                          : tr_format("%s/config.json", config);
}

/* Path of config.json, owned by the caller, and its text in *model, unless the folder's own is there already. */
static enum tr_status find_config(const struct tr_weights_ask *ask, char **path, char **model)
{
    *path = config_path(ask->config ? ask->config : ask->from);
    if (!ask->config && !*model)
        return TR_FAIL(
            TR_EIO,
            "%s has no config.json, which says the family and the sizes of the model: put "
            "that of the model there, or give one: --load-config to a run, --config to trireme "
            "ckpt "
            "import",
            ask->from);
    if (!ask->config)
        return TR_OK;
    free(*model);
    *model = NULL;
    return tr_regular_text(*path, CONFIG_MOST, model);
}

static enum tr_status match_hf(const struct tr_weights_ask *ask, const char *path, const char *text,
                               const char *format, struct tr_weights_source *v)
{
    const struct tr_weights_model *model;

    TR_TRY(tr_weights_model_read(path, text, ask->seq_length, ask->untied, &v->config, &model));
    if (ask->labels > 0)
        v->config.num_labels = ask->labels;
    TR_TRY(tr_dims_of(&v->config, 1, &v->dims));
    tr_ckpt_list_whole(&v->dims, &v->whole);
    TR_TRY(tr_weights_match(model->style, &v->dims, &v->whole, ask->untied, &v->table, &v->map));
    set_text(v, ask->from, format, tr_weights_architecture(model, &v->dims));
    return TR_OK;
}

static enum tr_status read_hf(const struct tr_weights_ask *ask, struct tr_weights_source *v)
{
    char *model = NULL, *path = NULL, format[TR_WEIGHTS_FORMAT];
    enum tr_status s = tr_weights_read_folder(ask->from, &v->table, &model, format);

    if (s == TR_OK)
        s = find_config(ask, &path, &model);
    if (s == TR_OK)
        s = match_hf(ask, path, model, format, v);
    free(path);
    free(model);
    return s;
}

/* The arguments of the run say what config.json says elsewhere. */
static enum tr_status match_megatron(const struct tr_weights_ask *ask, const struct tr_megatron *m,
                                     struct tr_weights_source *v)
{
    char format[TR_WEIGHTS_FORMAT];

    v->config.seq_length = v->config.max_position_embeddings < ask->seq_length
                               ? v->config.max_position_embeddings
                               : ask->seq_length;
    TR_TRY(tr_dims_of(&v->config, 1, &v->dims));
    tr_ckpt_list_whole(&v->dims, &v->whole);
    TR_TRY(tr_megatron_match(m, &v->dims, &v->whole, &v->table, &v->map));
    snprintf(format, sizeof format, "Megatron-LM, TP %d, PP %d", m->ranks, m->stages);
    set_text(v, m->folder, format, "GPT");
    return TR_OK;
}

static enum tr_status read_megatron(const struct tr_weights_ask *ask, struct tr_weights_source *v)
{
    struct tr_megatron m;
    enum tr_status s;

    if (ask->labels > 0)
        return TR_FAIL(
            TR_ECONFIG,
            "%s is of Megatron-LM, and weights for a head of classes are read from folders "
            "of Hugging Face alone: convert it with trireme ckpt import and export",
            ask->from);
    if (ask->untied || ask->config)
        return TR_FAIL(TR_ECONFIG,
                       "%s is of Megatron-LM: its embeddings are tied, and its arguments "
                       "describe it, so %s has no effect: remove it",
                       ask->from,
                       ask->config ? "a config.json" : "--untie-embeddings-and-output-weights");
    v->padded = true;
    s = tr_megatron_read(ask->from, ask->vocab_size, &v->table, &v->config, &m);
    if (s == TR_OK)
        s = match_megatron(ask, &m, v);
    tr_megatron_release(&m);
    return s;
}

enum tr_status tr_weights_describe(const char *config, struct tr_config *c, struct tr_dims *dims)
{
    const struct tr_weights_model *model;
    char *path = config_path(config), *text = NULL;
    enum tr_status s = tr_regular_text(path, CONFIG_MOST, &text);

    if (s == TR_OK)
        s = tr_weights_model_read(path, text, TR_WEIGHTS_SEQ_LENGTH, false, c, &model);
    if (s == TR_OK)
        s = tr_dims_of(c, 1, dims);
    free(text);
    free(path);
    return s;
}

bool tr_weights_is(const char *folder)
{
    return tr_megatron_is(folder) || tr_weights_is_folder(folder);
}

enum tr_status tr_weights_source_open(const struct tr_weights_ask *ask,
                                      struct tr_weights_source *out)
{
    *out = (struct tr_weights_source){.text = NULL};
    tr_config_init(&out->config);
    return tr_megatron_is(ask->from) ? read_megatron(ask, out) : read_hf(ask, out);
}

void tr_weights_source_release(struct tr_weights_source *s)
{
    tr_weights_map_release(&s->map);
    tr_params_release(&s->whole);
    tr_weights_release(&s->table);
    tr_config_release(&s->config);
    free(s->text);
    *s = (struct tr_weights_source){.text = NULL};
}
