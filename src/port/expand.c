/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port/arith.h"
#include "port/shell_reader.h"
#include "util/file.h"

/* A word under expansion. */
struct word {
    struct tr_shell_reader *r;
    struct tr_list *out;
    struct tr_gathering now;
    bool split, quoted;
    bool nothing; /* "$@" without words was all that the field had */
};

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void end_field(struct word *w)
{
    if (w->now.any && !(w->nothing && !w->now.n))
        tr_list_take(w->out, tr_gathered(&w->now));
    w->nothing = false;
    w->now.any = false;
}

bool tr_spend(struct tr_shell_reader *r, size_t bytes)
{
    r->bytes += bytes;
    r->full = r->full || r->bytes > TR_READER_BYTES;
    return !r->full;
}

/* Known text at the end of the word, which splits it where the shell would; marked parts stay
   whole. */
static void put(struct word *w, const char *text)
{
    bool whole = !w->split || w->quoted, marked = false;

    if (!tr_spend(w->r, strlen(text)))
        return;
    w->now.any = w->now.any || w->quoted;
    for (; *text; text++) {
        marked = *text == TR_MARK_OPEN || (marked && *text != TR_MARK_CLOSE);
        if (!whole && !marked && blank(*text))
            end_field(w);
        else
            tr_gather(&w->now, text, 1);
    }
}

static void put_unknown(struct word *w, const char *source, size_t n)
{
    tr_gather_unknown(&w->now, source, n);
}

const char *tr_past_nested(const char *s, char open, char close)
{
    int depth = 0;

    for (; *s; s++) {
        if (*s == '\\' && s[1]) {
            s++;
        } else if (*s == '\'') {
            const char *end = strchr(s + 1, '\'');

            if (!end)
                return s + strlen(s);
            s = end;
        } else if (*s == open) {
            depth++;
        } else if (*s == close && --depth == 0) {
            return s + 1;
        }
    }
    return s;
}

size_t tr_name_length(const char *s)
{
    if (*s >= '0' && *s <= '9')
        return 0;
    return strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
}

/* All values of an array between quotes are fields of their own. */
static void put_all(struct word *w, const struct tr_list *values, bool apart)
{
    w->nothing = w->nothing || (apart && !values->count);
    for (int i = 0; i < values->count; i++) {
        if (i && apart && w->split)
            end_field(w);
        else if (i)
            put(w, " ");
        put(w, values->item[i]);
    }
}

static const char *find_number(void *ctx, const char *name)
{
    const struct tr_script_variable *v = tr_variable(ctx, name, strlen(name));

    return v && v->value.count && !tr_marked(v->value.item[0]) ? v->value.item[0] : NULL;
}

/* $((EXPRESSION)), of n bytes with its parentheses. */
static void put_arith(struct word *w, const char *source, size_t n)
{
    char *text = tr_expand_quoted(w->r, source + 3, n > 5 ? n - 5 : 0), number[32];
    int64_t value;

    if (!tr_marked(text) && tr_arith(text, find_number, w->r, &value)) {
        snprintf(number, sizeof number, "%lld", (long long)value);
        put(w, number);
    } else {
        put_unknown(w, source, n);
    }
    free(text);
}

/* $(COMMAND) or `COMMAND`: only `echo WORDS` is what it says; the rest is not known. */
static void put_command(struct word *w, const char *source, size_t n, size_t border)
{
    const char *inner = source + border;
    size_t length = n > border + 1 ? n - border - 1 : 0;
    struct tr_list words = {0};

    while (length && blank(*inner)) {
        inner++;
        length--;
    }
    if (length && *inner == '#') /* a comment within a command of several lines */
        return;
    if (length < 5 || strncmp(inner, "echo ", 5) != 0 || memchr(inner, '|', length) ||
        memchr(inner, ';', length) || memchr(inner, '>', length)) {
        put_unknown(w, source, n);
        return;
    }
    char *raw = tr_format("%.*s", (int)(length - 5), inner + 5);
    for (const char *s = raw, *end; *(s += strspn(s, " \t\r\n")); s = end) {
        end = tr_past_word(s, true);
        char *one = tr_format("%.*s", (int)(end - s), s);
        tr_expand(w->r, one, true, &words);
        free(one);
    }
    put_all(w, &words, false);
    tr_list_release(&words);
    free(raw);
}

/* What follows the name in ${NAME...}: the word behind :- and the like. */
static bool put_default(struct word *w, const char *name, size_t n, const char *op, size_t length)
{
    const bool colon = *op == ':';
    const char kind = op[colon];
    const struct tr_script_variable *v = tr_variable(w->r, name, n);
    const bool set = v && (!colon || (v->value.count && v->value.item[0][0]));

    if (kind != '-' && kind != '=' && kind != '+' && kind != '?')
        return false;
    if (kind == '?' && !set)
        return false;
    if ((kind == '+') == set) {
        struct tr_list value = {0};
        char *text = tr_expand_quoted(w->r, op + colon + 1, length - colon - 1);

        put(w, text);
        if (kind == '=') {
            tr_list_take(&value, text);
            tr_assign(w->r, name, n, &value, false);
        } else {
            free(text);
        }
    } else if (kind != '+') {
        put_all(w, &v->value, false);
    }
    return true;
}

static bool put_element(struct word *w, const struct tr_script_variable *v, const char *index)
{
    char *end;

    if ((*index == '@' || *index == '*') && index[1] == ']' && index[2] == '}') {
        put_all(w, &v->value, !w->quoted || *index == '@');
        return true;
    }
    long at = strtol(index, &end, 10);
    if (end == index || end[0] != ']' || end[1] != '}' || at < 0 || at >= v->value.count)
        return false;
    put(w, v->value.item[at]);
    return true;
}

