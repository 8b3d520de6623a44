/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu.h"

#include <string.h>

#include "device/cpu_product.h"
#include "device/host.h"
#include "device/sizes.h"

/*
 * The k largest without sorting.  A number without its sign compares as the whole number that its bits
 * are, so the smallest of the k largest is found digit by digit, the highest first: how often does each
 * value of the digit occur among the numbers that begin like the one that is looked for?  Each core
 * counts in a part of its own, so that it knows how many that are equal to that number come before its
 * part; then the bits of the mask are written.
 */
enum {
    BLOCK = 64, /* elements of a part come in such blocks; 8 bytes of the mask */
    MOST_DIGIT = 1 << 11,
    COPIES = 4 /* of the counters: neighbours are often equal, and would wait for one another */
};

/* Digits of a number, from its highest bit on. */
struct digits {
    int count, bits[3];
};
static const struct digits of_wide = {3, {11, 10, 10}}, of_half = {2, {11, 4}};

/* What is known of the number so far: the digits above `shift`. */
struct search {
    const struct tr_tensor *x;
    uint32_t number;
    int shift, bits; /* of the next digit */
};

struct span {
    int64_t first, end;
};

static struct span part_of(int64_t n, int parts, int i)
{
    int64_t blocks = (n + BLOCK - 1) / BLOCK, end = blocks * (i + 1) / parts * BLOCK;

    return (struct span){blocks * i / parts * BLOCK, end < n ? end : n};
}

static uint32_t *counters(const struct tr_queue *q, int part)
{
    return (uint32_t *)(void *)(q->device->scratch + (int64_t)part * SCRATCH_FLOATS);
}

/* ---- counting ---- */

/* The first digit of all. */
static void count_all_wide(const uint32_t *x, int64_t n, int shift, uint32_t *count)
{
    int64_t i = 0;

    for (; i + COPIES <= n; i += COPIES)
        for (uint32_t c = 0; c < COPIES; c++)
            count[c * MOST_DIGIT + ((x[i + c] & 0x7fffffff) >> shift)]++;
    for (; i < n; i++)
        count[(x[i] & 0x7fffffff) >> shift]++;
}

static void count_all_half(const uint16_t *x, int64_t n, int shift, uint32_t *count)
{
    int64_t i = 0;

    for (; i + COPIES <= n; i += COPIES)
        for (int c = 0; c < COPIES; c++)
            count[c * MOST_DIGIT + ((x[i + c] & 0x7fff) >> shift)]++;
    for (; i < n; i++)
        count[(x[i] & 0x7fff) >> shift]++;
}

/* The places of bytes that are not 0 among n, which are few. */
static int list_flags(const uint8_t flag[BLOCK], int64_t n, uint8_t at[BLOCK])
{
    int found = 0;

    for (int i = 0; i < n; i += 8) {
        uint64_t word;

        memcpy(&word, flag + i, sizeof word);
        for (int k = 0; word && k < 8 && i + k < n; k++)
            if (flag[i + k])
                at[found++] = (uint8_t)(i + k);
    }
    return found;
}

/* A later digit of the few numbers that begin like the one that is looked for. */
static void count_some(const struct search *s, struct span p, uint32_t *count)
{
    const uint32_t *wide = (const uint32_t *)s->x->data;
    const uint16_t *half = tr_half(s->x);
    const int known = s->shift + s->bits;
    const uint32_t digits = (UINT32_C(1) << s->bits) - 1, want = s->number >> known;

    for (int64_t first = p.first; first < p.end; first += BLOCK) {
        int64_t n = p.end - first < BLOCK ? p.end - first : BLOCK;
        uint8_t flag[BLOCK] = {0}, at[BLOCK];
        int found;

        if (s->x->dtype == TR_F32) {
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                flag[i] = (wide[first + i] & 0x7fffffff) >> known == want;
        } else {
#pragma omp simd
            for (int64_t i = 0; i < n; i++)
                flag[i] = (half[first + i] & 0x7fff) >> known == (uint16_t)want;
        }
        found = list_flags(flag, n, at);
        for (int i = 0; i < found; i++)
            count[(s->x->dtype == TR_F32 ? wide[first + at[i]] : half[first + at[i]]) >> s->shift &
                  digits]++;
    }
}

