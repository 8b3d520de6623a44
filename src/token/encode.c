/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/encode.h"

#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "util/file.h"

/* What the helpers pass around. */
struct job {
    const struct tr_encode_rules *rules;
    struct tr_tokenizer_thread *thread;
    const struct tr_corpus_chunk *chunk;
    struct tr_encoded *out;
};

static void *grow(void *memory, size_t count, size_t size)
{
    memory = reallocarray(memory, count, size);
    if (!memory)
        tr_die(TR_ERESOURCE, "no memory left for %zu tokens; try fewer --workers", count);
    return memory;
}

#define FAIL(job, ...)                                 \
    do {                                               \
        (job)->out->status = TR_EDATA;                 \
        (job)->out->sentence = tr_format(__VA_ARGS__); \
    } while (0)

static void note_bad_utf8(const struct job *j, const struct tr_bad_utf8 *bad,
                          const struct tr_corpus_span *at)
{
    struct tr_encoded *out = j->out;
    size_t first = (size_t)at->offset + bad->first;

    if (bad->bytes == 0)
        return;
    if (j->rules->refuse_bad_utf8) {
        int64_t line = at->line;

        for (size_t i = 0; i < bad->first; i++)
            line += at->text[i] == '\n';
        FAIL(j,
             "%s:%lld: the byte 0x%02x at offset %zu is not UTF-8; --invalid-utf8 keep would make "
             "tokens of such bytes, and `iconv -f LATIN1 -t UTF-8` may be what the file needs",
             j->chunk->file->path, (long long)line, at->text[bad->first], first);
    }
    if (out->bad.bytes == 0)
        out->bad.first = first;
    out->bad.bytes += bad->bytes;
}

static struct tr_tokens tokens_of(const struct tr_coded *c)
{
    return (struct tr_tokens){c->ids, (size_t)c->count, c->ids_capacity};
}

static void keep_tokens(struct tr_coded *c, const struct tr_tokens *t)
{
    c->ids = t->id;
    c->count = (int64_t)t->count;
    c->ids_capacity = t->capacity;
}

static void add_tokens(struct tr_coded *c, const int32_t *ids, size_t count)
{
    struct tr_tokens t = tokens_of(c);

    for (size_t i = 0; i < count; i++)
        tr_tokens_add(&t, ids[i]);
    keep_tokens(c, &t);
}

static void add_text(const struct job *j, struct tr_coded *c, const struct tr_corpus_span *text)
{
    struct tr_tokens t = tokens_of(c);
    struct tr_bad_utf8 bad;

    if (!tr_tokenizer_encode(j->rules->corpus.tokenizer, j->thread, text->text, text->bytes, &t,
                             &bad))
        FAIL(j, "%s:%lld: a regular expression of the tokenizer takes too long on this text",
             j->chunk->file->path, (long long)text->line);
    keep_tokens(c, &t);
    c->text_bytes += (int64_t)text->bytes;
    note_bad_utf8(j, &bad, text);
}

/* The special tokens before a document, or behind it. */
static void add_special(const struct job *j, struct tr_coded *c, bool behind)
{
    const struct tr_tokens *before, *after;

    if (!j->rules->add_special)
        return;
    tr_tokenizer_special(j->rules->corpus.tokenizer, &before, &after);
    add_tokens(c, behind ? after->id : before->id, behind ? after->count : before->count);
}

/* A document of a whole row. */
static void fill_row(const struct job *j, struct tr_coded *c)
{
    const int64_t end = j->rules->row + (c->documents > 0 ? c->ends[c->documents - 1] : 0);

    c->cut += c->count > end;
    while (c->count < end)
        add_tokens(c, &j->rules->row_id, 1);
    c->count = end;
}

static void end_document(const struct job *j, struct tr_coded *c)
{
    const int32_t eod = tr_tokenizer_eod(j->rules->corpus.tokenizer);

    add_special(j, c, true);
    if (j->rules->append_eod)
        add_tokens(c, &eod, 1);
    if (j->rules->row > 0)
        fill_row(j, c);
    if ((size_t)c->documents == c->ends_capacity) {
        c->ends_capacity = c->ends_capacity ? 2 * c->ends_capacity : 64;
        c->ends = grow(c->ends, c->ends_capacity, sizeof *c->ends);
    }
    c->ends[c->documents++] = c->count;
}

static void add_document(const struct job *j, struct tr_coded *c, const struct tr_corpus_span *text)
{
    if (text->bytes == 0 && j->rules->row == 0) {
        c->empty++;
        return;
    }
    add_special(j, c, false);
    if (text->bytes > 0)
        add_text(j, c, text);
    end_document(j, c);
}

static bool is_blank(const struct tr_corpus_span *line)
{
    for (size_t i = 0; i < line->bytes; i++)
        if (line->text[i] != ' ' && line->text[i] != '\t')
            return false;
    return true;
}

/* The keys of an object, for a sentence about one that is missing; owned by the caller. */
static char *list_keys(json_t *object)
{
    char *list = tr_format("%s", ""), *longer;
    const char *key;
    json_t *value;

    json_object_foreach(object, key, value)
    {
        longer = tr_format("%s%s\"%s\"", list, list[0] ? ", " : "", key);
        free(list);
        list = longer;
    }
    return list;
}

