/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu.h"

#include <string.h>

#include "device/codec_bits.h"
#include "device/cpu/cpu_half.h"
#include "device/cpu/cpu_simd.h"
#include "device/host.h"
#include "device/sizes.h"

/*
 * Some elements of many: a mask or a selection becomes a list of places, PIECE at a time, which are
 * then collected as they lie in memory, computed with as floats, and put back.
 */
enum { PIECE = 512 };

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- lists of places ---- */

/* The elements at n places as floats; 0 where a place is below 0. */
static void collect(const struct tr_tensor *t, const int64_t *at, int64_t n, float *out)
{
    if (t->dtype == TR_F32) {
        const float *from = tr_f32(t);

        for (int64_t k = 0; k < n; k++)
            out[k] = at[k] >= 0 ? from[at[k]] : 0.0f;
    } else {
        const uint16_t *from = tr_half(t);
        uint16_t found[PIECE];

        for (int64_t k = 0; k < n; k++)
            found[k] = at[k] >= 0 ? from[at[k]] : 0;
        tr_cpu_widen(t->dtype, found, n, out);
    }
}

static void put_back(const struct tr_tensor *t, const int64_t *at, int64_t n, const float *x)
{
    if (t->dtype == TR_F32) {
        float *to = tr_f32(t);

        for (int64_t k = 0; k < n; k++)
            if (at[k] >= 0)
                to[at[k]] = x[k];
    } else {
        uint16_t *to = tr_half(t), made[PIECE];

        tr_cpu_narrow(t->dtype, x, n, made);
        for (int64_t k = 0; k < n; k++)
            if (at[k] >= 0)
                to[at[k]] = made[k];
    }
}

/* to[at[k]] += factor * y[first + k]. */
static void increase(const struct tr_tensor *to, const int64_t *at, const struct tr_tensor *y,
                     int64_t first, int64_t n, float factor)
{
    float sum[PIECE], buffer[PIECE];
    const float *from = tr_cpu_in(y, first, n, buffer);

    collect(to, at, n, sum);
#pragma omp simd
    for (int64_t k = 0; k < n; k++)
        sum[k] += factor * from[k];
    put_back(to, at, n, sum);
}

/* ---- masks ---- */

/* Elements whose bits lie in one 64-bit word of the mask, or in what is left of it. */
enum { WORD = 64 };

/* Bit i of the result belongs to element first + i. */
static uint64_t word_of(const struct tr_tensor *mask, int64_t n, int64_t first)
{
    const uint8_t *from = tr_u8(mask) + first / 8;
    uint64_t x = 0;

    /* A copy of unknown length is a call. */
    if (n - first >= WORD)
        memcpy(&x, from, WORD / 8);
    else
        memcpy(&x, from, (size_t)((n - first + 7) / 8));
    return tr_mask_word(x);
}

/* Bits are taken out of a word BATCH at a time, and a few more than there are: a loop that ended
   with the last of them would end where the processor does not expect it.  Lists have room for
   these. */
enum { BATCH = 8 };

/* The lowest bit set; the highest where none is. */
static inline int lowest(uint64_t word)
{
    return __builtin_ctzll(word | UINT64_C(1) << 63);
}

/* Part i of a mask that is split among the cores: whole words. */
struct part {
    int64_t first, end; /* elements */
    int64_t set;        /* bits set before `first` */
};

enum { PARTS = 64 };

static int64_t bits_between(const struct tr_tensor *mask, int64_t n, int64_t first, int64_t end)
{
    int64_t set = 0;

    for (int64_t i = first; i < end; i += WORD)
        set += __builtin_popcountll(word_of(mask, n, i));
    return set;
}

/* Split into as many parts as there are cores, each of which knows what comes before it. */
static int cut(int threads, const struct tr_tensor *mask, int64_t n, int64_t k,
               struct part part[PARTS])
{
    int parts = tr_cpu_worth(threads, n) ? (int)smaller(threads, PARTS) : 1;
    int64_t words = (n + WORD - 1) / WORD, before = 0;

#pragma omp parallel for num_threads(threads) if (parts > 1)
    for (int i = 0; i < parts; i++) {
        part[i].first = words * i / parts * WORD;
        part[i].end = smaller(words * (i + 1) / parts * WORD, n);
        part[i].set = bits_between(mask, n, part[i].first, part[i].end);
    }
    for (int i = 0; i < parts; i++) {
        int64_t here = part[i].set;

        part[i].set = before;
        before += here;
    }
    TR_ASSERT(before == k);
    return parts;
}

