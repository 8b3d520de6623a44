/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "ckpt/path.h"
#include "ckpt/small.h"
#include "data/folder.h"
#include "util/log.h"

/* One rank, without MPI, whose folder has links, FIFOs and files of others in all places: what they
   lead to, and what is not a checkpoint of this run, is the same after saving and tidying. */
static struct tr_comm self;
static struct tr_grid grid;
static struct tr_shape shape;
static char *dir, *outside; /* the folder of checkpoints, and what links in it lead to */

/* ---- what a folder holds ---- */

static void show_content(int folder, const char *name, FILE *out)
{
    unsigned char piece[4096];
    unsigned long long sum = 14695981039346656037u;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n;

    assert_true(fd >= 0);
    while ((n = read(fd, piece, sizeof piece)) > 0)
        for (ssize_t i = 0; i < n; i++)
            sum = (sum ^ piece[i]) * 1099511628211u;
    close(fd);
    fprintf(out, " content %llx", sum);
}

/* Names, inodes, kinds, times and contents of all that is in it, links not followed. */
static void show_folder(int folder, const char *path, FILE *out)
{
    struct dirent **list;
    int n = scandirat(folder, ".", &list, NULL, alphasort);

    assert_true(n >= 2);
    for (int i = 0; i < n; i++) {
        char *name = list[i]->d_name, *below = tr_format("%s/%s", path, name);
        struct stat st;

        assert_int_equal(fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW), 0);
        if (strcmp(name, "..") != 0) {
            fprintf(out, "%s inode %llu mode %o bytes %lld time %lld.%09ld", below,
                    (unsigned long long)st.st_ino, st.st_mode, (long long)st.st_size,
                    (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
            if (S_ISREG(st.st_mode))
                show_content(folder, name, out);
            fputc('\n', out);
        }
        if (S_ISDIR(st.st_mode) && name[0] != '.') {
            int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

            show_folder(fd, below, out);
            close(fd);
        }
        free(below);
        free(list[i]);
    }
    free(list);
}

static char *show(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    assert_true(fd >= 0 && f);
    show_folder(fd, path, f);
    fclose(f);
    close(fd);
    return text;
}

/* ---- what is put there ---- */

static char *in(const char *folder, const char *name)
{
    return tr_format("%s/%s", folder, name);
}

static void drop(const char *name)
{
    char *path = in(dir, name);

    assert_int_equal(unlink(path), 0);
    free(path);
}

static void put(const char *folder, const char *name)
{
    char *path = in(folder, name);

    file_put(path, "of someone else", 15);
    free(path);
}

/* A folder in `folder` that looks like a checkpoint. */
static void make_lookalike(const char *folder, const char *name)
{
    char *path = in(folder, name);

    assert_int_equal(mkdir(path, 0777), 0);
    put(path, "model_optim_rng.h5");
    put(path, "rank-00000.replica");
    free(path);
}

/* In `dir`, to what is outside. */
static void make_link(const char *target, const char *name)
{
    char *from = in(outside, target), *to = in(dir, name);

    assert_int_equal(symlink(from, to), 0);
    free(to);
    free(from);
}

static void make_fifo(const char *name)
{
    char *path = in(dir, name);

    assert_int_equal(mkfifo(path, 0666), 0);
    free(path);
}

static void make_socket(const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    char *path = in(dir, name);

    assert_true(fd >= 0 && strlen(path) < sizeof at.sun_path);
    memcpy(at.sun_path, path, strlen(path) + 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    close(fd);
    free(path);
}

static int setup(void **state)
{
    (void)state;
    if (!small_alone(&self, &grid, &shape))
        return -1;
    shape.dims.layers = 1;
    shape.layout = tr_layout_single(1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    tr_grid_close(&grid);
    return 0;
}

static int make_folders(void **state)
{
    (void)state;
    dir = folder_make();
    outside = folder_make();
    /* Whoever waits for a FIFO is ended. */
    alarm(60);
    return 0;
}

static int remove_folders(void **state)
{
    (void)state;
    alarm(0);
    folder_remove(dir);
    folder_remove(outside);
    return 0;
}

/* Save, which changes nothing outside, and what is said on stderr meanwhile; owned by the caller. */
static char *save(int64_t iteration, int keep_last)
{
    char *path = in(outside, "../t_outside.stderr"), *text, *before = show(outside), *after;
    int kept = dup(STDERR_FILENO), fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    enum tr_status s;

    assert_true(kept >= 0 && fd >= 0);
    dup2(fd, STDERR_FILENO);
    close(fd);
    s = small_save(&grid, &shape, dir, iteration, keep_last);
    dup2(kept, STDERR_FILENO);
    close(kept);
    after = show(outside);
    assert_string_equal(before, after);
    assert_ok(s);
    assert_ok(tr_file_text(path, 65536, &text));
    unlink(path);
    free(after);
    free(before);
    free(path);
    return text;
}

static void is_said(const char *text, const char *what)
{
    if (!strstr(text, what))
        fail_msg("\"%s\" is not among the warnings: %s", what, text);
}

static bool is_there(const char *name)
{
    char *path = in(dir, name);
    struct stat st;
    bool is = lstat(path, &st) == 0;

    free(path);
    return is;
}

static bool is_folder(const char *name)
{
    char *path = in(dir, name);
    struct stat st;
    bool is = lstat(path, &st) == 0 && S_ISDIR(st.st_mode);

    free(path);
    return is;
}

/* ---- tests ---- */

/* A base checkpoint that was linked into the folder of a run, older than all that are kept. */
static void a_linked_base(void **state)
{
    char *said, *base = in(outside, "base");
    int64_t iteration;

    (void)state;
    assert_ok(small_save(&grid, &shape, base, 1, 0));
    make_link("base/iter_0000001", "iter_0000001");
    for (iteration = 2; iteration < 5; iteration++)
        free(save(iteration, 2));
    said = save(5, 2);
    is_said(said, "iter_0000001 is a symbolic link, so --keep-last removes neither");
    assert_true(is_there("iter_0000001") && !is_there("iter_0000003"));
    assert_true(is_folder("iter_0000004") && is_folder("iter_0000005"));
    /* What it leads to may be loaded all the same. */
    assert_ok(small_load(&grid, &shape, base, &iteration));
    assert_int_equal(iteration, 1);
    free(said);
    free(base);
}

/* Links under the names of what a save prepares: also the one that this process is about to prepare. */
static void linked_leftovers(void **state)
{
    char *mine = tr_format(".iter_0000002.tmp-%ld", (long)getpid()), *said;

    (void)state;
    make_lookalike(outside, "a");
    make_lookalike(outside, "b");
    make_lookalike(outside, "c");
    make_link("a", ".iter_0000009.tmp-7");
    make_link("b", ".iter_0000009.old-7");
    make_link("c", mine);
    make_link("nothing", ".iter_0000009.tmp-8");
    said = save(2, 0);
    is_said(said, ".iter_0000009.tmp-7 is a symbolic link");
    is_said(said, ".iter_0000009.old-7 is a symbolic link");
    is_said(said, mine);
    assert_false(is_there(".iter_0000009.tmp-7") || is_there(".iter_0000009.old-7") ||
                 is_there(mine));
    assert_true(is_folder("iter_0000002"));
    free(said);
    free(mine);
}

/* A link where the checkpoint itself has to stand. */
static void a_link_in_its_place(void **state)
{
    char *said;
    int64_t iteration;

    (void)state;
    make_lookalike(outside, "a");
    make_link("a", "iter_0000002");
    said = save(2, 1);
    is_said(said, "iter_0000002 was a symbolic link");
    assert_true(is_folder("iter_0000002"));
    assert_ok(small_load(&grid, &shape, dir, &iteration));
    assert_int_equal(iteration, 2);
    free(said);
}

/* Inside of folders that would otherwise be removed. */
static void links_inside(void **state)
{
    char *said, *leftover;

    (void)state;
    put(outside, "model");
    make_lookalike(dir, "iter_0000001");
    make_link("model", "iter_0000001/rank-00001.replica");
    leftover = in(dir, ".iter_0000001.tmp-7");
    assert_int_equal(mkdir(leftover, 0777), 0);
    make_link("model", ".iter_0000001.tmp-7/model_optim_rng.h5");
    said = save(2, 1);
    is_said(said, "iter_0000001 holds more than a checkpoint");
    is_said(said, ".iter_0000001.tmp-7 holds more than a checkpoint");
    assert_true(is_there("iter_0000001/model_optim_rng.h5"));
    assert_true(is_there(".iter_0000001.tmp-7/model_optim_rng.h5"));
    free(said);
    free(leftover);
}

/* Files of others in the folder itself, with names like those of saves. */
static void files_of_others(void **state)
{
    static const char *const names[] = {"notes",
                                        "iter_0000002.txt",
                                        ".iter_mine.tmp-x",
                                        ".iter_0000003.tmp-",
                                        ".iter_0000003.tmp-7b",
                                        ".iter_3.tmp-7",
                                        "latest_checkpointed_iteration.txt.tmp.mine"};
    const size_t n = sizeof names / sizeof *names;
    char *said;

    (void)state;
    for (size_t i = 0; i < n; i++)
        make_lookalike(dir, names[i]);
    make_fifo("fifo");
    make_fifo("iter_0000001");
    make_socket("socket");
    free(save(2, 1));
    said = save(3, 1);
    for (size_t i = 0; i < n; i++) {
        char *file = tr_format("%s/model_optim_rng.h5", names[i]);

        assert_true(is_there(file));
        free(file);
    }
    assert_true(is_there("fifo") && is_there("socket") && is_there("iter_0000001"));
    assert_true(is_folder("iter_0000003") && !is_there("iter_0000002"));
    free(said);
}

/* Nothing is waited for where the tracker or a checkpoint is a FIFO, and the one before is taken. */
static void fifos(void **state)
{
    int64_t iteration;

    (void)state;
    tr_log_level(TR_LOG_ERROR);
    free(save(1, 0));
    free(save(2, 0));
    drop("iter_0000002/model_optim_rng.h5");
    make_fifo("iter_0000002/model_optim_rng.h5");
    assert_ok(small_load(&grid, &shape, dir, &iteration));
    assert_int_equal(iteration, 1);
    drop("latest_checkpointed_iteration.txt");
    make_fifo("latest_checkpointed_iteration.txt");
    assert_fails(TR_EIO, "latest_checkpointed_iteration.txt: it is not a regular file",
                 small_load(&grid, &shape, dir, &iteration));
    tr_log_level(TR_LOG_WARNING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folders, remove_folders)
        TEST(a_linked_base), TEST(linked_leftovers), TEST(a_link_in_its_place),
        TEST(links_inside),  TEST(files_of_others),  TEST(fifos),
#undef TEST
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, setup, teardown);
}
