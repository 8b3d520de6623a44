/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <fcntl.h>
#include <unistd.h>

#include "data/batch.h"
#include "data/folder.h"
#include "data/indexed.h"
#include "util/log.h"

/* Datasets and index maps as several ranks see them: on a shared file system, and on local disks,
   for which each rank has a folder. */
enum { SEQ = 32, DOCUMENTS = 50, TRAIN = 60, VALID = 5, MAPS = 6 };

static struct {
    char *shared, *own; /* folders */
    struct tr_config config;
    struct tr_shape shape;
} at;

/* Tokens of document i, shuffled about by `twist` with the same sum; `more` in the last one. */
static int size_of(int i, int twist, int more)
{
    int j = i < 40 && twist ? 39 - i : i;

    return 20 + 37 * j % 101 + (i == DOCUMENTS - 1 ? more : 0);
}

static enum tr_status write_set(const char *folder, int twist, int more, int documents)
{
    char *prefix = tr_format("%s/set", folder);
    struct tr_index_writer *w;
    enum tr_status s = tr_index_writer_open(prefix, TR_INDEX_U16, &w);
    int32_t tokens[300], next = 0;

    free(prefix);
    if (s != TR_OK)
        return s;
    for (int i = 0; i < documents; i++) {
        int n = size_of(i, twist, more);

        for (int k = 0; k < n; k++)
            tokens[k] = next++;
        s = tr_index_writer_add(w, tokens, n);
        if (s != TR_OK)
            return s;
    }
    return tr_index_writer_close(w);
}

/* What is printed is a matter for t_batch; here it would only fill the log of the test. */
static enum tr_status open_in(const char *folder, const char *name, struct tr_data **x)
{
    char *prefix = tr_format("%s/%s", folder, name);
    enum tr_status s = tr_config_set(&at.config, "data-path", prefix);
    int was = dup(STDOUT_FILENO), nowhere = open("/dev/null", O_WRONLY);

    fflush(stdout);
    dup2(nowhere, STDOUT_FILENO);
    if (s == TR_OK)
        s = tr_data_open(&at.config, &at.shape, &world, NULL, x);
    dup2(was, STDOUT_FILENO);
    close(was);
    close(nowhere);
    free(prefix);
    return s;
}

static int setup(void **state)
{
    char path[256] = "";

    (void)state;
    if (world.rank == 0) {
        char *made = folder_make();

        snprintf(path, sizeof path, "%s", made);
        free(made);
    }
    MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
    at.shared = tr_format("%s", path);
    at.own = tr_format("%s/of.%d", path, world.rank);
    tr_config_init(&at.config);
    at.config.seq_length = SEQ;
    at.shape = (struct tr_shape){
        .dims.vocab = 50000, .amounts.train_samples = TRAIN, .amounts.valid_samples = VALID};
    return tr_config_set(&at.config, "split", "940,60") != TR_OK || tr_make_dirs(at.own) != TR_OK;
}

static int teardown(void **state)
{
    (void)state;
    MPI_Barrier(MPI_COMM_WORLD);
    tr_config_release(&at.config);
    if (world.rank == 0)
        folder_remove(at.shared);
    else
        free(at.shared);
    free(at.own);
    return 0;
}

static bool shared_set(void)
{
    bool ok = world.rank != 0 || write_set(at.shared, 0, 0, DOCUMENTS) == TR_OK;

    MPI_Barrier(MPI_COMM_WORLD);
    return ok;
}

