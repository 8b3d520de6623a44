/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_TRIE_H
#define TR_TOKEN_TRIE_H

#include <stddef.h>
#include <stdint.h>

/*
 * A set of strings of bytes, each with a number, that finds those with which a text begins (a double
 * array; Aoe 1989).  Read-only once built, so threads may share it.
 */
/* The child of node s by byte c is node base + c + 1, if its parent is s. */
struct tr_trie_node {
    uint32_t base, parent; /* parent is UINT32_MAX in a place that is free */
    int32_t number;        /* of the key that ends here, or -1 */
};

struct tr_trie {
    struct tr_trie_node *nodes;
    size_t capacity, first_free;
};

struct tr_trie_key {
    const unsigned char *text; /* borrowed while it is built */
    size_t bytes;              /* at least 1 */
    int32_t number;            /* not negative; of equal strings the last one's counts */
};

/* `keys` are put in order.  Never NULL; the job ends when memory does. */
struct tr_trie *tr_trie_build(struct tr_trie_key *keys, size_t count);
void tr_trie_free(struct tr_trie *t);

/* Where a walk along a text is; 0 at its beginning. */
typedef uint32_t tr_trie_state;

/* Take one byte: -2 if no key goes on so, the key's number if one ends here, else -1. */
static inline int32_t tr_trie_step(const struct tr_trie *t, tr_trie_state *state,
                                   unsigned char byte)
{
    const struct tr_trie_node *child = &t->nodes[t->nodes[*state].base + byte + 1];

    if (child->parent != *state)
        return -2;
    *state = (tr_trie_state)(child - t->nodes);
    return child->number;
}

/* The longest key with which a text begins: its length, 0 if there is none, and its number. */
size_t tr_trie_longest(const struct tr_trie *t, const unsigned char *text, size_t bytes,
                       int32_t *number);

#endif
