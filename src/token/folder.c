/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/folder.h"

#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "token/huggingface.h"
#include "token/sentencepiece.h"
#include "util/file.h"

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool ends_in(const char *path, const char *suffix)
{
    const size_t length = strlen(path), tail = strlen(suffix);

    return length >= tail && strcmp(path + length - tail, suffix) == 0;
}

/* folder/name if it is there, owned by the caller, else NULL. */
static char *in_folder(const char *folder, const char *name)
{
    char *path = tr_format("%s/%s", folder, name);

    if (access(path, F_OK) == 0)
        return path;
    free(path);
    return NULL;
}

/* A token of tokenizer_config.json: a string, or an object with its content; -1 if there is none. */
static int32_t named(const struct tr_pipeline *p, const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);
    const json_t *content = json_object_get(value, "content");

    value = content ? content : value;
    return json_is_string(value)
               ? tr_pipeline_id(p, json_string_value(value), json_string_length(value))
               : -1;
}

/* Without a configuration: the names that models have for it. */
static int32_t usual(const struct tr_pipeline *p, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const int32_t id = tr_pipeline_id(p, names[i], strlen(names[i]));

        if (id >= 0)
            return id;
    }
    return -1;
}

static void guess_ends(struct tr_pipeline *p)
{
    static const char *const begins[] = {"<|begin_of_text|>", "<s>", "<bos>"};
    static const char *const ends[] = {"<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"};

    if (p->bos < 0)
        p->bos = usual(p, begins, sizeof begins / sizeof *begins);
    if (p->eos < 0)
        p->eos = usual(p, ends, sizeof ends / sizeof *ends);
}

/* BERT's names for what begins and ends a text, as DeBERTa's SentencePiece model has them. */
static void take_pieces(struct tr_pipeline *p)
{
    static const char first[] = "[CLS]", last[] = "[SEP]";
    const int32_t cls = tr_pipeline_id(p, first, strlen(first));
    const int32_t sep = tr_pipeline_id(p, last, strlen(last));

    if (cls < 0 || sep < 0 || p->before.count + p->after.count > 0)
        return;
    tr_tokens_add(&p->before, cls);
    tr_tokens_add(&p->after, sep);
}

/* A template is in tokenizer.json; of the other kinds the configuration says what stands around a text. */
static void take_config(struct tr_pipeline *p, const json_t *config, bool has_template)
{
    const int32_t bos = named(p, config, "bos_token"), eos = named(p, config, "eos_token");

    p->bos = bos >= 0 ? bos : p->bos;
    p->eos = eos >= 0 ? eos : p->eos;
    if (has_template)
        return;
    if (json_is_true(json_object_get(config, "add_bos_token")) && p->bos >= 0)
        tr_tokens_add(&p->before, p->bos);
    if (json_is_true(json_object_get(config, "add_eos_token")) && p->eos >= 0)
        tr_tokens_add(&p->after, p->eos);
    take_pieces(p);
}

/* Its model_max_length is often 1e30, written as an integer, which fits no integer. */
static enum tr_status open_config(const char *folder, json_t **out)
{
    char *path = in_folder(folder, "tokenizer_config.json");
    enum tr_status s = TR_OK;

    *out = NULL;
    if (path)
        s = tr_huggingface_json(path, JSON_DECODE_INT_AS_REAL, out);
    free(path);
    return s;
}

static enum tr_status add_listed(struct tr_pipeline *p, const char *folder)
{
    char *path = in_folder(folder, "added_tokens.json");
    json_t *list = NULL, *id;
    enum tr_status s = TR_OK;
    const char *text;

    if (!path)
        return TR_OK;
    s = tr_huggingface_json(path, 0, &list);
    if (s == TR_OK) {
        json_object_foreach(list, text, id)
        {
            if (s == TR_OK)
                s = tr_huggingface_add(p, path, text,
                                       json_is_integer(id) ? json_integer_value(id) : -1, NULL);
        }
    }
    json_decref(list);
    free(path);
    return s;
}

/* Those that tokenizer_config.json lists by their ids. */
static enum tr_status add_configured(struct tr_pipeline *p, const char *folder,
                                     const json_t *config)
{
    json_t *list = json_object_get(config, "added_tokens_decoder"), *rules;
    char *path = tr_format("%s/tokenizer_config.json", folder);
    enum tr_status s = TR_OK;
    const char *key;

    json_object_foreach(list, key, rules)
    {
        const char *text = json_string_value(json_object_get(rules, "content"));
        char *end;
        const long id = strtol(key, &end, 10);

        if (s == TR_OK && (!text || *end || end == key))
            s = TR_FAIL(TR_EDATA,
                        "%s: entry \"%.40s\" of added_tokens_decoder is not a number with "
                        "the content of a token",
                        path, key);
        else if (s == TR_OK)
            s = tr_huggingface_add(p, path, text, id, rules);
    }
    free(path);
    return s;
}

