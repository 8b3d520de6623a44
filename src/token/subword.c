/* SPDX-License-Identifier: BSD-3-Clause */
#define XXH_INLINE_ALL
#include "token/subword.h"

#include <float.h>
#include <stdio.h>

#include <xxhash.h>

#include "token/chinese.h"
#include "token/utf8.h"

/* U+2581, which stands for a blank. */
static const char blank[] = "\xe2\x96\x81";
enum { BLANK = 3 };

/* One line of the direct-mapped cache: a later piece with the same hash replaces an earlier one, so
   its size is fixed and frequent words stay.  64 bytes, as a cache line of the processor. */
enum { CACHE_LINES = 1 << 16, CACHE_BYTES = 26, CACHE_IDS = 9 };
struct cached {
    int32_t ids[CACHE_IDS];
    uint8_t bytes, count; /* bytes is 0 in an empty line */
    unsigned char text[CACHE_BYTES];
};

/* The best way to a place in a piece. */
struct best {
    double score;
    uint32_t from; /* where its last entry begins; NOWHERE: none yet */
    int32_t id;
};
#define NOWHERE UINT32_MAX

struct tr_subword_thread {
    struct cached *cache;
    struct tr_merge_room *merge;
    struct best *best;
    size_t best_capacity;
    struct tr_tokens scratch;
};

static void *need(void *memory)
{
    if (!memory)
        tr_die(TR_ERESOURCE, "no memory left for the tokenizer");
    return memory;
}

void tr_byte_of_spelling(int16_t byte_of[512])
{
    int16_t next = 256;

    for (int i = 0; i < 512; i++)
        byte_of[i] = -1;
    /* The bytes of Latin-1 that print stand for themselves, the others follow from U+0100 on. */
    for (int16_t b = 0; b < 256; b++) {
        const bool prints = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;

        byte_of[prints ? b : next++] = b;
    }
}

bool tr_spelled_bytes(const int16_t byte_of[512], const char *text, size_t bytes,
                      unsigned char *out, size_t *out_bytes)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + bytes;
    size_t n = 0;

    while (at < end) {
        uint32_t c;
        const size_t used = tr_utf8_decode(at, (size_t)(end - at), &c);

        if (used == 0 || c >= 512 || byte_of[c] < 0)
            return false;
        out[n++] = (unsigned char)byte_of[c];
        at += used;
    }
    *out_bytes = n;
    return true;
}

int tr_byte_entry(const char *text, size_t bytes)
{
    static const char digits[] = "0123456789ABCDEF";
    const char *high, *low;

    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>')
        return -1;
    high = memchr(digits, text[3], 16);
    low = memchr(digits, text[4], 16);
    return high && low ? (int)(16 * (high - digits) + (low - digits)) : -1;
}

static bool in_dict(const struct tr_subword *m, const struct tr_entry *e)
{
    const bool sentencepiece = m->kind == TR_SUBWORD_SP_BPE || m->kind == TR_SUBWORD_SP_UNIGRAM;

    return e->text && (!sentencepiece || e->type == TR_ENTRY_NORMAL ||
                       e->type == TR_ENTRY_USER_DEFINED || e->type == TR_ENTRY_UNUSED);
}

/* From text to ids.  Of a byte-level vocabulary the text is bytes, and an entry that spells none is in no
   text that gets here. */
static void fill_dict(struct tr_subword *m)
{
    int16_t byte_of[512];

    tr_byte_of_spelling(byte_of);
    tr_dict_free(m->dict);
    m->dict = tr_dict_new();
    for (size_t i = 0; i < m->count; i++) {
        const struct tr_entry *e = &m->entries[i];

        if (!in_dict(m, e))
            continue;
        if (m->byte_level) {
            unsigned char *text = need(malloc(e->bytes + 1));
            size_t bytes;

            if (tr_spelled_bytes(byte_of, e->text, e->bytes, text, &bytes))
                tr_dict_put(m->dict, text, bytes, (int32_t)i);
            free(text);
        } else {
            tr_dict_put(m->dict, e->text, e->bytes, (int32_t)i);
        }
    }
}

