/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_DECODER_H
#define TR_TOKEN_DECODER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "token/grow.h"

/* Steps from the texts of tokens to a text: the decoders of tokenizer.json, and SentencePiece's. */
enum tr_decode_kind {
    TR_DECODE_BYTE_LEVEL,    /* characters of GPT-2's alphabet are bytes */
    TR_DECODE_REPLACE,       /* `text` by `content` */
    TR_DECODE_BYTE_FALLBACK, /* <0x41> are bytes: characters where a whole run of them is UTF-8 */
    TR_DECODE_FUSE,          /* all tokens are one from here on */
    TR_DECODE_STRIP,         /* up to `left` and `right` times `text` at the ends */
    TR_DECODE_METASPACE,     /* `text` is a blank; not in the first token with `prefix` */
    TR_DECODE_WORDPIECE,     /* `text` continues a word, others begin one; with `cleanup` */
    TR_DECODE_SENTENCEPIECE, /* U+2581 is a blank; not as the first character with `prefix` */
    TR_DECODE_JOIN           /* blanks between tokens */
};

struct tr_decode_step {
    enum tr_decode_kind kind;
    struct tr_bytes text, content; /* owned */
    size_t left, right;
    bool prefix, all_prefix, cleanup;
};
void tr_decode_step_release(struct tr_decode_step *s);

enum { TR_DECODE_STEPS = 16 };

/* What has come through so far, and what waits. */
struct tr_decode_state {
    struct tr_bytes waits; /* owned */
    size_t seen;           /* tokens, or characters taken off the left end */
    bool fused, open;
};

struct tr_decoding {
    const struct tr_decode_step *steps;
    size_t count;           /* at most TR_DECODE_STEPS */
    const int16_t *byte_of; /* [512], of GPT-2's alphabet */
    bool raw;               /* bytes that are not UTF-8 come out as they are */
    struct tr_decode_state state[TR_DECODE_STEPS + 1];
    struct tr_bytes room[TR_DECODE_STEPS]; /* owned */
    struct tr_bytes *out;
};
void tr_decoding_release(struct tr_decoding *d);

/*
 * Append to d->out what the next token of this text makes certain; and at its end the rest, after which a
 * new text may begin.  What comes out is UTF-8 in whole characters, unless `raw`: bytes that are
 * none are U+FFFD, one for each longest beginning of a character.
 */
void tr_decoding_add(struct tr_decoding *d, const char *token, size_t bytes);
void tr_decoding_end(struct tr_decoding *d);

#endif
