/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/corpus.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Small enough that threads share a small file, large enough that a chunk costs nothing. */
enum { USUAL = 1 << 18, LARGEST = 1 << 30 };

struct tr_corpus {
    const struct tr_corpus_file *files;
    const struct tr_corpus_rules *rules;
    int count, at;
    int fd;              /* of files[at], or -1 */
    unsigned char *rest; /* read, but behind the cut */
    size_t rest_bytes, rest_capacity;
    int64_t offset, line; /* of the next chunk */
};

static void reserve(unsigned char **buffer, size_t *capacity, size_t bytes)
{
    if (bytes <= *capacity)
        return;
    *buffer = realloc(*buffer, bytes);
    if (!*buffer)
        tr_die(TR_ERESOURCE, "no memory left for %zu bytes of text that belong together", bytes);
    *capacity = bytes;
}

static bool is_stdin(const struct tr_corpus_file *f)
{
    return strcmp(f->path, "-") == 0;
}

static enum tr_status open_next(struct tr_corpus *c)
{
    const struct tr_corpus_file *f = &c->files[c->at];

    c->offset = 0;
    c->line = 1;
    c->rest_bytes = 0;
    c->fd = is_stdin(f) ? dup(STDIN_FILENO) : open(f->path, O_RDONLY | O_CLOEXEC);
    if (c->fd < 0)
        return TR_FAIL(TR_EIO, "cannot open %s: %s", f->path, strerror(errno));
    /* Only a hint; a pipe has no use for it. */
    (void)posix_fadvise(c->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return TR_OK;
}

/* Fill up to `bytes`; *end is set at the end of the file. */
static enum tr_status read_to(const struct tr_corpus *c, struct tr_corpus_chunk *chunk,
                              size_t bytes, bool *end)
{
    while (chunk->bytes < bytes) {
        ssize_t n = read(c->fd, chunk->text + chunk->bytes, bytes - chunk->bytes);

        if (n < 0)
            return TR_FAIL(TR_EIO, "cannot read %s: %s", c->files[c->at].path, strerror(errno));
        if (n == 0) {
            *end = true;
            break;
        }
        chunk->bytes += (size_t)n;
    }
    return TR_OK;
}

/* The length of a line without its end. */
static size_t bare_length(const unsigned char *line, size_t bytes)
{
    if (bytes > 0 && line[bytes - 1] == '\n')
        bytes--;
    if (bytes > 0 && line[bytes - 1] == '\r')
        bytes--;
    return bytes;
}

/* Whether a line separates documents, rather than being part of one. */
static bool separates(const struct tr_corpus_rules *rules, const unsigned char *line, size_t bytes)
{
    bytes = bare_length(line, bytes);
    if (rules->split == TR_CORPUS_MARKER)
        return bytes == strlen(rules->marker) && memcmp(line, rules->marker, bytes) == 0;
    for (size_t i = 0; i < bytes; i++)
        if (line[i] != ' ' && line[i] != '\t')
            return false;
    return true;
}

static bool by_line(enum tr_corpus_format format, const struct tr_corpus_rules *rules)
{
    return format == TR_CORPUS_JSONL || rules->split == TR_CORPUS_LINES;
}

/* How much of a text that goes on forms a chunk: 0 if nothing does yet. */
static size_t find_cut(const struct tr_corpus *c, const unsigned char *text, size_t bytes)
{
    const unsigned char *end = text + bytes, *start;
    enum tr_corpus_format format = c->files[c->at].format;

    if (format == TR_CORPUS_TEXT && c->rules->split == TR_CORPUS_FILE)
        return tr_tokenizer_cut(c->rules->tokenizer, text, bytes);
    end = memrchr(text, '\n', bytes);
    if (!end)
        return 0;
    for (end++; !by_line(format, c->rules) && end > text; end = start) {
        start = memrchr(text, '\n', (size_t)(end - text) - 1);
        start = start ? start + 1 : text;
        if (separates(c->rules, start, (size_t)(end - start)))
            break;
    }
    return (size_t)(end - text);
}

static int64_t count_lines(const unsigned char *text, size_t bytes)
{
    int64_t lines = 0;

    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    return lines;
}

/* Read on until a chunk is whole. */
static enum tr_status read_chunk(struct tr_corpus *c, struct tr_corpus_chunk *chunk)
{
    size_t cut = 0, target = USUAL;

