/* SPDX-License-Identifier: BSD-3-Clause */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "token/pattern.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pcre2.h>
#include <pthread.h>

#include "token/grow.h"
#include "token/utf8.h"

/* Steps and memory of one search: a tokenizer's own patterns take a few steps per character. */
enum { MATCH_LIMIT = 10 * 1000 * 1000, HEAP_KIB = 64 << 10, STACK_BYTES = 1 << 20 };
/* Groups in one another. */
enum { DEPTH = 50, LONGEST = 1 << 16 };

struct tr_pattern {
    pcre2_code *code;
    bool jit;
};

struct tr_match {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

static void *need(void *memory)
{
    if (!memory)
        tr_die(TR_ERESOURCE, "no memory left for the tokenizer");
    return memory;
}

/* Unicode's White_Space, and what is not, as they stand between brackets. */
#define SPACES                                                                              \
    "\\x09-\\x0d\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}" \
    "\\x{205f}\\x{3000}"
#define NO_SPACES                                                                            \
    "\\x00-\\x08\\x0e-\\x1f\\x21-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}" \
    "\\x{200b}-\\x{2027}\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-" \
    "\\x{10ffff}"
/* What words are made of besides letters: marks, digits, connectors, the symbols that Unicode counts as
   alphabetic, and six numbers of Latin-1 that Oniguruma takes too. */
#define WORDS                                                                                  \
    "\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}" \
    "\\x{1f170}-\\x{1f189}\\xb2\\xb3\\xb9\\xbc-\\xbe"

/*
 * Letters and numbers that this PCRE2 does not know yet, as they stand between brackets.
 */
static struct {
    struct tr_bytes letters, numbers;
} newer;

struct range {
    uint32_t first, last;
};

static pcre2_code *compile(const char *expression, size_t bytes, int *error, PCRE2_SIZE *at)
{
    return pcre2_compile((PCRE2_SPTR)expression, bytes,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_UTF_CHECK |
                             PCRE2_NEVER_BACKSLASH_C,
                         error, at, NULL);
}

static bool knows(const pcre2_code *code, pcre2_match_data *data, uint32_t character)
{
    char text[4];
    const size_t bytes = tr_utf8_encode(character, text);

    return pcre2_match(code, (PCRE2_SPTR)text, bytes, 0, PCRE2_NO_UTF_CHECK, data, NULL) > 0;
}

static void note_newer(const char *property, const struct range *ranges, size_t count,
                       struct tr_bytes *out)
{
    PCRE2_SIZE at;
    int error;
    pcre2_code *code = need(compile(property, strlen(property), &error, &at));
    pcre2_match_data *data = need(pcre2_match_data_create(1, NULL));

    pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
    for (size_t i = 0; i < count; i++) {
        for (uint32_t c = ranges[i].first; c <= ranges[i].last; c++) {
            const uint32_t first = c;
            char text[32] = "";

            while (c <= ranges[i].last && !knows(code, data, c))
                c++;
            if (c > first)
                tr_bytes_add(out, text,
                             (size_t)snprintf(text, sizeof text, "\\x{%x}-\\x{%x}", first, c - 1));
        }
    }
    pcre2_match_data_free(data);
    pcre2_code_free(code);
}

static void fill_newer(void)
{
    static const struct range letters[] = {
#define LETTERS(first, last) {first, last},
#define NUMBERS(first, last)
#include "token/unicode.def"
#undef LETTERS
#undef NUMBERS
    };
    static const struct range numbers[] = {
#define LETTERS(first, last)
#define NUMBERS(first, last) {first, last},
#include "token/unicode.def"
#undef LETTERS
#undef NUMBERS
    };

    note_newer("\\p{L}", letters, sizeof letters / sizeof *letters, &newer.letters);
    note_newer("\\p{N}", numbers, sizeof numbers / sizeof *numbers, &newer.numbers);
}

/* From Oniguruma's syntax to PCRE2's. */
struct rewrite {
    const char *where;
    const char *in, *at;
    struct tr_bytes out;
    size_t atom;          /* where in `out` the last thing that can be repeated begins */
    size_t groups[DEPTH]; /* where those that are open begin */
    int depth;
};

static void put(struct rewrite *r, const char *text)
{
    tr_bytes_add(&r->out, text, strlen(text));
}

static enum tr_status refuse(const struct rewrite *r, const char *what)
{
    return TR_FAIL(TR_EDATA,
                   "%s: the regular expression \"%.200s\" has %s at its byte %zu, which is not "
                   "supported",
                   r->where, r->in, what, (size_t)(r->at - r->in));
}

/* In brackets unless it stands in some. */
static void put_class(struct rewrite *r, bool inside, bool negated, const char *a,
                      const struct tr_bytes *b, const struct tr_bytes *c)
{
    if (!inside)
        put(r, negated ? "[^" : "[");
    put(r, a);
    if (b)
        tr_bytes_add(&r->out, b->data, b->count);
    if (c)
        tr_bytes_add(&r->out, c->data, c->count);
    if (!inside)
        put(r, "]");
}

/* Whether a name is that of a script: PCRE2 would also take characters that several scripts share. */
static bool is_script(const char *name)
{
    char text[80];
    PCRE2_SIZE at;
    pcre2_code *code;
    int error;

    if (strlen(name) < 3 || strchr(name, ':'))
        return false;
    snprintf(text, sizeof text, "\\p{sc:%s}", name);
    code = compile(text, strlen(text), &error, &at);
    pcre2_code_free(code);
    return code != NULL;
}

/* \p{...}, \P{...}, \pL: r->at is at the p. */
static enum tr_status take_property(struct rewrite *r, bool inside)
{
    bool negated = *r->at == 'P';
    char name[64], text[80];
    size_t bytes;

    r->at++;
    if (*r->at == '{') {
        const char *end = strchr(r->at, '}');

        r->at++;
        if (end && *r->at == '^') {
            negated = !negated;
            r->at++;
        }
        bytes = end ? (size_t)(end - r->at) : sizeof name;
    } else {
        bytes = 1;
    }
    if (bytes == 0 || bytes >= sizeof name || memchr(r->at, '\0', bytes))
        return refuse(r, "a property without its name");
    memcpy(name, r->at, bytes);
    name[bytes] = '\0';
    r->at += bytes;
    r->at += *r->at == '}';
    snprintf(text, sizeof text, "\\p{%s%s}", is_script(name) ? "sc:" : "", name);
    if (strcmp(name, "L") == 0 && !(negated && inside)) {
        put_class(r, inside, negated, text, &newer.letters, NULL);
    } else if (strcmp(name, "N") == 0 && !(negated && inside)) {
        put_class(r, inside, negated, text, &newer.numbers, NULL);
    } else {
        text[1] = negated ? 'P' : 'p';
        put(r, text);
    }
    return TR_OK;
}

/* \x and \u with their digits: r->at is at the letter. */
static enum tr_status take_number(struct rewrite *r)
{
    const bool four = *r->at == 'u';
    char digits[9] = "", text[16];
    int n = 0, most = four ? 4 : 2;
    bool braces;

    r->at++;
    braces = !four && *r->at == '{';
    r->at += braces;
    most = braces ? 8 : most;
    while (n < most && isxdigit((unsigned char)*r->at))
        digits[n++] = *r->at++;
    if (n == 0 || (four && n < 4) || (braces && *r->at++ != '}'))
        return refuse(r, "a character without its number");
    snprintf(text, sizeof text, "\\x{%s}", digits);
    put(r, text);
    return TR_OK;
}

/* What stands behind a backslash; r->at is at it. */
static enum tr_status take_escape(struct rewrite *r, bool inside)
{
    const char c = *r->at;
    char text[3] = {'\\', c, '\0'};

