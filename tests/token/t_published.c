/* SPDX-License-Identifier: BSD-3-Clause */
/* Tokenizers of published models: the tokens of tokenizers and sentencepiece, on the texts of tests/golden, and back. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "config/config.h"
#include "config/vocab.h"
#include "data/folder.h"
#include "token/folder.h"
#include "token/pattern.h"
#include "token/tokenizer.h"
#include "token/utf8.h"
#include "util/rng.h"

static const char *const names[] = {"gpt2.json",
                                    "llama3.json",
                                    "qwen2.json",
                                    "neox.json",
                                    "o200k.json",
                                    "deepseek.json",
                                    "roberta.json",
                                    "llama2.json",
                                    "metaspace.json",
                                    "unfused.json",
                                    "bert.json",
                                    "cased.json",
                                    "unigram.json",
                                    "lower.json",
                                    "sp_bpe.model",
                                    "sp_bpe_user.model",
                                    "sp_unigram.model",
                                    "sp_unigram_user.model",
                                    "sp_unigram_plain.model"};
enum { NAMES = sizeof names / sizeof *names };

static char *golden(const char *name)
{
    const char *srcdir = getenv("srcdir");

    return tr_format("%s/tests/golden/tok_%s", srcdir ? srcdir : ".", name);
}

static struct tr_tokenizer *open_golden(const char *name)
{
    const bool model = strstr(name, ".model") != NULL;
    char *path = golden(name);
    struct tr_tokenizer *t;

    assert_ok(tr_tokenizer_open(model ? TR_TOKENIZER_SENTENCEPIECE : TR_TOKENIZER_HUGGINGFACE, NULL,
                                NULL, path, &t));
    free(path);
    return t;
}

/* The bytes of a case. */
static size_t text_of(json_t *line, unsigned char *out, size_t most)
{
    json_t *text = json_object_get(line, "text");
    const char *hex = json_string_value(json_object_get(line, "hex"));
    size_t n = 0;

    if (text) {
        n = json_string_length(text);
        assert_true(n <= most);
        memcpy(out, json_string_value(text), n);
        return n;
    }
    for (assert_non_null(hex); hex[2 * n]; n++) {
        const char two[3] = {hex[2 * n], hex[2 * n + 1], '\0'};

        out[n] = (unsigned char)strtol(two, NULL, 16);
    }
    return n;
}

static void check_ids(const char *name, int number, json_t *want, const struct tr_tokens *got)
{
    if (got->count != json_array_size(want))
        fail_msg("%s, case %d: %zu tokens, expected %zu", name, number, got->count,
                 json_array_size(want));
    for (size_t i = 0; i < got->count; i++)
        if (got->id[i] != json_integer_value(json_array_get(want, i)))
            fail_msg("%s, case %d: token %zu is %d, expected %d", name, number, i, got->id[i],
                     (int)json_integer_value(json_array_get(want, i)));
}

/* Token by token, what has come out is whole characters at any time; in the end it is the reference's text. */
static void check_text(const struct tr_tokenizer *t, const char *name, int number, json_t *line,
                       const struct tr_tokens *ids)
{
    json_t *want = json_object_get(line, "decoded");
    struct tr_decoder *d = tr_decoder_open(t, 0);
    struct tr_bytes out = {0};

    want = want ? want : json_object_get(line, "text");
    /* Twice: the second text begins as the first did. */
    for (int round = 0; round < 2 && want; round++) {
        out.count = 0;
        for (size_t i = 0; i < ids->count; i++) {
            assert_true(tr_decoder_add(d, ids->id[i], &out));
            assert_int_equal(tr_utf8_valid(out.data, out.count), out.count);
        }
        tr_decoder_end(d, &out);
        if (out.count != json_string_length(want) ||
            (out.count > 0 && memcmp(out.data, json_string_value(want), out.count) != 0))
            fail_msg("%s, case %d: the text is \"%.*s\", expected \"%s\"", name, number,
                     (int)out.count, (const char *)out.data, json_string_value(want));
    }
    tr_decoder_close(d);
    free(out.data);
}