static void fill_bytes(struct tr_subword *m)
{
    m->all_bytes = true;
    for (int b = 0; b < 256; b++)
        m->byte_ids[b] = -1;
    for (size_t i = 0; i < m->count; i++) {
        const struct tr_entry *e = &m->entries[i];
        const int byte = e->text ? tr_byte_entry(e->text, e->bytes) : -1;

        if (byte >= 0)
            m->byte_ids[byte] = (int32_t)i;
    }
    for (int b = 0; b < 256; b++) {
        const unsigned char byte = (unsigned char)b;

        m->all_bytes = m->all_bytes && m->byte_ids[b] >= 0;
        if (m->byte_level)
            m->byte_ids[b] = tr_dict_get(m->dict, &byte, 1);
    }
}

/* Entries without those that are not found in texts, and, if there is a prefix, of those that begin with
   it the rest. */
static struct tr_trie *build_trie(const struct tr_subword *m, const char *prefix, bool user_defined)
{
    struct tr_trie_key *keys = need(calloc(m->count + 1, sizeof *keys));
    const size_t skip = prefix ? strlen(prefix) : 0;
    struct tr_trie *t;
    size_t count = 0;

    for (size_t i = 0; i < m->count; i++) {
        const struct tr_entry *e = &m->entries[i];

        if (!in_dict(m, e) || e->bytes <= skip || (prefix && memcmp(e->text, prefix, skip) != 0))
            continue;
        if (user_defined ? e->type != TR_ENTRY_USER_DEFINED : e->type == TR_ENTRY_UNUSED)
            continue;
        keys[count++] = (struct tr_trie_key){(const unsigned char *)e->text + skip, e->bytes - skip,
                                             (int32_t)i};
    }
    t = user_defined && count == 0 ? NULL : tr_trie_build(keys, count);
    free(keys);
    return t;
}

/* Of SentencePiece ordinary pieces count, and sums are floats. */
static void fill_scores(struct tr_subword *m)
{
    const bool sentencepiece = m->kind == TR_SUBWORD_SP_UNIGRAM;
    double least = sentencepiece ? (double)FLT_MAX : DBL_MAX;

    m->scores = need(calloc(m->count + 1, sizeof *m->scores));
    m->longest = 4;
    for (size_t i = 0; i < m->count; i++) {
        const struct tr_entry *e = &m->entries[i];

        if (e->text && (!sentencepiece || e->type == TR_ENTRY_NORMAL))
            least = e->score < least ? e->score : least;
        m->longest = e->text && e->bytes > m->longest ? e->bytes : m->longest;
        /* A user-defined piece gains by each byte, and is almost always the best. */
        m->scores[i] = e->type == TR_ENTRY_USER_DEFINED
                           ? (double)(float)((double)((float)e->bytes * 0.1F) - 0.1)
                           : e->score;
    }
    m->unknown_score = sentencepiece ? (double)((float)least - 10.0F) : least - 10.0;
}

static bool blank_at(const unsigned char *text, size_t bytes, size_t at)
{
    return bytes - at >= BLANK && memcmp(text + at, blank, BLANK) == 0;
}

/* The end of the part of a piece from `at` on that no token leaves: it begins with blanks, if any. */
static size_t part_end(const unsigned char *text, size_t bytes, size_t at)
{
    while (at < bytes && blank_at(text, bytes, at))
        at += BLANK;
    while (at < bytes) {
        const unsigned char *next = memchr(text + at, 0xe2, bytes - at);

        at = next ? (size_t)(next - text) : bytes;
        if (at == bytes || blank_at(text, bytes, at))
            break;
        at++;
    }
    return at;
}

