/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/decoder.h"

#include "token/subword.h"
#include "token/utf8.h"

static const char replacement[] = "\xef\xbf\xbd", blank[] = "\xe2\x96\x81";

void tr_decode_step_release(struct tr_decode_step *s)
{
    free(s->text.data);
    free(s->content.data);
    memset(s, 0, sizeof *s);
}

void tr_decoding_release(struct tr_decoding *d)
{
    for (size_t i = 0; i <= TR_DECODE_STEPS; i++)
        free(d->state[i].waits.data);
    for (size_t i = 0; i < TR_DECODE_STEPS; i++)
        free(d->room[i].data);
    memset(d, 0, sizeof *d);
}

static void feed(struct tr_decoding *d, size_t step, const void *text, size_t bytes);

/* The last step: what is UTF-8 comes out, and waits until it is whole. */
static void put_valid(struct tr_decoding *d, bool end)
{
    struct tr_bytes *w = &d->state[d->count].waits;
    size_t at = 0;

    while (at < w->count) {
        const size_t good = tr_utf8_valid(w->data + at, w->count - at);
        bool whole;
        size_t bad;

        tr_bytes_add(d->out, w->data + at, good);
        at += good;
        if (at == w->count)
            break;
        bad = tr_utf8_broken(w->data + at, w->count - at, &whole);
        if (!whole && !end)
            break;
        tr_bytes_add(d->out, replacement, 3);
        at += bad;
    }
    w->count -= at;
    if (w->count > 0)
        memmove(w->data, w->data + at, w->count);
}

/* `text` by `content`, all of them. */
static void replace(struct tr_bytes *out, const unsigned char *text, size_t bytes,
                    const struct tr_bytes *from, const void *to, size_t to_bytes)
{
    const unsigned char *end = text + bytes, *found;

    while (from->count > 0 &&
           (found = memmem(text, (size_t)(end - text), from->data, from->count)) != NULL) {
        tr_bytes_add(out, text, (size_t)(found - text));
        tr_bytes_add(out, to, to_bytes);
        text = found + from->count;
    }
    tr_bytes_add(out, text, (size_t)(end - text));
}

