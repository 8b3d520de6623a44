/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/arena.h"

#include <stdlib.h>
#include <string.h>

void tr_arena_init(struct tr_arena *a)
{
    memset(a, 0, sizeof *a);
}

static const char *const names[] = {
#define LABEL(symbol, name) name,
    TR_LABELS_OF(LABEL)
#undef LABEL
};

static void write_down(struct tr_arena_list *l, enum tr_label label, size_t bytes)
{
    if (l->count == l->size) {
        l->size = l->size ? 2 * l->size : 256;
        l->block = realloc(l->block, (size_t)l->size * sizeof *l->block);
        TR_ASSERT(l->block);
    }
    l->block[l->count++] = (struct tr_arena_block){label, bytes};
}

void tr_arena_list_release(struct tr_arena_list *l)
{
    free(l->block);
    *l = (struct tr_arena_list){0};
}

const char *tr_label_name(enum tr_label label)
{
    return names[label];
}

void *tr_arena_take(struct tr_arena *a, enum tr_label label, size_t bytes)
{
    size_t rounded = (bytes + TR_ARENA_ALIGN - 1) / TR_ARENA_ALIGN * TR_ARENA_ALIGN;
    unsigned char *at = a->base ? a->base + a->used_bytes : NULL;

    if (bytes == 0)
        return NULL;
    a->bytes[label] += rounded;
    a->used_bytes += rounded;
    if (a->list)
        write_down(a->list, label, rounded);
    TR_ASSERT(!a->base || a->used_bytes <= a->capacity_bytes);
    return at;
}

float *tr_arena_floats(struct tr_arena *a, enum tr_label label, int64_t n)
{
    return tr_arena_take(a, label, (size_t)n * sizeof(float));
}

void tr_arena_open(struct tr_arena *a, void *memory)
{
    size_t counted = a->used_bytes;

    tr_arena_init(a);
    a->base = memory;
    a->capacity_bytes = counted;
}

void tr_arena_report(const struct tr_arena *a, FILE *f)
{
    for (int i = 0; i < TR_LABELS; i++)
        if (a->bytes[i] > 0)
            fprintf(f, "  %-24s %12.2f MiB\n", names[i], (double)a->bytes[i] / 1048576.0);
    fprintf(f, "  %-24s %12.2f MiB\n", "total", (double)a->used_bytes / 1048576.0);
}
