/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "data/crc32.h"
#include "data/folder.h"
#include "data/indexed.h"
#include "util/rng.h"

static struct {
    char *folder, *prefix, *idx, *bin;
} at;

static int setup(void **state)
{
    (void)state;
    at.folder = folder_make();
    at.prefix = tr_format("%s/set", at.folder);
    at.idx = tr_format("%s.idx", at.prefix);
    at.bin = tr_format("%s.bin", at.prefix);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    folder_remove(at.folder);
    free(at.prefix);
    free(at.idx);
    free(at.bin);
    return 0;
}

static const int32_t first[] = {5, 6, 7}, second[] = {8, 50256};

static void write_golden(const char *prefix)
{
    struct tr_index_writer *w;

    assert_ok(tr_index_writer_open(prefix, tr_index_type_for(50257), &w));
    assert_ok(tr_index_writer_add(w, first, 3));
    assert_ok(tr_index_writer_add(w, second, 2));
    assert_int_equal(tr_index_writer_documents(w), 2);
    assert_int_equal(tr_index_writer_tokens(w), 5);
    assert_ok(tr_index_writer_close(w));
}

/* Length and CRC of the files that Megatron's own builder makes of these two documents. */
static void golden_bytes(void **state)
{
    static const unsigned char tokens[] = {5, 0, 6, 0, 7, 0, 8, 0, 0x50, 0xc4};
    struct tr_map map;

    (void)state;
    write_golden(at.prefix);
    assert_ok(tr_map_open(at.idx, &map));
    assert_int_equal(map.bytes, 82);
    assert_int_equal(crc32(map.data, map.bytes), 0x381568b9);
    tr_map_close(&map);
    assert_ok(tr_map_open(at.bin, &map));
    assert_int_equal(map.bytes, sizeof tokens);
    assert_memory_equal(map.data, tokens, sizeof tokens);
    tr_map_close(&map);
    assert_int_equal(folder_count(at.folder), 2);
}

static void golden_read(void **state)
{
    struct tr_index x;
    int32_t got[3];

    (void)state;
    write_golden(at.prefix);
    assert_ok(tr_index_open(at.prefix, &x));
    assert_int_equal(x.sequences, 2);
    assert_int_equal(x.documents, 2);
    assert_int_equal(x.tokens, 5);
    assert_int_equal(tr_index_length(&x, 0), 3);
    assert_int_equal(tr_index_length(&x, 1), 2);
    assert_int_equal(tr_index_document(&x, 2), 2);
    assert_int_equal(tr_index_document_of(&x, 1), 1);
    assert_ok(tr_index_read(&x, 0, 0, 3, 50257, got));
    assert_memory_equal(got, first, sizeof first);
    assert_ok(tr_index_read(&x, 1, 1, 1, 50257, got));
    assert_int_equal(got[0], 50256);
    assert_fails(TR_EDATA, "token 1 of document 1 (sequence 1)",
                 tr_index_read(&x, 1, 0, 2, 50256, got));
    assert_fails(TR_EDATA, "is 50256, but tokens here must be in 0 .. 50255",
                 tr_index_read(&x, 1, 0, 2, 50256, got));
    tr_index_close(&x);
}

/* The golden index with some bytes replaced. */
static void patch(const char *path, size_t offset, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "r+");

    assert_non_null(f);
    assert_int_equal(fseek(f, (long)offset, SEEK_SET), 0);
    assert_int_equal(fwrite(data, 1, bytes, f), bytes);
    assert_int_equal(fclose(f), 0);
}

