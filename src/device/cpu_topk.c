/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu.h"

#include <string.h>

#include "device/codec.h"
#include "device/cpu_product.h"
#include "device/cpu_simd.h"
#include "device/host.h"
#include "device/sizes.h"

/*
 * The k largest without sorting.  A number without its sign compares as the whole number that its
 * bits are, its key; what is looked for is the smallest key of the k largest.  It lies in an
 * interval, which is cut into bins; elements are counted in each; one of the bins is the next
 * interval, until it has one key.  A few elements of a long operand say beforehand where the key
 * should be, so that most others are only compared with two numbers; if it is not there the first
 * interval has all keys.  Each core counts in a part of its own, so that it knows how many with
 * that key come before its part, and writes the mask of that part.
 */
enum {
    BLOCK = 64, /* elements of a part come in such blocks: one word of the mask */
    BINS = 1 << 11,
    COPIES = 4,      /* of the bins: neighbours are often equal, and would wait for one another */
    ASKED = 1 << 13, /* elements that guess */
    TOGETHER = 8,    /* of them that lie side by side */
    WORTH_ASKING = 1 << 18
};

/* The keys that are looked at, of width numbers from `low` on; bin i has those from low + (i <<
   shift) on. */
struct interval {
    uint32_t low, width;
    int shift;
};

struct span {
    int64_t first, end;
};

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static struct span part_of(int64_t n, int parts, int i)
{
    int64_t blocks = (n + BLOCK - 1) / BLOCK;

    return (struct span){blocks * i / parts * BLOCK, smaller(blocks * (i + 1) / parts * BLOCK, n)};
}

/* Bins of a part, in which it also keeps what is above the interval. */
struct counters {
    uint32_t bin[COPIES * BINS];
    int64_t above;
};

static struct counters *counters_of(const struct tr_queue *q, int part)
{
    return (struct counters *)(void *)(q->device->scratch + (int64_t)part * SCRATCH_FLOATS);
}

/* Bits of a key. */
static int key_bits(const struct tr_tensor *x)
{
    return x->dtype == TR_F32 ? 31 : 15;
}

static uint32_t key_of(const struct tr_tensor *x, int64_t i)
{
    return x->dtype == TR_F32 ? ((const uint32_t *)x->data)[i] & 0x7fffffff
                              : tr_half(x)[i] & 0x7fffu;
}

/* The interval of that many keys from `low` on, in no more bins than there are. */
static struct interval interval_of(uint32_t low, uint32_t width)
{
    struct interval v = {.low = low, .width = width};

    while ((width - 1) >> v.shift >= BINS)
        v.shift++;
    return v;
}

/* ---- comparing ---- */

/* Bit i: whether the key of element first + i, i < n <= BLOCK, is one of `width` from `low` on. */
static uint64_t plain_inside(const struct tr_tensor *x, int64_t first, int64_t n, uint32_t low,
                             uint32_t width)
{
    uint64_t word = 0;

    for (int64_t i = 0; i < n; i++)
        word |= (uint64_t)(key_of(x, first + i) - low < width) << i;
    return word;
}

#if defined(__AVX512BW__)
static uint64_t inside_wide(const uint32_t *x, uint32_t low, uint32_t width)
{
    const __m512i from = _mm512_set1_epi32((int)low), most = _mm512_set1_epi32((int)width);
    const __m512i key = _mm512_set1_epi32(0x7fffffff);
    uint64_t word = 0;

    for (int i = 0; i < BLOCK; i += 16) {
        __m512i v = _mm512_and_si512(_mm512_loadu_si512(x + i), key);

        word |= (uint64_t)_mm512_cmplt_epu32_mask(_mm512_sub_epi32(v, from), most) << i;
    }
    return word;
}

static uint64_t inside_half(const uint16_t *x, uint32_t low, uint32_t width)
{
    const __m512i from = _mm512_set1_epi16((short)low), most = _mm512_set1_epi16((short)width);
    const __m512i key = _mm512_set1_epi16(0x7fff);
    uint64_t word = 0;

    for (int i = 0; i < BLOCK; i += 32) {
        __m512i v = _mm512_and_si512(_mm512_loadu_si512(x + i), key);

        word |= (uint64_t)_mm512_cmplt_epu16_mask(_mm512_sub_epi16(v, from), most) << i;
    }
    return word;
}
#else
/* Eight bytes that are 0 or 1 as the bits of one, the first lowest: the product moves the one at
   bit 8 i to bit 56 + i, and nothing else there. */
