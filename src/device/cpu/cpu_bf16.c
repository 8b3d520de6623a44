/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu_bf16.h"

#include <string.h>

#include "device/cpu/cpu_simd.h"
#include "util/half.h"

/* gcc 10 and clang 9 know vdpbf16ps, gcc 11 and clang 11 the tiles. */
#if defined(__x86_64__) && (defined(__clang__) ? __clang_major__ >= 9 : __GNUC__ >= 10)
#define HAVE_DOTS 1
#endif
#if defined(__x86_64__) && defined(__linux__) && \
    (defined(__clang__) ? __clang_major__ >= 11 : __GNUC__ >= 11)
#define HAVE_TILES 1
#include <sys/syscall.h>
#include <unistd.h>
#endif
#ifdef HAVE_DOTS
#include <cpuid.h>
#endif

static void nothing(void) {}

/* ---- plain loops ---- */

static void by_loops(const struct tr_bf16_block *x)
{
    for (int64_t r = 0; r < x->rows; r++) {
        float *c = x->c + r * x->c_stride;

        for (int64_t j = 0; j < x->columns && !x->add; j++)
            c[j] = 0.0f;
        for (int64_t l = 0; l < x->depth; l++) {
            const float a = tr_bf16_to_float(x->a[r * x->a_stride + l]);
            const uint16_t *b = x->packed + l / 2 * 2 * x->columns + l % 2;

            for (int64_t j = 0; j < x->columns; j++)
                c[j] += a * tr_bf16_to_float(b[2 * j]);
        }
    }
}

static const struct tr_bf16 loops = {"plain loops", nothing, by_loops, nothing};

/* ---- dot products ---- */

#ifdef HAVE_DOTS
#define DOTS __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16")))
enum { DOT_ROWS = 8 };

/* DOT_ROWS rows, `vectors` times 16 columns. */
DOTS static inline __attribute__((always_inline)) void
dots_at(const struct tr_bf16_block *x, int64_t r, int64_t j, const int vectors)
{
    float *c = x->c + r * x->c_stride + j;
    __m512 sum[DOT_ROWS][2];

    for (int i = 0; i < DOT_ROWS; i++)
        for (int v = 0; v < vectors; v++)
            sum[i][v] =
                x->add ? _mm512_loadu_ps(c + i * x->c_stride + 16 * v) : _mm512_setzero_ps();
    for (int64_t l = 0; l < x->depth; l += 2) {
        const uint16_t *b = x->packed + l * x->columns + 2 * j;
        __m512i columns[2];

        for (int v = 0; v < vectors; v++)
            columns[v] = _mm512_loadu_si512(b + 32 * v);
        for (int i = 0; i < DOT_ROWS; i++) {
            int pair;

            memcpy(&pair, x->a + (r + i) * x->a_stride + l, sizeof pair);
            for (int v = 0; v < vectors; v++)
                sum[i][v] = _mm512_dpbf16_ps(sum[i][v], (__m512bh)_mm512_set1_epi32(pair),
                                             (__m512bh)columns[v]);
        }
    }
    for (int i = 0; i < DOT_ROWS; i++)
        for (int v = 0; v < vectors; v++)
            _mm512_storeu_ps(c + i * x->c_stride + 16 * v, sum[i][v]);
}

DOTS static void by_dots(const struct tr_bf16_block *x)
{
    for (int64_t r = 0; r < x->rows; r += DOT_ROWS) {
        int64_t j = 0;

        for (; j + 2 * TR_BF16_COLUMNS <= x->columns; j += 2 * TR_BF16_COLUMNS)
            dots_at(x, r, j, 2);
        if (j < x->columns)
            dots_at(x, r, j, 1);
    }
}

static const struct tr_bf16 dots = {"AVX512_BF16", nothing, by_dots, nothing};

/* Bit `bit` of register 0 to 3 (eax to edx) of a leaf of cpuid. */
static bool cpuid_has(unsigned leaf, unsigned sub, int which, int bit)
{
    unsigned r[4] = {0};

    return __get_cpuid_count(leaf, sub, &r[0], &r[1], &r[2], &r[3]) && (r[which] >> bit & 1);
}

/* Whether the system saves the registers of these bits: extended control register 0. */
static bool system_saves(uint32_t bits)
{
    uint32_t low = 0, high;

    if (!cpuid_has(1, 0, 2, 27))
        return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & bits) == bits;
}

static bool has_dots(void)
{
    return cpuid_has(7, 0, 1, 16) && cpuid_has(7, 0, 1, 30) && cpuid_has(7, 0, 1, 31) &&
           cpuid_has(7, 1, 0, 5) && system_saves(0xe6);
}

static bool is_amd(void)
{
    unsigned r[4] = {0};

    return __get_cpuid(0, &r[0], &r[1], &r[2], &r[3]) && r[1] == signature_AMD_ebx;
}
#endif

