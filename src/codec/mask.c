/* SPDX-License-Identifier: BSD-3-Clause */
#include "codec/mask.h"

#include <string.h>

static int64_t step_of(const struct tr_mask_how *how)
{
    const double step = 1.0 / how->ratio;

    /* Beyond any vector; more may be no int64_t. */
    return step < 9.0e15 ? (int64_t)step : (int64_t)9.0e15;
}

int64_t tr_mask_count(const struct tr_mask_how *how, int64_t n)
{
    int64_t count;

    TR_ASSERT(n > 0 && how->ratio > 0.0 && how->ratio <= 1.0 && how->multiple > 0);
    if (how->ratio >= 1.0)
        return n;
    if (how->method == TR_MASK_ROLLING)
        count = n / step_of(how);
    else
        count = (int64_t)(how->ratio * (double)n) / 8 * 8;
    count = count / how->multiple * how->multiple;
    return count > 0 ? count : n;
}

bool tr_mask_regular(const struct tr_mask_how *how, int64_t n, int64_t round, struct tr_select *out)
{
    const int64_t count = tr_mask_count(how, n), step = step_of(how);
    int64_t begin;

    if (count == n) {
        *out = (struct tr_select){.first = 0, .step = 1};
        return true;
    }
    if (how->method != TR_MASK_ROLLING)
        return false;
    /* Elements that rounding left over at the end would never be exchanged if all began at 0. */
    begin = round / step % 2 == 0 ? 0 : n - count * step;
    *out = (struct tr_select){.first = begin + round % step, .step = step};
    return true;
}

/* The finalizer of MurmurHash3: each bit of the result depends on all bits of x. */
static uint32_t mix(uint32_t x)
{
    x = (x ^ x >> 16) * 0x85ebca6bU;
    x = (x ^ x >> 13) * 0xc2b2ae35U;
    return x ^ x >> 16;
}

/* A permutation of the numbers below 2^bits (Feistel): each half in turn is changed by a function of
   the other, which can be undone whatever the function is. */
struct shuffle {
    int low; /* bits of the lower half */
    uint32_t mask_high, mask_low, key[8];
};

static struct shuffle shuffle_of(struct tr_rng r, int64_t n)
{
    struct shuffle s = {0};
    int bits = 1;

    while ((int64_t)1 << bits < n)
        bits++;
    s.low = (bits + 1) / 2;
    s.mask_low = (1U << s.low) - 1;
    s.mask_high = (1U << (bits - s.low)) - 1;
    tr_rng_block(r, 0, s.key);
    tr_rng_block(r, 1, s.key + 4);
    return s;
}

static uint32_t shuffled(const struct shuffle *s, uint32_t x)
{
    uint32_t high = x >> s->low, low = x & s->mask_low;

    for (int i = 0; i < 8; i += 2) {
        high ^= mix(low + s->key[i]) & s->mask_high;
        low ^= mix(high + s->key[i + 1]) & s->mask_low;
    }
    return high << s->low | low;
}

/* One of the numbers below n.  Those that the next power of two adds are left out by going on from
   them: on its cycle each number below n then leads to the next one below n. */
static int64_t walk(const struct shuffle *s, int64_t n, int64_t i)
{
    do
        i = shuffled(s, (uint32_t)i);
    while (i >= n);
    return i;
}

int64_t tr_mask_permuted(struct tr_rng r, int64_t n, int64_t i)
{
    struct shuffle s = shuffle_of(r, n);

    return walk(&s, n, i);
}

static void permuted(const struct tr_mask_how *how, int64_t n, int64_t round, int vector,
                     int64_t count, int32_t *out)
{
    const int64_t slices = n / count, slice = round % slices;
    struct shuffle s = shuffle_of(tr_rng_key(how->seed, TR_STREAM_MASK, vector, round / slices), n);

    for (int64_t i = 0; i < count; i++)
        out[i] = (int32_t)walk(&s, n, slice * count + i);
}

static void drawn(const struct tr_mask_how *how, int64_t n, int64_t round, int vector,
                  int64_t count, int32_t *out, unsigned char *seen)
{
    struct tr_rng r = tr_rng_key(how->seed, TR_STREAM_MASK, vector, round);
    uint32_t word[4];

    for (int64_t i = 0; i < count; i++) {
        if (i % 4 == 0)
            tr_rng_block(r, (uint64_t)(i / 4), word);
        out[i] = (int32_t)((uint64_t)word[i % 4] * (uint64_t)n >> 32);
    }
    memset(seen, 0, (size_t)(n + 7) / 8);
    for (int64_t i = count - 1; i >= 0; i--) {
        unsigned char *byte = &seen[out[i] >> 3], bit = (unsigned char)(1U << (out[i] & 7));

        if (*byte & bit)
            out[i] = -1;
        else
            *byte |= bit;
    }
}

void tr_mask_list(const struct tr_mask_how *how, int64_t n, int64_t round, int vector, int32_t *out,
                  unsigned char *seen)
{
    const int64_t count = tr_mask_count(how, n);
    struct tr_select s;

    TR_ASSERT(n <= INT32_MAX && round >= 0);
    if (tr_mask_regular(how, n, round, &s))
        for (int64_t i = 0; i < count; i++)
            out[i] = (int32_t)(s.first + i * s.step);
    else if (how->method == TR_MASK_PERMUTED)
        permuted(how, n, round, vector, count, out);
    else
        drawn(how, n, round, vector, count, out, seen);
}
