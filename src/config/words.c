/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/deepspeed.h"
#include "config/strategy.h"
#include "util/file.h"

enum { FILE_LIMIT = 1 << 20 };

static enum tr_status add_file(struct tr_args *a, const char *path, int depth);

/* Takes both strings. */
static void add(struct tr_args *a, char *text, char *where, bool firm)
{
    if (a->count == a->size) {
        a->size = a->size ? 2 * a->size : 64;
        a->list = realloc(a->list, (size_t)a->size * sizeof *a->list);
        TR_ASSERT(a->list);
    }
    a->list[a->count++] = (struct tr_arg){text, where, firm};
}

void tr_args_add(struct tr_args *a, const char *text, const char *where, bool firm)
{
    add(a, tr_format("%s", text), tr_format("%s", where), firm);
}

static void add_setting(void *ctx, const char *word, const char *where)
{
    add(ctx, tr_format("%s", word), tr_format("%s", where), true);
}

/* The options that stand for others, with '-' for what may be typed as '_'. */
typedef void put_word(void *ctx, const char *word, const char *where);
static const struct settings {
    const char *name;
    enum tr_status (*read)(const char *value, put_word *put, void *ctx);
} settings[] = {
    {"--deepspeed-config", tr_deepspeed_read},
    {"--strategy", tr_strategy_read},
};

/* The one whose name begins a word, and the length of that; or NULL. */
static const struct settings *begins(const char *word, size_t *length)
{
    for (size_t row = 0; row < sizeof settings / sizeof *settings; row++) {
        const char *name = settings[row].name;
        size_t i = 0;

        while (name[i] && (word[i] == name[i] || (name[i] == '-' && i > 1 && word[i] == '_')))
            i++;
        *length = i;
        if (!name[i] && (word[i] == '\0' || word[i] == '='))
            return &settings[row];
    }
    return NULL;
}

/* How many words, `word` and the one before it, are such an option with its value: 1, 2, or 0 where they are
   none. */
static int settings_in(const struct tr_arg *before, const struct tr_arg *word,
                       const struct settings **of, const char **value)
{
    size_t n;

    *of = begins(word->text, &n);
    if (*of) {
        *value = word->text + n + 1;
        return word->text[n] == '=';
    }
    *value = word->text;
    *of = before ? begins(before->text, &n) : NULL;
    return *of && before->text[n] == '\0' ? 2 : 0;
}

/* A word of a user, and what it stands for. */
static enum tr_status add_word(struct tr_args *a, const char *text, char *where)
{
    const struct settings *of;
    const char *value;
    enum tr_status s;
    char *copy;

    add(a, tr_format("%s", text), where, false);
    if (settings_in(a->count > 1 ? &a->list[a->count - 2] : NULL, &a->list[a->count - 1], &of,
                    &value) == 0)
        return TR_OK;
    copy = tr_format("%s", value);
    s = of->read(copy, add_setting, a);
    free(copy);
    return s;
}

/* Where the words of a text come from; `file` is NULL for a text without one. */
struct source {
    const char *file;
    int line, depth;
};

