/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/vocab.h"

#include <stdlib.h>

#include <jansson.h>

#include "util/file.h"

enum { VOCAB_LIMIT = 64 << 20 };

static enum tr_status count_entries(const char *path, int64_t *out)
{
    json_error_t error;
    json_t *object;
    char *text;

    TR_TRY(tr_file_text(path, VOCAB_LIMIT, &text));
    object = json_loads(text, 0, &error);
    *out = (int64_t)json_object_size(object);
    json_decref(object);
    free(text);
    if (*out == 0)
        return TR_FAIL(TR_EDATA,
                       "--vocab-file %s is not a vocabulary, one JSON object of tokens: %s", path,
                       object ? "it has no entry" : error.text);
    return TR_OK;
}

enum tr_status tr_vocab_size(const struct tr_config *c, int64_t *out)
{
    if (c->vocab_size != TR_UNSET_INT)
        *out = c->vocab_size;
    else if (c->tokenizer_type == TR_TOKENIZER_BYTES)
        *out = TR_VOCAB_BYTES;
    else if (c->tokenizer_type == TR_TOKENIZER_GPT2_BPE && c->vocab_file)
        return count_entries(c->vocab_file, out);
    else if (c->tokenizer_type == TR_TOKENIZER_GPT2_BPE)
        return TR_FAIL(TR_ECONFIG,
                       "the size of the vocabulary is not known: give --vocab-file with "
                       "the vocabulary of gpt2-bpe, or --tokenizer-type bytes, or "
                       "--vocab-size");
    else
        return TR_FAIL(TR_ECONFIG, "--tokenizer-type NullTokenizer says nothing about the "
                                   "vocabulary: give --vocab-size");
    return TR_OK;
}
