/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/trie.h"

#include <stdbool.h>
#include <string.h>

#include "token/grow.h"

#define NONE UINT32_MAX

static int compare_keys(const void *a, const void *b)
{
    const struct tr_trie_key *x = a, *y = b;
    const size_t shorter = x->bytes < y->bytes ? x->bytes : y->bytes;
    const int order = memcmp(x->text, y->text, shorter);

    if (order != 0)
        return order;
    return x->bytes != y->bytes ? (x->bytes > y->bytes) - (x->bytes < y->bytes)
                                : (x->number > y->number) - (x->number < y->number);
}

static void reserve(struct tr_trie *t, size_t nodes)
{
    size_t from = t->capacity;

    t->nodes = tr_grow(t->nodes, &t->capacity, nodes, sizeof *t->nodes);
    for (; from < t->capacity; from++)
        t->nodes[from] = (struct tr_trie_node){0, NONE, -1};
}

static bool fits(const struct tr_trie *t, size_t base, const unsigned char *bytes, int count)
{
    for (int i = 0; i < count; i++)
        if (t->nodes[base + bytes[i] + 1].parent != NONE)
            return false;
    return true;
}

/* Where children with these bytes, in order, find places that are free. */
static uint32_t find_base(struct tr_trie *t, const unsigned char *bytes, int count)
{
    size_t at = t->first_free > bytes[0] + 1U ? t->first_free : bytes[0] + 1U, taken = 0;

    for (size_t first = at;; at++) {
        reserve(t, at + 258);
        if (t->nodes[at].parent != NONE) {
            taken++;
            continue;
        }
        if (!fits(t, at - bytes[0] - 1, bytes, count))
            continue;
        /* What is almost full is not looked at again. */
        if (taken * 20 >= (at - first + 1) * 19)
            t->first_free = at;
        return (uint32_t)(at - bytes[0] - 1);
    }
}

/* Keys [from, to) share their first `depth` bytes and lead to node s. */
struct range {
    size_t from, to, depth;
    uint32_t node;
};

struct work {
    struct range *ranges;
    size_t count, capacity;
};

static void push(struct work *w, struct range r)
{
    w->ranges = tr_grow(w->ranges, &w->capacity, w->count + 1, sizeof *w->ranges);
    w->ranges[w->count++] = r;
}

static void add_children(struct tr_trie *t, struct work *w, const struct tr_trie_key *keys,
                         struct range r)
{
    unsigned char bytes[256];
    size_t starts[257];
    int count = 0;
    uint32_t base;

    for (; r.from < r.to && keys[r.from].bytes == r.depth; r.from++)
        t->nodes[r.node].number = keys[r.from].number;
    for (size_t i = r.from; i < r.to; i++) {
        const unsigned char byte = keys[i].text[r.depth];

        if (count == 0 || bytes[count - 1] != byte) {
            bytes[count] = byte;
            starts[count++] = i;
        }
    }
    if (count == 0)
        return;
    starts[count] = r.to;
    base = find_base(t, bytes, count);
    t->nodes[r.node].base = base;
    for (int i = 0; i < count; i++) {
        const uint32_t child = base + bytes[i] + 1;

        t->nodes[child].parent = r.node;
        push(w, (struct range){starts[i], starts[i + 1], r.depth + 1, child});
    }
}

struct tr_trie *tr_trie_build(struct tr_trie_key *keys, size_t count)
{
    struct tr_trie *t = calloc(1, sizeof *t);
    struct work w = {0};

    if (!t)
        tr_die(TR_ERESOURCE, "no memory left for the tokenizer");
    if (count > 0)
        qsort(keys, count, sizeof *keys, compare_keys);
    reserve(t, 512);
    t->nodes[0].parent = 0;
    push(&w, (struct range){0, count, 0, 0});
    while (w.count > 0)
        add_children(t, &w, keys, w.ranges[--w.count]);
    /* Any byte after any node is inside. */
    reserve(t, t->capacity + 258);
    free(w.ranges);
    return t;
}

void tr_trie_free(struct tr_trie *t)
{
    if (!t)
        return;
    free(t->nodes);
    free(t);
}

size_t tr_trie_longest(const struct tr_trie *t, const unsigned char *text, size_t bytes,
                       int32_t *number)
{
    tr_trie_state s = 0;
    size_t longest = 0;

    for (size_t i = 0; i < bytes; i++) {
        const int32_t found = tr_trie_step(t, &s, text[i]);

        if (found == -2)
            break;
        if (found >= 0) {
            longest = i + 1;
            *number = found;
        }
    }
    return longest;
}
