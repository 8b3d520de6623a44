/* SPDX-License-Identifier: BSD-3-Clause */
#include "golden/golden.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/status.h"

enum { MAX_ENTRIES = 512, NAME_BYTES = 128 };

struct entry {
    char name[NAME_BYTES];
    int64_t offset, count;
};

struct tr_golden {
    char path[4096]; /* without .index and .bin */
    int entries;
    struct entry entry[MAX_ENTRIES];
    int64_t count;
    float *values;
};

_Noreturn static void bail(const char *fmt, ...) TR_PRINTF(1, 2);

static void bail(const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    printf("Bail out! ");
    vprintf(fmt, args);
    printf("\n");
    va_end(args);
    exit(EXIT_FAILURE);
}

static FILE *open_part(const struct tr_golden *g, const char *suffix)
{
    char path[sizeof g->path + 8];
    FILE *f;

    snprintf(path, sizeof path, "%s%s", g->path, suffix);
    f = fopen(path, "rb");
    if (!f)
        bail("cannot open %s: %s", path, strerror(errno));
    return f;
}

static void read_index(struct tr_golden *g)
{
    FILE *f = open_part(g, ".index");
    char line[256], rest;

    while (fgets(line, sizeof line, f)) {
        struct entry *e = &g->entry[g->entries++];

        if (g->entries > MAX_ENTRIES)
            bail("%s.index has more than %d entries", g->path, MAX_ENTRIES);
        if (sscanf(line, "%127s %" SCNd64 " %" SCNd64 " %c", e->name, &e->offset, &e->count,
                   &rest) != 3 ||
            e->offset != g->count || e->count <= 0)
            bail("%s.index: line %d is not \"name offset count\"", g->path, g->entries);
        g->count += e->count;
    }
    fclose(f);
}

static float from_little_endian(const unsigned char b[4])
{
    uint32_t bits =
        (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static void read_values(struct tr_golden *g)
{
    FILE *f = open_part(g, ".bin");
    unsigned char b[4];

    g->values = calloc((size_t)g->count, sizeof *g->values);
    if (!g->values)
        bail("no memory for %s.bin", g->path);
    for (int64_t i = 0; i < g->count; i++) {
        if (fread(b, sizeof b, 1, f) != 1)
            bail("%s.bin is shorter than its index says", g->path);
        g->values[i] = from_little_endian(b);
    }
    if (fgetc(f) != EOF)
        bail("%s.bin is longer than its index says", g->path);
    fclose(f);
}

static bool ends_in(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

struct tr_golden *tr_golden_open(const char *name)
{
    struct tr_golden *g = calloc(1, sizeof *g);
    const char *srcdir = getenv("srcdir");

    if (!g)
        bail("no memory");
    snprintf(g->path, sizeof g->path, "%s/tests/golden/%s", srcdir ? srcdir : ".", name);
    read_index(g);
    read_values(g);
    return g;
}

void tr_golden_close(struct tr_golden *g)
{
    free(g->values);
    free(g);
}

const float *tr_golden_get(const struct tr_golden *g, const char *name, int64_t count)
{
    for (int i = 0; i < g->entries; i++) {
        const struct entry *e = &g->entry[i];

        if (strcmp(e->name, name) != 0)
            continue;
        if (e->count != count)
            bail("%s in %s has %" PRId64 " elements, not %" PRId64, name, g->path, e->count, count);
        return g->values + e->offset;
    }
    bail("%s has no entry %s", g->path, name);
}

const float *tr_golden_get_of(const struct tr_golden *g, const char *kind, const char *name,
                              int64_t count)
{
    char whole[NAME_BYTES];

    snprintf(whole, sizeof whole, "%s/%s", kind, name);
    return tr_golden_get(g, whole, count);
}

uint64_t tr_golden_splitmix64(uint64_t x)
{
    uint64_t z = x + 0x9E3779B97F4A7C15u;

    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

uint64_t tr_golden_fnv1a(const char *text)
{
    uint64_t h = 0xCBF29CE484222325u;

    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001B3u;
    return h;
}

static float draw(const char *name, int64_t index, float base, float amplitude)
{
    uint64_t x = tr_golden_splitmix64(tr_golden_fnv1a(name) + (uint64_t)index);

    return base + amplitude * ((float)(x >> 44) * 0x1p-20f - 0.5f);
}

float tr_golden_weight(const char *name, int64_t index)
{
    if (ends_in(name, ".bias"))
        return draw(name, index, 0.0f, 0.125f);
    if (ends_in(name, "norm.weight"))
        return draw(name, index, 1.0f, 0.25f);
    return draw(name, index, 0.0f, 0.5f);
}

float tr_golden_weight_one(const char *name, int64_t index)
{
    float weight = tr_golden_weight(name, index);

    return ends_in(name, "norm.weight") ? weight - 1.0f : weight;
}

int32_t tr_golden_token_of(int64_t sample, int t, int64_t seq, int64_t vocab)
{
    uint64_t x = (uint64_t)(1000 + sample * (seq + 1) + t);

    return (int32_t)(tr_golden_splitmix64(x) % (uint64_t)vocab);
}

int32_t tr_golden_token(int64_t sample, int t)
{
    return tr_golden_token_of(sample, t, GOLDEN_S, GOLDEN_V);
}