static void damaged_index(void **state)
{
    static const struct {
        size_t offset, bytes;
        const char *data, *sentence;
    } cases[] = {
        {0, 8, "TNTIDX\0\0", "older TNTIDX format"},
        {0, 8,
         "\x7f"
         "ELFxxxx",
         "begins with the bytes 7f 45 4c 46"},
        {9, 1, "\2", "version 2"},
        {17, 1, "\6", "64-bit floats (type code 6)"},
        {17, 1, "\7", "before October 2023, 32-bit since (type code 7)"},
        {17, 1, "\0", "type code 0"},
        {17, 1, "\x09", "type code 9"},
        {18, 1, "\3", "82 bytes, too few for the 3 sequences and 3 document entries"},
        {18, 8, "\xff\xff\xff\xff\xff\xff\xff\xff", "too few for the 18446744073709551615"},
        {18, 8, "\x56\x55\x55\x55\x55\x55\x55\x15", "too few for"},
        {18, 1, "\1", "82 bytes, but 1 sequences and 3 document entries take 70"},
        {26, 8, "\0\0\0\0\0\0\0\0", "has no entry"},
        {26, 8, "\1\0\0\0\0\0\0\x20", "too few for"},
        {26, 1, "\2", "82 bytes, but 2 sequences and 2 document entries take 74"},
        {34, 4, "\xff\xff\xff\xff", "sequence 0 has -1 tokens"},
        {34, 1, "\4",
         "sequence 1 begins at byte 6 of the .bin, but the sizes of those before it "
         "come to 8"},
        {38, 1, "\1", "has 10 bytes, but its .idx says 8"},
        {38, 1, "\3", "has 10 bytes, but its .idx places tokens up to byte 12"},
        {42, 1, "\2", "sequence 0 begins at byte 2"},
        {50, 8, "\6\0\0\0\0\0\0\x80", "sequence 1 begins at byte -9223372036854775802"},
        {58, 1, "\1", "first document begins at sequence 1, not 0"},
        {66, 1, "\3", "document 2 begins at sequence 2 and the one before it at 3"},
        {74, 1, "\1", "end at sequence 1, but it has 2 sequences"},
    };
    struct tr_index x;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_golden(at.prefix);
        patch(at.idx, cases[i].offset, cases[i].data, cases[i].bytes);
        assert_fails(TR_EDATA, cases[i].sentence, tr_index_open(at.prefix, &x));
        assert_non_null(strstr(tr_last_error(), at.prefix));
    }
}

static void wrong_length(void **state)
{
    struct tr_index x;

    (void)state;
    write_golden(at.prefix);
    assert_int_equal(truncate(at.bin, 9), 0);
    assert_fails(TR_EDATA, "set.bin has 9 bytes", tr_index_open(at.prefix, &x));
    assert_int_equal(truncate(at.bin, 12), 0);
    assert_fails(TR_EDATA, "set.bin has 12 bytes, but its .idx says 10",
                 tr_index_open(at.prefix, &x));
    write_golden(at.prefix);
    assert_int_equal(truncate(at.idx, 84), 0);
    assert_fails(TR_EDATA, "text and images", tr_index_open(at.prefix, &x));
    assert_int_equal(truncate(at.idx, 81), 0);
    assert_fails(TR_EDATA, "81 bytes, too few", tr_index_open(at.prefix, &x));
    assert_int_equal(truncate(at.idx, 33), 0);
    assert_fails(TR_EDATA, "33 bytes, but its header alone takes 34", tr_index_open(at.prefix, &x));
    assert_int_equal(truncate(at.idx, 0), 0);
    assert_fails(TR_EDATA, "0 bytes", tr_index_open(at.prefix, &x));
}

/* What people type, and what we say. */
static void wrong_name(void **state)
{
    char *longer = tr_format("%s_text_document", at.prefix), *said;
    struct tr_index x;

    (void)state;
    assert_fails(TR_EIO, "is two files", tr_index_open(at.prefix, &x));
    write_golden(longer);
    said = tr_format("did you mean %s?", longer);
    assert_fails(TR_EIO, said, tr_index_open(at.prefix, &x));
    free(said);
    free(longer);
    write_golden(at.prefix);
    said = tr_format("so give %s without .bin", at.prefix);
    assert_fails(TR_EIO, said, tr_index_open(at.bin, &x));
    free(said);
    said = tr_format("so give %s without .idx", at.prefix);
    assert_fails(TR_EIO, said, tr_index_open(at.idx, &x));
    free(said);
    assert_int_equal(unlink(at.bin), 0);
    assert_fails(TR_EIO, "set.bin", tr_index_open(at.prefix, &x));
}

/* The file of every type, made here by hand from a value and its width. */
static void every_type(void **state)
{
    static const struct {
        enum tr_index_type type;
        int bytes;
        int32_t largest;
    } types[] = {
        {TR_INDEX_U8, 1, 255},        {TR_INDEX_I8, 1, 127},        {TR_INDEX_I16, 2, 32767},
        {TR_INDEX_I32, 4, INT32_MAX}, {TR_INDEX_I64, 8, INT32_MAX}, {TR_INDEX_U16, 2, 65535},
    };

    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct tr_index_writer *w;
        struct tr_index x;
        int32_t tokens[2] = {1, types[i].largest}, got[2];

        assert_ok(tr_index_writer_open(at.prefix, types[i].type, &w));
        assert_ok(tr_index_writer_add(w, tokens, 2));
        assert_ok(tr_index_writer_close(w));
        assert_ok(tr_index_open(at.prefix, &x));
        assert_int_equal(x.bin.bytes, 2 * types[i].bytes);
        assert_ok(tr_index_read(&x, 0, 0, 2, INT64_C(1) << 31, got));
        assert_memory_equal(got, tokens, sizeof got);
        assert_fails(TR_EDATA, "must be in", tr_index_read(&x, 0, 0, 2, types[i].largest, got));
        tr_index_close(&x);
        if (types[i].largest < INT32_MAX) {
            tokens[0] = types[i].largest + 1;
            assert_ok(tr_index_writer_open(at.prefix, types[i].type, &w));
            assert_fails(TR_EDATA, "cannot hold", tr_index_writer_add(w, tokens, 2));
            tr_index_writer_discard(w);
        }
    }
    assert_int_equal(tr_index_type_for(65499), TR_INDEX_U16);
    assert_int_equal(tr_index_type_for(65500), TR_INDEX_I32);
}

