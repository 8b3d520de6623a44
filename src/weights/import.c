/* SPDX-License-Identifier: BSD-3-Clause */
#include "weights/import.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ckpt/map.h"
#include "ckpt/stream.h"
#include "config/config.h"
#include "util/file.h"
#include "util/meter.h"
#include "util/text.h"
#include "weights/foreign.h"
#include "weights/megatron.h"
#include "weights/model_json.h"
#include "weights/move.h"

/* Bytes of a config.json at most. */
enum { CONFIG_MOST = 1 << 20 };

/* One import. */
struct import {
    const struct tr_import *o;
    struct tr_weights_table table;
    struct tr_weights_map map;
    struct tr_params whole;
    struct tr_config config;
    struct tr_dims dims;
    struct tr_ckpt_stream *out;
    struct tr_weights_end to;
    struct tr_meter meter;
    char format[TR_WEIGHTS_FORMAT];
    char *model; /* config.json */
    char *source;
};

static enum tr_status put(void *ctx, const struct tr_weights_item *m, int64_t first, float *x,
                          int64_t n)
{
    struct import *v = ctx;

    TR_TRY(tr_ckpt_stream_put(v->out, m->number, first, x, n));
    tr_meter_add(&v->meter, n * (int64_t)sizeof *x);
    return TR_OK;
}

/* The types of the weights that are read: "BF16", or "F32 and F16". */
static void list_types(const struct import *v, char *text, size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (int type = 0; type < TR_WEIGHTS_OTHER; type++)
        for (int i = 0; i < v->table.count; i++)
            if (v->table.list[i].used && (int)v->table.list[i].type == type) {
                used += (size_t)snprintf(text + used, size - used, "%s%s", used ? " and " : "",
                                         tr_weights_type_name((enum tr_weights_type)type));
                break;
            }
}

/* Path and text of config.json. */
static enum tr_status find_config(struct import *v, char **path)
{
    struct stat st;

    *path = tr_format("%s", v->o->config ? v->o->config : v->o->from);
    if (stat(*path, &st) != 0 || S_ISDIR(st.st_mode)) {
        free(*path);
        *path = tr_format("%s/config.json", v->o->config ? v->o->config : v->o->from);
    }
    if (!v->o->config && !v->model)
        return TR_FAIL(TR_EIO,
                       "%s has no config.json, which says the family and the sizes of the model: "
                       "give one as --config",
                       v->o->from);
    if (!v->o->config)
        return TR_OK;
    free(v->model);
    v->model = NULL;
    return tr_regular_text(*path, CONFIG_MOST, &v->model);
}

/* Where they come from, in a line. */
static void set_source(struct import *v, const char *from, const char *what)
{
    char types[32];

    list_types(v, types, sizeof types);
    v->source = tr_printable(tr_format("%s (%s; %s, %s)", from, v->format, what, types));
}

static enum tr_status read_hf(struct import *v)
{
    const struct tr_weights_model *model;
    enum tr_status s;
    char *path;

    TR_TRY(tr_weights_read_folder(v->o->from, &v->table, &v->model, v->format));
    s = find_config(v, &path);
    if (s == TR_OK)
        s = tr_weights_model_read(path, v->model, v->o->seq_length, v->o->untied, &v->config,
                                  &model);
    if (s == TR_OK)
        s = tr_dims_of(&v->config, 1, &v->dims);
    free(path);
    TR_TRY(s);
    tr_ckpt_list_whole(&v->dims, &v->whole);
    TR_TRY(tr_weights_match(model->style, &v->dims, &v->whole, v->o->untied, &v->table, &v->map));
    set_source(v, v->o->from, model->architecture);
    return TR_OK;
}

/* The arguments of the run say what config.json says elsewhere. */
static enum tr_status read_megatron(struct import *v)
{
    struct tr_megatron m;
    enum tr_status s;

