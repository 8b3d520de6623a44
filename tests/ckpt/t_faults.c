/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "ckpt/fault.h"
#include "ckpt/small.h"
#include "data/folder.h"
#include "util/file.h"
#include "util/log.h"

/* One rank, without MPI, whose disk fails or which is killed at each moment of a save. */
static struct tr_comm self;
static struct tr_grid grid;
static struct tr_shape shape;
static char *dir;

/* A small model: every moment is tried. */
static int setup(void **state)
{
    (void)state;
    if (!small_alone(&self, &grid, &shape))
        return -1;
    shape.dims.layers = 1;
    shape.layout = tr_layout_single(1);
    dir = folder_make();
    tr_log_level(TR_LOG_ERROR);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    folder_remove(dir);
    tr_grid_close(&grid);
    return 0;
}

static enum tr_status save(int64_t iteration)
{
    return small_save(&grid, &shape, dir, iteration, 1);
}

static int64_t load(void)
{
    int64_t iteration;

    assert_ok(small_load(&grid, &shape, dir, &iteration));
    return iteration;
}

static int64_t latest(void)
{
    int64_t iteration;

    assert_ok(tr_ckpt_latest(dir, &iteration));
    return iteration;
}

/* Names in the folder that begin with a dot: what is not complete, or to be removed. */
static int hidden(void)
{
    DIR *d = opendir(dir);
    int n = 0;

    for (struct dirent *e; (e = readdir(d)) != NULL;)
        n += e->d_name[0] == '.' && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

/* The folder with the checkpoint of iteration 1, and of 2 as well. */
static void start(bool two)
{
    memset(&fault, 0, sizeof fault);
    folder_remove(tr_format("%s", dir));
    assert_int_equal(mkdir(dir, 0777), 0);
    assert_ok(save(1));
    if (two)
        assert_ok(small_save(&grid, &shape, dir, 2, 0));
}

/* Save in a child that is killed before call `at`; false when it had ended before that. */
static bool killed_at(int64_t at, int64_t iteration, bool no_exchange)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        fault.no_exchange = no_exchange;
        fault.kind = FAULT_KILL;
        fault.at = at;
        fault.dir = dir;
        _exit(save(iteration) != TR_OK);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

/* At every moment the tracker names a checkpoint that is whole: the old one or the new one. */
static void killed(void **state)
{
    int64_t at = 0, seen[3] = {0};

    (void)state;
    for (start(false); killed_at(at, 2, false); at++) {
        int64_t loaded = load();

        assert_true(loaded == 1 || loaded == 2);
        assert_int_equal(loaded, latest());
        seen[loaded]++;
        /* And the next save clears up. */
        assert_ok(save(3));
        assert_int_equal(hidden(), 0);
        assert_int_equal(folder_count(dir), 2);
        start(false);
    }
    /* 16 parameters of 3 kinds are 48 writes at least, and then there is the tidying. */
    assert_true(seen[1] > 50);
    assert_true(seen[2] > 3);
}

/* The same, over a checkpoint of the same iteration. */
static void killed_replacing(void **state)
{
    (void)state;
    for (int64_t at = 40; start(true), killed_at(at, 2, false); at++)
        assert_int_equal(load(), 2);
}

/* The same, where names cannot be exchanged: then the one before may be what is left. */
static void killed_between_names(void **state)
{
    int64_t seen[3] = {0};

    (void)state;
    for (int64_t at = 40; start(true), killed_at(at, 2, true); at++) {
        int64_t loaded = load();

        assert_true(loaded == 1 || loaded == 2);
        seen[loaded]++;
    }
    assert_true(seen[1] <= 2 && seen[2] > 10);
}

/* A call that fails: the save says so and leaves no trace, or it is complete and says that. */
static void failing(void **state)
{
    static const int errors[] = {ENOSPC, EIO, EDQUOT};
    int64_t at = 0, failed = 0;

    (void)state;
    for (;; at++) {
        enum tr_status s;

        start(false);
        fault.kind = FAULT_ERROR;
        fault.error = errors[at % 3];
        fault.at = at;
        fault.dir = dir;
        s = save(2);
        fault.dir = NULL;
        if (fault.calls <= at)
            break;
        if (s == TR_OK) {
            assert_int_equal(latest(), 2);
        } else {
            assert_int_equal(s, TR_EIO);
            assert_non_null(strstr(tr_last_error(), strerror(fault.error)));
            assert_non_null(strstr(tr_last_error(), dir));
            assert_int_equal(hidden(), 0);
            failed++;
        }
        /* A checkpoint that has its name but whose tracker could not be flushed is whole as well. */
        assert_true(load() == latest());
        assert_ok(save(3));
        assert_int_equal(hidden(), 0);
    }
    assert_true(failed > 50 && failed < at);
}

/* Tensors of several MB begin to go to the disk before fsync(), and its errors are not lost. */
static void failing_early(void **state)
{
    struct tr_shape model = shape;
    int64_t at = 0, writes;

    (void)state;
    model.dims.hidden = 512;
    model.dims.head_dim = 128;
    model.dims.ffn = 2048;
    start(false);
    fault.kind = FAULT_NONE;
    fault.dir = dir;
    fault.calls = fault.syncs = 0;
    assert_ok(small_save(&grid, &model, dir, 2, 0));
    writes = fault.syncs;
    /* 38 MB in windows of 4. */
    assert_in_range(writes, 9 + 5, 2 * 10);
    for (fault.kind = FAULT_EARLY, fault.error = EIO; at < writes; at += writes / 3) {
        fault.at = at;
        fault.syncs = 0;
        assert_fails(TR_EIO, strerror(EIO), small_save(&grid, &model, dir, 3, 0));
        assert_int_equal(hidden(), 0);
        assert_int_equal(latest(), 2);
    }
    fault.dir = NULL;
}

/* Short transfers and interruptions are not errors. */
static void interrupted(void **state)
{
    (void)state;
    start(false);
    fault.kind = FAULT_SHORT;
    fault.dir = dir;
    fault.at = -1;
    assert_ok(save(2));
    assert_int_equal(load(), 2);
    fault.dir = NULL;
    assert_int_equal(load(), 2);
}

/* Every read of a load, wrong once: the one before is taken. */
static void misread(void **state)
{
    int64_t at = 0;

    (void)state;
    start(true);
    for (;; at++) {
        int64_t loaded;

        fault.kind = FAULT_FLIP;
        fault.at = at;
        fault.reads = 0;
        fault.dir = dir;
        loaded = load();
        fault.dir = NULL;
        if (fault.reads <= at)
            break;
        assert_int_equal(loaded, 1);
    }
    /* The seal, the index twice and 48 tensors. */
    assert_int_equal(at, 51);
    assert_int_equal(load(), 2);
}

/* In a child, because limits and mounts cannot be taken back.  What the parent must know of it is
   whether its assertions held. */
static void in_child(void (*run)(void))
{
    int status;
    pid_t child;

    fflush(stdout);
    child = fork();
    if (child == 0) {
        run();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void expect(bool condition, const char *what)
{
    if (condition)
        return;
    tr_log(TR_LOG_ERROR, "it is false that %s; the last sentence: %s", what, tr_last_error());
    _exit(1);
}

static void limit_files(void)
{
    struct rlimit limit = {40000, 40000};

    expect(setrlimit(RLIMIT_FSIZE, &limit) == 0, "files can be limited");
    expect(save(2) == TR_EIO, "the limit is an error");
    expect(strstr(tr_last_error(), "File too large") != NULL, "the sentence has the reason");
    expect(strstr(tr_last_error(), dir) != NULL, "the sentence has the path");
    expect(signal(SIGXFSZ, SIG_DFL) == SIG_DFL, "the signal is as it was");
}

/* ulimit -f, or the quota of some file systems. */
static void limited(void **state)
{
    (void)state;
    start(false);
    in_child(limit_files);
    assert_int_equal(hidden(), 0);
    assert_int_equal(load(), 1);
}

/* A disk of 400 KB; a checkpoint takes 100 KB.  Twice without room: seen beforehand, and while it is
   written because another program has taken the room in between. */
static void fill_disk(void)
{
    int64_t n = 1;

    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", dir, "tmpfs", 0, "size=400k") != 0)
        _exit(77);
    fault.much_room = true;
    expect(save(1) == TR_OK, "there is room at first");
    while (small_save(&grid, &shape, dir, n + 1, 0) == TR_OK)
        n++;
    expect(n >= 2 && n < 10, "the disk gets full");
    expect(strstr(tr_last_error(), "No space left on device") != NULL, "the reason is said");
    expect(strstr(tr_last_error(), " MiB are free") != NULL, "and how much is free");
    expect(hidden() == 0, "nothing is left of it");
    expect(load() == n && latest() == n, "the one before is still the latest");
    fault.much_room = false;
    expect(save(n + 1) == TR_EIO && strstr(tr_last_error(), "has no room for it"),
           "it is seen beforehand");
    expect(hidden() == 0 && load() == n, "that leaves the latest too");
}

static void full(void **state)
{
    (void)state;
    start(false);
    in_child(fill_disk);
}

/* The same with a thread that writes. */
static void asynchronous(void **state)
{
    small_async = SMALL_CLAIMED;
    killed(state);
    killed_replacing(state);
    failing(state);
    interrupted(state);
    limited(state);
    full(state);
    small_async = SMALL_WAITS;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed),
        cmocka_unit_test(killed_replacing),
        cmocka_unit_test(killed_between_names),
        cmocka_unit_test(failing),
        cmocka_unit_test(failing_early),
        cmocka_unit_test(interrupted),
        cmocka_unit_test(misread),
        cmocka_unit_test(limited),
        cmocka_unit_test(full),
        cmocka_unit_test(asynchronous),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