/* A negative token, and one beyond 32 bits: refused where they are read. */
static void tokens_out_of_range(void **state)
{
    static const int64_t wide[] = {7, INT64_C(1) << 32};
    struct tr_index_writer *w;
    struct tr_index x;
    int32_t tokens[] = {7, 0}, got[2];

    (void)state;
    assert_ok(tr_index_writer_open(at.prefix, TR_INDEX_I64, &w));
    assert_ok(tr_index_writer_add(w, tokens, 2));
    assert_ok(tr_index_writer_close(w));
    patch(at.bin, 0, wide, sizeof wide);
    assert_ok(tr_index_open(at.prefix, &x));
    assert_fails(TR_EDATA, "is 4294967296", tr_index_read(&x, 0, 0, 2, 100, got));
    patch(at.bin, 8, "\xff\xff\xff\xff\xff\xff\xff\xff", 8);
    assert_fails(TR_EDATA, "is -1", tr_index_read(&x, 0, 0, 2, 100, got));
    tr_index_close(&x);
    tokens[0] = -1;
    assert_ok(tr_index_writer_open(at.prefix, TR_INDEX_I32, &w));
    assert_fails(TR_EDATA, "token 0 of document 0 is -1", tr_index_writer_add(w, tokens, 2));
    tr_index_writer_discard(w);
}

/* More tokens and documents than one buffer holds, an empty document, and parts of both types. */
static void merge(void **state)
{
    enum { DOCUMENTS = 40000, MOST = 50000 };
    static const enum tr_index_type types[] = {TR_INDEX_I32, TR_INDEX_U16};
    char *part = tr_format("%s/part", at.folder);
    struct tr_index_writer *w;
    struct tr_index x, y;
    int32_t *tokens = malloc(MOST * sizeof *tokens), *got = malloc(MOST * sizeof *got);

    (void)state;
    for (int i = 0; i < MOST; i++)
        tokens[i] = i;
    assert_ok(tr_index_writer_open(part, TR_INDEX_U16, &w));
    assert_ok(tr_index_writer_add(w, tokens, MOST));
    for (int d = 1; d < DOCUMENTS; d++)
        assert_ok(tr_index_writer_add(w, tokens + d, d % 4));
    assert_ok(tr_index_writer_close(w));
    assert_ok(tr_index_open(part, &x));
    assert_int_equal(x.tokens, MOST + DOCUMENTS / 4 * 6);
    for (int t = 0; t < 2; t++) {
        assert_ok(tr_index_writer_open(at.prefix, types[t], &w));
        assert_ok(tr_index_writer_add(w, first, 3));
        assert_ok(tr_index_writer_append(w, &x));
        assert_ok(tr_index_writer_append(w, &x));
        assert_ok(tr_index_writer_close(w));
        assert_ok(tr_index_open(at.prefix, &y));
        assert_int_equal(y.type, types[t]);
        assert_int_equal(y.documents, 1 + 2 * DOCUMENTS);
        assert_int_equal(y.tokens, 3 + 2 * x.tokens);
        for (int d = 0; d < 2 * DOCUMENTS; d++) {
            int64_t length = tr_index_length(&x, d % DOCUMENTS);

            assert_int_equal(tr_index_document(&y, d + 1), d + 1);
            assert_int_equal(tr_index_length(&y, d + 1), length);
            assert_ok(tr_index_read(&y, d + 1, 0, length, MOST, got));
            assert_memory_equal(got, tokens + d % DOCUMENTS, (size_t)length * sizeof *got);
        }
        tr_index_close(&y);
    }
    tr_index_close(&x);
    free(part);
    free(tokens);
    free(got);
}

