/* SPDX-License-Identifier: BSD-3-Clause */
#define XXH_INLINE_ALL
#include "token/dict.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "token/grow.h"

/* Both are tables of open addressing, at most half full. */
struct place {
    size_t at;      /* in `text`, of the string */
    uint32_t bytes; /* of it */
    uint32_t hash;
    int32_t number; /* -1 in an empty place */
};

struct tr_dict {
    struct place *places;
    size_t mask, used;
    struct tr_bytes text;
};

static void *zeroed(size_t count, size_t size)
{
    void *memory = calloc(count, size);

    if (!memory)
        tr_die(TR_ERESOURCE, "no memory left for the tokenizer");
    return memory;
}

static struct place *empty_places(size_t count)
{
    struct place *p = zeroed(count, sizeof *p);

    for (size_t i = 0; i < count; i++)
        p[i].number = -1;
    return p;
}

struct tr_dict *tr_dict_new(void)
{
    struct tr_dict *d = zeroed(1, sizeof *d);

    d->mask = 63;
    d->places = empty_places(d->mask + 1);
    return d;
}

void tr_dict_free(struct tr_dict *d)
{
    if (!d)
        return;
    free(d->places);
    free(d->text.data);
    free(d);
}

/* The place of the string, or the empty one where it belongs. */
static struct place *find(const struct tr_dict *d, const void *text, size_t bytes, uint32_t hash)
{
    for (size_t i = hash & d->mask;; i = (i + 1) & d->mask) {
        struct place *p = &d->places[i];

        if (p->number < 0 || (p->hash == hash && p->bytes == bytes &&
                              (bytes == 0 || memcmp(d->text.data + p->at, text, bytes) == 0)))
            return p;
    }
}

static uint32_t hash_of(const void *text, size_t bytes)
{
    return (uint32_t)XXH3_64bits(bytes > 0 ? text : "", bytes);
}

static void make_larger(struct tr_dict *d)
{
    struct place *old = d->places;
    size_t count = d->mask + 1;

    d->mask = 2 * count - 1;
    d->places = empty_places(2 * count);
    for (size_t i = 0; i < count; i++)
        if (old[i].number >= 0)
            *find(d, d->text.data + old[i].at, old[i].bytes, old[i].hash) = old[i];
    free(old);
}

int32_t tr_dict_put(struct tr_dict *d, const void *text, size_t bytes, int32_t number)
{
    const uint32_t hash = hash_of(text, bytes);
    struct place *p = find(d, text, bytes, hash);
    const int32_t old = p->number;

    if (old < 0) {
        *p = (struct place){d->text.count, (uint32_t)bytes, hash, number};
        tr_bytes_add(&d->text, text, bytes);
        if (2 * ++d->used > d->mask)
            make_larger(d);
    } else {
        p->number = number;
    }
    return old;
}

int32_t tr_dict_get(const struct tr_dict *d, const void *text, size_t bytes)
{
    return find(d, text, bytes, hash_of(text, bytes))->number;
}

struct pair {
    uint64_t key; /* ~0: empty */
    int32_t rank, id;
};

struct tr_pairs {
    struct pair *places;
    size_t mask, used;
};

static struct pair *empty_pairs(size_t count)
{
    struct pair *p = zeroed(count, sizeof *p);

    for (size_t i = 0; i < count; i++)
        p[i].key = UINT64_MAX;
    return p;
}

struct tr_pairs *tr_pairs_new(void)
{
    struct tr_pairs *p = zeroed(1, sizeof *p);

    p->mask = 63;
    p->places = empty_pairs(p->mask + 1);
    return p;
}

void tr_pairs_free(struct tr_pairs *p)
{
    if (!p)
        return;
    free(p->places);
    free(p);
}

static struct pair *find_pair(const struct tr_pairs *p, uint64_t key)
{
    size_t i = (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 20);

    for (i &= p->mask; p->places[i].key != key && p->places[i].key != UINT64_MAX;)
        i = (i + 1) & p->mask;
    return &p->places[i];
}

static uint64_t pair_key(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

void tr_pairs_put(struct tr_pairs *p, int32_t left, int32_t right, int32_t rank, int32_t id)
{
    struct pair *place = find_pair(p, pair_key(left, right)), *old = p->places;
    const size_t count = p->mask + 1;

    p->used += place->key == UINT64_MAX;
    *place = (struct pair){pair_key(left, right), rank, id};
    if (2 * p->used <= count)
        return;
    p->mask = 2 * count - 1;
    p->places = empty_pairs(2 * count);
    for (size_t i = 0; i < count; i++)
        if (old[i].key != UINT64_MAX)
            *find_pair(p, old[i].key) = old[i];
    free(old);
}

int32_t tr_pairs_get(const struct tr_pairs *p, int32_t left, int32_t right, int32_t *id)
{
    const struct pair *place = find_pair(p, pair_key(left, right));

    if (place->key == UINT64_MAX)
        return -1;
    *id = place->id;
    return place->rank;
}
