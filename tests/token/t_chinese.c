/* SPDX-License-Identifier: BSD-3-Clause */
/* ChineseWordPiece: given ids, the loop over substrings of its published code on drawn words, and refused files. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/vocab.h"
#include "data/folder.h"
#include "token/tokenizer.h"
#include "token/utf8.h"
#include "util/rng.h"

static struct tr_tokenizer *open_vocab(const char *folder, const char *text, size_t bytes)
{
    char *path = tr_format("%s/vocab.txt", folder);
    struct tr_tokenizer *t;

    file_put(path, text, bytes);
    assert_ok(tr_tokenizer_open(TR_TOKENIZER_CHINESE, NULL, NULL, path, &t));
    free(path);
    return t;
}

static void encode(const struct tr_tokenizer *t, const char *text, struct tr_tokens *out)
{
    struct tr_tokenizer_thread *thread = tr_tokenizer_thread_open(t);
    struct tr_bad_utf8 bad;

    out->count = 0;
    assert_true(
        tr_tokenizer_encode(t, thread, (const unsigned char *)text, strlen(text), out, &bad));
    tr_tokenizer_thread_close(thread);
}

static void expect(const struct tr_tokenizer *t, const char *text, const char *ids)
{
    struct tr_tokens got = {0};
    char line[1024] = "";

    encode(t, text, &got);
    for (size_t i = 0; i < got.count; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s%d", i ? "," : "", got.id[i]);
    assert_string_equal(line, ids);
    free(got.id);
}

/* White space at the ends of lines is cut off, an ideographic space too. */
static const char small[] = "的\n中国 \n中\t\n国\r\nGPT\n##2\n人a\xe3\x80\x80\n<unk>";

static void given_ids(void **state)
{
    char *folder = folder_make(), hundred[101 * 3 + 1] = "";
    struct tr_tokenizer *t = open_vocab(folder, small, sizeof small - 1);

    (void)state;
    expect(t, "中国人", "1,7");
    expect(t, "GPT2", "4,5");
    expect(t, "国2", "3,5");
    expect(t, "人a2", "6,5");
    expect(t, "x中", "7,2");
    for (int i = 0; i < 101; i++)
        strcat(hundred, "中");
    expect(t, hundred, "7");
    hundred[300] = '\0';
    {
        struct tr_tokens got = {0};

        encode(t, hundred, &got);
        assert_int_equal(got.count, 100);
        free(got.id);
    }
    /* Punctuation and white space end words; letters keep their case; CJK characters do not. */
    expect(t, "中,2", "2,7,7");
    expect(t, "中\xe3\x80\x82国", "2,7,3");
    expect(t, "中\xe3\x80\x80国 \n GPT", "2,3,4");
    expect(t, "gpt", "7,7,7");
    expect(t, "", "");
    assert_int_equal(tr_tokenizer_vocab_size(t), 8);
    assert_int_equal(tr_tokenizer_eod(t), -1);
    tr_tokenizer_close(t);
    folder_remove(folder);
}

/* Of equal lines the last one counts, empty lines have numbers, and <eod> ends a document. */
static void numbers_of_lines(void **state)
{
    static const char text[] = "[UNK]\n中\n\n中\n<unk>\n[EOD]\n";
    char *folder = folder_make(), *path = tr_format("%s/vocab.txt", folder);
    struct tr_tokenizer *t = open_vocab(folder, text, sizeof text - 1);
    struct tr_vocab_file known;

    (void)state;
    expect(t, "中x", "3,4");
    assert_int_equal(tr_tokenizer_eod(t), 5);
    assert_ok(tr_tokenizer_count(TR_TOKENIZER_CHINESE, path, &known));
    assert_int_equal(known.size, 6);
    assert_int_equal(known.eod, 5);
    tr_tokenizer_close(t);
    free(path);
    folder_remove(folder);
}

/* ---- the loop of the published code, on a vocabulary of drawn entries ---- */

enum { ENTRIES = 400, LETTERS = 7, UNKNOWN = ENTRIES };
static const char *const letters[LETTERS] = {"a", "b",           "中", "国", "\xe4\xb7\xbf",
                                             "é", "\xe9\xbf\xbf"};

static uint32_t draw(uint64_t *n, uint32_t below)
{
    return tr_rng_u32(tr_rng_key(3, TR_STREAM_MOCK, 0, 0), (*n)++) % below;
}

