/* SPDX-License-Identifier: BSD-3-Clause */
/* Tasks that are one stream of tokens, cut every N: text of JSON lines, and indexed datasets. */
#include "data/indexed.h"
#include "data/task_parts.h"

#include <stdlib.h>
#include <string.h>

struct stream {
    struct tr_task_order order;
    struct tr_task_lines lines; /* of text, */
    struct tr_index index;      /* and of mmap */
    bool indexed;
    struct tr_tokens rest; /* tokens from `taken` on are of the next sequences */
    size_t taken;
};

static struct stream *new_stream(struct tr_task *t)
{
    t->own = calloc(1, sizeof(struct stream));
    if (!t->own)
        tr_die(TR_ERESOURCE, "no memory left for the task %s", t->name);
    return t->own;
}

static void close_stream(struct tr_task *t)
{
    struct stream *s = t->own;

    if (!s)
        return;
    tr_task_order_release(&s->order);
    tr_task_lines_release(&s->lines);
    if (s->indexed)
        tr_index_close(&s->index);
    free(s->rest.id);
    free(s);
    t->own = NULL;
}

static void rewind_stream(struct tr_task *t)
{
    struct stream *s = t->own;

    s->rest.count = s->taken = 0;
    tr_task_order_rewind(&s->order, t);
}

static enum tr_status open_text(struct tr_task *t)
{
    struct stream *s = new_stream(t);

    TR_TRY(tr_task_lines_open(&s->lines, t));
    return tr_task_order_open(&s->order, t, (int64_t)s->lines.count);
}

static enum tr_status add_line(struct tr_task *t, struct stream *s, int64_t k)
{
    const char *text;
    json_t *object;
    size_t bytes;
    enum tr_status status;
    char *place;

    TR_TRY(tr_task_line_object(&s->lines, k, &object));
    status = tr_task_line_string(&s->lines, k, object, "text", &text, &bytes);
    place = tr_task_line_place(&s->lines, k);
    if (status == TR_OK && bytes > 0)
        status = tr_task_encode(t, place, text, bytes, &s->rest);
    free(place);
    json_decref(object);
    return status;
}

static enum tr_status open_mmap(struct tr_task *t)
{
    struct stream *s = new_stream(t);

    TR_TRY(tr_index_open(t->path, &s->index));
    s->indexed = true;
    return tr_task_order_open(&s->order, t, s->index.documents);
}

static enum tr_status add_document(struct tr_task *t, struct stream *s, int64_t k)
{
    for (int64_t i = tr_index_document(&s->index, k); i < tr_index_document(&s->index, k + 1);
         i++) {
        const int64_t length = tr_index_length(&s->index, i);

        TR_TRY(tr_index_read(&s->index, i, 0, length, t->vocab,
                             tr_tokens_room(&s->rest, (size_t)length)));
        s->rest.count += (size_t)length;
    }
    return TR_OK;
}

static enum tr_status make(struct tr_task *t, struct stream *s, int32_t *out,
                           enum tr_status (*add)(struct tr_task *t, struct stream *s, int64_t k))
{
    const size_t wanted = (size_t)t->tokens;
    const int64_t pass = s->order.pass;

    if (s->rest.count > s->taken)
        memmove(s->rest.id, s->rest.id + s->taken, (s->rest.count - s->taken) * sizeof *out);
    s->rest.count -= s->taken;
    s->taken = 0;
    while (s->rest.count < wanted) {
        const size_t before = s->rest.count;

        TR_TRY(add(t, s, tr_task_order_next(&s->order, t)));
        if (s->order.pass > pass + 1 && s->rest.count == before && before == 0)
            return TR_FAIL(TR_EDATA, "task %s: there is no text in %s", t->name, t->path);
    }
    memcpy(out, s->rest.id, wanted * sizeof *out);
    s->taken = wanted;
    return TR_OK;
}

static enum tr_status make_text(struct tr_task *t, int64_t j, int32_t *out)
{
    (void)j;
    return make(t, t->own, out, add_line);
}

static enum tr_status make_mmap(struct tr_task *t, int64_t j, int32_t *out)
{
    (void)j;
    return make(t, t->own, out, add_document);
}

const struct tr_task_format tr_task_text = {open_text, close_stream, make_text, rewind_stream};
const struct tr_task_format tr_task_mmap = {open_mmap, close_stream, make_mmap, rewind_stream};
