/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "token/tokenizer.h"
#include "token/utf8.h"
#include "config/config.h"
#include "config/vocab.h"
#include "util/file.h"

/* What RFC 3629 allows, counted: all characters but 2048 surrogates, by the length of their form. */
static void utf8_counts(void **state)
{
    static const int64_t expected[] = {0, 128, 1920, 65536 - 2048 - 2048, 1048576};
    int64_t found[5] = {0};
    uint32_t c, previous = 0;

    (void)state;
    for (uint32_t a = 0; a < 256; a++) {
        unsigned char one[4] = {(unsigned char)a, 0, 0, 0};

        found[1] += tr_utf8_decode(one, 1, &c) == 1;
        for (uint32_t b = 0; b < 256; b++) {
            unsigned char two[4] = {(unsigned char)a, (unsigned char)b, 0, 0};

            found[2] += tr_utf8_decode(two, 2, &c) == 2;
            for (uint32_t d = 0; d < 256; d++) {
                unsigned char three[4] = {(unsigned char)a, (unsigned char)b, (unsigned char)d, 0};

                found[3] += tr_utf8_decode(three, 3, &c) == 3;
                for (uint32_t e = 0; a >= 0xf0 && e < 256; e++) {
                    three[3] = (unsigned char)e;
                    if (tr_utf8_decode(three, 4, &c) != 4)
                        continue;
                    found[4]++;
                    /* In the order of their bytes characters are in order. */
                    assert_true(c > previous && c > 0xffff && c <= 0x10ffff);
                    previous = c;
                }
            }
        }
    }
    for (int i = 1; i <= 4; i++)
        assert_int_equal(found[i], expected[i]);
}

static void utf8_there_and_back(void **state)
{
    (void)state;
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        uint32_t again = 0;
        char text[4];
        size_t bytes = tr_utf8_encode(c, text);
        bool surrogate = c >= 0xd800 && c <= 0xdfff;

        assert_int_equal(tr_utf8_decode((unsigned char *)text, bytes, &again),
                         surrogate ? 0 : bytes);
        assert_true(surrogate || again == c);
        /* A truncated character is none. */
        assert_int_equal(tr_utf8_decode((unsigned char *)text, bytes - 1, &again), 0);
    }
}

static void utf8_runs(void **state)
{
    const unsigned char *text = (const unsigned char *)"0123456789abc\xc3\xa9\xff\x80\xe4\xb8z";

    (void)state;
    assert_int_equal(tr_utf8_valid(text, 20), 15);
    assert_int_equal(tr_utf8_invalid(text, 20), 0);
    assert_int_equal(tr_utf8_invalid(text + 15, 5), 4);
    assert_int_equal(tr_utf8_valid(text + 19, 1), 1);
    assert_int_equal(tr_utf8_valid(text, 0), 0);
    /* A wrong byte anywhere in or behind a word of eight is found. */
    for (size_t wrong = 0; wrong < 40; wrong++) {
        unsigned char plain[40];

        memset(plain, 'x', sizeof plain);
        plain[wrong] = 0x80;
        assert_int_equal(tr_utf8_valid(plain, sizeof plain), wrong);
    }
}

/* The 25 characters that PropList.txt of Unicode 15 lists as White_Space. */
static void utf8_spaces(void **state)
{
    int found = 0;

    (void)state;
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        char text[6] = "x";
        size_t bytes = tr_utf8_encode(c, text + 1);
        bool space = tr_utf8_space_at((unsigned char *)text + 1, bytes);

        found += space;
        assert_int_equal(tr_utf8_space_before((unsigned char *)text, bytes + 1), space);
    }
    assert_int_equal(found, 25);
    assert_false(tr_utf8_space_before((const unsigned char *)"", 0));
}