/* ${...}, n bytes of source. */
static void put_braces(struct word *w, const char *source, size_t n)
{
    const char *name = source + 2, *after;
    size_t length =
               *name >= '0' && *name <= '9' ? strspn(name, "0123456789") : tr_name_length(name),
           left;
    const struct tr_script_variable *v = tr_variable(w->r, name, length);

    after = name + length;
    left = n - 2 - length;
    if (!length || n < 3 || source[n - 1] != '}') {
        put_unknown(w, source, n);
    } else if (*after == '}') {
        if (v)
            put_all(w, &v->value, false);
        else
            put_unknown(w, source, n);
    } else if (*after == '[') {
        if (!v || !put_element(w, v, after + 1))
            put_unknown(w, source, n);
    } else if (w->r->depth >= TR_READER_DEPTH || !put_default(w, name, length, after, left - 1)) {
        put_unknown(w, source, n);
    }
}

/* What begins with '$'; returns what follows it. */
static const char *put_dollar(struct word *w, const char *s)
{
    size_t n = tr_name_length(s + 1);
    const char *end;

    if (s[1] == '(' && s[2] == '(') {
        end = tr_past_nested(s + 1, '(', ')');
        put_arith(w, s, (size_t)(end - s));
    } else if (s[1] == '(') {
        end = tr_past_nested(s + 1, '(', ')');
        put_command(w, s, (size_t)(end - s), 2);
    } else if (s[1] == '{') {
        end = tr_past_nested(s + 1, '{', '}');
        put_braces(w, s, (size_t)(end - s));
    } else if (n) {
        const struct tr_script_variable *v = tr_variable(w->r, s + 1, n);

        end = s + 1 + n;
        if (v && v->value.count)
            put(w, v->value.item[0]);
        else if (!v)
            put_unknown(w, s, n + 1);
    } else if ((s[1] == '@' || s[1] == '*') && tr_variable(w->r, "@", 1)) {
        end = s + 2;
        put_all(w, &tr_variable(w->r, "@", 1)->value, !w->quoted || s[1] == '@');
    } else if (s[1] == '@' || s[1] == '*') {
        end = s + 2;
        w->nothing = true;
        tr_note(w->r, "$@ stands for the words that the script is called with; taken for none");
    } else if (s[1] && strchr("0123456789#?$!-", s[1])) {
        const struct tr_script_variable *v = tr_variable(w->r, s + 1, 1);

        end = s + 2;
        if (v && v->value.count)
            put(w, v->value.item[0]);
        else
            put_unknown(w, s, 2);
    } else {
        end = s + 1;
        tr_gather(&w->now, s, 1);
    }
    return end;
}

static const char *put_backslash(struct word *w, const char *s)
{
    if (!s[1])
        return s + 1;
    if (s[1] == '\n')
        return s + 2;
    if (w->quoted && !strchr("$`\"\\", s[1]))
        tr_gather(&w->now, s, 1);
    tr_gather(&w->now, s + 1, 1);
    return s + 2;
}

/* One piece of the word; returns what follows it. */
static const char *put_piece(struct word *w, const char *s, const char *end)
{
    const char *quote;

    switch (*s) {
    case '\'':
        quote = w->quoted ? NULL : memchr(s + 1, '\'', (size_t)(end - s - 1));
        if (!quote)
            break;
        tr_gather(&w->now, s + 1, (size_t)(quote - s - 1));
        return quote + 1;
    case '"':
        w->quoted = !w->quoted;
        w->now.any = true;
        return s + 1;
    case '\\':
        return put_backslash(w, s);
    case '$':
        return put_dollar(w, s);
    case '`':
        quote = memchr(s + 1, '`', (size_t)(end - s - 1));
        if (!quote)
            break;
        put_command(w, s, (size_t)(quote + 1 - s), 1);
        return quote + 1;
    default:
        break;
    }
    tr_gather(&w->now, s, 1);
    return s + 1;
}

static void expand(struct word *w, const char *raw)
{
    const char *end = raw + strlen(raw);

    if (w->r->depth >= TR_READER_DEPTH) {
        put_unknown(w, raw, strlen(raw));
        return;
    }
    tr_spend(w->r, strlen(raw));
    w->r->depth++;
    while (raw < end && !w->r->full)
        raw = put_piece(w, raw, end);
    w->r->depth--;
}

void tr_expand(struct tr_shell_reader *r, const char *raw, bool split, struct tr_list *out)
{
    struct word w = {.r = r, .out = out, .split = split};

    if (raw[0] == '~' && (raw[1] == '/' || !raw[1])) {
        const struct tr_script_variable *home = tr_variable(r, "HOME", 4);

        if (home && home->value.count)
            put(&w, home->value.item[0]);
        else
            put_unknown(&w, "$HOME", 5);
        raw++;
    }
    expand(&w, raw);
    if (!split)
        w.now.any = true;
    end_field(&w);
}

char *tr_expand_quoted(struct tr_shell_reader *r, const char *text, size_t n)
{
    struct word w = {.r = r, .quoted = true};
    char *raw = tr_format("%.*s", (int)n, text);

    /* Quotes inside ${A:-"b"} are quotes; it is one text in any case. */
    w.quoted = false;
    expand(&w, raw);
    free(raw);
    return tr_gathered(&w.now);
}
