/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu.h"

#include <string.h>

#include "device/codec_bits.h"
#include "device/cpu/cpu_product.h"
#include "device/cpu/cpu_simd.h"
#include "device/host.h"
#include "device/sizes.h"

/*
 * The k largest without sorting.  A number without its sign compares as the whole number that its
 * bits are, its key; what is looked for is the smallest key of the k largest.  It is in an
 * interval, which is split into bins; elements are counted in each; one of the bins is the next
 * interval, until it has one key.  A few elements of a long operand say beforehand where the key
 * should be, so that most others are only compared with two numbers; if it is not there the first
 * interval has all keys.  Each core counts in a part of its own, so that it knows how many with
 * that key come before its part, and writes the mask of that part.
 */
enum {
    BLOCK = 64, /* elements of a part come in such blocks: one word of the mask */
    BINS = 1 << 11,
    COPIES = 4,       /* of the bins: neighbours are often equal, and would wait for one another */
    LISTED = 1 << 10, /* bins that are noted before they are counted */
    ASKED = 1 << 13,  /* elements of the sample */
    TOGETHER = 8,     /* of them that lie side by side */
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

/* Bit i: whether the key of element first + i, i < n <= BLOCK, is at least `low`. */
static uint64_t plain_at_least(const struct tr_tensor *x, int64_t first, int64_t n, uint32_t low)
{
    uint64_t word = 0;

    for (int64_t i = 0; i < n; i++)
        word |= (uint64_t)(key_of(x, first + i) >= low) << i;
    return word;
}

#if defined(__AVX512BW__)
/* LANES keys. */
static inline __m512i keys_at(const struct tr_tensor *x, int64_t first)
{
    if (x->dtype == TR_F32)
        return _mm512_and_si512(_mm512_loadu_si512((const uint32_t *)x->data + first),
                                _mm512_set1_epi32(0x7fffffff));
    return _mm512_and_si512(_mm512_cvtepu16_epi32(_mm256_loadu_si256(
                                (const __m256i *)(const void *)(tr_half(x) + first))),
                            _mm512_set1_epi32(0x7fff));
}

/* The same of BLOCK elements. */
static inline uint64_t at_least(const struct tr_tensor *x, int64_t first, uint32_t low)
{
    uint64_t word = 0;

    if (x->dtype == TR_F32) {
        const __m512i least = _mm512_set1_epi32((int)low);

        for (int i = 0; i < BLOCK; i += LANES)
            word |= (uint64_t)_mm512_cmpge_epu32_mask(keys_at(x, first + i), least) << i;
    } else {
        const __m512i least = _mm512_set1_epi16((short)low), key = _mm512_set1_epi16(0x7fff);

        for (int i = 0; i < BLOCK; i += 2 * LANES) {
            __m512i v = _mm512_and_si512(_mm512_loadu_si512(tr_half(x) + first + i), key);

            word |= (uint64_t)_mm512_cmpge_epu16_mask(v, least) << i;
        }
    }
    return word;
}
#else
/* Bytes that are 0 or 1 as bits, the first lowest. */
static inline uint64_t bits_of(const uint8_t flag[BLOCK])
{
    uint64_t word = 0;

#if defined(__SSE2__)
    for (int i = 0; i < BLOCK; i += 16) {
        const __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(flag + i));

        /* The highest bit of each byte is taken. */
        word |= (uint64_t)(uint32_t)_mm_movemask_epi8(_mm_slli_epi16(v, 7)) << i;
    }
#else
    for (int i = 0; i < BLOCK; i += 8) {
        uint64_t x;

        memcpy(&x, flag + i, sizeof x);
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
        x = __builtin_bswap64(x);
#endif
        /* The product moves the bit at 8 k to 56 + k, and nothing else there. */
        word |= x * UINT64_C(0x0102040810204080) >> 56 << i;
    }
#endif
    return word;
}

/* Keys have no sign bit, so that they compare with signs, which more machines can. */
static uint64_t at_least(const struct tr_tensor *x, int64_t first, uint32_t low)
{
    uint8_t flag[BLOCK];

    if (x->dtype == TR_F32) {
        const uint32_t *from = (const uint32_t *)x->data + first;
        const int32_t below = (int32_t)(low - 1);

#pragma omp simd
        for (int i = 0; i < BLOCK; i++)
            flag[i] = (int32_t)(from[i] & 0x7fffffff) > below;
    } else {
        const uint16_t *from = tr_half(x) + first;
        const int16_t below = (int16_t)(low - 1);

#pragma omp simd
        for (int i = 0; i < BLOCK; i++)
            flag[i] = (int16_t)(from[i] & 0x7fff) > below;
    }
    return bits_of(flag);
}
#endif