static void bytes(void **state)
{
    struct tr_tokenizer *t;
    struct tr_tokenizer_thread *thread;
    unsigned char text[256];
    struct tr_tokens ids = {0};
    struct tr_bad_utf8 bad;
    size_t n;

    (void)state;
    assert_ok(tr_tokenizer_open(TR_TOKENIZER_BYTES, NULL, NULL, NULL, &t));
    assert_int_equal(tr_tokenizer_vocab_size(t), TR_VOCAB_BYTES);
    assert_int_equal(tr_tokenizer_eod(t), 256);
    thread = tr_tokenizer_thread_open(t);
    for (int i = 0; i < 256; i++)
        text[i] = (unsigned char)(255 - i);
    assert_true(tr_tokenizer_encode(t, thread, text, 256, &ids, &bad));
    assert_int_equal(ids.count, 256);
    assert_int_equal(bad.bytes, 0);
    for (int i = 0; i < 256; i++) {
        assert_int_equal(ids.id[i], 255 - i);
        assert_int_equal((unsigned char)*tr_tokenizer_text(t, i, &n), i);
        assert_int_equal(n, 1);
    }
    assert_string_equal(tr_tokenizer_text(t, 256, &n), "<|endoftext|>");
    assert_int_equal(n, 13);
    assert_null(tr_tokenizer_text(t, 257, &n));
    assert_null(tr_tokenizer_text(t, -1, &n));
    assert_int_equal(tr_tokenizer_cut(t, text, 100), 100);
    free(ids.id);
    tr_tokenizer_thread_close(thread);
    tr_tokenizer_close(t);
}

static void gpt2_bpe(void **state)
{
    const char *srcdir = getenv("srcdir");
    char *vocab = tr_format("%s/tests/golden/bpe_vocab.json", srcdir ? srcdir : ".");
    char *merges = tr_format("%s/tests/golden/bpe_merges.txt", srcdir ? srcdir : ".");
    struct tr_tokenizer *t;
    struct tr_tokenizer_thread *thread;
    struct tr_config c;
    struct tr_bad_utf8 bad;
    int64_t size, eod;
    struct tr_tokens ids = {0};
    size_t n;

    (void)state;
    assert_ok(tr_tokenizer_open(TR_TOKENIZER_GPT2_BPE, vocab, merges, NULL, &t));
    assert_int_equal(tr_tokenizer_vocab_size(t), 657);
    assert_int_equal(tr_tokenizer_eod(t), 656);
    thread = tr_tokenizer_thread_open(t);
    assert_true(tr_tokenizer_encode(t, thread, (const unsigned char *)" the", 4, &ids, &bad));
    assert_int_equal(ids.count, 1);
    assert_memory_equal(tr_tokenizer_text(t, ids.id[0], &n), " the", 4);
    free(ids.id);
    assert_int_equal(n, 4);
    assert_int_equal(tr_tokenizer_cut(t, (const unsigned char *)"row on", 6), 3);
    /* Training reads its size from the same file. */
    tr_config_init(&c);
    assert_ok(tr_config_set(&c, "vocab-file", vocab));
    assert_ok(tr_vocab_of(&c, &size, &eod));
    assert_int_equal(size, tr_tokenizer_vocab_size(t));
    assert_int_equal(eod, tr_tokenizer_eod(t));
    tr_config_release(&c);
    tr_tokenizer_thread_close(thread);
    tr_tokenizer_close(t);
    free(vocab);
    free(merges);
}

static void wrong_files(void **state)
{
    struct tr_tokenizer *t;

    (void)state;
    assert_fails(TR_ECONFIG, "needs --vocab-file and --merge-file",
                 tr_tokenizer_open(TR_TOKENIZER_GPT2_BPE, NULL, NULL, NULL, &t));
    assert_fails(TR_ECONFIG, "needs --vocab-file and --merge-file",
                 tr_tokenizer_open(TR_TOKENIZER_GPT2_BPE, "v", NULL, NULL, &t));
    assert_fails(TR_ECONFIG, "leave out --merge-file",
                 tr_tokenizer_open(TR_TOKENIZER_BYTES, NULL, "m", NULL, &t));
    assert_fails(TR_ECONFIG, "cannot tokenize text",
                 tr_tokenizer_open(TR_TOKENIZER_NULL, NULL, NULL, NULL, &t));
    assert_fails(TR_EIO, "cannot open the vocabulary /no/such/file",
                 tr_tokenizer_open(TR_TOKENIZER_GPT2_BPE, "/no/such/file", "/nor/this", NULL, &t));
    assert_null(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_counts), cmocka_unit_test(utf8_there_and_back),
        cmocka_unit_test(utf8_runs),   cmocka_unit_test(utf8_spaces),
        cmocka_unit_test(bytes),       cmocka_unit_test(gpt2_bpe),
        cmocka_unit_test(wrong_files),
    };

    return run_tap(tests);
}
