/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "data/crc32.h"
#include "data/folder.h"
#include "data/samples.h"
#include "util/rng.h"

/* Two synthetic datasets: 20 + (37 i mod 101) tokens, and 1 + (7919 i mod 997). */
static int32_t small[50], large[10000];

static int fill(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++)
        small[i] = 20 + 37 * i % 101;
    for (int i = 0; i < 10000; i++)
        large[i] = 1 + 7919 * i % 997;
    return 0;
}

static struct tr_samples_spec spec_of(const int32_t *sizes, int64_t last, int64_t seq,
                                      int64_t wanted)
{
    struct tr_samples_spec spec = {(const unsigned char *)sizes, 0, last, seq, wanted, 1234};

    return spec;
}

/* Numbers and CRCs of the maps that Megatron's own code makes of these sizes. */
static void same_as_megatron(void **state)
{
    static const struct {
        const int32_t *sizes;
        int64_t last, seq, wanted, tokens, epochs;
        bool separate;
        int64_t rows;
        uint32_t document, row, shuffle;
    } cases[] = {
        {small, 47, 32, 60, 3264, 1, false, 102, 0xe3c28caa, 0xb097d7f3, 0x9a029d3f},
        {small, 47, 32, 150, 3264, 2, true, 204, 0xde1c5344, 0x87453bcc, 0x35d1a695},
        {small, 47, 32, 230, 3264, 3, true, 306, 0x858ebadf, 0xd0a57d22, 0xef34e4ea},
        {large, 9490, 1024, 4000, 4740375, 1, false, 4630, 0x36e92f3f, 0x948fc19f, 0xb71364f6},
        {large, 9490, 1024, 8000, 4740375, 2, true, 9259, 0x14e61d27, 0x6a091bcd, 0xfa6d6de4},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tr_samples_spec spec =
            spec_of(cases[i].sizes, cases[i].last, cases[i].seq, cases[i].wanted);
        struct tr_samples x;

        assert_ok(tr_samples_make(&spec, "test", &x));
        assert_int_equal(x.tokens, cases[i].tokens);
        assert_int_equal(x.epochs, cases[i].epochs);
        assert_int_equal(x.early < x.count, cases[i].separate);
        assert_int_equal(x.count + 1, cases[i].rows);
        assert_int_equal(crc32(x.document, (size_t)x.entries * 4), cases[i].document);
        assert_int_equal(crc32(x.row, (size_t)(x.count + 1) * 8), cases[i].row);
        assert_int_equal(crc32(x.shuffle, (size_t)x.count * 4), cases[i].shuffle);
        assert_ok(tr_samples_verify(&x, NULL));
        tr_samples_close(&x);
    }
}

/* Cases that the others leave out, from a program of twenty lines on numpy's RandomState: several
   passes shuffled together, many passes, other seeds, a split that begins in the middle. */
