/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/pipeline.h"

#include "token/utf8.h"

struct tr_pipeline_thread {
    struct tr_match *match;
    struct tr_normal_room normal;
    struct tr_splitter splitter;
    struct tr_subword_thread *subword;
    struct tr_bytes valid;
    const struct tr_pipeline *p;
    struct tr_tokens *out;
};

static void *need(void *memory)
{
    if (!memory)
        tr_die(TR_ERESOURCE, "no memory left for the tokenizer");
    return memory;
}

struct tr_pipeline *tr_pipeline_new(const char *format)
{
    struct tr_pipeline *p = need(calloc(1, sizeof *p));

    p->format = format;
    p->bos = p->eos = p->model.unknown = -1;
    tr_byte_of_spelling(p->byte_of);
    return p;
}

void tr_pipeline_close(struct tr_pipeline *p)
{
    if (!p)
        return;
    for (size_t i = 0; i < p->added_count; i++) {
        free(p->added[i].text);
        free(p->added[i].shown.data);
    }
    for (size_t i = 0; i < p->normal_count; i++)
        tr_normal_step_release(&p->normal[i]);
    for (size_t i = 0; i < p->split_count; i++)
        tr_split_step_release(&p->split[i]);
    for (size_t i = 0; i < p->decode_count; i++)
        tr_decode_step_release(&p->decode[i]);
    for (int32_t i = 0; p->texts && i < p->size; i++)
        free(p->texts[i].data);
    tr_subword_release(&p->model);
    tr_trie_free(p->raw.trie);
    tr_trie_free(p->normalized.trie);
    free(p->added);
    free(p->normal);
    free(p->split);
    free(p->decode);
    free(p->surface.data);
    free(p->before.id);
    free(p->after.id);
    free(p->texts);
    free(p->added_of);
    free(p->classes);
    free(p);
}

/* The tokens of one kind, each as it is looked for. */
static enum tr_status build_set(const struct tr_pipeline *p, struct tr_added_set *s,
                                bool normalized, const char *where)
{
    struct tr_trie_key *keys = need(calloc(p->added_count + 1, sizeof *keys));
    struct tr_normal_room room = {0};
    struct tr_match *match = tr_match_open();
    enum tr_status status = TR_OK;
    size_t count = 0;

    s->added = p->added;
    for (size_t i = 0; i < p->added_count && status == TR_OK; i++) {
        const unsigned char *text = (const unsigned char *)p->added[i].text;
        size_t bytes = p->added[i].bytes;

        if (p->added[i].normalized != normalized)
            continue;
        if (normalized && !tr_normalize(p->normal, p->normal_count, match, &room, &text, &bytes))
            status = TR_FAIL(TR_EDATA, "%s: added token \"%.60s\" takes too long to normalize",
                             where, p->added[i].text);
        if (bytes == 0 || status != TR_OK)
            continue;
        tr_bytes_set(&p->added[i].shown, text, bytes);
        keys[count] = (struct tr_trie_key){p->added[i].shown.data, bytes, (int32_t)i};
        s->begins[text[0]] = true;
        count++;
    }
    if (count > 0)
        s->trie = tr_trie_build(keys, count);
    free(keys);
    tr_normal_room_release(&room);
    tr_match_close(match);
    return status;
}

/* What a token is by itself: bytes of a byte-level vocabulary, the byte of <0x41>, blanks for U+2581. */
static void set_text(const struct tr_pipeline *p, int32_t id, const char *text, size_t bytes)
{
    static const unsigned char blank[] = {0xe2, 0x96, 0x81};
    struct tr_bytes *out = &p->texts[id];
    const int byte = p->model.byte_level ? -1 : tr_byte_entry(text, bytes);
    size_t n;

    tr_bytes_set(out, text, bytes);
    if (p->model.byte_level) {
        if (tr_spelled_bytes(p->byte_of, text, bytes, out->data, &n))
            out->count = n;
        else
            tr_bytes_set(out, text, bytes);
    } else if (byte >= 0) {
        out->data[0] = (unsigned char)byte;
        out->count = 1;
    } else {
        for (size_t i = 0; i + 3 <= out->count; i++)
            if (memcmp(out->data + i, blank, 3) == 0) {
                out->data[i] = ' ';
                memmove(out->data + i + 1, out->data + i + 3, out->count - i - 3);
                out->count -= 2;
            }
    }
}

