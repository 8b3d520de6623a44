/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/merge.h"

#include <stdbool.h>

#include "token/grow.h"

/* Up to here, looking through all ranks is faster than a heap. */
enum { FEW = 48 };

/* Neighbours are indices, -1 at the ends; id is -1 once joined to what is on the left. */
struct symbol {
    int32_t id, previous, next;
};

/* A pair that could be joined when it was found; the heap orders by rank, then position. */
struct candidate {
    int32_t rank, position, left, right, id;
};

struct tr_merge_room {
    struct symbol *symbols;
    struct candidate *heap;
    size_t symbol_capacity, heap_capacity, waiting;
};

struct tr_merge_room *tr_merge_room_new(void)
{
    struct tr_merge_room *r = calloc(1, sizeof *r);

    if (!r)
        tr_die(TR_ERESOURCE, "no memory left for the tokenizer");
    return r;
}

void tr_merge_room_free(struct tr_merge_room *r)
{
    if (!r)
        return;
    free(r->symbols);
    free(r->heap);
    free(r);
}

static int32_t rank_at(const struct tr_pairs *pairs, const int32_t *ids, size_t at, size_t count,
                       int32_t *id)
{
    const int32_t rank = at + 1 < count ? tr_pairs_get(pairs, ids[at], ids[at + 1], id) : -1;

    return rank < 0 ? INT32_MAX : rank;
}

static size_t merge_few(const struct tr_pairs *pairs, int32_t *ids, size_t count)
{
    int32_t rank[FEW] = {0}, into[FEW] = {0};

    for (size_t i = 0; i < count; i++)
        rank[i] = rank_at(pairs, ids, i, count, &into[i]);
    for (;;) {
        size_t best = 0;

        for (size_t i = 1; i + 1 < count; i++)
            best = rank[i] < rank[best] ? i : best;
        if (rank[best] == INT32_MAX)
            return count;
        ids[best] = into[best];
        count--;
        for (size_t i = best + 1; i < count; i++) {
            ids[i] = ids[i + 1];
            rank[i] = rank[i + 1];
            into[i] = into[i + 1];
        }
        rank[best] = rank_at(pairs, ids, best, count, &into[best]);
        if (best > 0)
            rank[best - 1] = rank_at(pairs, ids, best - 1, count, &into[best - 1]);
    }
}

static bool before(const struct candidate *a, const struct candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->position < b->position;
}

static void heap_push(struct tr_merge_room *r, struct candidate c)
{
    size_t i = r->waiting++;
    struct candidate *h;

    r->heap = tr_grow(r->heap, &r->heap_capacity, r->waiting, sizeof *r->heap);
    h = r->heap;
    while (i > 0 && before(&c, &h[(i - 1) / 2])) {
        h[i] = h[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h[i] = c;
}

static struct candidate heap_pop(struct tr_merge_room *r)
{
    struct candidate *h = r->heap, top = h[0], last = h[--r->waiting];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < r->waiting) {
        if (child + 1 < r->waiting && before(&h[child + 1], &h[child]))
            child++;
        if (!before(&h[child], &last))
            break;
        h[i] = h[child];
        i = child;
    }
    h[i] = last;
    return top;
}

/* Push the pair of the symbols at `position` and after it, if it is one. */
static void consider(const struct tr_pairs *pairs, struct tr_merge_room *r, int32_t position)
{
    const struct symbol *left = &r->symbols[position];
    int32_t rank, right, id;

    if (left->next < 0)
        return;
    right = r->symbols[left->next].id;
    rank = tr_pairs_get(pairs, left->id, right, &id);
    if (rank >= 0)
        heap_push(r, (struct candidate){rank, position, left->id, right, id});
}

static void join(const struct tr_pairs *pairs, struct tr_merge_room *r, const struct candidate *c)
{
    struct symbol *s = r->symbols;
    const int32_t next = s[c->position].next;

    /* An earlier merge may have taken either half. */
    if (s[c->position].id != c->left || next < 0 || s[next].id != c->right)
        return;
    s[c->position].id = c->id;
    s[c->position].next = s[next].next;
    s[next].id = -1;
    if (s[next].next >= 0)
        s[s[next].next].previous = c->position;
    if (s[c->position].previous >= 0)
        consider(pairs, r, s[c->position].previous);
    consider(pairs, r, c->position);
}

size_t tr_merge(const struct tr_pairs *pairs, struct tr_merge_room *r, int32_t *ids, size_t count)
{
    const int32_t n = (int32_t)count;
    size_t left = 0;

    if (count < 2)
        return count;
    if (count <= FEW)
        return merge_few(pairs, ids, count);
    r->symbols = tr_grow(r->symbols, &r->symbol_capacity, count, sizeof *r->symbols);
    r->waiting = 0;
    for (int32_t i = 0; i < n; i++)
        r->symbols[i] = (struct symbol){ids[i], i - 1, i + 1 < n ? i + 1 : -1};
    for (int32_t i = 0; i + 1 < n; i++)
        consider(pairs, r, i);
    while (r->waiting > 0) {
        const struct candidate c = heap_pop(r);

        join(pairs, r, &c);
    }
    for (int32_t i = 0; i >= 0; i = r->symbols[i].next)
        ids[left++] = r->symbols[i].id;
    return left;
}
