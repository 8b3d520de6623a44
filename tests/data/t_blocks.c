/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "comm/comm.h"
#include "data/batch.h"
#include "data/blocks.h"
#include "data/epochs.h"
#include "data/folder.h"
#include "data/indexed.h"
#include "data/numbers.h"

/* 40 documents of 5 i mod 17 tokens, so of some lengths twice and of 0 three times; token t of the whole
   is t.  The first 30 have 237 tokens, the next 6 have 40, the last 4 have 36. */
enum { DOCUMENTS = 40, TRAIN = 237, VALID = 40, TEST = 36, VOCAB = 1000 };

static struct {
    char *folder, *prefix;
    struct tr_comm world;
    struct tr_config config;
    struct tr_shape shape;
} at;

static int32_t size_of(int i)
{
    return 5 * i % 17;
}

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
    return 0;
}

/* D = 2, B = 2, M = 1: with T = 10 an epoch of 23 blocks has 5 iterations. */
static int setup(void **state)
{
    (void)state;
    tr_comm_self(&at.world);
    tr_config_init(&at.config);
    at.config.seq_length = 10;
    at.config.n_epochs = 3;
    at.shape = (struct tr_shape){.dims.vocab = VOCAB,
                                 .dims.eod = -1,
                                 .dims.seq = 10,
                                 .layout.d = 2,
                                 .batches.micro_batch = 2,
                                 .batches.micros = 1,
                                 .batches.global_batch = 4,
                                 .epochs.count = 3,
                                 .epochs.blocks = 23,
                                 .epochs.samples = 20,
                                 .epochs.iters = 5,
                                 .epochs.replicas = 2,
                                 .epochs.seed = at.config.seed};
    return tr_config_set(&at.config, "data-path", at.prefix) != TR_OK ||
           tr_config_set(&at.config, "split", "75,15,10") != TR_OK;
}

static int teardown(void **state)
{
    (void)state;
    tr_config_release(&at.config);
    return 0;
}

/* Without what it prints. */
static enum tr_status open_data(struct tr_data **x)
{
    int was = dup(STDOUT_FILENO), none = open("/dev/null", O_WRONLY);
    enum tr_status s;

    fflush(stdout);
    dup2(none, STDOUT_FILENO);
    s = tr_data_open(&at.config, &at.shape, &at.world, NULL, x);
    fflush(stdout);
    dup2(was, STDOUT_FILENO);
    close(none);
    close(was);
    return s;
}

static void assert_text(const int32_t *text, int64_t first, int64_t seq)
{
    for (int64_t t = 0; t <= seq; t++)
        assert_int_equal(text[t], first + t);
}

/* However many samples there are, they cost no memory. */
static void no_memory(void **state)
{
    struct tr_blocks b;
    struct tr_index x;
    size_t before;

    (void)state;
    assert_ok(tr_index_open(at.prefix, &x));
    before = mallinfo2().uordblks;
    tr_blocks_open(&x, 0, DOCUMENTS, 1, -1, &b);
    assert_int_equal(b.count, TRAIN + VALID + TEST - 1);
    assert_int_equal(mallinfo2().uordblks, before);
    tr_index_close(&x);
}

/* Any length of a sample, any piece of the dataset, by arithmetic. */
static void cut(void **state)
{
    struct tr_index x;

    (void)state;
    assert_ok(tr_index_open(at.prefix, &x));
    assert_int_equal(tr_blocks_tokens(&x, 0, DOCUMENTS), TRAIN + VALID + TEST);
    for (int first = 0, before = 0; first <= DOCUMENTS; before += size_of(first), first++) {
        for (int last = first; last <= DOCUMENTS; last++) {
            for (int64_t seq = 1; seq <= 40; seq += 13) {
                const int64_t tokens = tr_blocks_tokens(&x, first, last);
                int32_t text[41];
                struct tr_blocks b;

                tr_blocks_open(&x, first, last, seq, -1, &b);
                assert_int_equal(b.tokens, tokens);
                /* One block more would need a token more than there are. */
                assert_true(b.count == 0 || b.count * seq + 1 <= tokens);
                assert_true((b.count + 1) * seq + 1 > tokens);
                for (int64_t k = 0; k < b.count; k++) {
                    assert_ok(tr_blocks_get(&b, &x, k, VOCAB, text));
                    assert_text(text, before + k * seq, seq);
                }
            }
        }
    }
    tr_index_close(&x);
}

