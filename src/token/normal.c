/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/normal.h"

#include <utf8proc.h>

#include "token/categories.h"
#include "token/utf8.h"

/* U+2581, SentencePiece's blank. */
static const char blank[] = "\xe2\x96\x81";

void tr_normal_step_release(struct tr_normal_step *s)
{
    tr_pattern_close(s->pattern);
    tr_charsmap_close(s->map);
    free(s->text.data);
    free(s->content.data);
    memset(s, 0, sizeof *s);
}

void tr_normal_room_release(struct tr_normal_room *r)
{
    free(r->a.data);
    free(r->b.data);
    free(r->wide.data);
    memset(r, 0, sizeof *r);
}

/* What a step works on. */
struct step {
    const struct tr_normal_step *rules;
    struct tr_normal_room *room;
    struct tr_bytes *out;
    const unsigned char *text;
    size_t bytes;
};

/* So many bytes at the beginning are left out. */
static void lose(const struct step *s, size_t bytes)
{
    s->room->lost_first = s->room->lost_first || bytes > s->room->put;
    s->room->put -= bytes < s->room->put ? bytes : s->room->put;
}

static size_t ascii_end(const unsigned char *text, size_t bytes, size_t at)
{
    uint64_t eight;

    for (; at + sizeof eight <= bytes; at += sizeof eight) {
        memcpy(&eight, text + at, sizeof eight);
        if (eight & UINT64_C(0x8080808080808080))
            break;
    }
    while (at < bytes && text[at] < 0x80)
        at++;
    return at;
}

static size_t next_ascii(const unsigned char *text, size_t bytes, size_t at)
{
    while (at < bytes && text[at] >= 0x80)
        at++;
    return at;
}

static void put_char(struct tr_bytes *out, uint32_t c)
{
    char text[4] = "";

    tr_bytes_add(out, text, tr_utf8_encode(c, text));
}

/* One stretch whose neighbours cannot change it, nor it them. */
static void normalize_stretch(const struct step *s, const unsigned char *text, size_t bytes,
                              int options)
{
    struct tr_bytes *wide = &s->room->wide;
    utf8proc_ssize_t n = (utf8proc_ssize_t)bytes, had;

    do {
        had = n;
        wide->data = tr_grow(wide->data, &wide->capacity, ((size_t)n + 1) * 4, 1);
        n = utf8proc_decompose(text, (utf8proc_ssize_t)bytes,
                               (utf8proc_int32_t *)(void *)wide->data, had,
                               (utf8proc_option_t)options);
    } while (n > had);
    if (n >= 0)
        n = utf8proc_reencode((utf8proc_int32_t *)(void *)wide->data, n,
                              (utf8proc_option_t)options);
    /* Text that is UTF-8 and fits in memory has no other reason to fail. */
    TR_ASSERT(n >= 0);
    tr_bytes_add(s->out, wide->data, (size_t)n);
}

/* The parts between characters that are newer than the form. */
static void normalize_parts(const struct step *s, const unsigned char *text, size_t bytes,
                            int options)
{
    size_t done = 0;
    uint32_t c;

    for (size_t at = 0, used; at < bytes; at += used) {
        used = tr_utf8_decode(text + at, bytes - at, &c);
        if (!tr_is_newer(c))
            continue;
        if (at > done)
            normalize_stretch(s, text + done, at - done, options);
        tr_bytes_add(s->out, text + at, used);
        done = at + used;
    }
    if (bytes > done)
        normalize_stretch(s, text + done, bytes - done, options);
}

/* ASCII stays, and what comes before it is done with; its last one may join what follows. */
static void unicode_form(const struct step *s, int options)
{
    size_t at = 0;

    while (at < s->bytes) {
        size_t end = ascii_end(s->text, s->bytes, at), last;

        last = end == s->bytes || end == at ? end : end - 1;
        tr_bytes_add(s->out, s->text + at, last - at);
        at = next_ascii(s->text, s->bytes, end);
        if (at > last)
            normalize_parts(s, s->text + last, at - last, options);
    }
}

