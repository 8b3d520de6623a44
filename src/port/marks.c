/* SPDX-License-Identifier: BSD-3-Clause */
#include "port/marks.h"

#include <stdlib.h>
#include <string.h>

#include "util/file.h"

void tr_list_take(struct tr_list *l, char *text)
{
    if ((l->count & (l->count - 1)) == 0) {
        l->item = realloc(l->item, (size_t)(l->count ? 2 * l->count : 1) * sizeof *l->item);
        TR_ASSERT(l->item);
    }
    l->item[l->count++] = text;
}

void tr_list_add(struct tr_list *l, const char *text, size_t n)
{
    tr_list_take(l, tr_format("%.*s", (int)n, text));
}

void tr_list_release(struct tr_list *l)
{
    for (int i = 0; i < l->count; i++)
        free(l->item[i]);
    free(l->item);
    *l = (struct tr_list){0};
}

void tr_gather(struct tr_gathering *g, const char *text, size_t n)
{
    if (g->n + n + 1 > g->size) {
        g->size = 2 * (g->n + n) + 32;
        g->text = realloc(g->text, g->size);
        TR_ASSERT(g->text);
    }
    memcpy(g->text + g->n, text, n);
    g->n += n;
    g->text[g->n] = '\0';
    g->any = true;
}

void tr_gather_unknown(struct tr_gathering *g, const char *source, size_t n)
{
    const char open = TR_MARK_OPEN, close = TR_MARK_CLOSE;

    tr_gather(g, &open, 1);
    for (size_t i = 0; i < n; i++) {
        if (source[i] != TR_MARK_OPEN && source[i] != TR_MARK_CLOSE)
            tr_gather(g, source + i, 1);
    }
    tr_gather(g, &close, 1);
}

char *tr_gathered(struct tr_gathering *g)
{
    char *text = g->text ? g->text : tr_format("%s", "");

    *g = (struct tr_gathering){0};
    return text;
}

bool tr_marked(const char *text)
{
    return strchr(text, TR_MARK_OPEN) != NULL;
}

char *tr_unmarked(const char *text)
{
    char *copy = tr_format("%s", text), *to = copy;

    for (const char *s = copy; *s; s++) {
        if (*s != TR_MARK_OPEN && *s != TR_MARK_CLOSE)
            *to++ = *s;
    }
    *to = '\0';
    return copy;
}

char *tr_quoted(const char *text)
{
    struct tr_gathering g = {0};

    if (*text && !strpbrk(text, " \t\r\n'\"\\#") && *text != '@')
        return tr_format("%s", text);
    tr_gather(&g, "'", 1);
    for (; *text; text++) {
        if (*text == '\'')
            tr_gather(&g, "'\\''", 4);
        else
            tr_gather(&g, text, 1);
    }
    tr_gather(&g, "'", 1);
    return tr_gathered(&g);
}

const char *tr_basename(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}