    if (c == 'p' || c == 'P')
        return take_property(r, inside);
    if (c == 'x' || c == 'u')
        return take_number(r);
    if (c == 's' || (c == 'S' && !inside)) {
        put_class(r, inside, c == 'S', SPACES, NULL, NULL);
    } else if (c == 'S') {
        put(r, NO_SPACES);
    } else if (c == 'w' || (c == 'W' && !inside)) {
        put_class(r, inside, c == 'W', "\\p{L}" WORDS, &newer.letters, NULL);
    } else if (c == 'h' || (c == 'H' && !inside)) {
        put_class(r, inside, c == 'H', "0-9a-fA-F", NULL, NULL);
    } else if (c == 'v') {
        put(r, "\\x0b");
    } else if (strchr("ntrfaedD", c) && c != '\0') {
        put(r, text);
    } else if (strchr("AzZ", c) && c != '\0' && !inside) {
        put(r, text);
    } else if ((unsigned char)c < 0x80 && !isalnum((unsigned char)c) && c != '\0') {
        put(r, text);
    } else {
        text[1] = isprint((unsigned char)c) ? c : '?';
        return refuse(r, text);
    }
    r->at++;
    return TR_OK;
}

/* A class; r->at is behind its bracket. */
static enum tr_status take_class(struct rewrite *r)
{
    bool first = true;

    put(r, "[");
    if (*r->at == '^') {
        put(r, "^");
        r->at++;
    }
    for (; *r->at != ']' || first; first = false) {
        if (*r->at == '\0')
            return refuse(r, "a class without its end");
        if (*r->at == '[')
            return refuse(r, "a class within a class");
        if (strncmp(r->at, "&&", 2) == 0)
            return refuse(r, "an intersection of classes");
        if (*r->at == '\\') {
            r->at++;
            TR_TRY(take_escape(r, true));
        } else {
            tr_bytes_add(&r->out, r->at++, 1);
        }
    }
    r->at++;
    put(r, "]");
    return TR_OK;
}

/* What begins a group; r->at is behind its parenthesis. */
static enum tr_status take_group(struct rewrite *r)
{
    static const char *const plain[] = {"?:", "?=", "?!", "?<=", "?<!", "?>"};

    if (r->depth == DEPTH)
        return refuse(r, "more than 50 groups in one another");
    r->groups[r->depth++] = r->out.count;
    if (*r->at != '?') {
        put(r, "(?:");
        return TR_OK;
    }
    put(r, "(");
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
        if (strncmp(r->at, plain[i], strlen(plain[i])) == 0) {
            put(r, plain[i]);
            r->at += strlen(plain[i]);
            return TR_OK;
        }
    }
    put(r, "?");
    for (r->at++; *r->at && strchr("imx-", *r->at); r->at++)
        put(r, *r->at == 'm' ? "s" : (char[]){*r->at, '\0'});
    if (*r->at != ':' && *r->at != ')')
        return refuse(r, "a group of a kind");
    if (*r->at == ')')
        r->depth--;
    tr_bytes_add(&r->out, r->at++, 1);
    return TR_OK;
}

/* Put "(?:" before the last atom and ")" behind it. */
static void wrap_atom(struct rewrite *r)
{
    static const char open[] = "(?:";

    put(r, open);
    memmove(r->out.data + r->atom + 3, r->out.data + r->atom, r->out.count - r->atom - 3);
    memcpy(r->out.data + r->atom, open, 3);
    put(r, ")");
}

/* {n}, {n,}, {n,m} or {,m} with what follows; false if it is none. */
static bool take_count(struct rewrite *r)
{
    const char *at = r->at + 1;
    size_t before = strspn(at, "0123456789"), after = 0;
    const bool comma = at[before] == ',';

    if (comma)
        after = strspn(at + before + 1, "0123456789");
    at += before + comma + after;
    if (before + after == 0 || *at != '}')
        return false;
    put(r, before == 0 ? "{0" : "{");
    tr_bytes_add(&r->out, r->at + 1, (size_t)(at - r->at));
    r->at = at + 1;
    if (*r->at == '+' || (*r->at == '?' && !comma))
        wrap_atom(r);
    return true;
}

static enum tr_status take_one(struct rewrite *r)
{
    const char c = *r->at;

