/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "data/crc32.h"
#include "data/folder.h"
#include "data/index.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(golden_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(golden_read, setup, teardown),
    };
    return run_tap(tests);
}