static void fill_texts(struct tr_pipeline *p)
{
    p->texts = need(calloc((size_t)p->size + 1, sizeof *p->texts));
    p->added_of = need(calloc((size_t)p->size + 1, sizeof *p->added_of));
    for (int32_t i = 0; i < p->size; i++)
        p->added_of[i] = -1;
    for (size_t i = 0; i < p->model.count; i++)
        if (p->model.entries[i].text)
            set_text(p, (int32_t)i, p->model.entries[i].text, p->model.entries[i].bytes);
    for (size_t i = 0; i < p->added_count; i++) {
        p->added_of[p->added[i].id] = (int32_t)i;
        tr_bytes_set(&p->texts[p->added[i].id], p->added[i].shown.data, p->added[i].shown.count);
    }
}

/* Whether texts may still be cut before each blank that follows something else, given these steps and
   tokens. */
static bool keep_cuts(const struct tr_pipeline *p)
{
    for (size_t i = 0; i < p->normal_count; i++)
        if (p->normal[i].kind > TR_NORMAL_NFKD)
            return false;
    for (size_t i = 0; i < p->added_count; i++) {
        const struct tr_added *a = &p->added[i];

        if (a->left || a->right || a->single_word)
            return false;
        for (size_t k = 1; k < a->bytes; k++)
            if (a->text[k] == ' ' && !tr_utf8_space_before((const unsigned char *)a->text, k))
                return false;
    }
    return true;
}

enum tr_status tr_pipeline_finish(struct tr_pipeline *p, const char *where)
{
    p->size = (int32_t)p->model.count;
    for (size_t i = 0; i < p->added_count; i++)
        if (p->added[i].id >= p->size)
            p->size = p->added[i].id + 1;
    for (int k = 0; k < 2; k++) {
        const struct tr_tokens *around = k ? &p->after : &p->before;

        for (size_t i = 0; i < around->count; i++)
            if (around->id[i] >= p->size)
                return TR_FAIL(TR_EDATA, "%s: the template has token %d, and the vocabulary %d",
                               where, around->id[i], p->size);
    }
    p->classes = need(malloc(sizeof *p->classes));
    tr_char_classes_fill(p->classes);
    TR_TRY(tr_subword_prepare(&p->model, where));
    TR_TRY(build_set(p, &p->raw, false, where));
    TR_TRY(build_set(p, &p->normalized, true, where));
    fill_texts(p);
    p->cuts = p->cuts && keep_cuts(p);
    return TR_OK;
}

int32_t tr_pipeline_id(const struct tr_pipeline *p, const char *text, size_t bytes)
{
    for (size_t i = p->added_count; i > 0; i--)
        if (p->added[i - 1].bytes == bytes && memcmp(p->added[i - 1].text, text, bytes) == 0)
            return p->added[i - 1].id;
    for (size_t i = 0; i < p->model.count; i++)
        if (p->model.entries[i].text && p->model.entries[i].bytes == bytes &&
            memcmp(p->model.entries[i].text, text, bytes) == 0)
            return (int32_t)i;
    return -1;
}

const char *tr_pipeline_text(const struct tr_pipeline *p, int32_t id, size_t *bytes)
{
    *bytes = 0;
    if (id < 0 || id >= p->size)
        return NULL;
    *bytes = p->texts[id].count;
    return (const char *)p->texts[id].data;
}

static void encode_piece(void *ctx, const unsigned char *piece, size_t bytes)
{
    struct tr_pipeline_thread *t = ctx;

    tr_subword_encode(&t->p->model, t->subword, piece, bytes, t->out);
}

struct tr_pipeline_thread *tr_pipeline_thread_open(const struct tr_pipeline *p)
{
    struct tr_pipeline_thread *t = need(calloc(1, sizeof *t));

    t->p = p;
    t->match = tr_match_open();
    t->subword = tr_subword_thread_open();
    t->splitter.steps = p->split;
    t->splitter.count = p->split_count;
    t->splitter.classes = p->classes;
    t->splitter.match = t->match;
    t->splitter.sink = encode_piece;
    t->splitter.ctx = t;
    return t;
}

void tr_pipeline_thread_close(struct tr_pipeline_thread *t)
{
    if (!t)
        return;
    tr_match_close(t->match);
    tr_normal_room_release(&t->normal);
    tr_splitter_release(&t->splitter);
    tr_subword_thread_close(t->subword);
    free(t->valid.data);
    free(t);
}

