/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TR_TOKEN_UTF8_H
#define TR_TOKEN_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.  Where a text
 * is not UTF-8, a byte at which no whole character begins is invalid.
 */

/* The character that begins at `text`: its length, and itself in *out; 0 if none does. */
size_t tr_utf8_decode(const unsigned char *text, size_t bytes, uint32_t *out);

/* Write character `c` and return its length, 1 to 4; `out` has room for 4. */
size_t tr_utf8_encode(uint32_t c, char *out);

/* The length of the longest beginning of the text that is valid, respectively has no valid
   character. */
size_t tr_utf8_valid(const unsigned char *text, size_t bytes);
size_t tr_utf8_invalid(const unsigned char *text, size_t bytes);

/* The length of the longest beginning of a character at the head of a text that begins with none, at least
   1.  *whole is false if the text ends there, so that more bytes could make a character of it. */
size_t tr_utf8_broken(const unsigned char *text, size_t bytes, bool *whole);

/* Whether c has Unicode's property White_Space: 25 characters, the same since version 6.3. */
bool tr_utf8_is_space(uint32_t c);

/* Whether such a character begins at `text`. */
bool tr_utf8_space_at(const unsigned char *text, size_t bytes);

/* Whether text[0 .. bytes) ends in the bytes of such a character. */
bool tr_utf8_space_before(const unsigned char *text, size_t bytes);

#endif