static void assert_same_files(const char *a, const char *b)
{
    static const char *const suffix[] = {".bin", ".idx"};

    for (int i = 0; i < 2; i++) {
        char *path[] = {tr_format("%s%s", a, suffix[i]), tr_format("%s%s", b, suffix[i])};
        struct tr_map map[2];

        assert_ok(tr_map_open(path[0], &map[0]));
        assert_ok(tr_map_open(path[1], &map[1]));
        assert_int_equal(map[0].bytes, map[1].bytes);
        assert_memory_equal(map[0].data, map[1].data, map[0].bytes);
        for (int k = 0; k < 2; k++) {
            tr_map_close(&map[k]);
            free(path[k]);
        }
    }
}

/* Documents written in parts, and appended a few at a time, are those written and appended whole. */
static void in_parts(void **state)
{
    enum { DOCUMENTS = 300, MOST = 40000 };
    static const enum tr_index_type types[] = {TR_INDEX_U16, TR_INDEX_I32, TR_INDEX_I64};
    char *whole = tr_format("%s/whole", at.folder), *part = tr_format("%s/part", at.folder);
    struct tr_rng r = tr_rng_key(3, TR_STREAM_INIT, 0, 0);
    int32_t *tokens = malloc(MOST * sizeof *tokens);
    uint64_t draw = 0;

    (void)state;
    for (int i = 0; i < MOST; i++)
        tokens[i] = MOST - i;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct tr_index_writer *one, *two;
        struct tr_index x;

        assert_ok(tr_index_writer_open(whole, types[t], &one));
        assert_ok(tr_index_writer_open(part, types[t], &two));
        for (int d = 0; d < DOCUMENTS; d++) {
            int64_t length = tr_rng_u32(r, draw++) % (d == 7 ? MOST : 50), done = 0;

            assert_ok(tr_index_writer_add(one, tokens, length));
            while (done < length) {
                int64_t n = tr_rng_u32(r, draw++) % (length - done + 1);

                assert_ok(tr_index_writer_extend(two, tokens + done, n));
                done += n;
            }
            assert_int_equal(tr_index_writer_tokens(two), tr_index_writer_tokens(one));
            assert_ok(tr_index_writer_end(two));
        }
        assert_ok(tr_index_writer_close(one));
        assert_ok(tr_index_writer_close(two));
        assert_same_files(whole, part);

        assert_ok(tr_index_open(whole, &x));
        for (size_t u = 0; u < sizeof types / sizeof *types; u++) {
            assert_ok(tr_index_writer_open(at.prefix, types[u], &one));
            assert_ok(tr_index_writer_append(one, &x));
            assert_ok(tr_index_writer_close(one));
            assert_ok(tr_index_writer_open(part, types[u], &two));
            for (int64_t d = 0, n; d < DOCUMENTS; d += n) {
                n = tr_rng_u32(r, draw++) % 40;
                n = n < DOCUMENTS - d ? n : DOCUMENTS - d;
                assert_ok(tr_index_writer_append_documents(two, &x, d, n));
            }
            assert_ok(tr_index_writer_close(two));
            assert_same_files(at.prefix, part);
        }
        tr_index_close(&x);
    }
    free(tokens);
    free(whole);
    free(part);
}

/* A document of several sequences, as --split-sentences makes them, keeps its place in a merge. */
static void merge_sentences(void **state)
{
    static const unsigned char one_document[] = {2, 0, 0, 0, 0, 0, 0, 0};
    char *both = tr_format("%s/both", at.folder);
    struct tr_index_writer *w;
    struct tr_index x, y;

    (void)state;
    write_golden(at.prefix);
    patch(at.idx, 66, one_document, 8);
    patch(at.idx, 26, one_document, 8);
    assert_int_equal(truncate(at.idx, 74), 0);
    assert_ok(tr_index_open(at.prefix, &x));
    assert_int_equal(x.documents, 1);
    assert_int_equal(tr_index_document_of(&x, 1), 0);
    assert_ok(tr_index_writer_open(both, TR_INDEX_U16, &w));
    assert_ok(tr_index_writer_append(w, &x));
    assert_ok(tr_index_writer_append(w, &x));
    assert_ok(tr_index_writer_close(w));
    assert_ok(tr_index_open(both, &y));
    assert_int_equal(y.sequences, 4);
    assert_int_equal(y.documents, 2);
    assert_int_equal(tr_index_document(&y, 1), 2);
    tr_index_close(&x);
    tr_index_close(&y);
    free(both);
}

