/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_DEVICE_BLOCK_CODE_H
#define TR_DEVICE_BLOCK_CODE_H

#include <math.h>
#include <stdint.h>

/*
 * Block-wise 8-bit numbers: a block has the largest magnitude of its elements, its scale, in fp32, and for each
 * element a code, which stands for a number of a code book times the scale.  Source: Dettmers et al., "8-bit
 * Optimizers via Block-wise Quantization" (2022), sections 2 and 3; the books are bitsandbytes' dynamic maps.
 *
 * All backends use this arithmetic, which is fp32 in the order written here: one operation in each statement, so that
 * no compiler fuses two.
 *
 * The magnitudes of a book ascend: 0, then decades, each with twice as many numbers as the one below it, the middles of
 * equal intervals of 0.1 to 1, and 1 itself.  Of TR_BOOK_SIGNED they are 0 .. 128, and code 127 + k stands for magnitude
 * k, 127 - k for its negative, which -1 lacks; of TR_BOOK_UNSIGNED they are 0 .. 255, as are the codes.
 *
 * In memory a block is its scale, its codes and up to 3 bytes that nothing reads: a multiple of 4 bytes.
 */
enum tr_book { TR_BOOK_SIGNED, TR_BOOK_UNSIGNED };
enum { TR_BOOK_CODES = 256, TR_BOOK_ZERO = 127, TR_BOOK_SCALE_BYTES = 4, TR_BLOCK_MOST = 2048 };

/* A smaller scale is 0, and so are all elements: a product with a number of the book would lose bits. */
#define TR_BOOK_TINY 0x1p-100f

/* Consecutive blocks of `size` elements, 1 to TR_BLOCK_MOST, the first of them of `lead`, 1 to `size`. */
struct tr_code_blocks {
    int64_t size, lead;
};

/* Number `i` of 0.1 to 1 in `n` equal steps, as torch.linspace counts from both ends. */
static inline float tr_book_step(int i, int n)
{
    const float length = 1.0f - 0.1f, step = length / (float)n;
    const float way = step * (float)(i < (n + 1) / 2 ? i : n - i);

    return i < (n + 1) / 2 ? 0.1f + way : 1.0f - way;
}

/* Magnitude k of a book. */
static inline float tr_book_magnitude(enum tr_book book, int k)
{
    const int number = book == TR_BOOK_SIGNED ? k : k + 1;
    float ten = 1e-6f, sum;
    int n = 1, decade = 0;

    if (k == 0)
        return 0.0f;
    if (k == (book == TR_BOOK_SIGNED ? 128 : 255))
        return 1.0f;
    for (; 2 * n <= number; n *= 2)
        decade++;
    decade -= book == TR_BOOK_UNSIGNED;
    switch (decade) {
    case 1:
        ten = 1e-5f;
        break;
    case 2:
        ten = 1e-4f;
        break;
    case 3:
        ten = 1e-3f;
        break;
    case 4:
        ten = 1e-2f;
        break;
    case 5:
        ten = 1e-1f;
        break;
    case 6:
        ten = 1.0f;
        break;
    default:
        break;
    }
    sum = tr_book_step(number - n, n) + tr_book_step(number - n + 1, n);
    return ten * (sum / 2.0f);
}

/* What a code stands for. */
static inline float tr_book_value(enum tr_book book, int code)
{
    if (book == TR_BOOK_UNSIGNED)
        return tr_book_magnitude(book, code);
    return code < TR_BOOK_ZERO ? -tr_book_magnitude(book, TR_BOOK_ZERO - code)
                               : tr_book_magnitude(book, code - TR_BOOK_ZERO);
}

/* The code of a magnitude; a negative number is never coded as zero. */
static inline int tr_book_signed(int magnitude, int negative)
{
    const int most = magnitude < 1 ? 1 : magnitude > 127 ? 127 : magnitude;

    return negative ? TR_BOOK_ZERO - most : TR_BOOK_ZERO + magnitude;
}

/* The scale of a block whose largest magnitude is `largest`, and what its elements are multiplied by to be looked up. */
static inline float tr_book_scale(float largest)
{
    return largest < TR_BOOK_TINY ? 0.0f : largest;
}
static inline float tr_book_inverse(float scale)
{
    return scale > 0.0f ? 1.0f / scale : 0.0f;
}

/*
 * One step of Adam.  With g' = g * factor the moments are as usual, and p becomes
 * (p - rate m / (sqrt(v) + eps)) * shrink.  Where g' is not finite, or larger than TR_ADAM8_MOST, moments are 0 and p
 * stays.
 */
#define TR_ADAM8_MOST 0x1p62f
struct tr_adam8 {
    float beta1, beta2, to_m, to_v, rate, eps, shrink, factor;
};
struct tr_adamw;
struct tr_adam8 tr_adam8_of(const struct tr_adamw *how);

/* Code c stands for value[c], and magnitude k is nearest to what is above limit[k - 1] and not above limit[k], as far as
   there are such; other limits are infinite.  The same memory in every call, of the program. */
struct tr_code_book {
    float value[TR_BOOK_CODES], limit[TR_BOOK_CODES - 1];
    int magnitudes;
};
const struct tr_code_book *tr_code_book(enum tr_book book);

/* The code of x, a block's element, as the definition has it: by halving. */
int tr_block_code(enum tr_book book, float x, float inverse);

/* Bytes of the blocks of n elements. */
int64_t tr_code_bytes(struct tr_code_blocks blocks, int64_t n);

/* Elements, of n, of the block that begins at element `at`. */
int64_t tr_code_next(struct tr_code_blocks blocks, int64_t at, int64_t n);

/*
 * n elements to their blocks and back, on the host.  decode() gives code 0 of TR_BOOK_SIGNED as the scale's negative,
 * not -0.993 of it: so the largest of the numbers is the scale, and encode() of what decode() gave has the same
 * bytes.
 */
void tr_code_encode(enum tr_book book, struct tr_code_blocks blocks, const float *x, int64_t n,
                    uint8_t *to);
void tr_code_decode(enum tr_book book, struct tr_code_blocks blocks, const uint8_t *from, int64_t n,
                    float *x);

#endif