static void check_file(const char *name)
{
    struct tr_tokenizer *t = open_golden(name);
    struct tr_tokenizer_thread *thread = tr_tokenizer_thread_open(t);
    char *stem = tr_format("%.*s.cases", (int)(strchr(name, '.') - name), name);
    char *path = golden(stem), *text = NULL;
    unsigned char bytes[1 << 14];
    struct tr_tokens ids = {0};
    struct tr_bad_utf8 bad;
    size_t room = 0;
    int number = 0;

    /* Twice, so that the second time finds pieces in the cache. */
    for (int round = 0; round < 2; round++) {
        FILE *f = fopen(path, "re");

        assert_non_null(f);
        for (number = 1; getline(&text, &room, f) >= 0; number++) {
            json_t *line = json_loads(text, JSON_ALLOW_NUL, NULL);
            size_t n;

            assert_non_null(line);
            n = text_of(line, bytes, sizeof bytes);
            ids.count = 0;
            assert_true(tr_tokenizer_encode(t, thread, bytes, n, &ids, &bad));
            check_ids(name, number, json_object_get(line, "ids"), &ids);
            assert_int_equal(bad.bytes > 0, json_object_get(line, "hex") != NULL);
            check_text(t, name, number, line, &ids);
            json_decref(line);
        }
        fclose(f);
    }
    assert_true(number > 100);
    free(ids.id);
    free(text);
    free(path);
    free(stem);
    tr_tokenizer_thread_close(thread);
    tr_tokenizer_close(t);
}

static void golden_cases(void **state)
{
    (void)state;
    for (int i = 0; i < NAMES; i++)
        check_file(names[i]);
}

/* Byte-level vocabularies without a normalizer keep every byte. */
static void any_bytes_come_back(void **state)
{
    static const char *const kinds[] = {"gpt2.json", "llama3.json", "o200k.json"};

    (void)state;
    for (int k = 0; k < 3; k++) {
        struct tr_tokenizer *t = open_golden(kinds[k]);
        struct tr_tokenizer_thread *thread = tr_tokenizer_thread_open(t);
        struct tr_decoder *d = tr_decoder_open(t, TR_DECODE_RAW);

        for (uint64_t seed = 0; seed < 20; seed++) {
            struct tr_rng rng = tr_rng_key(seed, TR_STREAM_INIT, 1, 0);
            unsigned char text[2048];
            struct tr_tokens ids = {0};
            struct tr_bytes out = {0};
            struct tr_bad_utf8 bad;

            for (size_t i = 0; i < sizeof text; i++)
                text[i] = (unsigned char)tr_rng_u32(rng, i);
            assert_true(tr_tokenizer_encode(t, thread, text, sizeof text, &ids, &bad));
            assert_true(bad.bytes > 0);
            for (size_t i = 0; i < ids.count; i++)
                assert_true(tr_decoder_add(d, ids.id[i], &out));
            tr_decoder_end(d, &out);
            assert_int_equal(out.count, sizeof text);
            assert_memory_equal(out.data, text, sizeof text);
            free(ids.id);
            free(out.data);
        }
        tr_decoder_close(d);
        tr_tokenizer_thread_close(thread);
        tr_tokenizer_close(t);
    }
}

/* Where a text may be cut, its parts give the tokens of the whole. */
static void cuts_change_nothing(void **state)
{
    static const char *const bits[] = {"the ", "rowers\n",  "  ",   "\xe3\x80\x80", "it's ",
                                       "\n\n", "12 ",       "!\n",  " x",           "'ll",
                                       "\r\n", "e\xcc\x81", "\xff", "<|endoftext|>"};
    int64_t cuts = 0;

    (void)state;
    for (int k = 0; k < NAMES; k++) {
        struct tr_tokenizer *t = open_golden(names[k]);
        struct tr_tokenizer_thread *thread = tr_tokenizer_thread_open(t);

        for (uint64_t seed = 0; seed < 60; seed++) {
            struct tr_rng rng = tr_rng_key(seed, TR_STREAM_INIT, 0, 0);
            struct tr_tokens whole = {0}, parts = {0};
            struct tr_bytes text = {0};
            struct tr_bad_utf8 bad;
            size_t cut;

            for (uint64_t i = 0; i < 40; i++) {
                const char *bit = bits[tr_rng_u32(rng, i) % (sizeof bits / sizeof *bits)];

                tr_bytes_add(&text, bit, strlen(bit));
            }
            assert_true(tr_tokenizer_encode(t, thread, text.data, text.count, &whole, &bad));
            for (cut = tr_tokenizer_cut(t, text.data, text.count); cut > 0;
                 cut = tr_tokenizer_cut(t, text.data, cut)) {
                parts.count = 0;
                assert_true(tr_tokenizer_encode(t, thread, text.data, cut, &parts, &bad));
                assert_true(tr_tokenizer_encode(t, thread, text.data + cut, text.count - cut,
                                                &parts, &bad));
                assert_int_equal(parts.count, whole.count);
                assert_memory_equal(parts.id, whole.id, whole.count * sizeof *whole.id);
                cuts++;
            }
            free(whole.id);
            free(parts.id);
            free(text.data);
        }
        tr_tokenizer_thread_close(thread);
        tr_tokenizer_close(t);
    }
    assert_true(cuts > 1000);
}