static void nothing_left_behind(void **state)
{
    char *nowhere = tr_format("%s/none/set", at.folder);
    struct tr_index_writer *w;

    (void)state;
    assert_fails(TR_EIO, "none/set.bin.tmp", tr_index_writer_open(nowhere, TR_INDEX_U16, &w));
    assert_fails(TR_EDATA, "no type of tokens", tr_index_writer_open(at.prefix, TR_INDEX_F64, &w));
    assert_ok(tr_index_writer_open(at.prefix, TR_INDEX_U16, &w));
    assert_ok(tr_index_writer_add(w, first, 3));
    tr_index_writer_discard(w);
    tr_index_writer_discard(NULL);
    assert_int_equal(folder_count(at.folder), 0);
    free(nowhere);
}

static void empty_set(void **state)
{
    struct tr_index_writer *w;
    struct tr_index x;

    (void)state;
    assert_ok(tr_index_writer_open(at.prefix, TR_INDEX_U16, &w));
    assert_ok(tr_index_writer_close(w));
    assert_ok(tr_index_open(at.prefix, &x));
    assert_int_equal(x.documents + x.sequences + x.tokens, 0);
    tr_index_close(&x);
}

/* Everything that an open dataset offers lies inside its files. */
static void read_all(const struct tr_index *x)
{
    int32_t got[64];

    assert_int_equal(x->bin.bytes, x->tokens * x->type_bytes);
    for (int64_t d = 0; d < x->documents; d++)
        for (int64_t i = tr_index_document(x, d); i < tr_index_document(x, d + 1); i++) {
            assert_in_range(tr_index_length(x, i), 0, 64);
            if (tr_index_read(x, i, 0, tr_index_length(x, i), 1000, got) != TR_OK)
                assert_non_null(strstr(tr_last_error(), at.bin));
        }
}

/* Bytes changed, files truncated: an error with a sentence or a dataset that can be read, never a
   crash.  Both must come up, or the test would prove nothing. */
static void damage_at_random(void **state)
{
    enum { ROUNDS = 2000, DOCUMENTS = 12 };
    struct tr_rng r = tr_rng_key(2, TR_STREAM_INIT, 0, 0);
    int32_t tokens[DOCUMENTS];
    unsigned char *whole[2];
    const char *const path[2] = {at.bin, at.idx};
    size_t bytes[2];
    uint64_t draw = 0;
    int opened = 0;

    (void)state;
    for (int i = 0; i < DOCUMENTS; i++)
        tokens[i] = i;
    struct tr_index_writer *w;
    assert_ok(tr_index_writer_open(at.prefix, TR_INDEX_U16, &w));
    for (int i = 0; i < DOCUMENTS; i++)
        assert_ok(tr_index_writer_add(w, tokens, i % 5));
    assert_ok(tr_index_writer_close(w));
    for (int f = 0; f < 2; f++) {
        struct tr_map map;

        assert_ok(tr_map_open(path[f], &map));
        bytes[f] = map.bytes;
        whole[f] = malloc(bytes[f]);
        memcpy(whole[f], map.data, bytes[f]);
        tr_map_close(&map);
    }
    for (int i = 0; i < ROUNDS; i++) {
        struct tr_index x;
        int f = i % 4 != 0;
        size_t keep = bytes[f];
        unsigned char copy[1024];

        assert_in_range(bytes[f], 1, sizeof copy);
        memcpy(copy, whole[f], bytes[f]);
        if (i % 3 == 0)
            keep = tr_rng_u32(r, draw++) % bytes[f];
        for (int k = 0; k < 1 + i % 2; k++)
            copy[tr_rng_u32(r, draw) % bytes[f]] ^= (unsigned char)(tr_rng_u32(r, draw + 1) >> 24),
                draw += 2;
        file_put(path[f], copy, keep);
        file_put(path[!f], whole[!f], bytes[!f]);
        if (tr_index_open(at.prefix, &x) == TR_OK) {
            read_all(&x);
            tr_index_close(&x);
            opened++;
        } else {
            assert_non_null(strstr(tr_last_error(), at.prefix));
        }
    }
    assert_in_range(opened, ROUNDS / 20, ROUNDS - ROUNDS / 20);
    free(whole[0]);
    free(whole[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(golden_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(golden_read, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_index, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_length, setup, teardown),
        cmocka_unit_test_setup_teardown(wrong_name, setup, teardown),
        cmocka_unit_test_setup_teardown(every_type, setup, teardown),
        cmocka_unit_test_setup_teardown(tokens_out_of_range, setup, teardown),
        cmocka_unit_test_setup_teardown(merge, setup, teardown),
        cmocka_unit_test_setup_teardown(in_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(merge_sentences, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_left_behind, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_set, setup, teardown),
        cmocka_unit_test_setup_teardown(damage_at_random, setup, teardown),
    };
    return run_tap(tests);
}
