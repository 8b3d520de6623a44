/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "token/bpe.h"
#include "data/folder.h"
#include "util/rng.h"

/* The vocabulary of tests/golden, and one thread. */
struct fixture {
    struct tr_bpe *bpe;
    struct tr_bpe_thread *thread;
};

static char *golden(const char *name)
{
    const char *srcdir = getenv("srcdir");

    return tr_format("%s/tests/golden/%s", srcdir ? srcdir : ".", name);
}

static int open_fixture(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    char *vocab = golden("bpe_vocab.json"), *merges = golden("bpe_merges.txt");

    assert_non_null(f);
    assert_ok(tr_bpe_open(vocab, merges, &f->bpe));
    f->thread = tr_bpe_thread_open();
    free(vocab);
    free(merges);
    *state = f;
    return 0;
}

static int close_fixture(void **state)
{
    struct fixture *f = *state;

    tr_bpe_thread_close(f->thread);
    tr_bpe_close(f->bpe);
    free(f);
    return 0;
}

/* Tokens of a text, owned by the caller. */
static int32_t *encode(struct fixture *f, const void *text, size_t bytes, size_t *count,
                       struct tr_bad_utf8 *bad)
{
    int32_t *ids = calloc(bytes + 1, sizeof *ids);

    assert_non_null(ids);
    *count = tr_bpe_encode(f->bpe, f->thread, text, bytes, ids, bad);
    assert_true(*count <= bytes);
    return ids;
}

/* The tokens put together again are the text, to the byte. */
static void assert_decodes(struct fixture *f, const int32_t *ids, size_t count, const void *text,
                           size_t bytes)
{
    const char *at = text;

    for (size_t i = 0; i < count; i++) {
        size_t n;
        const char *piece = tr_bpe_token(f->bpe, ids[i], &n);

        assert_non_null(piece);
        assert_true(n <= (size_t)((const char *)text + bytes - at));
        assert_memory_equal(piece, at, n);
        at += n;
    }
    assert_ptr_equal(at, (const char *)text + bytes);
}

static void check_case(struct fixture *f, json_t *line, int number)
{
    json_t *want = json_object_get(line, "ids"), *text = json_object_get(line, "text");
    size_t count, bytes = json_string_length(text);
    struct tr_bad_utf8 bad;
    int32_t *ids = encode(f, json_string_value(text), bytes, &count, &bad);

    assert_int_equal(bad.bytes, 0);
    if (count != json_array_size(want))
        fail_msg("case %d: %zu tokens, expected %zu", number, count, json_array_size(want));
    for (size_t i = 0; i < count; i++)
        if (ids[i] != json_integer_value(json_array_get(want, i)))
            fail_msg("case %d: token %zu is %d, expected %d", number, i, ids[i],
                     (int)json_integer_value(json_array_get(want, i)));
    assert_decodes(f, ids, count, json_string_value(text), bytes);
    free(ids);
}

/* Twice, so that the second time finds words in the cache. */
static void golden_cases(void **state)
{
    char *path = golden("bpe_cases.jsonl"), *line = NULL;
    size_t room = 0;
    int number = 0;

    for (int round = 0; round < 2; round++) {
        FILE *file = fopen(path, "re");

        assert_non_null(file);
        for (number = 0; getline(&line, &room, file) >= 0; number++) {
            json_t *object = json_loads(line, JSON_ALLOW_NUL, NULL);

            assert_non_null(object);
            check_case(*state, object, number + 1);
            json_decref(object);
        }
        fclose(file);
    }
    assert_true(number > 300);
    free(line);
    free(path);
}

static void vocabulary(void **state)
{
    struct fixture *f = *state;
    size_t bytes;

    assert_int_equal(tr_bpe_vocab_size(f->bpe), 657);
    assert_int_equal(tr_bpe_eod(f->bpe), 656);
    assert_memory_equal(tr_bpe_token(f->bpe, 656, &bytes), "<|endoftext|>", 13);
    assert_int_equal(bytes, 13);
    assert_null(tr_bpe_token(f->bpe, 657, &bytes));
    assert_null(tr_bpe_token(f->bpe, -1, &bytes));
}