static char *place(const struct source *from)
{
    return from->file ? tr_format(" (%s, line %d)", from->file, from->line) : tr_format("%s", "");
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Past blanks, newlines and comments. */
static const char *skip(const char *s, struct source *from)
{
    while (blank(*s) || *s == '#') {
        if (*s == '#') {
            s += strcspn(s, "\n");
        } else {
            from->line += *s == '\n';
            s++;
        }
    }
    return s;
}

/*
 * Read one word as a shell would, into `out`, and return what follows it; NULL when a quote stays
 * open.  A backslash before a newline is nothing, so text pasted from a job script works.
 */
static const char *read_word(const char *s, struct source *from, char *out, bool *quoted)
{
    char quote = 0;

    *quoted = false;
    for (; *s && (quote || !blank(*s)); s++) {
        if (*s == '\n')
            from->line++;
        if (quote && *s == quote) {
            quote = 0;
        } else if (!quote && (*s == '\'' || *s == '"')) {
            quote = *s;
            *quoted = true;
        } else if (*s == '\\' && quote != '\'' && s[1]) {
            if (*++s == '\n')
                from->line++;
            else
                *out++ = *s;
        } else {
            *out++ = *s;
        }
    }
    *out = 0;
    return quote ? NULL : s;
}

/* The path of @name in `file`: from the folder of that file. */
static char *next_to(const char *file, const char *name)
{
    const char *slash = file ? strrchr(file, '/') : NULL;

    if (!slash || name[0] == '/')
        return tr_format("%s", name);
    return tr_format("%.*s/%s", (int)(slash - file), file, name);
}

static enum tr_status add_text(struct tr_args *a, const char *text, struct source from)
{
    enum tr_status status = TR_OK;
    char *word = malloc(strlen(text) + 1);

    TR_ASSERT(word);
    while (status == TR_OK) {
        bool quoted;
        int line;

        text = skip(text, &from);
        if (!*text)
            break;
        line = from.line;
        text = read_word(text, &from, word, &quoted);
        if (!text) {
            status = TR_FAIL(TR_ECONFIG, "%s, line %d: this quote is never closed",
                             from.file ? from.file : "arguments", line);
        } else if (word[0] == '@' && !quoted) {
            char *path = next_to(from.file, word + 1);

            status = add_file(a, path, from.depth + 1);
            free(path);
        } else if (word[0] || quoted) {
            status = add_word(a, word, place(&(struct source){from.file, line, 0}));
        }
    }
    free(word);
    return status;
}

static enum tr_status add_file(struct tr_args *a, const char *path, int depth)
{
    enum tr_status status;
    char *text;

    if (depth > TR_ARGS_DEPTH)
        return TR_FAIL(TR_ECONFIG,
                       "@%s: argument files are nested more than %d deep; does one include itself?",
                       path, TR_ARGS_DEPTH);
    TR_TRY(tr_file_text(path, FILE_LIMIT, &text));
    status = add_text(a, text, (struct source){path, 1, depth});
    free(text);
    return status;
}

enum tr_status tr_args_argv(struct tr_args *a, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (argv[i][0] == '@')
            TR_TRY(add_file(a, argv[i] + 1, 1));
        else
            TR_TRY(add_word(a, argv[i], tr_format("%s", "")));
    }
    return TR_OK;
}

enum tr_status tr_args_text(struct tr_args *a, const char *text)
{
    return add_text(a, text, (struct source){NULL, 1, 0});
}

/* Of each one byte, text and place, one after the other, each text with its end. */
char *tr_args_pack(const struct tr_args *a, size_t *bytes)
{
    char *packed, *at;

    *bytes = 0;
    for (int i = 0; i < a->count; i++)
        *bytes += strlen(a->list[i].text) + strlen(a->list[i].where) + 3;
    packed = at = malloc(*bytes + 1);
    TR_ASSERT(packed);
    for (int i = 0; i < a->count; i++) {
        *at++ = a->list[i].firm;
        at = stpcpy(at, a->list[i].text) + 1;
        at = stpcpy(at, a->list[i].where) + 1;
    }
    return packed;
}

void tr_args_unpack(struct tr_args *a, const char *packed, size_t bytes)
{
    for (const char *at = packed, *where; at < packed + bytes; at = where + strlen(where) + 1) {
        where = at + 1 + strlen(at + 1) + 1;
        add(a, tr_format("%s", at + 1), tr_format("%s", where), *at);
    }
}

static void release(struct tr_arg *word)
{
    free(word->text);
    free(word->where);
}

void tr_args_settle(struct tr_args *a)
{
    const struct settings *of;
    const char *value;
    int kept = 0;

    for (int i = 0; i < a->count; i++) {
        const int named =
            settings_in(kept > 0 ? &a->list[kept - 1] : NULL, &a->list[i], &of, &value);

        a->list[i].firm = false;
        if (named == 0) {
            a->list[kept++] = a->list[i];
            continue;
        }
        release(&a->list[i]);
        if (named == 2) /* the option before it was kept */
            release(&a->list[--kept]);
    }
    a->count = kept;
}

void tr_args_release(struct tr_args *a)
{
    for (int i = 0; i < a->count; i++)
        release(&a->list[i]);
    free(a->list);
    *a = (struct tr_args){0};
}