/* ---- tiles ---- */

#ifdef HAVE_TILES
#define TILES __attribute__((target("amx-tile,amx-bf16")))
#define TILE_ZERO(t) _tile_zero(t)
#define TILE_LOAD(t, p, bytes) _tile_loadd(t, p, bytes)
#define TILE_STORE(t, p, bytes) _tile_stored(t, p, bytes)
#define TILE_DOT(c, a, b) _tile_dpbf16ps(c, a, b)
#include "device/cpu/cpu_tiles.h"

/* All tiles have 16 rows of 64 bytes.  The layout is that of palette 1 in Intel's manual of
   instructions. */
TILES static void shape_tiles(void)
{
    struct {
        uint8_t palette, start, zero[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } how = {.palette = 1};

    for (int i = 0; i < 8; i++) {
        how.bytes[i] = 64;
        how.rows[i] = 16;
    }
    _tile_loadconfig(&how);
}

TILES static void release_tiles(void)
{
    _tile_release();
}

static const struct tr_bf16 tiles = {"AMX", shape_tiles, by_tiles, release_tiles};

/* Linux gives a process the tiles when it asks: arch_prctl(ARCH_REQ_XCOMP_PERM,
   XFEATURE_XTILEDATA). */
static bool has_tiles(void)
{
    return cpuid_has(7, 0, 3, 24) && cpuid_has(7, 0, 3, 22) && system_saves(0x60000) &&
           syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}
#endif

const struct tr_bf16 *const *tr_bf16_ways(void)
{
    static const struct tr_bf16 *ways[4];
    int n = 0;

#ifdef HAVE_TILES
    if (has_tiles())
        ways[n++] = &tiles;
#endif
#ifdef HAVE_DOTS
    if (has_dots())
        ways[n++] = &dots;
#endif
    ways[n] = &loops;
    return ways;
}

/* A processor without tiles gains where it starts vdpbf16ps as often as an fp32 instruction of half
   its work, as AMD's do; Intel's start it half as often.  `onednn` asks for these instructions
   wherever they are. */
const struct tr_bf16 *tr_bf16_choose(enum tr_gemm_by by)
{
    const struct tr_bf16 *best = tr_bf16_ways()[0];

    if (by == TR_GEMM_OWN || best == &loops)
        return NULL;
#ifdef HAVE_DOTS
    if (best == &dots && by == TR_GEMM_AUTO && !is_amd())
        return NULL;
#endif
    return best;
}

/* ---- layouts ---- */

void tr_bf16_copy(const uint16_t *from, int64_t stride, int64_t n, int64_t width, int64_t rows,
                  int64_t columns, uint16_t *to)
{
    for (int64_t i = 0; i < n; i++) {
        memcpy(to + i * columns, from + i * stride, (size_t)width * sizeof *to);
        memset(to + i * columns + width, 0, (size_t)(columns - width) * sizeof *to);
    }
    memset(to + n * columns, 0, (size_t)((rows - n) * columns) * sizeof *to);
}

void tr_bf16_pack(const uint16_t *b, int64_t stride, int64_t rows, int64_t columns,
                  uint16_t *packed)
{
    for (int64_t l = 0; l < rows; l += 2) {
        const uint16_t *one = b + l * stride, *two = one + stride;
        uint16_t *restrict to = packed + l * columns;

#pragma omp simd
        for (int64_t j = 0; j < columns; j++) {
            to[2 * j] = one[j];
            to[2 * j + 1] = two[j];
        }
    }
}

/* to[columns,rows] = the transpose of x[rows,columns], of 32-bit words, which are moved as floats
   and never computed with.  The stride counts words, too. */
static void turn_words(const uint16_t *x, int64_t stride, int64_t rows, int64_t columns,
                       uint16_t *to)
{
    const float *from = (const void *)x;
    float *words = (void *)to;

    for (int64_t r = 0; r < rows; r += LANES) {
        for (int64_t c = 0; c < columns; c += LANES) {
            vec v[LANES];

            for (int i = 0; i < LANES; i++)
                v[i] = vec_load(from + (r + i) * stride + c);
            vec_transpose(v);
            for (int i = 0; i < LANES; i++)
                vec_store(words + (c + i) * rows + r, v[i]);
        }
    }
}

void tr_bf16_pack_turned(const uint16_t *x, int64_t stride, int64_t rows, int64_t columns,
                         uint16_t *packed)
{
    turn_words(x, stride / 2, rows, columns / 2, packed);
}

void tr_bf16_turn(const uint16_t *x, int64_t rows, int64_t columns, uint16_t *scratch, uint16_t *to)
{
    tr_bf16_pack(x, columns, rows, columns, scratch);
    turn_words(scratch, columns, rows / 2, columns, to);
}
