/* SPDX-License-Identifier: BSD-3-Clause */
#include "device/cpu/cpu_codes.h"

#include <float.h>
#include <pthread.h>
#include <string.h>

static struct tr_cpu_codes both[2];

/* The largest magnitude of a segment. */
static int top_of(enum tr_book book, int segment)
{
    if (segment == SEGMENTS - 1)
        return tr_code_book(book)->magnitudes - 1;
    return book == TR_BOOK_SIGNED ? (2 << segment) - 1 : (4 << segment) - 2;
}

/* Magnitude y = slope x + start, but no further than 3/4 into the last one. */
static void fill_line(struct tr_cpu_codes *k, int segment, double slope, double start)
{
    const double most = top_of(k->book, segment) + 0.75;

    k->slope[segment] = (float)ldexp(slope, POINT);
    k->start[segment] = (float)(UNITS + ldexp(start, POINT) + DOUBT);
    k->cap[segment] = slope > 0.0 ? (float)((most - start) / slope) : FLT_MAX;
}

/* The line through (x0, y0) and (x1, y1). */
static void fill_through(struct tr_cpu_codes *k, int segment, double x0, double y0, double x1,
                         double y1)
{
    const double slope = (y1 - y0) / (x1 - x0);

    fill_line(k, segment, slope, y0 - slope * x0);
}

/* Numbers of a decade are in the middles of equal intervals, 0 and the next one are not. */
static void fill_segment(struct tr_cpu_codes *k, int segment)
{
    const struct tr_code_book *b = tr_code_book(k->book);
    const float *size = b->value + (k->book == TR_BOOK_SIGNED ? TR_BOOK_ZERO : 0);
    const int last = top_of(k->book, segment);
    const int first = segment > 0 ? top_of(k->book, segment - 1) + 1 : 0;

    if (segment == 0)
        fill_through(k, segment, (double)b->limit[0], 1.0, (double)b->limit[1], 2.0);
    else if (first < last)
        fill_through(k, segment, (double)size[first], first + 0.5, (double)size[last], last + 0.5);
    else
        fill_line(k, segment, 0.0, last + 0.5);
    k->limit[segment] = last < b->magnitudes - 1 ? b->limit[last] : FLT_MAX;
}

#if defined(CODES_512)
/* Lines to codes: 127 + y, and from the other end of it 128 - y. */
static void fill_sides(struct tr_cpu_codes *k, int segment)
{
    const int other = SEGMENTS + segment;
    const float start = k->start[segment] - UNITS;
    const bool one = segment == 0 || segment == SEGMENTS - 1; /* -1 and 0 are not among the codes */

    k->cap[other] = k->cap[segment];
    k->limit[other] = -k->limit[segment];
    k->slope[other] = one ? 0.0f : k->slope[segment];
    k->start[other] = (float)(UNITS + 128.0 * (1 << POINT) + 2.0 * DOUBT) - start;
    k->start[segment] += 127.0f * (1 << POINT);
    if (one)
        k->start[other] = UNITS + (segment == 0 ? 126.5f : 0.5f) * (1 << POINT);
}
#endif

static void fill(struct tr_cpu_codes *k, enum tr_book book)
{
    const struct tr_code_book *b = tr_code_book(book);

    k->book = book;
    k->value = b->value;
    k->least = 0.98f * b->limit[0];
    /*
     * Bits of floats grow by 2^23 when r doubles.  Per doubling the estimate grows by about log10 2, but so that at each
     * limit it is between the segment below and the next integer: then it is the segment or one less on both sides.
     * With 9/32 the sign, 2^31, is -72, which is 8 more in the last 4 bits.
     */
    k->per_bit = ldexpf(book == TR_BOOK_SIGNED ? 0.28125f : 0.3021f, -23);
    k->zero = 0x1.8p23f - (book == TR_BOOK_SIGNED ? 30.0f : 32.0f);
    for (int i = 0; i < SEGMENTS; i++)
        fill_segment(k, i);
#if defined(CODES_512)
    for (int i = 0; book == TR_BOOK_SIGNED && i < SEGMENTS; i++)
        fill_sides(k, i);
#endif
    for (int c = 0; c < TR_BOOK_CODES; c++)
        for (size_t i = 0; i < sizeof(float); i++) {
            uint32_t bits;

            memcpy(&bits, &b->value[c], sizeof bits);
            k->plane[i][c] = (uint8_t)(bits >> (8 * i));
        }
}

static void fill_both(void)
{
    fill(&both[TR_BOOK_SIGNED], TR_BOOK_SIGNED);
    fill(&both[TR_BOOK_UNSIGNED], TR_BOOK_UNSIGNED);
}

const struct tr_cpu_codes *tr_cpu_codes(enum tr_book book)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, fill_both);
    return &both[book];
}
