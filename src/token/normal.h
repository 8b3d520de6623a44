/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_NORMAL_H
#define TR_TOKEN_NORMAL_H

#include <stdbool.h>
#include <stddef.h>

#include "token/charsmap.h"
#include "token/grow.h"
#include "token/pattern.h"
#include "token/trie.h"

/* Steps that change a text before it is split: the normalizers of tokenizer.json, and SentencePiece's. */
enum tr_normal_kind {
    TR_NORMAL_NFC,
    TR_NORMAL_NFD,
    TR_NORMAL_NFKC,
    TR_NORMAL_NFKD,
    TR_NORMAL_LOWERCASE,
    TR_NORMAL_STRIP_ACCENTS, /* leaves out marks */
    TR_NORMAL_BERT,
    TR_NORMAL_REPLACE, /* a string or what a pattern matches, by `content` */
    TR_NORMAL_PREPEND, /* `content`, if there is a text */
    TR_NORMAL_STRIP,   /* white space at the ends */
    TR_NORMAL_CHARSMAP,
    TR_NORMAL_SENTENCEPIECE
};

struct tr_normal_step {
    enum tr_normal_kind kind;
    bool clean, chinese, accents, lowercase; /* of BERT */
    bool left, right;                        /* of STRIP */
    bool dummy_prefix, dummy_suffix;         /* of SENTENCEPIECE, as its NormalizerSpec says */
    bool remove_extra_spaces, escape_spaces;
    struct tr_pattern *pattern;      /* owned, or NULL: `text` counts */
    struct tr_bytes text, content;   /* owned */
    struct tr_charsmap *map;         /* owned, or NULL */
    const struct tr_trie *untouched; /* borrowed: what SENTENCEPIECE leaves as it is */
};
void tr_normal_step_release(struct tr_normal_step *s);

/* Memory that is used again, and what became of the beginning of the latest text. */
struct tr_normal_room {
    struct tr_bytes a, b, wide;
    size_t put;      /* bytes that PREPEND has put there */
    bool lost_first; /* the text's own first character was left out */
};
void tr_normal_room_release(struct tr_normal_room *r);

/*
 * The steps after each other on *text, which is UTF-8.  *text and *bytes are the outcome: what was given
 * where nothing changed, else memory of `room`, valid until the next call.  False if a pattern took more work
 * than it was allowed.
 */
bool tr_normalize(const struct tr_normal_step *steps, size_t count, struct tr_match *match,
                  struct tr_normal_room *room, const unsigned char **text,
                  size_t *bytes) TR_MUST_CHECK;

#endif