/* One piece of half a megabyte: quadratic work would take an hour. */
static void long_pieces(void **state)
{
    enum { BYTES = 1 << 19 };
    unsigned char *text = malloc(BYTES);

    (void)state;
    assert_non_null(text);
    for (int k = 0; k < NAMES; k++) {
        struct tr_tokenizer *t = open_golden(names[k]);
        struct tr_tokenizer_thread *thread = tr_tokenizer_thread_open(t);

        for (int c = 0; c < 2; c++) {
            struct tr_tokens ids = {0};
            struct tr_bad_utf8 bad;

            memset(text, c ? ' ' : 'e', BYTES);
            assert_true(tr_tokenizer_encode(t, thread, text, BYTES, &ids, &bad));
            free(ids.id);
        }
        tr_tokenizer_thread_close(thread);
        tr_tokenizer_close(t);
    }
    free(text);
}

static void special_tokens(void **state)
{
    static const struct {
        const char *name;
        int before, after, first, last;
    } cases[] = {{"gpt2.json", 0, 0, -1, -1},
                 {"llama3.json", 1, 0, 1, -1},
                 {"bert.json", 1, 1, 2, 3},
                 {"sp_bpe.model", 0, 0, -1, -1},
                 {"roberta.json", 1, 1, -2, -2}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tr_tokenizer *t = open_golden(cases[i].name);
        const struct tr_tokens *before, *after;

        tr_tokenizer_special(t, &before, &after);
        assert_int_equal(before->count, cases[i].before);
        assert_int_equal(after->count, cases[i].after);
        if (cases[i].first >= 0)
            assert_int_equal(before->id[0], cases[i].first);
        if (cases[i].last >= 0)
            assert_int_equal(after->id[0], cases[i].last);
        tr_tokenizer_close(t);
    }
}

/* metaspace.json with another scheme and normalizer. */
static struct tr_tokenizer *open_metaspace(const char *scheme, const char *normalizer)
{
    char *folder = folder_make(), *path = golden("metaspace.json");
    char *file = tr_format("%s/tokenizer.json", folder);
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, NULL);
    struct tr_tokenizer *t;

    assert_non_null(root);
    json_object_set_new(json_object_get(root, "pre_tokenizer"), "prepend_scheme",
                        json_string(scheme));
    json_object_set_new(root, "normalizer", json_loads(normalizer, JSON_DECODE_ANY, NULL));
    assert_int_equal(json_dump_file(root, file, 0), 0);
    assert_ok(tr_tokenizer_open(TR_TOKENIZER_HUGGINGFACE, NULL, NULL, file, &t));
    json_decref(root);
    folder_remove(folder);
    free(file);
    free(path);
    return t;
}

static void encode_text(const struct tr_tokenizer *t, const char *text, struct tr_tokens *out)
{
    struct tr_tokenizer_thread *thread = tr_tokenizer_thread_open(t);
    struct tr_bad_utf8 bad;

    out->count = 0;
    assert_true(
        tr_tokenizer_encode(t, thread, (const unsigned char *)text, strlen(text), out, &bad));
    tr_tokenizer_thread_close(thread);
}

/* What a normalizer makes of a text, as the same file without one makes it of another. */
struct normalized {
    const char *normalizer, *text, *scheme, *same_as;
};

static void normalizers_give(const struct normalized *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct tr_tokenizer *one = open_metaspace("first", cases[i].normalizer);
        struct tr_tokenizer *other = open_metaspace(cases[i].scheme, "null");
        struct tr_tokens a = {0}, b = {0};

        encode_text(one, cases[i].text, &a);
        encode_text(other, cases[i].same_as, &b);
        if (a.count != b.count || memcmp(a.id, b.id, a.count * sizeof *a.id) != 0)
            fail_msg("case %zu, %s: \"%s\" has other tokens", i, cases[i].normalizer,
                     cases[i].text);
        free(a.id);
        free(b.id);
        tr_tokenizer_close(one);
        tr_tokenizer_close(other);
    }
}