static bool has_blank_ends(const struct tr_subword *m)
{
    if (m->byte_level || m->ignore_merges || tr_dict_get(m->dict, blank, BLANK) < 0)
        return false;
    for (size_t i = 0; i < m->count; i++) {
        const struct tr_entry *e = &m->entries[i];

        if (e->text && part_end((const unsigned char *)e->text, e->bytes, 0) != e->bytes)
            return false;
    }
    return true;
}

struct scored {
    double score;
    int32_t id;
};

static int compare_scores(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;

    return x->score != y->score ? (x->score < y->score) - (x->score > y->score)
                                : (x->id > y->id) - (x->id < y->id);
}

/* The symbol of a text that is a piece or a character of some piece; -1 if it is neither. */
static int32_t symbol_of(const struct tr_subword *m, const char *text, size_t bytes)
{
    return tr_dict_get(m->dict, text, bytes);
}

static size_t char_bytes(const char *text, size_t bytes)
{
    uint32_t c;
    const size_t used = tr_utf8_decode((const unsigned char *)text, bytes, &c);

    return used > 0 ? used : 1;
}

/* Each way in which two symbols make this piece. */
static void add_halves(struct tr_subword *m, const struct tr_entry *e, int32_t id, int32_t rank)
{
    for (size_t at = char_bytes(e->text, e->bytes); at < e->bytes;
         at += char_bytes(e->text + at, e->bytes - at)) {
        const int32_t left = symbol_of(m, e->text, at);
        const int32_t right = symbol_of(m, e->text + at, e->bytes - at);

        if (left >= 0 && right >= 0)
            tr_pairs_put(m->pairs, left, right, rank, id);
    }
}

static void add_characters(struct tr_subword *m, const struct tr_entry *e)
{
    for (size_t at = 0, used; at < e->bytes; at += used) {
        used = char_bytes(e->text + at, e->bytes - at);
        if (tr_dict_get(m->dict, e->text + at, used) < 0)
            tr_dict_put(m->dict, e->text + at, used, m->symbols++);
    }
}

/* Of SentencePiece's BPE: equal scores are equal ranks. */
static void fill_pairs(struct tr_subword *m)
{
    struct scored *order = need(calloc(m->count + 1, sizeof *order));
    size_t count = 0;
    int32_t rank = 0;

    tr_pairs_free(m->pairs);
    m->pairs = tr_pairs_new();
    m->symbols = (int32_t)m->count;
    for (size_t i = 0; i < m->count; i++) {
        if (!in_dict(m, &m->entries[i]))
            continue;
        order[count++] = (struct scored){m->entries[i].score, (int32_t)i};
        add_characters(m, &m->entries[i]);
    }
    qsort(order, count, sizeof *order, compare_scores);
    for (size_t i = 0; i < count; i++) {
        rank += i > 0 && order[i].score < order[i - 1].score;
        add_halves(m, &m->entries[order[i].id], order[i].id, rank);
    }
    free(order);
}

enum tr_status tr_subword_prepare(struct tr_subword *m, const char *where)
{
    fill_dict(m);
    fill_bytes(m);
    m->blank_ends = has_blank_ends(m);
    switch (m->kind) {
    case TR_SUBWORD_BPE:
        break;
    case TR_SUBWORD_WORDPIECE:
        if (m->unknown < 0)
            return TR_FAIL(TR_EDATA, "%s: WordPiece needs its unknown token in the vocabulary",
                           where);
        m->trie = build_trie(m, NULL, false);
        m->continued = build_trie(m, m->prefix, false);
        break;
    case TR_SUBWORD_CHINESE:
        tr_chinese_prepare(m);
        break;
    case TR_SUBWORD_SP_BPE:
        for (size_t i = 0; i < m->count; i++)
            if (m->entries[i].type == TR_ENTRY_UNUSED)
                return TR_FAIL(TR_EDATA,
                               "%s: piece %zu is marked as unused, which is not supported "
                               "in a BPE model",
                               where, i);
        m->whole = build_trie(m, NULL, true);
        fill_pairs(m);
        break;
    case TR_SUBWORD_UNIGRAM:
    case TR_SUBWORD_SP_UNIGRAM:
        m->trie = build_trie(m, NULL, false);
        if (m->kind == TR_SUBWORD_SP_UNIGRAM)
            m->whole = build_trie(m, NULL, true);
        fill_scores(m);
        break;
    }
    return TR_OK;
}

