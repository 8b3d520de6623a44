/* SPDX-License-Identifier: BSD-3-Clause */
#include "data/classes.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "token/grow.h"
#include "util/file.h"

/* Bytes of a file, not terminated. */
struct text {
    const char *data;
    size_t bytes;
};

enum { FIRST, SECOND, LABEL, FIELDS, COLUMNS = 64 };

struct tr_classes {
    int64_t seq;
    struct tr_tokens token; /* of all rows */
    size_t *begin;          /* [rows + 1] in them, owned */
    size_t rows, room;
    int32_t *label; /* [rows], owned */
    size_t labels;
};

/* A file that is read. */
struct reader {
    const char *path;
    const struct tr_classes_how *how;
    struct text rest; /* what was not read yet */
    int64_t line;     /* of the row, from 1 */
    bool json;
    const char *name[FIELDS];
    int column[FIELDS]; /* of a .tsv file, or -1 */
    struct tr_tokenizer_thread *thread;
    struct tr_tokens token[2]; /* of the row */
    struct tr_classes *to;
};

static bool ends_in(const char *path, const char *suffix)
{
    const size_t length = strlen(path), tail = strlen(suffix);

    return length >= tail && strcmp(path + length - tail, suffix) == 0;
}

static bool is_blank(struct text t)
{
    for (size_t i = 0; i < t.bytes; i++)
        if (t.data[i] != ' ' && t.data[i] != '\t' && t.data[i] != '\r')
            return false;
    return true;
}

/* The next line without its end. */
static bool next_line(struct text *rest, struct text *line)
{
    const char *end = rest->bytes > 0 ? memchr(rest->data, '\n', rest->bytes) : NULL;

    if (rest->bytes == 0)
        return false;
    *line = (struct text){rest->data, end ? (size_t)(end - rest->data) : rest->bytes};
    rest->data += line->bytes + (end ? 1 : 0);
    rest->bytes -= line->bytes + (end ? 1 : 0);
    if (line->bytes > 0 && line->data[line->bytes - 1] == '\r')
        line->bytes--;
    return true;
}

/* The next one that is not blank. */
static bool next_row(struct reader *r, struct text *line)
{
    while (next_line(&r->rest, line)) {
        r->line++;
        if (!is_blank(*line))
            return true;
    }
    return false;
}

/* ---- which file ---- */

static char *first_there(const char *folder, const char *between, const char *const *names)
{
    static const char *const endings[] = {"tsv", "jsonl", "json"};
    char *path;

    for (; *names; names++)
        for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
            path = tr_format("%s/%s/%s.%s", folder, between, *names, endings[i]);
            if (access(path, F_OK) == 0)
                return path;
            free(path);
        }
    return NULL;
}

char *tr_classes_find(const struct tr_classify *task, const char *folder, int split)
{
    static const char *const training[] = {"train", NULL};
    static const char *const validation[] = {"dev", "validation", "valid", NULL};
    const char *const *names = split == 0 ? training : validation;
    char *glue = tr_format("glue_%s", task->name);
    char *path = split > 1 ? NULL : first_there(folder, task->folder, names);

    if (!path && split <= 1)
        path = first_there(folder, glue, names);
    if (!path && split <= 1)
        path = first_there(folder, ".", names);
    free(glue);
    return path;
}

enum tr_status tr_classes_count(const char *path, const struct tr_classify *task, int64_t *rows)
{
    struct reader r = {.path = path};
    struct tr_map file;
    struct text line;

    *rows = ends_in(path, ".tsv") && !task->columns ? -1 : 0;
    TR_TRY(tr_map_open(path, &file));
    r.rest = (struct text){(const char *)file.data, file.bytes};
    while (next_row(&r, &line))
        ++*rows;
    tr_map_close(&file);
    *rows = *rows < 0 ? 0 : *rows;
    return TR_OK;
}

/* ---- columns ---- */

static int split(struct text line, char by, struct text *out)
{
    const char *at = line.data, *end = line.data + line.bytes, *next;
    int n = 0;

    for (; n < COLUMNS; at = next + 1) {
        next = memchr(at, by, (size_t)(end - at));
        out[n++] = (struct text){at, (size_t)((next ? next : end) - at)};
        if (!next)
            break;
    }
    return n;
}

static bool is(struct text t, const char *name)
{
    return t.bytes == strlen(name) && memcmp(t.data, name, t.bytes) == 0;
}

static enum tr_status name_columns(struct reader *r)
{
    const char *known = r->how->task->columns;
    struct text column[COLUMNS], head = {known, known ? strlen(known) : 0};
    int n;