    if (strchr("*+?", c) || (c == '{' && take_count(r))) {
        if (c != '{')
            tr_bytes_add(&r->out, r->at++, 1);
        return TR_OK;
    }
    r->atom = r->out.count;
    if (c == '{') {
        put(r, "\\{");
        r->at++;
        return TR_OK;
    }
    r->at++;
    if (c == '\\')
        return take_escape(r, false);
    if (c == '[')
        return take_class(r);
    if (c == '(')
        return take_group(r);
    if (c == ')' && r->depth > 0)
        r->atom = r->groups[--r->depth];
    tr_bytes_add(&r->out, r->at - 1, 1);
    /* A character of several bytes is one atom. */
    for (; ((unsigned char)*r->at & 0xc0) == 0x80; r->at++)
        tr_bytes_add(&r->out, r->at, 1);
    return TR_OK;
}

static enum tr_status compile_rewritten(struct rewrite *r, struct tr_pattern **out)
{
    PCRE2_UCHAR why[256];
    PCRE2_SIZE at;
    int error;
    pcre2_code *code = compile((const char *)r->out.data, r->out.count, &error, &at);
    struct tr_pattern *p;

    if (!code) {
        pcre2_get_error_message(error, why, sizeof why);
        return TR_FAIL(TR_EDATA,
                       "%s: the regular expression \"%.200s\" is none that PCRE2 takes: %s",
                       r->where, r->in, (const char *)why);
    }
    p = need(calloc(1, sizeof *p));
    p->code = code;
    p->jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
    *out = p;
    return TR_OK;
}

enum tr_status tr_pattern_open(const char *where, const char *expression, struct tr_pattern **out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct rewrite r = {.where = where, .in = expression, .at = expression};
    enum tr_status s = TR_OK;

    *out = NULL;
    pthread_once(&once, fill_newer);
    if (strlen(expression) > LONGEST)
        return TR_FAIL(TR_EDATA, "%s: a regular expression of %zu bytes is longer than %d", where,
                       strlen(expression), LONGEST);
    if (tr_utf8_valid((const unsigned char *)expression, strlen(expression)) != strlen(expression))
        return TR_FAIL(TR_EDATA, "%s: the regular expression is not UTF-8", where);
    while (s == TR_OK && *r.at)
        s = take_one(&r);
    if (s == TR_OK)
        s = compile_rewritten(&r, out);
    free(r.out.data);
    return s;
}

void tr_pattern_close(struct tr_pattern *p)
{
    if (!p)
        return;
    pcre2_code_free(p->code);
    free(p);
}

struct tr_match *tr_match_open(void)
{
    struct tr_match *m = need(calloc(1, sizeof *m));

    m->data = need(pcre2_match_data_create(1, NULL));
    m->context = need(pcre2_match_context_create(NULL));
    pcre2_set_match_limit(m->context, MATCH_LIMIT);
    pcre2_set_heap_limit(m->context, HEAP_KIB);
    m->stack = pcre2_jit_stack_create(STACK_BYTES / 32, STACK_BYTES, NULL);
    pcre2_jit_stack_assign(m->context, NULL, m->stack);
    return m;
}

void tr_match_close(struct tr_match *m)
{
    if (!m)
        return;
    pcre2_jit_stack_free(m->stack);
    pcre2_match_context_free(m->context);
    pcre2_match_data_free(m->data);
    free(m);
}

int tr_pattern_find(const struct tr_pattern *p, struct tr_match *m, const unsigned char *text,
                    size_t bytes, size_t from, size_t *begin, size_t *end)
{
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(m->data);
    int n;

    if (p->jit)
        n = pcre2_jit_match(p->code, text, bytes, from, PCRE2_NO_UTF_CHECK, m->data, m->context);
    else
        n = pcre2_match(p->code, text, bytes, from, PCRE2_NO_UTF_CHECK, m->data, m->context);
    if (n == PCRE2_ERROR_NOMATCH)
        return 0;
    if (n < 0)
        return -1;
    *begin = found[0];
    *end = found[1];
    return 1;
}