static int32_t eleven(int i)
{
    return i == 9 ? 10 : 11;
}

/* Rows of T tokens, whose last label is none of theirs, in an order that is drawn: over two splits each row once, and
   others for another seed. */
static void within_and_shuffled(const struct tr_index *x)
{
    int32_t *row = tr_blocks_shuffled(3, 9), *other = tr_blocks_shuffled(4, 9), text[12];
    int seen[9] = {0}, moved = 0;

    for (int split = 0; split < 2; split++) {
        const struct tr_blocks_how how = {11, -1, true, row};
        struct tr_blocks b;

        assert_ok(tr_blocks_open_documents(x, split ? 7 : 0, split ? 9 : 7, &how, &b));
        assert_int_equal(b.count, split ? 2 : 7);
        for (int64_t k = 0; k < b.count; k++) {
            const int32_t which = row[(split ? 7 : 0) + k];

            assert_ok(tr_blocks_get(&b, x, k, VOCAB, text));
            assert_text(text, 11 * (int64_t)which, 10);
            assert_int_equal(text[11], 0);
            seen[which]++;
            moved += which != (split ? 7 : 0) + k;
        }
    }
    for (int i = 0; i < 9; i++)
        assert_int_equal(seen[i], 1);
    assert_true(moved > 0 && memcmp(row, other, 9 * sizeof *row) != 0);
    assert_fails(TR_EDATA, "and a sample of --seq-length 10 has 10: give --seq-length 11",
                 tr_blocks_open_documents(x, 0, 9, &(struct tr_blocks_how){10, -1, true, row},
                                          &(struct tr_blocks){0}));
    free(row);
    free(other);
}

/* Documents that are samples themselves: nothing of one is in another. */
static void documents(void **state)
{
    char *prefix = tr_format("%s/rows", at.folder);
    int32_t text[11];
    struct tr_blocks b;
    struct tr_index x;

    (void)state;
    numbers_write(prefix, 12, eleven, VOCAB);
    assert_ok(tr_index_open(prefix, &x));
    assert_ok(tr_blocks_open_documents(&x, 2, 8, &(struct tr_blocks_how){10, -1, false, NULL}, &b));
    assert_int_equal(b.count, 6);
    for (int64_t k = 0; k < 6; k++) {
        assert_ok(tr_blocks_get(&b, &x, k, VOCAB, text));
        assert_text(text, 22 + 11 * k, 10);
    }
    assert_ok(tr_blocks_open_documents(&x, 2, 8, &(struct tr_blocks_how){10, 4, false, NULL}, &b));
    assert_int_equal(b.count, 4);
    assert_ok(tr_blocks_open_documents(&x, 3, 3, &(struct tr_blocks_how){10, -1, false, NULL}, &b));
    assert_int_equal(b.count, 0);
    assert_fails(
        TR_EDATA, "document 9 of",
        tr_blocks_open_documents(&x, 2, 12, &(struct tr_blocks_how){10, -1, false, NULL}, &b));
    assert_fails(
        TR_EDATA, "give --seq-length 10",
        tr_blocks_open_documents(&x, 0, 2, &(struct tr_blocks_how){11, -1, false, NULL}, &b));
    within_and_shuffled(&x);
    tr_index_close(&x);
    /* And as a run opens them. */
    assert_ok(tr_config_set(&at.config, "data-path", prefix));
    assert_ok(tr_config_set(&at.config, "split", "8,0,4"));
    at.config.document_samples = true;
    assert_fails(TR_EDATA, "document 9 of", tr_data_count(&at.config, &at.config.blocks_known));
    numbers_write(prefix, 9, eleven, VOCAB);
    assert_ok(tr_data_count(&at.config, &at.config.blocks_known));
    assert_int_equal(at.config.blocks_known.of[0], 6);
    assert_int_equal(at.config.blocks_known.of[2], 3);
    free(prefix);
}

static void the_first(void **state)
{
    struct tr_blocks b;
    struct tr_index x;
    int32_t text[11];

    (void)state;
    assert_ok(tr_index_open(at.prefix, &x));
    tr_blocks_open(&x, 0, 30, 10, 5, &b);
    assert_int_equal(b.count, 5);
    assert_ok(tr_blocks_get(&b, &x, 4, VOCAB, text));
    assert_text(text, 40, 10);
    assert_fails(TR_EDATA, "45", tr_blocks_get(&b, &x, 4, 45, text));
    tr_blocks_open(&x, 0, 30, 10, 1000, &b);
    assert_int_equal(b.count, 23);
    tr_index_close(&x);
}

