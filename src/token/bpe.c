/* SPDX-License-Identifier: BSD-3-Clause */
#define XXH_INLINE_ALL
#include "token/bpe.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <xxhash.h>

#define HASH_FUNCTION(key, bytes, value) ((value) = (unsigned)XXH3_64bits((key), (bytes)))
#define uthash_fatal(text) tr_die(TR_ERESOURCE, "no memory left for the merges: %s", (text))
#include <uthash.h>

#include "token/pieces.h"
#include "token/utf8.h"

/* One line of the merge file: these two symbols become `id`. */
struct merge {
    struct {
        int32_t left, right;
    } pair;
    int32_t rank, id;
    UT_hash_handle hh;
};

struct token {
    char *data; /* NULL: no such id */
    size_t bytes;
};

struct tr_bpe {
    struct merge *merges; /* by line; also the storage of the table */
    struct merge *table;  /* by pair */
    struct token *tokens;
    int32_t vocab_size, eod;
    int32_t byte_ids[256];
    struct tr_char_classes classes;
};

/* A symbol of the piece at work; neighbours are indices, -1 at the ends.  id is -1 once it has been
   joined to its left neighbour. */
struct symbol {
    int32_t id, previous, next;
};

/* A merge that applied when it was found; the heap orders by rank, then position. */
struct candidate {
    int32_t rank, position, left, right, id;
};

/* One line of the direct-mapped cache: a later piece with the same hash replaces an earlier one, so
   its size is fixed and frequent words stay.  64 bytes, as a cache line of the processor. */
enum { CACHE_LINES = 1 << 16, CACHE_BYTES = 26, CACHE_IDS = 9 };
struct line {
    int32_t ids[CACHE_IDS];
    uint8_t bytes, count; /* bytes is 0 in an empty line */
    unsigned char text[CACHE_BYTES];
};

struct tr_bpe_thread {
    struct line *cache;
    struct symbol *symbols;
    struct candidate *heap;
    size_t capacity, waiting; /* symbols that fit; candidates in the heap */
};

static void *need(void *memory)
{
    if (!memory)
        tr_die(TR_ERESOURCE, "no memory left for the tokenizer");
    return memory;
}

/*
 * GPT-2 spells bytes as printable characters: those of Latin-1 that print stand for themselves, the
 * other 68 follow in order from U+0100.
 */
static void byte_alphabet(uint32_t spelling[256])
{
    uint32_t next = 256;

    for (uint32_t b = 0; b < 256; b++) {
        bool prints = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;

        spelling[b] = prints ? b : next++;
    }
}

/* The byte that each character of the alphabet stands for, or -1. */
static void byte_of_spelling(int16_t byte_of[512])
{
    uint32_t spelling[256];

    byte_alphabet(spelling);
    for (int i = 0; i < 512; i++)
        byte_of[i] = -1;
    for (int b = 0; b < 256; b++)
        byte_of[spelling[b]] = (int16_t)b;
}

/* The bytes that a spelling of the vocabulary stands for.  One with a character outside the alphabet
   (an added token with a blank, say) stands for itself. */
static struct token spelled(const char *spelling, const int16_t byte_of[512])
{
    size_t bytes = strlen(spelling), n = 0;
    const unsigned char *at = (const unsigned char *)spelling, *end = at + bytes;
    char *data = need(malloc(bytes + 1));

    while (at < end) {
        uint32_t c;
        size_t used = tr_utf8_decode(at, (size_t)(end - at), &c);

        if (used == 0 || c >= 512 || byte_of[c] < 0) {
            memcpy(data, spelling, bytes);
            n = bytes;
            break;
        }
        data[n++] = (char)byte_of[c];
        at += used;
    }
    return (struct token){data, n};
}

static enum tr_status take_vocab(struct tr_bpe *b, json_t *vocab, const char *path)
{
    int16_t byte_of[512];
    const char *spelling;
    json_t *value;