void tr_subword_release(struct tr_subword *m)
{
    for (size_t i = 0; m->entries && i < m->count; i++)
        free(m->entries[i].text);
    free(m->entries);
    free(m->prefix);
    free(m->scores);
    tr_dict_free(m->dict);
    tr_pairs_free(m->pairs);
    tr_trie_free(m->trie);
    tr_trie_free(m->continued);
    tr_trie_free(m->whole);
    memset(m, 0, sizeof *m);
}

struct tr_subword_thread *tr_subword_thread_open(void)
{
    struct tr_subword_thread *t = need(calloc(1, sizeof *t));

    t->cache = need(calloc(CACHE_LINES, sizeof *t->cache));
    t->merge = tr_merge_room_new();
    return t;
}

void tr_subword_thread_close(struct tr_subword_thread *t)
{
    if (!t)
        return;
    free(t->cache);
    free(t->best);
    free(t->scratch.id);
    tr_merge_room_free(t->merge);
    free(t);
}

static bool all_have_ids(const struct tr_subword *m, const unsigned char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (m->byte_ids[text[i]] < 0)
            return false;
    return true;
}

static void add_bytes(const struct tr_subword *m, const unsigned char *text, size_t bytes,
                      struct tr_tokens *out)
{
    int32_t *ids = tr_tokens_room(out, bytes);

    for (size_t i = 0; i < bytes; i++)
        ids[i] = m->byte_ids[text[i]];
    out->count += bytes;
}

/* The symbols that a piece begins as.  `waits` is an unknown token that more unknown text may join. */
static void add_symbols(const struct tr_subword *m, const unsigned char *text, size_t bytes,
                        struct tr_tokens *out)
{
    bool waits = false;

    for (size_t at = 0, used; at < bytes; at += used) {
        int32_t id;

        used = m->byte_level ? 1 : char_bytes((const char *)text + at, bytes - at);
        id = m->byte_level ? m->byte_ids[text[at]] : tr_dict_get(m->dict, text + at, used);
        if (id >= 0) {
            if (waits)
                tr_tokens_add(out, m->unknown);
            waits = false;
            tr_tokens_add(out, id);
        } else if (m->byte_fallback && !m->byte_level && all_have_ids(m, text + at, used)) {
            add_bytes(m, text + at, used, out);
        } else if (m->unknown >= 0) {
            if (waits && !m->fuse_unknown)
                tr_tokens_add(out, m->unknown);
            waits = true;
        }
    }
    if (waits)
        tr_tokens_add(out, m->unknown);
}

static void encode_bpe(const struct tr_subword *m, struct tr_subword_thread *t,
                       const unsigned char *text, size_t bytes, struct tr_tokens *out)
{
    const size_t from = out->count;
    const int32_t whole = m->ignore_merges ? tr_dict_get(m->dict, text, bytes) : -1;

    if (whole >= 0) {
        tr_tokens_add(out, whole);
        return;
    }
    tr_tokens_room(out, bytes);
    add_symbols(m, text, bytes, out);
    out->count = from + tr_merge(m->pairs, t->merge, out->id + from, out->count - from);
}

static void encode_wordpiece(const struct tr_subword *m, const unsigned char *text, size_t bytes,
                             struct tr_tokens *out)
{
    const size_t from = out->count;
    size_t characters = 0, used;

    for (size_t i = 0; i < bytes; i++)
        characters += (text[i] & 0xc0) != 0x80;
    for (size_t at = 0; at < bytes; at += used) {
        int32_t id = -1;

        used = characters > m->longest_word
                   ? 0
                   : tr_trie_longest(at == 0 ? m->trie : m->continued, text + at, bytes - at, &id);
        if (used == 0) {
            out->count = from;
            tr_tokens_add(out, m->unknown);
            return;
        }
        tr_tokens_add(out, id);
    }
}