    if (v->o->untied || v->o->config)
        return TR_FAIL(TR_ECONFIG,
                       "%s is of Megatron-LM: its embeddings are tied, and its arguments "
                       "describe it, so --%s has no effect: remove it",
                       v->o->from, v->o->config ? "config" : "untie-embeddings-and-output-weights");
    s = tr_megatron_read(v->o->from, v->o->vocab_size, &v->table, &v->config, &m);
    v->config.seq_length = v->config.max_position_embeddings < v->o->seq_length
                               ? v->config.max_position_embeddings
                               : v->o->seq_length;
    if (s == TR_OK)
        s = tr_dims_of(&v->config, 1, &v->dims);
    if (s == TR_OK) {
        tr_ckpt_list_whole(&v->dims, &v->whole);
        s = tr_megatron_match(&m, &v->dims, &v->whole, &v->table, &v->map);
    }
    if (s == TR_OK) {
        snprintf(v->format, sizeof v->format, "Megatron-LM, TP %d, PP %d", m.ranks, m.stages);
        set_source(v, m.folder, "GPT");
    }
    tr_megatron_release(&m);
    return s;
}

static enum tr_status read_model(struct import *v)
{
    if (tr_megatron_is(v->o->from))
        return read_megatron(v);
    if (v->o->vocab_size > 0)
        return TR_FAIL(TR_ECONFIG, "--vocab-size is for checkpoints of Megatron-LM, where it is "
                                   "padded: config.json says it here");
    return read_hf(v);
}

static enum tr_status move_all(struct import *v)
{
    char *json = tr_config_get_json(&v->config, NULL);
    enum tr_status s = tr_ckpt_stream_open(v->o->save, &v->dims, json, v->source, &v->out);

    free(json);
    TR_TRY(s);
    tr_meter_start(&v->meter, "imported", tr_params_number(&v->whole) * (int64_t)sizeof(float),
                   v->o->interval);
    for (int i = 0; i < v->map.count && s == TR_OK; i++)
        s = tr_weights_read(&v->table, &v->map.list[i], &v->to);
    return tr_ckpt_stream_close(v->out, s);
}

static void say(struct import *v)
{
    const double seconds = tr_meter_end(&v->meter);
    const int64_t number = tr_params_number(&v->whole);
    char count[TR_HUMAN], bytes[TR_HUMAN], rate[TR_HUMAN];

    printf("imported %s\n", v->source);
    printf("  family %s: %" PRId64 " layers, hidden size %" PRId64 ", %" PRId64 " heads in %" PRId64
           " groups, vocabulary %" PRId64 ", %s parameters\n",
           v->config.model_family, v->dims.layers, v->dims.hidden, v->dims.heads, v->dims.groups,
           v->dims.vocab, tr_human((double)number, count));
    printf("  %s in fp32 in %s/iter_0000000", tr_human_bytes(4.0 * (double)number, bytes),
           v->o->save);
    if (seconds > 0.0)
        printf(", %s/s", tr_human_bytes(4.0 * (double)number / seconds, rate));
    printf(", at most %s of it in memory\n", tr_human_bytes((double)v->to.peak, rate));
    if (v->table.by_parts && v->dims.family.tied)
        printf("  embeddings are tied, so an output layer of its own was left out: "
               "--untie-embeddings-and-output-weights keeps it\n");
    printf("  train with --load %s --finetune --use-checkpoint-args\n", v->o->save);
}

enum tr_status tr_weights_import(const struct tr_import *o)
{
    struct import v = {.o = o};
    enum tr_status s;

    v.to = (struct tr_weights_end){.block = put, .ctx = &v};
    tr_config_init(&v.config);
    s = read_model(&v);
    if (s == TR_OK)
        s = move_all(&v);
    if (s == TR_OK)
        say(&v);
    tr_weights_map_release(&v.map);
    tr_params_release(&v.whole);
    tr_weights_release(&v.table);
    tr_config_release(&v.config);
    free(v.model);
    free(v.source);
    return s;
}
