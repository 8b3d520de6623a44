/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "comm/comm.h"
#include "data/batch.h"
#include "data/cyclic.h"
#include "data/folder.h"
#include "data/indexed.h"
#include "data/numbers.h"
#include "data/samples.h"
#include "util/log.h"

/* A dataset of N documents of 1 + (7919 i mod 997) tokens, token t of the whole being t mod
   50000, and what was printed on stdout and stderr by the last call of open_data(). */
enum { DOCUMENTS = 10000, VOCAB = 50000, SEQ = 1024 };

static struct {
    char *folder, *prefix;
    struct tr_comm world;
    struct tr_config config;
    struct tr_shape shape;
    char *out, *err;
} at;

static int32_t size_of(int i)
{
    return 1 + 7919 * i % 997;
}

/* One dataset for all tests; each test has a folder of its own for the index maps. */
static int make_set(void **state)
{
    (void)state;
    at.folder = folder_make();
    at.prefix = tr_format("%s/set", at.folder);
    numbers_write(at.prefix, DOCUMENTS, size_of, VOCAB);
    return 0;
}

static int remove_set(void **state)
{
    (void)state;
    folder_remove(at.folder);
    free(at.prefix);
    free(at.out);
    free(at.err);
    return 0;
}

static int setup(void **state)
{
    *state = folder_make();
    tr_comm_self(&at.world);
    tr_config_init(&at.config);
    at.config.seq_length = SEQ;
    if (tr_config_set(&at.config, "data-path", at.prefix) != TR_OK ||
        tr_config_set(&at.config, "data-cache-path", *state) != TR_OK ||
        tr_config_set(&at.config, "split", "949,50,1") != TR_OK)
        return 1;
    at.shape = (struct tr_shape){.dims.vocab = VOCAB,
                                 .amounts.train_samples = 4000,
                                 .amounts.valid_samples = 440,
                                 .amounts.test_samples = 40};
    return 0;
}

static int teardown(void **state)
{
    tr_config_release(&at.config);
    folder_remove(*state);
    return 0;
}

/* Put a descriptor onto a file, and give back what it was. */
static int divert(int fd, const char *path)
{
    int was = dup(fd), file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    fflush(NULL);
    dup2(file, fd);
    close(file);
    return was;
}

static char *restore(int fd, int was, const char *path)
{
    char *text = NULL;

    dup2(was, fd);
    close(was);
    if (tr_file_text(path, 1 << 20, &text) != TR_OK)
        tr_die(TR_EIO, "%s", tr_last_error());
    return text;
}

static enum tr_status open_data(struct tr_data **x)
{
    char *out = tr_format("%s/out", at.folder), *err = tr_format("%s/err", at.folder);
    int was_out = divert(STDOUT_FILENO, out), was_err = divert(STDERR_FILENO, err);
    enum tr_status s = tr_data_open(&at.config, &at.shape, &at.world, NULL, x);

    free(at.out);
    free(at.err);
    at.out = restore(STDOUT_FILENO, was_out, out);
    at.err = restore(STDERR_FILENO, was_err, err);
    free(out);
    free(err);
    return s;
}

/* Put a # for every number with a point in it, as times have. */
static char *without_times(const char *text)
{
    char *copy = tr_format("%s", text), *to = copy;

    for (const char *from = copy; *from;) {
        size_t n = strspn(from, "0123456789.");

        if (n > 0 && memchr(from, '.', n) && n > strspn(from, ".")) {
            *to++ = '#';
            from += n;
        } else {
            *to++ = *from++;
        }
    }
    *to = '\0';
    return copy;
}

static void assert_printed(const char *expected)
{
    char *got = without_times(at.out), *wanted = tr_format("%s", expected);

    for (char *g = got, *w = wanted; *w || *g;) {
        size_t n = strcspn(g, "\n"), m = strcspn(w, "\n");

        if (n != m || strncmp(g, w, n) != 0)
            fail_msg("printed \"%.*s\" where \"%.*s\" was expected", (int)n, g, (int)m, w);
        g += n + (g[n] != '\0');
        w += m + (w[m] != '\0');
    }
    free(got);
    free(wanted);
}

