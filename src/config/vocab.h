/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_VOCAB_H
#define TR_CONFIG_VOCAB_H

#include "config/config.h"

/*
 * The vocabularies and the token in each that ends a document ("end of text"):
 *
 *     bytes           tokens 0 to 255 are the bytes, 256 ends a document
 *     gpt2-bpe        as many as --vocab-file has entries, "<|endoftext|>" among them; without the
 *                     file 50256 ends a document, as in GPT-2's own
 *     NullTokenizer   --vocab-size tokens, and one more, the last, that ends a document: Megatron's
 *                     rule, by which --vocab-size 50256 stands for GPT-2's 50257
 *
 *     HuggingFaceTokenizer, SentencePieceTokenizer, ChineseWordPiece
 *                     as --tokenizer-model says
 *
 * For the others --vocab-size is the true size and overrides the one above.
 */
enum { TR_VOCAB_BYTES = 257, TR_VOCAB_BYTES_EOD = 256, TR_VOCAB_GPT2_EOD = 50256 };

/*
 * The true size of the vocabulary and the token that ends a document, -1 if none below the size
 * does.  TR_ECONFIG if nothing says the size, TR_EIO or TR_EDATA if the file cannot be read or is
 * not a JSON object.
 */
enum tr_status tr_vocab_of(const struct tr_config *c, int64_t *size, int64_t *eod) TR_MUST_CHECK;

/* What is in the vocabulary of gpt2-bpe at `path`: its entries, and the number of "<|endoftext|>" or -1.
   TR_EIO, TR_EDATA as above. */
enum tr_status tr_vocab_read(const char *path, struct tr_vocab_file *out) TR_MUST_CHECK;

/* What reads --tokenizer-model: token/, which knows it, lies above config/.  Set once, before any other
   thread runs; without it those tokenizers need --vocab-size. */
typedef enum tr_status tr_vocab_reader(int tokenizer_type, const char *model,
                                       struct tr_vocab_file *out);
void tr_vocab_read_models_by(tr_vocab_reader *reader);

/* The type that counts: --tokenizer-model with gpt2-bpe, the default, and no vocabulary of it is the tokenizer of
   that folder, HuggingFaceTokenizer. */
int tr_vocab_type(int type, const char *vocab_file, const char *model);

/* What is in the tokenizer's file, if it has one that says so: size 0 where it has none. */
enum tr_status tr_vocab_known(const struct tr_config *c, struct tr_vocab_file *out) TR_MUST_CHECK;

#endif
