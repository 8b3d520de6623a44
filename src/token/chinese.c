/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/chinese.h"

#include <stdbool.h>

#include "token/utf8.h"
#include "util/file.h"

enum { LONGEST_WORD = 100, FILE_LIMIT = 64 << 20 };
static const char prefix[] = "##";
enum { PREFIX = sizeof prefix - 1 };

static void *need(void *memory)
{
    if (!memory)
        tr_die(TR_ERESOURCE, "no memory left for the tokenizer");
    return memory;
}

/* A character that every valid text has there. */
static size_t character(const unsigned char *text, size_t bytes, uint32_t *c)
{
    const size_t used = tr_utf8_decode(text, bytes, c);

    if (used == 0)
        *c = 0xfffd;
    return used > 0 ? used : 1;
}

static bool has_chinese(const unsigned char *text, size_t bytes)
{
    uint32_t c;

    for (size_t at = 0; at < bytes;) {
        at += character(text + at, bytes - at, &c);
        if (c >= 0x4e00 && c <= 0x9fff)
            return true;
    }
    return false;
}

/* What an entry is in the middle of a word; empty if it stands at the beginning only. */
static struct tr_trie_key inner_key(const struct tr_entry *e, int32_t id)
{
    const unsigned char *text = (const unsigned char *)e->text;

    if (has_chinese(text, e->bytes)) /* "##" and a Chinese character is asked for nowhere */
        return (struct tr_trie_key){text, e->bytes, id};
    if (e->bytes > PREFIX && memcmp(text, prefix, PREFIX) == 0)
        return (struct tr_trie_key){text + PREFIX, e->bytes - PREFIX, id};
    return (struct tr_trie_key){text, 0, id};
}

void tr_chinese_prepare(struct tr_subword *m)
{
    struct tr_trie_key *first = need(calloc(m->count + 1, sizeof *first));
    struct tr_trie_key *inner = need(calloc(m->count + 1, sizeof *inner));
    size_t firsts = 0, inners = 0;

    for (size_t i = 0; i < m->count; i++) {
        const struct tr_entry *e = &m->entries[i];

        if (!e->text || e->bytes == 0)
            continue;
        first[firsts++] =
            (struct tr_trie_key){(const unsigned char *)e->text, e->bytes, (int32_t)i};
        inner[inners] = inner_key(e, (int32_t)i);
        inners += inner[inners].bytes > 0;
    }
    m->trie = tr_trie_build(first, firsts);
    m->continued = tr_trie_build(inner, inners);
    free(first);
    free(inner);
}

void tr_chinese_encode(const struct tr_subword *m, const unsigned char *word, size_t bytes,
                       struct tr_tokens *out)
{
    size_t characters = 0, used;
    uint32_t c;

    for (size_t i = 0; i < bytes; i++)
        characters += (word[i] & 0xc0) != 0x80;
    if (characters > LONGEST_WORD) {
        tr_tokens_add(out, m->unknown);
        return;
    }
    for (size_t at = 0; at < bytes; at += used) {
        int32_t id = m->unknown;

        used = tr_trie_longest(at == 0 ? m->trie : m->continued, word + at, bytes - at, &id);
        if (used == 0) {
            id = m->unknown;
            used = character(word + at, bytes - at, &c);
        }
        tr_tokens_add(out, id);
    }
}

/* ---- vocab.txt ---- */

static enum tr_status check_text(const char *path, const unsigned char *text, size_t bytes)
{
    const size_t valid = tr_utf8_valid(text, bytes);
    const unsigned char *zero = bytes > 0 ? memchr(text, 0, bytes) : NULL;
    const size_t bad = zero && (size_t)(zero - text) < valid ? (size_t)(zero - text) : valid;
    size_t line = 1;

