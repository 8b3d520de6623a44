/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_GROW_H
#define TR_TOKEN_GROW_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "util/status.h"

/* Arrays that grow: of tokens, and of bytes.  All zero at first; the job ends when memory does. */
struct tr_tokens {
    int32_t *id; /* owned */
    size_t count, capacity;
};

struct tr_bytes {
    unsigned char *data; /* owned, not terminated */
    size_t count, capacity;
};

/* Memory for `capacity` elements of `size` bytes, at least twice what there was. */
static inline void *tr_grow(void *memory, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity)
        return memory;
    *capacity = need < 2 * *capacity ? 2 * *capacity : need < 64 ? 64 : need;
    memory = reallocarray(memory, *capacity, size);
    if (!memory)
        tr_die(TR_ERESOURCE, "no memory left for the tokenizer");
    return memory;
}

/* Room for `more` behind what there is. */
static inline int32_t *tr_tokens_room(struct tr_tokens *t, size_t more)
{
    t->id = tr_grow(t->id, &t->capacity, t->count + more, sizeof *t->id);
    return t->id + t->count;
}

static inline void tr_tokens_add(struct tr_tokens *t, int32_t id)
{
    *tr_tokens_room(t, 1) = id;
    t->count++;
}

static inline void tr_bytes_add(struct tr_bytes *b, const void *data, size_t bytes)
{
    b->data = tr_grow(b->data, &b->capacity, b->count + bytes + 1, 1);
    if (bytes > 0)
        memcpy(b->data + b->count, data, bytes);
    b->count += bytes;
}

static inline void tr_bytes_set(struct tr_bytes *b, const void *data, size_t bytes)
{
    b->count = 0;
    tr_bytes_add(b, data, bytes);
}

#endif
