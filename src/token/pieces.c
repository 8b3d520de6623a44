/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/pieces.h"

#include <string.h>

#include "token/utf8.h"

static const struct {
    uint32_t first, last;
    enum tr_char_class is;
} ranges[] = {
#define LETTERS(first, last) {first, last, TR_CHAR_LETTER},
#define NUMBERS(first, last) {first, last, TR_CHAR_NUMBER},
#include "token/unicode.def"
};

const char *tr_unicode_version(void)
{
    return TR_UNICODE_VERSION;
}

static void put(struct tr_char_classes *c, uint32_t character, enum tr_char_class is)
{
    c->of[character >> 2] |= (uint8_t)(is << 2 * (character & 3));
}

void tr_char_classes_fill(struct tr_char_classes *c)
{
    memset(c, 0, sizeof *c);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        for (uint32_t u = ranges[i].first; u <= ranges[i].last; u++)
            put(c, u, ranges[i].is);
    /* All white space is in the first plane. */
    for (uint32_t u = 0; u < 0x10000; u++)
        if (tr_utf8_is_space(u))
            put(c, u, TR_CHAR_SPACE);
}

/* The character that begins at `at` in a text that is UTF-8; *used is its length. */
static inline uint32_t character_at(const unsigned char *at, size_t *used)
{
    const uint32_t b = at[0];

    if (b < 0x80) {
        *used = 1;
        return b;
    }
    if (b < 0xe0) {
        *used = 2;
        return (b & 0x1f) << 6 | (at[1] & 0x3fU);
    }
    if (b < 0xf0) {
        *used = 3;
        return (b & 0xf) << 12 | (at[1] & 0x3fU) << 6 | (at[2] & 0x3fU);
    }
    *used = 4;
    return (b & 7) << 18 | (at[1] & 0x3fU) << 12 | (at[2] & 0x3fU) << 6 | (at[3] & 0x3fU);
}

static inline enum tr_char_class class_at(const struct tr_char_classes *c, const unsigned char *at,
                                          size_t *used)
{
    return tr_char_class(c, character_at(at, used));
}

/* The end of the characters of one class, of which text[0 .. at) is the beginning. */
static size_t run_end(const struct tr_char_classes *c, const unsigned char *text, size_t bytes,
                      size_t at, enum tr_char_class is)
{
    size_t used;

    while (at < bytes && class_at(c, text + at, &used) == is)
        at += used;
    return at;
}

/* White space, of which the last character goes with what follows; alone it stays. */
static size_t space_end(const struct tr_char_classes *c, const unsigned char *text, size_t bytes)
{
    size_t at = 0, last = 0, used;

    while (at < bytes && class_at(c, text + at, &used) == TR_CHAR_SPACE) {
        last = at;
        at += used;
    }
    return at == bytes || last == 0 ? at : last;
}

/* Of an English contraction after its apostrophe: 0 if there is none. */
static size_t contraction(const unsigned char *text, size_t bytes)
{
    static const char two[3][2] = {{'r', 'e'}, {'v', 'e'}, {'l', 'l'}};

    if (bytes > 1 && text[1] < 0x80 && memchr("stmd", text[1], 4))
        return 2;
    for (int i = 0; i < 3 && bytes > 2; i++)
        if (memcmp(text + 1, two[i], 2) == 0)
            return 3;
    return 0;
}

size_t tr_piece(const struct tr_char_classes *c, const unsigned char *text, size_t bytes)
{
    size_t used, next = 0;
    enum tr_char_class is;

    if (text[0] == '\'' && (used = contraction(text, bytes)) > 0)
        return used;
    is = class_at(c, text, &used);
    if (text[0] == ' ' && bytes > 1) {
        is = class_at(c, text + 1, &next);
        used += is == TR_CHAR_SPACE ? 0 : next;
    }
    return is == TR_CHAR_SPACE ? space_end(c, text, bytes) : run_end(c, text, bytes, used, is);
}