/* Capital letters of Unicode 16 and 17, which the reference has and an older utf8proc has not. */
static uint32_t lower_of_newer(uint32_t c)
{
    static const struct {
        uint32_t first, last, to;
    } capitals[] = {{0x1c89, 0x1c89, 0x1c8a},    {0xa7cb, 0xa7cb, 0x264},
                    {0xa7cc, 0xa7cc, 0xa7cd},    {0xa7ce, 0xa7ce, 0xa7cf},
                    {0xa7d2, 0xa7d2, 0xa7d3},    {0xa7d4, 0xa7d4, 0xa7d5},
                    {0xa7da, 0xa7da, 0xa7db},    {0xa7dc, 0xa7dc, 0x19b},
                    {0x10d50, 0x10d65, 0x10d70}, {0x16ea0, 0x16eb8, 0x16ebb}};

    for (size_t i = 0; i < sizeof capitals / sizeof *capitals; i++)
        if (c >= capitals[i].first && c <= capitals[i].last)
            return capitals[i].to + (c - capitals[i].first);
    return c;
}

static void put_lower(struct tr_bytes *out, uint32_t c)
{
    const uint32_t low = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);

    if (c == 0x130) /* the only one that becomes two */
        tr_bytes_add(out, "i\xcc\x87", 3);
    else
        put_char(out, low == c && c >= 0x1c89 ? lower_of_newer(c) : low);
}

static bool is_control(uint32_t c)
{
    if (c < 0x20 || (c >= 0x7f && c < 0xa0))
        return c != '\t' && c != '\n' && c != '\r';
    return tr_is_format_or_private(c);
}

static bool is_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static void lower(const struct step *s)
{
    uint32_t c;

    for (size_t at = 0; at < s->bytes;) {
        at += tr_utf8_decode(s->text + at, s->bytes - at, &c);
        put_lower(s->out, c);
    }
}

/* Leave out marks: all of them, or those without width. */
static void strip_marks(const struct step *s, bool all)
{
    uint32_t c;

    for (size_t at = 0, used; at < s->bytes; at += used) {
        used = tr_utf8_decode(s->text + at, s->bytes - at, &c);
        if (c < 0x80 || !(all ? tr_is_mark(c) : tr_is_nonspacing_mark(c)))
            tr_bytes_add(s->out, s->text + at, used);
        else if (s->out->count == 0)
            lose(s, used);
    }
}

/* BERT's cleaning, and blanks around Chinese characters. */
static void clean_bert(const struct step *s)
{
    uint32_t c;

    for (size_t at = 0, used; at < s->bytes; at += used) {
        const bool clean = s->rules->clean;

        used = tr_utf8_decode(s->text + at, s->bytes - at, &c);
        if (clean && (c == 0 || c == 0xfffd || is_control(c))) {
            if (s->out->count == 0)
                lose(s, used);
            continue;
        }
        if (clean && tr_utf8_is_space(c))
            tr_bytes_add(s->out, " ", 1);
        else if (s->rules->chinese && is_chinese(c)) {
            tr_bytes_add(s->out, " ", 1);
            tr_bytes_add(s->out, s->text + at, used);
            tr_bytes_add(s->out, " ", 1);
        } else
            tr_bytes_add(s->out, s->text + at, used);
    }
}

static bool replace(const struct step *s, struct tr_match *match)
{
    const struct tr_bytes *text = &s->rules->text, *content = &s->rules->content;
    size_t at = 0, begin, end;

    for (;;) {
        int n = 0;

        if (s->rules->pattern) {
            n = tr_pattern_find(s->rules->pattern, match, s->text, s->bytes, at, &begin, &end);
        } else {
            const unsigned char *found =
                memmem(s->text + at, s->bytes - at, text->data, text->count);

            begin = found ? (size_t)(found - s->text) : 0;
            end = begin + text->count;
            n = found != NULL;
        }
        /* An empty match would repeat for ever. */
        if (n <= 0 || end <= begin || begin < at) {
            tr_bytes_add(s->out, s->text + at, s->bytes - at);
            return n >= 0;
        }
        tr_bytes_add(s->out, s->text + at, begin - at);
        tr_bytes_add(s->out, content->data, content->count);
        if (s->out->count == 0)
            lose(s, end - begin);
        at = end;
    }
}