/* Unknown text: its bytes if they have entries, else the unknown token, if it does not go on. */
static void add_unknown(const struct tr_subword *m, const unsigned char *text, size_t bytes,
                        bool goes_on, struct tr_tokens *out)
{
    if (m->byte_fallback && all_have_ids(m, text, bytes))
        add_bytes(m, text, bytes, out);
    else if (!goes_on && m->unknown >= 0)
        tr_tokens_add(out, m->unknown);
}

static void improve(const struct tr_subword *m, struct best *to, double score, size_t from,
                    int32_t id)
{
    /* A sum of two floats in double is rounded to the float that their sum in float is. */
    score = m->kind == TR_SUBWORD_SP_UNIGRAM ? (double)(float)score : score;
    if (to->from != NOWHERE && !(score > to->score))
        return;
    to->score = score;
    to->from = (uint32_t)from;
    to->id = id;
}

/* All entries that begin at `at`. */
static void reach(const struct tr_subword *m, struct best *best, const unsigned char *text,
                  size_t bytes, size_t at, size_t one)
{
    tr_trie_state s = 0;
    bool single = false;

    for (size_t i = at; i < bytes; i++) {
        const int32_t id = tr_trie_step(m->trie, &s, text[i]);
        double score;

        if (id == -2)
            break;
        if (id < 0)
            continue;
        score = m->scores[id];
        improve(m, &best[i + 1], score + best[at].score, at, id);
        single = single || i + 1 - at == one;
    }
    if (!single)
        improve(m, &best[at + one], m->unknown_score + best[at].score, at, -1);
}

/* SentencePiece counts from here on once sums are so large that floats are coarse. */
static void count_anew(const struct tr_subword *m, struct best *best, size_t bytes, size_t at)
{
    const double base = best[at].score;

    if (m->kind != TR_SUBWORD_SP_UNIGRAM || !(base < -100000.0))
        return;
    for (size_t i = at; i <= bytes && i <= at + m->longest; i++)
        if (best[i].from != NOWHERE)
            best[i].score = (double)(float)(best[i].score - base);
}

static void encode_unigram(const struct tr_subword *m, struct tr_subword_thread *t,
                           const unsigned char *text, size_t bytes, struct tr_tokens *out)
{
    size_t one, count = 0, at;
    struct best *best;
    uint32_t *ends;

    best = t->best = tr_grow(t->best, &t->best_capacity, bytes + 1, sizeof *t->best);
    for (size_t i = 0; i <= bytes; i++)
        best[i] = (struct best){0, NOWHERE, -1};
    for (at = 0; at < bytes; at += one) {
        one = char_bytes((const char *)text + at, bytes - at);
        count_anew(m, best, bytes, at);
        reach(m, best, text, bytes, at, one);
    }
    /* Back along the best way, then forth. */
    t->scratch.count = 0;
    ends = (uint32_t *)tr_tokens_room(&t->scratch, bytes);
    for (at = bytes; at > 0; at = best[at].from)
        ends[count++] = (uint32_t)at;
    for (bool was = false; count > 0; count--) {
        const struct best *b = &best[ends[count - 1]];

        if (b->id >= 0 && b->id != m->unknown) {
            tr_tokens_add(out, b->id);
        } else {
            size_t end = ends[count - 1];

            /* What is unknown is looked at as a whole. */
            while (m->kind == TR_SUBWORD_UNIGRAM && count > 1 &&
                   (best[ends[count - 2]].id < 0 || best[ends[count - 2]].id == m->unknown))
                end = ends[--count - 1];
            add_unknown(m, text + b->from, end - b->from, was, out);
        }
        was = b->id < 0 || b->id == m->unknown;
    }
}

