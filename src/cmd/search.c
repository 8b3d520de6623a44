/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/search.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "util/file.h"

static const struct page {
    const char *file, *heading, *words;
} pages[] = {
#define FOLDER(path)
#define PAGE(file, heading, words) {file, heading, words},
#define TERM(term, meaning)
#define SOURCE(folder, what)
#include "cmd/pages.inc"
#undef PAGE
#undef TERM
    {NULL, NULL, NULL},
};

static const struct term {
    const char *term, *meaning;
} terms[] = {
#define PAGE(file, heading, words)
#define TERM(term, meaning) {term, meaning},
#include "cmd/pages.inc"
#undef TERM
#undef SOURCE
    {NULL, NULL},
};

/* Folders of the sources. */
static const struct source {
    const char *folder, *what;
} sources[] = {
#define TERM(term, meaning)
#define SOURCE(folder, what) {folder, what},
#include "cmd/pages.inc"
#undef FOLDER
#undef PAGE
#undef TERM
#undef SOURCE
    {NULL, NULL},
};

static const char *const installed[] = {
#define FOLDER(path) path,
#define PAGE(file, heading, words)
#define TERM(term, meaning)
#define SOURCE(folder, what)
#include "cmd/pages.inc"
};

/* What is looked for, and where it is said. */
struct query {
    FILE *f;
    int n, found;
    char **words;
};

/* A hyphen is a space, as in "zero-bubble" and "zero bubble"; letters have no case. */
static int folded(char c)
{
    return c == '-' || c == '_' ? ' ' : tolower((unsigned char)c);
}

static bool has(const char *text, const char *word)
{
    for (; *text; text++) {
        size_t n = 0;

        while (word[n] && folded(text[n]) == folded(word[n]))
            n++;
        if (!word[n])
            return true;
    }
    return false;
}

/* Does each word occur in one of the texts? */
static bool match(const struct query *q, const char *a, const char *b)
{
    for (int i = 0; i < q->n; i++) {
        if (!has(a, q->words[i]) && !(b && has(b, q->words[i])))
            return false;
    }
    return true;
}

/* "--name (verb): text", where the text begins a line if it does not fit; takes `what`. */
static void tell(struct query *q, const char *kind, char *what, const char *text)
{
    enum { INDENT = 12, WIDTH = 92 };
    int column = fprintf(q->f, "%-8s%s:", kind, what);

    if (column + 1 + (int)strlen(text) <= WIDTH) {
        fprintf(q->f, " %s\n", text);
    } else {
        fprintf(q->f, "\n%*s", INDENT, "");
        tr_options_wrap(q->f, INDENT, text);
    }
    free(what);
    q->found++;
}

static void search_options(struct query *q, const struct tr_verb *v)
{
    const struct tr_options *t = v->doc->options ? v->doc->options() : NULL;
    const char *value, *meaning;

    for (int i = 0; t && i < t->rows; i++) {
        if (t->row[i].kind == TR_ROW_GROUP)
            continue;
        char *name = tr_format("--%s", t->row[i].name), *says = tr_options_says(t, &t->row[i]);

        if (match(q, name, says))
            tell(q, "option", tr_format("%s (%s)", name, v->name), says);
        for (int k = 0; tr_options_listed(t, &t->row[i], k, &value, &meaning); k++)
            if (match(q, value, meaning))
                tell(q, "option", tr_format("%s %s (%s)", name, value, v->name), meaning);
        free(name);
        free(says);
    }
}

static void search_pages(struct query *q)
{
    int before = q->found;

    for (const struct page *p = pages; p->file; p++) {
        if (match(q, p->heading, p->words))
            tell(q, "docs", tr_format("%s", p->file), p->heading);
    }
    if (q->found > before)
        fprintf(q->f, "\nThe pages are in %s.\n",
                access(installed[0], R_OK) == 0 ? installed[0] : "the folder docs of the sources");
}

enum tr_status tr_search(FILE *f, int n, char **words)
{
    struct query q = {f, n, 0, words};

    for (int i = 0; i < tr_verb_count; i++) {
        const struct tr_verb *v = &tr_verbs[i];

        search_options(&q, v);
        if (match(&q, v->name, v->help) || match(&q, v->doc->about, NULL))
            tell(&q, "verb", tr_format("%s", v->name), v->help);
    }
    for (const struct term *t = terms; t->term; t++) {
        if (match(&q, t->term, t->meaning))
            tell(&q, "term", tr_format("%s", t->term), t->meaning);
    }
    for (const struct source *s = sources; s->folder; s++) {
        if (match(&q, s->what, NULL))
            tell(&q, "folder", tr_format("%s", s->folder), s->what);
    }
    search_pages(&q);
    if (q.found)
        return TR_OK;
    return TR_FAIL(
        TR_ECONFIG,
        "no option, verb, term, folder or page has %s: give fewer words, or parts of words",
        n > 1 ? "all these words" : "this word");
}

void tr_search_option(FILE *f, const char *option)
{
    char *word = tr_format(" %s ", option);

    for (const struct page *p = pages; p->file; p++) {
        if (strstr(p->words, word))
            fprintf(f, "    docs: %s, %s\n", p->file, p->heading);
    }
    free(word);
}
