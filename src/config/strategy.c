/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/strategy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/config.h"
#include "util/file.h"

static const struct row {
    const char *name, *options, *otherwise, *note, *about;
    const char *why; /* it is refused */
} rows[] = {
#define STANDS(name, options, otherwise, note, about) {name, options, otherwise, note, about, NULL},
#define REFUSED(name, why) {name, NULL, NULL, NULL, NULL, why},
#include "config/strategy.def"
};

enum { ROWS = sizeof rows / sizeof *rows, WORD = 128 };

static const struct row *row_of(const char *name)
{
    for (int i = 0; i < ROWS; i++)
        if (strcasecmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

/* The option at *s, "--name=value", into `word`; *s is moved behind it.  False behind the last. */
static bool next(const char **s, char word[WORD])
{
    const size_t n = strcspn(*s, " ");

    TR_ASSERT(n < WORD);
    memcpy(word, *s, n);
    word[n] = '\0';
    *s += n;
    *s += strspn(*s, " ");
    return n > 0;
}

/* Its name without "--". */
static char *name_of(const char *word)
{
    return tr_format("%.*s", (int)strcspn(word + 2, "="), word + 2);
}

/* The options as one types them. */
static char *typed(const struct row *row)
{
    char *text = tr_format("%s", row->options);

    for (char *s = text; *s; s++)
        *s = *s == '=' ? ' ' : *s;
    return text;
}

/* A name whose options do not all exist. */
static enum tr_status check(const struct row *row)
{
    const char *s = row->options;
    char word[WORD];

    while (next(&s, word)) {
        char *name = name_of(word), *all;
        const struct tr_opt *o = tr_options_find(tr_config_options(), name);
        enum tr_status status;

        if (o && o->kind == TR_ROW_OPT) {
            free(name);
            continue;
        }
        all = typed(row);
        status = TR_FAIL(TR_ECONFIG,
                         "--strategy %s stands for %s, and there is no --%s: give --strategy %s, "
                         "which keeps all "
                         "of it on the device",
                         row->name, all, name, row->otherwise);
        free(all);
        free(name);
        return status;
    }
    return TR_OK;
}

static enum tr_status unknown(const char *name)
{
    const char *names[ROWS], *near;

    for (int i = 0; i < ROWS; i++)
        names[i] = rows[i].name;
    near = tr_nearest_name(name, names, ROWS);
    if (near)
        return TR_FAIL(TR_ECONFIG, "--strategy %s is no strategy of Lightning; did you mean %s?",
                       name, near);
    return TR_FAIL(
        TR_ECONFIG,
        "--strategy %s is no strategy of Lightning: `trireme help train --strategy` lists "
        "them; or say what is sharded with --zero-stage",
        name);
}

enum tr_status tr_strategy_read(const char *name, tr_strategy_put *put, void *ctx)
{
    const struct row *row = row_of(name);
    const char *s;
    char *where, word[WORD];

    if (!row)
        return unknown(name);
    if (row->why)
        return TR_FAIL(TR_ECONFIG, "--strategy %s is not supported: %s", row->name, row->why);
    TR_TRY(check(row));
    where = tr_format(" (--strategy %s)", row->name);
    for (s = row->options; next(&s, word);)
        put(ctx, word, where);
    free(where);
    return TR_OK;
}

char *tr_strategy_text(const char *name)
{
    const struct row *row = row_of(name);
    char *all, *text;

    if (!row || !row->options)
        return tr_format("--strategy %s", name);
    all = typed(row);
    text = tr_format("--strategy %s stands for %s%s%s", row->name, all, row->note ? "; " : "",
                     row->note ? row->note : "");
    free(all);
    return text;
}

bool tr_strategy_listed(int i, const char **name, const char **about)
{
    for (int at = 0; at < ROWS; at++) {
        if (!rows[at].options || i-- > 0)
            continue;
        *name = rows[at].name;
        *about = rows[at].about;
        return true;
    }
    return false;
}