static uint64_t bits_of(const uint8_t flag[BLOCK])
{
    uint64_t word = 0;

    for (int i = 0; i < BLOCK; i += 8) {
        uint64_t x = 0;

        for (int k = 0; k < 8; k++)
            x |= (uint64_t)flag[i + k] << 8 * k;
        word |= x * UINT64_C(0x0102040810204080) >> 56 << i;
    }
    return word;
}

static uint64_t inside_wide(const uint32_t *x, uint32_t low, uint32_t width)
{
    uint8_t flag[BLOCK];

#pragma omp simd
    for (int i = 0; i < BLOCK; i++)
        flag[i] = (x[i] & 0x7fffffff) - low < width;
    return bits_of(flag);
}

static uint64_t inside_half(const uint16_t *x, uint32_t low, uint32_t width)
{
    const uint16_t from = (uint16_t)low, most = (uint16_t)width;
    uint8_t flag[BLOCK];

#pragma omp simd
    for (int i = 0; i < BLOCK; i++)
        flag[i] = (uint16_t)((x[i] & 0x7fff) - from) < most;
    return bits_of(flag);
}
#endif

/* The same with vectors. */
static inline uint64_t inside(const struct tr_tensor *x, int64_t first, int64_t n, uint32_t low,
                              uint32_t width)
{
    if (n < BLOCK)
        return plain_inside(x, first, n, low, width);
    if (x->dtype == TR_F32)
        return inside_wide((const uint32_t *)x->data + first, low, width);
    return inside_half(tr_half(x) + first, low, width);
}

/* ---- counting ---- */

/* All keys, in bins of 1 << shift. */
static void count_all(const struct tr_tensor *x, struct span p, int shift, struct counters *c)
{
    int64_t i = p.first;

    if (x->dtype == TR_F32)
        for (const uint32_t *from = x->data; i + COPIES <= p.end; i += COPIES)
            for (int k = 0; k < COPIES; k++)
                c->bin[k * BINS + (int)((from[i + k] & 0x7fffffff) >> shift)]++;
    else
        for (const uint16_t *from = x->data; i + COPIES <= p.end; i += COPIES)
            for (int k = 0; k < COPIES; k++)
                c->bin[k * BINS + ((from[i + k] & 0x7fff) >> shift)]++;
    for (; i < p.end; i++)
        c->bin[key_of(x, i) >> shift]++;
    for (int k = 1; k < COPIES; k++)
        for (int b = 0; b < BINS; b++)
            c->bin[b] += c->bin[k * BINS + b];
}

/* Those of an interval, which are few, and how many are above it. */
static void count_inside(const struct tr_tensor *x, struct span p, struct interval v,
                         struct counters *c)
{
    const uint32_t high = v.low + v.width, rest = (UINT32_C(1) << key_bits(x)) - high;

    for (int64_t first = p.first; first < p.end; first += BLOCK) {
        int64_t n = smaller(p.end - first, BLOCK);
        uint64_t word = inside(x, first, n, v.low, v.width);

        c->above += __builtin_popcountll(inside(x, first, n, high, rest));
        for (; word; word &= word - 1)
            c->bin[(key_of(x, first + __builtin_ctzll(word)) - v.low) >> v.shift]++;
    }
}

static void count(const struct tr_queue *q, const struct tr_tensor *x, int parts, struct interval v)
{
    const int64_t n = tr_tensor_elems(x);

#pragma omp parallel for num_threads(parts) if (parts > 1)
    for (int p = 0; p < parts; p++) {
        struct counters *c = counters_of(q, p);

        memset(c, 0, sizeof *c);
        if (v.width >> key_bits(x))
            count_all(x, part_of(n, parts, p), v.shift, c);
        else
            count_inside(x, part_of(n, parts, p), v, c);
    }
}

/* ---- looking for the key ---- */

/* If the k-th largest key is in the interval that was counted: which bin it is in, and the
   how-manieth of that bin.  Otherwise false. */