/* What Megatron printed for 10000 documents in a public log of May 2021, with the counts of our
   sizes: the first split is among those that its own code counted (t_samples), the others have T =
   244782 and 5985 tokens, so E = 2 and 7, and floor((E T - 1) / 1024) + 1 rows. */
static void lines(void **state)
{
    static const char head[] = "> building train, validation, and test datasets ...\n"
                               " > datasets target sizes (minimum size):\n"
                               "    train:      4000\n"
                               "    validation: 440\n"
                               "    test:       40\n"
                               "> building train, validation, and test datasets for GPT ...\n"
                               " > building dataset index ...\n"
                               "    reading sizes...\n"
                               "    reading pointers...\n"
                               "    reading document index...\n"
                               "    creating numpy buffer of mmap...\n"
                               "    creating memory view of numpy buffer...\n"
                               " > finished creating indexed dataset in # seconds\n"
                               "    number of documents: 10000\n"
                               " > dataset split:\n"
                               "    train:\n"
                               "     document indices in [0, 9490) total of 9490 documents\n"
                               "    validation:\n"
                               "     document indices in [9490, 9990) total of 500 documents\n"
                               "    test:\n"
                               "     document indices in [9990, 10000) total of 10 documents\n";
    static const char one[] = " > loading doc-idx mapping from %s_doc_idx.npy\n"
                              " > loading sample-idx mapping from %s_sample_idx.npy\n"
                              " > loading shuffle-idx mapping from %s_shuffle_idx.npy\n"
                              "    loaded indexed file in # seconds\n"
                              "    total number of samples: %d\n"
                              "    total number of epochs: %d\n";
    static const struct {
        const char *name;
        int rows, epochs;
    } maps[] = {
        {"train_indexmap_4000ns", 4630, 1},
        {"valid_indexmap_440ns", 479, 2},
        {"test_indexmap_40ns", 41, 7},
    };
    char *expected = tr_format("%s", head), *longer;
    struct tr_data *x;

    for (int k = 0; k < 3; k++) {
        char *stem = tr_format("%s/set_%s_1024sl_1234s", (char *)*state, maps[k].name);
        char *block = tr_format(one, stem, stem, stem, maps[k].rows, maps[k].epochs);

        longer = tr_format("%s%s", expected, block);
        free(expected);
        free(block);
        free(stem);
        expected = longer;
    }
    longer = tr_format("%s> finished creating GPT datasets ...\n", expected);

    assert_ok(open_data(&x));
    assert_non_null(strstr(at.out, "building the indices on rank 0"));
    assert_string_equal(at.err, "");
    tr_data_close(x);
    assert_int_equal(folder_count(*state), 9);

    assert_ok(open_data(&x));
    assert_printed(longer);
    assert_string_equal(at.err, "");
    assert_int_equal(tr_data_size(x, TR_SPLIT_TRAIN), 4629);
    tr_data_close(x);
    free(expected);
    free(longer);
}

/* The order of the whole split against maps that are built separately, whose bytes t_samples
   compares. */
static void order(void **state)
{
    static int32_t got[SEQ + 1], expected[SEQ + 1];
    struct tr_samples_spec spec;
    struct tr_samples maps;
    struct tr_index index;
    struct tr_data *x;

    (void)state;
    assert_ok(open_data(&x));
    assert_ok(tr_index_open(at.prefix, &index));
    spec = (struct tr_samples_spec){index.sizes, 9490, 9990, SEQ, 440, 1234};
    assert_ok(tr_samples_make(&spec, "test", &maps));
    assert_int_equal(tr_data_size(x, TR_SPLIT_VALID), maps.count);
    for (int64_t k = 0; k < maps.count; k++) {
        assert_ok(tr_data_sample(x, TR_SPLIT_VALID, k, got));
        assert_ok(tr_samples_get(&maps, &index, k, VOCAB, expected));
        assert_memory_equal(got, expected, sizeof got);
    }
    assert_fails(TR_EDATA,
                 "no samples left to consume: position 478 of the validation order was "
                 "asked for, and it has 478",
                 tr_data_sample(x, TR_SPLIT_VALID, 478, got));
    tr_data_close(x);
    tr_samples_close(&maps);
    tr_index_close(&index);
}

