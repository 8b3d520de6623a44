/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzzing/mutate.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

enum { HEAD = 256 };

uint64_t fuzz_draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

size_t fuzz_below(uint64_t *state, size_t n)
{
    return n ? (size_t)(fuzz_draw(state) % n) : 0;
}

/* Numbers at which sums, products and conversions go wrong. */
static uint64_t edge(uint64_t *state)
{
    uint64_t power = UINT64_C(1) << fuzz_below(state, 64), near = fuzz_below(state, 5);

    return fuzz_below(state, 2) ? power + near - 2 : UINT64_C(0) - power + near - 2;
}

static size_t put_in(uint8_t *data, size_t size, size_t at, const void *piece, size_t n)
{
    if (size + n > FUZZ_MOST)
        return size;
    memmove(data + at + n, data + at, size - at);
    memcpy(data + at, piece, n);
    return size + n;
}

static size_t take_out(uint8_t *data, size_t size, size_t at, size_t n)
{
    memmove(data + at, data + at + n, size - at - n);
    return size - n;
}

static size_t change_bytes(uint8_t *data, size_t size, size_t at, uint64_t *state)
{
    uint64_t number = edge(state);
    size_t width = (size_t)1 << fuzz_below(state, 4);

    switch (fuzz_below(state, 3)) {
    case 0:
        data[at] ^= (uint8_t)(1U << fuzz_below(state, 8));
        break;
    case 1:
        data[at] = (uint8_t)fuzz_draw(state);
        break;
    default:
        memcpy(data + at, &number, width < size - at ? width : size - at);
    }
    return size;
}

/* The digits at or after `at` become another number. */
static size_t change_digits(uint8_t *data, size_t size, size_t at, uint64_t *state)
{
    static const char *const odd[] = {"-1",  "0",    "1e308",     "5e-324",
                                      "nan", "-inf", "1e400",     "99999999999999999999",
                                      "0.1", "-0",   "2147483648"};
    char text[32];
    size_t n = 0;

    while (at < size && !isdigit(data[at]))
        at++;
    while (at + n < size && isdigit(data[at + n]))
        n++;
    size = take_out(data, size, at, n);
    if (fuzz_below(state, 2))
        snprintf(text, sizeof text, "%s", odd[fuzz_below(state, sizeof odd / sizeof odd[0])]);
    else
        snprintf(text, sizeof text, "%" PRId64, (int64_t)edge(state));
    return put_in(data, size, at, text, strlen(text));
}

static size_t change_word(uint8_t *data, size_t size, size_t at, const char *const *words,
                          uint64_t *state)
{
    size_t n = 0;

    while (words && words[n])
        n++;
    if (n == 0)
        return change_bytes(data, size, at, state);
    n = fuzz_below(state, n);
    return put_in(data, size, at, words[n], strlen(words[n]));
}

static size_t double_piece(uint8_t *data, size_t size, size_t at, size_t n, uint64_t *state)
{
    static uint8_t piece[512];
    size_t from = fuzz_below(state, size - n + 1);

    memcpy(piece, data + from, n);
    return put_in(data, size, at, piece, n);
}

size_t fuzz_change(uint8_t *data, size_t size, const char *const *words, uint64_t *state)
{
    /* The first bytes of a file say how the others are to be read. */
    size_t reach = fuzz_below(state, 2) && size > HEAD ? HEAD : size;
    size_t at = fuzz_below(state, reach), n = fuzz_below(state, 200);

    if (size == 0)
        return put_in(data, size, 0, "x", 1);
    n = n > size - at ? size - at : n;
    switch (fuzz_below(state, 16)) {
    case 0:
    case 1:
        return take_out(data, size, at, n);
    case 2:
    case 3:
        return double_piece(data, size, at, n, state);
    case 4:
        return fuzz_below(state, 4) ? size : at;
    case 5:
    case 6:
    case 7:
        return change_digits(data, size, at, state);
    case 8:
    case 9:
    case 10:
        return change_word(data, size, at, words, state);
    default:
        return change_bytes(data, size, at, state);
    }
}
