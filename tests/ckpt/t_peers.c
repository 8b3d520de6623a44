/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/fault.h"
#include "ckpt/small.h"
#include "comm/grid.h"
#include "data/folder.h"
#include "util/log.h"

/* One rank of several whose disk fails: all ranks come back, with the same status and sentence. */
static struct tr_grid grid;
static struct tr_shape shape;
static enum small_kind kind;
static char root[256];

static enum tr_status save(int64_t iteration)
{
    return small_save_as(&grid, &shape, kind, root, iteration, 0);
}

static bool loads(int64_t want)
{
    int64_t iteration;

    return small_load_as(&grid, &shape, kind, root, &iteration) == TR_OK && iteration == want;
}

/* Call number `at` of rank `rank` from now on has a fault. */
static void plan_fault(int rank, enum fault_kind what, int64_t at)
{
    memset(&fault, 0, sizeof fault);
    if (rank != world.rank)
        return;
    fault.kind = what;
    fault.error = EIO;
    fault.at = at;
    fault.dir = root;
}

/* The status and sentence of every rank are those of rank 0. */
static bool same_everywhere(enum tr_status s)
{
    char theirs[1024];
    int status = (int)s;

    snprintf(theirs, sizeof theirs, "%s", tr_last_error());
    MPI_Bcast(theirs, sizeof theirs, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Bcast(&status, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return status == (int)s && strcmp(theirs, tr_last_error()) == 0;
}

static bool nothing_hidden(void)
{
    DIR *d = opendir(root);
    bool none = d != NULL;

    for (struct dirent *e; d && (e = readdir(d)) != NULL;)
        none &= strncmp(e->d_name, ".iter_", 6) != 0;
    closedir(d);
    return none;
}

/* So many calls lie between the faults that are tried; of eight ranks more, but for TR_TEST_ALL. */
static int64_t stride(int64_t all)
{
    return world.size <= 4 || getenv("TR_TEST_ALL") ? all : all + 4;
}

/* Each rank in turn cannot write, at several moments. */
static void cannot_write(void **state)
{
    int tried = 0;

    (void)state;
    assert_all_ok(save(100));
    for (int rank = 0; rank < world.size; rank++) {
        for (int64_t at = rank == 0 ? 0 : 1; at < 40; at += stride(7)) {
            enum tr_status s;

            plan_fault(rank, FAULT_ERROR, at);
            s = save(200);
            fault.dir = NULL;
            /* A rank may have less to write than that, and then nothing failed. */
            if (tr_comm_max(&world, fault.calls) <= at) {
                assert_all_ok(s);
                assert_all_ok(save(100));
                break;
            }
            tried++;
            assert_all(s == TR_EIO);
            assert_all(same_everywhere(s));
            assert_all(strstr(tr_last_error(), strerror(EIO)) != NULL);
            assert_all(world.size == 1 || strstr(tr_last_error(), "(rank ") != NULL);
            assert_all(nothing_hidden());
            assert_all(loads(100));
        }
    }
    assert_all(tried > 2 * world.size);
    assert_all_ok(save(200));
    assert_all(loads(200));
}

/* Each rank in turn reads a wrong bit, the last one in every piece that it reads: among them is the
   second copy of the word embedding (of eight ranks, with TR_TEST_ALL).  All go back together. */
static void misreads(void **state)
{
    (void)state;
    for (int rank = 0; rank < world.size; rank++) {
        for (int64_t at = 2;; at += rank == world.size - 1 ? stride(1) : 15) {
            bool read;

            plan_fault(rank, FAULT_FLIP, at);
            read = loads(100);
            fault.dir = NULL;
            if (tr_comm_max(&world, fault.reads) <= at)
                break;
            assert_all(read);
        }
    }
    assert_all(loads(200));
}

/* The same where each replica reads and writes a part of its own. */
static void sharded(void **state)
{
    kind = SMALL_SHARDED;
    cannot_write(state);
    misreads(state);
    kind = SMALL_WHOLE;
    assert_all(loads(200));
}

/* The same with threads that write. */
static void asynchronous(void **state)
{
    small_async = SMALL_AT_ONCE;
    kind = SMALL_SHARDED;
    cannot_write(state);
    small_async = SMALL_CLAIMED;
    kind = SMALL_SHARDED_FLAT;
    cannot_write(state);
    kind = SMALL_WHOLE;
    cannot_write(state);
    small_async = SMALL_WAITS;
}

/* A folder that only some ranks reach. */
static void not_shared(void **state)
{
    char kept[sizeof root];
    int64_t iteration;
    enum tr_status s;

    (void)state;
    memcpy(kept, root, sizeof kept);
    if (world.rank == world.size - 1)
        snprintf(root, sizeof root, "%.200s/elsewhere", kept);
    if (world.size > 1) {
        s = save(300);
        assert_all(s == TR_EIO);
        assert_all(strstr(tr_last_error(), "file system that all nodes share") != NULL);
        s = small_load(&grid, &shape, root, &iteration);
        assert_all(s == TR_EDATA);
        assert_all(strstr(tr_last_error(), "no checkpoint in") != NULL);
    }
    memcpy(root, kept, sizeof kept);
    assert_all(loads(200));
}

/* All ranks learn that the model is another one. */
static void other_model(void **state)
{
    struct tr_shape kept = shape;
    int64_t iteration;
    enum tr_status s;

    (void)state;
    shape.dims.vocab = 39;
    s = small_load(&grid, &shape, root, &iteration);
    shape = kept;
    assert_all(s == TR_EDATA);
    assert_all(same_everywhere(s));
    assert_all(strstr(tr_last_error(), "vocab_size 37 and not 39") != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cannot_write), cmocka_unit_test(misreads),   cmocka_unit_test(sharded),
        cmocka_unit_test(asynchronous), cmocka_unit_test(not_shared), cmocka_unit_test(other_model),
    };
    char *dir = NULL;
    int w, p, d, failed;

    check_world();
    tr_log_level(TR_LOG_ERROR);
    w = world.size >= 2 ? 2 : 1;
    p = world.size >= 4 ? 2 : 1;
    d = world.size / (w * p);
    shape = small_shape(w, p, d, 1);
    if (tr_grid_open(&world, &shape.layout, &grid) != TR_OK)
        return check_done(1);
    if (world.rank == 0) {
        dir = folder_make();
        snprintf(root, sizeof root, "%s", dir);
    }
    MPI_Bcast(root, sizeof root, MPI_CHAR, 0, MPI_COMM_WORLD);
    failed = run_tap(tests);
    if (dir)
        folder_remove(dir);
    tr_grid_close(&grid);
    return check_done(failed);
}