    b->vocab_size = (int32_t)json_object_size(vocab);
    b->tokens = need(calloc((size_t)b->vocab_size + 1, sizeof *b->tokens));
    byte_of_spelling(byte_of);
    json_object_foreach(vocab, spelling, value)
    {
        json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;

        if (id < 0 || id >= b->vocab_size || b->tokens[id].data)
            return TR_FAIL(TR_EDATA,
                           "%s: the id of \"%s\" is not one of the numbers 0 to %d, each for "
                           "one entry, so this is no GPT-2 vocabulary",
                           path, spelling, b->vocab_size - 1);
        b->tokens[id] = spelled(spelling, byte_of);
    }
    value = json_object_get(vocab, "<|endoftext|>");
    b->eod = value ? (int32_t)json_integer_value(value) : -1;
    return TR_OK;
}

static enum tr_status take_bytes(struct tr_bpe *b, json_t *vocab, const char *path)
{
    uint32_t spelling[256];

    byte_alphabet(spelling);
    for (int i = 0; i < 256; i++) {
        char text[5] = "";
        json_t *value;

        (void)tr_utf8_encode(spelling[i], text);
        value = json_object_get(vocab, text);
        if (!value)
            return TR_FAIL(TR_EDATA,
                           "%s has no entry \"%s\" for the byte %d, so this is no "
                           "byte-level vocabulary",
                           path, text, i);
        b->byte_ids[i] = (int32_t)json_integer_value(value);
    }
    return TR_OK;
}

static enum tr_status read_vocab(struct tr_bpe *b, const char *path, json_t **out)
{
    FILE *f = fopen(path, "re");
    json_error_t error;

    *out = NULL;
    if (!f)
        return TR_FAIL(TR_EIO, "cannot open the vocabulary %s: %s", path, strerror(errno));
    *out = json_loadf(f, 0, &error);
    fclose(f);
    if (!json_is_object(*out))
        return TR_FAIL(TR_EDATA, "%s:%d is not a JSON object from token to id: %s", path,
                       *out ? 1 : error.line, *out ? "it is something else" : error.text);
    TR_TRY(take_vocab(b, *out, path));
    return take_bytes(b, *out, path);
}

/* The entry of the vocabulary for `spelling`, or -1. */
static int32_t id_of(json_t *vocab, const char *spelling)
{
    json_t *value = json_object_get(vocab, spelling);

    return value ? (int32_t)json_integer_value(value) : -1;
}

/* `line` is "left right", and is changed. */
static enum tr_status take_merge(struct merge *m, json_t *vocab, char *line, const char *path,
                                 int64_t number)
{
    char *space = strchr(line, ' ');
    size_t rest;

    if (!space || space == line || space[1] == '\0' || strchr(space + 1, ' '))
        return TR_FAIL(TR_EDATA,
                       "%s:%lld: \"%s\" is not two symbols with a blank between them, so "
                       "this is no merge file",
                       path, (long long)number, line);
    *space = '\0';
    m->pair.left = id_of(vocab, line);
    m->pair.right = id_of(vocab, space + 1);
    rest = strlen(space + 1) + 1;
    memmove(space, space + 1, rest);
    m->id = id_of(vocab, line);
    if (m->pair.left < 0 || m->pair.right < 0 || m->id < 0)
        return TR_FAIL(TR_EDATA,
                       "%s:%lld makes \"%s\", but the vocabulary lacks it or one of its "
                       "halves: the two files do not belong together",
                       path, (long long)number, line);
    return TR_OK;
}

static void add_merge(struct tr_bpe *b, struct merge *m)
{
    struct merge *old;

    /* Of a pair that is listed twice the later line counts, as in GPT-2's own reader. */
    HASH_REPLACE(hh, b->table, pair, sizeof m->pair, m, old);
}

static enum tr_status take_merges(struct tr_bpe *b, json_t *vocab, FILE *f, const char *path)
{
    size_t capacity = 0, room = 0;
    int64_t number = 0;
    int32_t count = 0;
    char *line = NULL;
    enum tr_status s = TR_OK;
    ssize_t n;

    while (s == TR_OK && (n = getline(&line, &room, f)) >= 0) {
        while (n > 0 && (line[n - 1] == '\n' || line[n - 1] == '\r'))
            line[--n] = '\0';
        if (++number, n == 0 || strncmp(line, "#version", 8) == 0)
            continue;
        if ((size_t)count == capacity) {
            capacity = capacity ? 2 * capacity : 1 << 12;
            b->merges = need(reallocarray(b->merges, capacity, sizeof *b->merges));
        }
        memset(&b->merges[count], 0, sizeof b->merges[count]);
        b->merges[count].rank = count;
        s = take_merge(&b->merges[count], vocab, line, path, number);
        count++;
    }
    if (s == TR_OK && ferror(f))
        s = TR_FAIL(TR_EIO, "cannot read the merges %s: %s", path, strerror(errno));
    free(line);
    if (s != TR_OK)
        return s;
    /* Only now, because the array moved while it grew. */
    for (int32_t i = 0; i < count; i++)
        add_merge(b, &b->merges[i]);
    return TR_OK;
}

