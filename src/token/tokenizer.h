/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_TOKENIZER_H
#define TR_TOKEN_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "token/bpe.h"
#include "token/grow.h"
#include "util/status.h"

/*
 * Tokenizers turn text into tokens and back.
 *
 *     bytes       token = byte, 0 .. 255; 256 ends a document; 257 tokens; needs no files
 *     gpt2-bpe    byte-level byte pair encoding (token/bpe.h); "<|endoftext|>" ends a document
 *     HuggingFaceTokenizer, SentencePieceTokenizer
 *                 those of published models (token/folder.h); their end-of-text token ends a document
 *     ChineseWordPiece
 *                 Yuan's, from a list of tokens (token/chinese.h); "<eod>" ends a document
 *
 * A tokenizer is read-only once open and may be shared by threads; what a thread writes is in its own
 * struct tr_tokenizer_thread.
 */
struct tr_tokenizer;
struct tr_tokenizer_thread;

/*
 * `type` is one of --tokenizer-type but TR_TOKENIZER_NULL (config/enums.def).  The first two files are those
 * of gpt2-bpe, `model` is --tokenizer-model, a file or a folder; NULL for those that have none.
 * TR_ECONFIG if one is needed and not given, or given and not needed, or if `type` makes no tokens of
 * text; see tr_bpe_open() and tr_folder_open() for the rest.
 */
enum tr_status tr_tokenizer_open(int type, const char *vocab_file, const char *merge_file,
                                 const char *model, struct tr_tokenizer **out) TR_MUST_CHECK;
void tr_tokenizer_close(struct tr_tokenizer *t);

/* For config/vocab.h: what is in --tokenizer-model. */
enum tr_status tr_tokenizer_count(int type, const char *model,
                                  struct tr_vocab_file *out) TR_MUST_CHECK;

/* The largest token plus one. */
int32_t tr_tokenizer_vocab_size(const struct tr_tokenizer *t);

/* The token that ends a document, and the one that begins it; -1 if the vocabulary has none. */
int32_t tr_tokenizer_eod(const struct tr_tokenizer *t);
int32_t tr_tokenizer_bos(const struct tr_tokenizer *t);

/* What was recognised, for a line of a log: kind, size of the vocabulary, added tokens, first and last token of
   a text.  Owned by the caller. */
char *tr_tokenizer_describe(const struct tr_tokenizer *t);

struct tr_tokenizer_thread *tr_tokenizer_thread_open(const struct tr_tokenizer *t);
void tr_tokenizer_thread_close(struct tr_tokenizer_thread *thread);

/*
 * Append the tokens of bytes [text, text + bytes) to *out.  `bytes` is less than 2^31.  *bad says what was
 * not UTF-8, for those tokenizers that care.  False if a regular expression of the tokenizer took more work
 * than it was allowed.
 */
bool tr_tokenizer_encode(const struct tr_tokenizer *t, struct tr_tokenizer_thread *thread,
                         const unsigned char *text, size_t bytes, struct tr_tokens *out,
                         struct tr_bad_utf8 *bad) TR_MUST_CHECK;

/* The special tokens that other programs put before and behind a text, borrowed; tr_tokenizer_encode() puts
   none.  Where none are known both are empty. */
void tr_tokenizer_special(const struct tr_tokenizer *t, const struct tr_tokens **before,
                          const struct tr_tokens **after);

/* The largest offset in [1, bytes) where a text may be split such that its parts encoded separately
   give the tokens of the whole; 0 if there is none, or none is known. */
size_t tr_tokenizer_cut(const struct tr_tokenizer *t, const unsigned char *text, size_t bytes);

/* The text of a token by itself, *bytes long and not terminated, borrowed; NULL if there is no such token.
   Within a text it may be another: see tr_decoder. */
const char *tr_tokenizer_text(const struct tr_tokenizer *t, int32_t token, size_t *bytes);

/*
 * From tokens to text, one at a time.  Bytes that may yet be part of a character wait for the next
 * token, so that what comes out is UTF-8 whenever one looks; bytes that are none become U+FFFD.
 */
struct tr_decoder;
enum {
    TR_DECODE_SKIP_SPECIAL = 1, /* special tokens have no text */
    TR_DECODE_RAW = 2           /* bytes come out as they are, at once */
};
struct tr_decoder *tr_decoder_open(const struct tr_tokenizer *t, unsigned flags);
void tr_decoder_close(struct tr_decoder *d);

/* Append what this token makes certain; false, and nothing, if there is no such token. */
bool tr_decoder_add(struct tr_decoder *d, int32_t token, struct tr_bytes *out);

/* Append what waits.  A new text may follow. */
void tr_decoder_end(struct tr_decoder *d, struct tr_bytes *out);

#endif
