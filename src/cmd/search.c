/* SPDX-License-Identifier: BSD-3-Clause */
#include "cmd/search.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "util/file.h"
#include "util/status.h"

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

/* How a text has the words: the worst of them counts. */
enum match { WHOLE, BEGINNING, INSIDE, NONE };

/* Where results stand: first what says the word, last what this program does not do. */
enum kind {
    KIND_TERM,
    KIND_OPTION,
    KIND_VERB,
    KIND_DOCS,
    KIND_FOLDER,
    KIND_NO_EFFECT,
    KIND_REFUSED
};

static const char *const kinds[] = {"term", "option", "verb", "docs", "folder", "option", "option"};

struct hit {
    enum kind kind;
    enum match match;
    bool named;             /* the words are in the name, not only in the text */
    int order;              /* of the tables */
    char *what, *text;      /* owned */
    const struct tr_opt *o; /* of an option, or NULL */
};

struct query {
    int n, hits, room;
    char **words;
    struct hit *hit;
};

/* A hyphen is a space, as in "zero-bubble" and "zero bubble"; letters have no case. */
static int folded(char c)
{
    return c == '-' || c == '_' ? ' ' : tolower((unsigned char)c);
}

static enum match match_word(const char *text, const char *word)
{
    enum match best = NONE;

    for (const char *at = text; *at && best > WHOLE; at++) {
        bool begins = at == text || !isalnum((unsigned char)at[-1]);
        size_t n = 0;
        enum match m;

        while (word[n] && folded(at[n]) == folded(word[n]))
            n++;
        if (word[n])
            continue;
        m = !begins ? INSIDE : isalnum((unsigned char)at[n]) ? BEGINNING : WHOLE;
        best = m < best ? m : best;
    }
    return best;
}

/* How one of the texts, of which b may be NULL, has each of the words. */
static enum match match(const struct query *q, const char *a, const char *b)
{
    enum match worst = WHOLE;

    for (int i = 0; i < q->n; i++) {
        enum match m = match_word(a, q->words[i]), other = b ? match_word(b, q->words[i]) : NONE;

        m = other < m ? other : m;
        worst = m > worst ? m : worst;
    }
    return worst;
}

/* A result if `name` and `text` have the words; takes `what`. */
static void add(struct query *q, struct hit h, const char *name, const char *text)
{
    h.match = match(q, name, text);
    if (h.match == NONE) {
        free(h.what);
        return;
    }
    if (q->hits == q->room) {
        q->room = q->room ? 2 * q->room : 64;
        q->hit = realloc(q->hit, (size_t)q->room * sizeof *q->hit);
        TR_ASSERT(q->hit);
    }
    h.named = match(q, name, NULL) == h.match;
    h.order = q->hits;
    h.text = tr_format("%s", h.text ? h.text : text);
    q->hit[q->hits++] = h;
}

static enum kind kind_of(const struct tr_opt *o)
{
    switch (o->kind) {
    case TR_ROW_REFUSED:
        return KIND_REFUSED;
    case TR_ROW_IGNORED:
    case TR_ROW_GIVEN:
        return KIND_NO_EFFECT;
    default:
        return KIND_OPTION;
    }
}

static void search_options(struct query *q, const struct tr_verb *v)
{
    const struct tr_options *t = v->doc->options ? v->doc->options() : NULL;
    const char *value, *meaning;

    for (int i = 0; t && i < t->rows; i++) {
        const struct tr_opt *o = &t->row[i];

        if (o->kind == TR_ROW_GROUP)
            continue;
        char *name = tr_format("--%s", o->name), *says = tr_options_says(t, o);

        add(q,
            (struct hit){.kind = kind_of(o), .what = tr_format("%s (%s)", name, v->name), .o = o},
            name, says);
        for (int k = 0; tr_options_listed(t, o, k, &value, &meaning); k++)
            add(q,
                (struct hit){.kind = KIND_OPTION,
                             .what = tr_format("%s %s (%s)", name, value, v->name)},
                value, meaning);
        free(name);
        free(says);
    }
}

static int by_rank(const void *a, const void *b)
{
    const struct hit *x = a, *y = b;
    int refused = (x->kind == KIND_REFUSED) - (y->kind == KIND_REFUSED);

    if (refused)
        return refused;
    if (x->match != y->match)
        return (int)x->match - (int)y->match;
    if (x->kind != y->kind)
        return (int)x->kind - (int)y->kind;
    if (x->named != y->named)
        return y->named - x->named;
    return x->order - y->order;
}

/* How many hits from i on are options that are refused, or have no effect, for the same reason. */
static int same_reason(const struct query *q, int i)
{
    int n = 1;

    while (q->hit[i].kind >= KIND_NO_EFFECT && i + n < q->hits &&
           q->hit[i + n].kind == q->hit[i].kind &&
           strcmp(q->hit[i + n].o->help, q->hit[i].o->help) == 0)
        n++;
    return n;
}

/* "--name (verb): text", where the text begins a line if it does not fit.  Options with one reason
   are one result: "--name (verb) and 12 more: reason". */
static void tell(FILE *f, const struct hit *h, int same)
{
    enum { INDENT = 12, WIDTH = 92 };
    int column = fprintf(f, "%-8s%s", kinds[h->kind], h->what);

    if (same > 1)
        column += fprintf(f, " and %d more", same - 1);
    column += fprintf(f, ":");
    if (column + 1 + (int)strlen(h->text) <= WIDTH) {
        fprintf(f, " %s\n", h->text);
    } else {
        fprintf(f, "\n%*s", INDENT, "");
        tr_options_wrap(f, INDENT, h->text);
    }
}

static void search_all(struct query *q)
{
    for (const struct term *t = terms; t->term; t++)
        add(q, (struct hit){.kind = KIND_TERM, .what = tr_format("%s", t->term)}, t->term,
            t->meaning);
    for (int i = 0; i < tr_verb_count; i++) {
        const struct tr_verb *v = &tr_verbs[i];
        char *about = tr_format("%s\n%s", v->help, v->doc->about);

        search_options(q, v);
        add(q,
            (struct hit){.kind = KIND_VERB,
                         .what = tr_format("%s", v->name),
                         .text = (char *)(intptr_t)v->help},
            v->name, about);
        free(about);
    }
    for (const struct source *s = sources; s->folder; s++)
        add(q, (struct hit){.kind = KIND_FOLDER, .what = tr_format("%s", s->folder)}, s->what,
            s->what);
    for (const struct page *p = pages; p->file; p++)
        add(q,
            (struct hit){.kind = KIND_DOCS,
                         .what = tr_format("%s", p->file),
                         .text = (char *)(intptr_t)p->heading},
            p->heading, p->words);
}

enum tr_status tr_search(FILE *f, int n, char **words)
{
    struct query q = {.n = n, .words = words};
    bool paged = false;

    search_all(&q);
    if (q.hits)
        qsort(q.hit, (size_t)q.hits, sizeof *q.hit, by_rank);
    for (int i = 0, same; i < q.hits; i += same) {
        same = same_reason(&q, i);
        tell(f, &q.hit[i], same);
        paged = paged || q.hit[i].kind == KIND_DOCS;
    }
    if (paged)
        fprintf(f, "\nThe pages are in %s.\n",
                access(installed[0], R_OK) == 0 ? installed[0] : "the folder docs of the sources");
    for (int i = 0; i < q.hits; i++) {
        free(q.hit[i].what);
        free(q.hit[i].text);
    }
    free(q.hit);
    if (q.hits)
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