static void counts(void **state)
{
    struct tr_blocks_known k;

    (void)state;
    assert_ok(tr_data_count(&at.config, &k));
    assert_true(k.counted);
    assert_int_equal(k.of[TR_SPLIT_TRAIN], (TRAIN - 1) / 10);
    assert_int_equal(k.of[TR_SPLIT_VALID], (VALID - 1) / 10);
    assert_int_equal(k.of[TR_SPLIT_TEST], (TEST - 1) / 10);
    at.config.data_blocks = 22;
    assert_ok(tr_data_count(&at.config, &k));
    assert_int_equal(k.of[TR_SPLIT_TRAIN], 22);
    at.config.data_blocks = 24;
    assert_fails(TR_ECONFIG, "--data-blocks 24 are more samples of --seq-length 10 tokens",
                 tr_data_count(&at.config, &k));
    assert_false(k.counted);
    at.config.data_blocks = TR_UNSET_INT;
    assert_ok(tr_config_set(&at.config, "data-path", "0.5 a 0.5 b"));
    assert_fails(TR_ECONFIG, "2 datasets with weights", tr_data_count(&at.config, &k));
    assert_ok(tr_config_set(&at.config, "data-path", "/none/such"));
    assert_fails(TR_EIO, "/none/such", tr_data_count(&at.config, &k));
    assert_ok(tr_config_set(&at.config, "data-path", NULL));
    assert_fails(TR_ECONFIG, "--data-path is missing", tr_data_count(&at.config, &k));
}

/* A dataset for each split is used whole. */
static void a_path_for_each(void **state)
{
    struct tr_blocks_known k;

    (void)state;
    assert_ok(tr_config_set(&at.config, "data-path", NULL));
    assert_ok(tr_config_set(&at.config, "train-data-path", at.prefix));
    assert_ok(tr_config_set(&at.config, "test-data-path", at.prefix));
    assert_ok(tr_data_count(&at.config, &k));
    assert_int_equal(k.of[TR_SPLIT_TRAIN], (TRAIN + VALID + TEST - 1) / 10);
    assert_int_equal(k.of[TR_SPLIT_VALID], 0);
    assert_int_equal(k.of[TR_SPLIT_TEST], (TRAIN + VALID + TEST - 1) / 10);
}

/* Position, number and text of a sample belong together, in each epoch and past the end of the run. */
static void positions(void **state)
{
    struct tr_epochs order;
    struct tr_data *x;
    int32_t text[11];

    (void)state;
    assert_ok(open_data(&x));
    tr_epochs_open(&order, &at.shape.epochs, at.shape.batches.micro_batch);
    assert_int_equal(tr_data_size(x, TR_SPLIT_TRAIN), 23);
    for (int64_t k = 0; k < 100; k++) {
        int64_t id = tr_data_sample_id(x, TR_SPLIT_TRAIN, k);

        assert_int_equal(id, tr_epochs_at(&order, k));
        assert_ok(tr_data_sample(x, TR_SPLIT_TRAIN, k, text));
        assert_text(text, 10 * id, 10);
    }
    tr_epochs_close(&order);
    tr_data_close(x);
}

/* Validation and test: each once, in turn, then the first one for ever. */
static void for_evaluation(void **state)
{
    struct tr_data *x;
    int32_t text[11];

    (void)state;
    assert_ok(open_data(&x));
    assert_int_equal(tr_data_size(x, TR_SPLIT_VALID), 3);
    assert_int_equal(tr_data_size(x, TR_SPLIT_TEST), 3);
    for (int64_t k = 0; k < 50; k++) {
        assert_ok(tr_data_sample(x, TR_SPLIT_VALID, k, text));
        assert_text(text, TRAIN + (k < 3 ? 10 * k : 0), 10);
        assert_ok(tr_data_sample(x, TR_SPLIT_TEST, k, text));
        assert_text(text, TRAIN + VALID + (k < 3 ? 10 * k : 0), 10);
        assert_int_equal(tr_data_sample_id(x, TR_SPLIT_VALID, k), -1);
    }
    tr_data_close(x);
}