/* Metaspace with "first" puts no blank before a text whose own first character a normalizer left out.  What is
   expected is what tokenizers 0.23.3 made of these. */
static void first_is_gone(void **state)
{
#define STRIP "{\"type\":\"Strip\",\"strip_left\":true,\"strip_right\":true}"
#define REPLACE(with) \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"x\"},\"content\":\"" with "\"}"
#define PREPEND(text) "{\"type\":\"Prepend\",\"prepend\":\"" text "\"}"
#define BOTH(a, b) "{\"type\":\"Sequence\",\"normalizers\":[" a "," b "]}"
#define BERT                                                                     \
    "{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":" \
    "true,\"strip_accents\":false,\"lowercase\":false}"
    static const struct normalized cases[] = {
        {STRIP, "ab", "first", "ab"},
        {STRIP, " ab", "never", "ab"},
        {"{\"type\":\"StripAccents\"}",
         "\xcc\x81"
         "ab",
         "never", "ab"},
        {"{\"type\":\"StripAccents\"}",
         "a\xcc\x81"
         "b",
         "first", "ab"},
        {BERT,
         "\xc2\xad"
         "ab",
         "never", "ab"},
        {BERT,
         "a\xc2\xad"
         "b",
         "first", "ab"},
        {REPLACE(""), "xab", "never", "ab"},
        {REPLACE(""), "axb", "first", "ab"},
        {REPLACE("yy"), "xab", "first", "yyab"},
        {BOTH(PREPEND("x"), REPLACE("")), "ab", "first", "ab"},
        {BOTH(PREPEND("x"), REPLACE("")), "xab", "never", "ab"},
        {BOTH(REPLACE(""), PREPEND("z")), "xab", "never", "zab"},
        {BOTH(REPLACE(""), PREPEND("z")), "ab", "first", "zab"}};

    (void)state;
    normalizers_give(cases, sizeof cases / sizeof *cases);
}

/* Capital letters that are newer than the utf8proc of Debian 12. */
static void newer_capitals(void **state)
{
#define LOWER(text)                  \
    BOTH("{\"type\":\"Lowercase\"}", \
         "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" text "\"},\"content\":\"ab\"}")
    static const struct normalized cases[] = {
        {LOWER("\xe1\xb2\x8a"), "x\xe1\xb2\x89", "first", "xab"},          /* U+1C89 */
        {LOWER("\xc9\xa4"), "x\xea\x9f\x8b", "first", "xab"},              /* U+A7CB */
        {LOWER("\xc6\x9b"), "x\xea\x9f\x9c", "first", "xab"},              /* U+A7DC */
        {LOWER("\xf0\x90\xb6\x85"), "x\xf0\x90\xb5\xa5", "first", "xab"},  /* U+10D65 */
        {LOWER("\xf0\x96\xbb\x93"), "x\xf0\x96\xba\xb8", "first", "xab"}}; /* U+16EB8 */

    (void)state;
    normalizers_give(cases, sizeof cases / sizeof *cases);
}
/* Special tokens have no text where they are skipped. */
static void skips_special(void **state)
{
    struct tr_tokenizer *t = open_golden("llama3.json");
    struct tr_decoder *d = tr_decoder_open(t, TR_DECODE_SKIP_SPECIAL);
    struct tr_bytes out = {0};

    (void)state;
    assert_true(tr_decoder_add(d, 1, &out));
    assert_int_equal(out.count, 0);
    assert_false(tr_decoder_add(d, 1 << 20, &out));
    assert_false(tr_decoder_add(d, -1, &out));
    tr_decoder_close(d);
    tr_tokenizer_close(t);
    free(out.data);
}