static void same_as_numpy(void **state)
{
    static const struct {
        int64_t seq, wanted;
        uint32_t seed;
        int64_t epochs, rows;
        bool separate;
        uint32_t document, row, shuffle;
    } cases[] = {
        {32, 190, 1234, 2, 209, false, 0x362a45af, 0x99258a48, 0x75e93f67},
        {32, 200, 7, 2, 209, false, 0x44e108c7, 0x7d23a681, 0x3a109a0a},
        {5, 100000, 99, 151, 100566, true, 0x5112d121, 0x24a6191e, 0x881c1cd1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tr_samples_spec spec = spec_of(small, 50, cases[i].seq, cases[i].wanted);
        struct tr_samples x;

        spec.first = 3;
        spec.seed = cases[i].seed;
        assert_ok(tr_samples_make(&spec, "test", &x));
        assert_int_equal(x.epochs, cases[i].epochs);
        assert_int_equal(x.early < x.count, cases[i].separate);
        assert_int_equal(x.count + 1, cases[i].rows);
        assert_int_equal(crc32(x.document, (size_t)x.entries * 4), cases[i].document);
        assert_int_equal(crc32(x.row, (size_t)(x.count + 1) * 8), cases[i].row);
        assert_int_equal(crc32(x.shuffle, (size_t)x.count * 4), cases[i].shuffle);
        assert_ok(tr_samples_verify(&x, NULL));
        tr_samples_close(&x);
    }
}

static void heads(void **state)
{
    static const int32_t document[] = {8, 46, 14, 41, 29, 43, 4, 31, 13, 18, 36, 42};
    static const int32_t row[] = {0, 0, 0, 32, 0, 64, 0, 96, 1, 14, 1, 46};
    static const uint32_t shuffle[] = {29, 61, 6, 54, 88, 99, 69, 82};
    struct tr_samples_spec spec = spec_of(small, 47, 32, 60);
    struct tr_samples x;

    (void)state;
    assert_ok(tr_samples_make(&spec, "test", &x));
    assert_memory_equal(x.document, document, sizeof document);
    assert_memory_equal(x.row, row, sizeof row);
    assert_memory_equal(x.shuffle, shuffle, sizeof shuffle);
    tr_samples_close(&x);
}

/* The rule of the last epoch at its edge.  100 tokens and s = 1 give 99 samples in the first pass
   and 99 per epoch; int(0.8 * 99) = 79, so 78 samples of the second pass are shuffled separately
   and 79 not. */
static void last_epoch(void **state)
{
    static const int32_t sizes[] = {60, 40};
    struct tr_samples_spec spec = spec_of(sizes, 2, 1, 99 + 78);
    struct tr_samples x;

    (void)state;
    assert_ok(tr_samples_plan(&spec, "test", &x));
    assert_int_equal(x.epochs, 2);
    assert_int_equal(x.count, 199);
    assert_int_equal(x.early, 99);
    spec.wanted++;
    assert_ok(tr_samples_plan(&spec, "test", &x));
    assert_int_equal(x.epochs, 2);
    assert_int_equal(x.early, 199);
    spec.wanted = 199;
    assert_ok(tr_samples_plan(&spec, "test", &x));
    assert_int_equal(x.epochs, 2);
    spec.wanted = 200;
    assert_ok(tr_samples_plan(&spec, "test", &x));
    assert_int_equal(x.epochs, 3);
}

static void refusals(void **state)
{
    static const int32_t nothing[] = {0, 0}, one[] = {1, 0};
    struct tr_samples_spec spec = spec_of(nothing, 2, 8, 1);
    struct tr_samples x;

    (void)state;
    assert_fails(TR_EDATA, "test has no tokens in its sequences 0 to 1",
                 tr_samples_plan(&spec, "test", &x));
    spec = spec_of(one, 2, 8, INT64_C(1) << 40);
    assert_fails(TR_EDATA, "only 1 tokens", tr_samples_plan(&spec, "test", &x));
    spec.wanted = INT64_MAX / 8;
    assert_fails(TR_EDATA, "more than index maps can count", tr_samples_plan(&spec, "test", &x));
}

/* The maps of so many samples do not fit into a test, but their plan does: numpy's u4 gives way to
   i8 at 2^32 - 2. */
static void many_samples(void **state)
{
    int32_t sizes[3] = {INT32_MAX, INT32_MAX, 1};
    struct tr_samples_spec spec = spec_of(sizes, 2, 1, 1);
    struct tr_samples x;

    (void)state;
    sizes[1] = INT32_MAX - 1;
    assert_ok(tr_samples_plan(&spec, "test", &x));
    assert_int_equal(x.count, (INT64_C(1) << 32) - 4);
    assert_string_equal(x.array[TR_MAP_SHUFFLE].type, "<u4");
    spec.last = 3;
    sizes[1] = INT32_MAX;
    assert_ok(tr_samples_plan(&spec, "test", &x));
    assert_int_equal(x.count, (INT64_C(1) << 32) - 2);
    assert_string_equal(x.array[TR_MAP_SHUFFLE].type, "<i8");
}

/* A dataset whose tokens count up through all of it: token t of the whole is t. */
static void write_counting(const char *prefix, const int32_t *sizes, int n)
{
    struct tr_index_writer *w;
    int32_t next = 0;

    assert_ok(tr_index_writer_open(prefix, TR_INDEX_I32, &w));
    for (int i = 0; i < n; i++) {
        int32_t *tokens = malloc((size_t)(sizes[i] + 1) * sizeof *tokens);

        for (int k = 0; k < sizes[i]; k++)
            tokens[k] = next++;
        assert_ok(tr_index_writer_add(w, tokens, sizes[i]));
        free(tokens);
    }
    assert_ok(tr_index_writer_close(w));
}

/* Each sample against the tokens of the shuffled documents laid end to end: sample j begins at
   token j s of that text. */
static void text_of_samples(void **state)
{
    enum { N = 9, SEQ = 7, LIMIT = 1000 };
    static const int32_t sizes[N] = {5, 0, 40, 1, 1, 3, 0, 22, 8};
    char *folder = folder_make(), *prefix = tr_format("%s/set", folder);
    int32_t all[3 * 80], got[SEQ + 1], n = 0, refused = 0;
    struct tr_samples_spec spec;
    struct tr_samples x;
    struct tr_index index;

    (void)state;
    write_counting(prefix, sizes, N);
    assert_ok(tr_index_open(prefix, &index));
    spec = (struct tr_samples_spec){index.sizes, 0, N, SEQ, 25, 99};
    assert_ok(tr_samples_make(&spec, "test", &x));
    assert_int_equal(x.epochs, 3);
    for (int64_t i = 0; i < x.entries; i++) {
        int32_t size = sizes[x.document[i]];

        assert_ok(tr_index_read(&index, x.document[i], 0, size, LIMIT, all + n));
        n += size;
    }
    assert_int_equal(n, 3 * 80);
    for (int64_t k = 0; k < x.count; k++) {
        assert_ok(tr_samples_get(&x, &index, k, LIMIT, got));
        assert_memory_equal(got, all + SEQ * x.shuffle[k], sizeof got);
    }
    for (int64_t k = 0; k < x.count; k++) {
        for (int i = 0; i <= SEQ; i++)
            refused -= all[SEQ * k + i] == 79;
        refused += tr_samples_get(&x, &index, k, 79, got) != TR_OK;
    }
    assert_non_null(strstr(tr_last_error(), "is 79, but tokens here must be in 0 .. 78"));
    assert_int_equal(refused, 0);
    tr_samples_close(&x);
    tr_index_close(&index);
    folder_remove(folder);
    free(prefix);
}

static void store_all(const struct tr_samples *x, const char *stem)
{
    for (int m = 0; m < TR_MAPS; m++)
        assert_ok(tr_samples_store(x, stem, (enum tr_samples_map)m));
}

/* The bytes that numpy.save() writes for an array of shape (4,) and of shape (3, 2), from numpy's
   description of format 1.0. */
static void numpy_bytes(void **state)
{
    static const char vector[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<u4', 'fortran_order': "
                                 "False, 'shape': (4,), }";
    static const char matrix[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<i4', 'fortran_order': "
                                 "False, 'shape': (3, 2), }";
    unsigned char got[TR_NPY_HEADER_BYTES];

    (void)state;
    tr_npy_header(&(struct tr_npy){"<u4", 4, 0}, got);
    assert_memory_equal(got, vector, sizeof vector - 1);
    for (size_t i = sizeof vector - 1; i < sizeof got - 1; i++)
        assert_int_equal(got[i], ' ');
    assert_int_equal(got[sizeof got - 1], '\n');
    tr_npy_header(&(struct tr_npy){"<i4", 3, 2}, got);
    assert_memory_equal(got, matrix, sizeof matrix - 1);
    assert_int_equal(tr_npy_bytes(&(struct tr_npy){"<i4", 3, 2}), 128 + 24);
    assert_int_equal(tr_npy_bytes(&(struct tr_npy){"<i8", 3, 0}), 128 + 24);
}

static void files(void **state)
{
    char *folder = folder_make(), *stem = tr_format("%s/a_train", folder);
    char *document = tr_format("%s_doc_idx.npy", stem);
    char *shuffle = tr_format("%s_shuffle_idx.npy", stem);
    struct tr_samples_spec spec = spec_of(small, 47, 32, 150);
    struct tr_samples x, y;
    unsigned char *image;

    (void)state;
    assert_ok(tr_samples_make(&spec, "test", &x));
    assert_ok(tr_samples_plan(&spec, "test", &y));
    assert_fails(TR_EIO, "a_train_doc_idx.npy", tr_samples_load(&y, stem));
    store_all(&x, stem);
    assert_int_equal(folder_count(folder), 3);
    assert_ok(tr_samples_load(&y, stem));
    assert_ok(tr_samples_verify(&y, NULL));
    assert_int_equal(tr_samples_fingerprint(&x), tr_samples_fingerprint(&y));
    assert_memory_equal(x.document, y.document, (size_t)x.entries * 4);
    assert_memory_equal(x.row, y.row, (size_t)(x.count + 1) * 8);
    assert_memory_equal(x.shuffle, y.shuffle, (size_t)x.count * 4);
    tr_samples_close(&y);

    /* Each kind of damage that the header and the length show. */
    assert_ok(tr_samples_plan(&spec, "test", &y));
    assert_int_equal(truncate(shuffle, 127), 0);
    assert_fails(TR_EDATA, "header of 118 bytes, in a file of 127", tr_samples_load(&y, stem));
    assert_int_equal(truncate(shuffle, 9), 0);
    assert_fails(TR_EDATA, "not a numpy file", tr_samples_load(&y, stem));
    store_all(&x, stem);
    assert_int_equal(truncate(document, 128 + 4 * x.entries - 1), 0);
    assert_fails(TR_EDATA, "its header promises 504", tr_samples_load(&y, stem));
    image = x.part[TR_MAP_ROW].image;
    assert_int_equal(image[21], '<');
    image[21] = '>';
    store_all(&x, stem);
    assert_fails(TR_EDATA, "where an array of <i4 (204, 2) is expected", tr_samples_load(&y, stem));
    image[21] = '<';
    store_all(&x, stem);
    assert_ok(tr_samples_load(&y, stem));
    tr_samples_close(&y);
    tr_samples_close(&x);
    folder_remove(folder);
    free(stem);
    free(document);
    free(shuffle);
}

/* A change of any one entry is found; here of 600 at random, and of three chosen ones. */
static void damaged_maps(void **state)
{
    struct tr_rng r = tr_rng_key(3, TR_STREAM_INIT, 0, 0);
    struct tr_samples_spec spec = spec_of(small, 47, 32, 150);
    struct tr_samples x;
    uint64_t draw = 0;

    (void)state;
    assert_ok(tr_samples_make(&spec, "test", &x));
    for (int i = 0; i < 600; i++) {
        enum tr_samples_map m = (enum tr_samples_map)(i % TR_MAPS);
        size_t bytes = (size_t)(tr_npy_bytes(&x.array[m]) - TR_NPY_HEADER_BYTES);
        unsigned char *at = x.part[m].image + TR_NPY_HEADER_BYTES + tr_rng_u32(r, draw++) % bytes;
        unsigned char flip = (unsigned char)(1u << tr_rng_u32(r, draw++) % 8);

        *at ^= flip;
        assert_fails(TR_EDATA, "does not fit its dataset", tr_samples_verify(&x, NULL));
        *at ^= flip;
    }
    assert_ok(tr_samples_verify(&x, NULL));

    uint32_t *shuffle = (uint32_t *)(void *)(x.part[TR_MAP_SHUFFLE].image + TR_NPY_HEADER_BYTES);
    uint32_t was = shuffle[0];
    shuffle[0] = shuffle[x.count - 1];
    shuffle[x.count - 1] = was;
    assert_fails(TR_EDATA, "does not fit its dataset at entry 0", tr_samples_verify(&x, NULL));
    tr_samples_close(&x);
}

/* Maps that were not verified (other ranks trust the first) still never lead outside the data. */
static void damaged_maps_read(void **state)
{
    enum { N = 47, SEQ = 32 };
    char *folder = folder_make(), *prefix = tr_format("%s/set", folder);
    struct tr_rng r = tr_rng_key(4, TR_STREAM_INIT, 0, 0);
    struct tr_samples_spec spec;
    struct tr_samples x;
    struct tr_index index;
    uint64_t draw = 0;
    int refused = 0, text[SEQ + 1];

    (void)state;
    write_counting(prefix, small, N);
    assert_ok(tr_index_open(prefix, &index));
    spec = (struct tr_samples_spec){index.sizes, 0, N, SEQ, 60, 1234};
    assert_ok(tr_samples_make(&spec, "test", &x));
    for (int i = 0; i < 600; i++) {
        enum tr_samples_map m = (enum tr_samples_map)(i % TR_MAPS);
        size_t bytes = (size_t)(tr_npy_bytes(&x.array[m]) - TR_NPY_HEADER_BYTES);
        unsigned char *at = x.part[m].image + TR_NPY_HEADER_BYTES + tr_rng_u32(r, draw++) % bytes;
        unsigned char flip = (unsigned char)(1u << tr_rng_u32(r, draw++) % 8);

        *at ^= flip;
        for (int64_t k = 0; k < x.count; k++)
            if (tr_samples_get(&x, &index, k, 5000, text) != TR_OK) {
                assert_non_null(strstr(tr_last_error(), "does not fit its dataset"));
                refused++;
            }
        *at ^= flip;
    }
    assert_true(refused > 300);
    tr_samples_close(&x);
    tr_index_close(&index);
    folder_remove(folder);
    free(prefix);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(same_as_megatron, fill),
        cmocka_unit_test_setup(same_as_numpy, fill),
        cmocka_unit_test_setup(heads, fill),
        cmocka_unit_test(last_epoch),
        cmocka_unit_test(refusals),
        cmocka_unit_test(many_samples),
        cmocka_unit_test(text_of_samples),
        cmocka_unit_test(numpy_bytes),
        cmocka_unit_test_setup(files, fill),
        cmocka_unit_test_setup(damaged_maps, fill),
        cmocka_unit_test_setup(damaged_maps_read, fill),
    };
    return run_tap(tests);
}
