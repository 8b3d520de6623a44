/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/sentencepiece.h"

#include <limits.h>
#include <stdio.h>

#include "token/utf8.h"
#include "util/file.h"

enum { PIECE_LIMIT = 1 << 24, LONGEST_PIECE = 1 << 13 };
static const size_t file_limit = (size_t)256 << 20;

/* Part of a protocol buffer. */
struct part {
    const unsigned char *data;
    size_t bytes, at;
};

/* One field of it: a number, or bytes. */
struct field {
    uint32_t number;
    uint64_t value;
    struct part inside;
};

struct reader {
    const char *path;
    const unsigned char *begin;
    struct tr_pipeline *p;
    struct tr_normal_step *normal;
    size_t capacity;
    bool suffix;
    char *bos, *eos;
    int model;
};

static enum tr_status broken(const struct reader *r, const struct part *m)
{
    return TR_FAIL(TR_EDATA, "%s: byte %zu is not part of a SentencePiece model", r->path,
                   (size_t)(m->data - r->begin) + m->at);
}

static bool take_varint(struct part *m, uint64_t *out)
{
    *out = 0;
    for (int shift = 0; shift < 64 && m->at < m->bytes; shift += 7) {
        const unsigned char byte = m->data[m->at++];

        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool take_fixed(struct part *m, size_t bytes, uint64_t *out)
{
    *out = 0;
    if (m->bytes - m->at < bytes)
        return false;
    for (size_t i = 0; i < bytes; i++)
        *out |= (uint64_t)m->data[m->at + i] << 8 * i;
    m->at += bytes;
    return true;
}

/* The next field; false at the end, and where there is none: then m->at is before the end. */
static bool take_field(struct part *m, struct field *f)
{
    const size_t from = m->at;
    uint64_t key;
    bool good = false;

    if (from == m->bytes || !take_varint(m, &key))
        return false;
    *f = (struct field){.number = (uint32_t)(key >> 3)};
    if ((key & 7) == 0) {
        good = take_varint(m, &f->value);
    } else if ((key & 7) == 1 || (key & 7) == 5) {
        good = take_fixed(m, (key & 7) == 1 ? 8 : 4, &f->value);
    } else if ((key & 7) == 2 && take_varint(m, &f->value) && f->value <= m->bytes - m->at) {
        f->inside = (struct part){m->data + m->at, (size_t)f->value, 0};
        m->at += (size_t)f->value;
        good = true;
    }
    if (!good)
        m->at = from < m->bytes ? from : m->bytes - 1;
    return good;
}

static char *copy(const struct part *m)
{
    char *text = malloc(m->bytes + 1);

    if (!text)
        tr_die(TR_ERESOURCE, "no memory left for the tokenizer");
    if (m->bytes > 0)
        memcpy(text, m->data, m->bytes);
    text[m->bytes] = '\0';
    return text;
}

static double score_of(uint64_t bits)
{
    const uint32_t low = (uint32_t)bits;
    float score;

    memcpy(&score, &low, sizeof score);
    return (double)score;
}

static enum tr_status check_piece(const struct reader *r, const struct tr_entry *e, size_t n)
{
    if (!e->text || e->bytes == 0 || e->bytes > LONGEST_PIECE)
        return TR_FAIL(TR_EDATA, "%s: piece %zu has no text, or one of more than %d bytes", r->path,
                       n, LONGEST_PIECE);
    if (tr_utf8_valid((const unsigned char *)e->text, e->bytes) != e->bytes)
        return TR_FAIL(TR_EDATA, "%s: piece %zu is not UTF-8", r->path, n);
    if (e->type < TR_ENTRY_NORMAL || e->type > TR_ENTRY_BYTE || !(e->score > -1e30) ||
        !(e->score < 1e30))
        return TR_FAIL(TR_EDATA, "%s: piece %zu has a type or a score that there is none of",
                       r->path, n);
    return TR_OK;
}

static enum tr_status take_piece(struct reader *r, struct part m)
{
    struct tr_subword *model = &r->p->model;
    const size_t n = model->count;
    struct tr_entry *e;
    struct field f;

    if (n == PIECE_LIMIT)
        return TR_FAIL(TR_EDATA, "%s: there are more than %d pieces", r->path, PIECE_LIMIT);
    model->entries = tr_grow(model->entries, &r->capacity, n + 1, sizeof *model->entries);
    e = &model->entries[model->count++];
    *e = (struct tr_entry){.type = TR_ENTRY_NORMAL};
    while (take_field(&m, &f)) {
        if (f.number == 1 && f.inside.data) {
            free(e->text);
            e->text = copy(&f.inside);
            e->bytes = f.inside.bytes;
        } else if (f.number == 2) {
            e->score = score_of(f.value);
        } else if (f.number == 3) {
            e->type = (enum tr_entry_type)(f.value < 100 ? f.value : 99);
        }
    }
    if (m.at != m.bytes)
        return broken(r, &m);
    TR_TRY(check_piece(r, e, n));
    if (e->type == TR_ENTRY_UNKNOWN && model->unknown >= 0)
        return TR_FAIL(TR_EDATA, "%s: pieces %d and %zu are both the unknown one", r->path,
                       model->unknown, n);
    if (e->type == TR_ENTRY_UNKNOWN)
        model->unknown = (int32_t)n;
    return TR_OK;
}

static enum tr_status take_trainer(struct reader *r, struct part m)
{
    struct field f;

    while (take_field(&m, &f)) {
        if (f.number == 3)
            r->model = f.value < 100 ? (int)f.value : 99;
        else if (f.number == 24)
            r->suffix = f.value != 0;
        else if (f.number == 35)
            r->p->model.byte_fallback = f.value != 0;
        else if (f.number == 44 && f.inside.data)
            tr_bytes_set(&r->p->surface, f.inside.data, f.inside.bytes);
        else if (f.number == 46 && f.inside.data) {
            free(r->bos);
            r->bos = copy(&f.inside);
        } else if (f.number == 47 && f.inside.data) {
            free(r->eos);
            r->eos = copy(&f.inside);
        }
    }
    return m.at == m.bytes ? TR_OK : broken(r, &m);
}

static enum tr_status take_normalizer(struct reader *r, struct part m)
{
    struct tr_normal_step *s = r->normal;
    struct field f;

    while (take_field(&m, &f)) {
        if (f.number == 2 && f.inside.bytes > 0) {
            tr_charsmap_close(s->map);
            TR_TRY(tr_charsmap_open(r->path, f.inside.data, f.inside.bytes, &s->map));
        } else if (f.number == 3) {
            s->dummy_prefix = f.value != 0;
        } else if (f.number == 4) {
            s->remove_extra_spaces = f.value != 0;
        } else if (f.number == 5) {
            s->escape_spaces = f.value != 0;
        }
    }
    return m.at == m.bytes ? TR_OK : broken(r, &m);
}

/* What decodes is not read, so there must be no map in it. */
static enum tr_status check_denormalizer(const struct reader *r, struct part m)
{
    struct field f;

    while (take_field(&m, &f))
        if (f.number == 2 && f.inside.bytes > 0)
            return TR_FAIL(TR_EDATA,
                           "%s has a map for decoding (denormalizer_spec), which is not "
                           "supported",
                           r->path);
    return m.at == m.bytes ? TR_OK : broken(r, &m);
}

static enum tr_status take_model(struct reader *r, struct part m)
{
    struct field f;

    while (take_field(&m, &f)) {
        if (!f.inside.data)
            continue;
        if (f.number == 1)
            TR_TRY(take_piece(r, f.inside));
        else if (f.number == 2)
            TR_TRY(take_trainer(r, f.inside));
        else if (f.number == 3)
            TR_TRY(take_normalizer(r, f.inside));
        else if (f.number == 5)
            TR_TRY(check_denormalizer(r, f.inside));
    }
    return m.at == m.bytes ? TR_OK : broken(r, &m);
}

/* A control piece by its name, or -1. */
static int32_t control(const struct reader *r, const char *name, const char *usual)
{
    const struct tr_subword *m = &r->p->model;

    name = name ? name : usual;
    for (size_t i = 0; i < m->count; i++)
        if (m->entries[i].type == TR_ENTRY_CONTROL && strcmp(m->entries[i].text, name) == 0)
            return (int32_t)i;
    return -1;
}

static bool is_ordinary(const struct tr_entry *e)
{
    return e->type == TR_ENTRY_NORMAL || e->type == TR_ENTRY_USER_DEFINED ||
           e->type == TR_ENTRY_UNUSED;
}

/* No piece is there twice, apart from those that no text has. */
static enum tr_status check_pieces(const struct reader *r)
{
    const struct tr_subword *m = &r->p->model;
    struct tr_dict *seen = tr_dict_new();
    enum tr_status s = TR_OK;

    for (size_t i = 0; i < m->count && s == TR_OK; i++) {
        int32_t old = -1;

        if (is_ordinary(&m->entries[i]))
            old = tr_dict_put(seen, m->entries[i].text, m->entries[i].bytes, (int32_t)i);
        if (old >= 0)
            s = TR_FAIL(TR_EDATA, "%s: pieces %d and %zu are the same", r->path, old, i);
    }
    tr_dict_free(seen);
    return s;
}

static enum tr_status finish(struct reader *r)
{
    static const char *const names[] = {"", "unigram", "bpe", "word", "char"};
    struct tr_pipeline *p = r->p;

    if (p->model.count == 0)
        return TR_FAIL(TR_EDATA, "%s: it has no pieces, so it is no SentencePiece model", r->path);
    if (r->model < 1 || r->model > 2)
        return TR_FAIL(TR_EDATA,
                       "%s: the SentencePiece model type %s is not supported; there are "
                       "unigram and bpe",
                       r->path, r->model > 2 && r->model < 5 ? names[r->model] : "unknown here");
    if (p->model.unknown < 0)
        return TR_FAIL(TR_EDATA, "%s: no piece is the unknown one", r->path);
    if (r->suffix)
        return TR_FAIL(TR_EDATA,
                       "%s puts white space behind words (treat_whitespace_as_suffix), "
                       "which is not supported",
                       r->path);
    TR_TRY(check_pieces(r));
    p->model.kind = r->model == 1 ? TR_SUBWORD_SP_UNIGRAM : TR_SUBWORD_SP_BPE;
    p->bos = control(r, r->bos, "<s>");
    p->eos = control(r, r->eos, "</s>");
    p->decode[0].prefix = r->normal->dummy_prefix || r->normal->remove_extra_spaces;
    p->decode[0].all_prefix = r->normal->remove_extra_spaces;
    TR_TRY(tr_pipeline_finish(p, r->path));
    if (p->model.byte_fallback && !p->model.all_bytes)
        return TR_FAIL(TR_EDATA, "%s: it says that it has a piece for each byte, and lacks some",
                       r->path);
    r->normal->untouched = p->model.whole;
    return TR_OK;
}

enum tr_status tr_sentencepiece_open(const char *path, struct tr_pipeline **out)
{
    struct reader r = {.path = path, .model = 1};
    struct tr_map file;
    enum tr_status s;

    *out = NULL;
    TR_TRY(tr_map_open(path, &file));
    if (file.bytes > file_limit) {
        tr_map_close(&file);
        return TR_FAIL(TR_EDATA, "%s has more than 256 MiB, so it is no SentencePiece model", path);
    }
    r.p = tr_pipeline_new("SentencePiece");
    r.begin = file.data;
    r.p->normal = calloc(1, sizeof *r.p->normal);
    r.p->decode = calloc(1, sizeof *r.p->decode);
    if (!r.p->normal || !r.p->decode)
        tr_die(TR_ERESOURCE, "no memory left for the tokenizer");
    r.p->normal_count = r.p->decode_count = 1;
    r.p->decode[0].kind = TR_DECODE_SENTENCEPIECE;
    tr_bytes_set(&r.p->surface, " \xe2\x81\x87 ", 5);
    r.normal = &r.p->normal[0];
    *r.normal = (struct tr_normal_step){.kind = TR_NORMAL_SENTENCEPIECE,
                                        .dummy_prefix = true,
                                        .remove_extra_spaces = true,
                                        .escape_spaces = true};
    s = take_model(&r, (struct part){file.data, file.bytes, 0});
    if (s == TR_OK)
        s = finish(&r);
    tr_map_close(&file);
    free(r.bos);
    free(r.eos);
    if (s == TR_OK)
        *out = r.p;
    else
        tr_pipeline_close(r.p);
    return s;
}