/* A vocabulary that the data exceed: the sentence names file, document and token. */
static void token_beyond_vocabulary(void **state)
{
    static int32_t got[SEQ + 1];
    struct tr_data *x;
    enum tr_status s = TR_OK;

    (void)state;
    at.shape.dims.vocab = 40000;
    assert_ok(open_data(&x));
    for (int64_t k = 0; k < 100 && s == TR_OK; k++)
        s = tr_data_sample(x, TR_SPLIT_TRAIN, k, got);
    assert_int_equal(s, TR_EDATA);
    assert_non_null(strstr(tr_last_error(), "set.bin is 4"));
    assert_non_null(strstr(tr_last_error(), "but tokens here must be in 0 .. 39999"));
    assert_non_null(strstr(tr_last_error(), " of document "));
    tr_data_close(x);
}

/* Splits with no documents, and splits of which nothing is wanted, have no samples. */
static void empty_splits(void **state)
{
    int32_t got[SEQ + 1];
    struct tr_data *x;

    assert_ok(tr_config_set(&at.config, "split", "100,0,0"));
    at.shape.amounts.test_samples = 0;
    assert_ok(open_data(&x));
    assert_true(tr_data_size(x, TR_SPLIT_TRAIN) >= 4000);
    assert_int_equal(tr_data_size(x, TR_SPLIT_VALID), 0);
    assert_int_equal(tr_data_size(x, TR_SPLIT_TEST), 0);
    assert_fails(TR_EDATA, "no samples left", tr_data_sample(x, TR_SPLIT_VALID, 0, got));
    assert_int_equal(folder_count(*state), 3);
    tr_data_close(x);
}

static void bad_options(void **state)
{
    static const struct {
        const char *path, *sentence;
        enum tr_status status;
    } cases[] = {
        {"a 1 b", "has 3 words", TR_ECONFIG},
        {"a b", "a is not a weight above 0", TR_ECONFIG},
        {"0 b 1 c", "0 is not a weight above 0", TR_ECONFIG},
        {"/none/of/this", "there is no /none/of/this.idx", TR_EIO},
    };
    struct tr_data *x;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_ok(tr_config_set(&at.config, "data-path", cases[i].path));
        assert_fails(cases[i].status, cases[i].sentence, open_data(&x));
        assert_null(x);
    }
    assert_ok(tr_config_set(&at.config, "data-path", NULL));
    assert_fails(TR_ECONFIG, "--data-path is missing", open_data(&x));
    assert_ok(tr_config_set(&at.config, "data-path", at.prefix));
    assert_ok(tr_config_set(&at.config, "split", "0,0,0"));
    assert_fails(TR_ECONFIG, "--split 0,0,0", open_data(&x));
}

/* A second look at the same samples, as one number. */
static uint64_t hash_of(struct tr_data *x, enum tr_split split)
{
    static int32_t text[SEQ + 1];
    uint64_t hash = 1;

    for (int64_t k = 0; k < tr_data_size(x, split); k++) {
        assert_ok(tr_data_sample(x, split, k, text));
        for (int64_t i = 0; i <= SEQ; i++)
            hash = (hash ^ (uint64_t)text[i]) * 0x9e3779b97f4a7c15;
    }
    return hash;
}