/* Bit i of each word: whether the key of element first + i is at least `high`, and whether it is
   one from `low` on below that. */
struct sorted {
    uint64_t above, inside;
};

static inline struct sorted sort(const struct tr_tensor *x, int64_t first, int64_t n, uint32_t low,
                                 uint32_t high)
{
    const bool whole = n == BLOCK;
    uint64_t more = whole ? at_least(x, first, high) : plain_at_least(x, first, n, high);
    uint64_t both = whole ? at_least(x, first, low) : plain_at_least(x, first, n, low);

    return (struct sorted){.above = more, .inside = both & ~more};
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
}

#if defined(__AVX512BW__)
/* The bins of a list. */
static void count_list(const uint32_t *bin, int64_t n, struct counters *c)
{
    for (int64_t i = 0; i < n; i++)
        c->bin[i % COPIES * BINS + bin[i]]++;
}

/* Blocks that are whole.  Keys are first put side by side: how many there are of a block is not to
   be known beforehand, and a loop over them would end where the processor does not expect it. */
static void count_blocks(const struct tr_tensor *x, struct span p, struct interval v,
                         struct counters *c)
{
    const __m512i low = _mm512_set1_epi32((int)v.low), width = _mm512_set1_epi32((int)v.width);
    const __m512i high = _mm512_set1_epi32((int)(v.low + v.width));
    const __m128i shift = _mm_cvtsi32_si128(v.shift);
    uint32_t list[LISTED];
    int64_t n = 0, above = 0;

    for (int64_t i = p.first; i < p.end; i += LANES) {
        const __m512i key = keys_at(x, i), from_low = _mm512_sub_epi32(key, low);
        const __mmask16 inside = _mm512_cmplt_epu32_mask(from_low, width);
        const __m512i bin = _mm512_srl_epi32(from_low, shift);

        above += __builtin_popcount(_mm512_cmpge_epu32_mask(key, high));
        _mm512_storeu_si512(list + n, _mm512_maskz_compress_epi32(inside, bin));
        n += __builtin_popcount(inside);
        if (n > LISTED - LANES) {
            count_list(list, n, c);
            n = 0;
        }
    }
    count_list(list, n, c);
    c->above += above;
}
#else
static void count_blocks(const struct tr_tensor *x, struct span p, struct interval v,
                         struct counters *c)
{
    for (int64_t first = p.first; first < p.end; first += BLOCK) {
        struct sorted s = sort(x, first, BLOCK, v.low, v.low + v.width);

        c->above += __builtin_popcountll(s.above);
        for (; s.inside; s.inside &= s.inside - 1)
            c->bin[(key_of(x, first + __builtin_ctzll(s.inside)) - v.low) >> v.shift]++;
    }
}
#endif

/* Those of an interval, which are few, and how many are above it. */
static void count_inside(const struct tr_tensor *x, struct span p, struct interval v,
                         struct counters *c)
{
    const struct span whole = {p.first, p.first + (p.end - p.first) / BLOCK * BLOCK};

    count_blocks(x, whole, v, c);
    for (int64_t i = whole.end; i < p.end; i++) {
        const uint32_t key = key_of(x, i);

        c->above += key >= v.low + v.width;
        if (key - v.low < v.width)
            c->bin[(key - v.low) >> v.shift]++;
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
        for (int k = 1; k < COPIES; k++)
            for (int b = 0; b < BINS; b++)
                c->bin[b] += c->bin[k * BINS + b];
    }
}

/* ---- looking for the key ---- */

/* If the k-th largest key is in the interval that was counted: its bin, and its rank in that bin.
   Otherwise false. */
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

/* Where the key should be, estimated from a sample: from a little below the key of the same rank in
   it to a little above. */
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
    for (int64_t first = p.first; first < p.end; first += BLOCK) {
        const int64_t n = smaller(p.end - first, BLOCK);
        struct sorted s = sort(x, first, n, key, key + 1);
        uint8_t *to = tr_u8(mask) + first / 8;

        for (; s.inside && equal > 0; s.inside &= s.inside - 1, equal--)
            s.above |= s.inside & -s.inside;
        s.above = tr_mask_word(s.above);
        /* A copy of unknown length is a call. */
        if (n == BLOCK)
            memcpy(to, &s.above, BLOCK / 8);
        else
            memcpy(to, &s.above, (size_t)(n + 7) / 8);
    }
}

void tr_cpu_topk_mask(struct tr_queue *q, const struct tr_tensor *mask, const struct tr_tensor *x,
                      int64_t k)
{
    const int64_t n = tr_sizes_mask(x, mask, NULL, &k);
    const int threads = q->device->threads, parts = tr_cpu_worth(threads, n) ? threads : 1;
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
