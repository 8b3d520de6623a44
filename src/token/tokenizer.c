/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/tokenizer.h"

#include <stdlib.h>

#include "config/config.h"
#include "config/vocab.h"

static const char eod_text[] = "<|endoftext|>";

struct tr_tokenizer {
    struct tr_bpe *bpe; /* of gpt2-bpe */
    char byte[256];     /* of bytes: every token's text */
};

struct tr_tokenizer_thread {
    struct tr_bpe_thread *bpe;
};

static void *need(void *memory)
{
    if (!memory)
        tr_die(TR_ERESOURCE, "no memory left for the tokenizer");
    return memory;
}

enum tr_status tr_tokenizer_open(int type, const char *vocab_file, const char *merge_file,
                                 struct tr_tokenizer **out)
{
    struct tr_tokenizer *t;
    struct tr_bpe *bpe = NULL;

    *out = NULL;
    if (type != TR_TOKENIZER_BYTES && type != TR_TOKENIZER_GPT2_BPE)
        return TR_FAIL(TR_ECONFIG, "this --tokenizer-type cannot tokenize text; give bytes or "
                                   "gpt2-bpe");
    if (type == TR_TOKENIZER_BYTES && (vocab_file || merge_file))
        return TR_FAIL(TR_ECONFIG,
                       "the tokenizer of --tokenizer-type bytes has no files; leave out "
                       "--%s, or give --tokenizer-type gpt2-bpe",
                       vocab_file ? "vocab-file" : "merge-file");
    if (type == TR_TOKENIZER_GPT2_BPE && (!vocab_file || !merge_file))
        return TR_FAIL(TR_ECONFIG,
                       "--tokenizer-type gpt2-bpe needs --vocab-file and --merge-file: "
                       "GPT-2's vocab.json and merges.txt; without them there is --tokenizer-type "
                       "bytes");
    if (type == TR_TOKENIZER_GPT2_BPE)
        TR_TRY(tr_bpe_open(vocab_file, merge_file, &bpe));
    t = need(calloc(1, sizeof *t));
    t->bpe = bpe;
    for (int i = 0; i < 256; i++)
        t->byte[i] = (char)i;
    *out = t;
    return TR_OK;
}

void tr_tokenizer_close(struct tr_tokenizer *t)
{
    if (!t)
        return;
    tr_bpe_close(t->bpe);
    free(t);
}

int32_t tr_tokenizer_vocab_size(const struct tr_tokenizer *t)
{
    return t->bpe ? tr_bpe_vocab_size(t->bpe) : TR_VOCAB_BYTES;
}

int32_t tr_tokenizer_eod(const struct tr_tokenizer *t)
{
    return t->bpe ? tr_bpe_eod(t->bpe) : TR_VOCAB_BYTES_EOD;
}

struct tr_tokenizer_thread *tr_tokenizer_thread_open(const struct tr_tokenizer *t)
{
    struct tr_tokenizer_thread *thread = need(calloc(1, sizeof *thread));

    if (t->bpe)
        thread->bpe = tr_bpe_thread_open();
    return thread;
}

void tr_tokenizer_thread_close(struct tr_tokenizer_thread *thread)
{
    if (!thread)
        return;
    tr_bpe_thread_close(thread->bpe);
    free(thread);
}

size_t tr_tokenizer_encode(const struct tr_tokenizer *t, struct tr_tokenizer_thread *thread,
                           const unsigned char *text, size_t bytes, int32_t *ids,
                           struct tr_bad_utf8 *bad)
{
    if (t->bpe)
        return tr_bpe_encode(t->bpe, thread->bpe, text, bytes, ids, bad);
    bad->bytes = 0;
    for (size_t i = 0; i < bytes; i++)
        ids[i] = text[i];
    return bytes;
}

size_t tr_tokenizer_cut(const struct tr_tokenizer *t, const unsigned char *text, size_t bytes)
{
    return t->bpe ? tr_bpe_cut(text, bytes) : bytes;
}

const char *tr_tokenizer_text(const struct tr_tokenizer *t, int32_t token, size_t *bytes)
{
    if (t->bpe)
        return tr_bpe_token(t->bpe, token, bytes);
    *bytes = token == TR_VOCAB_BYTES_EOD ? sizeof eod_text - 1 : 1;
    if (token < 0 || token > TR_VOCAB_BYTES_EOD)
        return NULL;
    return token == TR_VOCAB_BYTES_EOD ? eod_text : &t->byte[token];
}
