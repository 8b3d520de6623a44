/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_SENTENCEPIECE_H
#define TR_TOKEN_SENTENCEPIECE_H

#include "token/pipeline.h"
#include "util/status.h"

/*
 * SentencePiece's .model, a protocol buffer (sentencepiece_model.proto): models unigram and bpe, with byte
 * fallback, its normalization map, the prefix, and user-defined and control pieces.  Refused by name: the
 * models word and char, a map for decoding, unused pieces of a bpe model.  TR_EIO if it cannot be read,
 * TR_EDATA in a sentence with the file and the place.
 */
enum tr_status tr_sentencepiece_open(const char *path, struct tr_pipeline **out) TR_MUST_CHECK;

#endif