static size_t strip_right(const unsigned char *text, size_t from, size_t to)
{
    while (to > from && tr_utf8_space_before(text + from, to - from)) {
        to--;
        while (to > from && (text[to] & 0xc0) == 0x80)
            to--;
    }
    return to;
}

static void strip(const struct step *s)
{
    size_t from = 0, to = s->bytes;
    uint32_t c;

    while (s->rules->left && from < to && tr_utf8_space_at(s->text + from, to - from))
        from += tr_utf8_decode(s->text + from, to - from, &c);
    lose(s, from);
    if (s->rules->right)
        to = strip_right(s->text, from, to);
    tr_bytes_add(s->out, s->text + from, to - from);
}

/* By the map, a character at a time, or a short group that is shown as one. */
static void map_group(const struct step *s, size_t from, size_t to)
{
    const char *found;
    uint32_t c;

    if (to - from < 6 && tr_charsmap_find(s->rules->map, s->text + from, to - from, 1, &found)) {
        tr_bytes_add(s->out, found, strlen(found));
        return;
    }
    for (size_t used; from < to; from += used) {
        used = tr_utf8_decode(s->text + from, to - from, &c);
        if (tr_charsmap_find(s->rules->map, s->text + from, used, 1, &found))
            tr_bytes_add(s->out, found, strlen(found));
        else
            tr_bytes_add(s->out, s->text + from, used);
    }
}

static void map_graphemes(const struct step *s)
{
    utf8proc_int32_t state = 0;
    uint32_t before = 0, c;
    size_t from = 0;

    for (size_t at = 0, used; at < s->bytes; at += used) {
        used = tr_utf8_decode(s->text + at, s->bytes - at, &c);
        if (at > 0 && utf8proc_grapheme_break_stateful((utf8proc_int32_t)before,
                                                       (utf8proc_int32_t)c, &state)) {
            map_group(s, from, at);
            from = at;
        }
        before = c;
    }
    if (from < s->bytes)
        map_group(s, from, s->bytes);
}

/* SentencePiece: what stands for the beginning of text[at ..). */
static size_t prefix(const struct step *s, size_t at, const unsigned char **out, size_t *out_bytes)
{
    const unsigned char *text = s->text + at;
    const size_t left = s->bytes - at;
    const char *found;
    size_t used = 0;
    int32_t number;
    uint32_t c;

    if (s->rules->untouched)
        used = tr_trie_longest(s->rules->untouched, text, left, &number);
    if (used == 0 && s->rules->map) {
        used = tr_charsmap_find(s->rules->map, text, left, 0, &found);
        if (used > 0) {
            *out = (const unsigned char *)found;
            *out_bytes = strlen(found);
            return used;
        }
    }
    if (used == 0)
        used = tr_utf8_decode(text, left, &c);
    *out = text;
    *out_bytes = used;
    return used;
}

static void put_piece(const struct step *s, const unsigned char *piece, size_t bytes)
{
    unsigned char *at;

    s->out->data = tr_grow(s->out->data, &s->out->capacity, s->out->count + 3 * bytes + 1, 1);
    at = s->out->data + s->out->count;
    for (size_t i = 0; i < bytes; i++) {
        if (piece[i] == ' ' && s->rules->escape_spaces) {
            memcpy(at, blank, 3);
            at += 3;
        } else {
            *at++ = piece[i];
        }
    }
    s->out->count = (size_t)(at - s->out->data);
}

static void remove_trailing(const struct step *s)
{
    const char *space = s->rules->escape_spaces ? blank : " ";
    const size_t n = strlen(space);

    while (s->out->count >= n && memcmp(s->out->data + s->out->count - n, space, n) == 0)
        s->out->count -= n;
}