/* Maps that another --split left under the same name, and maps with a wrong bit. */
static void stale_maps(void **state)
{
    char *path = tr_format("%s/set_valid_indexmap_440ns_1024sl_1234s_doc_idx.npy", (char *)*state);
    struct tr_data *x;
    uint64_t hash;
    FILE *f;

    assert_ok(open_data(&x));
    hash = hash_of(x, TR_SPLIT_VALID);
    tr_data_close(x);

    assert_ok(tr_config_set(&at.config, "split", "900,50,50"));
    assert_ok(open_data(&x));
    assert_non_null(strstr(at.err, "it is built again"));
    assert_true(hash_of(x, TR_SPLIT_VALID) != hash);
    tr_data_close(x);

    assert_ok(tr_config_set(&at.config, "split", "949,50,1"));
    assert_ok(open_data(&x));
    assert_non_null(strstr(at.err, "valid_indexmap_440ns_1024sl_1234s"));
    assert_true(hash_of(x, TR_SPLIT_VALID) == hash);
    tr_data_close(x);

    f = fopen(path, "r+");
    assert_non_null(f);
    assert_int_equal(fseek(f, 128 + 4 * 77, SEEK_SET), 0);
    assert_int_equal(fputc(0x77, f), 0x77);
    assert_int_equal(fclose(f), 0);
    assert_ok(open_data(&x));
    assert_non_null(strstr(at.err, "doc_idx.npy does not fit its dataset"));
    assert_true(hash_of(x, TR_SPLIT_VALID) == hash);
    tr_data_close(x);
    assert_ok(open_data(&x));
    assert_string_equal(at.err, "");
    tr_data_close(x);
    free(path);
}

/* Next to the data nothing can be written, here since the names are too long: one warning, and the
   same samples. */
static void nowhere_to_write(void **state)
{
    char *prefix = tr_format("%s/%0225d", (char *)*state, 0);
    struct tr_data *x;
    uint64_t hash;
    const char *warning;

    assert_ok(open_data(&x));
    hash = hash_of(x, TR_SPLIT_VALID);
    tr_data_close(x);
    numbers_write(prefix, DOCUMENTS, size_of, VOCAB);
    assert_ok(tr_config_set(&at.config, "data-path", prefix));
    assert_ok(tr_config_set(&at.config, "data-cache-path", NULL));
    assert_ok(open_data(&x));
    warning = strstr(at.err, "give --data-cache-path a folder that can be written");
    assert_non_null(warning);
    assert_null(strstr(warning + 6, "--data-cache-path"));
    assert_null(strstr(at.out, "loading doc-idx"));
    assert_true(hash_of(x, TR_SPLIT_VALID) == hash);
    tr_data_close(x);
    free(prefix);
}

/* A folder for maps that was asked for must take them. */
static void unwritable_cache(void **state)
{
    char *inside_a_file = tr_format("%s.bin/cache", at.prefix);
    struct tr_data *x;

    (void)state;
    assert_ok(tr_config_set(&at.config, "data-cache-path", inside_a_file));
    assert_fails(TR_EIO, "give --data-cache-path another folder", open_data(&x));
    assert_null(x);
    free(inside_a_file);
}

/* Without a cache folder the maps lie next to the data. */
static void next_to_the_data(void **state)
{
    char *prefix = tr_format("%s/other", (char *)*state);
    struct tr_data *x;

    numbers_write(prefix, 500, size_of, VOCAB);
    assert_ok(tr_config_set(&at.config, "data-path", prefix));
    assert_ok(tr_config_set(&at.config, "data-cache-path", NULL));
    at.shape.amounts.train_samples = 10;
    at.shape.amounts.valid_samples = at.shape.amounts.test_samples = 0;
    assert_ok(open_data(&x));
    tr_data_close(x);
    assert_int_equal(folder_count(*state), 2 + 3);
    free(prefix);
}

