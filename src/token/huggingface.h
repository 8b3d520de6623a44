/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_HUGGINGFACE_H
#define TR_TOKEN_HUGGINGFACE_H

#include <jansson.h>

#include "token/pipeline.h"
#include "util/status.h"

/*
 * Hugging Face's tokenizer.json.  What it may have is in docs/formats.md; anything else is refused by its name.
 * Truncation and padding are left aside: they are of batches, not of texts.
 */

/* TR_EIO if the file cannot be read, TR_EDATA in a sentence with the file and the place. */
enum tr_status tr_huggingface_open(const char *path, struct tr_pipeline **out) TR_MUST_CHECK;

/* GPT-2's two files as such a tokenizer: byte-level BPE, pieces by GPT-2's expression. */
enum tr_status tr_huggingface_gpt2(const char *vocab_file, const char *merge_file,
                                   bool prefix_space, struct tr_pipeline **out) TR_MUST_CHECK;

/* Parse a JSON object of at most 256 MiB from a file, owned by the caller; `flags` are jansson's. */
enum tr_status tr_huggingface_json(const char *path, size_t flags, json_t **out) TR_MUST_CHECK;

/* Add a token, if it is none yet: `rules` has the fields of an entry of added_tokens, or is NULL. */
enum tr_status tr_huggingface_add(struct tr_pipeline *p, const char *path, const char *text,
                                  int64_t id, const json_t *rules) TR_MUST_CHECK;

#endif
