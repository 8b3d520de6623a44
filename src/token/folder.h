/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_FOLDER_H
#define TR_TOKEN_FOLDER_H

#include <stdbool.h>

#include "token/pipeline.h"
#include "util/status.h"

/*
 * The tokenizer of a published model from `path`: a folder, a tokenizer.json, or a SentencePiece model.
 * Of a folder it is the first of tokenizer.json; vocab.json with merges.txt, and added_tokens.json;
 * tokenizer.model, spiece.model, spm.model, sentencepiece.bpe.model.  tokenizer_config.json beside it
 * says which tokens begin and end a text.  TR_EIO if nothing is found or can be read, TR_EDATA in a
 * sentence with the file and the place.
 */
enum tr_status tr_folder_open(const char *path, struct tr_pipeline **out) TR_MUST_CHECK;

/* Whether a folder has a tokenizer of a published model: one of these files. */
bool tr_folder_has(const char *folder);

/* As tr_folder_open(), and it must be a SentencePiece model. */
enum tr_status tr_folder_sentencepiece(const char *path, struct tr_pipeline **out) TR_MUST_CHECK;

#endif