/* Two datasets of the same name in different folders, one part of the mixture each. */
static void mixture(void **state)
{
    char *folder = tr_format("%s/b", (char *)*state), *prefix = tr_format("%s/set", folder);
    char *paths = tr_format("3 %s 7 %s", at.prefix, prefix);
    static const int choice[] = {1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0, 1, 1};
    static int32_t got[SEQ + 1], expected[SEQ + 1];
    struct tr_data *x;
    struct {
        struct tr_index index;
        struct tr_samples maps;
        int64_t next;
    } part[2] = {{.next = 0}};

    assert_ok(tr_make_dirs(folder));
    numbers_write(prefix, 2000, size_of, VOCAB);
    assert_ok(tr_config_set(&at.config, "data-path", paths));
    at.shape.amounts.train_samples = 20;
    assert_ok(open_data(&x));
    assert_int_equal(folder_count(*state), 1 + 2 * 9);
    assert_int_equal(tr_data_size(x, TR_SPLIT_TRAIN), 20);
    assert_non_null(strstr(at.out, "   dataset 1, input: 0.7, achieved: 0.7\n"));
    for (int p = 0; p < 2; p++) {
        struct tr_samples_spec spec = {.seq = SEQ, .wanted = p ? 15 : 7, .seed = 1234};

        assert_ok(tr_index_open(p ? prefix : at.prefix, &part[p].index));
        spec.sizes = part[p].index.sizes;
        spec.last = p ? 1898 : 9490;
        assert_ok(tr_samples_make(&spec, "test", &part[p].maps));
    }
    for (int k = 0; k < 20; k++) {
        int p = choice[k];

        assert_ok(tr_samples_get(&part[p].maps, &part[p].index, part[p].next++, VOCAB, expected));
        assert_ok(tr_data_sample(x, TR_SPLIT_TRAIN, k, got));
        assert_memory_equal(got, expected, sizeof got);
    }
    tr_data_close(x);
    assert_ok(open_data(&x));
    assert_string_equal(at.err, "");
    assert_null(strstr(at.out, "could not find"));
    tr_data_close(x);
    assert_ok(tr_config_set(&at.config, "split", "1,0,0"));
    assert_fails(TR_EDATA, "leaves none for validation", open_data(&x));
    for (int p = 0; p < 2; p++) {
        tr_samples_close(&part[p].maps);
        tr_index_close(&part[p].index);
    }
    free(folder);
    free(prefix);
    free(paths);
}

/* A dataset for each split: each is used whole, in the order that it has alone, and the mixture
   of one does not touch the others. */
static void a_path_for_each(void **state)
{
    char *prefix = tr_format("%s/small", (char *)*state), *mixed;
    static int32_t got[SEQ + 1], expected[SEQ + 1];
    struct tr_samples_spec spec;
    struct tr_samples maps;
    struct tr_index index;
    struct tr_data *x;

    numbers_write(prefix, 500, size_of, VOCAB);
    mixed = tr_format("1 %s 1 %s", at.prefix, prefix);
    assert_ok(tr_config_set(&at.config, "data-path", NULL));
    assert_ok(tr_config_set(&at.config, "train-data-path", mixed));
    assert_ok(tr_config_set(&at.config, "valid-data-path", prefix));
    assert_ok(open_data(&x));
    assert_int_equal(tr_data_size(x, TR_SPLIT_TRAIN), 4000);
    assert_int_equal(tr_data_size(x, TR_SPLIT_TEST), 0);
    assert_non_null(
        strstr(at.out, "    train:\n     document indices in [0, 10000) total of 10000"));
    assert_non_null(
        strstr(at.out, "    validation:\n     document indices in [0, 500) total of 500"));
    assert_null(strstr(at.out, "    test:\n"));

    assert_ok(tr_index_open(prefix, &index));
    spec = (struct tr_samples_spec){index.sizes, 0, 500, SEQ, 440, 1234};
    assert_ok(tr_samples_make(&spec, "test", &maps));
    assert_int_equal(tr_data_size(x, TR_SPLIT_VALID), maps.count);
    for (int64_t k = 0; k < maps.count; k++) {
        assert_ok(tr_data_sample(x, TR_SPLIT_VALID, k, got));
        assert_ok(tr_samples_get(&maps, &index, k, VOCAB, expected));
        assert_memory_equal(got, expected, sizeof got);
    }
    tr_samples_close(&maps);
    tr_index_close(&index);
    tr_data_close(x);

    assert_ok(tr_config_set(&at.config, "test-data-path", "1 x 2"));
    assert_fails(TR_ECONFIG, "--test-data-path has 3 words", open_data(&x));
    free(mixed);
    free(prefix);
}