/* Elements as they lie in memory. */
union raw {
    uint32_t wide[PIECE];
    uint16_t half[PIECE];
};

/* Those of the WORD elements from `first` on whose bits are set, from raw[n] on, where is room for
   WORD; how many there are then. */
#if defined(__AVX512BW__)
static int64_t take_word(const struct tr_tensor *x, int64_t first, uint64_t word, union raw *raw,
                         int64_t n)
{
    for (int i = 0; i < WORD; i += LANES, word >>= LANES) {
        const __mmask16 set = (__mmask16)word;

        if (x->dtype == TR_F32) {
            __m512i v = _mm512_loadu_si512((const uint32_t *)x->data + first + i);

            _mm512_storeu_si512(raw->wide + n, _mm512_maskz_compress_epi32(set, v));
        } else {
            const uint16_t *from = tr_half(x) + first + i;
            __m512i v =
                _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)from));

            v = _mm512_maskz_compress_epi32(set, v);
            _mm256_storeu_si256((__m256i *)(void *)(raw->half + n), _mm512_cvtepi32_epi16(v));
        }
        n += __builtin_popcount(set);
    }
    return n;
}
#else
static int64_t take_word(const struct tr_tensor *x, int64_t first, uint64_t word, union raw *raw,
                         int64_t n)
{
    const int64_t end = n + __builtin_popcountll(word);

    if (x->dtype == TR_F32)
        for (const uint32_t *from = (const uint32_t *)x->data + first; n < end; n += BATCH)
            for (int k = 0; k < BATCH; k++, word &= word - 1)
                raw->wide[n + k] = from[lowest(word)];
    else
        for (const uint16_t *from = tr_half(x) + first; n < end; n += BATCH)
            for (int k = 0; k < BATCH; k++, word &= word - 1)
                raw->half[n + k] = from[lowest(word)];
    return end;
}

#endif

/* The same where fewer than WORD elements are left. */
static int64_t take_rest(const struct tr_tensor *x, int64_t first, uint64_t word, union raw *raw,
                         int64_t n)
{
    for (; word; word &= word - 1, n++)
        if (x->dtype == TR_F32)
            raw->wide[n] = ((const uint32_t *)x->data)[first + lowest(word)];
        else
            raw->half[n] = tr_half(x)[first + lowest(word)];
    return n;
}

static void take_part(const struct tr_tensor *y, const struct tr_tensor *x,
                      const struct tr_tensor *mask, int64_t n, const struct part *p)
{
    int64_t done = p->set, count = 0;
    union raw raw;

    for (int64_t i = p->first; i < p->end; i += WORD) {
        const uint64_t word = word_of(mask, n, i);

        count =
            n - i < WORD ? take_rest(x, i, word, &raw, count) : take_word(x, i, word, &raw, count);
        if (count > PIECE - WORD - BATCH || (i + WORD >= p->end && count > 0)) {
            const struct tr_tensor some = tr_tensor_1(&raw, x->dtype, count);

            tr_cpu_convert(y, done, &some, 0, count);
            done += count;
            count = 0;
        }
    }
}

void tr_cpu_mask_take(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *x,
                      const struct tr_tensor *mask)
{
    int64_t k, n = tr_sizes_mask(x, mask, y, &k);
    struct part part[PARTS];
    int threads = q->device->threads, parts = cut(threads, mask, n, k, part);

#pragma omp parallel for num_threads(threads) if (parts > 1)
    for (int i = 0; i < parts; i++)
        take_part(y, x, mask, n, &part[i]);
}

/* y += factor * v where bits are set. */
#if defined(__AVX512BW__)
/* WORD floats from `y` on; v has as many as there are bits.  All are written: what is stored in
   parts is not soon read again. */
static void add_word(float *y, uint64_t word, const float *v, float factor)
{
    const __m512 by = _mm512_set1_ps(factor);

    for (int i = 0; i < WORD; i += LANES, word >>= LANES) {
        const __mmask16 set = (__mmask16)word;
        const int count = __builtin_popcount(set);
        __m512 old = _mm512_loadu_ps(y + i);
        __m512 x = _mm512_maskz_loadu_ps((__mmask16)((1U << count) - 1), v);

        x = _mm512_mul_ps(by, _mm512_maskz_expand_ps(set, x));
        _mm512_storeu_ps(y + i, _mm512_mask_add_ps(old, set, old, x));
        v += count;
    }
}

/* The same for fewer. */
static void add_rest(float *y, uint64_t word, const float *v, float factor)
{
    for (; word; word &= word - 1)
        y[lowest(word)] += factor * *v++;
}

