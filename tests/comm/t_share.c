/* SPDX-License-Identifier: BSD-3-Clause */
#include "comm/mpi_check.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>

#include "comm/share.h"

/* Files that the ranks of a node open together.  A node is here what the test says. */
enum { NODE = 2 };
static char path[PATH_MAX];

static int node_of(int rank)
{
    return rank / NODE;
}

static bool is_first(void)
{
    return world.rank % NODE == 0;
}

/* The place in an open file belongs to who opened it: what is given is not what each opens itself. */
static bool place_is(int fd, off_t expected)
{
    return lseek(fd, 0, SEEK_CUR) == expected;
}

static void one_open_file_on_each_node(void **state)
{
    struct tr_share s;
    struct tr_opener by;
    char text[8] = "";
    int fd;

    (void)state;
    assert_all_ok(tr_share_open(&world, node_of(world.rank), &s));
    by = tr_share_opener(&s);
    assert_all(by.first == is_first());
    for (int i = 0; i < 3; i++) {
        fd = tr_open_by(&by, path);
        assert_all(fd >= 0);
        assert_all((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
        if (is_first())
            lseek(fd, 3 + node_of(world.rank), SEEK_SET);
        MPI_Barrier(MPI_COMM_WORLD);
        assert_all(place_is(fd, 3 + node_of(world.rank)));
        assert_all(pread(fd, text, 5, 2) == 5 && strcmp(text, "all o") == 0);
        close(fd);
    }
    tr_share_close(&s);
    assert_all(s.peer == NULL && s.node.size == 0);
}

/* Only the first rank of a node looks, so what it finds is what all find. */
static void an_error_is_that_of_all(void **state)
{
    char name[PATH_MAX];
    struct tr_share s;
    struct tr_opener by;

    (void)state;
    assert_all_ok(tr_share_open(&world, node_of(world.rank), &s));
    by = tr_share_opener(&s);
    snprintf(name, sizeof name, "%s", is_first() ? "nowhere/at/all" : path);
    errno = 0;
    assert_all(tr_open_by(&by, name) == -1 && errno == ENOENT);
    /* And what it can open they get, whatever they call it. */
    snprintf(name, sizeof name, "%s", is_first() ? path : "nowhere/at/all");
    int fd = tr_open_by(&by, name);
    assert_all(fd >= 0);
    close(fd);
    tr_share_close(&s);
}

/* Where the others have no room for what they are given, they open for themselves when they have. */
static void no_room_for_more(void **state)
{
    struct rlimit was, none;
    struct tr_share s;
    struct tr_opener by;
    int fd;

    (void)state;
    assert_all_ok(tr_share_open(&world, node_of(world.rank), &s));
    by = tr_share_opener(&s);
    getrlimit(RLIMIT_NOFILE, &was);
    none = was;
    /* Below all that a thread of MPI may close meanwhile. */
    none.rlim_cur = STDERR_FILENO + 1;
    if (!is_first())
        setrlimit(RLIMIT_NOFILE, &none);
    fd = tr_open_by(&by, path);
    setrlimit(RLIMIT_NOFILE, &was);
    assert_all(is_first() ? fd >= 0 : fd == -1);
    if (fd >= 0)
        close(fd);
    /* The next one is in step again. */
    fd = tr_open_by(&by, path);
    assert_all(fd >= 0);
    close(fd);
    tr_share_close(&s);
}

/* Groups of one need no sockets. */
static void each_alone(void **state)
{
    struct tr_share s;
    struct tr_opener by;
    int fd;

    (void)state;
    assert_all_ok(tr_share_open(&world, world.rank, &s));
    by = tr_share_opener(&s);
    assert_all(by.first && s.peer == NULL);
    fd = tr_open_by(&by, path);
    assert_all(fd >= 0);
    close(fd);
    tr_share_close(&s);
    assert_all(tr_open_is_first(NULL));
    fd = tr_open_by(NULL, path);
    assert_all(fd >= 0);
    close(fd);
}

static int prepare(void **state)
{
    const char *folder = getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp";
    FILE *f;

    (void)state;
    if (world.rank == 0)
        snprintf(path, sizeof path, "%s/trireme-share.%ld", folder, (long)getpid());
    MPI_Bcast(path, sizeof path, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (world.rank != 0)
        return 0;
    f = fopen(path, "w");
    if (!f)
        return -1;
    fputs("; all of it", f);
    return fclose(f);
}

static int tidy(void **state)
{
    (void)state;
    MPI_Barrier(MPI_COMM_WORLD);
    return world.rank == 0 ? unlink(path) : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_open_file_on_each_node, prepare, tidy),
        cmocka_unit_test_setup_teardown(an_error_is_that_of_all, prepare, tidy),
        cmocka_unit_test_setup_teardown(no_room_for_more, prepare, tidy),
        cmocka_unit_test_setup_teardown(each_alone, prepare, tidy),
    };

    return run_mpi_tap(tests);
}