/* Of tokens without rules of their own: the configured ones are in the vocabulary as well. */
static enum tr_status add_special(struct tr_pipeline *p, const char *folder, const json_t *config)
{
    static const char *const keys[] = {"bos_token", "eos_token", "unk_token", "pad_token"};
    static const char end[] = "<|endoftext|>";

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const int32_t id = named(p, config, keys[i]);

        if (id >= 0 && (size_t)id < p->model.count)
            TR_TRY(tr_huggingface_add(p, folder, p->model.entries[id].text, id, NULL));
    }
    if (!config && tr_pipeline_id(p, end, strlen(end)) >= 0)
        return tr_huggingface_add(p, folder, end, tr_pipeline_id(p, end, strlen(end)), NULL);
    return TR_OK;
}

static enum tr_status open_gpt2(const char *folder, const char *vocab, const char *merges,
                                const json_t *config, struct tr_pipeline **out)
{
    const bool prefix = json_is_true(json_object_get(config, "add_prefix_space"));
    enum tr_status s;

    TR_TRY(tr_huggingface_gpt2(vocab, merges, prefix, out));
    s = add_configured(*out, folder, config);
    if (s == TR_OK)
        s = add_listed(*out, folder);
    if (s == TR_OK)
        s = add_special(*out, folder, config);
    if (s == TR_OK)
        s = tr_pipeline_finish(*out, vocab);
    if (s != TR_OK) {
        tr_pipeline_close(*out);
        *out = NULL;
    }
    return s;
}

/* The SentencePiece model of a folder, or NULL; owned by the caller. */
static char *model_in(const char *folder)
{
    static const char *const models[] = {"tokenizer.model", "spiece.model", "spm.model",
                                         "sentencepiece.bpe.model"};
    char *model = NULL;

    for (size_t i = 0; i < sizeof models / sizeof *models && !model; i++)
        model = in_folder(folder, models[i]);
    return model;
}

bool tr_folder_has(const char *folder)
{
    char *json = in_folder(folder, "tokenizer.json"), *vocab = in_folder(folder, "vocab.json");
    char *merges = in_folder(folder, "merges.txt"), *model = model_in(folder);
    const bool has = json || (vocab && merges) || model;

    free(json);
    free(vocab);
    free(merges);
    free(model);
    return has;
}

/* What a folder has, with its configuration. */
static enum tr_status open_kind(const char *folder, const json_t *config, bool only_sentencepiece,
                                struct tr_pipeline **out, bool *has_template)
{
    char *json = only_sentencepiece ? NULL : in_folder(folder, "tokenizer.json");
    char *vocab = only_sentencepiece ? NULL : in_folder(folder, "vocab.json");
    char *merges = only_sentencepiece ? NULL : in_folder(folder, "merges.txt");
    char *model = model_in(folder);
    enum tr_status s;

    *has_template = json != NULL;
    if (json)
        s = tr_huggingface_open(json, out);
    else if (vocab && merges)
        s = open_gpt2(folder, vocab, merges, config, out);
    else if (model)
        s = tr_sentencepiece_open(model, out);
    else
        s = TR_FAIL(
            TR_EIO,
            "%s has no tokenizer: it should have %stokenizer.model, spiece.model, spm.model "
            "or sentencepiece.bpe.model",
            folder, only_sentencepiece ? "" : "tokenizer.json, or vocab.json with merges.txt, or ");
    free(json);
    free(vocab);
    free(merges);
    free(model);
    return s;
}

/* A file by itself: what it is shows in its name. */
static enum tr_status open_file(const char *path, bool only_sentencepiece, struct tr_pipeline **out,
                                bool *has_template)
{
    *has_template = !only_sentencepiece && ends_in(path, ".json");
    if (*has_template)
        return tr_huggingface_open(path, out);
    return tr_sentencepiece_open(path, out);
}

static enum tr_status open_any(const char *path, bool only_sentencepiece, struct tr_pipeline **out)
{
    const bool folder = is_folder(path);
    char *copy = tr_format("%s", path);
    bool has_template = false;
    json_t *config;
    enum tr_status s;

    *out = NULL;
    s = open_config(folder ? path : dirname(copy), &config);
    if (s == TR_OK)
        s = folder ? open_kind(path, config, only_sentencepiece, out, &has_template)
                   : open_file(path, only_sentencepiece, out, &has_template);
    if (s == TR_OK) {
        take_config(*out, config, has_template);
        guess_ends(*out);
    }
    json_decref(config);
    free(copy);
    return s;
}

enum tr_status tr_folder_open(const char *path, struct tr_pipeline **out)
{
    return open_any(path, false, out);
}

enum tr_status tr_folder_sentencepiece(const char *path, struct tr_pipeline **out)
{
    return open_any(path, true, out);
}