/* Whether all samples can be read and are those of rank 0. */
static bool same_samples(struct tr_data *x)
{
    uint64_t hash[2] = {1, 0};
    int32_t text[SEQ + 1];

    for (int k = 0; k < TR_SPLITS; k++)
        for (int64_t i = 0; i < tr_data_size(x, (enum tr_split)k); i++) {
            if (tr_data_sample(x, (enum tr_split)k, i, text) != TR_OK)
                hash[0]++;
            for (int t = 0; t <= SEQ; t++)
                hash[0] = (hash[0] ^ (uint64_t)text[t]) * 0x9e3779b97f4a7c15;
        }
    hash[1] = hash[0];
    MPI_Bcast(&hash[1], 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
    return hash[0] == hash[1] && tr_data_size(x, TR_SPLIT_TRAIN) == 101;
}

static void one_folder(void **state)
{
    struct tr_data *x;

    (void)state;
    assert_all(shared_set());
    for (int i = 0; i < 2; i++) {
        assert_all_ok(open_in(at.shared, "set", &x));
        assert_all(same_samples(x));
        tr_data_close(x);
        assert_all(folder_count(at.shared) == 2 + MAPS + world.size);
    }
}

static void a_folder_each(void **state)
{
    struct tr_data *x;

    (void)state;
    assert_all_ok(write_set(at.own, 0, 0, DOCUMENTS));
    for (int i = 0; i < 2; i++) {
        assert_all_ok(open_in(at.own, "set", &x));
        assert_all(same_samples(x));
        tr_data_close(x);
        assert_all(folder_count(at.own) == 2 + MAPS);
    }
}

/* The disk of rank 1 holds maps of other data, of equal number and length. */
static void stale_on_one(void **state)
{
    struct tr_comm self;
    struct tr_data *x;
    struct tr_comm all = world;

    (void)state;
    tr_comm_self(&self);
    assert_all_ok(write_set(at.own, world.rank == 1, 0, DOCUMENTS));
    world = self;
    enum tr_status s = open_in(at.own, "set", &x);
    world = all;
    assert_all_ok(s);
    tr_data_close(x);
    assert_all_ok(write_set(at.own, 0, 0, DOCUMENTS));
    assert_all_ok(open_in(at.own, "set", &x));
    assert_all(same_samples(x));
    tr_data_close(x);
}

/* The common dataset under a name so long that those of maps are longer than a file system
   takes. */
static bool long_name(char *name)
{
    bool ok = shared_set();

    for (int i = 0; i < 2 && world.rank == 0; i++) {
        char *from = tr_format("%s/set.%s", at.shared, i ? "idx" : "bin");
        char *to = tr_format("%s/%s.%s", at.shared, name, i ? "idx" : "bin");

        ok = ok && link(from, to) == 0;
        free(from);
        free(to);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    return ok;
}

/* Nobody can write: each has its own maps in memory. */
static void no_cache(void **state)
{
    char *name = tr_format("%0240d", 0);
    struct tr_data *x;

    (void)state;
    assert_all(long_name(name));
    tr_log_level(TR_LOG_ERROR);
    assert_all_ok(open_in(at.shared, name, &x));
    tr_log_level(TR_LOG_WARNING);
    assert_all(same_samples(x));
    tr_data_close(x);
    assert_all(folder_count(at.shared) == 4 + world.size);
    free(name);
}

/* Where a folder was asked for, all stop with the sentence of rank 0. */
static void cache_in_a_file(void **state)
{
    char *inside_a_file = tr_format("%s/set.bin/cache", at.shared);
    struct tr_data *x;

    (void)state;
    assert_all(shared_set());
    assert_all_ok(tr_config_set(&at.config, "data-cache-path", inside_a_file));
    assert_all(open_in(at.shared, "set", &x) == TR_EIO);
    assert_all(x == NULL && strstr(tr_last_error(), "give --data-cache-path another folder"));
    free(inside_a_file);
}

/* All stop with the sentence of the one rank that cannot go on. */
static void one_cannot_read(void **state)
{
    struct tr_data *x;

    (void)state;
    assert_all(shared_set());
    assert_all(open_in(at.shared, world.rank == 1 ? "nothing" : "set", &x) == TR_EIO);
    assert_all(x == NULL);
    assert_all(strstr(tr_last_error(), "/nothing.idx") && strstr(tr_last_error(), "(rank 1 on "));
}

static void one_is_different(void **state)
{
    struct tr_data *x;

    (void)state;
    assert_all_ok(write_set(at.own, world.rank == 1, 0, DOCUMENTS));
    assert_all(open_in(at.own, "set", &x) == TR_EDATA);
    assert_all(strstr(tr_last_error(), "not the same dataset here as on rank 0") &&
               strstr(tr_last_error(), "(rank 1 on "));
    assert_all_ok(write_set(at.own, 0, world.rank == 1, DOCUMENTS));
    assert_all(open_in(at.own, "set", &x) == TR_EDATA);
    assert_all(strstr(tr_last_error(), "not the same dataset here as on rank 0"));
    assert_all_ok(write_set(at.own, 0, 0, DOCUMENTS - (world.rank == 1)));
    assert_all(open_in(at.own, "set", &x) == TR_EDATA);
    assert_all(strstr(tr_last_error(), "has 49 sequences here and 50 on another rank"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_folder, setup, teardown),
        cmocka_unit_test_setup_teardown(a_folder_each, setup, teardown),
        cmocka_unit_test_setup_teardown(stale_on_one, setup, teardown),
        cmocka_unit_test_setup_teardown(no_cache, setup, teardown),
        cmocka_unit_test_setup_teardown(cache_in_a_file, setup, teardown),
        cmocka_unit_test_setup_teardown(one_cannot_read, setup, teardown),
        cmocka_unit_test_setup_teardown(one_is_different, setup, teardown),
    };

    return run_mpi_tap(tests);
}