    if (!known && !next_row(r, &head))
        return TR_FAIL(TR_EDATA, "%s is empty: its first line should name the columns", r->path);
    n = split(head, known ? ',' : '\t', column);
    for (int i = 0; i < FIELDS; i++) {
        r->column[i] = -1;
        for (int k = 0; k < n && r->name[i]; k++)
            if (is(column[k], r->name[i]))
                r->column[i] = k;
        if (r->name[i] && r->column[i] < 0)
            return TR_FAIL(TR_EDATA, "%s has no column \"%s\"%s: name the one that it has with %s",
                           r->path, r->name[i], known ? "" : " in its first line", r->how->options);
    }
    return TR_OK;
}

/* ---- a row ---- */

static enum tr_status no_class(const struct reader *r, struct text t)
{
    const char *names = r->how->task->labels;

    return TR_FAIL(TR_EDATA,
                   "%s:%lld: \"%.*s\" is no class: there are 0 to %lld%s%s; more are given by "
                   "--num-labels",
                   r->path, (long long)r->line, t.bytes > 40 ? 40 : (int)t.bytes, t.data,
                   (long long)r->how->classes - 1, names ? ", or " : "", names ? names : "");
}

static enum tr_status read_class(const struct reader *r, struct text t, int32_t *out)
{
    const char *names = r->how->task->labels;
    struct text name[COLUMNS];
    int64_t number = 0;
    size_t digits = 0;
    int n = names ? split((struct text){names, strlen(names)}, ',', name) : 0;

    for (int i = 0; i < n && i < r->how->classes; i++)
        if (name[i].bytes == t.bytes && memcmp(name[i].data, t.data, t.bytes) == 0) {
            *out = i;
            return TR_OK;
        }
    while (digits < t.bytes && digits < 9 && t.data[digits] >= '0' && t.data[digits] <= '9')
        number = number * 10 + (t.data[digits++] - '0');
    if (digits == 0 || digits < t.bytes || number >= r->how->classes)
        return no_class(r, t);
    *out = (int32_t)number;
    return TR_OK;
}

static enum tr_status encode(struct reader *r, int i, struct text t)
{
    struct tr_bad_utf8 bad;

    r->token[i].count = 0;
    if (tr_tokenizer_encode(r->how->tokenizer, r->thread, (const unsigned char *)t.data, t.bytes,
                            &r->token[i], &bad))
        return TR_OK;
    return TR_FAIL(TR_EDATA,
                   "%s:%lld: a regular expression of the tokenizer takes too long on this text",
                   r->path, (long long)r->line);
}

static void append(struct tr_tokens *to, const struct tr_tokens *from, size_t count)
{
    if (count > 0)
        memcpy(tr_tokens_room(to, count), from->id, count * sizeof *from->id);
    to->count += count;
}

/* Both texts, as far as there is room, and what stands around them. */
static enum tr_status join(struct reader *r)
{
    const struct tr_tokens *before, *after;
    struct tr_tokens *to = &r->to->token;
    size_t n[2] = {r->token[0].count, r->name[SECOND] ? r->token[1].count : 0}, around;

    tr_tokenizer_special(r->how->tokenizer, &before, &after);
    around = before->count + after->count * (r->name[SECOND] ? 2 : 1);
    if (around >= (size_t)r->how->seq)
        return TR_FAIL(TR_ECONFIG,
                       "--seq-length %lld leaves no room for a text between the %zu tokens that "
                       "the tokenizer puts around it: give more",
                       (long long)r->how->seq, around);
    while (n[0] + n[1] + around > (size_t)r->how->seq)
        n[n[0] > n[1] ? 0 : 1]--;
    append(to, before, before->count);
    append(to, &r->token[0], n[0]);
    append(to, after, after->count);
    if (r->name[SECOND]) {
        append(to, &r->token[1], n[1]);
        append(to, after, after->count);
    }
    if (n[0] + n[1] + around == 0)
        return TR_FAIL(TR_EDATA, "%s:%lld: the text has no token, so there is nothing to classify",
                       r->path, (long long)r->line);
    return TR_OK;
}

static enum tr_status add_row(struct reader *r, const struct text field[FIELDS])
{
    struct tr_classes *x = r->to;
    int32_t label = 0;