/* Numbers in fp16 or bf16 whose bits are set become x. */
static void put_word(uint16_t *y, uint64_t word, const uint16_t *x)
{
    for (int i = 0; i < WORD; i += 2 * LANES, word >>= 2 * LANES) {
        const __mmask32 set = (__mmask32)word;

        _mm512_mask_storeu_epi16(y + i, set, _mm512_maskz_loadu_epi16(set, x + i));
    }
}

static void add_part(const struct tr_tensor *y, const struct tr_tensor *v,
                     const struct tr_tensor *mask, int64_t n, const struct part *p, float factor)
{
    int64_t done = p->set, count;

    for (int64_t i = p->first; i < p->end; i += PIECE, done += count) {
        const int64_t here = smaller(p->end - i, PIECE);
        float sums[PIECE], room[PIECE], *to = tr_cpu_in(y, i, here, sums);
        const float *from;
        uint64_t word[PIECE / WORD];
        uint16_t made[PIECE];

        count = 0;
        for (int64_t k = 0; k < here; k += WORD)
            count += __builtin_popcountll(word[k / WORD] = word_of(mask, n, i + k));
        from = tr_cpu_in(v, done, count, room);
        for (int64_t k = 0; k < here; k += WORD) {
            (here - k < WORD ? add_rest : add_word)(to + k, word[k / WORD], from, factor);
            from += __builtin_popcountll(word[k / WORD]);
        }
        if (y->dtype == TR_F32)
            continue;
        tr_cpu_narrow(y->dtype, to, here, made);
        for (int64_t k = 0; k < here; k += WORD)
            put_word(tr_half(y) + i + k, word[k / WORD], made + k);
    }
}
#else
/* The places of the bits set in a word, at[... + BATCH]; how many there are. */
static int list_bits(uint64_t word, int64_t first, int64_t *at)
{
    int n = __builtin_popcountll(word);

    for (int i = 0; i < n; i += BATCH)
        for (int k = 0; k < BATCH; k++, word &= word - 1)
            at[i + k] = first + lowest(word);
    return n;
}

static void add_part(const struct tr_tensor *y, const struct tr_tensor *v,
                     const struct tr_tensor *mask, int64_t n, const struct part *p, float factor)
{
    int64_t done = p->set, count = 0, at[PIECE];

    for (int64_t i = p->first; i < p->end; i += WORD) {
        count += list_bits(word_of(mask, n, i), i, at + count);
        if (count > PIECE - WORD - BATCH || (i + WORD >= p->end && count > 0)) {
            increase(y, at, v, done, count, factor);
            done += count;
            count = 0;
        }
    }
}
#endif

void tr_cpu_mask_add(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *v,
                     const struct tr_tensor *mask, float factor)
{
    int64_t k, n = tr_sizes_mask(y, mask, v, &k);
    struct part part[PARTS];
    int threads = q->device->threads, parts = cut(threads, mask, n, k, part);

#pragma omp parallel for num_threads(threads) if (parts > 1)
    for (int i = 0; i < parts; i++)
        add_part(y, v, mask, n, &part[i], factor);
}

/* ---- selections ---- */

/* Places i .. i + n - 1 of a selection from `all` elements. */
static void places(const struct tr_select *s, int64_t all, int64_t i, int64_t n, int64_t *at)
{
    int64_t most = -1;

    if (!s->index) {
        for (int64_t k = 0; k < n; k++)
            at[k] = s->first + (i + k) * s->step;
        return;
    }
    for (int64_t k = 0; k < n; k++) {
        at[k] = tr_i32(s->index)[i + k];
        most = at[k] > most ? at[k] : most;
    }
    TR_ASSERT(most < all);
}

void tr_cpu_select_take(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *a,
                        const struct tr_tensor *b, struct tr_select s)
{
    int64_t all = tr_tensor_elems(a), n = tr_sizes_select(y, a, b, &s);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, n))
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = smaller(n - i, PIECE), at[PIECE];
        float buffer[PIECE], less[PIECE], *to = tr_cpu_out(y, i, buffer);

        places(&s, all, i, count, at);
        collect(a, at, count, to);
        if (b) {
            collect(b, at, count, less);
#pragma omp simd
            for (int64_t k = 0; k < count; k++)
                to[k] -= less[k];
        }
        tr_cpu_put(y, i, count, to);
    }
}

