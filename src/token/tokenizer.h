/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_TOKENIZER_H
#define TR_TOKEN_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "token/bpe.h"
#include "util/status.h"

/*
 * Tokenizers turn text into tokens and back.
 *
 *     bytes       token = byte, 0 .. 255; 256 ends a document; 257 tokens; needs no files
 *     gpt2-bpe    byte-level byte pair encoding (token/bpe.h); "<|endoftext|>" ends a document
 *
 * A tokenizer is read-only once open and may be shared by threads; what a thread writes is in its own
 * struct tr_tokenizer_thread.
 */
struct tr_tokenizer;
struct tr_tokenizer_thread;

/*
 * `type` is one of --tokenizer-type: TR_TOKENIZER_BYTES or TR_TOKENIZER_GPT2_BPE (config/enums.def).
 * The files are those of gpt2-bpe, NULL for bytes.  TR_ECONFIG if one is needed and not given, or
 * given and not needed, or if `type` makes no tokens of text; see tr_bpe_open() for the rest.
 */
enum tr_status tr_tokenizer_open(int type, const char *vocab_file, const char *merge_file,
                                 struct tr_tokenizer **out) TR_MUST_CHECK;
void tr_tokenizer_close(struct tr_tokenizer *t);

/* The largest token plus one. */
int32_t tr_tokenizer_vocab_size(const struct tr_tokenizer *t);

/* The token that ends a document, or -1 if the vocabulary has none. */
int32_t tr_tokenizer_eod(const struct tr_tokenizer *t);

struct tr_tokenizer_thread *tr_tokenizer_thread_open(const struct tr_tokenizer *t);
void tr_tokenizer_thread_close(struct tr_tokenizer_thread *thread);

/*
 * The tokens of bytes [text, text + bytes) into ids, which has room for `bytes` of them; returns how
 * many.  `bytes` is less than 2^31.  No text is without tokens; *bad says what was not UTF-8, for
 * those tokenizers that care.
 */
size_t tr_tokenizer_encode(const struct tr_tokenizer *t, struct tr_tokenizer_thread *thread,
                           const unsigned char *text, size_t bytes, int32_t *ids,
                           struct tr_bad_utf8 *bad);

/* The largest offset in [1, bytes] where a text may be split such that its parts encoded separately
   give the tokens of the whole; 0 if there is none. */
size_t tr_tokenizer_cut(const struct tr_tokenizer *t, const unsigned char *text, size_t bytes);

/* The text of a token, *bytes long and not terminated, borrowed; NULL if there is no such token. */
const char *tr_tokenizer_text(const struct tr_tokenizer *t, int32_t token, size_t *bytes);

#endif