/* Without epochs no position has a sample that comes again. */
static void no_epochs(void **state)
{
    struct tr_data *x;

    (void)state;
    at.config.n_epochs = TR_UNSET_INT;
    at.shape.epochs = (struct tr_epoch_plan){0};
    at.shape.amounts.train_samples = 20;
    assert_ok(tr_config_set(&at.config, "data-cache-path", at.folder));
    assert_ok(open_data(&x));
    assert_int_equal(tr_data_sample_id(x, TR_SPLIT_TRAIN, 3), -1);
    tr_data_close(x);
}

/* Another number of samples than the run was started for is a dataset that changed. */
static void changed(void **state)
{
    struct tr_data *x;

    (void)state;
    at.shape.epochs.blocks = 24;
    assert_fails(TR_EDATA, "has 23 samples for training here, and the run was started for 24",
                 open_data(&x));
    assert_null(x);
}

/* The text of the samples has a number, which says that another text is another one. */
static void printed(void **state)
{
    uint64_t print, again, sum = 0;

    (void)state;
    assert_ok(tr_data_print(&at.config, &at.shape.dims, &at.shape.epochs, &at.world, &print));
    for (int64_t k = 0; k < 23; k++) {
        int32_t text[11];

        for (int64_t t = 0; t <= 10; t++)
            text[t] = (int32_t)(10 * k + t);
        sum += XXH3_64bits_withSeed(text, sizeof text, (XXH64_hash_t)k);
    }
    assert_true(print == sum);
    at.config.data_blocks = at.shape.epochs.blocks = 22;
    assert_ok(tr_data_print(&at.config, &at.shape.dims, &at.shape.epochs, &at.world, &again));
    assert_true(again != print);
    at.shape.epochs.blocks = 21;
    assert_fails(TR_EDATA, "has 22 samples for training here",
                 tr_data_print(&at.config, &at.shape.dims, &at.shape.epochs, &at.world, &again));
    assert_ok(tr_config_set(&at.config, "data-path", NULL));
    assert_ok(tr_data_print(&at.config, &at.shape.dims, &at.shape.epochs, &at.world, &again));
    assert_true(again == 0);
    at.config.mock_data = true;
    assert_ok(tr_data_print(&at.config, &at.shape.dims, &at.shape.epochs, &at.world, &print));
    at.config.seed++;
    assert_ok(tr_data_print(&at.config, &at.shape.dims, &at.shape.epochs, &at.world, &again));
    assert_true(print != 0 && again != print);
}

/* Mock data: the same text for a sample in each epoch, and nothing to evaluate. */
static void made_up(void **state)
{
    int32_t now[23][11], text[11];
    struct tr_data *x;

    (void)state;
    assert_ok(tr_config_set(&at.config, "data-path", NULL));
    at.config.mock_data = true;
    at.config.data_blocks = 22;
    assert_ok(open_data(&x));
    memset(now, 0xff, sizeof now);
    for (int64_t k = 0; k < 60; k++) {
        int64_t id = tr_data_sample_id(x, TR_SPLIT_TRAIN, k);

        assert_in_range(id, 0, 22);
        assert_ok(tr_data_sample(x, TR_SPLIT_TRAIN, k, text));
        if (now[id][0] >= 0)
            assert_memory_equal(now[id], text, sizeof text);
        memcpy(now[id], text, sizeof text);
    }
    assert_memory_not_equal(now[0], now[1], sizeof text);
    assert_int_equal(tr_data_size(x, TR_SPLIT_VALID), 0);
    tr_data_close(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(cut, setup, teardown),
        cmocka_unit_test_setup_teardown(documents, setup, teardown),
        cmocka_unit_test_setup_teardown(the_first, setup, teardown),
        cmocka_unit_test_setup_teardown(counts, setup, teardown),
        cmocka_unit_test_setup_teardown(a_path_for_each, setup, teardown),
        cmocka_unit_test_setup_teardown(positions, setup, teardown),
        cmocka_unit_test_setup_teardown(for_evaluation, setup, teardown),
        cmocka_unit_test_setup_teardown(no_epochs, setup, teardown),
        cmocka_unit_test_setup_teardown(changed, setup, teardown),
        cmocka_unit_test_setup_teardown(printed, setup, teardown),
        cmocka_unit_test_setup_teardown(made_up, setup, teardown),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_set, remove_set);
}