/* A document that spells the mark does not contain it. */
static void mark_is_text(void **state)
{
    struct fixture *f = *state;
    struct tr_bad_utf8 bad;
    size_t count;
    int32_t *ids = encode(f, "<|endoftext|>", 13, &count, &bad);

    for (size_t i = 0; i < count; i++)
        assert_int_not_equal(ids[i], tr_bpe_eod(f->bpe));
    free(ids);
}

static void empty_text(void **state)
{
    struct tr_bad_utf8 bad;
    size_t count;

    free(encode(*state, "", 0, &count, &bad));
    assert_int_equal(count, 0);
    assert_int_equal(bad.bytes, 0);
}

/*
 * Each longest run of invalid bytes is encoded as a piece of its own: the tokens are those of what is
 * before, of the run alone, and of what is after.
 */
static void invalid_runs(void **state)
{
    static const struct {
        const char *before, *run, *after;
    } cases[] = {
        {"the ", "\xff\xfe", "drum"},       {"", "\x80", ""},
        {"rowers ", "\xc0\xaf", " row"},    {"", "\xed\xa0\x80", "\xed\x9f\xbf"},
        {"cut ", "\xe4\xb8", ""},           {"a", "\xf4\x90\x80\x80", "\xf4\x8f\xbf\xbf"},
        {"\xe4\xb8\x89", "\xe4\xb8", "'s"}, {"x", "\xf0\x82\x82\xac\xf8\x88\xbf\xbf\xbf", "\n"},
        {"two  ", "\xc3", "\xc3\xa9"},      {"\xc3\xa9", "\xa9", "\xc3\xa9"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = tr_format("%s%s%s", cases[i].before, cases[i].run, cases[i].after);
        const char *parts[] = {cases[i].before, cases[i].run, cases[i].after};
        struct tr_bad_utf8 bad, part_bad;
        size_t count, at = 0, part_count;
        int32_t *ids = encode(f, text, strlen(text), &count, &bad);

        assert_int_equal(bad.bytes, strlen(cases[i].run));
        assert_int_equal(bad.first, strlen(cases[i].before));
        for (int k = 0; k < 3; k++) {
            int32_t *part = encode(f, parts[k], strlen(parts[k]), &part_count, &part_bad);

            assert_int_equal(part_bad.bytes, k == 1 ? bad.bytes : 0);
            assert_true(at + part_count <= count);
            assert_memory_equal(part, ids + at, part_count * sizeof *ids);
            at += part_count;
            free(part);
        }
        assert_int_equal(at, count);
        assert_decodes(f, ids, count, text, strlen(text));
        free(ids);
        free(text);
    }
}

/* Bytes that are likely to meet: white space of each length, its beginnings, letters, an apostrophe. */
static void random_text(unsigned char *text, size_t bytes, uint64_t seed)
{
    static const char *const bits[] = {" ",
                                       " ",
                                       "\n",
                                       "\t",
                                       "\xc2\xa0",
                                       "\xe2\x80\x83",
                                       "\xe3\x80\x80",
                                       "\xe2\x80",
                                       "\xc2",
                                       "a",
                                       "er",
                                       "the",
                                       "'s",
                                       "'",
                                       "1",
                                       "23",
                                       "\xc3\xa9",
                                       "\xe4\xb8\x89",
                                       "\xf0\x9f\x9a\xa3",
                                       "!",
                                       "\xff",
                                       "\xe1\x9a\x80",
                                       "\x80",
                                       "\xe2\x81\x9f"};
    struct tr_rng rng = tr_rng_key(seed, TR_STREAM_INIT, 0, 0);
    size_t at = 0;

    for (uint64_t i = 0; at < bytes; i++) {
        const char *bit = bits[tr_rng_u32(rng, i) % (sizeof bits / sizeof *bits)];
        size_t n = strlen(bit) < bytes - at ? strlen(bit) : bytes - at;

        memcpy(text + at, bit, n);
        at += n;
    }
}

static void any_bytes_come_back(void **state)
{
    unsigned char text[4096];

    for (uint64_t seed = 0; seed < 50; seed++) {
        struct tr_rng rng = tr_rng_key(seed, TR_STREAM_INIT, 1, 0);
        struct tr_bad_utf8 bad;
        size_t count;
        int32_t *ids;

        for (size_t i = 0; i < sizeof text; i++)
            text[i] = (unsigned char)tr_rng_u32(rng, i);
        ids = encode(*state, text, sizeof text, &count, &bad);
        assert_true(bad.bytes > 0);
        assert_decodes(*state, ids, count, text, sizeof text);
        free(ids);
    }
}

/* Wherever tr_bpe_cut() splits a text, the parts give the tokens of the whole. */
static void cuts_change_nothing(void **state)
{
    enum { BYTES = 200 };
    struct fixture *f = *state;
    unsigned char text[BYTES];
    int64_t cuts = 0;

    for (uint64_t seed = 0; seed < 400; seed++) {
        struct tr_bad_utf8 bad;
        size_t count, left, right;
        int32_t *whole;

        random_text(text, BYTES, seed);
        whole = encode(f, text, BYTES, &count, &bad);
        for (size_t cut = tr_bpe_cut(text, BYTES); cut > 0; cut = tr_bpe_cut(text, cut)) {
            int32_t *a = encode(f, text, cut, &left, &bad);
            int32_t *b = encode(f, text + cut, BYTES - cut, &right, &bad);

            assert_int_equal(left + right, count);
            assert_memory_equal(a, whole, left * sizeof *a);
            assert_memory_equal(b, whole + left, right * sizeof *b);
            free(a);
            free(b);
            cuts++;
        }
        free(whole);
    }
    /* About one in ten bytes: the test has something to test. */
    assert_true(cuts > 4000);
}

static void where_cuts_are(void **state)
{
    (void)state;
    assert_int_equal(tr_bpe_cut((const unsigned char *)"one two", 7), 3);
    assert_int_equal(tr_bpe_cut((const unsigned char *)"one  two  ", 10), 8);
    assert_int_equal(tr_bpe_cut((const unsigned char *)"  two", 5), 0);
    assert_int_equal(tr_bpe_cut((const unsigned char *)"two", 3), 0);
    assert_int_equal(tr_bpe_cut((const unsigned char *)"a\xe3\x80\x80"
                                                       "b",
                                5),
                     1);
    assert_int_equal(tr_bpe_cut((const unsigned char *)"", 0), 0);
}

/* One piece of a megabyte: quadratic work would take an hour. */
static void long_piece(void **state)
{
    enum { BYTES = 1 << 20 };
    char *text = malloc(BYTES);
    struct tr_bad_utf8 bad;
    size_t count;
    int32_t *ids;

    assert_non_null(text);
    memset(text, 'e', BYTES);
    ids = encode(*state, text, BYTES, &count, &bad);
    assert_decodes(*state, ids, count, text, BYTES);
    free(ids);
    memset(text, ' ', BYTES);
    ids = encode(*state, text, BYTES, &count, &bad);
    assert_decodes(*state, ids, count, text, BYTES);
    free(ids);
    free(text);
}

/* Put `vocab` and `merges` into files, and expect opening them to fail; NULL: no such file. */
static void assert_refused(enum tr_status status, const char *sentence, const char *vocab,
                           const char *merges)
{
    char *folder = folder_make();
    char *v = tr_format("%s/vocab.json", folder), *m = tr_format("%s/merges.txt", folder);
    struct tr_bpe *bpe;

    if (vocab)
        file_put(v, vocab, strlen(vocab));
    if (merges)
        file_put(m, merges, strlen(merges));
    assert_fails(status, sentence, tr_bpe_open(v, m, &bpe));
    assert_null(bpe);
    free(v);
    free(m);
    folder_remove(folder);
}

static void damaged_files(void **state)
{
    char *path = golden("bpe_vocab.json"), *vocab, *doubled;

    (void)state;
    assert_ok(tr_file_text(path, 1 << 20, &vocab));
    assert_refused(TR_EIO, "cannot open the vocabulary", NULL, "");
    assert_refused(TR_EDATA, "is not a JSON object", "{\"a\": 0", "");
    assert_refused(TR_EDATA, "is not a JSON object", "[1, 2]", "");
    assert_refused(TR_EDATA, "no GPT-2 vocabulary", "{\"a\": \"b\"}", "");
    assert_refused(TR_EDATA, "no GPT-2 vocabulary", "{\"a\": 0, \"b\": 0}", "");
    assert_refused(TR_EDATA, "no GPT-2 vocabulary", "{\"a\": 0, \"b\": 2}", "");
    assert_refused(TR_EDATA, "for the byte 0", "{\"a\": 0, \"b\": 1}", "");
    assert_refused(TR_EIO, "cannot open the merges", vocab, NULL);
    assert_refused(TR_EDATA, "merges.txt:2: \"one\" is not two symbols", vocab, "e r\none\n");
    assert_refused(TR_EDATA, "merges.txt:1: \"a b c\" is not two", vocab, "a b c\n");
    assert_refused(TR_EDATA, "merges.txt:1: \" b\" is not two", vocab, " b\n");
    assert_refused(TR_EDATA, "merges.txt:3 makes \"qz\"", vocab, "#version: 0.2\ne r\nq z\n");
    doubled = tr_format("%s}", vocab);
    assert_refused(TR_EDATA, "is not a JSON object", doubled, "");
    free(doubled);
    free(vocab);
    free(path);
}

/* Lines that end in "\r\n" and blank ones are as good, and a file without merges leaves bytes. */
static void merge_file_forms(void **state)
{
    char *folder = folder_make(), *vocab = golden("bpe_vocab.json");
    char *m = tr_format("%s/merges.txt", folder);
    const char *text = "#version: 0.2\r\ne r\r\n\r\n";
    struct fixture f;
    struct tr_bad_utf8 bad;
    size_t count, bytes;
    int32_t *ids;

    (void)state;
    file_put(m, text, strlen(text));
    assert_ok(tr_bpe_open(vocab, m, &f.bpe));
    f.thread = tr_bpe_thread_open();
    ids = encode(&f, "rower", 5, &count, &bad);
    assert_int_equal(count, 4);
    assert_memory_equal(tr_bpe_token(f.bpe, ids[3], &bytes), "er", 2);
    assert_int_equal(bytes, 2);
    free(ids);
    tr_bpe_thread_close(f.thread);
    tr_bpe_close(f.bpe);

    file_put(m, "", 0);
    assert_ok(tr_bpe_open(vocab, m, &f.bpe));
    f.thread = tr_bpe_thread_open();
    free(encode(&f, "rower", 5, &count, &bad));
    assert_int_equal(count, 5);
    tr_bpe_thread_close(f.thread);
    tr_bpe_close(f.bpe);
    free(m);
    free(vocab);
    folder_remove(folder);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)
    const struct CMUnitTest tests[] = {
        WITH(golden_cases),
        WITH(vocabulary),
        WITH(mark_is_text),
        WITH(empty_text),
        WITH(invalid_runs),
        WITH(any_bytes_come_back),
        WITH(cuts_change_nothing),
        cmocka_unit_test(where_cuts_are),
        WITH(long_piece),
        cmocka_unit_test(damaged_files),
        cmocka_unit_test(merge_file_forms),
    };

    return run_tap(tests);
}
