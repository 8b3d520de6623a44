/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_ADDED_H
#define TR_TOKEN_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "token/grow.h"
#include "token/trie.h"

/* A token that is taken out of a text before anything else happens to it. */
struct tr_added {
    int32_t id;
    char *text; /* owned, terminated */
    size_t bytes;
    struct tr_bytes shown; /* owned: what it stands for in a text, which is normalized if it is */
    bool special;
    bool normalized;  /* found in the text after it was normalized, and itself normalized */
    bool left, right; /* takes the white space before and behind it along */
    bool single_word; /* counts only where no word goes on before or behind it */
};

/* Those of one kind as they are looked for: key `number` of the trie is its index. */
struct tr_added_set {
    const struct tr_added *added;
    struct tr_trie *trie; /* owned; NULL: there are none */
    bool begins[256];     /* a key begins with this byte */
};

/* One part of a text: a token, or text between tokens (id -1). */
struct tr_added_part {
    int32_t id;
    size_t from, to;
};

/* Where to go on: all zero at first. */
struct tr_added_walk {
    size_t at, done; /* searched up to here; given out up to here */
    struct tr_added_part next;
    bool has_next;
};

/* The next part of the text; false at its end. */
bool tr_added_next(const struct tr_added_set *s, const unsigned char *text, size_t bytes,
                   struct tr_added_walk *walk, struct tr_added_part *out);

#endif