/* A folder as models have it: vocab.json and merges.txt give the tokens of tokenizer.json. */
static void gpt2_folder(void **state)
{
    static const char text[] = "The rowers<|endoftext|> it's 12345  \n\xe4\xb8\x89<pad> end";
    /* A model without a limit has the largest number that Python makes of 1e30. */
    static const char ends[] =
        "{\"bos_token\": \"<|begin_of_text|>\", \"add_bos_token\": true, \"eos_token\": "
        "{\"content\": \"<|endoftext|>\"}, \"added_tokens_decoder\": {\"450\": {\"content\": "
        "\"<pad>\", \"special\": true}}, \"model_max_length\": 1000000000000000019884624838656}";
    char *folder = folder_make(), *path = golden("gpt2.json");
    char *config = tr_format("%s/tokenizer_config.json", folder);
    char *vocab = tr_format("%s/vocab.json", folder), *merges = tr_format("%s/merges.txt", folder);
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, NULL), *m, *merge;
    struct tr_tokens a = {0}, b = {0};
    struct tr_tokenizer *one, *other, *other_one;
    struct tr_tokenizer_thread *thread;
    const struct tr_tokens *before, *after;
    struct tr_bad_utf8 bad;
    struct tr_config c;
    int64_t size, eod;
    FILE *f;
    size_t i;

    (void)state;
    assert_non_null(root);
    m = json_object_get(root, "model");
    assert_int_equal(json_dump_file(json_object_get(m, "vocab"), vocab, 0), 0);
    f = fopen(merges, "we");
    assert_non_null(f);
    fprintf(f, "#version: 0.2\n");
    json_array_foreach(json_object_get(m, "merges"), i, merge)
        fprintf(f, "%s\n", json_string_value(merge));
    fclose(f);
    file_put(config, ends, sizeof ends - 1);
    assert_ok(tr_tokenizer_open(TR_TOKENIZER_HUGGINGFACE, NULL, NULL, folder, &one));
    other = open_golden("gpt2.json");
    assert_int_equal(tr_tokenizer_vocab_size(one), tr_tokenizer_vocab_size(other) + 1);
    assert_int_equal(tr_tokenizer_eod(one), 0);
    assert_int_equal(tr_tokenizer_bos(one), 1);
    tr_tokenizer_special(one, &before, &after);
    assert_int_equal(before->count, 1);
    assert_int_equal(after->count, 0);
    thread = tr_tokenizer_thread_open(one);
    assert_true(
        tr_tokenizer_encode(one, thread, (const unsigned char *)text, sizeof text - 1, &a, &bad));
    tr_tokenizer_thread_close(thread);
    thread = tr_tokenizer_thread_open(other);
    assert_true(tr_tokenizer_encode(other, thread, (const unsigned char *)text,
                                    (size_t)(strstr(text, "<pad>") - text), &b, &bad));
    tr_tokenizer_thread_close(thread);
    assert_true(a.count > b.count + 1);
    assert_memory_equal(a.id, b.id, b.count * sizeof *b.id);
    assert_int_equal(a.id[b.count], 450);
    tr_tokenizer_close(one);
    /* The folder alone says what it is; with a vocabulary of gpt2-bpe beside it there are two. */
    assert_ok(tr_tokenizer_open(TR_TOKENIZER_GPT2_BPE, NULL, NULL, folder, &one));
    assert_int_equal(tr_tokenizer_bos(one), 1);
    assert_fails(TR_ECONFIG, "--tokenizer-model is for",
                 tr_tokenizer_open(TR_TOKENIZER_GPT2_BPE, vocab, merges, folder, &other_one));
    assert_true(tr_folder_has(folder));
    /* Training reads its size from the same folder. */
    tr_vocab_read_models_by(tr_tokenizer_count);
    tr_config_init(&c);
    assert_ok(tr_config_set(&c, "tokenizer-model", folder));
    assert_ok(tr_vocab_of(&c, &size, &eod));
    assert_int_equal(size, 451);
    assert_ok(tr_config_set(&c, "tokenizer-type", "HuggingFaceTokenizer"));
    assert_ok(tr_vocab_of(&c, &size, &eod));
    assert_int_equal(size, 451);
    assert_int_equal(eod, 0);
    tr_config_release(&c);
    tr_tokenizer_close(one);
    tr_tokenizer_close(other);
    json_decref(root);
    free(a.id);
    free(b.id);
    free(config);
    free(vocab);
    free(merges);
    free(path);
    folder_remove(folder);
}