static void sentencepiece(const struct step *s)
{
    const struct tr_normal_step *r = s->rules;
    const unsigned char *piece = NULL;
    size_t at = 0, bytes = 0, used;
    bool after_space = r->remove_extra_spaces;

    while (r->remove_extra_spaces && at < s->bytes) {
        used = prefix(s, at, &piece, &bytes);
        if (bytes != 1 || piece[0] != ' ')
            break;
        at += used;
    }
    if (at == s->bytes)
        return;
    if (r->dummy_prefix && !r->dummy_suffix)
        put_piece(s, (const unsigned char *)" ", 1);
    for (; at < s->bytes; at += used) {
        used = prefix(s, at, &piece, &bytes);
        while (after_space && bytes > 0 && piece[0] == ' ') {
            piece++;
            bytes--;
        }
        if (bytes > 0) {
            put_piece(s, piece, bytes);
            after_space = r->remove_extra_spaces && piece[bytes - 1] == ' ';
        }
    }
    if (r->remove_extra_spaces)
        remove_trailing(s);
    if (r->dummy_prefix && r->dummy_suffix)
        put_piece(s, (const unsigned char *)" ", 1);
}

static void swap(struct step *s, struct tr_bytes *other)
{
    s->text = s->out->data;
    s->bytes = s->out->count;
    s->out = s->out == &s->room->a ? other : &s->room->a;
    s->out->count = 0;
}

static void bert(struct step *s)
{
    struct tr_bytes *other = &s->room->b;

    if (s->rules->clean || s->rules->chinese) {
        clean_bert(s);
        swap(s, other);
    }
    if (s->rules->accents) {
        unicode_form(s, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
        swap(s, other);
        strip_marks(s, false);
        swap(s, other);
    }
    if (s->rules->lowercase)
        lower(s);
    else
        tr_bytes_add(s->out, s->text, s->bytes);
}

static bool apply(struct step *s, struct tr_match *match)
{
    enum { COMPAT = UTF8PROC_STABLE | UTF8PROC_COMPAT };

    switch (s->rules->kind) {
    case TR_NORMAL_NFC:
        unicode_form(s, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        break;
    case TR_NORMAL_NFD:
        unicode_form(s, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE);
        break;
    case TR_NORMAL_NFKC:
        unicode_form(s, COMPAT | UTF8PROC_COMPOSE);
        break;
    case TR_NORMAL_NFKD:
        unicode_form(s, COMPAT | UTF8PROC_DECOMPOSE);
        break;
    case TR_NORMAL_LOWERCASE:
        lower(s);
        break;
    case TR_NORMAL_STRIP_ACCENTS:
        strip_marks(s, true);
        break;
    case TR_NORMAL_BERT:
        bert(s);
        break;
    case TR_NORMAL_REPLACE:
        return replace(s, match);
    case TR_NORMAL_PREPEND:
        if (s->bytes > 0) {
            tr_bytes_add(s->out, s->rules->content.data, s->rules->content.count);
            s->room->put += s->rules->content.count;
        }
        tr_bytes_add(s->out, s->text, s->bytes);
        break;
    case TR_NORMAL_STRIP:
        strip(s);
        break;
    case TR_NORMAL_CHARSMAP:
        map_graphemes(s);
        break;
    case TR_NORMAL_SENTENCEPIECE:
        sentencepiece(s);
        break;
    }
    return true;
}

bool tr_normalize(const struct tr_normal_step *steps, size_t count, struct tr_match *match,
                  struct tr_normal_room *room, const unsigned char **text, size_t *bytes)
{
    struct step s = {NULL, room, &room->a, *text, *bytes};

    room->a.count = room->b.count = 0;
    room->put = 0;
    room->lost_first = false;
    for (size_t i = 0; i < count; i++) {
        s.rules = &steps[i];
        /* The four forms leave ASCII as it is. */
        if (steps[i].kind <= TR_NORMAL_NFKD && ascii_end(s.text, s.bytes, 0) == s.bytes)
            continue;
        if (!apply(&s, match))
            return false;
        swap(&s, &room->b);
    }
    *text = s.text;
    *bytes = s.bytes;
    return true;
}
