/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/utf8.h"

#include <string.h>

size_t tr_utf8_decode(const unsigned char *text, size_t bytes, uint32_t *out)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length;
    uint32_t c;

    if (bytes == 0)
        return 0;
    if (text[0] < 0x80) {
        *out = text[0];
        return 1;
    }
    length = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc2 || text[0] > 0xf4 || bytes < length)
        return 0;
    c = text[0] & (0x7fU >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (text[i] & 0x3fU);
    }
    if (c < smallest[length] || (c >= 0xd800 && c <= 0xdfff) || c > 0x10ffff)
        return 0;
    *out = c;
    return length;
}

size_t tr_utf8_encode(uint32_t c, char *out)
{
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (c & 0x3f));
        c >>= 6;
    }
    out[0] = (char)(first[length] | c);
    return length;
}

size_t tr_utf8_valid(const unsigned char *text, size_t bytes)
{
    size_t at = 0;

    while (at < bytes) {
        uint64_t eight;
        uint32_t c;
        size_t used;

        if (at + sizeof eight <= bytes) {
            memcpy(&eight, text + at, sizeof eight);
            if ((eight & UINT64_C(0x8080808080808080)) == 0) {
                at += sizeof eight;
                continue;
            }
        }
        used = tr_utf8_decode(text + at, bytes - at, &c);
        if (used == 0)
            break;
        at += used;
    }
    return at;
}

size_t tr_utf8_invalid(const unsigned char *text, size_t bytes)
{
    size_t at = 0;
    uint32_t c;

    while (at < bytes && tr_utf8_decode(text + at, bytes - at, &c) == 0)
        at++;
    return at;
}

size_t tr_utf8_broken(const unsigned char *text, size_t bytes, bool *whole)
{
    const unsigned char first = text[0];
    const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    const unsigned char low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned char high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    size_t n = 1;

    *whole = true;
    if (first < 0xc2 || first > 0xf4)
        return 1;
    if (bytes > 1 && (text[1] < low || text[1] > high))
        return 1;
    while (n < length && n < bytes && (text[n] & 0xc0) == 0x80)
        n++;
    *whole = n < bytes;
    return n;
}

bool tr_utf8_is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
           c == 0x205f || c == 0x3000;
}

bool tr_utf8_space_at(const unsigned char *text, size_t bytes)
{
    uint32_t c;

    return tr_utf8_decode(text, bytes, &c) > 0 && tr_utf8_is_space(c);
}

bool tr_utf8_space_before(const unsigned char *text, size_t bytes)
{
    uint32_t c;

    /* White space takes one to three bytes, and no proper end of a character is a character. */
    for (size_t length = 1; length <= 3 && length <= bytes; length++)
        if (tr_utf8_decode(text + bytes - length, length, &c) == length && tr_utf8_is_space(c))
            return true;
    return false;
}
