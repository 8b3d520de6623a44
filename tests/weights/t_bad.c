/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ckpt/stream.h"
#include "config/config.h"
#include "data/folder.h"
#include "util/file.h"
#include "util/log.h"
#include "weights/import.h"
#include "weights/tensors.h"

/*
 * Model folders that cannot be imported, and checkpoints that cannot be exported: each is refused with a sentence,
 * and nothing is left.
 */
static struct tr_comm self;
static char *top;
static char *good[2]; /* folders: of one file, and of shards */

static const char *const MODEL =
    "--model-family llama3 --num-layers 2 --hidden-size 8 --num-attention-heads 2 "
    "--num-query-groups 1 "
    "--ffn-hidden-size 12 --seq-length 6 --vocab-size 11 --norm-epsilon 1e-6";

static char *in(const char *folder, const char *name)
{
    return tr_format("%s/%s", folder, name);
}

/* A checkpoint in which every number is `value`. */
static void make_checkpoint(const char *options, const char *dir, float value)
{
    struct tr_config c;
    struct tr_dims dims;
    struct tr_ckpt_stream *w;
    char *json;

    tr_config_init(&c);
    assert_ok(tr_config_parse_text(&c, options));
    assert_ok(tr_dims_of(&c, 1, &dims));
    json = tr_config_get_json(&c, NULL);
    assert_ok(tr_ckpt_stream_open(&self, dir, &dims, json, "", &w));
    for (int i = 0; i < tr_ckpt_stream_params(w)->count; i++)
        for (int64_t at = 0; at < tr_ckpt_stream_params(w)->list[i].elems; at++)
            assert_ok(tr_ckpt_stream_put(w, i, at, &value, 1));
    assert_ok(tr_ckpt_stream_close(w, TR_OK));
    free(json);
    tr_config_release(&c);
}

static enum tr_status export(const char *from, const char *to, int type, int64_t shard) {
    const struct tr_export e =
        {.load = from, .to = to, .type = type, .shard_bytes = shard, .interval = 10.0};

    return tr_weights_export(&e, &self);
}

static enum tr_status import(const char *from, const char *to)
{
    const struct tr_import i = {
        .ask = {.from = from, .seq_length = 4096}, .save = to, .interval = 10.0};

    return tr_weights_import(&i, &self);
}

static int setup(void **state)
{
    char *origin;

    (void)state;
    tr_log_level(TR_LOG_ERROR);
    tr_comm_self(&self);
    top = folder_make();
    origin = in(top, "origin");
    good[0] = in(top, "one");
    good[1] = in(top, "shards");
    make_checkpoint(MODEL, origin, 0.25f);
    assert_ok(export(origin, good[0], TR_WEIGHTS_F32, 1 << 20));
    assert_ok(export(origin, good[1], TR_WEIGHTS_F32, 1000));
    free(origin);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    free(good[0]);
    free(good[1]);
    folder_remove(top);
    return 0;
}

static char *read_all(const char *path, size_t *bytes)
{
    struct tr_map map;
    char *data;

    assert_ok(tr_map_open(path, &map));
    *bytes = map.bytes;
    data = malloc(map.bytes + 1);
    memcpy(data, map.data, map.bytes);
    data[map.bytes] = '\0';
    tr_map_close(&map);
    return data;
}

/* A folder with the files of a good one. */
static char *copy(const char *from, const char *name)
{
    char *to = in(top, name);
    DIR *d = opendir(from);

    assert_int_equal(mkdir(to, 0777), 0);
    for (struct dirent *e; (e = readdir(d));) {
        char *a = in(from, e->d_name), *b = in(to, e->d_name), *data;
        size_t bytes;

        if (e->d_name[0] != '.') {
            data = read_all(a, &bytes);
            file_put(b, data, bytes);
            free(data);
        }
        free(a);
        free(b);
    }
    closedir(d);
    return to;
}

