/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

#include "config/vocab.h"
#include "token/chinese.h"
#include "token/folder.h"
#include "token/utf8.h"
#include "util/file.h"
#include "util/text.h"

static const char eod_text[] = "<|endoftext|>";

struct tr_tokenizer {
    struct tr_bpe *bpe;            /* of gpt2-bpe */
    struct tr_pipeline *published; /* of the types in readers[] */
    char byte[256];                /* of bytes: every token's text */
};

struct tr_tokenizer_thread {
    struct tr_bpe_thread *bpe;
    struct tr_pipeline_thread *published;
};

struct tr_decoder {
    const struct tr_tokenizer *t;
    struct tr_decoding decoding;
    bool skip;
};

static void *need(void *memory)
{
    if (!memory)
        tr_die(TR_ERESOURCE, "no memory left for the tokenizer");
    return memory;
}

/* Those that are read from --tokenizer-model. */
static const struct {
    int type;
    enum tr_status (*open)(const char *path, struct tr_pipeline **out);
} readers[] = {
    {TR_TOKENIZER_HUGGINGFACE, tr_folder_open},
    {TR_TOKENIZER_SENTENCEPIECE, tr_folder_sentencepiece},
    {TR_TOKENIZER_CHINESE, tr_chinese_open},
};
enum { READERS = sizeof readers / sizeof *readers };

static bool is_published(int type)
{
    for (int i = 0; i < READERS; i++)
        if (readers[i].type == type)
            return true;
    return false;
}

static enum tr_status open_published(int type, const char *model, struct tr_pipeline **out)
{
    for (int i = 0; i < READERS; i++)
        if (readers[i].type == type)
            return readers[i].open(model, out);
    return TR_OK;
}

static enum tr_status check_files(int type, const char *vocab_file, const char *merge_file,
                                  const char *model)
{
    if (type == TR_TOKENIZER_NULL)
        return TR_FAIL(TR_ECONFIG,
                       "this --tokenizer-type cannot tokenize text; give bytes, gpt2-bpe, "
                       "HuggingFaceTokenizer, SentencePieceTokenizer or ChineseWordPiece");
    if (type != TR_TOKENIZER_GPT2_BPE && (vocab_file || merge_file))
        return TR_FAIL(TR_ECONFIG,
                       "the tokenizer of --tokenizer-type %s has no such file; leave out "
                       "--%s, or give --tokenizer-type gpt2-bpe",
                       tr_config_spelling("tokenizer-type", type),
                       vocab_file ? "vocab-file" : "merge-file");
    if (type == TR_TOKENIZER_GPT2_BPE && (!vocab_file || !merge_file))
        return TR_FAIL(TR_ECONFIG,
                       "--tokenizer-type gpt2-bpe needs --vocab-file and --merge-file: "
                       "GPT-2's vocab.json and merges.txt; without them there is --tokenizer-type "
                       "bytes");
    if (is_published(type) && !model)
        return TR_FAIL(
            TR_ECONFIG,
            "--tokenizer-type %s needs --tokenizer-model, the folder of the model or its "
            "tokenizer's file; of ChineseWordPiece it is vocab.txt",
            tr_config_spelling("tokenizer-type", type));
    if (!is_published(type) && model)
        return TR_FAIL(
            TR_ECONFIG,
            "--tokenizer-model is for --tokenizer-type HuggingFaceTokenizer, "
            "SentencePieceTokenizer and ChineseWordPiece; give one of them, or leave it out");
    return TR_OK;
}

enum tr_status tr_tokenizer_open(int type, const char *vocab_file, const char *merge_file,
                                 const char *model, struct tr_tokenizer **out)
{
    struct tr_pipeline *published = NULL;
    struct tr_bpe *bpe = NULL;
    struct tr_tokenizer *t;

    *out = NULL;
    type = tr_vocab_type(type, vocab_file, model);
    TR_TRY(check_files(type, vocab_file, merge_file, model));
    if (type == TR_TOKENIZER_GPT2_BPE)
        TR_TRY(tr_bpe_open(vocab_file, merge_file, &bpe));
    TR_TRY(open_published(type, model, &published));
    t = need(calloc(1, sizeof *t));
    t->bpe = bpe;
    t->published = published;
    for (int i = 0; i < 256; i++)
        t->byte[i] = (char)i;
    *out = t;
    return TR_OK;
}

enum tr_status tr_tokenizer_count(int type, const char *model, struct tr_vocab_file *out)
{
    struct tr_tokenizer *t;

    TR_TRY(tr_tokenizer_open(type, NULL, NULL, model, &t));
    out->size = tr_tokenizer_vocab_size(t);
    out->eod = tr_tokenizer_eod(t);
    tr_tokenizer_close(t);
    return TR_OK;
}

void tr_tokenizer_close(struct tr_tokenizer *t)
{
    if (!t)
        return;
    tr_bpe_close(t->bpe);
    tr_pipeline_close(t->published);
    free(t);
}

int32_t tr_tokenizer_vocab_size(const struct tr_tokenizer *t)
{
    if (t->published)
        return t->published->size;
    return t->bpe ? tr_bpe_vocab_size(t->bpe) : TR_VOCAB_BYTES;
}

int32_t tr_tokenizer_eod(const struct tr_tokenizer *t)
{
    if (t->published)
        return t->published->eos;
    return t->bpe ? tr_bpe_eod(t->bpe) : TR_VOCAB_BYTES_EOD;
}

int32_t tr_tokenizer_bos(const struct tr_tokenizer *t)
{
    return t->published ? t->published->bos : -1;
}