void tr_cpu_select_put(struct tr_queue *q, const struct tr_tensor *a, const struct tr_tensor *y,
                       struct tr_select s)
{
    int64_t all = tr_tensor_elems(a), n = tr_sizes_select(y, a, NULL, &s);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, n))
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = smaller(n - i, PIECE), at[PIECE];
        float buffer[PIECE];

        places(&s, all, i, count, at);
        put_back(a, at, count, tr_cpu_in(y, i, count, buffer));
    }
}

void tr_cpu_select_add(struct tr_queue *q, const struct tr_tensor *a, const struct tr_tensor *y,
                       struct tr_select s, float factor)
{
    int64_t all = tr_tensor_elems(a), n = tr_sizes_select(y, a, NULL, &s);
    int threads = q->device->threads;

#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, n))
    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t count = smaller(n - i, PIECE), at[PIECE];

        places(&s, all, i, count, at);
        increase(a, at, y, i, count, factor);
    }
}

/* ---- all of them ---- */

/* Elements first .. first + n - 1 of y become x, past the caches. */
static void put_far(const struct tr_tensor *y, int64_t first, int64_t n, const float *x)
{
    const int64_t whole = n * tr_dtype_bytes(y->dtype) / (int64_t)sizeof(vec) * LANES;
    float *to = tr_cpu_at(y, first), room[PIECE];

    if (y->dtype != TR_F32) {
        tr_cpu_narrow(y->dtype, x, n, room);
        x = room;
    }
    for (int64_t k = 0; k < whole; k += LANES)
        vec_stream(to + k, vec_load(x + k));
    memcpy(to + whole, x + whole,
           (size_t)(n * tr_dtype_bytes(y->dtype) - whole * (int64_t)sizeof *to));
}

static void subtract_span(const struct tr_tensor *y, const struct tr_tensor *a,
                          const struct tr_tensor *b, int64_t first, int64_t end, bool far)
{
    for (int64_t i = first; i < end; i += PIECE) {
        int64_t count = smaller(end - i, PIECE);
        float buffer[3][PIECE];
        const float *from = tr_cpu_in(a, i, count, buffer[0]);
        const float *less = tr_cpu_in(b, i, count, buffer[1]);
        float *to = far ? buffer[2] : tr_cpu_out(y, i, buffer[2]);

#pragma omp simd
        for (int64_t k = 0; k < count; k++)
            to[k] = from[k] - less[k];
        if (far)
            put_far(y, i, count, to);
        else
            tr_cpu_put(y, i, count, to);
    }
    if (far)
        vec_flush();
}

void tr_cpu_subtract(struct tr_queue *q, const struct tr_tensor *y, const struct tr_tensor *a,
                     const struct tr_tensor *b)
{
    int64_t n = tr_sizes_flat(y, a, b, b);
    int threads = q->device->threads;
    const bool far = n > TR_CPU_LONG && (uintptr_t)y->data % sizeof(vec) == 0;

#pragma omp parallel for num_threads(threads) if (tr_cpu_worth(threads, n))
    for (int64_t i = 0; i < n; i += TR_CPU_PIECE)
        subtract_span(y, a, b, i, smaller(i + TR_CPU_PIECE, n), far);
}

/* Words first .. first + n - 1. */
static uint64_t mixed_words(const unsigned char *x, int64_t first, int64_t n)
{
    uint64_t word[PIECE], sum = 0;

    memcpy(word, x + first * 8, (size_t)n * 8);
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) {
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
        word[i] = __builtin_bswap64(word[i]);
#endif
        sum += tr_mix(word[i] + (uint64_t)(first + i + 1) * TR_MIX_STEP);
    }
    return sum;
}

void tr_cpu_fingerprint(struct tr_queue *q, const struct tr_tensor *out, const struct tr_tensor *x)
{
    int64_t bytes = tr_sizes_fingerprint(out, x), words = bytes / 8, left = bytes % 8;
    const unsigned char *from = x->data;
    int threads = q->device->threads;
    uint64_t sum = 0, last = 0;

#pragma omp parallel for reduction(+ : sum) num_threads(threads) if (tr_cpu_worth(threads, words))
    for (int64_t i = 0; i < words; i += PIECE)
        sum += mixed_words(from, i, smaller(words - i, PIECE));
    for (int64_t i = 0; i < left; i++)
        last |= (uint64_t)from[words * 8 + i] << 8 * i;
    if (left > 0)
        sum += tr_mix(last + (uint64_t)(words + 1) * TR_MIX_STEP);
    tr_i64(out)[0] = (int64_t)tr_mix((uint64_t)tr_i64(out)[0] + (uint64_t)bytes + sum);
}