/* The import is refused with this status and text, and leaves nothing. */
static void refused(const char *from, enum tr_status status, const char *text)
{
    char *save = in(top, "save");

    if (import(from, save) != status || !strstr(tr_last_error(), text))
        fail_msg("not refused with \"%s\": %s", text, tr_last_error());
    assert_int_not_equal(access(save, F_OK), 0);
    free(save);
}

/* The first `what` of a file is replaced; a safetensors header gets its new length. */
static void replace(const char *folder, const char *name, const char *what, const char *with)
{
    char *path = in(folder, name), *data, *at = NULL, *out;
    const size_t from = strlen(what), to = strlen(with);
    const bool header = strstr(name, ".safetensors") && !strstr(name, ".json");
    uint64_t length;
    size_t bytes;

    data = read_all(path, &bytes);
    for (size_t i = 0; i + from <= bytes && !at; i++)
        if (memcmp(data + i, what, from) == 0)
            at = data + i;
    if (!at)
        fail_msg("%s has no %s", name, what);
    out = malloc(bytes + to);
    memcpy(out, data, (size_t)(at - data));
    memcpy(out + (at - data), with, to);
    memcpy(out + (at - data) + to, at + from, bytes - (size_t)(at - data) - from);
    if (header) {
        memcpy(&length, data, sizeof length);
        length += to - from;
        memcpy(out, &length, sizeof length);
    }
    file_put(path, out, bytes + to - from);
    free(out);
    free(data);
    free(path);
}

