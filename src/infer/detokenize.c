/* SPDX-License-Identifier: BSD-3-Clause */
#include "infer/detokenize.h"

#include <stdbool.h>
#include <string.h>

/* Text and what takes its place, in their order: those before the pairs, and those behind. */
struct rule {
    const char *from, *to;
};
static const struct rule before[] = {
    {" @-@ ", "-"}, {" @,@ ", ","}, {" @.@ ", "."}, {" : ", ": "}, {" ; ", "; "},
    {" . ", ". "},  {" ! ", "! "},  {" ? ", "? "},  {" , ", ", "},
};
static const struct rule after[] = {
    {"= = = =", "===="}, {"= = =", "==="}, {"= =", "=="},  {" \xc2\xb0 ", "\xc2\xb0"},
    {" \n", "\n"},       {"\n ", "\n"},    {" N ", " 1 "}, {" 's", "'s"},
};
static const char pairs[][2] = {{'(', ')'}, {'[', ']'}, {'{', '}'}, {'"', '"'}, {'\'', '\''}};

/* The text that is there so far, and the memory for the next. */
struct work {
    struct tr_bytes *now, *next;
};

static void turn(struct work *w)
{
    struct tr_bytes *done = w->next;

    w->next = w->now;
    w->now = done;
    w->next->count = 0;
}

static bool starts(const struct tr_bytes *b, size_t at, const char *text, size_t bytes)
{
    return b->count - at >= bytes && memcmp(b->data + at, text, bytes) == 0;
}

static void replace(struct work *w, struct rule r)
{
    const size_t from = strlen(r.from), to = strlen(r.to);

    for (size_t at = 0; at < w->now->count;) {
        if (starts(w->now, at, r.from, from)) {
            tr_bytes_add(w->next, r.to, to);
            at += from;
        } else {
            tr_bytes_add(w->next, w->now->data + at++, 1);
        }
    }
    turn(w);
}

static bool is_blank(unsigned char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Text between the characters of a pair. */
static void close_up(struct work *w, const char pair[2])
{
    const unsigned char *p = w->now->data;

    for (size_t at = 0; at < w->now->count;) {
        const unsigned char *end =
            p[at] == pair[0] ? memchr(p + at + 1, pair[1], w->now->count - at - 1) : NULL;
        size_t first = at + 1, last = end ? (size_t)(end - p) : 0;

        tr_bytes_add(w->next, p + at++, 1);
        if (!end)
            continue;
        at = last;
        while (first < last && is_blank(p[first]))
            first++;
        while (first < last && is_blank(p[last - 1]))
            last--;
        tr_bytes_add(w->next, p + first, last - first);
        tr_bytes_add(w->next, p + at++, 1);
    }
    turn(w);
}

/* The rule whose replacement is the text of an expression. */
static void quoted_digits(struct work *w)
{
    for (size_t at = 0; at < w->now->count;) {
        const unsigned char *p = w->now->data + at;

        if (starts(w->now, at, "/' ", 3) && w->now->count - at >= 5 && p[3] >= '0' && p[3] <= '9' &&
            p[4] == '/') {
            tr_bytes_add(w->next, "/'[0-9]/", 8);
            at += 5;
        } else {
            tr_bytes_add(w->next, p, 1);
            at++;
        }
    }
    turn(w);
}

void tr_detokenize_wikitext(const char *row, size_t bytes, struct tr_bytes *out)
{
    struct tr_bytes other = {0};
    struct work w = {out, &other};

    tr_bytes_set(out, row, bytes);
    replace(&w, (struct rule){"s '", "s'"});
    quoted_digits(&w);
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        replace(&w, before[i]);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        close_up(&w, pairs[i]);
    for (size_t i = 0; i < sizeof after / sizeof *after; i++)
        replace(&w, after[i]);
    if (w.now != out)
        tr_bytes_set(out, w.now->data, w.now->count);
    free(other.data);
}