/* SentencePiece's BPE: symbols are ids, characters, and from FROZEN on ids that join nothing. */
static void encode_sp_bpe(const struct tr_subword *m, struct tr_subword_thread *t,
                          const unsigned char *text, size_t bytes, struct tr_tokens *out)
{
    const int32_t stranger = m->symbols, frozen = stranger + 1;
    struct tr_tokens *s = &t->scratch;
    bool was = false;
    size_t at = 0, used;

    s->count = 0;
    tr_tokens_room(s, bytes);
    for (; at < bytes; at += used) {
        int32_t id = -1;

        used = m->whole ? tr_trie_longest(m->whole, text + at, bytes - at, &id) : 0;
        if (used > 0) {
            tr_tokens_add(s, frozen + id);
            continue;
        }
        used = char_bytes((const char *)text + at, bytes - at);
        id = tr_dict_get(m->dict, text + at, used);
        tr_tokens_add(s, id >= 0 ? id : stranger);
    }
    s->count = tr_merge(m->pairs, t->merge, s->id, s->count);
    at = 0;
    for (size_t i = 0; i < s->count; i++, at += used) {
        const int32_t id = s->id[i] >= frozen ? s->id[i] - frozen : s->id[i];
        const bool known = id < (int32_t)m->count;

        used = known ? m->entries[id].bytes : char_bytes((const char *)text + at, bytes - at);
        if (known)
            tr_tokens_add(out, id);
        else
            add_unknown(m, text + at, used, was, out);
        was = !known;
    }
}

static void encode_new(const struct tr_subword *m, struct tr_subword_thread *t,
                       const unsigned char *text, size_t bytes, struct tr_tokens *out)
{
    switch (m->kind) {
    case TR_SUBWORD_BPE:
        encode_bpe(m, t, text, bytes, out);
        break;
    case TR_SUBWORD_WORDPIECE:
        encode_wordpiece(m, text, bytes, out);
        break;
    case TR_SUBWORD_CHINESE:
        tr_chinese_encode(m, text, bytes, out);
        break;
    case TR_SUBWORD_UNIGRAM:
    case TR_SUBWORD_SP_UNIGRAM:
        encode_unigram(m, t, text, bytes, out);
        break;
    case TR_SUBWORD_SP_BPE:
        encode_sp_bpe(m, t, text, bytes, out);
        break;
    }
}

static void encode_cached(const struct tr_subword *m, struct tr_subword_thread *t,
                          const unsigned char *text, size_t bytes, struct tr_tokens *out)
{
    const size_t from = out->count;
    struct cached *c;

    if (bytes > CACHE_BYTES) {
        encode_new(m, t, text, bytes, out);
        return;
    }
    c = &t->cache[XXH3_64bits(text, bytes) % CACHE_LINES];
    if (c->bytes == bytes && memcmp(c->text, text, bytes) == 0) {
        memcpy(tr_tokens_room(out, CACHE_IDS), c->ids, sizeof c->ids);
        out->count += c->count;
        return;
    }
    encode_new(m, t, text, bytes, out);
    if (out->count - from > CACHE_IDS)
        return;
    memcpy(c->text, text, bytes);
    memcpy(c->ids, out->id + from, (out->count - from) * sizeof *c->ids);
    c->bytes = (uint8_t)bytes;
    c->count = (uint8_t)(out->count - from);
}

void tr_subword_encode(const struct tr_subword *m, struct tr_subword_thread *t,
                       const unsigned char *piece, size_t bytes, struct tr_tokens *out)
{
    const bool bpe = m->kind == TR_SUBWORD_BPE || m->kind == TR_SUBWORD_SP_BPE;

    if (!bpe || !m->blank_ends) {
        encode_cached(m, t, piece, bytes, out);
        return;
    }
    for (size_t at = 0, end; at < bytes; at = end) {
        end = part_end(piece, bytes, at);
        encode_cached(m, t, piece + at, end - at, out);
    }
}
