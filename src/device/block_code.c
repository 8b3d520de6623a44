/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/block_code.h"

#include <pthread.h>
#include <string.h>

#include "device/device.h"

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Of one block. */
static int64_t bytes_of(int64_t n)
{
    return n > 0 ? TR_BOOK_SCALE_BYTES + (n + 3) / 4 * 4 : 0;
}

int64_t tr_code_bytes(struct tr_code_blocks blocks, int64_t n)
{
    const int64_t first = smaller(blocks.lead, n), rest = n - first;

    return bytes_of(first) + rest / blocks.size * bytes_of(blocks.size) +
           bytes_of(rest % blocks.size);
}

int64_t tr_code_next(struct tr_code_blocks blocks, int64_t at, int64_t n)
{
    return smaller(at == 0 ? blocks.lead : blocks.size, n - at);
}

struct tr_adam8 tr_adam8_of(const struct tr_adamw *how)
{
    const double root = sqrt((double)how->bias2);

    return (struct tr_adam8){
        .beta1 = how->beta1,
        .beta2 = how->beta2,
        .to_m = (float)(1.0 - (double)how->beta1),
        .to_v = (float)(1.0 - (double)how->beta2),
        .rate = (float)((double)how->lr * root / (double)how->bias1),
        .eps = (float)((double)how->eps * root),
        .shrink = (float)(1.0 - (double)how->lr * (double)how->decay),
        .factor = how->grad_scale,
    };
}

static struct tr_code_book books[2];

static void fill_book(enum tr_book book)
{
    struct tr_code_book *b = &books[book];

    b->magnitudes = book == TR_BOOK_SIGNED ? 129 : 256;
    for (int c = 0; c < TR_BOOK_CODES; c++)
        b->value[c] = tr_book_value(book, c);
    for (int k = 0; k < TR_BOOK_CODES - 1; k++) {
        const float sum = k + 1 < b->magnitudes
                              ? tr_book_magnitude(book, k) + tr_book_magnitude(book, k + 1)
                              : INFINITY;

        b->limit[k] = sum / 2.0f;
    }
}

static void fill_books(void)
{
    fill_book(TR_BOOK_SIGNED);
    fill_book(TR_BOOK_UNSIGNED);
}

const struct tr_code_book *tr_code_book(enum tr_book book)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, fill_books);
    return &books[book];
}

int tr_block_code(enum tr_book book, float x, float inverse)
{
    const struct tr_code_book *b = tr_code_book(book);
    const float r = fabsf(x) * inverse;
    int k = 0;

    for (int more = TR_BOOK_CODES / 2; more > 0; more /= 2)
        k += r > b->limit[k + more - 1] ? more : 0;
    return book == TR_BOOK_SIGNED ? tr_book_signed(k, x < 0.0f && inverse > 0.0f) : k;
}

static void encode_block(enum tr_book book, const float *x, int64_t n, uint8_t *to)
{
    float scale = 0.0f, inverse;

    for (int64_t i = 0; i < n; i++)
        scale = fabsf(x[i]) > scale ? fabsf(x[i]) : scale;
    scale = tr_book_scale(scale);
    inverse = tr_book_inverse(scale);
    memcpy(to, &scale, sizeof scale);
    for (int64_t i = 0; i < n; i++)
        to[TR_BOOK_SCALE_BYTES + i] = (uint8_t)tr_block_code(book, x[i], inverse);
}

void tr_code_encode(enum tr_book book, struct tr_code_blocks blocks, const float *x, int64_t n,
                    uint8_t *to)
{
    for (int64_t at = 0, count; at < n; at += count, to += bytes_of(count)) {
        count = tr_code_next(blocks, at, n);
        encode_block(book, x + at, count, to);
    }
}

static void decode_block(const float *value, const uint8_t *from, int64_t n, float *x)
{
    float scale;

    memcpy(&scale, from, sizeof scale);
    for (int64_t i = 0; i < n; i++)
        x[i] = scale > 0.0f ? value[from[TR_BOOK_SCALE_BYTES + i]] * scale : 0.0f;
}

void tr_code_decode(enum tr_book book, struct tr_code_blocks blocks, const uint8_t *from, int64_t n,
                    float *x)
{
    float value[TR_BOOK_CODES];

    memcpy(value, tr_code_book(book)->value, sizeof value);
    if (book == TR_BOOK_SIGNED)
        value[0] = -1.0f;
    for (int64_t at = 0, count; at < n; at += count, from += bytes_of(count)) {
        count = tr_code_next(blocks, at, n);
        decode_block(value, from, count, x + at);
    }
}