/* A change of one file, and what is said of it. */
static const struct change {
    int folder; /* of `good` */
    const char *file, *what, *with;
    enum tr_status status;
    const char *says;
} changes[] = {
    /* config.json */
    {0, "config.json", "{", "[", TR_EDATA, "config.json is not a JSON object"},
    {0, "config.json", "\"model_type\"", "\"modeltype\"", TR_EDATA, "has no \"model_type\""},
    {0, "config.json", "\"llama\"", "\"mixtral\"", TR_EDATA, "mixtral are not read"},
    {0, "config.json", "\"llama\"", "\"nobody-knows\"", TR_EDATA, "nobody-knows are not read"},
    {0, "config.json", "\"hidden_size\"", "\"hiddensize\"", TR_EDATA, "lacks \"hidden_size\""},
    {0, "config.json", "\"hidden_size\": 8", "\"hidden_size\": 0", TR_EDATA,
     "\"hidden_size\" is 0"},
    {0, "config.json", "\"hidden_size\": 8", "\"hidden_size\": 1e9", TR_EDATA,
     "\"hidden_size\" is 1"},
    {0, "config.json", "\"rms_norm_eps\": 1", "\"rms_norm_eps\": -1", TR_EDATA, "a number above 0"},
    {0, "config.json", "\"silu\"", "\"mish\"", TR_EDATA, "\"hidden_act\" is \"mish\""},
    {0, "config.json", "\"rope_scaling\": null", "\"rope_scaling\": {\"rope_type\": \"yarn\"}",
     TR_EDATA, "by the rule \"yarn\""},
    {0, "config.json", "\"rope_scaling\": null", "\"rope_scaling\": {\"rope_type\": \"llama3\"}",
     TR_EDATA, "no \"factor\""},
    {0, "config.json", "\"rope_scaling\": null",
     "\"rope_parameters\": {\"full_attention\": {\"rope_theta\": 1}}", TR_EDATA,
     "differs by layers"},
    {0, "config.json", "{", "{\"quantization_config\": {\"bits\": 4},", TR_EDATA,
     "quantized weights are not read"},
    {0, "config.json", "{", "{\"num_experts\": 8,", TR_EDATA, "mixtures of experts"},
    {0, "config.json", "{", "{\"vision_config\": {},", TR_EDATA, "models of images"},
    {0, "config.json", "{", "{\"attention_bias\": true,", TR_EDATA, "\"attention_bias\" is true"},
    {0, "config.json", "{", "{\"layer_types\": [\"a\", \"b\"],", TR_EDATA,
     "layers of several kinds"},
    {0, "config.json", "{", "{\"final_logit_softcapping\": 30.0,", TR_EDATA, "not capped"},
    {0, "config.json", "\"num_attention_heads\": 2", "\"num_attention_heads\": 3", TR_EDATA,
     "it is [12,8]"},
    {0, "config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": 3", TR_EDATA,
     "must be true or false"},
    /* Models that the weights are not. */
    {0, "config.json", "\"vocab_size\": 11", "\"vocab_size\": 12", TR_EDATA,
     "model.embed_tokens.weight in"},
    {0, "config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1", TR_EDATA,
     "model.layers.1."},
    {0, "config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3", TR_EDATA,
     "has no tensor model.layers.2.input_layernorm.weight"},
    {0, "config.json", "\"num_key_value_heads\": 1", "\"num_key_value_heads\": 2", TR_EDATA,
     "k_proj.weight in"},
    /* safetensors */
    {0, "model.safetensors", "model.norm.weight", "model.norm.weights", TR_EDATA,
     "has no tensor model.norm.weight"},
    {0, "model.safetensors", "{\"dtype\":\"F32\"", "{\"dtype\":\"I32\"", TR_EDATA,
     "is of type I32"},
    {0, "model.safetensors", "{\"dtype\":\"F32\"", "{\"dtype\":\"BF16\"", TR_EDATA,
     "its shape and type BF16 need another number"},
    {0, "model.safetensors", "{\"dtype\":\"F32\"", "{\"type\":\"F32\"", TR_EDATA, "has no dtype"},
    {0, "model.safetensors", "\"shape\":[", "\"shape\":[-1,", TR_EDATA, "is not a list of"},
    {0, "model.safetensors", "\"shape\":[", "\"shape\":[4611686018427387904,4,", TR_EDATA,
     "is not a list of"},
    {0, "model.safetensors", "\"data_offsets\":[0,", "\"data_offsets\":[4,", TR_EDATA,
     "need another number"},
    {0, "model.safetensors", "\"data_offsets\":[0,", "\"data_offsets\":[\"0\",", TR_EDATA,
     "are not where it begins and ends"},
    {0, "model.safetensors", "\"data_offsets\":[0,352]", "\"data_offsets\":[4,356]", TR_EDATA,
     "belong to no tensor"},
    {0, "model.safetensors", "\"data_offsets\":[352,704]", "\"data_offsets\":[0,352]", TR_EDATA,
     "overlap"},
    {0, "model.safetensors", "{\"__metadata__\"", "[\"__metadata__\"", TR_EDATA,
     "not a JSON object"},
    /* shards */
    {1, "model.safetensors.index.json", "\"weight_map\"", "\"weightmap\"", TR_EDATA,
     "has no weight_map"},
    {1, "model.safetensors.index.json", "\"model-00001", "\"../model-00001", TR_EDATA,
     "has no name of a file"},
    {1, "model.safetensors.index.json", "\"model-00001", "\"model-90001", TR_EIO,
     "lacks model-90001"},
    {1, "model.safetensors.index.json", "\"lm_head.weight\"", "\"lm_head.weights\"", TR_EDATA,
     "says that lm_head.weights is in"},
    {1, "model.safetensors.index.json", "{", "", TR_EDATA, "has no weight_map"},
};
enum { CHANGES = sizeof changes / sizeof *changes };

static void changed(void **state)
{
    (void)state;
    for (int i = 0; i < CHANGES; i++) {
        const struct change *c = &changes[i];
        char *name = tr_format("changed-%d", i), *folder = copy(good[c->folder], name);

        replace(folder, c->file, c->what, c->with);
        refused(folder, c->status, c->says);
        free(folder);
        free(name);
    }
}

