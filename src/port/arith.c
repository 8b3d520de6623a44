/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/arith.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "util/file.h"

enum {
    DEPTH = 32,  /* of parentheses and of variables in variables */
    STEPS = 4096 /* of one expression, variables opened up */
};

struct parser {
    const char *s;
    const char *(*find)(void *ctx, const char *name);
    void *ctx;
    int depth, *steps;
    bool bad;
};

static int64_t sum(struct parser *p);

static void skip(struct parser *p)
{
    p->s += strspn(p->s, " \t\n\r");
}

static int64_t bad(struct parser *p)
{
    p->bad = true;
    return 0;
}

static int64_t number(struct parser *p)
{
    char *end;

    errno = 0;
    long long x = strtoll(p->s, &end, 10);
    if (errno || (end - p->s > 1 && *p->s == '0'))
        return bad(p); /* a leading 0 would be octal */
    p->s = end;
    return x;
}

static size_t name_length(const char *s)
{
    if (*s >= '0' && *s <= '9')
        return 0;
    return strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
}

static int64_t variable(struct parser *p, size_t n)
{
    char *name = tr_format("%.*s", (int)n, p->s);
    const char *text = p->find(p->ctx, name);
    struct parser inner = {text, p->find, p->ctx, p->depth + 1, p->steps, false};
    int64_t x = 0;

    p->s += n;
    free(name);
    if (!text || p->depth >= DEPTH)
        return bad(p);
    skip(&inner);
    if (*inner.s)
        x = sum(&inner);
    return inner.bad || *inner.s ? bad(p) : x;
}

static int64_t primary(struct parser *p)
{
    int64_t x;
    size_t n;

    skip(p);
    if (p->bad || ++p->depth > DEPTH || --*p->steps < 0)
        return bad(p);
    n = name_length(p->s);
    if (*p->s == '(') {
        p->s++;
        x = sum(p);
        skip(p);
        if (*p->s != ')')
            return bad(p);
        p->s++;
    } else if (*p->s == '-' || *p->s == '+') {
        bool minus = *p->s++ == '-';

        x = primary(p);
        if (minus && __builtin_sub_overflow(0, x, &x))
            return bad(p);
    } else if (*p->s >= '0' && *p->s <= '9') {
        x = number(p);
    } else {
        x = n ? variable(p, n) : bad(p);
    }
    p->depth--;
    return x;
}

static int64_t power(struct parser *p)
{
    int64_t base = primary(p), x = 1;

    skip(p);
    if (p->bad || strncmp(p->s, "**", 2) != 0)
        return base;
    p->s += 2;
    int64_t n = primary(p);
    if (n < 0 || n > 62)
        return bad(p);
    for (int64_t i = 0; i < n; i++) {
        if (__builtin_mul_overflow(x, base, &x))
            return bad(p);
    }
    return x;
}

static int64_t product(struct parser *p)
{
    int64_t x = power(p);

    for (skip(p); !p->bad && *p->s && strchr("*/%", *p->s); skip(p)) {
        char op = *p->s++;
        int64_t y = power(p);

        if (op != '*' && (y == 0 || (x == INT64_MIN && y == -1)))
            return bad(p);
        if (op == '*' && __builtin_mul_overflow(x, y, &x))
            return bad(p);
        if (op != '*')
            x = op == '/' ? x / y : x % y;
    }
    return x;
}

static int64_t sum(struct parser *p)
{
    int64_t x = product(p);

    for (skip(p); !p->bad && (*p->s == '+' || *p->s == '-'); skip(p)) {
        bool minus = *p->s++ == '-';
        int64_t y = product(p);

        if (minus ? __builtin_sub_overflow(x, y, &x) : __builtin_add_overflow(x, y, &x))
            return bad(p);
    }
    return x;
}

bool tr_arith(const char *text, const char *(*find)(void *ctx, const char *name), void *ctx,
              int64_t *value)
{
    int steps = STEPS;
    struct parser p = {text, find, ctx, 0, &steps, false};

    *value = sum(&p);
    return !p.bad && !*p.s;
}