    if (bytes > FILE_LIMIT)
        return TR_FAIL(TR_EDATA,
                       "%s has more than 64 MiB, so it is no vocabulary of ChineseWordPiece", path);
    if (bad == bytes)
        return TR_OK;
    for (size_t i = 0; i < bad; i++)
        line += text[i] == '\n';
    return TR_FAIL(
        TR_EDATA,
        "%s:%zu: byte 0x%02x is not text in UTF-8; a vocabulary of ChineseWordPiece has one "
        "token on each line",
        path, line, text[bad]);
}

static void add_entry(struct tr_subword *m, size_t *capacity, const unsigned char *line,
                      size_t bytes)
{
    struct tr_entry *e;

    while (bytes > 0) {
        size_t last = bytes - 1;
        uint32_t c;

        while (last > 0 && (line[last] & 0xc0) == 0x80)
            last--;
        if (character(line + last, bytes - last, &c) == 0 || !tr_utf8_is_space(c))
            break;
        bytes = last;
    }
    m->entries = tr_grow(m->entries, capacity, m->count + 1, sizeof *m->entries);
    e = &m->entries[m->count++];
    *e =
        (struct tr_entry){.text = need(malloc(bytes + 1)), .bytes = bytes, .type = TR_ENTRY_NORMAL};
    memcpy(e->text, line, bytes);
    e->text[bytes] = '\0';
}

static void take_lines(struct tr_subword *m, const unsigned char *text, size_t bytes)
{
    size_t capacity = 0;

    for (size_t at = 0; at < bytes;) {
        const unsigned char *end = memchr(text + at, '\n', bytes - at);
        const size_t length = end ? (size_t)(end - text) - at : bytes - at;

        add_entry(m, &capacity, text + at, length);
        at += length + 1;
    }
}

/* The last line of that text, or -1. */
static int32_t find(const struct tr_subword *m, const char *text)
{
    for (size_t i = m->count; i > 0; i--)
        if (strcmp(m->entries[i - 1].text, text) == 0)
            return (int32_t)i - 1;
    return -1;
}

static int32_t find_either(const struct tr_subword *m, const char *text, const char *other)
{
    const int32_t id = find(m, text);

    return id >= 0 ? id : find(m, other);
}

/* White space goes, punctuation stands alone; a token with the prefix goes on with the one before it. */
static void set_steps(struct tr_pipeline *p)
{
    p->split = need(calloc(2, sizeof *p->split));
    p->split_count = 2;
    p->split[0] = (struct tr_split_step){.kind = TR_SPLIT_SPACES, .behaviour = TR_SPLIT_REMOVED};
    p->split[1] =
        (struct tr_split_step){.kind = TR_SPLIT_PUNCTUATION, .behaviour = TR_SPLIT_ISOLATED};
    p->decode = need(calloc(1, sizeof *p->decode));
    p->decode_count = 1;
    p->decode[0].kind = TR_DECODE_WORDPIECE;
    tr_bytes_set(&p->decode[0].text, prefix, PREFIX);
}

enum tr_status tr_chinese_open(const char *path, struct tr_pipeline **out)
{
    struct tr_pipeline *p;
    struct tr_map file;
    enum tr_status s;

    *out = NULL;
    TR_TRY(tr_map_open(path, &file));
    p = tr_pipeline_new("vocab.txt");
    s = check_text(path, file.data, file.bytes);
    if (s == TR_OK)
        take_lines(&p->model, file.data, file.bytes);
    tr_map_close(&file);
    p->model.kind = TR_SUBWORD_CHINESE;
    p->model.unknown = find_either(&p->model, "<unk>", "[UNK]");
    p->eos = find_either(&p->model, "<eod>", "[EOD]");
    p->bos = find_either(&p->model, "<s>", "[BOS]");
    set_steps(p);
    p->cuts = true; /* words end at a blank */
    if (s == TR_OK && p->model.unknown < 0)
        s = TR_FAIL(TR_EDATA, "%s has no token <unk> or [UNK], one of which ChineseWordPiece needs",
                    path);
    if (s == TR_OK)
        s = tr_pipeline_finish(p, path);
    if (s == TR_OK)
        *out = p;
    else
        tr_pipeline_close(p);
    return s;
}
