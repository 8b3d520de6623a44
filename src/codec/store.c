/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "codec/pool.h"
#include "codec/store_parts.h"

enum { ALIGN = 64 };

int64_t tr_store_stride(int64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Two sets, and one for who takes a record while both are full. */
static int64_t buffers(const struct tr_store_how *how)
{
    int64_t ahead = how->ahead < how->capacity ? how->ahead : how->capacity;

    return 2 * ahead + 2;
}

/* Of the table in which samples are looked up; a third of it at least stays empty. */
static int64_t places_for(int64_t capacity)
{
    int64_t places = 2;

    while (places < capacity + capacity / 2 + 1)
        places *= 2;
    return places;
}

int64_t tr_store_host_bytes(const struct tr_store_how *how)
{
    const struct tr_store *s = NULL;
    const int64_t stride = tr_store_stride(how->bytes), n = how->capacity;
    const int64_t tables = places_for(n) * (int64_t)sizeof *s->table +
                           n * (int64_t)(sizeof *s->sample + sizeof *s->has) +
                           buffers(how) * (int64_t)sizeof *s->wanted;

    return tables + (how->folder ? tr_pool_bytes(n, stride, buffers(how)) : n * stride);
}

/* ---- samples and the numbers of their records ---- */

/* Where `sample` stands in the table, or the empty place where it would. */
static int64_t place_of(const struct tr_store *s, int64_t sample)
{
    uint64_t h = ((uint64_t)sample + 1) * 0x9e3779b97f4a7c15u;
    int64_t at = (int64_t)((h ^ h >> 32) & (uint64_t)(s->places - 1));

    while (s->table[at] >= 0 && s->sample[s->table[at]] != sample)
        at = (at + 1) & (s->places - 1);
    return at;
}

static int64_t record_of(const struct tr_store *s, int64_t sample)
{
    TR_ASSERT(sample >= 0);
    return s->table[place_of(s, sample)];
}

static enum tr_status number_of(struct tr_store *s, int64_t sample, int64_t *record)
{
    *record = record_of(s, sample);
    if (*record >= 0)
        return TR_OK;
    if (s->known == s->how.capacity)
        return TR_FAIL(TR_ECONFIG,
                       "the activation cache has no room for sample %lld, it holds %lld others "
                       "already: give --max-activation-cache-size at least the number of samples "
                       "that a replica trains on",
                       (long long)sample, (long long)s->known);
    *record = s->known++;
    s->sample[*record] = sample;
    s->table[place_of(s, sample)] = (int32_t)*record;
    return TR_OK;
}

bool tr_store_has(const struct tr_store *s, int64_t sample)
{
    int64_t record = record_of(s, sample);

    return record >= 0 && s->has[record];
}

int64_t tr_store_count(const struct tr_store *s)
{
    return s->count;
}

/* ---- open and close ---- */

static enum tr_status take_tables(struct tr_store *s)
{
    size_t n = (size_t)s->how.capacity;

    s->places = places_for(s->how.capacity);
    s->table = malloc((size_t)s->places * sizeof *s->table);
    s->sample = calloc(n, sizeof *s->sample);
    s->has = calloc(n, sizeof *s->has);
    s->wanted = calloc((size_t)buffers(&s->how), sizeof *s->wanted);
    if (!s->table || !s->sample || !s->has || !s->wanted)
        return TR_FAIL(TR_ERESOURCE, "no memory left for the names of %lld samples",
                       (long long)s->how.capacity);
    tr_store_clear(s);
    return TR_OK;
}

/* Buffers of the pool may have records still; under their numbers they are never asked for without
   having been overwritten. */
void tr_store_clear(struct tr_store *s)
{
    memset(s->table, -1, (size_t)s->places * sizeof *s->table);
    memset(s->has, 0, (size_t)s->how.capacity * sizeof *s->has);
    s->known = s->count = 0;
}

static enum tr_status take_memory(struct tr_store *s)
{
    size_t bytes = (size_t)(s->how.capacity * s->stride);

    s->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (s->memory != MAP_FAILED)
        return TR_OK;
    s->memory = NULL;
    return TR_FAIL(TR_ERESOURCE,
                   "there is no host memory for an activation cache of %lld samples of %lld "
                   "bytes each: %s; give a folder with --activation-cache-dir, or a smaller "
                   "--max-activation-cache-size",
                   (long long)s->how.capacity, (long long)s->stride, strerror(errno));
}

enum tr_status tr_store_open(const struct tr_store_how *how, struct tr_store **out)
{
    struct tr_store *s = calloc(1, sizeof *s);
    enum tr_status status;

    *out = NULL;
    TR_ASSERT(how->capacity > 0 && how->capacity <= TR_STORE_SAMPLES && how->bytes > 0);
    TR_ASSERT(how->ahead > 0);
    if (!s)
        return TR_FAIL(TR_ERESOURCE, "no memory left for the activation cache");
    s->how = *how;
    s->stride = tr_store_stride(how->bytes);
    s->held = -1;
    status = take_tables(s);
    if (status == TR_OK)
        status = how->folder
                     ? tr_pool_open(how->folder, how->capacity, s->stride, buffers(how), &s->pool)
                     : take_memory(s);
    if (status != TR_OK) {
        tr_store_close(s);
        return status;
    }
    *out = s;
    return TR_OK;
}

void tr_store_close(struct tr_store *s)
{
    if (!s)
        return;
    tr_pool_close(s->pool);
    if (s->memory)
        munmap(s->memory, (size_t)(s->how.capacity * s->stride));
    free(s->wanted);
    free(s->has);
    free(s->sample);
    free(s->table);
    free(s);
}

/* ---- records ---- */

enum tr_status tr_store_take(struct tr_store *s, int64_t sample, bool anew, void **record)
{
    int64_t number;

    TR_ASSERT(s->held < 0 && (anew || tr_store_has(s, sample)));
    TR_TRY(number_of(s, sample, &number));
    if (s->pool)
        TR_TRY(tr_pool_take(s->pool, number, anew, record));
    else
        *record = s->memory + number * s->stride;
    s->held = number;
    return TR_OK;
}

void tr_store_give(struct tr_store *s, enum tr_store_fate fate)
{
    int64_t number = s->held;
    bool has = fate == TR_STORE_NEW || (fate == TR_STORE_SAME && s->has[number]);

    TR_ASSERT(number >= 0);
    if (s->pool)
        tr_pool_give(s->pool, number, has ? fate : TR_STORE_GONE);
    s->count += has - s->has[number];
    s->has[number] = has;
    s->held = -1;
}

enum tr_status tr_store_prefetch(struct tr_store *s, const int64_t *sample, int64_t count)
{
    int64_t wanted = 0;

    if (!s->pool)
        return TR_OK;
    for (int64_t i = 0; i < count && wanted < buffers(&s->how); i++)
        if (tr_store_has(s, sample[i]))
            s->wanted[wanted++] = record_of(s, sample[i]);
    return tr_pool_want(s->pool, s->wanted, wanted);
}

struct tr_store_reads tr_store_reads(struct tr_store *s)
{
    return s->pool ? tr_pool_reads(s->pool) : (struct tr_store_reads){0};
}

enum tr_status tr_store_flush(struct tr_store *s)
{
    return s->pool ? tr_pool_flush(s->pool) : TR_OK;
}
