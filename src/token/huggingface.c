/* SPDX-License-Identifier: BSD-3-Clause */
#include "token/huggingface.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

#include "token/utf8.h"
#include "util/file.h"

/* A tokenizer's file has 2 to 40 MB; ids are below 2^22, lists within lists at most eight. */
enum { FILE_LIMIT = 256 << 20, ID_LIMIT = 1 << 22, DEEPEST = 8, ADDED_LIMIT = 1 << 16 };

struct reader {
    const char *path;
    struct tr_pipeline *p;
    json_t *root;
    bool byte_level;         /* a ByteLevel pre-tokenizer has come */
    bool known_patterns;     /* all expressions are in the list of those whose cuts are known */
    size_t capacity;         /* entries that there is room for */
    struct tr_dict *spelled; /* owned: from the vocabulary's spellings to ids */
};

static void *need(void *memory)
{
    if (!memory)
        tr_die(TR_ERESOURCE, "no memory left for the tokenizer");
    return memory;
}

#define BAD(r, ...) bad((r)->path, __VA_ARGS__)

/* "FILE: what is wrong". */
TR_PRINTF(2, 3) static enum tr_status bad(const char *path, const char *fmt, ...)
{
    char text[700];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return TR_FAIL(TR_EDATA, "%s: %s", path, text);
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static bool flag_of(const json_t *object, const char *key, bool initial)
{
    const json_t *value = json_object_get(object, key);

    return json_is_boolean(value) ? json_is_true(value) : initial;
}

static const char *type_of(const json_t *object)
{
    const char *type = text_of(object, "type");

    return type ? type : "";
}

static void set_text(struct tr_bytes *out, const json_t *value)
{
    tr_bytes_set(out, json_string_value(value), json_string_length(value));
}

/* Refused by its name. */
static enum tr_status unknown(const struct reader *r, const char *what, const char *name,
                              const char *known)
{
    return BAD(r, "the %s \"%.60s\" is not supported; there are %s", what, name, known);
}

enum tr_status tr_huggingface_json(const char *path, size_t flags, json_t **out)
{
    json_error_t error;
    char *text;

    *out = NULL;
    TR_TRY(tr_file_text(path, FILE_LIMIT, &text));
    *out = json_loads(text, JSON_ALLOW_NUL | flags, &error);
    free(text);
    if (!json_is_object(*out)) {
        const bool parsed = *out != NULL;

        json_decref(*out);
        *out = NULL;
        return parsed ? bad(path, "it is not a JSON object")
                      : bad(path, "line %d, column %d: %s", error.line, error.column, error.text);
    }
    return TR_OK;
}

/* A step's pattern: {"String": ...} or {"Regex": ...}. */
static enum tr_status take_pattern(struct reader *r, const json_t *object, const char *what,
                                   struct tr_pattern **pattern, struct tr_bytes *text)
{
    const json_t *p = json_object_get(object, "pattern");
    const json_t *string = json_object_get(p, "String"), *regex = json_object_get(p, "Regex");
    char *where;
    enum tr_status s;

    if (json_is_string(string) && json_string_length(string) > 0) {
        set_text(text, string);
        return TR_OK;
    }
    if (!json_is_string(regex))
        return BAD(r, "a %s has no \"pattern\" with a \"String\" or a \"Regex\"", what);
    if (strlen(json_string_value(regex)) != json_string_length(regex))
        return BAD(r, "a %s has a regular expression with a zero byte", what);
    where = tr_format("%s: a %s", r->path, what);
    s = tr_pattern_open(where, json_string_value(regex), pattern);
    free(where);
    return s;
}

static struct tr_normal_step *new_normal(struct tr_pipeline *p, enum tr_normal_kind kind)
{
    p->normal = need(reallocarray(p->normal, p->normal_count + 1, sizeof *p->normal));
    p->normal[p->normal_count] = (struct tr_normal_step){.kind = kind};
    return &p->normal[p->normal_count++];
}

static int value_of_base64(int c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = c ? strchr(digits, c) : NULL;

    return found ? (int)(found - digits) : -1;
}

static enum tr_status take_charsmap(struct reader *r, const json_t *object)
{
    const char *text = text_of(object, "precompiled_charsmap");
    struct tr_normal_step *s;
    struct tr_bytes blob = {0};
    uint32_t bits = 0;
    int count = 0;
    enum tr_status status;

    if (!text || !*text)
        return TR_OK; /* it has none, and changes nothing */
    for (; *text && *text != '='; text++) {
        const int value = value_of_base64(*text);
        unsigned char byte;

        if (value < 0)
            break;
        bits = bits << 6 | (uint32_t)value;
        count += 6;
        if (count < 8)
            continue;
        count -= 8;
        byte = (unsigned char)(bits >> count);
        tr_bytes_add(&blob, &byte, 1);
    }
    if (*text && *text != '=') {
        free(blob.data);
        return BAD(r, "\"precompiled_charsmap\" is not base64");
    }
    s = new_normal(r->p, TR_NORMAL_CHARSMAP);
    status = tr_charsmap_open(r->path, blob.data ? blob.data : (const unsigned char *)"",
                              blob.count, &s->map);
    free(blob.data);
    return status;
}

static enum tr_status take_replace(struct reader *r, const json_t *object)
{
    const json_t *content = json_object_get(object, "content");
    struct tr_normal_step *s = new_normal(r->p, TR_NORMAL_REPLACE);

    if (!json_is_string(content))
        return BAD(r, "the normalizer Replace has no \"content\"");
    set_text(&s->content, content);
    return take_pattern(r, object, "normalizer Replace", &s->pattern, &s->text);
}

static void take_bert(struct reader *r, const json_t *object)
{
    struct tr_normal_step *s = new_normal(r->p, TR_NORMAL_BERT);

    s->clean = flag_of(object, "clean_text", true);
    s->chinese = flag_of(object, "handle_chinese_chars", true);
    s->lowercase = flag_of(object, "lowercase", true);
    s->accents = flag_of(object, "strip_accents", s->lowercase);
}

static enum tr_status take_normalizer(struct reader *r, const json_t *object, int depth)
{
    static const char *const plain[] = {"NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"};
    const char *type = type_of(object);
    struct tr_normal_step *s;
    const json_t *child;
    size_t i;

    if (r->p->normal_count >= TR_SPLIT_STEPS || depth > DEEPEST)
        return BAD(r, "there are more than %d normalizers", TR_SPLIT_STEPS);
    for (i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(type, plain[i]) == 0) {
            new_normal(r->p, (enum tr_normal_kind)i);
            return TR_OK;
        }
    if (strcmp(type, "Sequence") == 0) {
        json_array_foreach(json_object_get(object, "normalizers"), i, child)
            TR_TRY(take_normalizer(r, child, depth + 1));
        return TR_OK;
    }
    if (strcmp(type, "BertNormalizer") == 0) {
        take_bert(r, object);
        return TR_OK;
    }
    if (strcmp(type, "Replace") == 0)
        return take_replace(r, object);
    if (strcmp(type, "Precompiled") == 0)
        return take_charsmap(r, object);
    if (strcmp(type, "Prepend") == 0 && json_is_string(json_object_get(object, "prepend"))) {
        set_text(&new_normal(r->p, TR_NORMAL_PREPEND)->content, json_object_get(object, "prepend"));
        return TR_OK;
    }
    if (strcmp(type, "Strip") == 0) {
        s = new_normal(r->p, TR_NORMAL_STRIP);
        s->left = flag_of(object, "strip_left", true);
        s->right = flag_of(object, "strip_right", true);
        return TR_OK;
    }
    return unknown(r, "normalizer", type,
                   "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, BertNormalizer, "
                   "Replace, Prepend, Strip and Precompiled");
}

static enum tr_status new_split(struct reader *r, enum tr_split_kind kind,
                                enum tr_split_behaviour behaviour, struct tr_split_step **out)
{
    struct tr_pipeline *p = r->p;

    *out = NULL;
    if (p->split_count == TR_SPLIT_STEPS)
        return BAD(r, "there are more than %d pre-tokenizers", TR_SPLIT_STEPS);
    if (r->byte_level)
        return BAD(r, "a pre-tokenizer stands behind ByteLevel, which is not supported");
    p->split = need(reallocarray(p->split, p->split_count + 1, sizeof *p->split));
    p->split[p->split_count] = (struct tr_split_step){.kind = kind, .behaviour = behaviour};
    *out = &p->split[p->split_count++];
    return TR_OK;
}

static enum tr_status take_behaviour(struct reader *r, const json_t *object,
                                     enum tr_split_behaviour *out)
{
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    const char *name = text_of(object, "behavior");

    for (int i = 0; i < 5; i++)
        if (strcmp(name ? name : "Isolated", names[i]) == 0) {
            *out = (enum tr_split_behaviour)i;
            return TR_OK;
        }
    return unknown(r, "behaviour of a pre-tokenizer", name,
                   "Removed, Isolated, MergedWithPrevious, MergedWithNext and Contiguous");
}

/* Expressions none of whose matches has a blank behind something that is not white space, so that texts may
   be cut there: those of GPT-2, Llama 3, Qwen 2, and digits. */
static bool has_cuts(const struct tr_split_step *s, const char *expression)
{
    static const char *const known[] = {
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
        "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
        "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        "\\p{N}",
        "\\p{N}{1,3}",
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (expression && strcmp(expression, known[i]) == 0)
            return s->behaviour == TR_SPLIT_ISOLATED && !s->invert;
    return false;
}

static enum tr_status take_split(struct reader *r, const json_t *object)
{
    struct tr_split_step *s;

    TR_TRY(new_split(r, TR_SPLIT_PATTERN, TR_SPLIT_ISOLATED, &s));
    TR_TRY(take_behaviour(r, object, &s->behaviour));
    s->invert = flag_of(object, "invert", false);
    r->known_patterns =
        r->known_patterns && has_cuts(s, text_of(json_object_get(object, "pattern"), "Regex"));
    return take_pattern(r, object, "pre-tokenizer Split", &s->pattern, &s->text);
}

static enum tr_status take_byte_level(struct reader *r, const json_t *object)
{
    struct tr_split_step *s;

    TR_TRY(new_split(r, TR_SPLIT_BYTE_LEVEL, TR_SPLIT_ISOLATED, &s));
    s->prepend = flag_of(object, "add_prefix_space", true) ? TR_PREPEND_ALWAYS : TR_PREPEND_NEVER;
    s->whole = !flag_of(object, "use_regex", true);
    r->known_patterns = r->known_patterns && s->prepend == TR_PREPEND_NEVER;
    r->byte_level = true;
    return TR_OK;
}

/* How Metaspace begins a text: also in files from before there was "prepend_scheme". */
static enum tr_status take_scheme(struct reader *r, const json_t *object,
                                  enum tr_split_prepend *out)
{
    static const char *const names[] = {"never", "first", "always"};
    const char *name = text_of(object, "prepend_scheme");

    if (!name)
        name = flag_of(object, "add_prefix_space", true) ? "always" : "never";
    for (int i = 0; i < 3; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (enum tr_split_prepend)i;
            return TR_OK;
        }
    return unknown(r, "prepend_scheme of Metaspace", name, "never, first and always");
}

static void set_replacement(struct tr_bytes *out, const json_t *object)
{
    const json_t *text = json_object_get(object, "replacement");

    if (json_is_string(text) && json_string_length(text) > 0)
        set_text(out, text);
    else
        tr_bytes_set(out, "\xe2\x96\x81", 3);
}

static enum tr_status take_metaspace(struct reader *r, const json_t *object)
{
    struct tr_split_step *s;

    TR_TRY(new_split(r, TR_SPLIT_METASPACE, TR_SPLIT_MERGED_WITH_NEXT, &s));
    set_replacement(&s->text, object);
    s->whole = !flag_of(object, "split", true);
    return take_scheme(r, object, &s->prepend);
}

#define WORD                                                                              \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\u200c\\u200d\\u24b6-\\u24e9\\x{1f130}-\\x{1f149}" \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"

/* Words and what else is neither word nor white space, by the expression of the Rust library. */
static enum tr_status take_whitespace(struct reader *r)
{
    struct tr_split_step *s;

    TR_TRY(new_split(r, TR_SPLIT_PATTERN, TR_SPLIT_REMOVED, &s));
    s->invert = true;
    return tr_pattern_open(r->path, "[" WORD "]+|[^" WORD "\\s]+", &s->pattern);
}

static enum tr_status take_simple_split(struct reader *r, const json_t *object, const char *type)
{
    struct tr_split_step *s;

    if (strcmp(type, "Whitespace") == 0)
        return take_whitespace(r);
    if (strcmp(type, "WhitespaceSplit") == 0)
        return new_split(r, TR_SPLIT_SPACES, TR_SPLIT_REMOVED, &s);
    if (strcmp(type, "BertPreTokenizer") == 0) {
        TR_TRY(new_split(r, TR_SPLIT_SPACES, TR_SPLIT_REMOVED, &s));
        return new_split(r, TR_SPLIT_PUNCTUATION, TR_SPLIT_ISOLATED, &s);
    }
    if (strcmp(type, "Punctuation") == 0) {
        TR_TRY(new_split(r, TR_SPLIT_PUNCTUATION, TR_SPLIT_ISOLATED, &s));
        return take_behaviour(r, object, &s->behaviour);
    }
    if (strcmp(type, "Digits") == 0)
        return new_split(r, TR_SPLIT_NUMBERS,
                         flag_of(object, "individual_digits", false) ? TR_SPLIT_ISOLATED
                                                                     : TR_SPLIT_CONTIGUOUS,
                         &s);
    return unknown(r, "pre-tokenizer", type,
                   "Sequence, ByteLevel, Split, Metaspace, BertPreTokenizer, Whitespace, "
                   "WhitespaceSplit, Digits and Punctuation");
}

static enum tr_status take_pretokenizer(struct reader *r, const json_t *object, int depth)
{
    const char *type = type_of(object);
    const json_t *child;
    size_t i;

    if (depth > DEEPEST)
        return BAD(r, "pre-tokenizers are more than %d deep in one another", DEEPEST);
    if (strcmp(type, "Sequence") == 0) {
        json_array_foreach(json_object_get(object, "pretokenizers"), i, child)
            TR_TRY(take_pretokenizer(r, child, depth + 1));
        return TR_OK;
    }
    if (strcmp(type, "ByteLevel") == 0)
        return take_byte_level(r, object);
    if (strcmp(type, "Split") == 0)
        return take_split(r, object);
    r->known_patterns = r->known_patterns && strcmp(type, "Digits") == 0;
    if (strcmp(type, "Metaspace") == 0)
        return take_metaspace(r, object);
    return take_simple_split(r, object, type);
}

static enum tr_status take_id(const struct reader *r, const char *what, const json_t *value,
                              int32_t *out)
{
    const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;

    *out = -1;
    if (id < 0 || id >= ID_LIMIT)
        return BAD(r, "the id of \"%.60s\" is not a number from 0 to %d", what, ID_LIMIT - 1);
    *out = (int32_t)id;
    return TR_OK;
}

static enum tr_status add_entry(struct reader *r, int32_t id, const char *text, size_t bytes,
                                double score)
{
    struct tr_subword *m = &r->p->model;
    struct tr_entry *e;

    if ((size_t)id >= m->count) {
        const size_t had = r->capacity;

        m->count = (size_t)id + 1;
        m->entries = tr_grow(m->entries, &r->capacity, m->count, sizeof *m->entries);
        memset(m->entries + had, 0, (r->capacity - had) * sizeof *m->entries);
    }
    e = &m->entries[id];
    if (e->text)
        return BAD(r, "\"%.60s\" and \"%.60s\" have the same id %d", e->text, text, id);
    e->text = need(malloc(bytes + 1));
    memcpy(e->text, text, bytes);
    e->text[bytes] = '\0';
    e->bytes = bytes;
    e->score = score;
    e->type = TR_ENTRY_NORMAL;
    tr_dict_put(r->spelled, text, bytes, id);
    return TR_OK;
}

/* An object from spelling to id. */
static enum tr_status take_vocab(struct reader *r, json_t *vocab)
{
    const char *text;
    json_t *value;
    int32_t id;

    if (!json_is_object(vocab) || json_object_size(vocab) == 0)
        return BAD(r, "the model has no \"vocab\", an object from token to id");
    json_object_foreach(vocab, text, value)
    {
        TR_TRY(take_id(r, text, value, &id));
        TR_TRY(add_entry(r, id, text, strlen(text), 0));
    }
    return TR_OK;
}

static enum tr_status add_merge(struct reader *r, const char *a, size_t a_bytes, const char *b,
                                size_t b_bytes, int32_t rank)
{
    char *both = need(malloc(a_bytes + b_bytes + 1));
    const int32_t left = tr_dict_get(r->spelled, a, a_bytes);
    const int32_t right = tr_dict_get(r->spelled, b, b_bytes);
    int32_t id;

    memcpy(both, a, a_bytes);
    memcpy(both + a_bytes, b, b_bytes);
    id = tr_dict_get(r->spelled, both, a_bytes + b_bytes);
    both[a_bytes + b_bytes] = '\0';
    if (left < 0 || right < 0 || id < 0) {
        const enum tr_status s =
            BAD(r, "merge %d makes \"%.60s\", but the vocabulary lacks it or one of its halves",
                rank, both);

        free(both);
        return s;
    }
    free(both);
    tr_pairs_put(r->p->model.pairs, left, right, rank, id);
    return TR_OK;
}

/* A line "a b", as in merges.txt too. */
static enum tr_status take_merge_line(struct reader *r, const char *line, size_t bytes,
                                      int32_t rank)
{
    const char *space = memchr(line, ' ', bytes);
    const size_t left = space ? (size_t)(space - line) : 0;

    if (left == 0 || left + 1 == bytes || memchr(space + 1, ' ', bytes - left - 1))
        return BAD(r, "merge %d is not two symbols with a blank between them", rank);
    return add_merge(r, line, left, space + 1, bytes - left - 1, rank);
}

static enum tr_status take_merges(struct reader *r, const json_t *merges)
{
    const json_t *m;
    size_t i;

    r->p->model.pairs = tr_pairs_new();
    if (!json_is_array(merges))
        return BAD(r, "the model has no \"merges\"");
    json_array_foreach(merges, i, m)
    {
        const json_t *a = json_array_get(m, 0), *b = json_array_get(m, 1);

        if (json_is_string(m))
            TR_TRY(take_merge_line(r, json_string_value(m), json_string_length(m), (int32_t)i));
        else if (json_array_size(m) == 2 && json_is_string(a) && json_is_string(b))
            TR_TRY(add_merge(r, json_string_value(a), json_string_length(a), json_string_value(b),
                             json_string_length(b), (int32_t)i));
        else
            return BAD(r, "merge %zu is neither a string nor a pair of them", i);
    }
    return TR_OK;
}

/* What joins words another way. */
static enum tr_status refuse_affixes(struct reader *r, const json_t *model)
{
    static const char *const names[] = {"continuing_subword_prefix", "end_of_word_suffix"};

    for (int i = 0; i < 2; i++) {
        const char *text = text_of(model, names[i]);

        if (text && *text)
            return BAD(r, "the BPE model has a \"%s\", \"%.60s\", which is not supported", names[i],
                       text);
    }
    if (json_number_value(json_object_get(model, "dropout")) > 0)
        return BAD(r, "the BPE model has a dropout, so its tokens would not be the same each time");
    return TR_OK;
}

/* The unknown token, by its name. */
static enum tr_status take_unknown(struct reader *r, const json_t *model)
{
    const char *text = text_of(model, "unk_token");

    r->p->model.unknown = text ? tr_dict_get(r->spelled, text, strlen(text)) : -1;
    if (text && r->p->model.unknown < 0)
        return BAD(r, "the unknown token \"%.60s\" is not in the vocabulary", text);
    return TR_OK;
}

static enum tr_status take_bpe(struct reader *r, json_t *model)
{
    struct tr_subword *m = &r->p->model;

    m->kind = TR_SUBWORD_BPE;
    m->byte_level = r->byte_level;
    m->byte_fallback = flag_of(model, "byte_fallback", false);
    m->fuse_unknown = flag_of(model, "fuse_unk", false);
    m->ignore_merges = flag_of(model, "ignore_merges", false);
    TR_TRY(refuse_affixes(r, model));
    TR_TRY(take_vocab(r, json_object_get(model, "vocab")));
    TR_TRY(take_unknown(r, model));
    return take_merges(r, json_object_get(model, "merges"));
}

static enum tr_status take_wordpiece(struct reader *r, json_t *model)
{
    const char *prefix = text_of(model, "continuing_subword_prefix");
    const json_t *longest = json_object_get(model, "max_input_chars_per_word");
    struct tr_subword *m = &r->p->model;

    m->kind = TR_SUBWORD_WORDPIECE;
    m->prefix = tr_format("%s", prefix ? prefix : "##");
    m->longest_word = json_is_integer(longest) && json_integer_value(longest) > 0
                          ? (size_t)json_integer_value(longest)
                          : 100;
    TR_TRY(take_vocab(r, json_object_get(model, "vocab")));
    return take_unknown(r, model);
}

/* Correctly rounded. */
static double power_of_ten(long power)
{
    char text[16];

    snprintf(text, sizeof text, "1e%ld", power);
    return strtod(text, NULL);
}

/*
 * A score as the reference reads it: its JSON reader divides the digits, as an integer, by a power of ten, which
 * may be off by one in the last place, and equal sums decide between segmentations.  The digits are the
 * fewest that give the number, as those who write such files print it.
 */
static double score_of(double score)
{
    char text[64], *end = NULL;
    uint64_t digits = 0;
    long power = 0;
    double f;

    for (int p = 0; p < 17; p++) {
        snprintf(text, sizeof text, "%.*e", p, score < 0 ? -score : score);
        if (strtod(text, NULL) == (score < 0 ? -score : score))
            break;
    }
    for (end = text; *end && *end != 'e'; end++) {
        if (*end == '.')
            continue;
        digits = digits * 10 + (uint64_t)(*end - '0');
        power -= end > text;
    }
    power += *end ? strtol(end + 1, NULL, 10) : 0;
    f = (double)digits;
    f = power < -300 || power > 300 ? score
        : power < 0                 ? f / power_of_ten(-power)
                                    : f * power_of_ten(power);
    return score < 0 && f > 0 ? -f : f;
}

static enum tr_status take_unigram(struct reader *r, json_t *model)
{
    const json_t *vocab = json_object_get(model, "vocab"), *pair;
    const json_t *unknown_id = json_object_get(model, "unk_id");
    struct tr_subword *m = &r->p->model;
    size_t i;

    m->kind = TR_SUBWORD_UNIGRAM;
    m->byte_fallback = flag_of(model, "byte_fallback", false);
    if (!json_is_array(vocab) || json_array_size(vocab) == 0)
        return BAD(r, "the model has no \"vocab\", a list of tokens with their scores");
    if (json_array_size(vocab) > ID_LIMIT)
        return BAD(r, "the vocabulary has more than %d tokens", ID_LIMIT);
    json_array_foreach(vocab, i, pair)
    {
        const json_t *text = json_array_get(pair, 0), *score = json_array_get(pair, 1);

        if (!json_is_string(text) || !json_is_number(score))
            return BAD(r, "entry %zu of the vocabulary is not a token with a score", i);
        TR_TRY(add_entry(r, (int32_t)i, json_string_value(text), json_string_length(text),
                         score_of(json_number_value(score))));
    }
    if (!json_is_integer(unknown_id))
        return BAD(r, "the Unigram model has no \"unk_id\", so not every text would have tokens");
    TR_TRY(take_id(r, "unk_id", unknown_id, &m->unknown));
    if ((size_t)m->unknown >= m->count)
        return BAD(r, "\"unk_id\" is %d, and the vocabulary has %zu tokens", m->unknown, m->count);
    return TR_OK;
}

static enum tr_status take_model(struct reader *r)
{
    json_t *model = json_object_get(r->root, "model");
    const char *type = type_of(model);

    if (!*type && json_object_get(model, "merges"))
        type = "BPE";
    if (r->byte_level && strcmp(type, "BPE") != 0)
        return BAD(r, "the pre-tokenizer ByteLevel with a model that is not BPE is not supported");
    if (strcmp(type, "BPE") == 0)
        return take_bpe(r, model);
    if (strcmp(type, "WordPiece") == 0)
        return take_wordpiece(r, model);
    if (strcmp(type, "Unigram") == 0)
        return take_unigram(r, model);
    return unknown(r, "model", type, "BPE, WordPiece and Unigram");
}

enum tr_status tr_huggingface_add(struct tr_pipeline *p, const char *path, const char *text,
                                  int64_t id, const json_t *rules)
{
    struct tr_added *a;

    if (id < 0 || id >= ID_LIMIT)
        return bad(path, "the id of the added token \"%.60s\" is not a number from 0 to %d", text,
                   ID_LIMIT - 1);
    for (size_t i = 0; i < p->added_count; i++)
        if (strcmp(p->added[i].text, text) == 0)
            return TR_OK;
    if (p->added_count == ADDED_LIMIT || !*text)
        return bad(path, "%s",
                   *text ? "there are too many added tokens" : "an added token is empty");
    if (tr_utf8_valid((const unsigned char *)text, strlen(text)) != strlen(text))
        return bad(path, "an added token is not UTF-8");
    p->added = need(reallocarray(p->added, p->added_count + 1, sizeof *p->added));
    a = &p->added[p->added_count++];
    *a = (struct tr_added){
        .id = (int32_t)id,
        .text = tr_format("%s", text),
        .bytes = strlen(text),
        .special = flag_of(rules, "special", rules == NULL),
        .left = flag_of(rules, "lstrip", false),
        .right = flag_of(rules, "rstrip", false),
        .single_word = flag_of(rules, "single_word", false),
    };
    a->normalized = flag_of(rules, "normalized", !a->special);
    return TR_OK;
}

static enum tr_status take_added(struct reader *r)
{
    const json_t *list = json_object_get(r->root, "added_tokens"), *one;
    size_t i;

    json_array_foreach(list, i, one)
    {
        const json_t *text = json_object_get(one, "content");
        int32_t id;

        if (!json_is_string(text) || strlen(json_string_value(text)) != json_string_length(text))
            return BAD(r, "added token %zu has no \"content\"", i);
        TR_TRY(take_id(r, json_string_value(text), json_object_get(one, "id"), &id));
        TR_TRY(tr_huggingface_add(r->p, r->path, json_string_value(text), id, one));
    }
    return TR_OK;
}

/* Ids before what there is, or behind it. */
static void put_around(struct tr_pipeline *p, const struct tr_tokens *before,
                       const struct tr_tokens *after)
{
    struct tr_tokens all = {0};

    for (size_t i = 0; i < before->count; i++)
        tr_tokens_add(&all, before->id[i]);
    for (size_t i = 0; i < p->before.count; i++)
        tr_tokens_add(&all, p->before.id[i]);
    free(p->before.id);
    p->before = all;
    for (size_t i = 0; i < after->count; i++)
        tr_tokens_add(&p->after, after->id[i]);
}

static enum tr_status take_template_part(struct reader *r, const json_t *post, const json_t *part,
                                         struct tr_tokens *into)
{
    const char *name = text_of(json_object_get(part, "SpecialToken"), "id");
    const json_t *ids = json_object_get(
        json_object_get(json_object_get(post, "special_tokens"), name ? name : ""), "ids");
    const json_t *value;
    size_t i;
    int32_t id;

    if (!name || !json_is_array(ids))
        return BAD(r, "the template of post_processor has a part that is neither the text nor a "
                      "special token with its ids");
    json_array_foreach(ids, i, value)
    {
        TR_TRY(take_id(r, name, value, &id));
        tr_tokens_add(into, id);
    }
    return TR_OK;
}

static enum tr_status take_template(struct reader *r, const json_t *post, struct tr_tokens *before,
                                    struct tr_tokens *after)
{
    const json_t *part;
    bool text = false;
    size_t i;

    json_array_foreach(json_object_get(post, "single"), i, part)
    {
        if (json_object_get(part, "Sequence"))
            text = true;
        else
            TR_TRY(take_template_part(r, post, part, text ? after : before));
    }
    return TR_OK;
}

static enum tr_status take_cls_sep(struct reader *r, const json_t *post, struct tr_tokens *before,
                                   struct tr_tokens *after)
{
    int32_t id;

    TR_TRY(take_id(r, "cls", json_array_get(json_object_get(post, "cls"), 1), &id));
    tr_tokens_add(before, id);
    TR_TRY(take_id(r, "sep", json_array_get(json_object_get(post, "sep"), 1), &id));
    tr_tokens_add(after, id);
    return TR_OK;
}

static enum tr_status take_post(struct reader *r, const json_t *post, int depth)
{
    struct tr_tokens before = {0}, after = {0};
    const char *type = type_of(post);
    enum tr_status s = TR_OK;
    const json_t *child;
    size_t i;

    if (depth > DEEPEST)
        return BAD(r, "post-processors are more than %d deep in one another", DEEPEST);
    if (strcmp(type, "Sequence") == 0) {
        json_array_foreach(json_object_get(post, "processors"), i, child)
            TR_TRY(take_post(r, child, depth + 1));
        return TR_OK;
    }
    if (strcmp(type, "TemplateProcessing") == 0)
        s = take_template(r, post, &before, &after);
    else if (strcmp(type, "RobertaProcessing") == 0 || strcmp(type, "BertProcessing") == 0)
        s = take_cls_sep(r, post, &before, &after);
    else if (strcmp(type, "ByteLevel") != 0)
        s = unknown(r, "post_processor", type,
                    "Sequence, TemplateProcessing, RobertaProcessing, BertProcessing and "
                    "ByteLevel");
    if (s == TR_OK)
        put_around(r->p, &before, &after);
    free(before.id);
    free(after.id);
    return s;
}

static enum tr_status new_decode(struct reader *r, enum tr_decode_kind kind,
                                 struct tr_decode_step **out)
{
    struct tr_pipeline *p = r->p;

    *out = NULL;
    if (p->decode_count == TR_DECODE_STEPS)
        return BAD(r, "there are more than %d decoders", TR_DECODE_STEPS);
    p->decode = need(reallocarray(p->decode, p->decode_count + 1, sizeof *p->decode));
    p->decode[p->decode_count] = (struct tr_decode_step){.kind = kind};
    *out = &p->decode[p->decode_count++];
    return TR_OK;
}

static bool is_fused(const struct tr_pipeline *p)
{
    for (size_t i = 0; i < p->decode_count; i++)
        if (p->decode[i].kind == TR_DECODE_FUSE || p->decode[i].kind == TR_DECODE_BYTE_LEVEL)
            return true;
    return false;
}

static enum tr_status take_decode_replace(struct reader *r, const json_t *object)
{
    const bool fused = is_fused(r->p);
    struct tr_pattern *pattern = NULL;
    struct tr_decode_step *s;
    uint32_t c;

    TR_TRY(new_decode(r, TR_DECODE_REPLACE, &s));
    if (!json_is_string(json_object_get(object, "content")))
        return BAD(r, "the decoder Replace has no \"content\"");
    set_text(&s->content, json_object_get(object, "content"));
    TR_TRY(take_pattern(r, object, "decoder Replace", &pattern, &s->text));
    if (pattern) {
        tr_pattern_close(pattern);
        return BAD(r, "the decoder Replace has a regular expression, which is not supported");
    }
    if (fused && tr_utf8_decode(s->text.data, s->text.count, &c) != s->text.count)
        return BAD(r, "the decoder Replace of several characters behind Fuse is not supported");
    return TR_OK;
}

static enum tr_status take_decode_strip(struct reader *r, const json_t *object)
{
    const json_t *left = json_object_get(object, "start"), *right = json_object_get(object, "stop");
    const json_t *content = json_object_get(object, "content");
    struct tr_decode_step *s;

    TR_TRY(new_decode(r, TR_DECODE_STRIP, &s));
    if (!json_is_string(content) || json_string_length(content) == 0 || !json_is_integer(left) ||
        !json_is_integer(right) || json_integer_value(left) < 0 || json_integer_value(right) < 0 ||
        json_integer_value(left) > INT_MAX || json_integer_value(right) > INT_MAX)
        return BAD(r, "the decoder Strip needs \"content\", \"start\" and \"stop\"");
    set_text(&s->text, content);
    s->left = (size_t)json_integer_value(left);
    s->right = (size_t)json_integer_value(right);
    return TR_OK;
}

static enum tr_status take_decode_words(struct reader *r, const json_t *object)
{
    const json_t *prefix = json_object_get(object, "prefix");
    struct tr_decode_step *s;

    TR_TRY(new_decode(r, TR_DECODE_WORDPIECE, &s));
    tr_bytes_set(&s->text, "##", 2);
    if (json_is_string(prefix))
        set_text(&s->text, prefix);
    s->cleanup = flag_of(object, "cleanup", true);
    return TR_OK;
}

static enum tr_status take_decode_metaspace(struct reader *r, const json_t *object)
{
    enum tr_split_prepend prepend;
    struct tr_decode_step *s;

    TR_TRY(new_decode(r, TR_DECODE_METASPACE, &s));
    set_replacement(&s->text, object);
    TR_TRY(take_scheme(r, object, &prepend));
    s->prefix = prepend != TR_PREPEND_NEVER;
    return TR_OK;
}

static enum tr_status take_decoder(struct reader *r, const json_t *object, int depth)
{
    const char *type = type_of(object);
    struct tr_decode_step *s;
    const json_t *child;
    size_t i;

    if (depth > DEEPEST)
        return BAD(r, "decoders are more than %d deep in one another", DEEPEST);
    if (strcmp(type, "Sequence") == 0) {
        json_array_foreach(json_object_get(object, "decoders"), i, child)
            TR_TRY(take_decoder(r, child, depth + 1));
        return TR_OK;
    }
    if (strcmp(type, "Replace") == 0)
        return take_decode_replace(r, object);
    if (strcmp(type, "Strip") == 0)
        return take_decode_strip(r, object);
    if (is_fused(r->p) && strcmp(type, "Fuse") != 0)
        return BAD(r, "the decoder %.40s stands behind Fuse or ByteLevel, which is not supported",
                   type);
    if (strcmp(type, "WordPiece") == 0)
        return take_decode_words(r, object);
    if (strcmp(type, "Metaspace") == 0)
        return take_decode_metaspace(r, object);
    if (strcmp(type, "ByteLevel") == 0)
        return new_decode(r, TR_DECODE_BYTE_LEVEL, &s);
    if (strcmp(type, "ByteFallback") == 0)
        return new_decode(r, TR_DECODE_BYTE_FALLBACK, &s);
    if (strcmp(type, "Fuse") == 0)
        return new_decode(r, TR_DECODE_FUSE, &s);
    return unknown(r, "decoder", type,
                   "Sequence, ByteLevel, WordPiece, Metaspace, ByteFallback, Fuse, Replace and "
                   "Strip");
}

static enum tr_status take_parts(struct reader *r)
{
    json_t *part = json_object_get(r->root, "normalizer");
    struct tr_decode_step *s;

    if (json_is_object(part))
        TR_TRY(take_normalizer(r, part, 0));
    part = json_object_get(r->root, "pre_tokenizer");
    if (json_is_object(part))
        TR_TRY(take_pretokenizer(r, part, 0));
    TR_TRY(take_model(r));
    TR_TRY(take_added(r));
    part = json_object_get(r->root, "post_processor");
    if (json_is_object(part))
        TR_TRY(take_post(r, part, 0));
    part = json_object_get(r->root, "decoder");
    if (json_is_object(part))
        TR_TRY(take_decoder(r, part, 0));
    if (r->p->decode_count == 0)
        TR_TRY(new_decode(r, TR_DECODE_JOIN, &s));
    r->p->cuts = r->byte_level && r->known_patterns;
    return tr_pipeline_finish(r->p, r->path);
}

/* Hand over what was read, or take it back. */
static enum tr_status end_reading(struct reader *r, enum tr_status s, struct tr_pipeline **out)
{
    tr_dict_free(r->spelled);
    json_decref(r->root);
    if (s == TR_OK)
        *out = r->p;
    else
        tr_pipeline_close(r->p);
    return s;
}

enum tr_status tr_huggingface_open(const char *path, struct tr_pipeline **out)
{
    struct reader r = {.path = path, .known_patterns = true};

    *out = NULL;
    TR_TRY(tr_huggingface_json(path, 0, &r.root));
    r.p = tr_pipeline_new("tokenizer.json");
    r.spelled = tr_dict_new();
    return end_reading(&r, take_parts(&r), out);
}

static enum tr_status take_merge_file(struct reader *r, const char *path)
{
    enum tr_status s = TR_OK;
    int32_t rank = 0;
    char *text, *end;

    TR_TRY(tr_file_text(path, FILE_LIMIT, &text));
    r->path = path;
    r->p->model.pairs = tr_pairs_new();
    for (char *line = text; *line && s == TR_OK; line = end) {
        size_t bytes = strcspn(line, "\n");

        end = line + bytes + (line[bytes] == '\n');
        bytes -= bytes > 0 && line[bytes - 1] == '\r';
        if (bytes == 0 || strncmp(line, "#version", 8) == 0)
            continue;
        s = take_merge_line(r, line, bytes, rank++);
    }
    free(text);
    return s;
}

static enum tr_status take_gpt2(struct reader *r, const char *merge_file, bool prefix_space)
{
    struct tr_split_step *split;
    struct tr_decode_step *decode;

    TR_TRY(take_vocab(r, r->root));
    TR_TRY(new_split(r, TR_SPLIT_BYTE_LEVEL, TR_SPLIT_ISOLATED, &split));
    split->prepend = prefix_space ? TR_PREPEND_ALWAYS : TR_PREPEND_NEVER;
    r->byte_level = r->p->model.byte_level = true;
    r->p->cuts = !prefix_space;
    TR_TRY(new_decode(r, TR_DECODE_BYTE_LEVEL, &decode));
    return take_merge_file(r, merge_file);
}

enum tr_status tr_huggingface_gpt2(const char *vocab_file, const char *merge_file,
                                   bool prefix_space, struct tr_pipeline **out)
{
    struct reader r = {.path = vocab_file};

    *out = NULL;
    TR_TRY(tr_huggingface_json(vocab_file, 0, &r.root));
    r.p = tr_pipeline_new("vocab.json and merges.txt");
    r.spelled = tr_dict_new();
    return end_reading(&r, take_gpt2(&r, merge_file, prefix_space), out);
}