/* A tokenizer.json that is like gpt2.json but for one part. */
static void assert_json_refused(const char *sentence, const char *key, const char *part)
{
    char *folder = folder_make(), *path = tr_format("%s/tokenizer.json", folder);
    char *good = golden("gpt2.json");
    json_t *root = json_load_file(good, JSON_ALLOW_NUL, NULL);
    struct tr_tokenizer *t;

    assert_non_null(root);
    assert_int_equal(json_object_set_new(root, key, json_loads(part, JSON_DECODE_ANY, NULL)), 0);
    assert_int_equal(json_dump_file(root, path, 0), 0);
    assert_fails(TR_EDATA, sentence,
                 tr_tokenizer_open(TR_TOKENIZER_HUGGINGFACE, NULL, NULL, folder, &t));
    assert_null(t);
    json_decref(root);
    free(path);
    free(good);
    folder_remove(folder);
}

static void refused_parts(void **state)
{
    static const char *const cases[][3] = {
        {"the normalizer \"Nmt\" is not supported", "normalizer", "{\"type\": \"Nmt\"}"},
        {"the pre-tokenizer \"UnicodeScripts\" is not supported", "pre_tokenizer",
         "{\"type\": \"UnicodeScripts\"}"},
        {"behind ByteLevel", "pre_tokenizer",
         "{\"type\": \"Sequence\", \"pretokenizers\": [{\"type\": \"ByteLevel\"}, {\"type\": "
         "\"Digits\"}]}"},
        {"behaviour of a pre-tokenizer \"Odd\"", "pre_tokenizer",
         "{\"type\": \"Split\", \"pattern\": {\"String\": \"x\"}, \"behavior\": \"Odd\"}"},
        {"none that PCRE2 takes", "pre_tokenizer",
         "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"(a\"}, \"behavior\": \"Isolated\"}"},
        {"the decoder \"CTC\" is not supported", "decoder", "{\"type\": \"CTC\"}"},
        {"the post_processor \"Odd\" is not supported", "post_processor", "{\"type\": \"Odd\"}"},
        {"ByteLevel with a model that is not BPE", "model",
         "{\"type\": \"Unigram\", \"vocab\": []}"},
        {"no \"vocab\"", "model", "{\"type\": \"BPE\", \"merges\": []}"},
        {"have the same id 0", "model",
         "{\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}"},
        {"is not a number from 0", "model",
         "{\"type\": \"BPE\", \"vocab\": {\"a\": -1}, \"merges\": []}"},
        {"merge 0 makes \"ab\"", "model",
         "{\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": [\"a b\"]}"},
        {"merge 0 is not two symbols", "model",
         "{\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a\"]}"},
        {"merge 0 is neither", "model",
         "{\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [1]}"},
        {"end_of_word_suffix", "model",
         "{\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"end_of_word_suffix\": "
         "\"</w>\"}"},
        {"dropout", "model",
         "{\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"dropout\": 0.1}"},
        {"unknown token \"u\"", "model",
         "{\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"unk_token\": \"u\"}"},
        {"added token 0 has no \"content\"", "added_tokens", "[{\"id\": 3}]"},
        {"is not a number from 0", "added_tokens", "[{\"content\": \"x\", \"id\": 3000000000}]"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_json_refused(cases[i][0], cases[i][1], cases[i][2]);
}

static void assert_model_refused(const char *sentence, const void *data, size_t bytes)
{
    char *folder = folder_make(), *path = tr_format("%s/tokenizer.model", folder);
    struct tr_tokenizer *t;

    file_put(path, data, bytes);
    assert_fails(TR_EDATA, sentence,
                 tr_tokenizer_open(TR_TOKENIZER_SENTENCEPIECE, NULL, NULL, folder, &t));
    assert_null(t);
    free(path);
    folder_remove(folder);
}

static void refused_models(void **state)
{
    char *path = golden("sp_bpe.model");
    struct tr_map m;

    (void)state;
    assert_model_refused("it has no pieces", "", 0);
    assert_model_refused("byte 0 is not part of", "\x0a\x7f", 2);
    assert_model_refused("piece 0 has no text", "\x0a\x00", 2);
    assert_model_refused("piece 0 is not UTF-8", "\x0a\x03\x0a\x01\xff", 5);
    assert_model_refused("piece 0 has a type",
                         "\x0a\x05\x0a\x01"
                         "a\x18\x09",
                         7);
    assert_model_refused("no piece is the unknown one",
                         "\x0a\x03\x0a\x01"
                         "a",
                         5);
    assert_model_refused("type word is not supported",
                         "\x0a\x05\x0a\x01"
                         "a\x18\x02\x12\x02\x18\x03",
                         11);
    assert_model_refused("are the same",
                         "\x0a\x05\x0a\x01"
                         "a\x18\x02\x0a\x03\x0a\x01"
                         "b\x0a\x03\x0a\x01"
                         "b",
                         17);
    assert_model_refused("a map of characters of 2 bytes",
                         "\x1a\x04\x12\x02"
                         "ab",
                         6);
    assert_ok(tr_map_open(path, &m));
    assert_model_refused("is not part of a SentencePiece model", m.data, m.bytes - 1);
    tr_map_close(&m);
    free(path);
}

static void put_piece(struct tr_bytes *m, const char *text, float score, unsigned char type)
{
    const unsigned char n = (unsigned char)strlen(text);
    const unsigned char head[] = {0x0a, (unsigned char)(n + 9), 0x0a, n}, kind[] = {0x18, type};

    tr_bytes_add(m, head, sizeof head);
    tr_bytes_add(m, text, n);
    tr_bytes_add(m, "\x15", 1);
    tr_bytes_add(m, &score, sizeof score);
    tr_bytes_add(m, kind, sizeof kind);
}

/*
 * After 10000 times -10 sums of SentencePiece begin anew, and only then "xy", "z" is seen to be better by 0.001
 * than "x", "yz", which comes first.  The counts are those at which version 0.2.3 changes its mind.
 */
static void coarse_sums(void **state)
{
    static const struct {
        int count;
        bool fine;
    } cases[] = {{10, true}, {9999, false}, {10000, true}, {20000, false}, {20001, true}};
    char *folder = folder_make(), *path = tr_format("%s/a.model", folder);
    struct tr_bytes m = {0}, text = {0};
    struct tr_tokenizer_thread *thread;
    struct tr_tokenizer *t;

    (void)state;
    put_piece(&m, "<unk>", 0, 2);
    put_piece(&m, "q", -10, 1);
    put_piece(&m, "x", -2.5F, 1);
    put_piece(&m, "y", -2.5F, 1);
    put_piece(&m, "z", -2.5F, 1);
    put_piece(&m, "xy", -5.0F, 1);
    put_piece(&m, "yz", -5.001F, 1);
    tr_bytes_add(&m, "\x1a\x04\x18\x00\x20\x00", 6);
    file_put(path, m.data, m.count);
    assert_ok(tr_tokenizer_open(TR_TOKENIZER_SENTENCEPIECE, NULL, NULL, path, &t));
    thread = tr_tokenizer_thread_open(t);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tr_tokens ids = {0};
        struct tr_bad_utf8 bad;

        text.count = 0;
        for (int k = 0; k < cases[i].count; k++)
            tr_bytes_add(&text, "q", 1);
        tr_bytes_add(&text, "xyz", 3);
        assert_true(tr_tokenizer_encode(t, thread, text.data, text.count, &ids, &bad));
        assert_int_equal(ids.count, cases[i].count + 2);
        assert_int_equal(ids.id[ids.count - 1], cases[i].fine ? 4 : 6);
        free(ids.id);
    }
    tr_tokenizer_thread_close(thread);
    tr_tokenizer_close(t);
    free(text.data);
    free(m.data);
    free(path);
    folder_remove(folder);
}

static void refused_folders(void **state)
{
    char *folder = folder_make();
    struct tr_tokenizer *t;

    (void)state;
    assert_fails(TR_EIO, "has no tokenizer",
                 tr_tokenizer_open(TR_TOKENIZER_HUGGINGFACE, NULL, NULL, folder, &t));
    assert_fails(TR_ECONFIG, "needs --tokenizer-model",
                 tr_tokenizer_open(TR_TOKENIZER_HUGGINGFACE, NULL, NULL, NULL, &t));
    assert_fails(TR_ECONFIG, "--tokenizer-model is for",
                 tr_tokenizer_open(TR_TOKENIZER_BYTES, NULL, NULL, folder, &t));
    assert_false(tr_folder_has(folder));
    assert_fails(TR_ECONFIG, "leave out --vocab-file",
                 tr_tokenizer_open(TR_TOKENIZER_SENTENCEPIECE, "v", NULL, folder, &t));
    folder_remove(folder);
}

/* Where Oniguruma and PCRE2 differ: each text is matched whole, or by as many bytes as are said. */
static void patterns(void **state)
{
    static const struct {
        const char *expression, *text;
        int bytes; /* of the match at the beginning; -1: none */
    } cases[] = {
        {"\\s+", " \xe1\xa0\x8e", 1}, /* U+180E is no white space */
        {"\\S", "\xe1\xa0\x8e", 3},
        {"[^\\S]", "\xc2\x85", 2},
        {"a{1,2}+", "aaaaa", 5}, /* not possessive: repeated */
        {"a{2}?", "aaa", 2},
        {"a{2}?b", "b", 1}, /* a choice */
        {"a{,2}", "aaa", 2},
        {"\\h+", "fFg", 2},
        {"\\p{L}+",
         "\xe4\xb8\xad"
         "a1",
         4},
        {"[^\\r\\n\\p{L}\\p{N}]?\\p{L}+", "-ab ", 3},
        {"(?i:'s|'t)", "'S", 2},
        {"(?i:'s)", "'\xc5\xbf", 3},
        {"\\p{L}", "\xf0\x96\xba\xa0", 4}, /* U+16EA0, newer than what PCRE2 of Debian 12 knows */
        {"\\p{N}+", "\xf0\x90\xb5\x80\xf0\x90\xb5\x81", 8}, /* so are U+10D40 and U+10D41 */
        {"[^\\p{N}]", "\xf0\x90\xb5\x80", -1},
        {"(?m:.)", "\n", 1},
        {".", "\n", -1},
        {"\\w+", "e\xcc\x81_1-", 5},
        {"\\u0041", "A", 1},
        {"\\w", "\xc2\xbd", 2},
        {"\\p{Han}", "\xe3\x80\x82", -1},
        {"\\p{Han}", "\xe4\xb8\xad", 3},
        {"\\p{^L}", "1", 1},
        {"x{", "x{", 2},
    };
    static const char *const refused[] = {"(a)\\1",    "[a[b]]", "[a&&b]", "\\bx",
                                          "\\Kx",      "(?~a)",  "[a",     "(",
                                          "\\p{Nope}", "\\g<1>", "\\",     "a**b)"};
    struct tr_match *m = tr_match_open();
    struct tr_pattern *p;
    size_t begin, end;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t bytes = strlen(cases[i].text);
        int n;

        assert_ok(tr_pattern_open("here", cases[i].expression, &p));
        n = tr_pattern_find(p, m, (const unsigned char *)cases[i].text, bytes, 0, &begin, &end);
        if ((cases[i].bytes < 0) != (n == 0) ||
            (n > 0 && (begin != 0 || (int)end != cases[i].bytes)))
            fail_msg("case %zu, %s: %d, %zu to %zu", i, cases[i].expression, n, begin, end);
        tr_pattern_close(p);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_fails(TR_EDATA, "here: the regular expression",
                     tr_pattern_open("here", refused[i], &p));
    tr_match_close(m);
}

/* A pattern that takes for ever is stopped. */
static void endless_pattern(void **state)
{
    struct tr_match *m = tr_match_open();
    struct tr_pattern *p;
    unsigned char text[60];
    size_t begin, end;

    (void)state;
    memset(text, 'a', sizeof text);
    assert_ok(tr_pattern_open("here", "(a+)+b|(a|a)+c", &p));
    /* PCRE2 may see that there is no b; either way it comes back. */
    assert_true(tr_pattern_find(p, m, text, sizeof text, 0, &begin, &end) <= 0);
    tr_pattern_close(p);
    assert_ok(tr_pattern_open("here", "(a|a)+(?!a).(?<=b)", &p));
    assert_int_equal(tr_pattern_find(p, m, text, sizeof text, 0, &begin, &end), -1);
    tr_pattern_close(p);
    tr_match_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_cases),        cmocka_unit_test(any_bytes_come_back),
        cmocka_unit_test(cuts_change_nothing), cmocka_unit_test(long_pieces),
        cmocka_unit_test(special_tokens),      cmocka_unit_test(first_is_gone),
        cmocka_unit_test(newer_capitals),      cmocka_unit_test(skips_special),
        cmocka_unit_test(gpt2_folder),         cmocka_unit_test(refused_parts),
        cmocka_unit_test(coarse_sums),         cmocka_unit_test(refused_models),
        cmocka_unit_test(refused_folders),     cmocka_unit_test(patterns),
        cmocka_unit_test(endless_pattern),
    };

    return run_tap(tests);
}