static void draw_word(uint64_t *n, char *out, uint32_t most)
{
    const uint32_t count = 1 + draw(n, most);

    *out = '\0';
    for (uint32_t i = 0; i < count; i++)
        strcat(out, letters[draw(n, LETTERS)]);
}

static int look_up(char entry[][64], const char *key)
{
    for (int i = ENTRIES - 1; i >= 0; i--)
        if (strcmp(entry[i], key) == 0)
            return i;
    return -1;
}

static int is_chinese(const char *text)
{
    for (uint32_t c; *text; text += tr_utf8_decode((const unsigned char *)text, strlen(text), &c)) {
        assert_true(tr_utf8_decode((const unsigned char *)text, strlen(text), &c) > 0);
        if (c >= 0x4e00 && c <= 0x9fff)
            return 1;
    }
    return 0;
}

static void by_substrings(char entry[][64], const char *word, struct tr_tokens *out)
{
    const size_t bytes = strlen(word);
    size_t start = 0;

    out->count = 0;
    while (start < bytes) {
        size_t end = bytes;
        int id = -1;

        for (; end > start; end--) {
            char part[256], key[260];

            if (end < bytes && ((unsigned char)word[end] & 0xc0) == 0x80)
                continue;
            snprintf(part, sizeof part, "%.*s", (int)(end - start), word + start);
            snprintf(key, sizeof key, "%s%s", start > 0 && !is_chinese(part) ? "##" : "", part);
            id = look_up(entry, key);
            if (id >= 0)
                break;
        }
        if (id < 0) {
            uint32_t c;

            end = start + tr_utf8_decode((const unsigned char *)word + start, bytes - start, &c);
            id = UNKNOWN;
        }
        tr_tokens_add(out, id);
        start = end;
    }
}

static void drawn_words(void **state)
{
    static char entry[ENTRIES][64];
    char *folder = folder_make(), word[256];
    struct tr_bytes text = {0};
    struct tr_tokens want = {0}, got = {0};
    struct tr_tokenizer *t;
    uint64_t n = 0;

    (void)state;
    for (int i = 0; i < ENTRIES; i++) {
        strcpy(entry[i], draw(&n, 3) == 0 ? "##" : "");
        draw_word(&n, entry[i] + strlen(entry[i]), 4);
        tr_bytes_add(&text, entry[i], strlen(entry[i]));
        tr_bytes_add(&text, "\n", 1);
    }
    tr_bytes_add(&text, "<unk>", 5);
    t = open_vocab(folder, (const char *)text.data, text.count);
    for (int i = 0; i < 3000; i++) {
        draw_word(&n, word, 20);
        by_substrings(entry, word, &want);
        encode(t, word, &got);
        assert_int_equal(got.count, want.count);
        assert_memory_equal(got.id, want.id, got.count * sizeof *got.id);
    }
    tr_tokenizer_close(t);
    free(text.data);
    free(want.id);
    free(got.id);
    folder_remove(folder);
}

static void refused(const char *text, size_t bytes, const char *sentence)
{
    char *folder = folder_make(), *path = tr_format("%s/vocab.txt", folder);
    struct tr_tokenizer *t;

    file_put(path, text, bytes);
    assert_fails(TR_EDATA, sentence, tr_tokenizer_open(TR_TOKENIZER_CHINESE, NULL, NULL, path, &t));
    assert_null(t);
    free(path);
    folder_remove(folder);
}

static void refused_files(void **state)
{
    struct tr_tokenizer *t;

    (void)state;
    refused("a\nb\n", 4, "no token <unk> or [UNK]");
    refused("", 0, "no token <unk> or [UNK]");
    refused("<unk>\na\n\xff\n", 10, ":3: byte 0xff");
    refused("<unk>\na\0b\n", 10, ":2: byte 0x00");
    assert_fails(TR_EIO, "/none/vocab.txt",
                 tr_tokenizer_open(TR_TOKENIZER_CHINESE, NULL, NULL, "/none/vocab.txt", &t));
    assert_fails(TR_ECONFIG, "vocab.txt",
                 tr_tokenizer_open(TR_TOKENIZER_CHINESE, NULL, NULL, NULL, &t));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_ids),
        cmocka_unit_test(numbers_of_lines),
        cmocka_unit_test(drawn_words),
        cmocka_unit_test(refused_files),
    };

    return run_tap(tests);
}
