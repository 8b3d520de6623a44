/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_SPLITTER_H
#define TR_TOKEN_SPLITTER_H

#include <stdbool.h>
#include <stddef.h>

#include "token/grow.h"
#include "token/pattern.h"
#include "token/pieces.h"

/* Steps that split a text into the pieces that a model sees: the pre-tokenizers of tokenizer.json. */
enum tr_split_kind {
    TR_SPLIT_PATTERN, /* at what a pattern matches, or where `text` is */
    TR_SPLIT_SPACES,  /* at characters that are white space */
    TR_SPLIT_PUNCTUATION,
    TR_SPLIT_NUMBERS,
    TR_SPLIT_BYTE_LEVEL, /* GPT-2's pieces */
    TR_SPLIT_METASPACE,  /* blanks become `text`, one before all; at `text` */
};

/* What becomes of a match, and of what lies between matches. */
enum tr_split_behaviour {
    TR_SPLIT_REMOVED,
    TR_SPLIT_ISOLATED,
    TR_SPLIT_MERGED_WITH_PREVIOUS,
    TR_SPLIT_MERGED_WITH_NEXT,
    TR_SPLIT_CONTIGUOUS
};

enum tr_split_prepend { TR_PREPEND_NEVER, TR_PREPEND_FIRST, TR_PREPEND_ALWAYS };

struct tr_split_step {
    enum tr_split_kind kind;
    enum tr_split_behaviour behaviour;
    bool invert; /* what lies between matches counts as matches */
    bool whole;  /* of BYTE_LEVEL and METASPACE: do not split */
    enum tr_split_prepend
        prepend;                /* of the same: a blank, or `text`, before a piece that has none */
    struct tr_pattern *pattern; /* owned, or NULL */
    struct tr_bytes text;       /* owned */
};
void tr_split_step_release(struct tr_split_step *s);

enum { TR_SPLIT_STEPS = 16 };

/* What gets the pieces, none of them empty.  Borrowed until it returns. */
typedef void tr_split_sink(void *ctx, const unsigned char *piece, size_t bytes);

struct tr_splitter {
    const struct tr_split_step *steps;
    size_t count; /* at most TR_SPLIT_STEPS */
    const struct tr_char_classes *classes;
    struct tr_match *match;
    struct tr_bytes room[TR_SPLIT_STEPS]; /* owned */
    tr_split_sink *sink;
    void *ctx;
    bool failed; /* a pattern took more work than it was allowed; the rest was one piece */
};
void tr_splitter_release(struct tr_splitter *s);

/* Send the pieces of a text, which is UTF-8, to the sink.  `start`: it is where the document begins. */
void tr_split(struct tr_splitter *s, const unsigned char *text, size_t bytes, bool start);

#endif
