/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_CONFIG_VOCAB_H
#define TR_CONFIG_VOCAB_H

#include "config/config.h"

/* Byte tokens: 0 to 255 are the bytes, 256 is the end of a document. */
enum { TR_VOCAB_BYTES = 257 };

/*
 * The true size of the vocabulary: --vocab-size if it was given, otherwise what the tokenizer
 * says: TR_VOCAB_BYTES for bytes, the number of entries of --vocab-file for gpt2-bpe (50257).
 * TR_ECONFIG if neither says it, TR_EIO or TR_EDATA if the file cannot be read or is not a JSON
 * object.
 */
enum tr_status tr_vocab_size(const struct tr_config *c, int64_t *out) TR_MUST_CHECK;

#endif