static void send_run(struct tr_decoding *d, size_t step)
{
    struct tr_bytes *run = &d->state[step].waits;
    const size_t n = run->count;

    run->count = 0;
    if (n == 0)
        return;
    if (d->raw || tr_utf8_valid(run->data, n) == n) {
        feed(d, step + 1, run->data, n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        feed(d, step + 1, replacement, 3);
}

/* Of a run of bytes the characters that are whole; at its end the rest, each byte by itself. */
static void send_characters(struct tr_decoding *d, size_t step, bool end)
{
    struct tr_bytes *run = &d->state[step].waits;
    size_t at = 0;
    bool whole;

    while (at < run->count) {
        const size_t good = d->raw ? run->count : tr_utf8_valid(run->data + at, run->count - at);

        if (good > 0) {
            feed(d, step + 1, run->data + at, good);
            at += good;
            continue;
        }
        tr_utf8_broken(run->data + at, run->count - at, &whole);
        if (!whole && !end)
            break;
        feed(d, step + 1, replacement, 3);
        at++;
    }
    run->count -= at;
    if (run->count > 0)
        memmove(run->data, run->data + at, run->count);
}

static void byte_level(struct tr_decoding *d, size_t step, const char *text, size_t bytes)
{
    struct tr_bytes *room = &d->room[step];
    size_t n;

    room->count = 0;
    tr_bytes_add(room, text, bytes);
    if (tr_spelled_bytes(d->byte_of, text, bytes, room->data, &n))
        room->count = n;
    else
        tr_bytes_set(room, text, bytes);
    feed(d, step + 1, room->data, room->count);
}

/* At the left end of a token, or of all text once it is fused. */
static size_t strip_left(const struct tr_decode_step *r, struct tr_decode_state *s,
                         const unsigned char *text, size_t bytes)
{
    size_t at = 0;

    if (!s->fused) {
        s->seen = 0;
        s->open = false;
    }
    while (!s->open && s->seen < r->left && bytes - at >= r->text.count &&
           memcmp(text + at, r->text.data, r->text.count) == 0) {
        at += r->text.count;
        s->seen++;
    }
    s->open = s->open || at < bytes;
    return at;
}

static size_t count_right(const struct tr_decode_step *r, const unsigned char *text, size_t bytes)
{
    size_t n = 0;

    while (n < r->right && bytes >= r->text.count &&
           memcmp(text + bytes - r->text.count, r->text.data, r->text.count) == 0) {
        bytes -= r->text.count;
        n++;
    }
    return n * r->text.count;
}

static void strip(struct tr_decoding *d, size_t step, const unsigned char *text, size_t bytes)
{
    const struct tr_decode_step *r = &d->steps[step];
    struct tr_decode_state *s = &d->state[step];
    struct tr_bytes *room = &d->room[step];
    const size_t left = strip_left(r, s, text, bytes);
    size_t right;

    /* What may be at the right end of all text waits. */
    tr_bytes_set(room, s->waits.data, s->waits.count);
    tr_bytes_add(room, text + left, bytes - left);
    right = count_right(r, room->data, room->count);
    s->waits.count = 0;
    if (s->fused)
        tr_bytes_set(&s->waits, room->data + room->count - right, right);
    feed(d, step + 1, room->data, room->count - right);
}

/* English as it is written: no blank before a full stop. */
static void clean_up(struct tr_bytes *text, struct tr_bytes *room)
{
    static const char *const rules[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };

    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct tr_bytes from = {(unsigned char *)(uintptr_t)rules[i][0], strlen(rules[i][0]), 0};
        const struct tr_bytes old = *text;

        room->count = 0;
        replace(room, text->data, text->count, &from, rules[i][1], strlen(rules[i][1]));
        *text = *room;
        *room = old;
    }
}

static void wordpiece(struct tr_decoding *d, size_t step, const unsigned char *text, size_t bytes)
{
    const struct tr_decode_step *r = &d->steps[step];
    struct tr_decode_state *s = &d->state[step];
    struct tr_bytes *room = &d->room[step];
    const size_t n = r->text.count;
    const bool goes_on = bytes >= n && memcmp(text, r->text.data, n) == 0;

    room->count = 0;
    if (s->seen > 0 && !goes_on)
        tr_bytes_add(room, " ", 1);
    if (s->seen > 0 && goes_on) {
        text += n;
        bytes -= n;
    }
    tr_bytes_add(room, text, bytes);
    s->seen = 1;
    if (r->cleanup)
        clean_up(room, &s->waits);
    feed(d, step + 1, room->data, room->count);
}

static void spaces(struct tr_decoding *d, size_t step, const unsigned char *text, size_t bytes)
{
    const struct tr_decode_step *r = &d->steps[step];
    struct tr_decode_state *s = &d->state[step];
    const bool drop = r->prefix && s->seen == 0;

    s->seen = 1;
    d->room[step].count = 0;
    replace(&d->room[step], text, bytes, &r->text, " ", drop ? 0 : 1);
    feed(d, step + 1, d->room[step].data, d->room[step].count);
}

/* The blank that was put before the text is left out again, or all that are there. */
static void sentencepiece(struct tr_decoding *d, size_t step, const unsigned char *text,
                          size_t bytes)
{
    const struct tr_decode_step *r = &d->steps[step];
    struct tr_decode_state *s = &d->state[step];
    const struct tr_bytes from = {(unsigned char *)(uintptr_t)blank, 3, 0};
    const bool begins = bytes >= 3 && memcmp(text, blank, 3) == 0;

    if (s->seen == 0 && r->prefix && begins) {
        text += 3;
        bytes -= 3;
        /* Where all that are there go, the next token's goes too if nothing has come out. */
        s->seen = !r->all_prefix;
    }
    s->seen |= bytes > 0;
    d->room[step].count = 0;
    replace(&d->room[step], text, bytes, &from, " ", 1);
    feed(d, step + 1, d->room[step].data, d->room[step].count);
}

static void fallback(struct tr_decoding *d, size_t step, const char *text, size_t bytes)
{
    const int byte = tr_byte_entry(text, bytes);
    const bool characters = d->steps[step].kind == TR_DECODE_SENTENCEPIECE;

    if (byte >= 0) {
        const unsigned char b = (unsigned char)byte;

        tr_bytes_add(&d->state[step].waits, &b, 1);
        if (characters)
            d->state[step].seen = 1;
        if (characters)
            send_characters(d, step, false);
        return;
    }
    if (characters) {
        send_characters(d, step, true);
        sentencepiece(d, step, (const unsigned char *)text, bytes);
    } else {
        send_run(d, step);
        feed(d, step + 1, text, bytes);
    }
}

static void join(struct tr_decoding *d, size_t step, const char *text, size_t bytes)
{
    if (d->state[step].seen++ > 0)
        feed(d, step + 1, " ", 1);
    feed(d, step + 1, text, bytes);
}

static void feed(struct tr_decoding *d, size_t step, const void *text, size_t bytes)
{
    if (step == d->count) {
        if (d->raw)
            tr_bytes_add(d->out, text, bytes);
        else
            tr_bytes_add(&d->state[step].waits, text, bytes);
        return;
    }
    switch (d->steps[step].kind) {
    case TR_DECODE_BYTE_LEVEL:
        byte_level(d, step, text, bytes);
        break;
    case TR_DECODE_REPLACE:
        d->room[step].count = 0;
        replace(&d->room[step], text, bytes, &d->steps[step].text, d->steps[step].content.data,
                d->steps[step].content.count);
        feed(d, step + 1, d->room[step].data, d->room[step].count);
        break;
    case TR_DECODE_BYTE_FALLBACK:
    case TR_DECODE_SENTENCEPIECE:
        fallback(d, step, text, bytes);
        break;
    case TR_DECODE_FUSE:
        feed(d, step + 1, text, bytes);
        break;
    case TR_DECODE_STRIP:
        strip(d, step, text, bytes);
        break;
    case TR_DECODE_METASPACE:
        spaces(d, step, text, bytes);
        break;
    case TR_DECODE_WORDPIECE:
        wordpiece(d, step, text, bytes);
        break;
    case TR_DECODE_JOIN:
        join(d, step, text, bytes);
        break;
    }
}

void tr_decoding_add(struct tr_decoding *d, const char *token, size_t bytes)
{
    bool fused = false;

    for (size_t i = 0; i < d->count; i++) {
        d->state[i].fused = fused;
        fused =
            fused || d->steps[i].kind == TR_DECODE_FUSE || d->steps[i].kind == TR_DECODE_BYTE_LEVEL;
    }
    feed(d, 0, token, bytes);
    put_valid(d, false);
}

void tr_decoding_end(struct tr_decoding *d)
{
    for (size_t i = 0; i < d->count; i++) {
        struct tr_decode_state *s = &d->state[i];

        if (d->steps[i].kind == TR_DECODE_BYTE_FALLBACK)
            send_run(d, i);
        if (d->steps[i].kind == TR_DECODE_SENTENCEPIECE)
            send_characters(d, i, true);
        s->waits.count = 0;
        s->seen = 0;
        s->open = false;
    }
    put_valid(d, true);
}
