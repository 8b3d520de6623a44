/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_PIPELINE_H
#define TR_TOKEN_PIPELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "token/added.h"
#include "token/bpe.h"
#include "token/decoder.h"
#include "token/normal.h"
#include "token/splitter.h"
#include "token/subword.h"
#include "util/status.h"

/*
 * A tokenizer of a published model, whatever file it came from: tokens that are taken out of the text
 * first, steps that normalize the rest, steps that split it, a model that makes tokens of the pieces,
 * and steps back.  Read-only once open; threads share it.
 *
 * Bytes that are not UTF-8: a byte-level vocabulary keeps them, each longest run as a piece of its own, as
 * gpt2-bpe does; for the others each such byte is U+FFFD.
 */
struct tr_pipeline {
    const char *format; /* "tokenizer.json", "SentencePiece", ... */
    struct tr_added *added;
    size_t added_count;
    struct tr_added_set raw, normalized;
    struct tr_normal_step *normal;
    size_t normal_count;
    struct tr_split_step *split;
    size_t split_count;
    struct tr_subword model;
    struct tr_decode_step *decode;
    size_t decode_count;
    struct tr_bytes surface;        /* SentencePiece's text for its unknown piece */
    struct tr_tokens before, after; /* what a template puts around a document */
    int32_t bos, eos;               /* -1: none */
    int32_t size;                   /* the largest id plus one */
    bool cuts; /* texts may be cut before a blank behind something else: the reader knows it of the
                  patterns, tr_pipeline_finish() of the rest */

    /* Made by tr_pipeline_finish(). */
    struct tr_char_classes *classes;
    int16_t byte_of[512];
    int32_t *added_of;      /* [size] index in `added`, or -1 */
    struct tr_bytes *texts; /* [size] what each token stands for by itself */
};

struct tr_pipeline *tr_pipeline_new(const char *format);

/* What remains to do once all is read: TR_EDATA, in a sentence that begins with `where`. */
enum tr_status tr_pipeline_finish(struct tr_pipeline *p, const char *where) TR_MUST_CHECK;
void tr_pipeline_close(struct tr_pipeline *p);

/* The id of a token by its spelling, added ones first; -1 if there is none. */
int32_t tr_pipeline_id(const struct tr_pipeline *p, const char *text, size_t bytes);

/* The bytes of a token by itself, borrowed; NULL if there is no such id. */
const char *tr_pipeline_text(const struct tr_pipeline *p, int32_t id, size_t *bytes);

struct tr_pipeline_thread;
struct tr_pipeline_thread *tr_pipeline_thread_open(const struct tr_pipeline *p);
void tr_pipeline_thread_close(struct tr_pipeline_thread *t);

/* Append the tokens of a document, without what a template puts around it.  False if a regular expression
   took more work than it was allowed: then they are not those of other programs. */
bool tr_pipeline_encode(const struct tr_pipeline *p, struct tr_pipeline_thread *t,
                        const unsigned char *text, size_t bytes, struct tr_tokens *out,
                        struct tr_bad_utf8 *bad) TR_MUST_CHECK;

/* A decoding of this tokenizer, to be released by tr_decoding_release(). */
void tr_pipeline_decoding(const struct tr_pipeline *p, bool raw, struct tr_bytes *out,
                          struct tr_decoding *d);

/* The next token of it: nothing for an id that there is none of, nor for a special one with `skip`. */
void tr_pipeline_decode(const struct tr_pipeline *p, struct tr_decoding *d, int32_t id, bool skip);

#endif