/* Position k is the sample that the cyclic order says, for ever; another layout, another order. */
static void cyclic(void **state)
{
    static int32_t got[SEQ + 1], expected[SEQ + 1];
    struct tr_data *x, *single;
    struct tr_cyclic order;
    int64_t size;

    (void)state;
    assert_ok(open_data(&single));
    at.config.dataloader_type = TR_LOADER_CYCLIC;
    at.shape.batches.micro_batch = 4;
    at.shape.layout.d = 3;
    assert_ok(open_data(&x));
    size = tr_data_size(x, TR_SPLIT_VALID);
    assert_int_equal(size, tr_data_size(single, TR_SPLIT_VALID));
    assert_ok(tr_cyclic_open(&order, "it", size, 4, 3));
    for (int64_t k = 0; k < 2 * size; k++) {
        assert_ok(tr_data_sample(x, TR_SPLIT_VALID, k, got));
        assert_ok(tr_data_sample(single, TR_SPLIT_VALID, tr_cyclic_at(&order, k), expected));
        assert_memory_equal(got, expected, sizeof got);
    }
    tr_cyclic_close(&order);
    tr_data_close(x);
    tr_data_close(single);
    at.shape.layout.d = 200;
    assert_fails(TR_EDATA, "the data for validation has 478 samples, fewer than", open_data(&x));
}

/* No files: as many samples as are wanted, tokens below the vocabulary, and it says so. */
static void made_up(void **state)
{
    int32_t a[SEQ + 1], b[SEQ + 1];
    struct tr_data *x;
    int eods = 0;

    assert_ok(tr_config_set(&at.config, "data-path", NULL));
    at.config.mock_data = true;
    at.shape.dims.eod = VOCAB - 1;
    assert_ok(open_data(&x));
    assert_non_null(strstr(at.out, "> mock data: "));
    assert_int_equal(tr_data_size(x, TR_SPLIT_TRAIN), 4000);
    assert_int_equal(folder_count(*state), 0);
    for (int64_t k = 0; k < 100; k++) {
        assert_ok(tr_data_sample(x, TR_SPLIT_TRAIN, k, a));
        for (int t = 0; t <= SEQ; t++) {
            assert_in_range(a[t], 0, VOCAB - 1);
            eods += a[t] == VOCAB - 1;
        }
    }
    /* Binomial: 102500 draws of 1/256 have mean 400 and deviation 20. */
    assert_in_range(eods, 300, 500);
    assert_ok(tr_data_sample(x, TR_SPLIT_VALID, 99, b));
    assert_memory_not_equal(a, b, sizeof a);
    assert_ok(tr_data_sample(x, TR_SPLIT_TRAIN, 99, b));
    assert_memory_equal(a, b, sizeof a);
    assert_fails(TR_EDATA, "no samples left", tr_data_sample(x, TR_SPLIT_TRAIN, 4000, a));
    tr_data_close(x);
}