static void missing_key(const struct job *j, json_t *object, const struct tr_corpus_span *line,
                        const char *key)
{
    char *keys = list_keys(object);

    FAIL(j, "%s:%lld has no key \"%s\", only %s; choose with --json-keys", j->chunk->file->path,
         (long long)line->line, key, keys[0] ? keys : "none");
    free(keys);
}

static void add_object(const struct job *j, json_t *object, const struct tr_corpus_span *line)
{
    for (int k = 0; k < j->rules->key_count && j->out->status == TR_OK; k++) {
        const char *key = j->rules->keys[k];
        json_t *value = json_object_get(object, key);
        struct tr_corpus_span text = *line;

        if (!value) {
            missing_key(j, object, line, key);
        } else if (!json_is_string(value)) {
            FAIL(j, "%s:%lld: the value of \"%s\" is not a string, so it is no text",
                 j->chunk->file->path, (long long)line->line, key);
        } else {
            text.text = (const unsigned char *)json_string_value(value);
            text.bytes = json_string_length(value);
            add_document(j, &j->out->coded[k], &text);
        }
    }
}

static void add_line(const struct job *j, const struct tr_corpus_span *line)
{
    json_error_t error;
    json_t *object;

    if (is_blank(line))
        return;
    /* Numbers are of no interest, so one that does not fit 64 bits is no reason to stop. */
    object = json_loadb((const char *)line->text, line->bytes,
                        JSON_ALLOW_NUL | JSON_DECODE_INT_AS_REAL | JSON_DECODE_ANY, &error);
    if (!object)
        FAIL(j, "%s:%lld: column %d: %s; each line must be one JSON object", j->chunk->file->path,
             (long long)line->line, error.column, error.text);
    else if (!json_is_object(object))
        FAIL(j, "%s:%lld is not a JSON object%s", j->chunk->file->path, (long long)line->line,
             json_is_array(object) ? "; an array of them becomes lines with `jq -c '.[]'`" : "");
    else
        add_object(j, object, line);
    json_decref(object);
}

/* A piece of a file that is one document. */
static void add_piece(const struct job *j)
{
    const struct tr_corpus_chunk *chunk = j->chunk;
    struct tr_coded *c = &j->out->coded[0];
    struct tr_corpus_span text = {chunk->text, chunk->bytes, chunk->offset, chunk->line};

    if (chunk->bytes > 0 && chunk->offset == 0)
        add_special(j, c, false);
    if (chunk->bytes > 0)
        add_text(j, c, &text);
    if (chunk->last && chunk->offset + (int64_t)chunk->bytes > 0)
        end_document(j, c);
    else if (chunk->last)
        c->empty++;
}

static void reset(const struct job *j)
{
    struct tr_encoded *out = j->out;

    out->status = TR_OK;
    out->bad.bytes = 0;
    free(out->sentence);
    out->sentence = NULL;
    for (int k = 0; k < j->rules->key_count; k++) {
        struct tr_coded *c = &out->coded[k];
        /* Few texts have more tokens than bytes, ends of documents included. */
        size_t most = j->chunk->bytes + 1;

        c->count = c->documents = c->empty = c->cut = c->text_bytes = 0;
        if (most > c->ids_capacity) {
            c->ids = grow(c->ids, most, sizeof *c->ids);
            c->ids_capacity = most;
        }
    }
}

void tr_encode_chunk(const struct tr_encode_rules *rules, struct tr_tokenizer_thread *thread,
                     const struct tr_corpus_chunk *chunk, struct tr_encoded *out)
{
    struct job j = {rules, thread, chunk, out};
    bool json = chunk->file->format == TR_CORPUS_JSONL;
    struct tr_corpus_span at = {0}, document;

    reset(&j);
    if (!json && rules->corpus.split == TR_CORPUS_FILE) {
        add_piece(&j);
        return;
    }
    /* The mark of byte order that some editors put before the first line is not JSON. */
    if (json && chunk->offset == 0 && chunk->bytes >= 3 &&
        memcmp(chunk->text, "\xef\xbb\xbf", 3) == 0)
        at.offset = 3;
    while (out->status == TR_OK &&
           tr_corpus_chunk_document(chunk, &rules->corpus, &at, &document)) {
        if (json)
            add_line(&j, &document);
        else
            add_document(&j, &out->coded[0], &document);
    }
}

void tr_encoded_init(struct tr_encoded *out, int keys)
{
    memset(out, 0, sizeof *out);
    out->coded = calloc((size_t)keys, sizeof *out->coded);
    if (!out->coded)
        tr_die(TR_ERESOURCE, "no memory left for tokens");
}

void tr_encoded_release(struct tr_encoded *out, int keys)
{
    for (int k = 0; k < keys; k++) {
        free(out->coded[k].ids);
        free(out->coded[k].ends);
    }
    free(out->coded);
    free(out->sentence);
    memset(out, 0, sizeof *out);
}
