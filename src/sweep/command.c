/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/command.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/file.h"

static void add_words(const struct tr_args *from, struct tr_args *to)
{
    for (int i = 0; i < from->count; i++)
        tr_args_add(to, from->list[i].text, from->list[i].where, from->list[i].firm);
}

/* What was given, the shape, and what makes a run short and quiet. */
static enum tr_status train_words(const struct tr_sweep *w, const struct tr_sweep_space *space,
                                  const struct tr_sweep_shape *s, struct tr_args *a)
{
    char *text;
    enum tr_status status;

    tr_args_add(a, "train", "", false);
    add_words(w->words, a);
    TR_TRY(tr_sweep_shape_words(w, space, s, a));
    text = tr_format("--exit-interval %lld --log-interval 1 --eval-iters 0", (long long)w->iters);
    status = tr_args_text(a, text);
    free(text);
    if (status != TR_OK || !tr_sweep_says_length(w))
        return status;
    text = tr_format("--train-iters %lld", (long long)w->iters);
    status = tr_args_text(a, text);
    free(text);
    return status;
}

void tr_sweep_add_self(struct tr_args *a)
{
    char path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

    path[n > 0 ? n : 0] = '\0';
    tr_args_add(a, n > 0 ? path : "trireme", "", false);
}

enum tr_status tr_sweep_run_words(const struct tr_sweep *w, const struct tr_sweep_place *place,
                                  const struct tr_sweep_space *space,
                                  const struct tr_sweep_shape *s, const char *name, double most,
                                  struct tr_args *a)
{
    enum tr_status status;
    char *text;

    TR_TRY(tr_sweep_launcher(w, place, s->ranks, name, a));
    tr_sweep_add_self(a);
    TR_TRY(train_words(w, space, s, a));
    if (most <= 0.0)
        return TR_OK;
    text = tr_format("--exit-slower-than %.9g --exit-slower-after %lld", 1e3 * most,
                     (long long)w->warmup + TR_SWEEP_ENOUGH);
    status = tr_args_text(a, text);
    free(text);
    return status;
}

enum tr_status tr_sweep_command(const struct tr_sweep *w, const struct tr_sweep_space *space,
                                const struct tr_sweep_shape *s, json_t **out)
{
    struct tr_args a = {0};
    enum tr_status status = train_words(w, space, s, &a);

    *out = json_array();
    for (int i = 0; status == TR_OK && i < a.count; i++) {
        json_t *word = json_string(a.list[i].text);

        if (!word)
            status = TR_FAIL(TR_ECONFIG,
                             "the option '%s' is no UTF-8, so no record of it can be "
                             "kept: write it otherwise",
                             a.list[i].text);
        else
            json_array_append_new(*out, word);
    }
    tr_args_release(&a);
    return status;
}

void tr_sweep_put_word(FILE *f, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=+:,./@%";

    if (*word && word[strspn(word, plain)] == '\0') {
        fputs(word, f);
        return;
    }
    putc('\'', f);
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\''", f);
        else
            putc(*word, f);
    }
    putc('\'', f);
}