/* All tokens alike, the end of text too: chi-square of 102500 draws in 10 bins has 9 degrees, 99.99 % below 33.7. */
static void made_up_alike(void **state)
{
    int64_t count[10] = {0};
    double sum = 0.0;
    int32_t a[SEQ + 1];
    struct tr_data *x;

    (void)state;
    assert_ok(tr_config_set(&at.config, "data-path", NULL));
    at.config.mock_data = true;
    at.config.mock_distribution = TR_MOCK_UNIFORM;
    at.shape.dims.eod = VOCAB - 1;
    assert_ok(open_data(&x));
    for (int64_t k = 0; k < 100; k++) {
        assert_ok(tr_data_sample(x, TR_SPLIT_TRAIN, k, a));
        for (int t = 0; t <= SEQ; t++) {
            assert_in_range(a[t], 0, VOCAB - 1);
            count[a[t] * 10 / VOCAB]++;
        }
    }
    for (int i = 0; i < 10; i++) {
        const double expected = 100.0 * (SEQ + 1) / 10.0, off = (double)count[i] - expected;

        sum += off * off / expected;
    }
    assert_true(sum < 33.7);
    tr_data_close(x);
}

/* Started anew by file_shrinks(), because cmocka takes SIGBUS for itself: open the dataset, cut
   its .bin, read on. */
static int shrink_and_read(const char *prefix)
{
    static int32_t got[SEQ + 1];
    char *bin = tr_format("%s.bin", prefix);
    struct tr_data *x;

    tr_comm_self(&at.world);
    tr_config_init(&at.config);
    at.config.seq_length = SEQ;
    at.shape = (struct tr_shape){.dims.vocab = VOCAB, .amounts.train_samples = 100};
    if (tr_config_set(&at.config, "data-path", prefix) != TR_OK ||
        tr_data_open(&at.config, &at.shape, &at.world, NULL, &x) != TR_OK || truncate(bin, 0) != 0)
        return 1;
    for (int64_t k = 0; k < 100; k++)
        if (tr_data_sample(x, TR_SPLIT_TRAIN, k, got) != TR_OK)
            return 2;
    return 3;
}

/* Someone rewrites the data while they are in use: exit code 74, and the file by name. */
static void file_shrinks(void **state)
{
    char *prefix = tr_format("%s/other", (char *)*state), *bin = tr_format("%s.bin", prefix);
    char *err = tr_format("%s/err", (char *)*state), *said = NULL;
    pid_t child;
    int status;

    numbers_write(prefix, 500, size_of, VOCAB);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        divert(STDOUT_FILENO, "/dev/null");
        divert(STDERR_FILENO, err);
        execl("/proc/self/exe", "t_batch", prefix, (char *)NULL);
        _exit(4);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 74);
    assert_ok(tr_file_text(err, 4096, &said));
    assert_non_null(strstr(said, bin));
    free(said);
    free(err);
    free(bin);
    free(prefix);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines, setup, teardown),
        cmocka_unit_test_setup_teardown(order, setup, teardown),
        cmocka_unit_test_setup_teardown(token_beyond_vocabulary, setup, teardown),
        cmocka_unit_test_setup_teardown(empty_splits, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_options, setup, teardown),
        cmocka_unit_test_setup_teardown(stale_maps, setup, teardown),
        cmocka_unit_test_setup_teardown(nowhere_to_write, setup, teardown),
        cmocka_unit_test_setup_teardown(unwritable_cache, setup, teardown),
        cmocka_unit_test_setup_teardown(next_to_the_data, setup, teardown),
        cmocka_unit_test_setup_teardown(mixture, setup, teardown),
        cmocka_unit_test_setup_teardown(a_path_for_each, setup, teardown),
        cmocka_unit_test_setup_teardown(cyclic, setup, teardown),
        cmocka_unit_test_setup_teardown(made_up, setup, teardown),
        cmocka_unit_test_setup_teardown(made_up_alike, setup, teardown),
        cmocka_unit_test_setup_teardown(file_shrinks, setup, teardown),
    };

    if (argc == 2)
        return shrink_and_read(argv[1]);
    tr_print_details(true);
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_set, remove_set);
}
