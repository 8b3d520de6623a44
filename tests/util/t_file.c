/* SPDX-License-Identifier: BSD-3-Clause */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "util/file.h"
#include "util/status.h"

static char folder[] = "/tmp/t_file.XXXXXX";

static void make_socket(const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    assert_true(fd >= 0 && strlen(name) < sizeof at.sun_path);
    memcpy(at.sun_path, name, strlen(name) + 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    close(fd);
}

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(mkfifo("fifo", 0666), 0);
    assert_int_equal(mkdir("folder", 0777), 0);
    assert_int_equal(symlink("text", "link"), 0);
    assert_int_equal(symlink("fifo", "link-to-fifo"), 0);
    assert_ok(tr_file_replace("text", "a text", 6));
    make_socket("socket");
    return 0;
}

static int clean_up(void **state)
{
    static const char *const names[] = {"fifo", "link", "link-to-fifo", "text", "socket"};

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(names[i]);
    return rmdir("folder") != 0 || chdir("/") != 0 || rmdir(folder) != 0;
}

static void is_refused(const char *path, int flags, const char *why)
{
    int fd;

    assert_fails(TR_EIO, why, tr_open_file(path, flags, &fd));
    assert_int_equal(fd, -1);
    assert_non_null(strstr(tr_last_error(), path));
}

/* Whoever waits is ended by the alarm. */
static void only_regular_files(void **state)
{
    static const char *const others[] = {"fifo", "link-to-fifo", "socket", "folder", "/dev/null"};
    char *text;
    int fd;

    (void)state;
    alarm(20);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        is_refused(others[i], O_RDONLY, "not a regular file");
        is_refused(others[i], O_WRONLY, "not a regular file");
        assert_int_equal(tr_regular_text(others[i], 64, &text), TR_EIO);
        assert_null(text);
    }
    is_refused("nothing", O_RDONLY, strerror(ENOENT));
    assert_ok(tr_open_file("link", O_RDONLY, &fd));
    close(fd);
    alarm(0);
}

static void links_where_asked(void **state)
{
    (void)state;
    is_refused("link", O_RDONLY | O_NOFOLLOW, "symbolic link");
    is_refused("link", O_WRONLY | O_TRUNC | O_NOFOLLOW, "symbolic link");
}

static void texts(void **state)
{
    char *text;

    (void)state;
    assert_ok(tr_regular_text("link", 6, &text));
    assert_string_equal(text, "a text");
    free(text);
    assert_fails(TR_EDATA, "longer than", tr_regular_text("text", 5, &text));
}

/* Memory grows while it is read. */
static void long_texts(void **state)
{
    enum { BYTES = 200001 };
    char *data = malloc(BYTES), *text;

    (void)state;
    for (int i = 0; i < BYTES; i++)
        data[i] = (char)('a' + i % 23);
    assert_ok(tr_file_replace("long", data, BYTES));
    assert_ok(tr_file_text("long", BYTES, &text));
    assert_int_equal(strlen(text), BYTES);
    assert_memory_equal(text, data, BYTES);
    free(text);
    assert_fails(TR_EDATA, "longer than the 200000 bytes", tr_file_text("long", BYTES - 1, &text));
    assert_int_equal(unlink("long"), 0);
    free(data);
}

/* As from a shell's <(...): a text that the user names may be a pipe. */
static void a_users_pipe(void **state)
{
    char path[64], *text;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "words", 5), 5);
    close(ends[1]);
    snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    assert_ok(tr_file_text(path, 64, &text));
    assert_string_equal(text, "words");
    free(text);
    close(ends[0]);
}

/* A child that has ended, and so has no file any more that it still writes. */
static long ended(void)
{
    pid_t child = fork();

    if (child == 0)
        _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return (long)child;
}

static void put(const char *name)
{
    assert_ok(tr_file_replace(name, "", 0));
}

/* Only what a killed process left: not what a living one writes, nor what anybody else may have. */
static void tidy(void **state)
{
    const struct timespec old[2] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    char host[256] = "", *left, *alive, *likely;

    (void)state;
    gethostname(host, sizeof host - 1);
    left = tr_format("state.tmp.%s.%ld", host, ended());
    alive = tr_format("state.tmp.%s.%ld", host, (long)getpid());
    likely = tr_format("notes.tmp.%s.%ld", host, ended());
    put(left);
    put(alive);
    put(likely);
    put("state.tmp.elsewhere.1");
    put("state.tmp.elsewhere.2");
    put("state.tmp.elsewhere.2b");
    assert_int_equal(utimensat(AT_FDCWD, "state.tmp.elsewhere.1", old, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, "state.tmp.elsewhere.2b", old, 0), 0);
    assert_int_equal(symlink("text", "state.tmp.elsewhere.3"), 0);
    assert_int_equal(utimensat(AT_FDCWD, "state.tmp.elsewhere.3", old, AT_SYMLINK_NOFOLLOW), 0);
    tr_file_tidy(".", "stat*");
    assert_int_not_equal(access(left, F_OK), 0);
    assert_int_not_equal(access("state.tmp.elsewhere.1", F_OK), 0);
    assert_int_equal(unlink(alive), 0);
    assert_int_equal(unlink(likely), 0);
    assert_int_equal(unlink("state.tmp.elsewhere.2"), 0);
    assert_int_equal(unlink("state.tmp.elsewhere.2b"), 0);
    assert_int_equal(unlink("state.tmp.elsewhere.3"), 0);
    free(left);
    free(alive);
    free(likely);
}

/* A link that waits under the temporary name: its target is not written. */
static void replaces_no_target(void **state)
{
    char host[256] = "", *temporary, *text;

    (void)state;
    gethostname(host, sizeof host - 1);
    temporary = tr_format("new.tmp.%s.%ld", host, (long)getpid());
    assert_int_equal(symlink("text", temporary), 0);
    assert_ok(tr_file_replace("new", "another", 7));
    assert_ok(tr_file_text("text", 64, &text));
    assert_string_equal(text, "a text");
    assert_int_equal(unlink("new"), 0);
    free(text);
    free(temporary);
}

static void places(void **state)
{
    char *here = tr_format("%s/nothing/", folder);

    (void)state;
    assert_true(tr_same_place("link", "text"));
    assert_true(tr_same_place("folder/../nothing", "nothing"));
    assert_true(tr_same_place("./nothing", here));
    assert_false(tr_same_place("nothing", "folder/nothing"));
    assert_false(tr_same_place("text", "nothing"));
    assert_false(tr_same_place("nothing", "text"));
    free(here);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_regular_files),
        cmocka_unit_test(links_where_asked),
        cmocka_unit_test(texts),
        cmocka_unit_test(long_texts),
        cmocka_unit_test(a_users_pipe),
        cmocka_unit_test(tidy),
        cmocka_unit_test(replaces_no_target),
        cmocka_unit_test(places),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, set_up, clean_up);
}