/* Text between tokens that are found in the raw one. */
static bool encode_between(const struct tr_pipeline *p, struct tr_pipeline_thread *t,
                           const unsigned char *text, size_t bytes, bool start)
{
    struct tr_added_walk walk = {0};
    struct tr_added_part part;

    if (!tr_normalize(p->normal, p->normal_count, t->match, &t->normal, &text, &bytes))
        return false;
    start = start && !t->normal.lost_first;
    while (tr_added_next(&p->normalized, text, bytes, &walk, &part)) {
        if (part.id >= 0)
            tr_tokens_add(t->out, part.id);
        else
            tr_split(&t->splitter, text + part.from, part.to - part.from, start && part.from == 0);
    }
    return true;
}

static bool encode_valid(const struct tr_pipeline *p, struct tr_pipeline_thread *t,
                         const unsigned char *text, size_t bytes, bool start)
{
    struct tr_added_walk walk = {0};
    struct tr_added_part part;

    while (tr_added_next(&p->raw, text, bytes, &walk, &part)) {
        if (part.id >= 0)
            tr_tokens_add(t->out, part.id);
        else if (!encode_between(p, t, text + part.from, part.to - part.from,
                                 start && part.from == 0))
            return false;
    }
    return !t->splitter.failed;
}

/* The text with U+FFFD for each byte that is no UTF-8. */
static void make_valid(struct tr_bytes *out, const unsigned char *text, size_t bytes)
{
    size_t at = 0;

    out->count = 0;
    while (at < bytes) {
        const size_t good = tr_utf8_valid(text + at, bytes - at);

        tr_bytes_add(out, text + at, good);
        at += good;
        if (at < bytes)
            tr_bytes_add(out, "\xef\xbf\xbd", 3);
        at += at < bytes;
    }
}

static bool encode_broken(const struct tr_pipeline *p, struct tr_pipeline_thread *t,
                          const unsigned char *text, size_t bytes, struct tr_bad_utf8 *bad)
{
    size_t at = 0;
    bool good = true;

    while (at < bytes && good) {
        const size_t valid = tr_utf8_valid(text + at, bytes - at);
        size_t wrong;

        if (valid > 0 && p->model.byte_level)
            good = encode_valid(p, t, text + at, valid, at == 0);
        at += valid;
        wrong = tr_utf8_invalid(text + at, bytes - at);
        if (wrong == 0)
            continue;
        bad->first = bad->bytes == 0 ? at : bad->first;
        bad->bytes += (int64_t)wrong;
        if (p->model.byte_level)
            tr_subword_encode(&p->model, t->subword, text + at, wrong, t->out);
        at += wrong;
    }
    if (p->model.byte_level)
        return good;
    make_valid(&t->valid, text, bytes);
    return encode_valid(p, t, t->valid.data, t->valid.count, true);
}

bool tr_pipeline_encode(const struct tr_pipeline *p, struct tr_pipeline_thread *t,
                        const unsigned char *text, size_t bytes, struct tr_tokens *out,
                        struct tr_bad_utf8 *bad)
{
    bad->bytes = 0;
    t->out = out;
    t->splitter.failed = false;
    if (tr_utf8_valid(text, bytes) == bytes)
        return encode_valid(p, t, text, bytes, true);
    return encode_broken(p, t, text, bytes, bad);
}

void tr_pipeline_decoding(const struct tr_pipeline *p, bool raw, struct tr_bytes *out,
                          struct tr_decoding *d)
{
    memset(d, 0, sizeof *d);
    d->steps = p->decode;
    d->count = p->decode_count;
    d->byte_of = p->byte_of;
    d->raw = raw;
    d->out = out;
}

void tr_pipeline_decode(const struct tr_pipeline *p, struct tr_decoding *d, int32_t id, bool skip)
{
    const struct tr_added *a;
    const struct tr_entry *e;

    if (id < 0 || id >= p->size)
        return;
    a = p->added_of[id] >= 0 ? &p->added[p->added_of[id]] : NULL;
    e = (size_t)id < p->model.count ? &p->model.entries[id] : NULL;
    if (a && !(a->special && skip))
        tr_decoding_add(d, (const char *)a->shown.data, a->shown.count);
    else if (!a && e && e->text && e->type == TR_ENTRY_CONTROL)
        tr_decoding_add(d, "", 0);
    else if (!a && e && e->text && e->type == TR_ENTRY_UNKNOWN)
        tr_decoding_add(d, (const char *)p->surface.data, p->surface.count);
    else if (!a && e && e->text)
        tr_decoding_add(d, e->text, e->bytes);
}