static enum tr_status read_merges(struct tr_bpe *b, json_t *vocab, const char *path)
{
    FILE *f = fopen(path, "re");
    enum tr_status s;

    if (!f)
        return TR_FAIL(TR_EIO, "cannot open the merges %s: %s", path, strerror(errno));
    s = take_merges(b, vocab, f, path);
    fclose(f);
    return s;
}

static int candidate_before(const struct candidate *a, const struct candidate *b)
{
    return a->rank != b->rank ? a->rank < b->rank : a->position < b->position;
}

static void heap_push(struct tr_bpe_thread *t, struct candidate c)
{
    struct candidate *h = t->heap;
    size_t i = t->waiting++;

    while (i > 0 && candidate_before(&c, &h[(i - 1) / 2])) {
        h[i] = h[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h[i] = c;
}

static struct candidate heap_pop(struct tr_bpe_thread *t)
{
    struct candidate *h = t->heap, top = h[0], last = h[--t->waiting];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < t->waiting) {
        if (child + 1 < t->waiting && candidate_before(&h[child + 1], &h[child]))
            child++;
        if (!candidate_before(&h[child], &last))
            break;
        h[i] = h[child];
        i = child;
    }
    h[i] = last;
    return top;
}

/* Push the merge of the symbols at `position` and after it, if the file has one. */
static void consider(const struct tr_bpe *b, struct tr_bpe_thread *t, int32_t position)
{
    const struct symbol *left = &t->symbols[position], *right;
    struct {
        int32_t left, right;
    } pair;
    struct merge *m;

    if (left->next < 0)
        return;
    right = &t->symbols[left->next];
    pair.left = left->id;
    pair.right = right->id;
    HASH_FIND(hh, b->table, &pair, sizeof pair, m);
    if (m)
        heap_push(t, (struct candidate){m->rank, position, pair.left, pair.right, m->id});
}

static void make_room(struct tr_bpe_thread *t, size_t symbols)
{
    if (symbols <= t->capacity)
        return;
    t->capacity = symbols < 2 * t->capacity ? 2 * t->capacity : symbols;
    t->symbols = need(reallocarray(t->symbols, t->capacity, sizeof *t->symbols));
    /* At most one candidate per neighbourhood, and two more for each of at most n - 1 merges. */
    t->heap = need(reallocarray(t->heap, 3 * t->capacity, sizeof *t->heap));
}

/* Join the symbols of one piece; returns how many tokens it has. */
static size_t merge_piece(const struct tr_bpe *b, struct tr_bpe_thread *t,
                          const unsigned char *text, size_t bytes, int32_t *ids)
{
    int32_t last = (int32_t)bytes - 1;
    struct symbol *s;
    size_t count = 0;

    make_room(t, bytes);
    s = t->symbols;
    t->waiting = 0;
    for (int32_t i = 0; i <= last; i++)
        s[i] = (struct symbol){b->byte_ids[text[i]], i - 1, i < last ? i + 1 : -1};
    for (int32_t i = 0; i < last; i++)
        consider(b, t, i);
    while (t->waiting > 0) {
        struct candidate c = heap_pop(t);
        int32_t next = s[c.position].next;

        /* An earlier merge may have taken either half. */
        if (s[c.position].id != c.left || next < 0 || s[next].id != c.right)
            continue;
        s[c.position].id = c.id;
        s[c.position].next = s[next].next;
        s[next].id = -1;
        if (s[next].next >= 0)
            s[s[next].next].previous = c.position;
        if (s[c.position].previous >= 0)
            consider(b, t, s[c.position].previous);
        consider(b, t, c.position);
    }
    for (int32_t i = 0; i >= 0; i = s[i].next)
        ids[count++] = s[i].id;
    return count;
}

static size_t encode_piece(const struct tr_bpe *b, struct tr_bpe_thread *t,
                           const unsigned char *text, size_t bytes, int32_t *ids)
{
    struct line *l;
    size_t count;

    if (bytes > CACHE_BYTES)
        return merge_piece(b, t, text, bytes, ids);
    l = &t->cache[XXH3_64bits(text, bytes) % CACHE_LINES];
    if (l->bytes == bytes && memcmp(l->text, text, bytes) == 0) {
        memcpy(ids, l->ids, l->count * sizeof *ids);
        return l->count;
    }
    count = merge_piece(b, t, text, bytes, ids);
    if (count <= CACHE_IDS) {
        memcpy(l->text, text, bytes);
        memcpy(l->ids, ids, count * sizeof *ids);
        l->bytes = (uint8_t)bytes;
        l->count = (uint8_t)count;
    }
    return count;
}

/* The tokens of a text that is UTF-8. */
static size_t encode_valid(const struct tr_bpe *b, struct tr_bpe_thread *t,
                           const unsigned char *text, size_t bytes, int32_t *ids)
{
    size_t at = 0, count = 0;

    while (at < bytes) {
        size_t piece = tr_piece(&b->classes, text + at, bytes - at);

        count += encode_piece(b, t, text + at, piece, ids + count);
        at += piece;
    }
    return count;
}

size_t tr_bpe_encode(const struct tr_bpe *b, struct tr_bpe_thread *t, const unsigned char *text,
                     size_t bytes, int32_t *ids, struct tr_bad_utf8 *bad)
{
    size_t at = 0, count = 0;

    bad->bytes = 0;
    while (at < bytes) {
        size_t good = tr_utf8_valid(text + at, bytes - at), wrong;

        count += encode_valid(b, t, text + at, good, ids + count);
        at += good;
        wrong = tr_utf8_invalid(text + at, bytes - at);
        if (wrong == 0)
            continue;
        if (bad->bytes == 0)
            bad->first = at;
        bad->bytes += (int64_t)wrong;
        count += encode_piece(b, t, text + at, wrong, ids + count);
        at += wrong;
    }
    return count;
}

const char *tr_bpe_token(const struct tr_bpe *b, int32_t id, size_t *bytes)
{
    *bytes = 0;
    if (id < 0 || id >= b->vocab_size)
        return NULL;
    *bytes = b->tokens[id].bytes;
    return b->tokens[id].data;
}

size_t tr_bpe_cut(const unsigned char *text, size_t bytes)
{
    for (size_t i = bytes - 1; bytes > 0 && i > 0; i--)
        if (tr_utf8_space_at(text + i, bytes - i) && !tr_utf8_space_before(text, i))
            return i;
    return 0;
}

int32_t tr_bpe_vocab_size(const struct tr_bpe *b)
{
    return b->vocab_size;
}

int32_t tr_bpe_eod(const struct tr_bpe *b)
{
    return b->eod;
}

struct tr_bpe_thread *tr_bpe_thread_open(void)
{
    struct tr_bpe_thread *t = need(calloc(1, sizeof *t));

    t->cache = need(calloc(CACHE_LINES, sizeof *t->cache));
    return t;
}

void tr_bpe_thread_close(struct tr_bpe_thread *t)
{
    if (!t)
        return;
    free(t->cache);
    free(t->symbols);
    free(t->heap);
    free(t);
}

enum tr_status tr_bpe_open(const char *vocab_file, const char *merge_file, struct tr_bpe **out)
{
    struct tr_bpe *b = need(calloc(1, sizeof *b));
    json_t *vocab = NULL;
    enum tr_status s;

    *out = NULL;
    s = read_vocab(b, vocab_file, &vocab);
    if (s == TR_OK)
        s = read_merges(b, vocab, merge_file);
    json_decref(vocab);
    if (s != TR_OK) {
        tr_bpe_close(b);
        return s;
    }
    tr_char_classes_fill(&b->classes);
    *out = b;
    return TR_OK;
}

void tr_bpe_close(struct tr_bpe *b)
{
    if (!b)
        return;
    HASH_CLEAR(hh, b->table);
    for (int32_t i = 0; b->tokens && i < b->vocab_size; i++)
        free(b->tokens[i].data);
    free(b->tokens);
    free(b->merges);
    free(b);
}
