/* SPDX-License-Identifier: BSD-3-Clause */
#include "util/arena.h"

#include <string.h>

void tr_arena_init(struct tr_arena *a)
{
    memset(a, 0, sizeof *a);
}

static void count(struct tr_arena *a, const char *label, size_t bytes)
{
    int i = 0;

    while (i < a->labels && strcmp(a->part[i].label, label) != 0)
        i++;
    if (i == a->labels) {
        TR_ASSERT(a->labels < TR_ARENA_LABELS);
        a->part[a->labels++].label = label;
        a->part[i].bytes = 0;
    }
    a->part[i].bytes += bytes;
}

void *tr_arena_take(struct tr_arena *a, const char *label, size_t bytes)
{
    size_t rounded = (bytes + TR_ARENA_ALIGN - 1) / TR_ARENA_ALIGN * TR_ARENA_ALIGN;
    unsigned char *at = a->base ? a->base + a->used_bytes : NULL;

    if (bytes == 0)
        return NULL;
    count(a, label, rounded);
    a->used_bytes += rounded;
    TR_ASSERT(!a->base || a->used_bytes <= a->capacity_bytes);
    return at;
}

float *tr_arena_floats(struct tr_arena *a, const char *label, int64_t n)
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
    unsigned done = 0;

    for (int n = 0; n < a->labels; n++) {
        int largest = -1;
        for (int i = 0; i < a->labels; i++)
            if (!(done >> i & 1U) && (largest < 0 || a->part[i].bytes > a->part[largest].bytes))
                largest = i;
        done |= 1U << largest;
        fprintf(f, "  %-24s %12.2f MiB\n", a->part[largest].label,
                (double)a->part[largest].bytes / 1048576.0);
    }
    fprintf(f, "  %-24s %12.2f MiB\n", "total", (double)a->used_bytes / 1048576.0);
}
