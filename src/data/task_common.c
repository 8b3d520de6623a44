/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/task_parts.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "token/utf8.h"

enum { LINE_MOST = 1 << 30 };

static void *need(void *memory, const char *what)
{
    if (!memory)
        tr_die(TR_ERESOURCE, "no memory left for the task %s", what);
    return memory;
}

/* ---- draws ---- */

struct tr_task_draws tr_task_draws(const struct tr_task *t, int64_t sequence)
{
    return (struct tr_task_draws){tr_rng_key(t->seed, TR_STREAM_TASK, t->number, sequence), 0};
}

int64_t tr_task_below(struct tr_task_draws *d, int64_t count)
{
    return (int64_t)((uint64_t)tr_rng_u32(d->rng, d->next++) * (uint64_t)count >> 32);
}

bool tr_task_chance(struct tr_task_draws *d, double probability)
{
    return (double)tr_rng_u32(d->rng, d->next++) * 0x1p-32 < probability;
}

enum tr_status tr_task_encode(struct tr_task *t, const char *where, const void *text, size_t bytes,
                              struct tr_tokens *out)
{
    const struct tr_tokens *around[2];
    struct tr_bad_utf8 bad;

    tr_tokenizer_special(t->tokenizer, &around[0], &around[1]);
    for (size_t i = 0; i < around[0]->count; i++)
        tr_tokens_add(out, around[0]->id[i]);
    if (!tr_tokenizer_encode(t->tokenizer, t->thread, text, bytes, out, &bad))
        return TR_FAIL(TR_EDATA,
                       "%s: a regular expression of the tokenizer takes too long on this text",
                       where);
    for (size_t i = 0; i < around[1]->count; i++)
        tr_tokens_add(out, around[1]->id[i]);
    return TR_OK;
}

/* ---- prompts ---- */

void tr_task_prompt_begin(struct tr_task_prompt *p, const struct tr_task *t)
{
    p->text.count = 0;
    p->tokens.count = 0;
    /* A token has a byte at least. */
    p->enough = (size_t)t->tokens;
}

void tr_task_prompt_add(struct tr_task_prompt *p, const char *text)
{
    tr_bytes_add(&p->text, text, strlen(text));
}

void tr_task_prompt_add_bytes(struct tr_task_prompt *p, const void *text, size_t bytes)
{
    tr_bytes_add(&p->text, text, bytes);
}

/* How many bytes of white space, as str.strip() of Python has it but for U+001C to U+001F, are at an end. */
static size_t blank_head(const unsigned char *text, size_t bytes)
{
    size_t at = 0, used;
    uint32_t c;

    for (; at < bytes; at += used) {
        used = tr_utf8_decode(text + at, bytes - at, &c);
        if (used == 0 || !tr_utf8_is_space(c))
            break;
    }
    return at;
}

static size_t without_blank_tail(const unsigned char *text, size_t bytes)
{
    while (bytes > 0 && tr_utf8_space_before(text, bytes)) {
        bytes--;
        while (bytes > 0 && (text[bytes] & 0xc0) == 0x80)
            bytes--;
    }
    return bytes;
}

enum tr_status tr_task_prompt_full(struct tr_task_prompt *p, struct tr_task *t, const char *where,
                                   bool *full)
{
    const size_t head = blank_head(p->text.data, p->text.count);
    const size_t end = without_blank_tail(p->text.data, p->text.count);
    const size_t wanted = (size_t)t->tokens;

    *full = false;
    if (end <= head || end - head <= p->enough)
        return TR_OK;
    if (p->text.count > LINE_MOST)
        return TR_FAIL(TR_EDATA, "%s: examples of more than 1 GiB make no sequence of %zu tokens",
                       where, wanted);
    p->tokens.count = 0;
    TR_TRY(tr_task_encode(t, where, p->text.data + head, end - head, &p->tokens));
    *full = p->tokens.count > wanted;
    /* Tokenizing is the work, so wait until nine tenths of what is missing can be there. */
    if (!*full && p->tokens.count > 0)
        p->enough = (end - head) + (size_t)(0.9 * (double)(end - head) / (double)p->tokens.count *
                                            (double)(wanted - p->tokens.count));
    return TR_OK;
}

void tr_task_prompt_release(struct tr_task_prompt *p)
{
    free(p->text.data);
    free(p->tokens.id);
}

/* ---- orders ---- */

/* As data/epochs.c has it. */
static void shuffle(struct tr_task_order *o, const struct tr_task *t)
{
    const struct tr_rng rng = tr_rng_key(t->seed, TR_STREAM_TASK_ORDER, t->number, o->pass);

    for (int64_t i = 0; i < o->count; i++)
        o->order[i] = (uint32_t)i;
    for (int64_t i = o->count - 1; i > 0 && !t->in_order; i--) {
        const int64_t j =
            (int64_t)((uint64_t)tr_rng_u32(rng, (uint64_t)i) * (uint64_t)(i + 1) >> 32);
        const uint32_t was = o->order[i];

        o->order[i] = o->order[j];
        o->order[j] = was;
    }
}

enum tr_status tr_task_order_open(struct tr_task_order *o, const struct tr_task *t, int64_t count)
{
    *o = (struct tr_task_order){.count = count};
    if (count == 0 || count > UINT32_MAX)
        return TR_FAIL(
            TR_EDATA,
            "task %s: %s has %lld texts, and at least 1 and at most 4294967295 can be put "
            "in order",
            t->name, t->path, (long long)count);
    o->order = need(malloc((size_t)count * sizeof *o->order), t->name);
    shuffle(o, t);
    return TR_OK;
}

