/* SPDX-License-Identifier: BSD-3-Clause */
/* mmlu-cot.json: an object whose values are the worked examples of a subject. */
#include "data/task_parts.h"

#include <stdlib.h>
#include <string.h>

enum { FILE_MOST = 256 << 20 };

struct cot {
    struct tr_task_order order;
    json_t *all;
    const json_t **text; /* [order.count], in the order of the file */
    struct tr_bytes room;
    struct tr_tokens tokens;
};

static enum tr_status take_texts(const struct tr_task *t, struct cot *c)
{
    size_t n = 0;
    const char *key;
    json_t *value;

    c->text = calloc(json_object_size(c->all) + 1, sizeof *c->text);
    if (!c->text)
        tr_die(TR_ERESOURCE, "no memory left for the task %s", t->name);
    json_object_foreach(c->all, key, value)
    {
        if (!json_is_string(value))
            return TR_FAIL(TR_EDATA, "task %s: %s: the value of \"%.60s\" is no text", t->name,
                           t->path, key);
        c->text[n++] = value;
    }
    return tr_task_order_open(&c->order, t, (int64_t)n);
}

static enum tr_status open_cot(struct tr_task *t)
{
    struct cot *c = t->own = calloc(1, sizeof *c);
    json_error_t error;
    char *text;

    if (!c)
        tr_die(TR_ERESOURCE, "no memory left for the task %s", t->name);
    TR_TRY(tr_file_text(t->path, FILE_MOST, &text));
    c->all = json_loads(text, JSON_ALLOW_NUL, &error);
    free(text);
    if (!json_is_object(c->all))
        return TR_FAIL(TR_EDATA, "task %s: %s:%d is no JSON object of texts: %s", t->name, t->path,
                       c->all ? 1 : error.line, c->all ? "it is an array" : error.text);
    return take_texts(t, c);
}

static void close_cot(struct tr_task *t)
{
    struct cot *c = t->own;

    if (!c)
        return;
    tr_task_order_release(&c->order);
    json_decref(c->all);
    free(c->text);
    free(c->room.data);
    free(c->tokens.id);
    free(c);
    t->own = NULL;
}

static void rewind_cot(struct tr_task *t)
{
    struct cot *c = t->own;

    c->tokens.count = 0;
    tr_task_order_rewind(&c->order, t);
}

/* With the blank line that separates subjects. */
static enum tr_status add_text(struct tr_task *t, struct cot *c, int64_t k)
{
    tr_bytes_set(&c->room, json_string_value(c->text[k]), json_string_length(c->text[k]));
    tr_bytes_add(&c->room, "\n\n", 2);
    return tr_task_encode(t, t->path, c->room.data, c->room.count, &c->tokens);
}

/* What is left of the last text, and what is too short at the end of a pass, is dropped. */
static enum tr_status make_cot(struct tr_task *t, int64_t j, int32_t *out)
{
    struct cot *c = t->own;
    const int64_t pass = c->order.pass;

    (void)j;
    c->tokens.count = 0;
    while (c->tokens.count < (size_t)t->tokens) {
        const int64_t k = tr_task_order_next(&c->order, t);

        if (c->order.at == 1)
            c->tokens.count = 0;
        if (c->order.pass > pass + 2)
            return TR_FAIL(TR_EDATA,
                           "task %s: all texts of %s together have fewer than %lld tokens: give a "
                           "smaller --seq-length",
                           t->name, t->path, (long long)t->tokens);
        TR_TRY(add_text(t, c, k));
    }
    memcpy(out, c->tokens.id, (size_t)t->tokens * sizeof *out);
    return TR_OK;
}

const struct tr_task_format tr_task_cot = {open_cot, close_cot, make_cot, rewind_cot};