static void count_part(const struct search *s, bool all, struct span p, uint32_t *count)
{
    memset(count, 0, COPIES * MOST_DIGIT * sizeof *count);
    if (!all)
        count_some(s, p, count);
    else if (s->x->dtype == TR_F32)
        count_all_wide((const uint32_t *)s->x->data + p.first, p.end - p.first, s->shift, count);
    else
        count_all_half(tr_half(s->x) + p.first, p.end - p.first, s->shift, count);
    for (int c = 1; all && c < COPIES; c++)
        for (int d = 0; d < 1 << s->bits; d++)
            count[d] += count[c * MOST_DIGIT + d];
}

/* The next digit of the number that k reach among those that are left; how many of these are to be taken
   with that digit is what remains of k. */
static uint32_t next_digit(const struct tr_queue *q, int parts, int bits, int64_t *k)
{
    for (int digit = (1 << bits) - 1;; digit--) {
        int64_t here = 0;

        for (int p = 0; p < parts; p++)
            here += counters(q, p)[digit];
        if (here >= *k)
            return (uint32_t)digit;
        *k -= here;
        TR_ASSERT(digit > 0);
    }
}

/* ---- the mask ---- */

/* flag[i] = whether element i of a block is `least` or more. */
static void flags_from(const struct tr_tensor *x, int64_t first, int64_t n, uint32_t least,
                       uint8_t flag[BLOCK])
{
    if (x->dtype == TR_F32) {
        const uint32_t *from = (const uint32_t *)x->data + first;

#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            flag[i] = (from[i] & 0x7fffffff) >= least;
    } else {
        const uint16_t *from = tr_half(x) + first, half = (uint16_t)least;

#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            flag[i] = (from[i] & 0x7fff) >= half;
    }
}

/* Eight bytes that are 0 or 1 as the bits of one, the first highest: the product moves byte i to bit
   63 - i, and nothing else there. */
static uint8_t byte_of(const uint8_t flag[8])
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t x;

    memcpy(&x, flag, sizeof x);
    return (uint8_t)(x * UINT64_C(0x8040201008040201) >> 56);
#else
    uint8_t byte = 0;

    for (int i = 0; i < 8; i++)
        byte = (uint8_t)(byte << 1 | flag[i]);
    return byte;
#endif
}

static int64_t sum_of(const uint8_t flag[BLOCK])
{
    uint32_t sum = 0;

    for (int i = 0; i < BLOCK; i++)
        sum += flag[i];
    return sum;
}

/* A part of the mask, with the first `equal` of the numbers that are `least`. */
static void write_part(const struct tr_tensor *mask, const struct tr_tensor *x, struct span p,
                       uint32_t least, int64_t equal)
{
    for (int64_t first = p.first; first < p.end; first += BLOCK) {
        int64_t n = p.end - first < BLOCK ? p.end - first : BLOCK, spare;
        uint8_t above[BLOCK] = {0}, flag[BLOCK] = {0};

        flags_from(x, first, n, least + 1, above);
        flags_from(x, first, n, least, flag);
        spare = sum_of(flag) - sum_of(above) - equal;
        equal = spare < 0 ? -spare : 0;
        for (int64_t i = n - 1; spare > 0; i--)
            if (flag[i] != above[i]) {
                flag[i] = 0;
                spare--;
            }
        for (int64_t i = 0; i < n; i += 8)
            tr_u8(mask)[(first + i) / 8] = byte_of(flag + i);
    }
}

void tr_cpu_topk_mask(struct tr_queue *q, const struct tr_tensor *mask, const struct tr_tensor *x,
                      int64_t k)
{
    const int64_t n = tr_sizes_mask(x, mask, NULL, &k);
    const struct digits *digits = x->dtype == TR_F32 ? &of_wide : &of_half;
    const int threads = q->device->threads, parts = n > TR_CPU_SMALL ? threads : 1;
    struct search s = {.x = x, .shift = x->dtype == TR_F32 ? 31 : 15};

    TR_ASSERT(n / parts < UINT32_MAX);
    for (int d = 0; d < digits->count; d++) {
        s.bits = digits->bits[d];
        s.shift -= s.bits;
#pragma omp parallel for num_threads(threads) if (parts > 1)
        for (int p = 0; p < parts; p++)
            count_part(&s, d == 0, part_of(n, parts, p), counters(q, p));
        s.number |= next_digit(q, parts, s.bits, &k) << s.shift;
    }
    /* Counters of the last digit: what is equal in all of its digits. */
#pragma omp parallel for num_threads(threads) if (parts > 1)
    for (int p = 0; p < parts; p++) {
        int64_t equal = k;

        for (int before = 0; before < p; before++)
            equal -= counters(q, before)[s.number & ((UINT32_C(1) << s.bits) - 1)];
        write_part(mask, x, part_of(n, parts, p), s.number, equal > 0 ? equal : 0);
    }
}
