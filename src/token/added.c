/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/added.h"

#include <utf8proc.h>

#include "token/utf8.h"

/* Unicode's characters of words: alphabetic, marks, digits, connectors and joiners. */
static bool is_word(uint32_t c)
{
    const utf8proc_category_t is = utf8proc_category((utf8proc_int32_t)c);

    return (is >= UTF8PROC_CATEGORY_LU && is <= UTF8PROC_CATEGORY_NL) ||
           is == UTF8PROC_CATEGORY_PC || c == 0x200c || c == 0x200d ||
           (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
           (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
}

static bool word_at(const unsigned char *text, size_t bytes, size_t at)
{
    uint32_t c;

    return at < bytes && tr_utf8_decode(text + at, bytes - at, &c) > 0 && is_word(c);
}

static size_t char_before(const unsigned char *text, size_t at)
{
    do
        at--;
    while (at > 0 && (text[at] & 0xc0) == 0x80);
    return at;
}

static bool stands_alone(const unsigned char *text, size_t bytes, size_t from, size_t to)
{
    return !word_at(text, bytes, to) &&
           (from == 0 || !word_at(text, bytes, char_before(text, from)));
}

/* The part, with the white space that the token takes along. */
static struct tr_added_part widen(const struct tr_added *a, const unsigned char *text, size_t bytes,
                                  size_t from, size_t to, size_t done)
{
    uint32_t c;

    while (a->left && from > done && tr_utf8_space_before(text, from))
        from = char_before(text, from);
    while (a->right && to < bytes && tr_utf8_space_at(text + to, bytes - to))
        to += tr_utf8_decode(text + to, bytes - to, &c);
    return (struct tr_added_part){a->id, from, to};
}

/* The next token at or behind walk->at. */
static bool find(const struct tr_added_set *s, const unsigned char *text, size_t bytes,
                 struct tr_added_walk *w, struct tr_added_part *out)
{
    while (s->trie && w->at < bytes) {
        const size_t from = w->at;
        const struct tr_added *a;
        int32_t which = 0;
        size_t length;

        if (!s->begins[text[from]]) {
            w->at++;
            continue;
        }
        length = tr_trie_longest(s->trie, text + from, bytes - from, &which);
        w->at += length > 0 ? length : 1;
        if (length == 0)
            continue;
        a = &s->added[which];
        if (a->single_word && !stands_alone(text, bytes, from, from + length))
            continue;
        *out = widen(a, text, bytes, from, from + length, w->done);
        return true;
    }
    return false;
}

bool tr_added_next(const struct tr_added_set *s, const unsigned char *text, size_t bytes,
                   struct tr_added_walk *w, struct tr_added_part *out)
{
    if (!w->has_next && !find(s, text, bytes, w, &w->next)) {
        *out = (struct tr_added_part){-1, w->done, bytes};
        w->done = bytes;
        return out->to > out->from;
    }
    if (w->next.from > w->done) {
        *out = (struct tr_added_part){-1, w->done, w->next.from};
        w->done = w->next.from;
        w->has_next = true;
        return true;
    }
    *out = w->next;
    w->done = w->next.to;
    w->has_next = false;
    return true;
}
