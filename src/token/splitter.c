/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/splitter.h"

#include "token/categories.h"
#include "token/utf8.h"

void tr_split_step_release(struct tr_split_step *s)
{
    tr_pattern_close(s->pattern);
    free(s->text.data);
    memset(s, 0, sizeof *s);
}

void tr_splitter_release(struct tr_splitter *s)
{
    for (size_t i = 0; i < TR_SPLIT_STEPS; i++)
        free(s->room[i].data);
    memset(s, 0, sizeof *s);
}

/* A piece that a step splits. */
struct cut {
    struct tr_splitter *s;
    size_t step;
    const unsigned char *text;
    size_t held_from, held_to; /* what has not been sent yet; empty if they are equal */
    bool start, held_match, matched;
};

static void feed(struct tr_splitter *s, size_t step, const unsigned char *text, size_t bytes,
                 bool start);

static void send_held(struct cut *c)
{
    const size_t from = c->held_from, to = c->held_to;

    c->held_from = c->held_to = 0;
    if (to > from)
        feed(c->s, c->step + 1, c->text + from, to - from, c->start && from == 0);
}

/* The span joins what is held, or is held after that was sent. */
static void hold(struct cut *c, size_t from, size_t to, bool join, bool match)
{
    if (!join || c->held_to == c->held_from) {
        send_held(c);
        c->held_from = from;
    }
    c->held_to = to;
    c->held_match = match;
}

/* The next span of the piece, in order. */
static void take(struct cut *c, const struct tr_split_step *r, size_t from, size_t to, bool match)
{
    if (from == to)
        return;
    match = match != r->invert;
    switch (r->behaviour) {
    case TR_SPLIT_REMOVED:
        if (!match)
            feed(c->s, c->step + 1, c->text + from, to - from, c->start && from == 0);
        break;
    case TR_SPLIT_ISOLATED:
        feed(c->s, c->step + 1, c->text + from, to - from, c->start && from == 0);
        break;
    case TR_SPLIT_CONTIGUOUS:
        hold(c, from, to, c->held_match == match, match);
        break;
    case TR_SPLIT_MERGED_WITH_PREVIOUS:
        hold(c, from, to, match && !c->matched, match);
        break;
    case TR_SPLIT_MERGED_WITH_NEXT:
        hold(c, from, to, !match && c->matched, match);
        break;
    }
    c->matched = match;
}

static bool is_number(const struct tr_char_classes *classes, uint32_t c)
{
    return tr_char_class(classes, c) == TR_CHAR_NUMBER;
}

/* The first character of a kind at or behind `from`. */
static bool find_character(const struct cut *c, enum tr_split_kind kind, size_t bytes, size_t from,
                           size_t *begin, size_t *end)
{
    for (size_t used; from < bytes; from += used) {
        uint32_t u = 0;

        used = tr_utf8_decode(c->text + from, bytes - from, &u);
        if (kind == TR_SPLIT_SPACES        ? tr_utf8_is_space(u)
            : kind == TR_SPLIT_PUNCTUATION ? tr_is_punctuation(u)
                                           : is_number(c->s->classes, u)) {
            *begin = from;
            *end = from + used;
            return true;
        }
    }
    return false;
}

static bool find_text(const struct cut *c, const struct tr_bytes *text, size_t bytes, size_t from,
                      size_t *begin, size_t *end)
{
    const unsigned char *found =
        text->count > 0 ? memmem(c->text + from, bytes - from, text->data, text->count) : NULL;

    *begin = found ? (size_t)(found - c->text) : 0;
    *end = *begin + text->count;
    return found != NULL;
}

static bool find_match(struct cut *c, const struct tr_split_step *r, size_t bytes, size_t from,
                       size_t *begin, size_t *end)
{
    size_t at = from;

    if (r->kind == TR_SPLIT_PATTERN && r->pattern) {
        int n = 0;

        /* An empty match is none, and the search goes on a character later. */
        while (at <= bytes &&
               (n = tr_pattern_find(r->pattern, c->s->match, c->text, bytes, at, begin, end)) > 0 &&
               (*end <= *begin || *begin < from)) {
            at = *begin > at ? *begin : at;
            do
                at++;
            while (at < bytes && (c->text[at] & 0xc0) == 0x80);
        }
        c->s->failed |= n < 0;
        return n > 0 && at <= bytes;
    }
    if (r->kind == TR_SPLIT_PATTERN || r->kind == TR_SPLIT_METASPACE)
        return find_text(c, &r->text, bytes, from, begin, end);
    return find_character(c, r->kind, bytes, from, begin, end);
}

static void split_matches(struct tr_splitter *s, size_t step, const unsigned char *text,
                          size_t bytes, bool start)
{
    const struct tr_split_step *r = &s->steps[step];
    struct cut c = {s, step, text, 0, 0, start, false, false};
    size_t at = 0, begin, end;

    while (at < bytes && find_match(&c, r, bytes, at, &begin, &end)) {
        take(&c, r, at, begin, false);
        take(&c, r, begin, end, true);
        at = end;
    }
    take(&c, r, at, bytes, false);
    send_held(&c);
}

static void split_byte_level(struct tr_splitter *s, size_t step, const unsigned char *text,
                             size_t bytes, bool start)
{
    const struct tr_split_step *r = &s->steps[step];

    if (r->prepend == TR_PREPEND_ALWAYS && text[0] != ' ') {
        tr_bytes_set(&s->room[step], " ", 1);
        tr_bytes_add(&s->room[step], text, bytes);
        text = s->room[step].data;
        bytes++;
    }
    if (r->whole) {
        feed(s, step + 1, text, bytes, start);
        return;
    }
    for (size_t at = 0, piece; at < bytes; at += piece) {
        piece = tr_piece(s->classes, text + at, bytes - at);
        feed(s, step + 1, text + at, piece, start && at == 0);
    }
}

static void split_metaspace(struct tr_splitter *s, size_t step, const unsigned char *text,
                            size_t bytes, bool start)
{
    const struct tr_split_step *r = &s->steps[step];
    struct tr_bytes *room = &s->room[step];
    const size_t n = r->text.count;
    const bool has = text[0] == ' ' || (bytes >= n && memcmp(text, r->text.data, n) == 0);

    room->count = 0;
    if (!has && (r->prepend == TR_PREPEND_ALWAYS || (r->prepend == TR_PREPEND_FIRST && start)))
        tr_bytes_add(room, r->text.data, n);
    for (size_t at = 0; at < bytes;) {
        const unsigned char *space = memchr(text + at, ' ', bytes - at);
        const size_t to = space ? (size_t)(space - text) : bytes;

        tr_bytes_add(room, text + at, to - at);
        if (space)
            tr_bytes_add(room, r->text.data, n);
        at = to + (space != NULL);
    }
    if (r->whole)
        feed(s, step + 1, room->data, room->count, start);
    else
        split_matches(s, step, room->data, room->count, start);
}

/* Through this step and those after it. */
static void feed(struct tr_splitter *s, size_t step, const unsigned char *text, size_t bytes,
                 bool start)
{
    if (step == s->count)
        s->sink(s->ctx, text, bytes);
    else if (s->steps[step].kind == TR_SPLIT_BYTE_LEVEL)
        split_byte_level(s, step, text, bytes, start);
    else if (s->steps[step].kind == TR_SPLIT_METASPACE)
        split_metaspace(s, step, text, bytes, start);
    else
        split_matches(s, step, text, bytes, start);
}

void tr_split(struct tr_splitter *s, const unsigned char *text, size_t bytes, bool start)
{
    if (bytes > 0)
        feed(s, 0, text, bytes, start);
}
