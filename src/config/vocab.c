/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/vocab.h"

#include <stdlib.h>

#include <jansson.h>

#include "util/file.h"

enum { VOCAB_LIMIT = 64 << 20 };

enum tr_status tr_vocab_read(const char *path, struct tr_vocab_file *out)
{
    json_error_t error;
    json_t *object, *token;
    char *text;

    TR_TRY(tr_file_text(path, VOCAB_LIMIT, &text));
    object = json_loads(text, 0, &error);
    free(text);
    out->size = (int64_t)json_object_size(object);
    token = json_object_get(object, "<|endoftext|>");
    out->eod = token ? json_integer_value(token) : -1;
    json_decref(object);
    if (out->size == 0)
        return TR_FAIL(TR_EDATA,
                       "--vocab-file %s is not a vocabulary, one JSON object of tokens: %s", path,
                       object ? "it has no entry" : error.text);
    return TR_OK;
}

static tr_vocab_reader *read_model;

void tr_vocab_read_models_by(tr_vocab_reader *reader)
{
    read_model = reader;
}

int tr_vocab_type(int type, const char *vocab_file, const char *model)
{
    return type == TR_TOKENIZER_GPT2_BPE && model && !vocab_file ? TR_TOKENIZER_HUGGINGFACE : type;
}

static int type_of(const struct tr_config *c)
{
    return tr_vocab_type(c->tokenizer_type, c->vocab_file, c->tokenizer_model);
}

enum tr_status tr_vocab_known(const struct tr_config *c, struct tr_vocab_file *out)
{
    const int type = type_of(c);

    *out = (struct tr_vocab_file){0};
    if (type == TR_TOKENIZER_GPT2_BPE && c->vocab_file)
        return tr_vocab_read(c->vocab_file, out);
    if ((type == TR_TOKENIZER_HUGGINGFACE || type == TR_TOKENIZER_SENTENCEPIECE ||
         type == TR_TOKENIZER_CHINESE) &&
        c->tokenizer_model && read_model)
        return read_model(type, c->tokenizer_model, out);
    return TR_OK;
}

static enum tr_status read_file(const struct tr_config *c, int64_t *size, int64_t *eod)
{
    struct tr_vocab_file f = c->vocab_known;

    if (f.size == 0)
        TR_TRY(tr_vocab_known(c, &f));
    if (f.size == 0)
        return TR_FAIL(TR_ECONFIG, "this program does not read tokenizers: give --vocab-size");
    *size = f.size;
    *eod = f.eod;
    return TR_OK;
}

/* The size that the tokenizer gives; 0 where it gives none. */
static enum tr_status read_tokenizer(const struct tr_config *c, int64_t *size, int64_t *eod)
{
    bool given = c->vocab_size != TR_UNSET_INT;

    *size = 0;
    *eod = -1;
    switch (type_of(c)) {
    case TR_TOKENIZER_BYTES:
        *size = TR_VOCAB_BYTES;
        *eod = TR_VOCAB_BYTES_EOD;
        return TR_OK;
    case TR_TOKENIZER_GPT2_BPE:
        *eod = TR_VOCAB_GPT2_EOD;
        if (c->vocab_file)
            return read_file(c, size, eod);
        return given ? TR_OK
                     : TR_FAIL(TR_ECONFIG,
                               "the size of the vocabulary is not known: give --vocab-file with "
                               "the vocabulary of gpt2-bpe, or --tokenizer-type bytes, or "
                               "--vocab-size");
    case TR_TOKENIZER_HUGGINGFACE:
    case TR_TOKENIZER_SENTENCEPIECE:
    case TR_TOKENIZER_CHINESE:
        if (c->tokenizer_model)
            return read_file(c, size, eod);
        return given ? TR_OK
                     : TR_FAIL(TR_ECONFIG, "the size of the vocabulary is not known: give "
                                           "--tokenizer-model, the folder or file of the model, or "
                                           "--vocab-size");
    default:
        if (!given)
            return TR_FAIL(TR_ECONFIG, "--tokenizer-type NullTokenizer says nothing about the "
                                       "vocabulary: give --vocab-size");
        *eod = c->vocab_size;
        return TR_OK;
    }
}

enum tr_status tr_vocab_of(const struct tr_config *c, int64_t *size, int64_t *eod)
{
    TR_TRY(read_tokenizer(c, size, eod));
    if (c->tokenizer_type == TR_TOKENIZER_NULL)
        *size = c->vocab_size + 1;
    else if (c->vocab_size != TR_UNSET_INT)
        *size = c->vocab_size;
    if (*eod >= *size)
        *eod = -1;
    return TR_OK;
}
