/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_PIECES_H
#define TR_TOKEN_PIECES_H

#include <stddef.h>
#include <stdint.h>

/*
 * GPT-2's way of splitting a text before merges are applied (Radford et al. 2019; encoder.py of
 * their code), the longest match of the first of these alternatives that matches:
 *     's | 't | 're | 've | 'm | 'll | 'd
 *     letters, numbers, or characters that are neither nor white space, after at most one blank
 *     white space before the end, or but its last character before anything else
 *     white space
 * Letters and numbers are the general categories L and N of Unicode in unicode.def, white space has
 * the property White_Space.  No library and no locale is asked, so a text is split alike
 * everywhere.
 */
enum tr_char_class { TR_CHAR_OTHER, TR_CHAR_LETTER, TR_CHAR_NUMBER, TR_CHAR_SPACE };

/* The class of every character, two bits each. */
struct tr_char_classes {
    uint8_t of[0x110000 / 4];
};
void tr_char_classes_fill(struct tr_char_classes *c);

static inline enum tr_char_class tr_char_class(const struct tr_char_classes *c, uint32_t character)
{
    return (enum tr_char_class)(c->of[character >> 2] >> 2 * (character & 3) & 3);
}

/* The length of the first piece of a text that is UTF-8 and not empty. */
size_t tr_piece(const struct tr_char_classes *c, const unsigned char *text, size_t bytes);

/* Such as "18.0.0". */
const char *tr_unicode_version(void);

#endif