static bool choose(const struct tr_queue *q, int parts, struct interval *v, int64_t *k)
{
    int64_t left = *k;

    for (int p = 0; p < parts; p++)
        left -= counters_of(q, p)->above;
    for (int bin = (int)((v->width - 1) >> v->shift); left > 0 && bin >= 0; bin--) {
        int64_t here = 0;

        for (int p = 0; p < parts; p++)
            here += counters_of(q, p)->bin[bin];
        if (here >= left) {
            v->low += (uint32_t)bin << v->shift;
            *k = left;
            return true;
        }
        left -= here;
    }
    return false;
}

/* The key that is looked for; the bin that counted what is equal to it, and how many of these are
   among the k. */
struct found {
    uint32_t key;
    int bin;
    int64_t equal;
};

/* The k-th largest key of x.  False if it is not in this interval. */
static bool find(const struct tr_queue *q, const struct tr_tensor *x, int parts, struct interval v,
                 int64_t k, struct found *f)
{
    for (;;) {
        const uint32_t low = v.low;

        count(q, x, parts, v);
        f->equal = k;
        if (!choose(q, parts, &v, &f->equal))
            return false;
        f->key = v.low;
        f->bin = (int)(v.low - low);
        if (v.shift == 0)
            return true;
        v = interval_of(v.low, UINT32_C(1) << v.shift);
    }
}

static struct interval all_keys(const struct tr_tensor *x)
{
    return interval_of(0, UINT32_C(1) << key_bits(x));
}

/* Where the key should be by the word of a few elements: from a little below the one of the same
   rank among them to a little above it. */
static struct interval guess(const struct tr_queue *q, const struct tr_tensor *x, int64_t k)
{
    const int64_t n = tr_tensor_elems(x), bytes = TOGETHER * tr_dtype_bytes(x->dtype);
    const int64_t rank = (int64_t)((double)k / (double)n * ASKED), margin = ASKED / 64 + 32;
    unsigned char *room = (unsigned char *)(counters_of(q, 0) + 1);
    struct tr_tensor some = tr_tensor_1(room, x->dtype, ASKED);
    struct found low = {.key = 0}, high = {.key = (UINT32_C(1) << key_bits(x)) - 1};

    for (int64_t i = 0; i < ASKED / TOGETHER; i++)
        memcpy(room + i * bytes, (const unsigned char *)x->data + i * (n / ASKED) * bytes,
               (size_t)bytes);
    if (rank + margin < ASKED)
        (void)find(q, &some, 1, all_keys(x), rank + margin, &low);
    if (rank - margin > 0)
        (void)find(q, &some, 1, all_keys(x), rank - margin, &high);
    return interval_of(low.key, high.key + 1 - low.key);
}

/* ---- the mask ---- */

/* A part of the mask, with the first `equal` of the elements that have the key itself. */
static void write_part(const struct tr_tensor *mask, const struct tr_tensor *x, struct span p,
                       uint32_t key, int64_t equal)
{
    const uint32_t rest = (UINT32_C(1) << key_bits(x)) - key - 1;

    for (int64_t first = p.first; first < p.end; first += BLOCK) {
        int64_t n = smaller(p.end - first, BLOCK);
        uint64_t word = inside(x, first, n, key + 1, rest), same = inside(x, first, n, key, 1);

        for (; same && equal > 0; same &= same - 1, equal--)
            word |= same & -same;
        word = tr_mask_word(word);
        memcpy(tr_u8(mask) + first / 8, &word, (size_t)(n + 7) / 8);
    }
}

void tr_cpu_topk_mask(struct tr_queue *q, const struct tr_tensor *mask, const struct tr_tensor *x,
                      int64_t k)
{
    const int64_t n = tr_sizes_mask(x, mask, NULL, &k);
    const int threads = q->device->threads, parts = n > TR_CPU_SMALL ? threads : 1;
    struct found f;

    TR_ASSERT(n / parts < UINT32_MAX);
    if (n < WORTH_ASKING || !find(q, x, parts, guess(q, x, k), k, &f))
        TR_ASSERT(find(q, x, parts, all_keys(x), k, &f));
        /* A part knows how many that are equal come before it. */
#pragma omp parallel for num_threads(threads) if (parts > 1)
    for (int p = 0; p < parts; p++) {
        int64_t equal = f.equal;

        for (int before = 0; before < p; before++)
            equal -= counters_of(q, before)->bin[f.bin];
        write_part(mask, x, part_of(n, parts, p), f.key, equal > 0 ? equal : 0);
    }
}