    TR_TRY(read_class(r, field[LABEL], &label));
    for (int i = FIRST; i <= SECOND; i++)
        if (r->name[i])
            TR_TRY(encode(r, i, field[i]));
    TR_TRY(join(r));
    x->label = tr_grow(x->label, &x->labels, x->rows + 1, sizeof *x->label);
    x->label[x->rows++] = label;
    x->begin = tr_grow(x->begin, &x->room, x->rows + 1, sizeof *x->begin);
    x->begin[x->rows] = x->token.count;
    return TR_OK;
}

static enum tr_status read_columns(struct reader *r, struct text line)
{
    struct text column[COLUMNS], field[FIELDS] = {{0}};
    const int n = split(line, '\t', column);

    for (int i = 0; i < FIELDS; i++) {
        if (r->column[i] >= n)
            return TR_FAIL(TR_EDATA, "%s:%lld has %d columns, and \"%s\" is column %d", r->path,
                           (long long)r->line, n, r->name[i], r->column[i] + 1);
        if (r->column[i] >= 0)
            field[i] = column[r->column[i]];
    }
    return add_row(r, field);
}

static enum tr_status read_object(struct reader *r, struct text line)
{
    struct text field[FIELDS] = {{0}};
    enum tr_status s = TR_OK;
    json_error_t error;
    char number[24];
    json_t *object = json_loadb(line.data, line.bytes, JSON_ALLOW_NUL, &error);

    if (!json_is_object(object))
        s = TR_FAIL(TR_EDATA, "%s:%lld is no JSON object: %s", r->path, (long long)r->line,
                    object ? "it is another value" : error.text);
    for (int i = 0; i < FIELDS && s == TR_OK; i++) {
        const json_t *value = r->name[i] ? json_object_get(object, r->name[i]) : NULL;

        if (json_is_string(value)) {
            field[i] = (struct text){json_string_value(value), json_string_length(value)};
        } else if (i == LABEL && json_is_integer(value)) {
            snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
            field[i] = (struct text){number, strlen(number)};
        } else if (r->name[i]) {
            s = TR_FAIL(TR_EDATA, "%s:%lld has no %s \"%s\": name the field that it has with %s",
                        r->path, (long long)r->line, i == LABEL ? "class" : "text", r->name[i],
                        r->how->options);
        }
    }
    if (s == TR_OK)
        s = add_row(r, field);
    json_decref(object);
    return s;
}

static enum tr_status read_all(struct reader *r)
{
    enum tr_status s = r->json ? TR_OK : name_columns(r);
    struct text line;

    while (s == TR_OK && next_row(r, &line))
        s = r->json ? read_object(r, line) : read_columns(r, line);
    return s;
}

enum tr_status tr_classes_open(const char *path, const struct tr_classes_how *how,
                               struct tr_classes **out)
{
    const struct tr_classify *t = how->task;
    struct reader r = {.path = path, .how = how, .json = !ends_in(path, ".tsv")};
    struct tr_map file;
    enum tr_status s;

    *out = NULL;
    r.name[FIRST] = how->first ? how->first : t->first;
    r.name[SECOND] = how->second ? how->second : t->second;
    r.name[LABEL] = how->label ? how->label : t->label;
    TR_TRY(tr_map_open(path, &file));
    r.rest = (struct text){(const char *)file.data, file.bytes};
    r.to = calloc(1, sizeof *r.to);
    if (!r.to)
        tr_die(TR_ERESOURCE, "no memory left for the rows of %s", path);
    r.to->seq = how->seq;
    r.to->begin = tr_grow(NULL, &r.to->room, 1, sizeof *r.to->begin);
    r.to->begin[0] = 0;
    r.thread = tr_tokenizer_thread_open(how->tokenizer);
    s = read_all(&r);
    tr_tokenizer_thread_close(r.thread);
    free(r.token[0].id);
    free(r.token[1].id);
    tr_map_close(&file);
    if (s == TR_OK)
        *out = r.to;
    else
        tr_classes_close(r.to);
    return s;
}

void tr_classes_close(struct tr_classes *x)
{
    if (!x)
        return;
    free(x->token.id);
    free(x->begin);
    free(x->label);
    free(x);
}

int64_t tr_classes_rows(const struct tr_classes *x)
{
    return (int64_t)x->rows;
}

void tr_classes_get(const struct tr_classes *x, int64_t k, int32_t *text)
{
    const size_t first = x->begin[k], n = x->begin[k + 1] - first;

    memcpy(text, x->token.id + first, n * sizeof *text);
    for (int64_t t = (int64_t)n; t < x->seq; t++)
        text[t] = -1;
    text[x->seq] = x->label[k];
}