static void cut(void **state)
{
    char *folder = copy(good[0], "cut"), *path = in(folder, "model.safetensors"), *data;
    uint64_t length = (uint64_t)1 << 30;
    size_t bytes;

    (void)state;
    data = read_all(path, &bytes);
    for (size_t n = 0; n < bytes; n += n < 16 || n > bytes - 16 ? 1 : 97) {
        file_put(path, data, n);
        refused(folder, TR_EDATA, n < 8 ? "no header fits" : "");
    }
    file_put(path, data, bytes - 1);
    refused(folder, TR_EDATA, "is cut short");
    data = realloc(data, bytes + 1);
    file_put(path, data, bytes + 1);
    refused(folder, TR_EDATA, "1 bytes at its end belong to no tensor");
    memcpy(data, &length, sizeof length);
    file_put(path, data, bytes);
    refused(folder, TR_EDATA, "its header would have 1073741824 bytes");
    length = bytes;
    memcpy(data, &length, sizeof length);
    file_put(path, data, bytes);
    refused(folder, TR_EDATA, "is cut short: its header has");
    free(data);
    free(path);
    free(folder);
}

static void missing(void **state)
{
    char *folder = copy(good[0], "missing"), *config = in(folder, "config.json");
    char *weights = in(folder, "model.safetensors"), *nowhere = in(top, "nowhere");

    (void)state;
    refused(nowhere, TR_EIO, "there is no folder");
    refused(weights, TR_EIO, "is not a folder");
    assert_int_equal(unlink(config), 0);
    refused(folder, TR_EIO, "has no config.json");
    assert_int_equal(unlink(weights), 0);
    refused(folder, TR_EIO, "no weights that are known");
    free(nowhere);
    free(weights);
    free(config);
    free(folder);
}

/* A folder of a run is not begun anew. */
static void occupied(void **state)
{
    char *save = in(top, "occupied");

    (void)state;
    assert_ok(import(good[0], save));
    assert_fails(TR_ECONFIG, "has checkpoints", import(good[0], save));
    assert_int_equal(folder_count(save), 2);
    free(save);
}

/* An export is refused, and leaves nothing. */
static void not_exported(const char *from, int type, enum tr_status status, const char *text)
{
    char *to = in(top, "to");
    const int before = folder_count(top);

    assert_fails(status, text, export(from, to, type, 1 << 20));
    assert_int_equal(folder_count(top), before);
    free(to);
}

static void exports(void **state)
{
    char *large = in(top, "large"), *native = in(top, "native"), *damaged = in(top, "damaged");
    char *file = in(damaged, "iter_0000000/model_optim_rng.h5"), *data;
    const struct tr_export megatron = {.load = large,
                                       .to = "nothing",
                                       .format = TR_EXPORT_MEGATRON,
                                       .ranks = 1,
                                       .stages = 1,
                                       .interval = 10.0};
    size_t bytes;

    (void)state;
    make_checkpoint(MODEL, large, 65520.0f);
    not_exported(large, TR_WEIGHTS_F16, TR_EDATA, "that F16 cannot hold");
    make_checkpoint(
        "--model-family yuan-native --num-layers 1 --hidden-size 8 --num-attention-heads 2 "
        "--seq-length 6 --vocab-size 11",
        native, 1.0f);
    not_exported(native, TR_WEIGHTS_F32, TR_ECONFIG, "of the family yuan-native");
    assert_fails(TR_ECONFIG, "is not of a GPT-2 model", tr_weights_export(&megatron, &self));
    make_checkpoint(MODEL, damaged, 1.0f);
    data = read_all(file, &bytes);
    data[bytes - 1] ^= 1;
    file_put(file, data, bytes);
    not_exported(damaged, TR_WEIGHTS_F32, TR_EDATA, "is damaged: the checksum of");
    assert_fails(TR_ECONFIG, "is not an empty folder", export(large, good[0], TR_WEIGHTS_F32, 1));
    free(data);
    free(file);
    free(damaged);
    free(native);
    free(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changed),  cmocka_unit_test(cut),     cmocka_unit_test(missing),
        cmocka_unit_test(occupied), cmocka_unit_test(exports),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