void tr_task_order_rewind(struct tr_task_order *o, const struct tr_task *t)
{
    o->at = o->pass = 0;
    shuffle(o, t);
}

int64_t tr_task_order_next(struct tr_task_order *o, const struct tr_task *t)
{
    if (o->at == o->count) {
        o->at = 0;
        o->pass++;
        if (!t->in_order)
            shuffle(o, t);
    }
    return o->order[o->at++];
}

void tr_task_order_release(struct tr_task_order *o)
{
    free(o->order);
    *o = (struct tr_task_order){0};
}

/* ---- JSON lines ---- */

static bool is_blank(const unsigned char *text, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    return true;
}

static enum tr_status add_lines(struct tr_task_lines *l, const struct tr_map *m)
{
    int32_t number = 0;

    for (size_t at = 0; at < m->bytes;) {
        const unsigned char *text = m->data + at, *end = memchr(text, '\n', m->bytes - at);
        const int64_t bytes = end ? end - text : (int64_t)(m->bytes - at);

        number += number < INT32_MAX;
        if (bytes > LINE_MOST)
            return TR_FAIL(TR_EDATA, "%s:%d has more than 1 GiB", m->path, number);
        at += (size_t)bytes + 1;
        if (is_blank(text, bytes))
            continue;
        l->line = tr_grow(l->line, &l->capacity, l->count + 1, sizeof *l->line);
        l->line[l->count++] = (struct tr_task_line){text, (int32_t)bytes, number};
    }
    return TR_OK;
}

static enum tr_status add_file(struct tr_task_lines *l, const char *path)
{
    l->file = need(reallocarray(l->file, (size_t)l->files + 1, sizeof *l->file), path);
    l->file[l->files] = (struct tr_map){0};
    TR_TRY(tr_map_open(path, &l->file[l->files]));
    return add_lines(l, &l->file[l->files++]);
}

static int is_jsonl(const struct dirent *e)
{
    const size_t length = strlen(e->d_name);

    return e->d_name[0] != '.' && length > 6 && strcmp(e->d_name + length - 6, ".jsonl") == 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static enum tr_status add_folder(struct tr_task_lines *l, const struct tr_task *t)
{
    struct dirent **list;
    const int count = scandir(t->path, &list, is_jsonl, by_name);
    enum tr_status s = TR_OK;

    if (count < 0)
        return TR_FAIL(TR_EIO, "task %s: cannot read the folder %s: %s", t->name, t->path,
                       strerror(errno));
    for (int i = 0; i < count; i++) {
        char *path = tr_format("%s/%s", t->path, list[i]->d_name);

        if (s == TR_OK)
            s = add_file(l, path);
        free(path);
        free(list[i]);
    }
    free(list);
    if (s == TR_OK && count == 0)
        s = TR_FAIL(TR_EIO, "task %s: the folder %s has no file whose name ends in .jsonl", t->name,
                    t->path);
    return s;
}

enum tr_status tr_task_lines_open(struct tr_task_lines *l, const struct tr_task *t)
{
    struct stat st;

    *l = (struct tr_task_lines){0};
    if (stat(t->path, &st) == 0 && S_ISDIR(st.st_mode))
        TR_TRY(add_folder(l, t));
    else
        TR_TRY(add_file(l, t->path));
    if (l->count == 0)
        return TR_FAIL(TR_EDATA, "task %s: %s has no line", t->name, t->path);
    return TR_OK;
}

void tr_task_lines_release(struct tr_task_lines *l)
{
    for (int i = 0; i < l->files; i++)
        tr_map_close(&l->file[i]);
    free(l->file);
    free(l->line);
    *l = (struct tr_task_lines){0};
}

char *tr_task_line_place(const struct tr_task_lines *l, int64_t k)
{
    const struct tr_task_line *line = &l->line[k];
    int i = 0;

    while (i < l->files - 1 &&
           (line->text < l->file[i].data || line->text >= l->file[i].data + l->file[i].bytes))
        i++;
    return tr_format("%s:%d", l->file[i].path, line->number);
}

enum tr_status tr_task_line_object(const struct tr_task_lines *l, int64_t k, json_t **out)
{
    const struct tr_task_line *line = &l->line[k];
    json_error_t error;
    char *place;

    *out = json_loadb((const char *)line->text, (size_t)line->bytes,
                      JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL, &error);
    if (json_is_object(*out))
        return TR_OK;
    place = tr_task_line_place(l, k);
    (void)TR_FAIL(TR_EDATA, "%s is no JSON object: %s; each line must be one", place,
                  *out ? "it is an array" : error.text);
    free(place);
    json_decref(*out);
    *out = NULL;
    return TR_EDATA;
}

enum tr_status tr_task_line_string(const struct tr_task_lines *l, int64_t k, const json_t *object,
                                   const char *key, const char **text, size_t *bytes)
{
    const json_t *value = json_object_get(object, key);
    char *place;

    *text = json_string_value(value);
    *bytes = json_string_length(value);
    if (*text)
        return TR_OK;
    place = tr_task_line_place(l, k);
    (void)TR_FAIL(TR_EDATA, "%s has no text under \"%s\", which this task needs", place, key);
    free(place);
    return TR_EDATA;
}