    chunk->last = false;
    for (;;) {
        reserve(&chunk->text, &chunk->capacity, target);
        TR_TRY(read_to(c, chunk, target, &chunk->last));
        cut = chunk->last ? chunk->bytes : find_cut(c, chunk->text, chunk->bytes);
        if (chunk->last || cut > 0)
            break;
        if (target == LARGEST)
            return TR_FAIL(TR_EDATA,
                           "%s from byte %lld on: no document ends within 1 GiB, nor could "
                           "one be cut at a blank; see --split-documents",
                           chunk->file->path, (long long)chunk->offset);
        target *= 2;
    }
    c->rest_bytes = chunk->bytes - cut;
    reserve(&c->rest, &c->rest_capacity, c->rest_bytes);
    if (c->rest_bytes > 0)
        memcpy(c->rest, chunk->text + cut, c->rest_bytes);
    chunk->bytes = cut;
    return TR_OK;
}

struct tr_corpus *tr_corpus_open(const struct tr_corpus_file *files, int count,
                                 const struct tr_corpus_rules *rules)
{
    struct tr_corpus *c = calloc(1, sizeof *c);

    if (!c)
        tr_die(TR_ERESOURCE, "no memory left to read text");
    c->files = files;
    c->count = count;
    c->rules = rules;
    c->fd = -1;
    return c;
}

void tr_corpus_close(struct tr_corpus *c)
{
    if (!c)
        return;
    if (c->fd >= 0)
        close(c->fd);
    free(c->rest);
    free(c);
}

enum tr_status tr_corpus_bytes(const struct tr_corpus *c, int64_t *out)
{
    bool known = true;

    *out = 0;
    for (int i = 0; i < c->count; i++) {
        const struct tr_corpus_file *f = &c->files[i];
        struct stat st;
        int error = is_stdin(f) ? fstat(STDIN_FILENO, &st) : stat(f->path, &st);

        if (error == 0 && !is_stdin(f))
            error = access(f->path, R_OK);
        if (error != 0)
            return TR_FAIL(TR_EIO, "cannot read %s: %s", f->path, strerror(errno));
        if (S_ISDIR(st.st_mode))
            return TR_FAIL(TR_EIO, "%s is a folder; name the files in it: %s/*", f->path, f->path);
        known = known && S_ISREG(st.st_mode);
        *out += st.st_size;
    }
    if (!known)
        *out = -1;
    return TR_OK;
}

enum tr_status tr_corpus_next(struct tr_corpus *c, struct tr_corpus_chunk *chunk)
{
    chunk->file = NULL;
    chunk->bytes = 0;
    if (c->fd < 0 && c->at == c->count)
        return TR_OK;
    if (c->fd < 0)
        TR_TRY(open_next(c));
    chunk->file = &c->files[c->at];
    chunk->offset = c->offset;
    chunk->line = c->line;
    reserve(&chunk->text, &chunk->capacity, c->rest_bytes);
    if (c->rest_bytes > 0)
        memcpy(chunk->text, c->rest, c->rest_bytes);
    chunk->bytes = c->rest_bytes;
    TR_TRY(read_chunk(c, chunk));
    c->offset += (int64_t)chunk->bytes;
    c->line += count_lines(chunk->text, chunk->bytes);
    if (chunk->last) {
        close(c->fd);
        c->fd = -1;
        c->at++;
    }
    return TR_OK;
}

void tr_corpus_chunk_release(struct tr_corpus_chunk *chunk)
{
    free(chunk->text);
    memset(chunk, 0, sizeof *chunk);
}

/* Move *at behind the next line and return its length, its end included; 0 at the end. */
static size_t take_line(const struct tr_corpus_chunk *chunk, struct tr_corpus_span *at)
{
    const unsigned char *line = chunk->text + at->offset, *end;
    size_t left = chunk->bytes - (size_t)at->offset, bytes;

    if (left == 0)
        return 0;
    end = memchr(line, '\n', left);
    bytes = end ? (size_t)(end - line) + 1 : left;
    at->offset += (int64_t)bytes;
    at->line += end != NULL;
    return bytes;
}

/* The document that begins at `from` and has `bytes`. */
static struct tr_corpus_span span(const struct tr_corpus_chunk *chunk,
                                  const struct tr_corpus_span *from, size_t bytes)
{
    return (struct tr_corpus_span){chunk->text + from->offset, bytes, chunk->offset + from->offset,
                                   chunk->line + from->line};
}

/* Lines up to a separator. */
static bool take_lines(const struct tr_corpus_chunk *chunk, const struct tr_corpus_rules *rules,
                       struct tr_corpus_span *at, struct tr_corpus_span *out)
{
    struct tr_corpus_span from, before;
    const unsigned char *text = chunk->text;
    size_t bytes;

    /* Any number of blank lines lie between two documents; of markers each ends one. */
    do {
        from = *at;
        bytes = take_line(chunk, at);
    } while (bytes > 0 && rules->split == TR_CORPUS_BLANK_LINES &&
             separates(rules, text + from.offset, bytes));
    if (bytes == 0)
        return false;
    before = from;
    while (bytes > 0 && !separates(rules, text + before.offset, bytes)) {
        before = *at;
        bytes = take_line(chunk, at);
    }
    bytes = (size_t)(before.offset - from.offset);
    *out = span(chunk, &from, bare_length(text + from.offset, bytes));
    return true;
}

bool tr_corpus_chunk_document(const struct tr_corpus_chunk *chunk,
                              const struct tr_corpus_rules *rules, struct tr_corpus_span *at,
                              struct tr_corpus_span *out)
{
    struct tr_corpus_span from = *at;
    size_t bytes;

    if (!by_line(chunk->file->format, rules))
        return take_lines(chunk, rules, at, out);
    bytes = take_line(chunk, at);
    if (bytes == 0)
        return false;
    *out = span(chunk, &from, bare_length(chunk->text + from.offset, bytes));
    return true;
}