/* "; a text begins with 1 "<s>"", or nothing. */
static char *end_of_text(const struct tr_tokenizer *t, const char *what, int32_t id)
{
    size_t bytes;
    const char *text = tr_tokenizer_text(t, id, &bytes);

    if (!text)
        return tr_format("; no token %s a text", what);
    return tr_format("; %d \"%.*s\" %s a text", id, (int)bytes, text, what);
}

char *tr_tokenizer_describe(const struct tr_tokenizer *t)
{
    static const char *const kinds[] = {"BPE", "WordPiece", "Unigram",
                                        "BPE", "unigram",   "ChineseWordPiece"};
    const struct tr_pipeline *p = t->published;
    char *begin, *end, *line;

    if (!p)
        return tr_format("%s, %d tokens", t->bpe ? "gpt2-bpe" : "bytes",
                         tr_tokenizer_vocab_size(t));
    begin = end_of_text(t, "begins", p->bos);
    end = end_of_text(t, "ends", p->eos);
    line = tr_format("%s, %s%s%s, %d tokens, %zu added%s%s", p->format,
                     p->model.byte_level ? "byte-level " : "", kinds[p->model.kind],
                     p->model.byte_fallback ? " with byte fallback" : "", p->size, p->added_count,
                     begin, end);
    free(begin);
    free(end);
    return tr_printable(line);
}

struct tr_tokenizer_thread *tr_tokenizer_thread_open(const struct tr_tokenizer *t)
{
    struct tr_tokenizer_thread *thread = need(calloc(1, sizeof *thread));

    if (t->bpe)
        thread->bpe = tr_bpe_thread_open();
    if (t->published)
        thread->published = tr_pipeline_thread_open(t->published);
    return thread;
}

void tr_tokenizer_thread_close(struct tr_tokenizer_thread *thread)
{
    if (!thread)
        return;
    tr_bpe_thread_close(thread->bpe);
    tr_pipeline_thread_close(thread->published);
    free(thread);
}

bool tr_tokenizer_encode(const struct tr_tokenizer *t, struct tr_tokenizer_thread *thread,
                         const unsigned char *text, size_t bytes, struct tr_tokens *out,
                         struct tr_bad_utf8 *bad)
{
    int32_t *ids;

    bad->bytes = 0;
    if (t->published)
        return tr_pipeline_encode(t->published, thread->published, text, bytes, out, bad);
    ids = tr_tokens_room(out, bytes);
    if (t->bpe) {
        out->count += tr_bpe_encode(t->bpe, thread->bpe, text, bytes, ids, bad);
        return true;
    }
    for (size_t i = 0; i < bytes; i++)
        ids[i] = text[i];
    out->count += bytes;
    return true;
}

void tr_tokenizer_special(const struct tr_tokenizer *t, const struct tr_tokens **before,
                          const struct tr_tokens **after)
{
    static const struct tr_tokens none;

    *before = t->published ? &t->published->before : &none;
    *after = t->published ? &t->published->after : &none;
}

/* The last blank behind something that is no white space. */
static size_t last_blank(const unsigned char *text, size_t bytes)
{
    for (size_t i = bytes; i > 1; i--)
        if (text[i - 1] == ' ' && !tr_utf8_space_before(text, i - 1))
            return i - 1;
    return 0;
}

size_t tr_tokenizer_cut(const struct tr_tokenizer *t, const unsigned char *text, size_t bytes)
{
    if (t->published)
        return t->published->cuts ? last_blank(text, bytes) : 0;
    return t->bpe ? tr_bpe_cut(text, bytes) : bytes;
}

const char *tr_tokenizer_text(const struct tr_tokenizer *t, int32_t token, size_t *bytes)
{
    if (t->published)
        return tr_pipeline_text(t->published, token, bytes);
    if (t->bpe)
        return tr_bpe_token(t->bpe, token, bytes);
    *bytes = token == TR_VOCAB_BYTES_EOD ? sizeof eod_text - 1 : 1;
    if (token < 0 || token > TR_VOCAB_BYTES_EOD)
        return NULL;
    return token == TR_VOCAB_BYTES_EOD ? eod_text : &t->byte[token];
}

struct tr_decoder *tr_decoder_open(const struct tr_tokenizer *t, unsigned flags)
{
    struct tr_decoder *d = need(calloc(1, sizeof *d));

    d->t = t;
    d->skip = (flags & TR_DECODE_SKIP_SPECIAL) != 0;
    if (t->published)
        tr_pipeline_decoding(t->published, false, NULL, &d->decoding);
    d->decoding.raw = (flags & TR_DECODE_RAW) != 0;
    return d;
}

void tr_decoder_close(struct tr_decoder *d)
{
    if (!d)
        return;
    tr_decoding_release(&d->decoding);
    free(d);
}

bool tr_decoder_add(struct tr_decoder *d, int32_t token, struct tr_bytes *out)
{
    size_t bytes;
    const char *text = tr_tokenizer_text(d->t, token, &bytes);

    if (!text)
        return false;
    d->decoding.out = out;
    if (d->t->published)
        tr_pipeline_decode(d->t->published, &d->decoding, token, d->skip);
    else if (!d->skip || token != tr_tokenizer_eod(d->t))
        tr_decoding_add(&d->decoding, text, bytes);
    return true;
}

void tr_decoder_end(struct tr_decoder *d, struct tr_bytes *out)
{
    d->decoding.out = out;
    tr_decoding_end(&d->decoding);
}
